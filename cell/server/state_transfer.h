/* What replicas give each other that is no business of paxos: copies of the state, for one that is
 * behind, and the cell's signing key, for one that joins. Operators get copies, too. */
#ifndef LSFS_SERVER_STATE_TRANSFER_H
#define LSFS_SERVER_STATE_TRANSFER_H

#include "cell/config/identity.h"
#include "cell/store/store.h"

struct state_transfer;

struct state_transfer_config {
	uv_loop_t *loop;
	struct store *store;             /* started; these three must outlive it */
	const char *directory;
	const struct identity *identity;
	/* Sends a frame, to a replica or (replica 0) on a client's connection. */
	void (*send)(void *user, uint8_t replica, uint64_t conn, struct bytes frame);
	/* A copy of our state will be made for another replica. */
	void (*copy_begun)(void *user, uint8_t replica);
	/* A state has come: the replica has to be started anew with it. */
	void (*ready)(void *user);
	void *user;
};

struct state_transfer *state_transfer_new(const struct state_transfer_config *config);
/* A frame from a replica, which is a member of the cell or was removed. False: it is not for us. */
bool state_transfer_peer(struct state_transfer *x, uint8_t from, bool member, struct bytes frame);
/* A frame on a client's connection, who is an administrator of the cell or not. False likewise. */
bool state_transfer_client(struct state_transfer *x, uint64_t conn, bool admin, struct bytes frame);
/* Its connection is gone. */
void state_transfer_forget(struct state_transfer *x, uint64_t conn);
/* From which replica a state must be had; 0: none (replica_update.behind, after every step). */
void state_transfer_need(struct state_transfer *x, uint8_t replica);
/* To be called before the store is closed, which may be necessary for it to end. Nothing is sent
 * any more. Calls `stopped` with nothing left on the loop or in memory. */
void state_transfer_stop(struct state_transfer *x, void (*stopped)(void *user), void *user);

#endif
