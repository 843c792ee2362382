/* Frames of clients that wait in a server: in a queue for each connection, and the connections of a
 * principal together. Principals take turns, one frame each, and so do the connections of each: a
 * client that sends many frames delays those of its own principal, and not others.
 *
 * A principal that has much under way while others send frames has a budget: so many of its frames
 * are handled in so much time, and no more, though nobody else's wait. For another one's frame
 * would find the replica at work for it, and the log being written. */
#ifndef LSFS_SERVER_INBOX_H
#define LSFS_SERVER_INBOX_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include "cell/base/mono.h"
#include "cell/server/frame_queue.h"

enum {
	INBOX_KEY = 32,  /* bytes of a key, which stands for its principal */
	INBOX_FREE = 16, /* frames of a principal that wait or are under way, outside its budget */
	INBOX_BUDGET_MS = 50,
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

struct inbox {
	unsigned budget;
	struct inbox_tree queues;           /* by connection */
	struct inbox_principals principals; /* by key */
	size_t principals_n;
	struct inbox_turns turns; /* those of whose frames some wait */
	size_t bytes;             /* of all waiting frames */
	/* The principal whose frame was handled last, NULL: none or it has gone; the time of that;
	 * and when a frame of any other principal was handled last. */
	const struct inbox_principal *latest_principal;
	mono_t latest_at, latest_of_others_at;
};

/* `budget`: frames of a principal in INBOX_BUDGET_MS. */
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
/* Takes over `frame`; frees it when there is no such connection any more. Returns the number of
 * waiting bytes of the connection. */
size_t inbox_put(struct inbox *in, uint64_t conn, struct bytes frame);
/* The number of waiting bytes of the connection. */
size_t inbox_bytes(const struct inbox *in, uint64_t conn);
/* The same of all connections of its principal. */
size_t inbox_bytes_of_principal(const struct inbox *in, uint64_t conn);
/* Counts a KeepAlive of the connection, or a datagram. False: there are more than a client has
 * reason to send. */
bool inbox_keepalive(struct inbox *in, uint64_t conn, mono_t now, bool datagram);
/* May a frame of the connection be handled now? */
bool inbox_in_budget(const struct inbox *in, uint64_t conn, mono_t now);
/* One is, while its principal has so many requests under way. */
void inbox_charge(struct inbox *in, uint64_t conn, mono_t now, size_t under_way);
/* When frames that wait for a budget may be handled; MONO_NEVER: there are none. */
mono_t inbox_deadline(const struct inbox *in, mono_t now);
/* Is there a connection in its budget whose first frame is `ready`? */
bool inbox_has(const struct inbox *in, mono_t now,
               bool (*ready)(void *user, uint64_t conn, struct bytes frame), void *user);
/* Removes the first frame of the next such connection, with the ownership of it; false when there
 * is none. */
bool inbox_take(struct inbox *in, mono_t now,
                bool (*ready)(void *user, uint64_t conn, struct bytes frame), void *user,
                struct queued_frame *queued);

#endif
