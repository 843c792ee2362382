/* The server: runs one replica on a libuv loop. Events in, updates out, records to the store before
 * the messages that wait for them; nothing here decides anything. */
#ifndef LSFS_SERVER_SERVER_H
#define LSFS_SERVER_SERVER_H

#include <uv.h>
#include "cell/base/bytes.h"

struct server;

struct server_config {
	const char *directory; /* copied; what must be in it says cell/config/identity.h */
	/* The replica can't go on (failed disk, or not a member of its cell any more); one line,
	 * already logged. The owner calls server_stop and ends the process. */
	void (*failed)(void *user);
	/* The replica has to begin anew: with a state that it has copied from another one, or to
	 * copy one. The owner calls server_stop and then opens and starts it again. A cell in one
	 * process never has to. */
	void (*restart)(void *user);
	void *user;
};

/* Opens the data directory and its store; NULL with one line in `why`. Starts no thread, but opens
 * databases: a daemon forks before it. */
struct server *server_open(const struct server_config *config, char *why, size_t why_size);
/* Starts threads and timers on the loop; listens and connects to the other replicas, if there are
 * any. False with one line in `why`: the server still has to be stopped. */
bool server_start(struct server *s, uv_loop_t *loop, char *why, size_t why_size);

/* Clients inside this process. `frame` is called, never from within server_connect or server_send,
 * with each frame for the connection, which lasts for the call; `closed` when the replica closes
 * it. Both may call everything here. */
struct server_client {
	void (*frame)(void *user, struct bytes frame);
	void (*closed)(void *user);
	void *user;
};

/* Only between server_start and server_stop. */
uint64_t server_connect(struct server *s, const struct server_client *client,
                        const char *principal);
/* One or more whole frames; copied where needed. Frames for a connection that was closed are
 * dropped. */
void server_send(struct server *s, uint64_t conn, struct bytes frames);
/* No callback for this connection comes any more. */
void server_disconnect(struct server *s, uint64_t conn);

/* Hands the mastership over, finishes writing, closes everything it has on the loop, then calls
 * `stopped`, with nothing left of the server. No client of this process hears anything meanwhile. A
 * server on which server_start was not called is gone, and `stopped` was called, at the return. */
void server_stop(struct server *s, void (*stopped)(void *user), void *user);

#endif
