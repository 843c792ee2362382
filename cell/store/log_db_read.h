/* Reading log.db, whole or damaged: all that still says of itself, by its sums, that it is what was
 * once written. */
#ifndef LSFS_STORE_LOG_DB_READ_H
#define LSFS_STORE_LOG_DB_READ_H

#include "cell/store/corruption.h"
#include "cell/store/sqlite.h"
#include "cell/paxos/px.h"

struct log_db_found {
	struct corruption corruption;
	/* Pages may be missing, or of another age than others: of what was read nothing is known to
	 * be the last that was written. */
	bool torn;
	uint64_t incarnation;        /* 0: not readable */
	struct ballot promised;      /* the higher of the good copies */
	bool ballots_lost;           /* there is none */
	uint64_t chosen, trimmed;
	bool trimmed_lost;
	uint64_t missing;            /* entries up to here were lost earlier, and may be still */
	int64_t longest_ns;          /* of the leases */
	bool leases_lost;
	bool none_left;              /* no lease of the last incarnation can be standing */
	struct mark *marks;
	size_t marks_n, marks_room;
	struct log_entry *entries;   /* good ones above `trimmed`, by slot, maybe with holes */
	size_t entries_n, entries_room;
	uint64_t *bad;               /* damaged ones, by slot, as they were named */
	size_t bad_n, bad_room;
	uint64_t last;               /* the highest slot that it has held, as far as can be seen */
};

/* Reads all of it. False with one line in `why`: it is another replica's, or the disk fails. */
bool log_db_read(struct sqlite_db *db, const char *cell, uint8_t replica,
                 struct log_db_found *found, char *why, size_t why_size);
void log_db_found_free(struct log_db_found *found);
/* The rows' sums. */
uint64_t log_db_sum(const uint64_t *numbers, size_t n);
uint64_t log_db_entry_sum(const struct log_entry *e);
uint64_t log_db_mark_sum(const struct mark *m);
uint64_t log_db_owner_sum(const char *cell, uint8_t replica);

enum { LOG_DB_SUM_MAX = 8 }; /* numbers under one sum */
/* The sum over a row's numbers. */
#define LOG_DB_SUM_OF(...)                                                                       \
	log_db_sum((const uint64_t[]){__VA_ARGS__},                                              \
	           sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

#endif
