/* What the parts of the disk whose power can be cut share: files as they are on the disk, and names
 * as they are in the directory. */
#ifndef LSFS_TESTS_POWER_H
#define LSFS_TESTS_POWER_H

#include <bsd/sys/queue.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cell/base/rng.h"

enum {
	WATCHED = 1 << 16,
	SECTOR = 512,
	NAMES = 40,
	OPS = 256,
	PATH_SIZE = 256,
	DESCRIPTORS = 1024
};

/* A write that was not synced yet; a change of the length when `data` is NULL: then `at` is the new
 * one. */
struct write {
	TAILQ_ENTRY(write) link;
	uint8_t *data;
	size_t len;
	int64_t at;
};

TAILQ_HEAD(write_list, write);

/* A file's contents, whatever its name is. */
struct disk {
	uint8_t *synced;
	size_t synced_len;
	struct write_list pending;
	struct disk *earlier; /* in power.disks */
};

/* The file that has a name: now, and after a cut. */
struct name {
	char path[PATH_SIZE];
	struct disk *now, *lasting;
};

/* An operation in the directory that is not lasting yet. Before the directory is synced any of them
 * may be lasting, and others not: POSIX promises no order. */
struct change {
	enum { CREATED, LINKED, RENAMED, REMOVED } what;
	struct name *from, *to; /* CREATED, REMOVED: no `to` */
	struct disk *disk;
};

struct power {
	pthread_mutex_t mutex;
	uint64_t seed;
	struct rng rng;
	struct name names[NAMES];
	struct disk *disks; /* all that there ever were: who has one open may write to it */
	struct change changes[OPS];
	int changes_n;
	struct disk *open[DESCRIPTORS]; /* of our own calls; NULL: not followed */
	long operations, syncs, writes;
	long cut_at, fail_sync_at, no_room_from, no_room_to;
	bool failed;
	uint8_t *watched; /* see powercut_watch; NULL: not */
	sqlite3_vfs vfs, *real;
};

extern struct power power;

/* Around each of the operations below. */
void power_lock(void);
void power_unlock(void);
/* An operation is about to happen: the power goes before the chosen one did anything. */
void power_count(void);

/* The file of that name; NULL: there is none. */
struct disk *power_find_disk(const char *path);
/* A write, or with `data` NULL a change of the length to `at`. */
void power_remember(struct disk *d, const void *data, size_t len, int64_t at);
/* What was written is durable; any part of it is. */
void power_settle(struct disk *d);
void power_tear(struct disk *d);
/* An operation in the directory, as in struct change. */
void power_change(int what, const char *from, const char *to);
void power_sync_directory(void);
void power_tear_directory(void);

/* In powercut_vfs.c: the file system that SQLite is given. */
void power_make_vfs(void);

/* The calls themselves, which the linker has put another one in the place of. */
int __real_open(const char *path, int flags, ...);
ssize_t __real_pwrite(int fd, const void *data, size_t n, off_t at);
int __real_fsync(int fd);
int __real_fdatasync(int fd);
int __real_ftruncate(int fd, off_t len);
int __real_rename(const char *from, const char *to);
int __real_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __real_unlink(const char *path);
int __real_close(int fd);

#endif
