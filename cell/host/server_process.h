/* A server on a libuv loop, with the databases of a data directory and with sockets: the struct
 * server_io of real processes. */
#ifndef LSFS_HOST_SERVER_PROCESS_H
#define LSFS_HOST_SERVER_PROCESS_H

#include <uv.h>
#include "cell/server/server.h"

struct server_process;

struct server_process_config {
	const char *directory; /* copied; its contents are described in cell/config/identity.h */
	/* The replica can't go on (failed disk, or no longer a member of its cell); the reason was
	 * logged, in one line. The owner must call server_process_stop, unless it has done so, and
	 * end the process. */
	void (*failed)(void *user);
	/* The replica must be started again, with a state that it fetched or must fetch. The owner
	 * must call server_process_stop, then open and start it again. NULL: a cell in one process,
	 * which is never restarted. */
	void (*restart)(void *user);
	/* Called once, when the replica votes or learns; may be NULL. */
	void (*ready)(void *user);
	size_t other_files; /* that the rest of the process may open: they are kept from clients */
	void *user;
};

/* Opens the data directory and its store; NULL with one line in `why`. Starts no thread, but opens
 * databases: a daemon must fork before it. */
struct server_process *server_process_open(const struct server_process_config *config, char *why,
                                           size_t why_size);
/* Starts threads and timers on the loop, listens, and connects to the other replicas, if there are
 * any. False with one line in `why`: server_process_stop must still be called. */
bool server_process_start(struct server_process *p, uv_loop_t *loop, char *why, size_t why_size);
/* The server, for clients in this process; valid between server_process_start and
 * server_process_stop. */
struct server *server_process_server(struct server_process *p);
/* Hands the mastership over, finishes writing, closes all its handles on the loop, frees `p`, then
 * calls `stopped` unless it is NULL; before it returns, if server_process_start was not called. */
void server_process_stop(struct server_process *p, void (*stopped)(void *user), void *user);

#endif
