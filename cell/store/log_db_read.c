#include "cell/store/log_db.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/checksum.h"
#include "cell/base/memory.h"
#include "cell/paxos/ballot.h"

/* A damaged row may name a slot at most so far beyond the highest certain one: a log never holds
 * more entries. */
enum { PLAUSIBLE = 1 << 20 };

struct reader {
	struct sqlite_db *db;
	struct log_db_found *found;
	const char *cell;
	uint8_t replica;
	const char *table;
	size_t rows;
	uint64_t number;    /* the value, of a table with a single number */
	bool good;          /* a row with a correct checksum was read */
	uint64_t uncertain; /* the highest slot in a row whose checksum is wrong */
	char *why;
	size_t why_size;
};

static uint64_t
column(sqlite3_stmt *s, int at)
{
	return (uint64_t)sqlite3_column_int64(s, at);
}

static struct ballot
column_ballot(sqlite3_stmt *s, int at)
{
	return (struct ballot){.round = column(s, at), .replica = (uint8_t)column(s, at + 1)};
}

/* Calls `row` for each row of a SELECT from a table, until it returns false. Rows that SQLite can't
 * read are counted as damage. False, with the reason in r->why, when the disk fails or `row` has
 * returned false. */
static bool
each_row(struct reader *r, const char *table, const char *sql,
         bool (*row)(struct reader *r, sqlite3_stmt *s))
{
	sqlite3_stmt *s = NULL;
	bool ok = true;
	int rc = SQLITE_OK;

	r->table = table;
	r->rows = 0;
	r->good = false;
	r->number = 0;
	r->db->damaged = false;
	if (sqlite_prepare(r->db, &s, sql, r->why, r->why_size)) {
		while (ok && (rc = sqlite3_step(s)) == SQLITE_ROW) {
			r->rows++;
			ok = row(r, s);
		}
		if (ok && rc != SQLITE_DONE)
			sqlite_error(r->db, r->why, r->why_size);
	}
	if (r->db->damaged && !r->found->torn)
		corruption_add_line(&r->found->corruption, "%s (%s)", r->why, table);
	r->found->torn = r->found->torn || r->db->damaged;
	if (ok && (s == NULL || rc != SQLITE_DONE))
		ok = r->db->damaged;
	sqlite3_finalize(s);
	return ok;
}

static void
bad_numbered(struct reader *r, uint64_t row)
{
	corruption_add(&r->found->corruption, r->db->kind->name, "%s row %" PRIu64 ": checksum",
	               r->table, row);
}

static void
bad_row(struct reader *r)
{
	corruption_add(&r->found->corruption, r->db->kind->name, "%s: checksum", r->table);
}

static bool
read_owner(struct reader *r, sqlite3_stmt *s)
{
	const char *cell = (const char *)sqlite3_column_text(s, 0);
	uint64_t replica = column(s, 1);

	if (cell == NULL || replica > UINT8_MAX ||
	    column(s, 2) != log_db_owner_sum(cell, (uint8_t)replica)) {
		bad_row(r);
		return true;
	}
	if (strcmp(cell, r->cell) == 0 && replica == r->replica)
		return true;
	snprintf(r->why, r->why_size,
	         "%s belongs to replica %" PRIu64 " of cell %.64s, not to replica %u of cell %s",
	         r->db->kind->name, replica, cell, r->replica, r->cell);
	return false;
}

/* Reads the row of a table that holds one number and its checksum. */
static bool
read_single(struct reader *r, sqlite3_stmt *s)
{
	if (column(s, 1) == LOG_DB_SUM_OF(column(s, 0))) {
		r->number = column(s, 0);
		r->good = true;
	} else {
		bad_row(r);
	}
	return true;
}

static bool
read_ballot(struct reader *r, sqlite3_stmt *s)
{
	struct ballot b = column_ballot(s, 0);

	if (column(s, 2) == LOG_DB_SUM_OF(b.round, column(s, 1))) {
		r->found->promised = ballot_max(r->found->promised, b);
		r->good = true;
	} else {
		bad_row(r);
	}
	return true;
}

static bool
read_lease(struct reader *r, sqlite3_stmt *s)
{
	struct log_db_found *f = r->found;
	uint64_t incarnation = column(s, 0), ns = column(s, 1);

	f->leases = true;
	if (column(s, 2) != LOG_DB_SUM_OF(incarnation, ns)) {
		bad_numbered(r, incarnation);
		f->leases_lost = true;
		return true;
	}
	if (incarnation == f->incarnation && ns == 0)
		f->none_left = true;
	if ((int64_t)ns > f->longest_ns)
		f->longest_ns = (int64_t)ns;
	return true;
}

static bool
read_mark(struct reader *r, sqlite3_stmt *s)
{
	struct log_db_found *f = r->found;
	struct mark m = {.replica = (uint8_t)column(s, 0),
	                 .incarnation = column(s, 1),
	                 .start = column(s, 2),
	                 .ballot = column_ballot(s, 3),
	                 .slot = column(s, 5),
	                 .proof = column(s, 6)};

	if (column(s, 7) != LOG_DB_SUM_OF(m.replica, m.incarnation, m.start, m.ballot.round,
	                                  m.ballot.replica, m.slot, m.proof) ||
	    column(s, 0) != m.replica) {
		bad_numbered(r, column(s, 0));
		return true;
	}
	ARRAY_ROOM(f->marks, f->marks_n, f->marks_room);
	f->marks[f->marks_n++] = m;
	return true;
}

static uint64_t
entry_sum(const struct log_entry *e)
{
	return LOG_DB_SUM_OF(e->slot, e->ballot.round, e->ballot.replica, e->origin.round,
	                     e->origin.replica, e->before.round, e->before.replica, e->checksum);
}

static bool
read_entry(struct reader *r, sqlite3_stmt *s)
{
	struct log_db_found *f = r->found;
	struct log_entry e = {.slot = column(s, 0), .checksum = column(s, 7)};
	bool certain;

	e.ballot = column_ballot(s, 1);
	e.origin = column_ballot(s, 3);
	e.before = column_ballot(s, 5);
	e.payload = (struct bytes){sqlite3_column_blob(s, 9), (size_t)sqlite3_column_bytes(s, 9)};
	certain = column(s, 8) == entry_sum(&e);
	if (certain && e.slot > f->last)
		f->last = e.slot;
	if (!certain && e.slot > r->uncertain)
		r->uncertain = e.slot;
	if (!certain || e.checksum != checksum(e.payload)) {
		bad_numbered(r, e.slot);
		ARRAY_ROOM(f->bad, f->bad_n, f->bad_room);
		f->bad[f->bad_n++] = e.slot;
		return true;
	}
	e.payload = bytes_copy(e.payload);
	ARRAY_ROOM(f->entries, f->entries_n, f->entries_room);
	f->entries[f->entries_n++] = e;
	return true;
}

/* Reads entries from the highest slot down, without payloads: after a damaged page rows may be
 * reachable only in this direction. */
static bool
read_last(struct reader *r, sqlite3_stmt *s)
{
	struct log_entry e = {.slot = column(s, 0), .checksum = column(s, 7)};

	e.ballot = column_ballot(s, 1);
	e.origin = column_ballot(s, 3);
	e.before = column_ballot(s, 5);
	if (column(s, 8) == entry_sum(&e) && e.slot > r->found->last)
		r->found->last = e.slot;
	return true;
}

static bool
read_entries(struct reader *r)
{
	struct log_db_found *f = r->found;
	char sql[256];

	snprintf(sql, sizeof sql,
	         "SELECT slot, round, replica, origin_round, origin_replica, before_round,"
	         " before_replica, payload_checksum, checksum, payload FROM entries"
	         " WHERE slot > %lld ORDER BY slot",
	         (long long)f->trimmed);
	if (!each_row(r, "entries", sql, read_entry))
		return false;
	if (f->torn &&
	    !each_row(r, "entries",
	              "SELECT slot, round, replica, origin_round, origin_replica,"
	              " before_round, before_replica, payload_checksum, checksum FROM entries"
	              " ORDER BY slot DESC",
	              read_last))
		return false;
	if (r->uncertain > f->last && r->uncertain - f->last <= PLAUSIBLE)
		f->last = r->uncertain;
	return true;
}

static bool
read_single_of(struct reader *r, const char *table, const char *sql, uint64_t *number, bool *lost)
{
	if (!each_row(r, table, sql, read_single))
		return false;
	*number = r->number;
	*lost = (r->rows > 0 || r->db->damaged) && !r->good;
	return true;
}

static bool
read_ballots(struct reader *r)
{
	bool good, rows;

	if (!each_row(r, "ballots", "SELECT round, replica, checksum FROM ballots", read_ballot))
		return false;
	good = r->good;
	rows = r->rows > 0 || r->db->damaged;
	if (!each_row(r, "ballots_again", "SELECT round, replica, checksum FROM ballots_again",
	              read_ballot))
		return false;
	r->found->ballots_lost = (rows || r->rows > 0 || r->db->damaged) && !good && !r->good;
	return true;
}

static bool
read_leases(struct reader *r)
{
	if (!each_row(r, "leases", "SELECT incarnation, longest_ns, checksum FROM leases",
	              read_lease))
		return false;
	r->found->leases_lost = r->found->leases_lost || r->db->damaged;
	return true;
}

bool
log_db_read(struct sqlite_db *db, const char *cell, uint8_t replica, struct log_db_found *f,
            char *why, size_t why_size)
{
	struct reader r = {.db = db,
	                   .found = f,
	                   .cell = cell,
	                   .replica = replica,
	                   .why = why,
	                   .why_size = why_size};
	bool lost;

	if (!each_row(&r, "replica", "SELECT cell, replica, checksum FROM replica", read_owner))
		return false;
	if (r.rows != 1 && !db->damaged)
		corruption_add(&f->corruption, db->kind->name, "replica: no row");
	if (!read_single_of(&r, "incarnation", "SELECT number, checksum FROM incarnation",
	                    &f->incarnation, &lost))
		return false;
	if (r.rows != 1 && !db->damaged)
		corruption_add(&f->corruption, db->kind->name, "incarnation: no row");
	return read_single_of(&r, "chosen", "SELECT slot, checksum FROM chosen", &f->chosen,
	                      &lost) &&
	       read_single_of(&r, "trimmed", "SELECT slot, checksum FROM trimmed", &f->trimmed,
	                      &f->trimmed_lost) &&
	       read_single_of(&r, "missing", "SELECT slot, checksum FROM missing", &f->missing,
	                      &lost) &&
	       read_ballots(&r) && read_leases(&r) &&
	       each_row(&r, "marks",
	                "SELECT replica, incarnation, start, round, ballot_replica, slot,"
	                " proof, checksum FROM marks",
	                read_mark) &&
	       read_entries(&r);
}

void
log_db_found_free(struct log_db_found *f)
{
	for (size_t i = 0; i < f->entries_n; i++)
		free((void *)f->entries[i].payload.data);
	free(f->entries);
	free(f->marks);
	free(f->bad);
	*f = (struct log_db_found){0};
}
