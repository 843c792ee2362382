/* The locks and sessions of a cell as JSON arrays, as its master tells them. */
#ifndef LSFS_VIEW_CELL_LISTS_H
#define LSFS_VIEW_CELL_LISTS_H

#include <jansson.h>
#include "cell/view/ask.h"

/* A way to ask the master: ask_master or one like it. */
struct asker {
	bool (*ask)(const struct cell_file *cell_file, const struct noise_pair *key,
	            const struct message *question, enum message_code code,
	            void (*take)(void *user, const struct message *reply), void *user);
	const struct cell_file *cell_file;
	const struct noise_pair *key;
};

/* All sessions; the caller owns the array. NULL: there is no answer, or no end of the answers. */
json_t *cell_sessions(const struct asker *to);
/* All locks that are held, delayed or awaited, with holders and waiters; the caller owns the array.
 * NULL as above. */
json_t *cell_locks(const struct asker *to);

/* ---- the objects of the array of locks, also for callers that know locks otherwise ---- */

/* A holder of a lock, or a waiter. */
struct party {
	uint64_t session;
	struct bytes principal, host;
	const char *mode;
	uint32_t pid; /* 0: unknown */
	int64_t seconds;
	int64_t slot; /* of a holder of a counting lock; else -1 */
};

/* Appends a lock without state, holders or waiters, and returns it. */
json_t *lock_json(json_t *locks, struct bytes path);
/* Sets its state: free, shared, exclusive, or delayed, and for how many seconds more it is that; a
 * shared lock may be so against exclusive ones. */
void lock_json_state(json_t *lock, const char *state, int64_t delay_left_s);
/* Appends a holder or waiter to the list of that name. */
void lock_json_party(json_t *lock, const char *list, const struct party *p);

#endif
