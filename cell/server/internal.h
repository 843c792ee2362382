/* What the two halves of the server share: server.c, its order of business, and lifecycle.c, how it
 * begins and ends. */
#ifndef LSFS_SERVER_INTERNAL_H
#define LSFS_SERVER_INTERNAL_H

#include "cell/server/cell_file_writer.h"
#include "cell/server/state_transfer.h"
#include "cell/server/gateway.h"
#include "cell/server/server.h"
#include "cell/config/identity.h"
#include "cell/server/inbox.h"
#include "cell/server/local_clients.h"
#include "cell/store/store.h"
#include "cell/replica/replica.h"

/* What the owner is still to be told, outside of every step. */
enum server_news { SERVER_NO_NEWS, SERVER_FAILED, SERVER_RESTART };

struct server {
	char *directory;
	struct identity identity;
	struct server_config config;
	struct replica_config replica_config;
	struct member members[LIMIT_REPLICAS]; /* of the cell file, for it */
	struct store *store;
	struct tree *tree;             /* until the replica has it */
	struct px_recovered recovered; /* likewise */
	struct replica *replica;
	struct replica_update update;
	enum replica_condition condition; /* as the log knows it */
	struct gateway *gateway;       /* NULL, as the next: a cell in one process */
	struct state_transfer *transfer;
	struct cell_file_writer *cell_file_writer;
	bool stepping, started, stopping;
	bool failed;                   /* no step is taken any more */
	bool set_state_aside;          /* when the store is closed */
	enum server_news news;
	mono_t leave_by;               /* about to stop: until then at most; else MONO_NEVER */

	struct local_clients clients; /* clients in this process, and what is to be delivered */
	struct frame_queue gate;    /* until their writes are durable; their numbers never fall */
	struct inbox inbox;         /* of clients, while others have their turn or much waits */
	mono_t turn_end;            /* what comes later in this turn goes there */
	bool turn_runs, turn_over;
	struct replica_times times;
	uint64_t durable;           /* the last write that is */

	uv_timer_t timer;
	uv_prepare_t prepare;
	uv_check_t check;
	uv_idle_t idle;
	mono_t armed;               /* for when the timer is set */
	bool due;
	int open_handles;           /* of these, while they are closed */
	int open_parts;             /* state transfer, cell file and store, likewise */
	void (*stopped)(void *user);
	void *stopped_user;
};

extern const struct store_callbacks server_store_callbacks; /* their user is the server */
extern const struct gateway_callbacks server_gateway_callbacks;

/* One step of the replica, and all that follows from it. Nothing when the server has failed or
 * stops. */
void server_step(struct server *s, struct replica_event event);
/* Sets the timer for the replica's deadline. */
void server_arm(struct server *s, mono_t now);
/* Connects to the members as the replica knows them. */
void server_follow_members(struct server *s);
/* Keeps the loop from sleeping in this turn. */
void server_stay_awake(struct server *s);
/* The owner is told at the end of this turn. */
void server_tell(struct server *s, enum server_news news);
/* Brings the cell file up to date with the state, of which this much is on the disk: it is never
 * ahead of it, since whoever has lost the state begins with that list. */
void server_keep_cell_file(struct server *s, uint64_t saved);
/* What the state transfer has: a copy that is begun for another replica; a frame. */
void server_copy_begun(void *user, uint8_t replica);
void server_transfer_send(void *user, uint8_t replica, uint64_t conn, struct bytes frame);
/* The loop's handles, on; they are closed by lifecycle.c. */
void server_start_handles(struct server *s, uv_loop_t *loop);
/* When the mastership is handed over and all is sent, or there was no time for it: stops. */
void server_stop_if_left(struct server *s);

#endif
