/* A replica's side of the network: it keeps a connection to every other member of the cell for what
 * it sends there, and lets in who has a key: the other members as replicas, principals as clients,
 * nobody else and nobody as what he is not. A replica that was removed from the cell is let in,
 * too, to be told: what is sent to it goes out on the connection that it has made. Clients are let
 * in as long as they leave some of the files that the process may have open. */
#ifndef LSFS_SERVER_GATEWAY_H
#define LSFS_SERVER_GATEWAY_H

#include "cell/server/server_io.h"

struct gateway;

/* Numbers of clients' connections have this bit, those in the process do not. */
#define GATEWAY_CONN (1ull << 63)

/* Called from within gateway_opened, gateway_frame and gateway_closed only. */
struct gateway_callbacks {
	void (*peer)(void *user, uint8_t replica, struct bytes frame);
	void (*connected)(void *user, uint64_t conn, const char *principal);
	void (*frame)(void *user, uint64_t conn, struct bytes frame);
	void (*disconnected)(void *user, uint64_t conn); /* not after gateway_close */
	void *user;
};

struct gateway_config {
	const struct cell_file *cell_file; /* outlives the gateway */
	uint8_t self;                      /* this replica's id */
	size_t clients_max;                /* clients that are let in at a time */
};

/* `io` outlives the gateway, the rest is copied; the members are those of the cell file until
 * others are set. */
struct gateway *gateway_new(const struct server_io *io, const struct gateway_config *config,
                            const struct gateway_callbacks *callbacks);
/* Begins to connect. */
void gateway_start(struct gateway *g);
/* Its connections are closed by whoever has made them. */
void gateway_free(struct gateway *g);

/* What server_opened, server_frame and server_closed tell. */
bool gateway_opened(struct gateway *g, uint64_t conn, enum channel_role role,
                    const uint8_t key[NOISE_KEY]);
void gateway_frame(struct gateway *g, uint64_t conn, struct bytes frame);
void gateway_closed(struct gateway *g, uint64_t conn, const char *why);
/* When it tries again to connect; gateway_timeout is called then. */
mono_t gateway_deadline(const struct gateway *g);
void gateway_timeout(struct gateway *g, mono_t now);
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

#endif
