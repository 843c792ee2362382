/* A copy of another replica's state, fetched by one that cannot go on from its own: asked for part
 * by part, each checked, written one behind the other, checked as a whole, and left where the next
 * start finds it. A part that does not come is asked for again; a replica that does not answer
 * is left for the one that the caller names by then, and all begins anew. */
#ifndef LSFS_SERVER_STATE_FETCHER_H
#define LSFS_SERVER_STATE_FETCHER_H

#include "cell/server/server_io.h"
#include "cell/wire/types.h"

struct state_fetcher;

struct state_fetcher_config {
	const struct server_io *io; /* outlives it */
	span_t patience;       /* with a part, before it is asked for again; 0: 3 s */
	/* Asks a replica for a part; may be lost. */
	void (*ask)(void *user, uint8_t replica, const struct msg_snapshot_request *request);
	/* The state is there: the replica has to be started anew. */
	void (*ready)(void *user);
	void *user;
};

struct state_fetcher *state_fetcher_new(const struct state_fetcher_config *config);
/* Which replica has a state that we need (replica_update.behind); 0: none is needed. Ours is of
 * index `applied`: one that is no newer, as a replica may have that is behind or lost itself, is of
 * no use. To be called as often as may be. */
void state_fetcher_need(struct state_fetcher *s, uint8_t replica, uint64_t applied);
/* An answer. */
void state_fetcher_part(struct state_fetcher *s, uint8_t from,
                        const struct msg_snapshot_part *part);
/* server_fetch_checked. */
void state_fetcher_checked(struct state_fetcher *s, const char *why);
/* When state_fetcher_timeout is to be called. */
mono_t state_fetcher_deadline(const struct state_fetcher *s);
void state_fetcher_timeout(struct state_fetcher *s, mono_t now);
/* What is not whole is dropped, unless it is being checked. */
void state_fetcher_free(struct state_fetcher *s);

#endif
