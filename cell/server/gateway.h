/* A replica's connections over the network. The gateway keeps connections to all other members of
 * the cell, for the messages to them, and accepts connections by key: those of other members as
 * replicas, those of principals as clients; all others are refused. A replica that was removed from
 * the cell is accepted, too, so that it can learn of its removal: messages to it are sent on the
 * connections that it has made. Clients are accepted up to a number that leaves some of the files
 * that the process may have open. */
#ifndef LSFS_SERVER_GATEWAY_H
#define LSFS_SERVER_GATEWAY_H

#include "cell/server/server_io.h"

struct gateway;

/* Set in the numbers of clients' connections over the network; clear in those of clients in the
 * process. */
#define GATEWAY_CONN (1ull << 63)

/* Called from within gateway_opened, gateway_frame and gateway_closed only. */
struct gateway_callbacks {
	void (*peer)(void *user, uint8_t replica, struct bytes frame);
	/* Fills in the name of the principal that has this key; for CHANNEL_HOST none, and a member
	 * has it. RC_PERM: there is none; RC_NOT_MASTER: none is known here, but this replica may
	 * not have heard of it yet; RC_FULL: there is one, with as many connections as it may have.
	 */
	enum rc (*principal)(void *user, enum channel_role role, const uint8_t key[NOISE_KEY],
	                     struct bytes *name);
	void (*connected)(void *user, uint64_t conn, struct bytes principal, struct bytes key);
	void (*frame)(void *user, uint64_t conn, struct bytes frame);
	void (*disconnected)(void *user, uint64_t conn); /* not after gateway_close */
	void *user;
};

struct gateway_config {
	const struct cell_file *cell_file; /* outlives the gateway */
	uint8_t self;                      /* this replica's id */
	size_t clients_max;                /* number of clients that are accepted at a time */
};

/* `io` must outlive the gateway, the rest is copied. Until other members are set they are those of
 * the cell file. */
struct gateway *gateway_new(const struct server_io *io, const struct gateway_config *config,
                            const struct gateway_callbacks *callbacks);
/* Begins to connect to the members. */
void gateway_start(struct gateway *g);
/* Frees the gateway; does not close the connections, which the owner of `io` does. */
void gateway_free(struct gateway *g);

/* Passes on server_opened. */
bool gateway_opened(struct gateway *g, uint64_t conn, enum channel_role role,
                    const uint8_t key[NOISE_KEY]);
/* Passes on server_frame. */
void gateway_frame(struct gateway *g, uint64_t conn, struct bytes frame);
/* Passes on server_closed. */
void gateway_closed(struct gateway *g, uint64_t conn, const char *why);
/* The next attempt to connect, for which gateway_timeout must be called. */
mono_t gateway_deadline(const struct gateway *g);
/* Makes the attempts that are due. */
void gateway_timeout(struct gateway *g, mono_t now);
/* Sets the members, this replica and removed ones included; copied. The gateway connects to new
 * members and to those with a new address, and closes connections with replicas that are gone.
 * Lists older than the last one are ignored. May be called before gateway_start. */
void gateway_set_members(struct gateway *g, uint64_t version,
                         const struct cell_file_replica *members, int n);
/* True if the replica is in the list and was not removed. */
bool gateway_has_member(const struct gateway *g, uint8_t id);
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
/* Closes a client's connection, once the frames for it were sent. */
void gateway_close(struct gateway *g, uint64_t conn);

#endif
