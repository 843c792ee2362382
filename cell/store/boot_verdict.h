/* What a mark of a failed disk says about a start. Pure, so that the simulator's replicas decide as
 * real ones do; where marks are written and read says failed.h. */
#ifndef LSFS_STORE_BOOT_VERDICT_H
#define LSFS_STORE_BOOT_VERDICT_H

#include <stddef.h>

enum {
	BOOT_VERDICT_BOOT = 64,
	BOOT_VERDICT_WHY = 256,
	BOOT_VERDICT_LINE = BOOT_VERDICT_WHY + BOOT_VERDICT_BOOT + 32
};

enum boot_verdict {
	BOOT_VERDICT_NONE, /* no mark, or one that is damaged */
	BOOT_VERDICT_EARLIER, /* in another boot: the page cache of that one is gone */
	BOOT_VERDICT_NOW, /* in this one: what is read may never have been written */
};

/* The line that marks a disk as failed in this boot, for this reason. */
void boot_verdict_write(char line[BOOT_VERDICT_LINE], const char *boot, const char *why);
/* Of a line and the boot in which it is read; `why` is set when it is a mark. */
enum boot_verdict boot_verdict_judge(const char *line, const char *boot,
                                     char why[BOOT_VERDICT_WHY]);

#endif
