#include "cell/store/log_db.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/limit.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/paxos/ballot.h"
#include "cell/store/swap_in.h"
#include "cell/sys/clock.h"

static const struct sqlite_kind kind = {.name = LOG_DB_FILE,
                                        .application_id = 0x6c736c67,
                                        .format = 1};

static const char schema[] =
    "CREATE TABLE replica (id INTEGER PRIMARY KEY CHECK (id = 0), cell TEXT NOT NULL,"
    " replica INTEGER NOT NULL, checksum INTEGER NOT NULL) STRICT;"
    "CREATE TABLE incarnation (id INTEGER PRIMARY KEY CHECK (id = 0), number INTEGER NOT NULL,"
    " checksum INTEGER NOT NULL) STRICT;"
    "CREATE TABLE ballots (id INTEGER PRIMARY KEY CHECK (id = 0), round INTEGER NOT NULL,"
    " replica INTEGER NOT NULL, checksum INTEGER NOT NULL) STRICT;"
    "CREATE TABLE ballots_again (id INTEGER PRIMARY KEY CHECK (id = 0), round INTEGER NOT NULL,"
    " replica INTEGER NOT NULL, checksum INTEGER NOT NULL) STRICT;"
    "CREATE TABLE entries (slot INTEGER PRIMARY KEY, round INTEGER NOT NULL,"
    " replica INTEGER NOT NULL, origin_round INTEGER NOT NULL, origin_replica INTEGER NOT NULL,"
    " before_round INTEGER NOT NULL, before_replica INTEGER NOT NULL,"
    " payload_checksum INTEGER NOT NULL, checksum INTEGER NOT NULL, payload BLOB NOT NULL) STRICT;"
    "CREATE TABLE chosen (id INTEGER PRIMARY KEY CHECK (id = 0), slot INTEGER NOT NULL,"
    " checksum INTEGER NOT NULL) STRICT;"
    "CREATE TABLE trimmed (id INTEGER PRIMARY KEY CHECK (id = 0), slot INTEGER NOT NULL,"
    " checksum INTEGER NOT NULL) STRICT;"
    "CREATE TABLE missing (id INTEGER PRIMARY KEY CHECK (id = 0), slot INTEGER NOT NULL,"
    " checksum INTEGER NOT NULL) STRICT;"
    "CREATE TABLE leases (incarnation INTEGER PRIMARY KEY, longest_ns INTEGER NOT NULL,"
    " checksum INTEGER NOT NULL) STRICT;"
    "CREATE TABLE marks (replica INTEGER PRIMARY KEY, incarnation INTEGER NOT NULL,"
    " start INTEGER NOT NULL, round INTEGER NOT NULL, ballot_replica INTEGER NOT NULL,"
    " slot INTEGER NOT NULL, proof INTEGER NOT NULL, checksum INTEGER NOT NULL) STRICT";

/* ---- reading ---- */

static uint64_t
highest(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

bool
log_db_open(struct log_db *log, const char *directory, const char *cell, uint8_t replica, char *why,
            size_t why_size)
{
	struct log_db_found *found = &log->found;
	bool ok;
	int rc;

	*log = (struct log_db){.replica = replica, .watermark_file.fd = -1};
	rc = watermark_read(directory, WATERMARK_LOG, &log->watermark);
	log->watermark_lost = rc == -EBADMSG;
	if (rc != 0 && !log->watermark_lost) {
		snprintf(why, why_size, "%s/" WATERMARK_FILE ": %s", directory, strerror(-rc));
		return false;
	}

	ok = sqlite_open(&log->db, directory, &kind, &log->watermark.wal, why, why_size);
	if (!ok && !log->db.damaged)
		return false;
	if (!ok) {
		corruption_add_line(&found->corruption, "%s", why);
		found->torn = true;
	}
	if (log->watermark_lost)
		corruption_add_line(&found->corruption, WATERMARK_FILE " is damaged: checksum");
	if (log->db.handle == NULL || log_db_read(&log->db, cell, replica, found, why, why_size))
		return true;
	log_db_close(log, true);
	return false;
}

/* The number of undamaged entries that follow `base` without a gap; the first is at index *at. */
static size_t
run_behind(const struct log_db_found *f, uint64_t base, size_t *at)
{
	size_t n = 0;

	for (*at = 0; *at < f->entries_n && f->entries[*at].slot <= base; ++*at)
		;
	while (*at + n < f->entries_n && f->entries[*at + n].slot == base + n + 1)
		n++;
	return n;
}

/* Moves the entries that follow the base without a gap into *r. When a row at or below `applied` is
 * damaged, `applied` becomes the base first, and all entries up to it are dropped: state.db holds
 * their effects. */
static void
take_entries(struct log_db *log, uint64_t applied, struct px_recovered *r)
{
	struct log_db_found *f = &log->found;
	size_t at, n, bad = 0;

	n = run_behind(f, r->trimmed, &at);
	while (bad < f->bad_n && f->bad[bad] != r->trimmed + n + 1)
		bad++; /* a damaged row was named already */
	if (r->trimmed + n < f->last && !f->torn && bad == f->bad_n)
		corruption_add(&f->corruption, LOG_DB_FILE, "entries row %" PRIu64 " is missing",
		               r->trimmed + n + 1);
	if (r->trimmed + n < f->last && r->trimmed + n < applied) {
		r->trimmed = applied;
		n = run_behind(f, applied, &at);
	}
	if (f->torn)
		n = 0;
	r->entries_n = n;
	if (n == 0)
		return;
	r->entries = memory_zero(n, sizeof *r->entries);
	memcpy((void *)r->entries, f->entries + at, n * sizeof *r->entries);
	for (size_t i = at; i < at + n; i++)
		f->entries[i].payload = (struct bytes){NULL, 0};
}

uint64_t
log_db_last(const struct px_recovered *r)
{
	return r->trimmed + r->entries_n;
}

/* False if the log holds less than its watermark, which was written after the log was synced: it
 * was damaged, or replaced by an older copy. `last`: the last slot of the log and the state. */
static bool
compare_watermark(struct log_db *log, uint64_t last)
{
	struct log_db_found *f = &log->found;
	const struct watermark *m = &log->watermark;

	if (log->db.handle == NULL && m->incarnation > 0 && !f->torn)
		corruption_add_line(&f->corruption,
		                    LOG_DB_FILE " is missing, but incarnation %" PRIu64
		                                " was begun",
		                    m->incarnation);
	else if (last < m->slot && f->missing < m->slot && f->last < m->slot)
		corruption_add(&f->corruption, LOG_DB_FILE,
		               "it ends at slot %" PRIu64 ", but %" PRIu64 " was acknowledged",
		               last, m->slot);
	else if (f->incarnation > 0 && f->incarnation < m->incarnation)
		corruption_add(&f->corruption, LOG_DB_FILE,
		               "incarnation %" PRIu64 ", but %" PRIu64 " was begun", f->incarnation,
		               m->incarnation);
	else if (!f->ballots_lost && ballot_less(f->promised, m->ballot))
		corruption_add(&f->corruption, LOG_DB_FILE,
		               "ballot %" PRIu64 ".%u, but %" PRIu64 ".%u was promised",
		               f->promised.round, f->promised.replica, m->ballot.round,
		               m->ballot.replica);
	else
		return true;
	return false;
}

/* A replica that votes must know the ballot that it has promised and its incarnation; no other
 * replica can supply them. False with one line in `why` when they are lost. */
static bool
check_vote(const struct log_db *log, const struct px_recovered *r, char *why, size_t why_size)
{
	const struct log_db_found *f = &log->found;
	bool marked = !log->watermark_lost && log->watermark.incarnation > 0;
	bool known = log->db.handle == NULL && !f->torn && !log->watermark_lost;

	if (marked || known || (!f->ballots_lost && !f->torn && r->incarnation > 0))
		return true;
	snprintf(why, why_size, "%s: what this replica has promised can't be read any more",
	         f->corruption.lines[0]);
	return false;
}

/* The own mark names the disk, and without it the vote would be lost. Where its row is damaged, or
 * may be an old version, that of the watermark takes its place, as one that was welcomed: nothing
 * that was said under it is said again. But not for an old copy, whose entries were not dropped,
 * nor where the file is missing: so is all on a disk that was emptied. */
static void
find_own_mark(struct log_db *log)
{
	struct log_db_found *f = &log->found;
	const struct watermark *m = &log->watermark;
	size_t at = 0;

	while (at < f->marks_n && f->marks[at].replica != log->replica)
		at++;
	if (m->own == 0 || (log->older && !f->torn) ||
	    (at < f->marks_n && (!f->torn || f->marks[at].incarnation > m->own)))
		return;
	if (at == f->marks_n) {
		ARRAY_ROOM(f->marks, f->marks_n, f->marks_room);
		f->marks_n++;
	}
	f->marks[at] = (struct mark){.replica = log->replica,
	                             .incarnation = m->own,
	                             .start = m->start,
	                             .slot = 1};
}

bool
log_db_recover(struct log_db *log, uint64_t applied, enum log_db_reader reader,
               struct px_recovered *r, char *why, size_t why_size)
{
	struct log_db_found *f = &log->found;
	uint64_t last;

	*r = (struct px_recovered){
	    .incarnation = highest(f->incarnation, log->watermark.incarnation),
	    .promised = ballot_max(f->promised, log->watermark.ballot),
	    .trimmed = f->trimmed,
	};
	if (log->db.handle == NULL || f->torn || f->trimmed_lost)
		r->trimmed = applied;
	take_entries(log, applied, r);
	last = highest(log_db_last(r), applied);
	log->older = !compare_watermark(log, last);
	r->damaged = highest(highest(f->last, f->missing), log->watermark.slot);
	r->damaged = r->damaged > last ? r->damaged : 0;
	r->chosen = highest(r->trimmed, f->chosen < last ? f->chosen : last);
	r->wait.ns = f->none_left ? 0 : f->longest_ns;
	if (f->leases_lost || f->torn || log->older)
		r->wait = span_ms(LIMIT_LEASE_MAX_S * 1000);
	find_own_mark(log);
	r->marks = f->marks;
	r->marks_n = f->marks_n;
	f->marks = NULL;
	f->marks_n = 0;
	if (reader == LOG_DB_ENTRIES)
		return true;
	if (check_vote(log, r, why, why_size)) {
		/* The log of a cell of one must be whole: no other replica can supply what is
		 * missing. */
		if (reader == LOG_DB_MEMBER ||
		    (r->damaged == 0 && !f->torn && !log->watermark_lost && !log->older))
			return true;
		snprintf(why, why_size, "%s", f->corruption.lines[0]);
	}
	log_db_recovered_free(r);
	return false;
}

void
log_db_recovered_free(struct px_recovered *recovered)
{
	for (size_t i = 0; i < recovered->entries_n; i++)
		free((void *)recovered->entries[i].payload.data);
	free((void *)recovered->entries);
	free((void *)recovered->marks);
	*recovered = (struct px_recovered){0};
}

/* ---- starting ---- */

/* The log of a restored cell begins after what its state holds. */
static bool
create(struct sqlite_db *db, const char *directory, const struct sqlite_kind *as, const char *cell,
       uint8_t replica, const struct px_recovered *r, char *why, size_t why_size)
{
	char *sql =
	    sqlite3_mprintf("%s; INSERT INTO replica VALUES (0, %Q, %d, %lld);"
	                    "INSERT INTO incarnation VALUES (0, %lld, %lld);"
	                    "INSERT INTO trimmed SELECT 0, %lld, %lld WHERE %lld > 0",
	                    schema, cell, replica, (long long)log_db_owner_sum(cell, replica),
	                    (long long)r->incarnation, (long long)LOG_DB_SUM_OF(r->incarnation),
	                    (long long)r->trimmed, (long long)LOG_DB_SUM_OF(r->trimmed),
	                    (long long)r->trimmed);
	bool ok;

	must(sql != NULL);
	db->kind = as;
	ok = sqlite_create(db, directory, sql, why, why_size);
	sqlite3_free(sql);
	return ok;
}

/* Keeps only two rows about leases, the longest lease and the record of the last incarnation: the
 * wait after a restart depends on nothing else. */
static bool
write_incarnation(struct log_db *log, uint64_t number, char *why, size_t why_size)
{
	char sql[512];

	snprintf(sql, sizeof sql,
	         "BEGIN IMMEDIATE; REPLACE INTO incarnation VALUES (0, %lld, %lld);"
	         "DELETE FROM leases WHERE incarnation < %lld AND incarnation <>"
	         " (SELECT incarnation FROM leases ORDER BY longest_ns DESC, incarnation DESC"
	         " LIMIT 1); COMMIT",
	         (long long)number, (long long)LOG_DB_SUM_OF(number), (long long)(number - 1));
	return sqlite3_exec(log->db.handle, sql, NULL, NULL, NULL) == SQLITE_OK ||
	       sqlite_error(&log->db, why, why_size);
}

enum work
log_db_close(struct log_db *log, bool untouched)
{
	for (int i = 0; i < LOG_STATEMENTS; i++)
		sqlite3_finalize(log->statements[i]);
	log_db_found_free(&log->found);
	if (!untouched && log->watermark_file.fd >= 0) {
		log->durable.wal = (struct wal_extent){0, 0}; /* SQLite removes the WAL now */
		watermark_write(&log->watermark_file, &log->durable);
	}
	watermark_close(&log->watermark_file);
	return sqlite_close(&log->db, untouched);
}

/* Writes what could be read of the damaged file into a fresh one. On an error that is removed, and
 * `old` notes an error of the disk. */
static bool
write_fresh(struct sqlite_db *old, const char *directory, const char *cell, uint8_t replica,
            const struct px_recovered *r, char *why, size_t why_size)
{
	struct sqlite_kind fresh_kind = kind;
	struct log_db fresh = {.watermark_file.fd = -1, .watermark.incarnation = r->incarnation};
	enum work work = WORK_FAILED;
	int rc = swap_in_remove(directory, LOG_DB_FRESH);

	fresh_kind.name = LOG_DB_FRESH;
	fresh.db.wal_fd = -1;
	if (rc < 0)
		return sqlite_file_error(&old->io_failed, rc, directory, LOG_DB_FRESH, why,
		                         why_size);
	if (create(&fresh.db, directory, &fresh_kind, cell, replica, r, why, why_size) &&
	    sqlite_ready(&fresh.db, why, why_size) && log_db_write_prepare(&fresh, why, why_size)) {
		rc = sqlite_begin(&fresh.db);
		if (rc == SQLITE_OK)
			rc = log_db_write_recovered(&fresh, r);
		work = sqlite_end(&fresh.db, rc);
		if (work != WORK_DONE)
			snprintf(why, why_size, "%s", fresh.db.why);
	}
	if (log_db_close(&fresh, work != WORK_DONE) == WORK_DONE && work == WORK_DONE)
		return true;
	old->io_failed |= fresh.db.io_failed;
	(void)swap_in_remove(directory, LOG_DB_FRESH);
	return false;
}

/* Replaces a damaged file by a fresh one; the damaged file is kept for the operator. */
static bool
replace(struct log_db *log, const char *directory, const char *cell, uint8_t replica,
        const struct px_recovered *r, char *why, size_t why_size)
{
	const struct wal_extent none = {0, 0};
	int rc;

	if (!write_fresh(&log->db, directory, cell, replica, r, why, why_size))
		return false;
	sqlite_close(&log->db, true);
	rc = swap_in_ready(directory, LOG_DB_FRESH, LOG_DB_FILE);
	if (rc == 0)
		rc = swap_in(directory, LOG_DB_FILE, true);
	if (rc == 0)
		return sqlite_open(&log->db, directory, &kind, &none, why, why_size);
	return sqlite_file_error(&log->db.io_failed, rc, directory, LOG_DB_FILE, why, why_size);
}

bool
log_db_start(struct log_db *log, const char *directory, const char *cell, uint8_t replica,
             struct px_recovered *r, char *why, size_t why_size)
{
	bool durable;
	int rc;

	r->incarnation++;
	if (log->found.corruption.n > (log->watermark_lost ? 1 : 0))
		durable = replace(log, directory, cell, replica, r, why, why_size);
	else if (log->db.handle == NULL)
		durable = create(&log->db, directory, &kind, cell, replica, r, why, why_size);
	else
		durable = write_incarnation(log, r->incarnation, why, why_size);
	if (!durable || !sqlite_ready(&log->db, why, why_size))
		return false;
	log->lost = highest(log->found.missing, r->damaged);
	log->old_leases = log->found.leases || r->wait.ns > 0;
	log_db_found_free(&log->found);
	log->trimmed = log->trim = r->trimmed;
	log->to_delete = true; /* an earlier process may have left rows below the base */
	log->chosen_written = log->chosen_up_to = r->chosen;
	log->old_leases_end = mono_add(clock_now(), span_ms(2 * LIMIT_LEASE_MAX_S * 1000));
	log->watermark.incarnation = r->incarnation;
	log->watermark.ballot = r->promised;
	log->watermark.own = 0;
	for (size_t i = 0; i < r->marks_n; i++)
		log_db_note_mark(log, &r->marks[i]);
	log->watermark.slot = highest(log->watermark.slot, highest(log_db_last(r), r->damaged));
	sqlite_update_wal(&log->db);
	log->watermark.wal = log->db.wal;
	rc = watermark_open(&log->watermark_file, directory, WATERMARK_LOG, &log->watermark);
	log->durable = log->watermark;
	if (rc == 0)
		return log_db_write_prepare(log, why, why_size);
	return sqlite_file_error(&log->db.io_failed, rc, directory, WATERMARK_FILE, why, why_size);
}
