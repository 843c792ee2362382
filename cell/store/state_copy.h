/* Consistent copies of state.db, made one after the other, each by a thread and a connection of its
 * own. The copy is of the state at one moment, while the writer goes on. It is written and synced
 * piece by piece, so that no single sync delays other syncs on the disk for long. */
#ifndef LSFS_STORE_STATE_COPY_H
#define LSFS_STORE_STATE_COPY_H

#include <bsd/sys/queue.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>
#include "cell/base/rc.h"

/* The result of a copy: RC_OK with the applied index of the copy; or, with one line in `why`,
 * RC_NODATA: the state is still empty; RC_NOSPC: no space on the disk; RC_IO: any other error. */
typedef void state_copy_done(void *user, enum rc rc, uint64_t applied, const char *why);

struct copy;
TAILQ_HEAD(copy_list, copy);

struct state_copier {
	const char *directory, *source; /* not copied */
	uv_loop_t *loop;
	struct copy_list waiting;
	struct copy *running;
	uv_work_t work;
	atomic_bool giving_up;
	void (*idle)(void *user);
	void *idle_user;
};

/* Initializes *c to copy the database file `source` into files of `directory`; both paths are kept,
 * not copied. */
void state_copy_init(struct state_copier *c, uv_loop_t *loop, const char *directory,
                     const char *source);
/* Makes a copy as DIRECTORY/`name`, after earlier ones; `done` is called on the loop's thread. */
void state_copy_add(struct state_copier *c, const char *name, state_copy_done *done, void *user);
/* Abandons unfinished copies, whose `done` is called with RC_IO; then, once no thread runs (maybe
 * at once), calls `idle`. */
void state_copy_stop(struct state_copier *c, void (*idle)(void *user), void *user);

#endif
