/* The server runs one replica over the services of its owner (server_io.h). It passes events to the
 * replica and carries out the updates: records go to the log before the messages that wait for
 * them. All decisions are made by the replica.
 *
 * The owner passes on its input in the order of arrival, then calls server_turn: so input that had
 * arrived before a deadline is processed before the deadline is. */
#ifndef LSFS_SERVER_SERVER_H
#define LSFS_SERVER_SERVER_H

#include "cell/config/identity.h"
#include "cell/server/server_io.h"

struct server;

/* The limits of a server, in bytes but for `patience`; 0: the default. */
struct server_limits {
	size_t backlog; /* of requests that wait for the log; above it no further ones are begun */
	size_t unsaved; /* of the state not yet written; above it likewise, and the master's entries
	                 * are dropped */
	size_t unsent;  /* of unsent replies to one client; above it its requests wait; less where a
	                 * principal has many clients */
	size_t flood;   /* of one client's waiting requests; above it nothing is read from it */
	size_t inbox;   /* of all waiting requests; above it clients that send more are closed */
	unsigned budget; /* frames of a principal's clients in INBOX_BUDGET_MS, while others send */
	size_t part;     /* of a part of a copy, in one message */
	size_t step;     /* of what a master does in one step, about */
	unsigned keepalives; /* of all sessions, a second; above it leases are longer */
	span_t patience;     /* time to wait for a part before it is requested again */
};

struct server_config {
	const struct identity *identity; /* these two outlive the server */
	const char *directory;           /* the name of the data directory in log lines */
	struct tree *tree;               /* the stored state; taken over */
	const struct px_recovered *recovered;
	size_t clients_max; /* number of clients over the network at a time */
	struct server_limits limits;
	uint32_t minor;                     /* version of wire and log that it speaks: WIRE_MINOR */
	struct bytes version;               /* of the program, for people */
	uint64_t log_entries, digest_every; /* as in px_config and replica_config; 0: the default */
	uint32_t batch_entries;             /* as in px_config */
	bool debug; /* logs the verdicts of the replica, at the level LEVEL_DEBUG */
};

/* Makes a server, which begins to connect to the other replicas, if there are any. `io` is
 * copied. */
struct server *server_new(const struct server_config *config, const struct server_io *io);
/* Frees the server, which makes no more calls to `io`; the owner ends the operations that were
 * begun for it. */
void server_free(struct server *s);

/* The next action of the owner. */
enum server_verdict {
	SERVER_GOES_ON,
	SERVER_FAILED,   /* the server can't go on (failed disk; no longer a member) and has logged
	                  * the reason: stop it */
	SERVER_RESTARTS, /* stop it and start it again: there is a new state */
	SERVER_DIVERGED, /* likewise, but set its state aside first: it is wrong */
	SERVER_LEFT,     /* server_stop is finished: free the server */
};

/* Must be called when all input was passed on, and at server_deadline. */
enum server_verdict server_turn(struct server *s);
/* The latest time of the next turn; the instant 0: at once. */
mono_t server_deadline(const struct server *s);
/* Reports that the deadline was reached before the owner looked for input the last time: the next
 * turn handles it. */
void server_timeout(struct server *s);
/* Begins to stop: hands the mastership over, for at most two seconds; then server_turn returns
 * SERVER_LEFT. The clients in this process get no callbacks from here on. */
void server_stop(struct server *s);

/* Result of a call of struct server_io: this write and all earlier ones are durable. */
void server_persisted(struct server *s, uint64_t write);
/* Result: the state up to the index `applied` is durable, and `unsaved` bytes of it still wait to
 * be written. */
void server_saved(struct server *s, uint64_t applied, size_t unsaved);
/* The disk is full, or has free space again. */
void server_full(struct server *s, bool full);
/* The disk has failed: no further results follow. */
void server_disk_failed(struct server *s, const char *why);
/* RC_OK; RC_IO: the disk has failed; other errors do not mean that. `keys_kept`: the signing keys
 * are on disk, also when the cell file is not. `why`: for people. */
void server_cell_file_written(struct server *s, enum rc rc, bool keys_kept, const char *why);
/* RC_OK: a copy of `size` bytes, of the state at index `applied`. RC_NODATA: the state is still
 * empty. RC_NOSPC, RC_IO: there is no copy, for the reason `why`. */
void server_copy_made(struct server *s, enum rc rc, uint64_t applied, uint64_t size,
                      const char *why);
/* `why` NULL: the fetched state is complete, and the next start uses it. Else it was discarded, for
 * the reason `why`. */
void server_fetch_checked(struct server *s, const char *why);
/* True if a replica or a principal has this key, as far as the replica has applied the log. */
bool server_knows(const struct server *s, const uint8_t key[NOISE_KEY]);
/* The peer of a connection has proved that it holds the key. True: the peer is accepted; false: the
 * owner must close the connection, after the frames that were sent during this call. */
bool server_opened(struct server *s, uint64_t conn, enum channel_role role,
                   const uint8_t key[NOISE_KEY]);
/* One whole frame; the view is valid during the call. */
void server_frame(struct server *s, uint64_t conn, struct bytes frame);
/* The connection holds `bytes` of memory for an unfinished frame; 0: none. `fresh`: this frame
 * differs from that of the last call. The connection may be closed. */
void server_unfinished(struct server *s, uint64_t conn, size_t bytes, bool fresh);
/* One whole frame, received as a datagram beside a client's connection, once. */
void server_datagram(struct server *s, uint64_t conn, struct bytes frame);
/* The connection was lost or could not be made; `why` is for people, and static. */
void server_closed(struct server *s, uint64_t conn, const char *why);

/* Clients inside this process. `frame` is called with each frame for the connection, a view that is
 * valid during the call; `closed` when the replica closes the connection. Neither is called from
 * within server_connect or server_send. Both may call all functions of this header. */
struct server_client {
	void (*frame)(void *user, struct bytes frame);
	void (*closed)(void *user);
	void *user;
};

/* Returns the number of the new connection. Must not be called after server_stop. */
uint64_t server_connect(struct server *s, const struct server_client *client,
                        const char *principal);
/* Processes one or more whole frames of the client, which are copied if they must wait. Frames for
 * a connection that was closed are dropped. */
void server_send(struct server *s, uint64_t conn, struct bytes frames);
/* Closes the connection; its callbacks are no longer called. */
void server_disconnect(struct server *s, uint64_t conn);

/* The replica that the server runs, for tests and observers. */
const struct replica *server_replica(const struct server *s);

#endif
