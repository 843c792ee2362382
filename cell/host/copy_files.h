/* The files of a server's state transfer: copies of its own state, and the state of another replica
 * that is being fetched. They implement struct copy_io. */
#ifndef LSFS_HOST_COPY_FILES_H
#define LSFS_HOST_COPY_FILES_H

#include "cell/server/server.h"
#include "cell/server/state_sender.h"
#include "cell/store/store.h"

struct copy_files {
	uv_loop_t *loop;
	struct store *store;
	const char *directory, *cell;
	struct server *server;                 /* NULL: results are not reported any more */
	int copies[STATE_SENDER_MAX], fetched; /* file descriptors; -1: none */
	int place;                             /* of the copy that is being made */
	char *copy_path, *fetched_path;
	uv_work_t check;
	bool checking, whole;
	char why[512];
	void (*stopped)(void *user);
	void *stopped_user;
};

/* The names are not copied, and must outlive the struct; the store must be started. */
void copy_files_init(struct copy_files *f, uv_loop_t *loop, struct store *store,
                     const char *directory, const char *cell);
/* Reports no more results, and waits for a check that runs; then calls `stopped`, perhaps at once.
 * A copy that is being made is given up by the store when it is closed. */
void copy_files_stop(struct copy_files *f, void (*stopped)(void *user), void *user);
/* Closes the files and frees the names; must be called after the store was closed. */
void copy_files_fini(struct copy_files *f);

/* The server's access to the files. */
struct copy_io copy_files_io(struct copy_files *f);

#endif
