/* What the two halves of the host share: host.c, its order of business, and host_life.c, how it
 * begins and ends. */
#ifndef LSFS_IO_HOST_STATE_H
#define LSFS_IO_HOST_STATE_H

#include "cell/io/cellfile.h"
#include "cell/io/exchange.h"
#include "cell/io/gateway.h"
#include "cell/io/host.h"
#include "cell/config/identity.h"
#include "cell/io/inbox.h"
#include "cell/io/local.h"
#include "cell/store/store.h"
#include "cell/replica.h"

/* What the owner is still to be told, outside of every step. */
enum host_news { HOST_NO_NEWS, HOST_FAILED, HOST_RESTART };

struct host {
	char *directory;
	struct identity identity;
	struct host_config config;
	struct replica_config replica_config;
	struct member members[LIMIT_REPLICAS]; /* of the cell file, for it */
	struct store *store;
	struct tree *tree;             /* until the replica has it */
	struct px_recovered recovered; /* likewise */
	struct replica *replica;
	struct replica_update update;
	enum replica_condition condition; /* as the log knows it */
	struct gateway *gateway;       /* NULL, as the next: a cell in one process */
	struct exchange *exchange;
	struct cell_file_writer *cell_file_writer;
	bool stepping, started, stopping;
	bool failed;                   /* no step is taken any more */
	bool set_state_aside;          /* when the store is closed */
	enum host_news news;
	mono_t leave_by;               /* about to stop: until then at most; else MONO_NEVER */

	struct local local;         /* clients in this process, and what is to be delivered */
	struct parcel_list gate;    /* until their tickets are durable; tickets never fall */
	struct inbox inbox;         /* of clients, while others have their turn or much waits */
	mono_t turn_end;            /* what comes later in this turn goes there */
	bool turn_runs, turn_over;
	struct replica_times times;
	uint64_t durable;           /* the last ticket that is */

	uv_timer_t timer;
	uv_prepare_t prepare;
	uv_check_t check;
	uv_idle_t idle;
	mono_t armed;               /* for when the timer is set */
	bool due;
	int open_handles;           /* of these, while they are closed */
	int open_parts;             /* exchange, cell file and store, likewise */
	void (*stopped)(void *user);
	void *stopped_user;
};

extern const struct store_callbacks host_store_callbacks; /* their user is the host */
extern const struct gateway_callbacks host_gateway_callbacks;

/* One step of the replica, and all that follows from it. Nothing when the host has failed or
 * stops. */
void host_step(struct host *h, struct replica_event event);
/* Sets the timer for the replica's deadline. */
void host_arm(struct host *h, mono_t now);
/* Connects to the members as the replica knows them. */
void host_follow_members(struct host *h);
/* Keeps the loop from sleeping in this turn. */
void host_stay_awake(struct host *h);
/* The owner is told at the end of this turn. */
void host_tell(struct host *h, enum host_news news);
/* Brings the cell file up to date with the state, of which this much is on the disk: it is never
 * ahead of it, since whoever has lost the state begins with that list. */
void host_keep_cell_file(struct host *h, uint64_t saved);
/* What the exchange has: a copy that is begun for another replica; a frame. */
void host_copy_begun(void *user, uint8_t replica);
void host_exchange_send(void *user, uint8_t replica, uint64_t conn, struct bytes frame);
/* The loop's handles, on; they are closed by host_life.c. */
void host_start_handles(struct host *h, uv_loop_t *loop);
/* When the mastership is handed over and all is sent, or there was no time for it: stops. */
void host_stop_if_left(struct host *h);

#endif
