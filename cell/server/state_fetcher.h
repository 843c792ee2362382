/* A copy of another replica's state, fetched by one that cannot go on from its own: asked for part
 * by part, each checked, written into STORE_FETCHED, checked as a whole, and left where the next
 * store_open finds it. A part that does not come is asked for again; a replica that does not answer
 * is left for the one that the caller names by then, and all begins anew. */
#ifndef LSFS_SERVER_STATE_FETCHER_H
#define LSFS_SERVER_STATE_FETCHER_H

#include "cell/store/store.h"
#include "cell/wire/types.h"

struct state_fetcher;

struct state_fetcher_config {
	uv_loop_t *loop;
	const char *directory; /* these two must outlive it */
	const char *cell;
	span_t patience;       /* with a part, before it is asked for again; 0: 3 s */
	/* Asks a replica for a part; may be lost. */
	void (*ask)(void *user, uint8_t replica, const struct msg_snapshot_request *request);
	/* The state is there: the replica has to be started anew. Never called from within. */
	void (*ready)(void *user);
	void *user;
};

struct state_fetcher *state_fetcher_new(const struct state_fetcher_config *config);
/* Which replica has a state that we need (replica_update.behind); 0: none is needed. To be called
 * as often as may be. */
void state_fetcher_need(struct state_fetcher *s, uint8_t replica);
/* An answer. */
void state_fetcher_part(struct state_fetcher *s, uint8_t from,
                        const struct msg_snapshot_part *part);
/* Waits for a check that runs; then calls `stopped`, with nothing left on the loop or in memory. */
void state_fetcher_stop(struct state_fetcher *s, void (*stopped)(void *user), void *user);

#endif
