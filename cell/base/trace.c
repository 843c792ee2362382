#include "cell/base/trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LINES_MAX = 1 << 20, LINE_MAX_LEN = 1024 };

/* A line may quote names: a newline in one must not end it. */
static void
make_printable(char *text)
{
	for (; *text != '\0'; text++)
		if ((unsigned char)*text < ' ')
			*text = '?';
}

/* A line that is too long is cut; one that no longer fits is dropped. */
void
trace_line(struct trace *t, enum trace_kind kind, const char *format, ...)
{
	char line[LINE_MAX_LEN];
	va_list args;

	line[0] = (char)kind;
	va_start(args, format);
	vsnprintf(line + 1, sizeof line - 1, format, args);
	va_end(args);
	make_printable(line);
	t->lines.limit = LINES_MAX;
	if (t->lines.len + strlen(line) < LINES_MAX)
		buffer_printf(&t->lines, "%s\n", line);
}

const char *
trace_take(struct trace *t, enum trace_kind *kind)
{
	char *line = (char *)t->lines.data + t->taken, *end;

	if (t->taken == t->lines.len) {
		buffer_reset(&t->lines);
		t->taken = 0;
		return NULL;
	}
	end = memchr(line, '\n', t->lines.len - t->taken);
	*end = '\0';
	t->taken += (size_t)(end - line) + 1;
	*kind = (enum trace_kind)line[0];
	return line + 1;
}

void
trace_free(struct trace *t)
{
	buffer_free(&t->lines);
	t->taken = 0;
}
