/* A replica's side of the network: it listens on its address, keeps a connection to every other
 * member of the cell for what it sends there, and lets in who has a key: the other members as
 * replicas, principals as clients, nobody else and nobody as what he is not. A replica that was
 * removed from the cell is let in, too, to be told: what is sent to it goes out on the connection
 * that it has made. Clients are let in as long as they leave some of the files that the process may
 * have open. */
#ifndef LSFS_SERVER_GATEWAY_H
#define LSFS_SERVER_GATEWAY_H

#include <uv.h>
#include "cell/config/identity.h"

struct gateway;

/* Numbers of clients' connections have this bit, those in the process do not. */
#define GATEWAY_CONN (1ull << 63)

/* None of these is called from within a gateway_ function. */
struct gateway_callbacks {
	void (*peer)(void *user, uint8_t replica, struct bytes frame);
	void (*connected)(void *user, uint64_t conn, const char *principal);
	void (*frame)(void *user, uint64_t conn, struct bytes frame);
	void (*disconnected)(void *user, uint64_t conn); /* not after gateway_close */
	void *user;
};

/* `identity` is copied; the members are those of its cell file until others are set. NULL with one
 * line in `why`. */
struct gateway *gateway_new(uv_loop_t *loop, const struct identity *identity,
                            const struct gateway_callbacks *callbacks, char *why,
                            size_t why_size);
/* Listens, and begins to connect. False with one line in `why`; then it has to be stopped. */
bool gateway_start(struct gateway *g, char *why, size_t why_size);
/* The members from here on, this replica and those that were removed among them; copied. New ones
 * are connected to, also those with another address than before; connections with those that are
 * gone are closed. A list of an older version than the last one is ignored. Before gateway_start,
 * too. */
void gateway_set_members(struct gateway *g, uint64_t version,
                         const struct cell_file_replica *members, int n);
/* Is it in the list, and not removed? */
bool gateway_has_member(const struct gateway *g, uint8_t id);
/* A whole frame; dropped when there is no connection to that replica right now. */
void gateway_send_peer(struct gateway *g, uint8_t replica, struct bytes frame);
/* The same to a client. */
void gateway_send(struct gateway *g, uint64_t conn, struct bytes frame);
/* Stops reading from a client, or (off) goes on; and how much that was sent to it has not left. */
void gateway_hold(struct gateway *g, uint64_t conn, bool on);
size_t gateway_unsent_bytes(const struct gateway *g, uint64_t conn);
/* Whose connection it is; NULL: it is gone. */
const char *gateway_principal(const struct gateway *g, uint64_t conn);
/* Ends a client's connection, after what was sent to it. */
void gateway_close(struct gateway *g, uint64_t conn);
/* Ends everything, after what was sent; then calls `stopped`, with nothing left. */
void gateway_stop(struct gateway *g, void (*stopped)(void *user), void *user);

#endif
