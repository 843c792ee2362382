/* Storage of one replica: log.db (what paxos promised and accepted) and state.db (the tree's rows),
 * both SQLite in WAL mode with synchronous=FULL, each with a thread and a connection of its own, so
 * that neither waits for the other's sync or checkpoint, and the loop for none.
 *
 * The loop's thread hands work over and is called back there, in order. What waits while a
 * transaction is synced shares the next one. Changes for state.db may wait a fifth of a second for
 * more of them; all that was ever reported as saved is synced.
 *
 * A failed write or sync is final: nothing is retried, written or acknowledged after it, and a mark
 * is left that keeps the store from being opened in the same boot (cell/store/disk_failure.h). A
 * full disk is no failure: the transaction was rolled back whole before anybody was answered, and
 * the same work is tried again until there is room.
 *
 * What is damaged is found at the opening. Entries of the log: they come from the other replicas
 * again (px_recovered.damaged). The state: it is set aside, and a copy is fetched from another
 * replica (px_recovered.state_lost). Only what nobody else could give back, in a cell of one or
 * when nothing tells any more what was promised, is an error. */
#ifndef LSFS_STORE_STORE_H
#define LSFS_STORE_STORE_H

#include <uv.h>
#include "cell/paxos/px.h"
#include "cell/tree/tree.h"

struct store;

struct store_callbacks {
	void (*persisted)(void *user, uint64_t write);  /* log records of this write are durable */
	void (*saved)(void *user, uint64_t applied);   /* state.db is durable up to here */
	/* The disk is full: the reserve is given up, so that what frees something can still be
	 * written; or (false) it has room again, and the reserve was made anew. */
	void (*full)(void *user, bool full);
	void (*failed)(void *user, const char *why); /* once; no other callback comes after it */
	void *user;
};

/* Opens or creates the data directory's databases and reads them: the tree from its rows, what the
 * log recovered into *recovered (free with store_recovered_free). Takes the directory's lock first
 * and writes the new incarnation, durably, last: on an error nothing was changed. `others`: the
 * cell has more replicas, from which damage can be repaired.
 *
 * An error is NULL and one line in `why`, with what to do about it: "DIR: in use by process N",
 * "state.db belongs to cell X, not to Y", "state.db is damaged: nodes row 17: checksum; ...",
 * "log.db is damaged: it ends at slot 3, but 9 was acknowledged; ...", "DIR/health: marked failed
 * since this boot: ..." and so on. No thread runs before store_start. */
struct store *store_open(const char *directory, const char *cell, uint8_t replica,
                         bool others, struct tree **tree, struct px_recovered *recovered,
                         char *why, size_t why_size);
void store_recovered_free(struct px_recovered *recovered);

/* A consistent copy of state.db, made by a thread of its own while all else goes on (one after the
 * other), as DIRECTORY/`name`, synced; `done` is called on the loop's thread (state_copy_done in
 * cell/store/state_copy.h). At store_close an unfinished one is given up.
 * One that is named STORE_COPY and is still there at the next store_open is removed. */
#define STORE_COPY "copy.db"
void store_copy(struct store *s, const char *name,
                void (*done)(void *user, enum rc rc, uint64_t applied, const char *why),
                void *user);
/* What a copy from another replica is written into; when it is whole, store_fetched_ready checks
 * it (it must load; false with one line in `why`, and it is deleted) and names it so that the next
 * store_open puts it in the place of state.db. Blocks for as long as a load takes. */
#define STORE_FETCHED "snapshot.db"
bool store_fetched_ready(const char *directory, const char *cell, char *why, size_t why_size);
/* Sets state.db aside (as state.db.damaged), so that the next store_open begins with an empty
 * state: px_recovered.state_lost. 0 or -errno. Only on a store that is closed. */
int store_set_state_aside(const char *directory);

/* Starts the threads; from here on the callbacks come, on the loop's thread. 0 or a negative
 * errno: then nothing was started, and the store can only be closed. */
int store_start(struct store *s, uv_loop_t *loop, const struct store_callbacks *callbacks);

/* One transaction of records; what waits while the last sync runs shares the next one. Copies. */
void store_log(struct store *s, uint64_t write, const struct px_record *records, size_t n);
/* One transaction of rows with their applied index. Takes the rows over. */
void store_state(struct store *s, uint64_t applied, struct row_list *rows);
/* Bytes that wait for state.db. */
size_t store_state_queued(struct store *s);

/* Something else on the same disk has failed, for a reason `why`: as if the store had. */
void store_fail(struct store *s, const char *why);
/* Writes what is queued (what has no room on a full disk is given up: nobody was told that it is
 * safe), joins the threads, closes the files; then calls `closed` from the loop. Callbacks may come
 * until then. A store that was not started is closed at once: `closed` is called before the
 * return. */
void store_close(struct store *s, void (*closed)(void *user), void *user);

#endif
