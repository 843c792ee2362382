#include "cell/io/logdb.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/limit.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/sys/clock.h"
#include "cell/io/install.h"
#include "cell/io/logwrite.h"
#include "cell/paxos/ballot.h"

static const struct database_kind kind = {
    .name = LOGDB_FILE, .application_id = 0x6c736c67, .format = 1};

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

static bool
read_marks(struct logdb *log, const char *directory, char *why, size_t why_size)
{
	int rc = marks_read(directory, MARKS_LOG, &log->marks);

	log->marks_lost = rc == -EBADMSG;
	if (rc == 0 || log->marks_lost)
		return true;
	snprintf(why, why_size, "%s/" MARKS_FILE ": %s", directory, strerror(-rc));
	return false;
}

bool
logdb_open(struct logdb *log, const char *directory, const char *cell, uint8_t replica, char *why,
           size_t why_size)
{
	struct log_found *found = &log->found;
	bool ok;

	*log = (struct logdb){.marks_file.fd = -1};
	if (!read_marks(log, directory, why, why_size))
		return false;
	ok = database_open(&log->db, directory, &kind, &log->marks.wal, why, why_size);
	if (!ok && !log->db.damaged)
		return false;
	if (!ok) {
		damage_say(&found->damage, "%s", why);
		found->torn = true;
	}
	if (log->marks_lost)
		damage_say(&found->damage, MARKS_FILE " is damaged: checksum");
	if (log->db.handle == NULL || log_read(&log->db, cell, replica, found, why, why_size))
		return true;
	logdb_close(log, true);
	return false;
}

/* The good entries without a hole behind `base`. */
static size_t
run_behind(const struct log_found *f, uint64_t base, size_t *at)
{
	size_t n = 0;

	for (*at = 0; *at < f->entries_n && f->entries[*at].slot <= base; ++*at)
		;
	while (*at + n < f->entries_n && f->entries[*at + n].slot == base + n + 1)
		n++;
	return n;
}

static bool
was_named(const struct log_found *f, uint64_t slot)
{
	for (size_t i = 0; i < f->bad_n; i++) {
		if (f->bad[i] == slot)
			return true;
	}
	return false;
}

/* Takes over the entries that go on from the base. What is damaged at or below `applied` is only
 * dropped with all before it: state.db has it. */
static void
take_entries(struct logdb *log, uint64_t applied, struct px_recovered *r)
{
	struct log_found *f = &log->found;
	size_t at, n;

	n = run_behind(f, r->trimmed, &at);
	if (r->trimmed + n < f->last && !f->torn && !was_named(f, r->trimmed + n + 1))
		damage_add(&f->damage, LOGDB_FILE, "entries row %" PRIu64 " is missing",
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
logdb_last(const struct px_recovered *r)
{
	return r->trimmed + r->entries_n;
}

/* The marks were written after the log was synced: it can't hold less, unless it was damaged or an
 * older copy took its place. */
static bool
compare_marks(struct logdb *log, uint64_t last)
{
	struct log_found *f = &log->found;
	const struct marks *m = &log->marks;

	if (log->db.handle == NULL && m->incarnation > 0 && !f->torn)
		damage_say(&f->damage, LOGDB_FILE " is missing, but incarnation %" PRIu64
		           " was begun", m->incarnation);
	else if (last < m->slot && f->missing < m->slot && f->last < m->slot)
		damage_add(&f->damage, LOGDB_FILE, "it ends at slot %" PRIu64 ", but %" PRIu64
		           " was acknowledged", last, m->slot);
	else if (f->incarnation > 0 && f->incarnation < m->incarnation)
		damage_add(&f->damage, LOGDB_FILE, "incarnation %" PRIu64 ", but %" PRIu64
		           " was begun", f->incarnation, m->incarnation);
	else if (!f->ballots_lost && ballot_less(f->promised, m->ballot))
		damage_add(&f->damage, LOGDB_FILE, "ballot %" PRIu64 ".%u, but %" PRIu64
		           ".%u was promised", f->promised.round, f->promised.replica,
		           m->ballot.round, m->ballot.replica);
	else
		return true;
	return false;
}

/* What only this replica knows: which ballot it has promised, and its incarnation. */
static bool
check_vote(const struct logdb *log, const struct px_recovered *r, char *why, size_t why_size)
{
	const struct log_found *f = &log->found;
	bool marked = !log->marks_lost && log->marks.incarnation > 0;
	bool known = log->db.handle == NULL && !f->torn && !log->marks_lost;

	if (marked || known || (!f->ballots_lost && !f->torn && r->incarnation > 0))
		return true;
	snprintf(why, why_size, "%s: what this replica has promised can't be read any more",
	         f->damage.lines[0]);
	return false;
}

static bool
check_alone(const struct logdb *log, const struct px_recovered *r, char *why, size_t why_size)
{
	const struct log_found *f = &log->found;

	if (r->damaged == 0 && !f->torn && !log->marks_lost && !log->older)
		return true;
	snprintf(why, why_size, "%s", f->damage.lines[0]);
	return false;
}

bool
logdb_recover(struct logdb *log, uint64_t applied, enum logdb_reader reader, struct px_recovered *r,
              char *why, size_t why_size)
{
	struct log_found *f = &log->found;
	uint64_t last;

	*r = (struct px_recovered){
	    .incarnation = highest(f->incarnation, log->marks.incarnation),
	    .promised = ballot_max(f->promised, log->marks.ballot),
	    .trimmed = f->trimmed,
	};
	if (log->db.handle == NULL || f->torn || f->trimmed_lost)
		r->trimmed = applied;
	take_entries(log, applied, r);
	last = highest(logdb_last(r), applied);
	log->older = !compare_marks(log, last);
	r->damaged = highest(highest(f->last, f->missing), log->marks.slot);
	r->damaged = r->damaged > last ? r->damaged : 0;
	r->chosen = highest(r->trimmed, f->chosen < last ? f->chosen : last);
	r->wait.ns = f->none_left ? 0 : f->longest_ns;
	if (f->leases_lost || f->torn || log->older)
		r->wait = span_ms(LIMIT_LEASE_MAX_S * 1000);
	r->marks = f->marks;
	r->marks_n = f->marks_n;
	f->marks = NULL;
	f->marks_n = 0;
	if (reader == LOGDB_ENTRIES ||
	    (check_vote(log, r, why, why_size) &&
	     (reader == LOGDB_MEMBER || check_alone(log, r, why, why_size))))
		return true;
	logdb_recovered_free(r);
	return false;
}

void
logdb_recovered_free(struct px_recovered *recovered)
{
	for (size_t i = 0; i < recovered->entries_n; i++)
		free((void *)recovered->entries[i].payload.data);
	free((void *)recovered->entries);
	free((void *)recovered->marks);
	*recovered = (struct px_recovered){0};
}

/* ---- starting ---- */

static bool
create(struct database *db, const char *directory, const struct database_kind *as, const char *cell,
       uint8_t replica, uint64_t incarnation, char *why, size_t why_size)
{
	char *sql = sqlite3_mprintf("%s; INSERT INTO replica VALUES (0, %Q, %d, %lld);"
	                            "INSERT INTO incarnation VALUES (0, %lld, %lld)",
	                            schema, cell, replica, (long long)log_owner_sum(cell, replica),
	                            (long long)incarnation, (long long)LOG_SUM_OF(incarnation));
	bool ok;

	must(sql != NULL);
	db->kind = as;
	ok = database_create(db, directory, sql, why, why_size);
	sqlite3_free(sql);
	return ok;
}

/* Of the leases only the longest counts, and what the last incarnation said. */
static bool
write_incarnation(struct logdb *log, uint64_t number, char *why, size_t why_size)
{
	char sql[512];

	snprintf(sql, sizeof sql,
	         "BEGIN IMMEDIATE; REPLACE INTO incarnation VALUES (0, %lld, %lld);"
	         "DELETE FROM leases WHERE incarnation < %lld AND incarnation <>"
	         " (SELECT incarnation FROM leases ORDER BY longest_ns DESC, incarnation DESC"
	         " LIMIT 1); COMMIT",
	         (long long)number, (long long)LOG_SUM_OF(number), (long long)(number - 1));
	return sqlite3_exec(log->db.handle, sql, NULL, NULL, NULL) == SQLITE_OK ||
	       database_error(&log->db, why, why_size);
}

enum work
logdb_close(struct logdb *log, bool untouched)
{
	for (int i = 0; i < LOG_STATEMENTS; i++)
		sqlite3_finalize(log->statements[i]);
	log_found_free(&log->found);
	if (!untouched && log->marks_file.fd >= 0) {
		log->durable.wal = (struct wal_mark){0, 0}; /* it goes now */
		marks_write(&log->marks_file, &log->durable);
	}
	marks_close(&log->marks_file);
	return database_close(&log->db, untouched);
}

/* A fresh file with what could be read of the damaged one; complete, or it is removed again. */
static bool
write_fresh(const char *directory, const char *cell, uint8_t replica, const struct px_recovered *r,
            char *why, size_t why_size)
{
	struct database_kind fresh_kind = kind;
	struct logdb fresh = {.marks_file.fd = -1, .marks.incarnation = r->incarnation};
	enum work work = WORK_FAILED;
	int rc = install_remove(directory, LOGDB_FRESH);

	fresh_kind.name = LOGDB_FRESH;
	fresh.db.wal_fd = -1;
	if (rc < 0) {
		snprintf(why, why_size, "%s/" LOGDB_FRESH ": %s", directory, strerror(-rc));
		return false;
	}
	if (create(&fresh.db, directory, &fresh_kind, cell, replica, r->incarnation, why,
	           why_size) &&
	    database_ready(&fresh.db, why, why_size) && logwrite_prepare(&fresh, why, why_size)) {
		rc = database_begin(&fresh.db);
		if (rc == SQLITE_OK)
			rc = logwrite_recovered(&fresh, r);
		work = database_end(&fresh.db, rc);
		if (work != WORK_DONE)
			snprintf(why, why_size, "%s", fresh.db.why);
	}
	if (logdb_close(&fresh, work != WORK_DONE) == WORK_DONE && work == WORK_DONE)
		return true;
	(void)install_remove(directory, LOGDB_FRESH);
	return false;
}

/* The damaged file is kept for people. */
static bool
replace(struct logdb *log, const char *directory, const char *cell, uint8_t replica,
        const struct px_recovered *r, char *why, size_t why_size)
{
	const struct wal_mark none = {0, 0};
	int rc;

	if (!write_fresh(directory, cell, replica, r, why, why_size))
		return false;
	database_close(&log->db, true);
	rc = install_ready(directory, LOGDB_FRESH, LOGDB_FILE);
	if (rc == 0)
		rc = install(directory, LOGDB_FILE, true);
	if (rc == 0)
		return database_open(&log->db, directory, &kind, &none, why, why_size);
	snprintf(why, why_size, "%s/" LOGDB_FILE ": %s", directory, strerror(-rc));
	return false;
}

/* The new incarnation becomes durable. */
static bool
begin(struct logdb *log, const char *directory, const char *cell, uint8_t replica,
      const struct px_recovered *r, char *why, size_t why_size)
{
	if (log->found.damage.n > (log->marks_lost ? 1 : 0))
		return replace(log, directory, cell, replica, r, why, why_size);
	if (log->db.handle == NULL)
		return create(&log->db, directory, &kind, cell, replica, r->incarnation, why,
		              why_size);
	return write_incarnation(log, r->incarnation, why, why_size);
}

bool
logdb_start(struct logdb *log, const char *directory, const char *cell, uint8_t replica,
            struct px_recovered *r, char *why, size_t why_size)
{
	int rc;

	r->incarnation++;
	if (!begin(log, directory, cell, replica, r, why, why_size) ||
	    !database_ready(&log->db, why, why_size))
		return false;
	log->lost = highest(log->found.missing, r->damaged);
	log_found_free(&log->found);
	log->trimmed = log->trim = r->trimmed;
	log->to_delete = true; /* what an earlier life left behind it */
	log->chosen_written = log->chosen_up_to = r->chosen;
	log->old_leases = true;
	log->old_leases_end = mono_add(clock_now(), span_ms(2 * LIMIT_LEASE_MAX_S * 1000));
	log->marks.incarnation = r->incarnation;
	log->marks.ballot = r->promised;
	log->marks.slot = highest(log->marks.slot, highest(logdb_last(r), r->damaged));
	database_look_at_wal(&log->db);
	log->marks.wal = log->db.wal;
	rc = marks_open(&log->marks_file, directory, MARKS_LOG, &log->marks);
	log->durable = log->marks;
	if (rc == 0)
		return logwrite_prepare(log, why, why_size);
	snprintf(why, why_size, "%s/" MARKS_FILE ": %s", directory, strerror(-rc));
	return false;
}
