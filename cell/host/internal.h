/* The inside of a server's process. */
#ifndef LSFS_HOST_INTERNAL_H
#define LSFS_HOST_INTERNAL_H

#include <limits.h>
#include "cell/copy/copy_files.h"
#include "cell/host/server_process.h"
#include "cell/net/transport.h"
#include "cell/store/store.h"

struct server_process {
	char *directory;
	struct server_process_config config;
	struct identity *identity; /* owned; secret */
	struct store *store;
	struct tree *tree;             /* NULL once the server has taken it over */
	struct px_recovered recovered; /* likewise */
	struct transport *transport;   /* NULL: a cell in one process, or not started */
	struct copy_files files;
	struct server *server;    /* NULL while it does not run */
	bool ready;               /* it was reported */
	bool files_open, on_loop; /* true: it was begun and must be ended */

	uv_loop_t *loop;
	uv_timer_t timer;
	uv_prepare_t prepare;
	uv_check_t check;
	uv_idle_t idle;
	mono_t armed; /* the time for which the timer is set */
	bool due;     /* the timer has expired */

	uv_work_t writing; /* writes the signing keys and the cell file */
	bool writes_cell_file;
	struct cell_file cell_file;
	struct sign_keys keys, keys_on_disk;
	int cell_file_rc;
	char cell_file_why[PATH_MAX + 100];

	bool stopping, closing;
	int open_handles, open_parts; /* number of those still to be closed */
	void (*stopped)(void *user);
	void *stopped_user;
};

/* The services for the server. */
struct server_io process_io(struct server_process *p);

#endif
