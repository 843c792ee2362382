/* Connections of clients in a server's own process. Frames for them wait in a queue until the
 * server delivers them. */
#ifndef LSFS_SERVER_LOCAL_CLIENTS_H
#define LSFS_SERVER_LOCAL_CLIENTS_H

#include "cell/server/server.h"
#include "cell/server/frame_queue.h"

struct local_client;

struct local_clients {
	TAILQ_HEAD(, local_client) clients;
	uint64_t last; /* number of the last connection */
	struct frame_queue outbox;
};

/* There are no clients. */
void local_clients_init(struct local_clients *l);
/* Removes all clients and their frames; the struct can be used again. */
void local_clients_clear(struct local_clients *l);
/* Adds a client. Returns the connection's number, which is never used again. */
uint64_t local_clients_connect(struct local_clients *l, const struct server_client *client);
/* Removes a client; false: no connection has that number. */
bool local_clients_disconnect(struct local_clients *l, uint64_t conn);
/* Delivers all frames of the outbox, and the ends of connections, and those that are queued during
 * the delivery; they are dropped if the client is gone by then. */
void local_clients_deliver(struct local_clients *l);

#endif
