/* The state that the files of the server share: server.c, its events; server_step.c, the step of
 * the replica that each of them is; lifecycle.c, its beginning and end. */
#ifndef LSFS_SERVER_INTERNAL_H
#define LSFS_SERVER_INTERNAL_H

#include "cell/replica/replica.h"
#include "cell/server/cell_file_writer.h"
#include "cell/server/gateway.h"
#include "cell/server/inbox.h"
#include "cell/server/key_rotation.h"
#include "cell/server/local_clients.h"
#include "cell/server/server.h"
#include "cell/server/state_transfer.h"

struct server {
	struct server_io io;
	struct server_config config;
	struct replica *replica;
	struct replica_update update;
	struct trace trace;      /* of the replica */
	struct gateway *gateway; /* NULL, like the next three, in a cell in one process */
	struct state_transfer *transfer;
	struct cell_file_writer *cell_file_writer;
	struct key_rotation *key_rotation;

	/* server_step.c */
	struct frame_queue gate; /* frames to send once their writes are durable; `after` never
	                          * falls */
	uint64_t durable;        /* number of the last durable write */
	size_t unsaved;          /* bytes of the state that wait to be written */
	mono_t deadline;         /* of the replica */
	bool stepping;
	mono_t turn_began; /* at the first step of this turn; MONO_NEVER: it had none yet */
	struct replica_times times;
	enum replica_condition condition; /* as it was logged last */
	enum server_verdict news;         /* the verdict that server_turn must still return */
	bool failed;                      /* no more steps are taken */

	/* server.c */
	struct local_clients clients; /* clients in this process, and the frames for them */
	struct inbox inbox;           /* clients' frames that wait for their turn */
	mono_t heard; /* when the last frame arrived, or the last deadline; of a client of the only
	               * principal KeepAlives alone count */
	bool turn_runs, turn_over;
	bool inbox_due;  /* the inbox may have a frame that is ready */
	bool due;        /* the owner has reported a deadline */
	mono_t leave_by; /* the latest end of server_stop; MONO_NEVER: not stopping */
	bool left;       /* the server has stopped */
};

extern const struct gateway_callbacks server_gateway_callbacks;

/* Takes one step of the replica, and carries out its update. Does nothing when the server has
 * failed or stopped. */
void server_step(struct server *s, struct replica_event event);
/* Sets the verdict that server_turn returns at the end of this turn. */
void server_tell(struct server *s, enum server_verdict news);
/* Updates the cell file from the state, of which `saved` is the index that is on the disk. The file
 * must never be newer than the state on the disk: a replica that has lost its state starts with
 * that list. */
void server_keep_cell_file(struct server *s, uint64_t saved);
/* Callback of the key rotation: a majority has a new signing key, which can be put in force. */
void server_keys_agreed(void *user, struct bytes keys);
/* Callback: the keys for a master on this replica are other ones. */
void server_keys_changed(void *user);
/* Callback of the state transfer: a copy is begun for another replica. */
void server_copy_begun(void *user, uint8_t replica);
/* Callback: a frame is to be sent, to a replica, or, with 0, on a connection of a client. */
void server_transfer_send(void *user, uint8_t replica, uint64_t conn, struct bytes frame);
/* True when a server that is being stopped may stop: the mastership is handed over and all frames
 * are sent, or the time for it is over. */
bool server_has_left(const struct server *s);

#endif
