/* A client's way to its cell: in this process (a host), or over the network. The engine of the mount
 * and the tools speak to both through this. One connection to the replica that is asked for, and an
 * idle second one for announcements (client_update.connect, .listen). */
#ifndef LSFS_IO_LINK_H
#define LSFS_IO_LINK_H

#include <uv.h>
#include "cell/io/conf.h"
#include "cell/io/host.h"
#include "cell/wire/channel.h"

struct link;

/* `aside`: of the second connection. None of these is called from within a link_ function. */
struct link_callbacks {
	void (*connected)(void *user);
	void (*frame)(void *user, bool aside, struct bytes frame);
	void (*disconnected)(void *user, bool aside); /* or could not be connected */
	void *user;
};

/* To a host in this process, which must outlive the link. */
struct link *link_to_host(struct host *host, const char *principal);
/* Over the network, as the principal that holds `key`. NULL on a negative errno in *error. */
struct link *link_to_cell(uv_loop_t *loop, const struct conf *conf, const struct noise_pair *key,
                          int *error);

void link_start(struct link *l, const struct link_callbacks *callbacks);
void link_connect(struct link *l, uint8_t replica); /* drops the present connection */
void link_listen(struct link *l, uint8_t replica);  /* the second one; 0: none */
void link_send(struct link *l, struct bytes frames);
/* Closes everything it has on the loop, frees itself, then calls `stopped` (at once for a host). */
void link_stop(struct link *l, void (*stopped)(void *user), void *user);

#endif
