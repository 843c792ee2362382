/* The mark of a failed disk. After a failed write or sync the page cache may show data that is not
 * on the disk, until the machine is restarted; so a store that failed must not be opened in the
 * same boot. The mark is written in two places, since the failed disk may refuse this write too:
 * into DIRECTORY/health, a file whose blocks were allocated when the store was made, and into a
 * file of the run directory (cell/sys/run_dir.h), which names the store by its random id. Both
 * contain the id of the boot. */
#ifndef LSFS_STORE_DISK_FAILURE_H
#define LSFS_STORE_DISK_FAILURE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include "cell/store/boot_verdict.h"

#define DISK_FAILURE_FILE "health"

enum { DISK_FAILURE_ID = 16 };

struct disk_failure {
	int fd;
	char id[DISK_FAILURE_ID + 1];
	char boot[BOOT_VERDICT_BOOT]; /* of this boot */
	char run_path[PATH_MAX];      /* of the mark there; empty: no run directory */
	bool earlier;                 /* marked in an earlier boot, for the reason `why` */
	char why[BOOT_VERDICT_WHY];
};

/* Reads the mark; makes the file of a new store. False with one line in `why` when the store was
 * marked in this boot, or the mark can't be read or made. A damaged mark counts as a failure in
 * this boot, and is rewritten as one. */
bool disk_failure_open(struct disk_failure *f, const char *directory, char *why, size_t why_size);
/* Removes the mark of an earlier boot, once the databases were checked. 0 or -errno. */
int disk_failure_clear(struct disk_failure *f);
/* Marks the store as failed, in those of the two places that can be written. */
void disk_failure_mark(const struct disk_failure *f, const char *why);
/* Closes the files. */
void disk_failure_close(struct disk_failure *f);

#endif
