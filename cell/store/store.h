/* Storage of one replica: log.db (promises and accepted entries) and state.db (the tree's rows),
 * both SQLite in WAL mode with synchronous=FULL, each with a thread and a connection of its own, so
 * that neither waits for the other's sync or checkpoint, and the loop waits for neither.
 * Checkpoints of log.db have a third thread.
 *
 * The loop's thread passes work to the writer threads, and the callbacks run on the loop's thread,
 * in order. Work that arrives while a transaction is synced shares the next one. Changes of
 * state.db may be delayed by a fifth of a second to share a transaction; rows are reported as saved
 * only once they are synced.
 *
 * A failed write or sync is final: nothing is retried, written or acknowledged after it, and a mark
 * is left that keeps the store from being opened in the same boot (cell/store/disk_failure.h). A
 * full disk is no failure: the transaction is rolled back whole before anything of it was
 * acknowledged, and the same work is tried again until there is space.
 *
 * Damage is detected when the store is opened. Damaged log entries are fetched from the other
 * replicas (px_recovered.damaged). A damaged state is set aside, and a copy is fetched from another
 * replica (px_recovered.state_lost). Damage that no other replica can repair is an error: in a cell
 * of one, or when the promised ballot is lost. */
#ifndef LSFS_STORE_STORE_H
#define LSFS_STORE_STORE_H

#include <uv.h>
#include "cell/paxos/px.h"
#include "cell/tree/tree.h"

struct store;

struct store_callbacks {
	void (*persisted)(void *user, uint64_t write); /* log records of this write are durable */
	/* state.db is durable up to `applied`; `unsaved` bytes of rows are not written yet. */
	void (*saved)(void *user, uint64_t applied, size_t unsaved);
	/* True: the disk is full, and the reserve was given up, so that releases and deletes can
	 * still be written. False: the disk has space again, and the reserve stands again. */
	void (*full)(void *user, bool full);
	void (*failed)(void *user, const char *why); /* once; no other callback follows */
	void *user;
};

/* Opens or creates the data directory's databases and reads them: the tree from its rows, the log's
 * part into *recovered (free it with store_recovered_free). Takes the directory's lock first and
 * writes the new incarnation, durably, last: on an error nothing was changed. `others`: the cell
 * has more replicas, from which damage can be repaired.
 *
 * NULL on an error, with one line in `why` that says what to do: "DIR: in use by process N",
 * "state.db belongs to cell X, not to Y", "state.db is damaged: nodes row 17: checksum; ...",
 * "log.db is damaged: it ends at slot 3, but 9 was acknowledged; ...", "DIR/health: marked failed
 * since this boot: ..." and so on. No thread runs before store_start. */
struct store *store_open(const char *directory, const char *cell, uint8_t replica, bool others,
                         struct tree **tree, struct px_recovered *recovered, char *why,
                         size_t why_size);
/* Frees what store_open has recovered. */
void store_recovered_free(struct px_recovered *recovered);

/* Copies of the state (cell/copy), which store_open removes when an earlier process has left them:
 * one that is being made, and one of another replica's that is being fetched. */
#define STORE_COPY "copy.db"
#define STORE_FETCHED "fetched.db"

/* Starts the threads; from here on callbacks are made, on the loop's thread. 0 or a negative errno:
 * then nothing was started, and the store can only be closed. */
int store_start(struct store *s, uv_loop_t *loop, const struct store_callbacks *callbacks);

/* Writes the records, which are copied, in one transaction; `persisted` is called with `write` once
 * they are durable. */
void store_log(struct store *s, uint64_t write, const struct px_record *records, size_t n);
/* Writes the rows, which are taken over, with their applied index in one transaction; `saved` is
 * called once they are durable. Returns the number of bytes of rows that are not written yet. */
size_t store_state(struct store *s, uint64_t applied, struct row_list *rows);

/* Treats a failure of another file on the same disk, for the reason `why`, as a failure of the
 * store. */
void store_fail(struct store *s, const char *why);
/* Has store_close rename state.db to state.db.damaged, before another process can open it, so that
 * the next store_open begins with an empty state (px_recovered.state_lost). */
void store_set_state_aside(struct store *s);

/* Writes the queued work, joins the threads, closes the files, and then calls `closed` from the
 * loop. Work that finds no space on a full disk is dropped: it was not acknowledged. Callbacks may
 * be made until then. A store that was not started is closed at once: `closed` is called before the
 * return. */
void store_close(struct store *s, void (*closed)(void *user), void *user);

#endif
