/* The files of a server's state transfer: copies of its own state, and the state of another replica
 * that is being fetched. They implement struct copy_io. */
#ifndef LSFS_COPY_COPY_FILES_H
#define LSFS_COPY_COPY_FILES_H

#include <bsd/sys/queue.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>
#include "cell/base/rc.h"
#include "cell/copy/state_transfer.h"

/* Bytes that a copy, made or fetched, must leave free on the disk. */
enum { COPY_SPARE = 16 * 1024 * 1024 };

/* ---- state_copy.c ---- */

/* Consistent copies of state.db, made one after the other, each by a thread and a connection of its
 * own. The copy is of the state at one moment, while the writer goes on. It is written and synced
 * piece by piece, so that no single sync delays other syncs on the disk for long. */

/* The result of a copy: RC_OK with the applied index of the copy; or, with one line in `why`,
 * RC_NODATA: the state is still empty; RC_NOSPC: no space on the disk; RC_IO: any other error. */
typedef void state_copy_done(void *user, enum rc rc, uint64_t applied, const char *why);

struct copy;
TAILQ_HEAD(copy_list, copy);

struct state_copier {
	const char *directory; /* not copied */
	uv_loop_t *loop;
	struct copy_list waiting;
	struct copy *running;
	uv_work_t work;
	atomic_bool giving_up;
	void (*idle)(void *user);
	void *idle_user;
};

/* Nothing is copied yet. The data directory's path is kept, not copied. */
void state_copy_init(struct state_copier *c, uv_loop_t *loop, const char *directory);
/* Makes a copy as DIRECTORY/`name`, after earlier ones; `done` is called on the loop's thread. */
void state_copy_add(struct state_copier *c, const char *name, state_copy_done *done, void *user);
/* Abandons unfinished copies, whose `done` is called with RC_IO; then, once no thread runs (maybe
 * at once), calls `idle`. */
void state_copy_stop(struct state_copier *c, void (*idle)(void *user), void *user);

/* Checks the complete STORE_FETCHED, which another replica has sent, by loading it, and renames it
 * so that the next store_open replaces state.db by it. False with one line in `why`: the copy is
 * damaged and was deleted. Blocks as long as a load takes. */
bool state_copy_ready(const char *directory, const char *cell, char *why, size_t why_size);

struct server;

/* The functions of server.h that are called with the results. */
struct copy_results {
	void (*made)(struct server *server, enum rc rc, uint64_t applied, uint64_t size,
	             const char *why);
	void (*checked)(struct server *server, const char *why);
	struct server *server; /* NULL: no results are reported */
};

struct copy_files {
	uv_loop_t *loop;
	const char *directory, *cell;
	struct copy_results results;           /* set by the owner */
	int copies[STATE_SENDER_MAX], fetched; /* file descriptors; -1: none */
	struct state_copier copier;
	int place; /* of the copy that is being made */
	char *copy_path, *fetched_path;
	uv_work_t check;
	bool checking, whole, copier_idle;
	char why[512];
	void (*stopped)(void *user);
	void *stopped_user;
};

/* The names are not copied, and must outlive the struct. */
void copy_files_init(struct copy_files *f, uv_loop_t *loop, const char *directory,
                     const char *cell);
/* Reports no further results, abandons a copy that is being made, and waits for a check that runs;
 * then calls `stopped`, perhaps at once. */
void copy_files_stop(struct copy_files *f, void (*stopped)(void *user), void *user);
/* Closes the files and frees the names. */
void copy_files_fini(struct copy_files *f);

/* The server's access to the files. */
struct copy_io copy_files_io(struct copy_files *f);

#endif
