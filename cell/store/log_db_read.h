/* Reading log.db, whole or damaged: finds all rows whose checksums are correct. */
#ifndef LSFS_STORE_LOG_DB_READ_H
#define LSFS_STORE_LOG_DB_READ_H

#include "cell/store/corruption.h"
#include "cell/store/sqlite.h"
#include "cell/paxos/px.h"

struct log_db_found {
	struct corruption corruption;
	/* Pages may be missing, or older than other pages: a row with a correct checksum need not
	 * be its newest version. */
	bool torn;
	uint64_t incarnation;   /* 0: not readable */
	struct ballot promised; /* the higher of the undamaged copies */
	bool ballots_lost;      /* no copy is undamaged */
	uint64_t chosen, trimmed;
	bool trimmed_lost;
	uint64_t missing;   /* an earlier start lost entries up to this slot */
	int64_t longest_ns; /* the longest lease, in ns */
	bool leases;        /* there are rows of leases */
	bool leases_lost;
	bool none_left; /* no lease granted by the last incarnation can be valid */
	struct mark *marks;
	size_t marks_n, marks_room;
	struct log_entry *entries; /* undamaged, above `trimmed`, by slot, possibly with gaps */
	size_t entries_n, entries_room;
	uint64_t *bad; /* slots of damaged rows, ascending, as the rows give them */
	size_t bad_n, bad_room;
	uint64_t last; /* the highest slot that the file has held, as far as known */
};

/* Reads the whole file into *found. False with one line in `why`: the file belongs to another
 * replica, or the disk fails. */
bool log_db_read(struct sqlite_db *db, const char *cell, uint8_t replica,
                 struct log_db_found *found, char *why, size_t why_size);
/* Frees the contents of *found. */
void log_db_found_free(struct log_db_found *found);
#endif
