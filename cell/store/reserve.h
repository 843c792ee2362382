/* Room on the disk that is kept for the day when there is none: DIRECTORY/reserve, a file whose
 * blocks are allocated. When a write finds no room it is given up, so that what was asked for, and
 * then what frees something, can still be written. */
#ifndef LSFS_STORE_RESERVE_H
#define LSFS_STORE_RESERVE_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>

#define RESERVE_FILE "reserve"
enum { RESERVE_SIZE = 8 * 1024 * 1024 };

/* Used by several threads. */
struct reserve {
	char path[PATH_MAX];
	pthread_mutex_t mutex;
	bool held;
	bool gone; /* it was given up, or there was no room for it */
};

/* Looks whether it is there from earlier. */
void reserve_init(struct reserve *r, const char *directory);
void reserve_fini(struct reserve *r);
/* Makes it, unless it is there. False when there is no room for it. */
bool reserve_take(struct reserve *r);
/* True when it was there, and its room can be used now. */
bool reserve_give_up(struct reserve *r);
bool reserve_give_up_if_full(struct reserve *r);
bool reserve_gone(struct reserve *r);

#endif
