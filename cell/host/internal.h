/* The inside of a server's process: server_process.c, how it begins, turns and ends, and
 * process_io.c, what it does for the server. */
#ifndef LSFS_HOST_INTERNAL_H
#define LSFS_HOST_INTERNAL_H

#include "cell/host/copy_files.h"
#include "cell/host/server_process.h"
#include "cell/net/transport.h"
#include "cell/server/joining.h"
#include "cell/store/dir_lock.h"

struct server_process {
	char *directory;
	struct server_process_config config;
	struct identity identity;
	struct store *store;           /* NULL: it joins, and has the directory's lock itself */
	struct dir_lock lock;
	struct tree *tree;             /* until the server has it */
	struct px_recovered recovered; /* likewise */
	struct transport *transport;   /* NULL: a cell in one process, or not started */
	struct copy_files files;
	struct joining *joining;       /* one of these two, while it runs */
	struct server *server;
	bool files_open, on_loop;      /* what was begun */
	bool diverged;                 /* the state is set aside when the store is closed */
	bool key_kept;                 /* by a replica that joins */
	char key_error[256];           /* it could not be; empty: no error */

	uv_loop_t *loop;
	uv_timer_t timer;
	uv_prepare_t prepare;
	uv_check_t check;
	uv_idle_t idle;
	mono_t armed;                  /* for when the timer is set */
	bool due;                      /* it went off */

	uv_work_t writing;             /* of the cell file */
	bool writes_cell_file;
	struct cell_file cell_file;
	int cell_file_rc;

	bool stopping, closing;
	int open_handles, open_parts;  /* while they are closed */
	void (*stopped)(void *user);
	void *stopped_user;
};

/* What the server, or the joining replica, stands on. */
struct server_io process_io(struct server_process *p);
/* The network's and the store's calls. */
struct transport_callbacks process_io_transport(struct server_process *p);
struct store_callbacks process_io_store(struct server_process *p);
/* A part is closed: what is open no more. */
void server_process_part_closed(void *user);
/* The key has come to a replica that joins. */
void process_io_keep_key(void *user, struct bytes key);

#endif
