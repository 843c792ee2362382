/* The parts of a store beside its databases, each of which is written by its own file. */
#ifndef LSFS_STORE_INTERNAL_H
#define LSFS_STORE_INTERNAL_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <uv.h>
#include "cell/store/boot_verdict.h"
#include "cell/store/dir_lock.h"
#include "cell/store/log_db.h"
#include "cell/store/sqlite.h"
#include "cell/store/state_db.h"
#include "cell/store/writer_thread.h"

/* ---- disk_failure.c ---- */

/* The mark of a failed disk. After a failed write or sync the page cache may show data that is not
 * on the disk, until the machine is restarted; so a store that failed must not be opened in the
 * same boot. The mark is written in two places, since the failed disk may refuse this write too:
 * into DIRECTORY/health, a file whose blocks were allocated when the store was made, and into a
 * file of the run directory (cell/sys/run_dir.h), which names the store by its random id. Both
 * contain the id of the boot. */

#define DISK_FAILURE_FILE "health"

enum { DISK_FAILURE_ID = 16 };

struct disk_failure {
	int fd;
	char id[DISK_FAILURE_ID + 1];
	char boot[BOOT_VERDICT_BOOT]; /* of this boot */
	char run_path[PATH_MAX];      /* of the mark there; empty: no run directory */
	bool earlier;                 /* marked in an earlier boot, for the reason `why` */
	char why[BOOT_VERDICT_WHY];
};

/* Reads the mark; makes the file of a new store. False with one line in `why` when the store was
 * marked in this boot, or the mark can't be read or made. A damaged mark counts as a failure in
 * this boot, and is rewritten as one. */
bool disk_failure_open(struct disk_failure *f, const char *directory, char *why, size_t why_size);
/* Removes the mark of an earlier boot, once the databases were checked. 0 or -errno. */
int disk_failure_clear(struct disk_failure *f);
/* Marks the store as failed, in those of the two places that can be written. */
void disk_failure_mark(const struct disk_failure *f, const char *why);
/* Closes the files. */
void disk_failure_close(struct disk_failure *f);

/* ---- data_dir.c ---- */

/* The files of a data directory, opened: lock, failure mark, log.db and state.db; and the decision
 * whether a replica may start when they are damaged or do not fit together. */

struct data_dir {
	char *directory;
	uint8_t replica;
	bool others;    /* the cell has more replicas, from which damage can be repaired */
	bool set_aside; /* state.db can't be used */
	struct corruption state_corruption;
	struct dir_lock lock;
	bool locked; /* the lock was taken; stays set after a failure, too */
	struct disk_failure disk_failure;
	bool io_failed; /* of what it wrote before it was open */
	struct log_db log;
	struct state_db state;
};

/* Does all of store_open (store.h) but the preparation of the writer threads: same arguments, same
 * errors. */
bool data_dir_open(struct data_dir *f, const char *directory, const char *cell, uint8_t replica,
                   bool others, struct tree **tree, struct px_recovered *recovered, char *why,
                   size_t why_size);
/* Releases the lock; call it when both databases are closed. */
void data_dir_close(struct data_dir *f);

/* ---- reserve.c ---- */

/* Reserved disk space: DIRECTORY/reserve, a file whose blocks are allocated. When a write fails for
 * lack of space the file is truncated, so that the commands under way, and then releases and
 * deletes, can still be written. */

#define RESERVE_FILE "reserve"
enum { RESERVE_SIZE = 8 * 1024 * 1024 };

/* Shared by several threads; the mutex protects `held`. */
struct reserve {
	char path[PATH_MAX];
	pthread_mutex_t mutex;
	bool held;
	atomic_bool gone; /* the reserve was given up, or there was no space for it */
};

/* Initializes *r; an earlier process may have left the file in place. */
void reserve_init(struct reserve *r, const char *directory);
/* Frees *r; the file stays. */
void reserve_fini(struct reserve *r);
/* Allocates the file, unless it is there already. False when the disk has no space for it. */
bool reserve_take(struct reserve *r);
/* Truncates the file; true when that has freed its space. */
bool reserve_give_up(struct reserve *r);
/* The same, but only when the disk is full. */
bool reserve_give_up_if_full(struct reserve *r);

/* ---- data_dir.c: its files while they are open ---- */

/* Detects that a file of the data directory was removed or replaced while the process has it open.
 * Writes would then go to a file that no later start can find. */

enum { FILE_GUARD_FILES = 6 };

struct file_guard {
	const char *directory; /* not copied */
	struct {
		bool there;
		dev_t device;
		ino_t number;
	} files[FILE_GUARD_FILES];
};

/* Records which files exist now, and their inodes. */
void file_guard_begin(struct file_guard *w, const char *directory);
/* False, with one line in `why`, when one of them was removed or replaced. */
bool file_guard_check(const struct file_guard *w, char *why, size_t why_size);

/* ---- checkpointer.c ---- */

/* Moves pages of log.db's write-ahead log into the file beside the commits, in a thread and with a
 * connection of its own. Pages committed meanwhile stay behind; as soon as few do, the
 * thread that commits moves the rest, so that the write-ahead log starts over and stays short. When
 * too many stay behind, that thread waits.
 *
 * The thread is started when it is first needed. All functions are for the thread that commits. */

struct checkpointer {
	struct sqlite_db *log; /* the connection that commits */
	const char *path;      /* of its file */
	struct sqlite_db db;   /* the thread's own */
	struct writer_thread writer;
	uv_sem_t news;  /* posted when it has done something */
	struct job job; /* the only one: a checkpoint */
	bool started, under_way;
	int moved; /* pages of this write-ahead log that the checkpoint moves, or has moved */
	void (*failed)(void *user, const struct sqlite_db *db);
	void *user;
};

/* Initializes *c for `log`. `failed` is called, in the checkpointer's thread, when its first write
 * or sync has failed and `broken` was not set yet. */
void checkpointer_init(struct checkpointer *c, struct sqlite_db *log, atomic_bool *broken,
                       void (*failed)(void *user, const struct sqlite_db *db), void *user);
/* Between two transactions: has pages moved if there are many. `scarce`: the disk is full, so the
 * write-ahead log has to stay shorter still. */
enum work checkpointer_tidy(struct checkpointer *c, bool scarce);
/* Ends the thread, before the log is closed. */
void checkpointer_finish(struct checkpointer *c);
/* Frees *c, whose thread has ended or was never started. */
void checkpointer_fini(struct checkpointer *c);

#endif
