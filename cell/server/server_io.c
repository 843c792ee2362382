#include "cell/server/server_io.h"

#include <stdarg.h>
#include <stdio.h>

enum { LINE = 2048 };

void
server_io_log(const struct server_io *io, enum server_level level, const char *format, ...)
{
	char line[LINE];
	va_list args;

	if (io->log == NULL)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	io->log(io->user, level, line);
}
