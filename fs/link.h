/* A client's way to its cell: in this process (a server), or over the network. The engine of the
 * mount and the tools speak to both through this. One connection to the replica that is asked for,
 * and an idle second one for announcements (client_update.connect, .listen). */
#ifndef LSFS_FS_LINK_H
#define LSFS_FS_LINK_H

#include <uv.h>
#include "cell/client/client.h"
#include "cell/config/cell_file.h"
#include "cell/server/server.h"
#include "cell/wire/channel.h"

struct link;

/* `standby`: of the second connection. None of these is called from within a link_ function;
 * nothing is told of a connection that was given up for another. */
struct link_callbacks {
	void (*connected)(void *user);
	void (*frame)(void *user, bool standby, struct bytes frame);
	void (*disconnected)(void *user, bool standby); /* or could not be connected */
	void *user;
};

/* To a server in this process (started), which must outlive the link. There is no second
 * connection: the server stays the master. */
struct link *link_to_server(uv_loop_t *loop, struct server *server, const char *principal);
/* Over the network, as the principal that holds `key`; both are copied. NULL with a negative errno
 * in *error. */
struct link *link_to_cell(uv_loop_t *loop, const struct cell_file *cell_file,
                          const struct noise_pair *key, int *error);

/* The replicas from now on, with their addresses; copied. Until then those of the cell file. What
 * is connected stays so. */
void link_set_members(struct link *l, const struct client_members *members);
/* Before anything else but link_stop. */
void link_start(struct link *l, const struct link_callbacks *callbacks);
void link_connect(struct link *l, uint8_t replica); /* drops the present connection */
void link_listen(struct link *l, uint8_t replica);  /* the second one; 0: none */
/* One or more whole frames, copied, on the first connection; dropped when it does not stand. */
void link_send(struct link *l, struct bytes frames);
/* Calls `refused` when it is certain, before any replica has answered, that none will have us: the
 * cell does not know our key, or its replicas are of another cell. Not from within a link_ function
 * but link_connect. */
void link_tell_refused(struct link *l, void (*refused)(void *user), void *user);
/* Why there is no session, for people: "replica 2 at HOST:PORT: connection refused". */
const char *link_trouble(const struct link *l);
/* Closes everything it has on the loop, after what was sent; frees itself, then calls `stopped`. */
void link_stop(struct link *l, void (*stopped)(void *user), void *user);

#endif
