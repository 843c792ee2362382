/* What the kernel's mount table says of a path. Reading it asks no filesystem anything, so it works
 * beside a dead or stuck mount. */
#ifndef LSFS_SYS_MOUNTINFO_H
#define LSFS_SYS_MOUNTINFO_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct mountinfo {
	int id;              /* the mnt_id that fdinfo shows */
	unsigned major, minor;
	bool whole;          /* its root is mounted there, not a directory of it */
	char path[PATH_MAX]; /* where it is mounted */
	char type[64];       /* "fuse.lsfs" */
	char source[PATH_MAX];
	long user;           /* of a FUSE mount: whose it is; -1: it does not say */
};

/* The type of our mounts there. */
#define MOUNTINFO_TYPE "fuse.lsfs"

/* The topmost mount exactly at `path` (canonical), as this process sees it; false: none. */
bool mountinfo_at(const char *path, struct mountinfo *info);
/* The mount with this id in the name space of process `pid` (0: our own); false: none, or not among
 * the first 256 of a long table. */
bool mountinfo_by_id(pid_t pid, int id, struct mountinfo *info);
/* A place where the root of the filesystem with this device number is mounted; false: none. */
bool mountinfo_of_device(dev_t device, struct mountinfo *info);

/* The canonical form of a path of which only the last component may be missing, without asking the
 * filesystem mounted there: 0, or -errno when its directory is missing. */
int mountinfo_canonical(const char *path, char canonical[PATH_MAX]);

#endif
