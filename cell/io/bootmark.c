#include "cell/io/bootmark.h"

#include <stdio.h>
#include <string.h>

void
bootmark_write(char line[BOOTMARK_LINE], const char *boot, const char *why)
{
	snprintf(line, BOOTMARK_LINE, "failed boot %.*s: %.*s", BOOTMARK_BOOT - 1, boot,
	         BOOTMARK_WHY - 1, why);
}

enum bootmark
bootmark_judge(const char *line, const char *boot, char why[BOOTMARK_WHY])
{
	char then[BOOTMARK_BOOT];

	if (sscanf(line, "failed boot %63[^:]: %255[^\n]", then, why) != 2)
		return BOOTMARK_NONE;
	return strcmp(then, boot) == 0 ? BOOTMARK_NOW : BOOTMARK_EARLIER;
}
