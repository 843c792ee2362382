/* Storage of one replica: log.db (what paxos promised and accepted) and state.db (the tree's rows),
 * both SQLite in WAL mode with synchronous=FULL, each with a thread and a connection of its own, so
 * that neither waits for the other (DESIGN: Storage, R5, R9, R17).
 *
 * The loop's thread hands work over and is called back there, in order. A failed write or sync is
 * final: the files are marked failed (R5) and on_failed is called; nothing is retried. A full disk is
 * reported as such: the transaction was rolled back whole and the same work is tried again. */
#ifndef LSFS_IO_STORE_H
#define LSFS_IO_STORE_H

#include <uv.h>
#include "cell/paxos/px.h"
#include "cell/tree/tree.h"

struct store;

struct store_callbacks {
	void (*persisted)(void *user, uint64_t ticket); /* log records of this ticket are durable */
	void (*saved)(void *user, uint64_t applied);    /* state.db is durable up to here */
	void (*full)(void *user, bool full);            /* the disk is full; or has room again */
	void (*failed)(void *user, const char *why);
	void *user;
};

/* Opens or creates the data directory's databases and reads them: the tree from its rows, what the
 * log recovered into *recovered (free with store_recovered_free). Writes the new incarnation durably.
 * Takes the directory's lock first. On an error: NULL, and one line in `why`:
 *  - "in use by process N", "not a data directory of cell X", "state.db is damaged: ...",
 *    "marked failed since this boot: ..." and so on.
 * No thread runs before store_start. */
struct store *store_open(const char *directory, const char *cell, uint8_t replica,
                         struct tree **tree, struct px_recovered *recovered,
                         char *why, size_t why_size);
void store_recovered_free(struct px_recovered *recovered);

/* Starts the threads; from here on the callbacks come, on the loop's thread. 0 or a negative errno. */
int store_start(struct store *s, uv_loop_t *loop, const struct store_callbacks *callbacks);

/* One transaction of records; what waits while the last sync runs shares the next one. Copies. */
void store_log(struct store *s, uint64_t ticket, const struct px_record *records, size_t n);
/* One transaction of rows with their applied index. Takes the rows over. */
void store_state(struct store *s, uint64_t applied, struct row_list *rows);
/* Bytes waiting for state.db: over STORE_QUEUE_HIGH the master takes no new proposals. */
size_t store_state_queued(const struct store *s);

enum { STORE_QUEUE_HIGH = 64 * 1024 * 1024 };

/* Finishes what is queued, joins the threads, closes; then calls `closed` from the loop. */
void store_close(struct store *s, void (*closed)(void *user), void *user);

#endif
