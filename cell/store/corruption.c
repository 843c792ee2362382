#include "cell/store/corruption.h"

#include <stdarg.h>
#include <stdio.h>

#include "cell/sys/log.h"

static void
add(struct corruption *d, const char *before, const char *between, const char *what, va_list args)
{
	char *line;
	int len;

	if (d->n++ >= CORRUPTION_LINES)
		return;
	line = d->lines[d->n - 1];
	len = snprintf(line, CORRUPTION_LINE, "%s%s", before, between);
	vsnprintf(line + len, CORRUPTION_LINE - (size_t)len, what, args);
}

void
corruption_add(struct corruption *d, const char *file, const char *what, ...)
{
	va_list args;

	va_start(args, what);
	add(d, file, " is damaged: ", what, args);
	va_end(args);
}

void
corruption_add_line(struct corruption *d, const char *what, ...)
{
	va_list args;

	va_start(args, what);
	add(d, "", "", what, args);
	va_end(args);
}

void
corruption_log(const struct corruption *d, const char *directory)
{
	size_t n = d->n < CORRUPTION_LINES ? d->n : CORRUPTION_LINES;

	for (size_t i = 0; i < n; i++)
		log_warn("%s: %s", directory, d->lines[i]);
	if (d->n > n)
		log_warn("%s: %zu more findings of damage", directory, d->n - n);
}
