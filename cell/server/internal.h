/* The parts of the server, each of which is written by its own file, and the state that server.c,
 * its events, server_step.c, the step of the replica that each of them is, and lifecycle.c, its
 * beginning and end, share. */
#ifndef LSFS_SERVER_INTERNAL_H
#define LSFS_SERVER_INTERNAL_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include "cell/base/mono.h"
#include "cell/config/identity.h"
#include "cell/copy/state_transfer.h"
#include "cell/master/master.h"
#include "cell/replica/frame_queue.h"
#include "cell/replica/replica.h"
#include "cell/server/server.h"
#include "cell/server/server_io.h"

/* ---- cell_file_writer.c ---- */

/* Keeps the cell file in a replica's data directory as new as the cell's list of members: a replica
 * that has lost its state starts with that list, and `lsctl up` finds the cell through it. It keeps
 * the signing keys beside it, which are written before the cell file names them. The files
 * are replaced as a whole. When writing or syncing it fails, the disk has failed, and none of the
 * data on it can be relied on. Without room, and after other errors, it is tried again. */

struct cell_file_writer;

/* `io` must outlive the writer. `identity`, what is in the data directory, is copied. */
struct cell_file_writer *cell_file_writer_new(const struct server_io *io,
                                              const struct identity *identity);
/* Frees it; what was to be written is forgotten. */
void cell_file_writer_free(struct cell_file_writer *c);
/* The version that the file has, or that is being written or waits to be. */
uint64_t cell_file_writer_version(const struct cell_file_writer *c);
/* Sets the members, removed ones included; the list is copied. Ignored unless the version is newer,
 * and when this replica itself was removed: a server must find its own key in the file. */
void cell_file_writer_follow(struct cell_file_writer *c, uint64_t version,
                             const struct cell_file_replica *list, int n);
/* Sets the secret signing keys, and those whose public halves the cell file names: the newest, and
 * the one before, in force since that log index. NULL: those that it names now. */
void cell_file_writer_set_keys(struct cell_file_writer *c, const struct sign_keys *keys,
                               const uint8_t *newest, const uint8_t *former, uint64_t since);
/* Writes the files again, because the last attempt has failed; nothing while they are written. */
void cell_file_writer_retry(struct cell_file_writer *c);
/* The time at which cell_file_writer_timeout must be called. */
mono_t cell_file_writer_deadline(const struct cell_file_writer *c);
/* Writes them again, if that is due. */
void cell_file_writer_timeout(struct cell_file_writer *c, mono_t now);
/* True while the files are written. */
bool cell_file_writer_busy(const struct cell_file_writer *c);
/* The signing keys that are on disk. */
const struct sign_keys *cell_file_writer_keys(const struct cell_file_writer *c);
/* Passes on server_cell_file_written. */
void cell_file_writer_written(struct cell_file_writer *c, enum rc rc, bool keys_kept,
                              const char *why);

/* ---- gateway.c ---- */

/* A replica's connections over the network. The gateway keeps connections to all other members of
 * the cell, for the messages to them, and accepts connections by key: those of other members as
 * replicas, those of principals as clients; all others are refused. A replica that was removed from
 * the cell is accepted, too, so that it can learn of its removal: messages to it are sent on the
 * connections that it has made. Clients are accepted up to a number that leaves some of the files
 * that the process may have open. */

struct gateway;

/* Set in the numbers of clients' connections over the network; clear in those of clients in the
 * process. */
#define GATEWAY_CONN (1ull << 63)

/* Begins to connect to the members: until others are set, those of the cell file. */
struct gateway *gateway_new(struct server *s);
/* Frees the gateway; does not close the connections, which the owner of `io` does. */
void gateway_free(struct gateway *g);

/* The next attempt to connect, for which gateway_timeout must be called. */
mono_t gateway_deadline(const struct gateway *g);
/* Makes the attempts that are due. */
void gateway_timeout(struct gateway *g, mono_t now);
/* Sets the members, this replica and removed ones included; copied. The gateway connects to new
 * members and to those with a new address, and closes connections with replicas that are gone.
 * Lists older than the last one are ignored. */
void gateway_set_members(struct gateway *g, uint64_t version,
                         const struct cell_file_replica *members, int n);
/* True if the replica is in the list and was not removed. */
bool gateway_has_member(const struct gateway *g, uint8_t id);
/* True if this is the key of a replica in the list, removed or not. */
bool gateway_knows(const struct gateway *g, const uint8_t key[NOISE_KEY]);
/* Sends a whole frame; dropped if there is no connection to the replica. */
void gateway_send_peer(struct gateway *g, uint8_t replica, struct bytes frame);
/* Sends a whole frame to a client; dropped if the client is gone. */
void gateway_send(struct gateway *g, uint64_t conn, struct bytes frame);
/* Likewise as a datagram beside the connection, which may be lost. */
void gateway_send_datagram(struct gateway *g, uint64_t conn, struct bytes frame);
/* Stops reading from a client (on), or goes on reading (off). */
void gateway_hold(struct gateway *g, uint64_t conn, bool on);
/* Bytes sent to a client that the network has not taken yet. */
size_t gateway_unsent_bytes(const struct gateway *g, uint64_t conn);
/* Fills in the principal of a client's connection; false: the client is gone, or its principal
 * was removed. */
bool gateway_principal(const struct gateway *g, uint64_t conn, struct bytes *name);
/* The number of clients that are connected. */
size_t gateway_clients(const struct gateway *g);
/* The connections to the other members, as they are at each time; valid until gateway_free. */
const struct replica_links *gateway_links(const struct gateway *g);
/* Closes a client's connection, once the frames for it were sent. */
void gateway_close(struct gateway *g, uint64_t conn);

/* ---- inbox.c ---- */

/* Frames of clients that wait in a server: in a queue for each connection, and the connections of a
 * principal together. Principals take turns, one frame each, and so do the connections of each: a
 * client that sends many frames delays those of its own principal, and not others.
 *
 * A principal that has much under way while others send frames has a budget: a number of its frames
 * is handled in INBOX_BUDGET_MS, even while no other frames wait. Otherwise the next frame of
 * another principal would find the replica busy, and the log being written. Long frames count as
 * several, and only a part of the budget is used at once, since those frames share one write of the
 * log.
 *
 * An unfinished frame, of which only a part has arrived, is not here yet, but its memory and its
 * age are counted. */

enum {
	INBOX_KEY = 32,  /* bytes of a key, which stands for its principal */
	INBOX_FREE = 16, /* frames of a principal that wait or are under way, outside its budget */
	INBOX_BUDGET_MS = 50,
	INBOX_AT_ONCE = 5,      /* this part of a budget is handled at once */
	INBOX_COUNTED = 4096,   /* bytes of a frame that count as one more */
	INBOX_SHARED_MS = 1000, /* after a frame of another principal there are several */
	/* KeepAlives of a connection, and datagrams, that are handled at once in a second. A client
	 * sends a KeepAlive when the one before is answered, which takes a third of the lease, and
	 * a datagram at most every 24th part of it; the shortest lease is a second. */
	INBOX_KEEPALIVES = 8,
	INBOX_DATAGRAMS = 32,
	INBOX_KEEPALIVES_MS = 1000,
};

struct inbox_queue;
struct inbox_principal;
RB_HEAD(inbox_tree, inbox_queue);
RB_HEAD(inbox_principals, inbox_principal);
TAILQ_HEAD(inbox_turns, inbox_principal);
TAILQ_HEAD(inbox_unfinished_list, inbox_queue);

struct inbox {
	unsigned budget;
	struct inbox_tree queues;           /* by connection */
	struct inbox_principals principals; /* by key */
	size_t principals_n;
	struct inbox_turns turns;                /* those with waiting frames */
	size_t bytes;                            /* of all waiting frames */
	size_t unfinished_bytes;                 /* of all unfinished frames */
	struct inbox_unfinished_list unfinished; /* their connections, the longest first */
	/* The principal whose frame was handled last, NULL: none or it has gone; the time of that;
	 * and when a frame of any other principal was handled last. */
	const struct inbox_principal *latest_principal;
	mono_t latest_at, latest_of_others_at;
};

/* `budget`: short frames of a principal in INBOX_BUDGET_MS. */
void inbox_init(struct inbox *in, unsigned budget);
/* Frees all connections with their frames. */
void inbox_free(struct inbox *in);
/* A connection of the principal with this key begins. */
void inbox_connect(struct inbox *in, uint64_t conn, const uint8_t key[INBOX_KEY]);
/* Its end: its frames are freed. */
void inbox_disconnect(struct inbox *in, uint64_t conn);
/* The number of the principal's connections. */
size_t inbox_connections(const struct inbox *in, const uint8_t key[INBOX_KEY]);
/* The same for the principal of a connection. */
size_t inbox_connections_beside(const struct inbox *in, uint64_t conn);
/* Takes over `frame`, and frees it when the connection has ended. Returns the number of waiting
 * bytes of the connection. */
size_t inbox_put(struct inbox *in, uint64_t conn, struct bytes frame);
/* The number of waiting bytes of the connection. */
size_t inbox_bytes(const struct inbox *in, uint64_t conn);
/* The same of all connections of its principal, with their unfinished frames. */
size_t inbox_bytes_of_principal(const struct inbox *in, uint64_t conn);
/* The connection, which has a `session` or none, holds `bytes` of an unfinished frame; 0: none.
 * `fresh`: this frame differs from that of the last call. Returns the unfinished bytes of all
 * connections of its principal that have a session, or that have none. */
size_t inbox_set_unfinished(struct inbox *in, uint64_t conn, bool session, size_t bytes, bool fresh,
                            mono_t now);
/* The most unfinished bytes that one principal has. */
size_t inbox_most_unfinished(const struct inbox *in);
/* True if a frame has been unfinished for LIMIT_UNFINISHED_S while no other frame of its connection
 * waited here. *conn: that connection, which is to be closed. */
bool inbox_stalled(struct inbox *in, mono_t now, uint64_t *conn);
/* Counts a KeepAlive of the connection, or a datagram. False: there are more than a client has
 * reason to send. */
bool inbox_keepalive(struct inbox *in, uint64_t conn, mono_t now, bool datagram);
/* True if a frame of the connection may be handled now. */
bool inbox_in_budget(const struct inbox *in, uint64_t conn, mono_t now);
/* Charges the budget for a frame of length `len`, which is handled now, while `under_way` requests
 * of its principal are under way. */
void inbox_charge(struct inbox *in, uint64_t conn, mono_t now, size_t len, size_t under_way);
/* When frames that wait for a budget may be handled, or inbox_stalled is to be asked; MONO_NEVER:
 * there are none. */
mono_t inbox_deadline(const struct inbox *in, mono_t now);
/* True if the first frame of some connection is within its budget and `ready`. */
bool inbox_has(const struct inbox *in, mono_t now,
               bool (*ready)(void *user, uint64_t conn, struct bytes frame), void *user);
/* Removes the first frame of the next such connection, with the ownership of it; false when there
 * is none. */
bool inbox_take(struct inbox *in, mono_t now,
                bool (*ready)(void *user, uint64_t conn, struct bytes frame), void *user,
                struct queued_frame *queued);

/* ---- key_rotation.c ---- */

/* The cell's signing keys, as far as this replica has them. A rotation brings in another key: the
 * master draws it, stores it and sends it to all members over their secure channels; once a
 * majority has it on disk the log says that it is in force, beside the one before. A replica that
 * was away asks the others for a key that the log names. A new replica is a learner without any
 * key, and asks for that which its cell file names; no replica without a key gets a vote or stands
 * for election. Secret keys are never in log or state. */

struct key_rotation;

struct key_rotation_config {
	const struct clock_io *clock; /* these four must outlive it */
	const struct identity *identity;
	const struct tree *tree;
	struct cell_file_writer *writer;
	void (*send)(void *user, uint8_t replica, uint64_t conn, struct bytes frame);
	/* A majority has the new key: the public ones to be in force are this one and the one
	 * before it, one after the other, and after these the newest one until now, if it is
	 * lost. Empty: this replica can't store the new key. */
	void (*agreed)(void *user, struct bytes keys);
	/* Other keys are to be used: key_rotation_keys. */
	void (*changed)(void *user);
	void *user;
};

/* Nothing is under way. The configuration is copied; what it points to must outlive it. */
struct key_rotation *key_rotation_new(const struct key_rotation_config *config);
/* Wipes the keys and frees it. */
void key_rotation_free(struct key_rotation *k);
/* The keys for a master on this replica. */
void key_rotation_keys(const struct key_rotation *k, struct master_keys *keys);
/* Begins to introduce a new key, unless one is being introduced; results in `agreed`. When this
 * replica lacks the newest key in force it asks all members for that meanwhile: it is lost if a
 * majority takes the new one and none has sent it within some seconds. */
void key_rotation_begin(struct key_rotation *k);
/* The tree may name other keys than before. */
void key_rotation_follow(struct key_rotation *k);
/* This replica is no longer the master, and introduces no key. */
void key_rotation_cease(struct key_rotation *k);
/* Takes a frame of a replica, which is a member of the cell or was removed, and is perhaps the
 * master. False: the frame is of another kind. */
bool key_rotation_peer(struct key_rotation *k, uint8_t from, bool member, bool master,
                       struct bytes frame);
/* The files were written, or could not be. */
void key_rotation_written(struct key_rotation *k);
/* The time at which key_rotation_timeout must be called. */
mono_t key_rotation_deadline(const struct key_rotation *k);
/* Sends a new key again, and asks again for one that is missing, as is due. */
void key_rotation_timeout(struct key_rotation *k, mono_t now);

/* ---- local_clients.c ---- */

/* Connections of clients in a server's own process. Frames for them wait in a queue until the
 * server delivers them. */

struct local_client;

struct local_clients {
	TAILQ_HEAD(, local_client) clients;
	uint64_t last; /* number of the last connection */
	struct frame_queue outbox;
};

/* Removes all clients and their frames; the struct can be used again. */
void local_clients_clear(struct local_clients *l);
/* Adds a client. Returns the connection's number, which is never used again. */
uint64_t local_clients_connect(struct local_clients *l, const struct server_client *client);
/* Removes a client; false: no connection has that number. */
bool local_clients_disconnect(struct local_clients *l, uint64_t conn);
/* Delivers all frames of the outbox, and the ends of connections, and those that are queued during
 * the delivery; they are dropped if the client is gone by then. */
void local_clients_deliver(struct local_clients *l);

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
	enum voting_condition condition; /* as it was logged last */
	enum server_verdict news;        /* the verdict that server_turn must still return */
	bool failed;                     /* no more steps are taken */

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

/* Takes one step of the replica, and carries out its update. Does nothing when the server has
 * failed or stopped. */
void server_step(struct server *s, struct replica_event event);
#define SERVER_STEP(s, ...) server_step(s, (struct replica_event){__VA_ARGS__})
/* Sets the verdict that server_turn returns at the end of this turn. */
void server_tell(struct server *s, enum server_verdict news);
/* Updates the cell file from the state, of which `saved` is the index that is on the disk. The file
 * must never be newer than the state on the disk: a replica that has lost its state starts with
 * that list. */
void server_keep_cell_file(struct server *s, uint64_t saved);
/* The gateway has a frame of another replica. */
void server_peer_frame(struct server *s, uint8_t replica, struct bytes frame);
/* Fills in the name of the principal that has this key; for CHANNEL_HOST none, and a member has it.
 * RC_PERM: there is none; RC_NOT_MASTER: none is known here, but this replica may not have heard of
 * it yet; RC_FULL: there is one, with all the connections it may have. */
enum rc server_principal(const struct server *s, enum channel_role role,
                         const uint8_t key[NOISE_KEY], struct bytes *name);
/* The gateway has let a client in, which has a number with GATEWAY_CONN from here on. */
void server_client_connected(struct server *s, uint64_t conn, struct bytes principal,
                             struct bytes key);
/* The gateway has a frame of the client. */
void server_client_frame(struct server *s, uint64_t conn, struct bytes frame);
/* The client has gone; not said after gateway_close. */
void server_client_gone(struct server *s, uint64_t conn);
/* Callback of the key rotation: a majority has a new signing key, which can be put in force. */
void server_keys_agreed(void *user, struct bytes keys);
/* Callback: the keys for a master on this replica have changed. */
void server_keys_changed(void *user);
/* Callback of the state transfer: a copy is begun for another replica. */
void server_copy_begun(void *user, uint8_t replica);
/* Callback: a frame is to be sent, to a replica, or, with 0, on a connection of a client. */
void server_transfer_send(void *user, uint8_t replica, uint64_t conn, struct bytes frame);
/* True when a server that is being stopped may stop: the mastership is handed over and all frames
 * are sent, or the time for it is over. */
bool server_has_left(const struct server *s);

#endif
