/* Fetches a copy of another replica's state, for a replica that can't continue from its own. The
 * copy is requested part by part; each part is checked and written behind the one before, then the
 * whole is checked and kept for the next start. A part that is not received is requested again; if
 * the other replica does not answer, the fetch is begun anew with the replica that the caller names
 * by then. */
#ifndef LSFS_SERVER_STATE_FETCHER_H
#define LSFS_SERVER_STATE_FETCHER_H

#include "cell/server/server_io.h"
#include "cell/wire/types.h"

struct state_fetcher;

struct state_fetcher_config {
	const struct server_io *io; /* must outlive it */
	span_t patience;       /* time to wait for a part before it is requested again; 0: 3 s */
	/* Sends a replica the request for a part; the message may be lost. */
	void (*ask)(void *user, uint8_t replica, const struct msg_snapshot_request *request);
	/* The state was fetched and checked: the replica must be started again. */
	void (*ready)(void *user);
	void *user;
};

struct state_fetcher *state_fetcher_new(const struct state_fetcher_config *config);
/* Sets the replica that has a state which this one needs (replica_update.behind); 0: none is
 * needed. Our own state is at index `applied`: a fetched one must be newer, which that of a replica
 * that is behind, too, or was lost may not be. May be called at any time. */
void state_fetcher_need(struct state_fetcher *s, uint8_t replica, uint64_t applied);
/* Takes the answer to a request. */
void state_fetcher_part(struct state_fetcher *s, uint8_t from,
                        const struct msg_snapshot_part *part);
/* Passes on server_fetch_checked. */
void state_fetcher_checked(struct state_fetcher *s, const char *why);
/* The time at which state_fetcher_timeout must be called. */
mono_t state_fetcher_deadline(const struct state_fetcher *s);
void state_fetcher_timeout(struct state_fetcher *s, mono_t now);
/* Frees it; drops a state that is incomplete, unless it is being checked. */
void state_fetcher_free(struct state_fetcher *s);

#endif
