/* The verdict on a start after a disk failure: the mark that the failure left names the boot in
 * which it was written. Pure, so that the simulator's replicas decide like real ones; marks are
 * written and read by disk_failure.c. */
#ifndef LSFS_STORE_BOOT_VERDICT_H
#define LSFS_STORE_BOOT_VERDICT_H

/* Bytes, with the NUL: of a boot's id, of a reason, and of the line that marks a disk. */
enum {
	BOOT_VERDICT_BOOT = 64,
	BOOT_VERDICT_WHY = 256,
	BOOT_VERDICT_LINE = BOOT_VERDICT_WHY + BOOT_VERDICT_BOOT + 32
};

enum boot_verdict {
	BOOT_VERDICT_NONE,    /* no mark, or a damaged one */
	BOOT_VERDICT_EARLIER, /* marked in an earlier boot, whose page cache is gone */
	BOOT_VERDICT_NOW, /* marked in this boot: the page cache may show data not on the disk */
};

/* Prints the line that marks a disk as failed in the boot with the id `boot`, for this reason. */
void boot_verdict_write(char line[BOOT_VERDICT_LINE], const char *boot, const char *why);
/* The verdict on a line that was read in the boot with the id `boot`. Puts the reason of the
 * failure into `why` unless the verdict is NONE. */
enum boot_verdict boot_verdict_judge(const char *line, const char *boot,
                                     char why[BOOT_VERDICT_WHY]);

#endif
