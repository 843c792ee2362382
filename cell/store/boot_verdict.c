#include "cell/store/boot_verdict.h"

#include <stdio.h>
#include <string.h>

void
boot_verdict_write(char line[BOOT_VERDICT_LINE], const char *boot, const char *why)
{
	snprintf(line, BOOT_VERDICT_LINE, "failed boot %.*s: %.*s", BOOT_VERDICT_BOOT - 1, boot,
	         BOOT_VERDICT_WHY - 1, why);
}

enum boot_verdict
boot_verdict_judge(const char *line, const char *boot, char why[BOOT_VERDICT_WHY])
{
	char then[BOOT_VERDICT_BOOT];

	if (sscanf(line, "failed boot %63[^:]: %255[^\n]", then, why) != 2)
		return BOOT_VERDICT_NONE;
	return strcmp(then, boot) == 0 ? BOOT_VERDICT_NOW : BOOT_VERDICT_EARLIER;
}
