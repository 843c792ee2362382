/* A link connects a client to its cell: to a server in this process, or over the network; the
 * engine uses both in the same way. It keeps one connection for requests, to the replica that the
 * client chooses, and a standby, an idle second connection for announcements
 * (client_update.connect, .listen). */
#ifndef LSFS_FS_LINK_H
#define LSFS_FS_LINK_H

#include <uv.h>
#include "cell/client/client.h"
#include "cell/config/cell_file.h"
#include "cell/net/srv_lookup.h"
#include "cell/server/server.h"
#include "cell/wire/channel.h"

struct link;

/* `standby`: the event is of the second connection. None of these is called from within a link_
 * function, nor for a connection that was replaced by another. */
struct link_callbacks {
	void (*connected)(void *user);
	void (*frame)(void *user, bool standby, struct bytes frame);
	/* Or the attempt to connect failed; `denied`: because the master does not know our key. */
	void (*disconnected)(void *user, bool standby, bool denied);
	/* A frame was received as a datagram beside the first connection. */
	void (*datagram)(void *user, struct bytes frame);
	void *user;
};

/* A link to a started server in this process, which must outlive the link. There is no standby: the
 * only replica stays the master. */
struct link *link_to_server(uv_loop_t *loop, struct server *server, const char *principal);
/* A link over the network, as the principal that holds `key`; cell file, addresses and key are
 * copied. `srv`: addresses in place of those in the cell file, each of which is tried with each
 * replica's key, until the members are set; none: those in the file. NULL with a negative errno in
 * *error. */
struct link *link_to_cell(uv_loop_t *loop, const struct cell_file *cell_file,
                          const struct srv_addresses *srv, const struct noise_pair *key,
                          int *error);

/* Sets the replicas and their addresses, which are copied; before the first call they are those of
 * the cell file. Existing connections are kept. */
void link_set_members(struct link *l, const struct client_members *members);
/* Sets the callbacks. It must be called before every other function but link_stop. */
void link_start(struct link *l, const struct link_callbacks *callbacks);
/* Connects to the replica; drops the present connection. */
void link_connect(struct link *l, uint8_t replica);
/* Connects the standby to the replica (0: none); drops the present one. */
void link_listen(struct link *l, uint8_t replica);
/* Sends one or more whole frames, which are copied, on the first connection; dropped while that is
 * not connected. */
void link_send(struct link *l, struct bytes frames);
/* Sends a frame as a datagram beside the first connection, over the network only. */
void link_send_datagram(struct link *l, struct bytes frame);
/* Has `refused` called when it is certain, before any replica has answered, that every replica will
 * refuse us: the cell does not know our key, or the replicas belong to another cell; or when the
 * master grants us no lasting session, at any time. Of the link_ functions only link_connect may
 * call it. */
void link_on_refused(struct link *l, void (*refused)(void *user), void *user);
/* The human-readable reason why there is no session, as "replica 2 at HOST:PORT: connection
 * refused"; valid until the next call or callback. */
const char *link_trouble(const struct link *l);
/* Closes the connections once the sent frames are written, frees the link, then calls `stopped`,
 * with nothing left on the loop. */
void link_stop(struct link *l, void (*stopped)(void *user), void *user);

#endif
