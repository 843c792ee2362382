/* The run directory: one record per mount point, kept while its daemon lives and left behind when
 * it is killed. The next daemon on the mount point learns from it which session it has to end, the
 * tools learn which process serves a mount.
 *
 * /run/lsfs for root, else $XDG_RUNTIME_DIR/lsfs, else /tmp/lsfs-UID; always mode 0700, since a
 * record holds the nonce that proves the right to end a session. The owner of a record holds a
 * lock on its file as long as it lives, so a number in it that was given to another process since,
 * or a record from before a reboot, is never taken for a living owner. */
#ifndef LSFS_SYS_RUN_DIR_H
#define LSFS_SYS_RUN_DIR_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "cell/base/limit.h"

struct run_record {
	char mountpoint[PATH_MAX]; /* canonical */
	char source[PATH_MAX];     /* canonical: the data directory or the cell file */
	char cell[LIMIT_CELL_NAME + 1];
	char boot[40];             /* the kernel's boot id when it was written */
	pid_t pid;
	uint64_t session;          /* 0: none was opened yet */
	uint8_t nonce[LIMIT_NONCE];
};

/* An owned record: its open and locked file. */
struct run_file {
	int fd;
	char path[PATH_MAX];
};

/* The directory's path; made if missing, refused if others may write to it. 0 or -errno. */
int run_dir_make(char *path, size_t size);

/* Takes the record of `mountpoint` (made if missing) and reads what an earlier owner left into
 * *earlier (session 0: nothing). 0, -EBUSY when a living process owns it, or another -errno. */
int run_dir_own(const char *mountpoint, struct run_file *file, struct run_record *earlier);
/* Writes the owned record anew; pid and boot id are filled in. 0 or -errno. */
int run_dir_write(const struct run_file *file, const struct run_record *record);
/* Removes the record: its session was closed in good order. */
void run_dir_drop(struct run_file *file);
/* Lets go of it but leaves it for the next owner. */
void run_dir_leave(struct run_file *file);

/* Reads the record of `mountpoint`; false when there is none. `alive`: its owner lives. */
bool run_dir_read(const char *mountpoint, struct run_record *record, bool *alive);
/* Calls `each` for every record; stops when it returns false. */
void run_dir_each(bool (*each)(void *user, const struct run_record *record, bool alive),
                  void *user);

#endif
