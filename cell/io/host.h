/* The host: runs one replica on a libuv loop. Events in, updates out, records to the store before
 * the messages that wait for them; nothing here decides anything. */
#ifndef LSFS_IO_HOST_H
#define LSFS_IO_HOST_H

#include <uv.h>
#include "cell/base/bytes.h"

struct host;

struct host_config {
	const char *directory; /* copied; what must be in it says cell/config/identity.h */
	/* The replica can't go on (failed disk, or not a member of its cell any more); one line,
	 * already logged. The owner calls host_stop and ends the process. */
	void (*failed)(void *user);
	/* The replica has to begin anew: with a state that it has copied from another one, or to
	 * copy one. The owner calls host_stop and then opens and starts it again. A cell in one
	 * process never has to. */
	void (*restart)(void *user);
	void *user;
};

/* Opens the data directory and its store; NULL with one line in `why`. Starts no thread, but opens
 * databases: a daemon forks before it. */
struct host *host_open(const struct host_config *config, char *why, size_t why_size);
/* Starts threads and timers on the loop; listens and connects to the other replicas, if there are
 * any. False with one line in `why`: the host still has to be stopped. */
bool host_start(struct host *h, uv_loop_t *loop, char *why, size_t why_size);

/* Clients inside this process. `frame` is called, never from within host_connect or host_send, with
 * each frame for the connection, which lasts for the call; `closed` when the replica closes it.
 * Both may call everything here. */
struct host_client {
	void (*frame)(void *user, struct bytes frame);
	void (*closed)(void *user);
	void *user;
};

/* Only between host_start and host_stop. */
uint64_t host_connect(struct host *h, const struct host_client *client, const char *principal);
/* One or more whole frames; copied where needed. Frames for a connection that was closed are
 * dropped. */
void host_send(struct host *h, uint64_t conn, struct bytes frames);
/* No callback for this connection comes any more. */
void host_disconnect(struct host *h, uint64_t conn);

/* Hands the mastership over, finishes writing, closes everything it has on the loop, then calls
 * `stopped`, with nothing left of the host. No client of this process hears anything meanwhile. A
 * host on which host_start was not called is gone, and `stopped` was called, at the return. */
void host_stop(struct host *h, void (*stopped)(void *user), void *user);

#endif
