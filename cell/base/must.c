#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cell/base/must.h"

static void
write_stderr(const char *text)
{
	size_t len = strlen(text);

	while (len > 0) {
		ssize_t n = write(STDERR_FILENO, text, len);

		if (n <= 0)
			return; /* the message is lost; aborting matters more */
		text += n;
		len -= (size_t)n;
	}
}

_Noreturn void
must_fail(const char *condition, const char *file, int line)
{
	char digits[sizeof "2147483647"];
	char *number = digits + sizeof digits - 1;

	alarm(1); /* a stopped reader of stderr must not delay the abort for ever */
	*number = '\0';
	do
		*--number = (char)('0' + line % 10);
	while ((line /= 10) > 0);

	write_stderr(file);
	write_stderr(":");
	write_stderr(number);
	write_stderr(": broken invariant: ");
	write_stderr(condition);
	write_stderr("\n");
	abort();
}
