/* The names of local users, from /etc/passwd. The name service is not asked: it may wait for a
 * network, and nothing may hold up the mount. */
#ifndef LSFS_FS_FUSE_USERS_H
#define LSFS_FS_FUSE_USERS_H

#include <sys/stat.h>
#include <sys/types.h>
#include "cell/base/bytes.h"

struct user {
	uid_t uid;
	size_t line; /* of several names of one user the first counts */
	char *name;
};

struct users {
	const char *path;
	uid_t own;         /* of the mounting user */
	struct stat read;  /* the file as it was read last */
	struct user *list; /* sorted by uid; owned */
	size_t n, room;
};

/* Prepares to read names from the file `path`, which is kept, not copied. */
void users_init(struct users *u, const char *path, uid_t own);
/* Frees the names. */
void users_free(struct users *u);
/* The name of the user as that of a principal's user: empty for the mounting user, `root` for
 * another one that is root, and `nobody` where the file has none that a user may have. The file is
 * read again when it has changed. A view that is valid until the next call. */
struct bytes users_name(struct users *u, uid_t uid);

#endif
