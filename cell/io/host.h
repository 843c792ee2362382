/* The host: runs one replica on a libuv loop. Events in, updates out, records to the store before
 * the messages that wait for them; nothing here decides anything. */
#ifndef LSFS_IO_HOST_H
#define LSFS_IO_HOST_H

#include <uv.h>
#include "cell/base/bytes.h"

struct host;

struct host_config {
	const char *directory; /* with cell.conf and signing.key */
	/* The replica can't go on (failed disk); one line, already logged. The owner ends the process. */
	void (*failed)(void *user);
	void *user;
};

/* Opens the data directory and its store; NULL with one line in `why`. Starts nothing (so a daemon
 * may still fork only before this: databases are open). */
struct host *host_open(const struct host_config *config, char *why, size_t why_size);
/* Starts threads and timers on the loop. 0 or -errno. */
int host_start(struct host *h, uv_loop_t *loop);

/* Clients inside this process. `frame` is called, never from within host_connect or host_send, with
 * each frame for the connection; `closed` when the replica closes it. */
struct host_client {
	void (*frame)(void *user, struct bytes frame);
	void (*closed)(void *user);
	void *user;
};

uint64_t host_connect(struct host *h, const struct host_client *client, const char *principal);
void host_send(struct host *h, uint64_t conn, struct bytes frames); /* one or more whole frames */
void host_disconnect(struct host *h, uint64_t conn);

/* Steps down, finishes writing, closes everything it has on the loop, then calls `stopped`. */
void host_stop(struct host *h, void (*stopped)(void *user), void *user);

#endif
