#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cell/base/must.h"

static void
say(const char *text)
{
	size_t len = strlen(text);

	while (len > 0) {
		ssize_t n = write(STDERR_FILENO, text, len);

		if (n <= 0)
			return; /* nobody listens: what matters is to stop */
		text += n;
		len -= (size_t)n;
	}
}

_Noreturn void
must_fail(const char *condition, const char *file, int line)
{
	char digits[sizeof "2147483647"];
	char *number = digits + sizeof digits - 1;

	alarm(1); /* a reader that has stopped must not keep us */
	*number = '\0';
	do
		*--number = (char)('0' + line % 10);
	while ((line /= 10) > 0);

	say(file);
	say(":");
	say(number);
	say(": broken invariant: ");
	say(condition);
	say("\n");
	abort();
}
