/* What the two halves of the server share: server.c, its order of business, and lifecycle.c, how it
 * begins and ends. */
#ifndef LSFS_SERVER_INTERNAL_H
#define LSFS_SERVER_INTERNAL_H

#include "cell/replica/replica.h"
#include "cell/server/cell_file_writer.h"
#include "cell/server/gateway.h"
#include "cell/server/inbox.h"
#include "cell/server/local_clients.h"
#include "cell/server/server.h"
#include "cell/server/state_transfer.h"

struct server {
	struct server_io io;
	struct server_config config;
	struct replica *replica;
	struct replica_update update;
	enum replica_condition condition; /* as the log knows it */
	struct gateway *gateway;       /* NULL, as the next two: a cell in one process */
	struct state_transfer *transfer;
	struct cell_file_writer *cell_file_writer;
	bool stepping;
	bool failed;                   /* no step is taken any more */
	enum server_verdict news;      /* what the owner is still to be told */
	mono_t leave_by;               /* about to stop: until then at most; else MONO_NEVER */
	bool left;                     /* stopped */

	struct local_clients clients; /* clients in this process, and what is to be delivered */
	struct frame_queue gate;    /* until their writes are durable; their numbers never fall */
	struct inbox inbox;         /* of clients, while others have their turn or much waits */
	mono_t turn_end;            /* what comes later in this turn goes there */
	bool turn_runs, turn_over;
	bool put;                   /* something, since it was read last */
	struct replica_times times;
	uint64_t durable;           /* the last write that is */
	mono_t deadline;            /* the replica's */
	bool due;                   /* a deadline has come */
};

extern const struct gateway_callbacks server_gateway_callbacks;

/* One step of the replica, and all that follows from it. Nothing when the server has failed or
 * stops. */
void server_step(struct server *s, struct replica_event event);
/* Connects to the members as the replica knows them. */
void server_follow_members(struct server *s);
/* The owner is told at the end of this turn. */
void server_tell(struct server *s, enum server_verdict news);
/* Brings the cell file up to date with the state, of which this much is on the disk: it is never
 * ahead of it, since whoever has lost the state begins with that list. */
void server_keep_cell_file(struct server *s, uint64_t saved);
/* What the state transfer has: a copy that is begun for another replica; a frame. */
void server_copy_begun(void *user, uint8_t replica);
void server_transfer_send(void *user, uint8_t replica, uint64_t conn, struct bytes frame);
/* Is the mastership handed over and all sent, or was there no time for it? */
bool server_has_left(const struct server *s);

#endif
