/* A server on a libuv loop, with the databases of a data directory and with sockets: production's
 * struct server_io. A replica that joins a cell is given the cell's signing key first. */
#ifndef LSFS_HOST_SERVER_PROCESS_H
#define LSFS_HOST_SERVER_PROCESS_H

#include <uv.h>
#include "cell/server/server.h"

struct server_process;

struct server_process_config {
	const char *directory; /* copied; what must be in it says cell/config/identity.h */
	/* The replica can't go on (failed disk, or not a member of its cell any more); one line,
	 * already logged. The owner calls server_process_stop and ends the process. */
	void (*failed)(void *user);
	/* The replica has to begin anew: with the key that it was given, with a state that it has
	 * copied from another one, or to copy one. The owner calls server_process_stop and then
	 * opens and starts it again. NULL: a cell in one process, which never has to. */
	void (*restart)(void *user);
	void *user;
};

/* Opens the data directory and its store; NULL with one line in `why`. Starts no thread, but opens
 * databases: a daemon forks before it. */
struct server_process *server_process_open(const struct server_process_config *config, char *why,
                                           size_t why_size);
/* Starts threads and timers on the loop; listens and connects to the other replicas, if there are
 * any. False with one line in `why`: it still has to be stopped. */
bool server_process_start(struct server_process *p, uv_loop_t *loop, char *why, size_t why_size);
/* For clients in this process; between server_process_start and server_process_stop. */
struct server *server_process_server(struct server_process *p);
/* Hands the mastership over, finishes writing, closes everything it has on the loop, then calls
 * `stopped`, with nothing left of it. If server_process_start was not called that is so at the
 * return. */
void server_process_stop(struct server_process *p, void (*stopped)(void *user), void *user);

#endif
