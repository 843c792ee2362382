/* Connections of clients in a server's own process: frames for them wait in a queue until the
 * server has time to deliver. */
#ifndef LSFS_SERVER_LOCAL_CLIENTS_H
#define LSFS_SERVER_LOCAL_CLIENTS_H

#include "cell/server/server.h"
#include "cell/server/frame_queue.h"

struct local_client;

struct local_clients {
	TAILQ_HEAD(, local_client) clients;
	uint64_t last;             /* number of a connection */
	struct frame_queue outbox;
};

void local_clients_init(struct local_clients *l);
/* Forgets all clients and what waits for them; it can be used again. */
void local_clients_clear(struct local_clients *l);
/* Numbers are never used again. */
uint64_t local_clients_connect(struct local_clients *l, const struct server_client *client);
/* False: there is none of that number. */
bool local_clients_disconnect(struct local_clients *l, uint64_t conn);
bool local_clients_has(const struct local_clients *l, uint64_t conn);
/* A frame, or the end, for a client; to nobody if it is gone by its turn. */
void local_clients_post(struct local_clients *l, struct queued_frame queued);
/* Delivers all; what clients cause meanwhile comes into the same queue. */
void local_clients_deliver(struct local_clients *l);

#endif
