/* The run directory: one record per mount point. A daemon keeps the record while it runs; a daemon
 * that is killed leaves it behind. The next daemon on the mount point reads in it which session to
 * end, and lsctl reads which process serves a mount.
 *
 * The directory is RUNSTATEDIR/lsfs for root, if it can be made there; else, and for other users,
 * $XDG_RUNTIME_DIR/lsfs, or /tmp/lsfs-UID where that is not set. Its mode is always 0700, since a
 * record holds the nonce that proves the right to end a session. A record's owner holds a lock on
 * its file as long as the process lives. So neither a process that got the recorded pid later nor a
 * record from before a reboot is taken for a living owner. */
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
	char key[PATH_MAX];        /* of the key file that the mount uses; empty: none */
	char cell[LIMIT_CELL_NAME + 1];
	char boot[40]; /* the kernel's boot id when the record was written */
	pid_t pid;
	uint64_t session; /* 0: no session was opened yet */
	uint8_t nonce[LIMIT_NONCE];
};

/* An owned record: its open and locked file. */
struct run_file {
	int fd;
	char path[PATH_MAX];
};

/* Puts the directory's path into `path`, and makes the directory if it is missing. 0 or -errno:
 * -EPERM when it belongs to another user or others may write to it. */
int run_dir_make(char *path, size_t size);

/* Takes ownership of the record of `mountpoint` (made if missing) and reads the record of an
 * earlier owner into *earlier (session 0: none). 0, -EBUSY when a living process owns it, or
 * another -errno, with the path that failed in file->path. */
int run_dir_own(const char *mountpoint, struct run_file *file, struct run_record *earlier);
/* The path of the record of `mountpoint`, which may be missing. 0 or -errno. */
int run_dir_path(const char *mountpoint, char path[PATH_MAX]);
/* Writes an owned record; pid and boot id are those of this process. 0 or -errno. */
int run_dir_write(const struct run_file *file, const struct run_record *record);
/* Removes an owned record and gives up its ownership: the session was closed cleanly. */
void run_dir_drop(struct run_file *file);
/* Gives up ownership but leaves the record for the next owner. */
void run_dir_leave(struct run_file *file);

/* Reads the record of `mountpoint`; false when there is none. *alive: its owner still runs. */
bool run_dir_read(const char *mountpoint, struct run_record *record, bool *alive);
/* Calls `each` for every record, until `each` returns false. */
void run_dir_each(bool (*each)(void *user, const struct run_record *record, bool alive),
                  void *user);

#endif
