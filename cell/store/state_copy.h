/* Consistent copies of state.db, one after the other, each by a thread of its own with a connection
 * of its own: it reads one state of the file, while the writer goes on behind it. The copy is
 * written and synced piece by piece, so that it never makes much work for the disk at once. */
#ifndef LSFS_STORE_STATE_COPY_H
#define LSFS_STORE_STATE_COPY_H

#include <bsd/sys/queue.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>
#include "cell/base/rc.h"

/* RC_OK with the applied index of the copy. Or RC_NODATA: the state is empty yet; RC_NOSPC: no room
 * on the disk; RC_IO: anything else; each with one line in `why`. */
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

void state_copy_init(struct state_copier *c, uv_loop_t *loop, const char *directory,
                     const char *source);
/* DIRECTORY/`name` from here on; `done` is called from the loop. */
void state_copy_add(struct state_copier *c, const char *name, state_copy_done *done, void *user);
/* Gives up what is not finished, telling it; calls `idle`, maybe at once, when no thread runs. */
void state_copy_stop(struct state_copier *c, void (*idle)(void *user), void *user);

#endif
