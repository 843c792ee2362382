/* Look-ups in the kernel's mount table. Reading the table sends no request to any filesystem, so it
 * does not block on a dead or stuck mount. */
#ifndef LSFS_SYS_MOUNTINFO_H
#define LSFS_SYS_MOUNTINFO_H

#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>

struct mountinfo {
	int id; /* the mnt_id that fdinfo shows */
	unsigned major, minor;
	bool whole;          /* the filesystem's root is mounted, not a part of it */
	char root[PATH_MAX]; /* the part of the filesystem that is mounted: "/" if it is whole */
	char path[PATH_MAX]; /* of the mount point */
	char type[64];       /* "fuse.lsfs" */
	char source[PATH_MAX];
	long user;   /* of a FUSE mount: uid of the mounting user; -1: not given */
	bool others; /* with allow_other */
};

/* The type of lsfs mounts in the table. */
#define MOUNTINFO_TYPE "fuse.lsfs"

/* True for the mount of a cell. */
static inline bool
mountinfo_is_cell(const struct mountinfo *info)
{
	return strcmp(info->type, MOUNTINFO_TYPE) == 0;
}

/* The topmost mount exactly at `path` (canonical) in our own mount namespace; false: none. */
bool mountinfo_at(const char *path, struct mountinfo *info);
/* The mount with this id in the mount namespace of process `pid` (0: this process); false when it
 * is not among the first 256 lines of the table. */
bool mountinfo_by_id(pid_t pid, int id, struct mountinfo *info);
/* The topmost mount that contains `path` (canonical). Sends no request to it. */
bool mountinfo_above(const char *path, struct mountinfo *info);
/* A mount of the root of the filesystem with this device number; false: none. */
bool mountinfo_of_device(dev_t device, struct mountinfo *info);
/* A mount of the root of a filesystem of this type; false: none. */
bool mountinfo_of_type(const char *type, struct mountinfo *info);

/* Calls `each` for every mount of a cell, also of parts, in our own mount namespace. */
void mountinfo_each(void (*each)(void *user, const struct mountinfo *info), void *user);

/* Unmounts a mount of an unprivileged user, by the set-user-id helper that made it, with these
 * options; the helper prints its errors itself. False when it fails. */
bool mountinfo_unmount_by_helper(const char *path, const char *options);

/* The canonical form of a path whose last component may be missing. Sends no request to the
 * filesystem mounted there. 0, or -errno when the directory of the path is missing. */
int mountinfo_canonical(const char *path, char canonical[PATH_MAX]);
/* True if `path` is the directory `directory` or lies below it; both are canonical. */
bool mountinfo_lies_in(const char *path, const char *directory);

#endif
