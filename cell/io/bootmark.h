/* What a mark of a failed disk says about a start. Pure, so that the simulator's replicas decide as
 * real ones do; where marks are written and read says failed.h. */
#ifndef LSFS_IO_BOOTMARK_H
#define LSFS_IO_BOOTMARK_H

#include <stddef.h>

enum { BOOTMARK_BOOT = 64, BOOTMARK_WHY = 256, BOOTMARK_LINE = BOOTMARK_WHY + BOOTMARK_BOOT + 32 };

enum bootmark {
	BOOTMARK_NONE,    /* no mark, or one that is damaged */
	BOOTMARK_EARLIER, /* in another boot: the page cache of that one is gone */
	BOOTMARK_NOW,     /* in this one: what is read may never have been written */
};

/* The line that marks a disk as failed in this boot, for this reason. */
void bootmark_write(char line[BOOTMARK_LINE], const char *boot, const char *why);
/* Of a line and the boot in which it is read; `why` is set when it is a mark. */
enum bootmark bootmark_judge(const char *line, const char *boot, char why[BOOTMARK_WHY]);

#endif
