/* Copies of the state: for a replica that is behind, which is no part of paxos, and for operators.
 */
#ifndef LSFS_SERVER_STATE_TRANSFER_H
#define LSFS_SERVER_STATE_TRANSFER_H

#include "cell/config/identity.h"
#include "cell/server/server_io.h"

struct state_transfer;

struct state_transfer_config {
	const struct server_io *io; /* these two must outlive it */
	const struct identity *identity;
	size_t part_max; /* bytes of a part; 0: LIMIT_PART */
	span_t patience; /* time to wait for a part until it is requested again;
	                  * 0: 3 s */
	/* Sends a frame, to a replica or (replica 0) on a client's connection. */
	void (*send)(void *user, uint8_t replica, uint64_t conn, struct bytes frame);
	/* A copy of this replica's state will be made for another one. */
	void (*copy_begun)(void *user, uint8_t replica);
	/* A state was fetched: the replica must be started again with it. */
	void (*ready)(void *user);
	void *user;
};

/* Nothing is sent or fetched. The configuration is copied. */
struct state_transfer *state_transfer_new(const struct state_transfer_config *config);
/* Takes a frame of a replica, which is a member of the cell or was removed. False: the frame is of
 * another kind. */
bool state_transfer_peer(struct state_transfer *x, uint8_t from, bool member, struct bytes frame);
/* Takes a frame of a client; admin: it is an administrator of the cell. False as above. */
bool state_transfer_client(struct state_transfer *x, uint64_t conn, bool admin, struct bytes frame);
/* The client's connection is gone. */
void state_transfer_forget(struct state_transfer *x, uint64_t conn);
/* Sets the replica from which a state must be fetched; 0: none is needed (replica_update.behind,
 * after every step). The own state is at index `applied`; a fetched one must be newer, because a
 * replica that is named may itself be behind. */
void state_transfer_need(struct state_transfer *x, uint8_t replica, uint64_t applied);
/* Passes on server_copy_made. */
void state_transfer_made(struct state_transfer *x, enum rc rc, uint64_t applied, uint64_t size,
                         const char *why);
/* Passes on server_fetch_checked. */
void state_transfer_checked(struct state_transfer *x, const char *why);
/* The time at which state_transfer_timeout must be called. */
mono_t state_transfer_deadline(const struct state_transfer *x);
/* Asks again, or another replica, and drops copies, as is due. */
void state_transfer_timeout(struct state_transfer *x, mono_t now);
/* Frees it; drops a state that is incomplete, unless it is being checked, and all copies but one
 * that is being made. */
void state_transfer_free(struct state_transfer *x);

#endif
