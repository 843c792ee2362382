#include "cell/base/clock_io.h"

#include <stdarg.h>
#include <stdio.h>

void
clock_io_log(const struct clock_io *io, enum log_level level, const char *format, ...)
{
	char line[2048];
	va_list args;

	if (io->log == NULL)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	io->log(io->user, level, line);
}
