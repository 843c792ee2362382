/* The server: runs one replica over whatever its owner provides (server_io.h). Events in, updates
 * out, records to the log before the messages that wait for them; nothing here decides what a
 * replica decides.
 *
 * The owner hands over what has come, in the order in which it came, and then calls server_turn:
 * so whatever had arrived when a deadline passed is heard before the deadline is. */
#ifndef LSFS_SERVER_SERVER_H
#define LSFS_SERVER_SERVER_H

#include "cell/config/identity.h"
#include "cell/server/server_io.h"

struct server;

/* Bytes of which a server has too much, and the like; 0: the usual. */
struct server_limits {
	size_t backlog; /* of requests that wait for the log: no further ones are begun */
	size_t unsaved; /* of the state: likewise, and the master's entries are dropped */
	size_t unsent;  /* of replies to one client: its requests wait for their leaving */
	size_t flood;   /* of one client's requests that wait: nothing is read from it */
	size_t inbox;   /* of all those: clients that send more are closed */
	size_t part;    /* of a copy in one message */
	span_t patience; /* with a part that was asked for, before it is asked for again */
};

struct server_config {
	const struct identity *identity; /* these two outlive the server */
	const char *directory;           /* as messages name the replica's data */
	struct tree *tree;               /* as it was stored; taken over */
	const struct px_recovered *recovered;
	size_t clients_max; /* clients on the network at a time */
	struct server_limits limits;
	uint32_t minor;     /* version of wire and log that it speaks: WIRE_MINOR */
	uint64_t log_entries, digest_every; /* see px_config, replica_config; 0: the usual */
};

/* Begins to connect to the other replicas, if there are any. `io` is copied. */
struct server *server_new(const struct server_config *config, const struct server_io *io);
/* Nothing more is called; what the owner has begun for it is the owner's to end. */
void server_free(struct server *s);

/* What the owner has to do. */
enum server_verdict {
	SERVER_GOES_ON,
	SERVER_FAILED,    /* it can't go on (a failed disk; no member any more), and has said why:
	                   * stop it */
	SERVER_RESTARTS,  /* stop it, and start it anew: there is a new state */
	SERVER_DIVERGED,  /* likewise, after its state was set aside: it is wrong */
	SERVER_LEFT,      /* what server_stop began is done: free it */
};

/* To be called when everything that has come was handed over, and at server_deadline. */
enum server_verdict server_turn(struct server *s);
/* When the next turn is due at the latest; the instant 0: at once. */
mono_t server_deadline(const struct server *s);
/* The deadline had come before the last input was looked for: the next turn heeds it. */
void server_timeout(struct server *s);
/* Delivers to the clients in this process what waits for them. */
void server_deliver(struct server *s);
/* Hands the mastership over, as far as there is time for it, and tells with SERVER_LEFT that it is
 * done. No client of this process hears anything from here on. */
void server_stop(struct server *s);

/* What becomes of the calls of struct server_io. */
void server_persisted(struct server *s, uint64_t write); /* it and all before are durable */
void server_saved(struct server *s, uint64_t applied);   /* likewise */
/* The disk is full, or has room again. */
void server_full(struct server *s, bool full);
/* The disk has failed: nothing else of it comes any more. */
void server_disk_failed(struct server *s, const char *why);
/* RC_IO: the disk has failed; anything else but RC_OK is no word against it. */
void server_cell_file_written(struct server *s, enum rc rc, const char *why);
/* RC_OK; RC_NODATA: the state is empty yet; RC_NOSPC, RC_IO: there is no copy, and `why`. */
void server_copy_made(struct server *s, enum rc rc, uint64_t applied, uint64_t size,
                      const char *why);
/* NULL: it is whole, and the next start begins with it; else it is gone, and why. */
void server_fetch_checked(struct server *s, const char *why);
/* The peer of a connection has proved that it holds the key: true when it is welcome; else the
 * connection is to be closed, after what was sent from within. */
bool server_opened(struct server *s, uint64_t conn, enum channel_role role,
                   const uint8_t key[NOISE_KEY]);
/* One whole frame; a view. */
void server_frame(struct server *s, uint64_t conn, struct bytes frame);
/* It is gone, or could not be made; `why` is for people, and static. */
void server_closed(struct server *s, uint64_t conn, const char *why);

/* Clients inside this process. `frame` is called, never from within server_connect or server_send,
 * with each frame for the connection, which lasts for the call; `closed` when the replica closes
 * it. Both may call everything here. */
struct server_client {
	void (*frame)(void *user, struct bytes frame);
	void (*closed)(void *user);
	void *user;
};

/* Not after server_stop. */
uint64_t server_connect(struct server *s, const struct server_client *client,
                        const char *principal);
/* One or more whole frames; copied where needed. Frames for a connection that was closed are
 * dropped. */
void server_send(struct server *s, uint64_t conn, struct bytes frames);
/* No callback for this connection comes any more. */
void server_disconnect(struct server *s, uint64_t conn);

/* What it runs, for those who look on. */
const struct replica *server_replica(const struct server *s);

#endif
