/* The files of a server's state transfer: copies of its own state, and the state of another replica
 * that is being fetched. They implement make_copy, begin_fetch and so on of struct server_io. */
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

/* See struct server_io. */
void copy_files_make(struct copy_files *f, int place);
const char *copy_files_read(struct copy_files *f, int place, uint64_t offset, uint8_t *to,
                            size_t n);
void copy_files_drop(struct copy_files *f, int place);
const char *copy_files_begin_fetch(struct copy_files *f);
const char *copy_files_write_fetch(struct copy_files *f, uint64_t offset, struct bytes data);
void copy_files_check_fetch(struct copy_files *f);
void copy_files_drop_fetch(struct copy_files *f);

#endif
