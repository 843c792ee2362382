/* Connections of clients in a host's own process: frames for them wait in a queue until the host
 * has time to deliver. */
#ifndef LSFS_IO_LOCAL_H
#define LSFS_IO_LOCAL_H

#include "cell/io/host.h"
#include "cell/io/parcel.h"

struct local_client;

struct local {
	TAILQ_HEAD(, local_client) clients;
	uint64_t last;             /* number of a connection */
	struct parcel_list outbox;
};

void local_init(struct local *l);
/* Forgets all clients and what waits for them; it can be used again. */
void local_clear(struct local *l);
/* Numbers are never used again. */
uint64_t local_connect(struct local *l, const struct host_client *client);
/* False: there is none of that number. */
bool local_disconnect(struct local *l, uint64_t conn);
bool local_has(const struct local *l, uint64_t conn);
/* A frame, or the end, for a client; to nobody if it is gone by its turn. */
void local_post(struct local *l, struct parcel parcel);
/* Delivers all; what clients cause meanwhile comes into the same queue. */
void local_deliver(struct local *l);

#endif
