/* Reserved disk space: DIRECTORY/reserve, a file whose blocks are allocated. When a write fails for
 * lack of space the file is truncated, so that the commands under way, and then releases and
 * deletes, can still be written. */
#ifndef LSFS_STORE_RESERVE_H
#define LSFS_STORE_RESERVE_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define RESERVE_FILE "reserve"
enum { RESERVE_SIZE = 8 * 1024 * 1024 };

/* Shared by several threads; the mutex protects `held`. */
struct reserve {
	char path[PATH_MAX];
	pthread_mutex_t mutex;
	bool held;
	atomic_bool gone; /* the reserve was given up, or there was no space for it */
};

/* Initializes *r; an earlier process may have left the file in place. */
void reserve_init(struct reserve *r, const char *directory);
/* Frees *r; the file stays. */
void reserve_fini(struct reserve *r);
/* Allocates the file, unless it is there already. False when the disk has no space for it. */
bool reserve_take(struct reserve *r);
/* Truncates the file; true when that has freed its space. */
bool reserve_give_up(struct reserve *r);
/* The same, but only when the disk is full. */
bool reserve_give_up_if_full(struct reserve *r);

#endif
