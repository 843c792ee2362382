#include "cell/io/logdb.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/checksum.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"

enum {
	TRIM_STEP = 256, /* entries deleted in one transaction */
	SUM_MAX = 6,     /* numbers of a row under its checksum */
};

static const struct database_kind kind = {
    .name = LOGDB_FILE, .application_id = 0x6c736c67, .format = 1};

static const char schema[] =
    "CREATE TABLE replica (id INTEGER PRIMARY KEY CHECK (id = 0), cell TEXT NOT NULL,"
    " replica INTEGER NOT NULL) STRICT;"
    "CREATE TABLE incarnation (id INTEGER PRIMARY KEY CHECK (id = 0), number INTEGER NOT NULL,"
    " checksum INTEGER NOT NULL) STRICT;"
    "CREATE TABLE ballots (id INTEGER PRIMARY KEY CHECK (id = 0), round INTEGER NOT NULL,"
    " replica INTEGER NOT NULL, checksum INTEGER NOT NULL) STRICT;"
    "CREATE TABLE ballots_again (id INTEGER PRIMARY KEY CHECK (id = 0), round INTEGER NOT NULL,"
    " replica INTEGER NOT NULL, checksum INTEGER NOT NULL) STRICT;"
    "CREATE TABLE entries (slot INTEGER PRIMARY KEY, round INTEGER NOT NULL,"
    " replica INTEGER NOT NULL, origin_round INTEGER NOT NULL, origin_replica INTEGER NOT NULL,"
    " payload_checksum INTEGER NOT NULL, checksum INTEGER NOT NULL, payload BLOB NOT NULL) STRICT;"
    "CREATE TABLE chosen (id INTEGER PRIMARY KEY CHECK (id = 0), slot INTEGER NOT NULL,"
    " checksum INTEGER NOT NULL) STRICT;"
    "CREATE TABLE trimmed (id INTEGER PRIMARY KEY CHECK (id = 0), slot INTEGER NOT NULL,"
    " checksum INTEGER NOT NULL) STRICT;"
    "CREATE TABLE leases (incarnation INTEGER PRIMARY KEY, longest_ns INTEGER NOT NULL,"
    " checksum INTEGER NOT NULL) STRICT;"
    "CREATE TABLE marks (replica INTEGER PRIMARY KEY, incarnation INTEGER NOT NULL,"
    " start INTEGER NOT NULL, round INTEGER NOT NULL, ballot_replica INTEGER NOT NULL,"
    " slot INTEGER NOT NULL, checksum INTEGER NOT NULL) STRICT";

static uint64_t
sum_numbers(const uint64_t *numbers, size_t n)
{
	uint8_t packed[8 * SUM_MAX];

	must(n <= SUM_MAX);
	for (size_t i = 0; i < 8 * n; i++)
		packed[i] = (uint8_t)(numbers[i / 8] >> (8 * (i % 8)));
	return checksum((struct bytes){packed, 8 * n});
}

/* The sum over a row's numbers. */
#define SUM_OF(...)                                                                           \
	sum_numbers((const uint64_t[]){__VA_ARGS__},                                          \
	            sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void
bind_number(sqlite3_stmt *statement, int at, uint64_t number)
{
	must(sqlite3_bind_int64(statement, at, (int64_t)number) == SQLITE_OK);
}

static uint64_t
column(sqlite3_stmt *statement, int at)
{
	return (uint64_t)sqlite3_column_int64(statement, at);
}

/* ---- reading ---- */

/* Calls `row` for each row of a SELECT; it answers false, with `why`, to stop. */
static bool
each_row(struct logdb *log, const char *sql, void *user,
         bool (*row)(struct logdb *log, sqlite3_stmt *s, void *user, char *why, size_t why_size),
         char *why, size_t why_size)
{
	sqlite3_stmt *s;
	bool ok = true;
	int rc;

	if (!database_prepare(&log->db, &s, sql, why, why_size))
		return false;
	while ((rc = sqlite3_step(s)) == SQLITE_ROW && ok)
		ok = row(log, s, user, why, why_size);
	if (ok && rc != SQLITE_DONE)
		ok = database_error(&log->db, why, why_size);
	sqlite3_finalize(s);
	return ok;
}

struct owner {
	const char *cell;
	uint8_t replica;
	int rows;
};

static bool
check_owner(struct logdb *log, sqlite3_stmt *s, void *user, char *why, size_t why_size)
{
	struct owner *owner = user;
	const char *cell = (const char *)sqlite3_column_text(s, 0);

	(void)log;
	owner->rows++;
	if (cell != NULL && strcmp(cell, owner->cell) == 0 && column(s, 1) == owner->replica)
		return true;
	snprintf(why, why_size,
	         "log.db belongs to replica %" PRIu64 " of cell %.64s, not to replica "
	         "%u of cell %s",
	         column(s, 1), cell ? cell : "?", owner->replica, owner->cell);
	return false;
}

/* One number with its sum: table, column, 0 if there is no row. */
struct single {
	const char *table;
	uint64_t number;
};

static bool
read_single(struct logdb *log, sqlite3_stmt *s, void *user, char *why, size_t why_size)
{
	struct single *single = user;

	single->number = column(s, 0);
	if (column(s, 1) == SUM_OF(single->number))
		return true;
	return database_damaged(&log->db, why, why_size, "%s: checksum", single->table);
}

struct ballots {
	struct ballot highest;
	int rows, good;
};

static bool
read_ballot(struct logdb *log, sqlite3_stmt *s, void *user, char *why, size_t why_size)
{
	struct ballots *ballots = user;
	struct ballot b = {.round = column(s, 0), .replica = (uint8_t)column(s, 1)};

	(void)log, (void)why, (void)why_size;
	ballots->rows++;
	if (column(s, 2) != SUM_OF(b.round, column(s, 1)))
		return true;
	ballots->good++;
	if (b.round > ballots->highest.round || (b.round == ballots->highest.round &&
	                                         b.replica > ballots->highest.replica))
		ballots->highest = b;
	return true;
}

struct leases {
	uint64_t last_incarnation;
	int64_t longest_ns;
	bool none_left; /* the last incarnation recorded that no lease of it can be standing */
};

static bool
read_lease(struct logdb *log, sqlite3_stmt *s, void *user, char *why, size_t why_size)
{
	struct leases *leases = user;
	uint64_t incarnation = column(s, 0), ns = column(s, 1);

	if (column(s, 2) != SUM_OF(incarnation, ns))
		return database_damaged(&log->db, why, why_size, "leases row %" PRIu64 ": checksum",
		                        incarnation);
	if (incarnation == leases->last_incarnation && ns == 0)
		leases->none_left = true;
	if ((int64_t)ns > leases->longest_ns)
		leases->longest_ns = (int64_t)ns;
	return true;
}

struct reading {
	struct px_recovered *recovered;
	struct log_entry *entries;
	struct mark *marks;
	size_t n, room;
};

static struct ballot
column_ballot(sqlite3_stmt *s, int at)
{
	return (struct ballot){.round = column(s, at), .replica = (uint8_t)column(s, at + 1)};
}

static uint64_t
entry_sum(uint64_t slot, struct ballot b, struct ballot origin, uint64_t payload_checksum)
{
	return SUM_OF(slot, b.round, b.replica, origin.round, origin.replica, payload_checksum);
}

static bool
read_entry(struct logdb *log, sqlite3_stmt *s, void *user, char *why, size_t why_size)
{
	struct reading *reading = user;
	struct log_entry e = {.slot = column(s, 0), .checksum = column(s, 5)};
	uint64_t expected = reading->recovered->trimmed + reading->n + 1;

	e.ballot = column_ballot(s, 1);
	e.origin = column_ballot(s, 3);
	e.payload = (struct bytes){sqlite3_column_blob(s, 7), (size_t)sqlite3_column_bytes(s, 7)};
	if (column(s, 6) != entry_sum(e.slot, e.ballot, e.origin, e.checksum) ||
	    e.checksum != checksum(e.payload))
		return database_damaged(&log->db, why, why_size,
		                        "entries row %" PRIu64 ": checksum", e.slot);
	if (e.slot != expected)
		return database_damaged(&log->db, why, why_size,
		                        "entries row %" PRIu64 " is missing", expected);
	e.payload = bytes_copy(e.payload);
	ARRAY_ROOM(reading->entries, reading->n, reading->room);
	reading->entries[reading->n++] = e;
	reading->recovered->entries = reading->entries;
	reading->recovered->entries_n = reading->n;
	return true;
}

static uint64_t
mark_sum(const struct mark *m)
{
	return SUM_OF(m->replica, m->incarnation, m->start, m->ballot.round, m->ballot.replica,
	              m->slot);
}

static bool
read_mark(struct logdb *log, sqlite3_stmt *s, void *user, char *why, size_t why_size)
{
	struct reading *reading = user;
	struct mark m = {.replica = (uint8_t)column(s, 0),
	                 .incarnation = column(s, 1),
	                 .start = column(s, 2),
	                 .ballot = column_ballot(s, 3),
	                 .slot = column(s, 5)};

	if (column(s, 6) != mark_sum(&m) || column(s, 0) != m.replica)
		return database_damaged(&log->db, why, why_size, "marks row %" PRIu64 ": checksum",
		                        column(s, 0));
	ARRAY_ROOM(reading->marks, reading->n, reading->room);
	reading->marks[reading->n++] = m;
	reading->recovered->marks = reading->marks;
	reading->recovered->marks_n = reading->n;
	return true;
}

static bool
read_numbers(struct logdb *log, struct px_recovered *r, char *why, size_t why_size)
{
	struct single incarnation = {.table = "incarnation"}, chosen = {.table = "chosen"};
	struct single trimmed = {.table = "trimmed"};
	struct ballots ballots = {0};
	struct leases leases = {0};

	if (!each_row(log, "SELECT number, checksum FROM incarnation", &incarnation, read_single,
	              why, why_size) ||
	    !each_row(log, "SELECT slot, checksum FROM chosen", &chosen, read_single, why,
	              why_size) ||
	    !each_row(log, "SELECT slot, checksum FROM trimmed", &trimmed, read_single, why,
	              why_size) ||
	    !each_row(log,
	              "SELECT round, replica, checksum FROM ballots UNION ALL "
	              "SELECT round, replica, checksum FROM ballots_again",
	              &ballots, read_ballot, why, why_size))
		return false;
	if (incarnation.number == 0)
		return database_damaged(&log->db, why, why_size, "incarnation: no row");
	if (ballots.rows > 0 && ballots.good == 0)
		return database_damaged(&log->db, why, why_size,
		                        "ballots: checksum, in both copies");
	leases.last_incarnation = incarnation.number;
	if (!each_row(log, "SELECT incarnation, longest_ns, checksum FROM leases", &leases,
	              read_lease, why, why_size))
		return false;
	r->incarnation = incarnation.number;
	r->promised = ballots.highest;
	r->trimmed = trimmed.number;
	r->chosen = chosen.number > trimmed.number ? chosen.number : trimmed.number;
	r->wait = (span_t){leases.none_left ? 0 : leases.longest_ns};
	return true;
}

uint64_t
logdb_last(const struct px_recovered *r)
{
	return r->trimmed + r->entries_n;
}

/* The marks were written after the log was synced: it can't hold less, unless it was damaged or an
 * older copy took its place. */
static bool
check_marks(const struct logdb *log, const struct px_recovered *r, char *why, size_t why_size)
{
	const struct marks *m = &log->marks;
	const char *state = log->db.handle == NULL ? "missing" : "damaged or an old copy";

	if (r->incarnation < m->incarnation)
		snprintf(why, why_size, "log.db is %s: incarnation %" PRIu64 ", but %" PRIu64
		         " was begun", state, r->incarnation, m->incarnation);
	else if (logdb_last(r) < m->slot)
		snprintf(why, why_size, "log.db is %s: it ends at slot %" PRIu64 ", but %" PRIu64
		         " was acknowledged", state, logdb_last(r), m->slot);
	else if (r->promised.round < m->ballot.round)
		snprintf(why, why_size, "log.db is %s: ballot %" PRIu64 ", but %" PRIu64
		         " was promised", state, r->promised.round, m->ballot.round);
	else
		return true;
	return false;
}

static bool
read_all(struct logdb *log, const char *cell, uint8_t replica, struct px_recovered *r, char *why,
         size_t why_size)
{
	struct owner owner = {.cell = cell, .replica = replica};
	struct reading entries = {.recovered = r}, marks = {.recovered = r};
	char sql[256];

	if (!each_row(log, "SELECT cell, replica FROM replica", &owner, check_owner, why, why_size))
		return false;
	if (owner.rows != 1)
		return database_damaged(&log->db, why, why_size, "replica: no row");
	if (!read_numbers(log, r, why, why_size) ||
	    !each_row(log, "SELECT replica, incarnation, start, round, ballot_replica, slot,"
	              " checksum FROM marks", &marks, read_mark, why, why_size))
		return false;
	snprintf(sql, sizeof sql,
	         "SELECT slot, round, replica, origin_round, origin_replica, payload_checksum,"
	         " checksum, payload FROM entries WHERE slot > %lld ORDER BY slot",
	         (long long)r->trimmed);
	return each_row(log, sql, &entries, read_entry, why, why_size);
}

bool
logdb_open(struct logdb *log, const char *directory, const char *cell, uint8_t replica,
           struct px_recovered *recovered, char *why, size_t why_size)
{
	*log = (struct logdb){.marks_file.fd = -1};
	*recovered = (struct px_recovered){0};
	if (!marks_read(directory, &log->marks, why, why_size) ||
	    !database_open(&log->db, directory, &kind, why, why_size))
		return false;
	if ((log->db.handle == NULL || read_all(log, cell, replica, recovered, why, why_size)) &&
	    check_marks(log, recovered, why, why_size))
		return true;
	logdb_recovered_free(recovered);
	database_close(&log->db, true);
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

/* ---- writing ---- */

static bool
prepare(struct logdb *log, char *why, size_t why_size)
{
	const struct {
		sqlite3_stmt **statement;
		const char *sql;
	} all[] = {
	    {&log->ballot[0], "REPLACE INTO ballots VALUES (0, ?, ?, ?)"},
	    {&log->ballot[1], "REPLACE INTO ballots_again VALUES (0, ?, ?, ?)"},
	    {&log->entry, "REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?)"},
	    {&log->chosen, "REPLACE INTO chosen VALUES (0, ?, ?)"},
	    {&log->lease, "REPLACE INTO leases VALUES (?, ?, ?)"},
	    {&log->mark, "REPLACE INTO marks VALUES (?, ?, ?, ?, ?, ?, ?)"},
	    {&log->delete_entries,
	     "DELETE FROM entries WHERE slot IN"
	     " (SELECT slot FROM entries WHERE slot <= ? ORDER BY slot LIMIT ?)"},
	    {&log->trim_to, "REPLACE INTO trimmed VALUES (0, ?, ?)"},
	};

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		if (!database_prepare(&log->db, all[i].statement, all[i].sql, why, why_size))
			return false;
	}
	return true;
}

static bool
create(struct logdb *log, const char *directory, const char *cell, uint8_t replica, char *why,
       size_t why_size)
{
	char *sql = sqlite3_mprintf("%s; INSERT INTO replica VALUES (0, %Q, %d);"
	                            "INSERT INTO incarnation VALUES (0, 1, %lld)",
	                            schema, cell, replica, (long long)SUM_OF(1));
	bool ok;

	must(sql != NULL);
	ok = database_create(&log->db, directory, sql, why, why_size);
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
	         (long long)number, (long long)SUM_OF(number), (long long)(number - 1));
	return sqlite3_exec(log->db.handle, sql, NULL, NULL, NULL) == SQLITE_OK ||
	       database_error(&log->db, why, why_size);
}

bool
logdb_start(struct logdb *log, const char *directory, const char *cell, uint8_t replica,
            struct px_recovered *r, char *why, size_t why_size)
{
	bool ok = log->db.handle == NULL
	              ? create(log, directory, cell, replica, why, why_size)
	              : write_incarnation(log, r->incarnation + 1, why, why_size);
	int rc;

	if (!ok || !database_ready(&log->db, why, why_size))
		return false;
	r->incarnation++;
	log->trimmed = log->trim = r->trimmed;
	log->to_delete = true; /* what an earlier life left behind it */
	log->chosen_written = log->chosen_up_to = r->chosen;
	log->marks = (struct marks){r->incarnation, r->promised, logdb_last(r)};
	rc = marks_open(&log->marks_file, directory, &log->marks);
	if (rc == 0)
		return prepare(log, why, why_size);
	snprintf(why, why_size, "%s/" MARKS_FILE ": %s", directory, strerror(-rc));
	return false;
}

enum work
logdb_close(struct logdb *log, bool untouched)
{
	sqlite3_stmt *all[] = {log->ballot[0], log->ballot[1], log->entry, log->chosen, log->lease,
	                       log->mark, log->delete_entries, log->trim_to};

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		sqlite3_finalize(all[i]);
	marks_close(&log->marks_file);
	return database_close(&log->db, untouched);
}

static int
write_ballot(struct logdb *log, struct ballot b)
{
	int rc = SQLITE_OK;

	for (int copy = 0; copy < 2 && rc == SQLITE_OK; copy++) {
		bind_number(log->ballot[copy], 1, b.round);
		bind_number(log->ballot[copy], 2, b.replica);
		bind_number(log->ballot[copy], 3, SUM_OF(b.round, b.replica));
		rc = database_step(log->ballot[copy]);
	}
	if (b.round > log->marks.ballot.round)
		log->marks.ballot = b;
	return rc;
}

static int
write_entry(struct logdb *log, const struct px_record *r)
{
	sqlite3_stmt *s = log->entry;

	bind_number(s, 1, r->slot);
	bind_number(s, 2, r->ballot.round);
	bind_number(s, 3, r->ballot.replica);
	bind_number(s, 4, r->origin.round);
	bind_number(s, 5, r->origin.replica);
	bind_number(s, 6, r->checksum);
	bind_number(s, 7, entry_sum(r->slot, r->ballot, r->origin, r->checksum));
	must(sqlite3_bind_blob(s, 8, r->payload.len > 0 ? (const void *)r->payload.data : "",
	                       (int)r->payload.len, SQLITE_STATIC) == SQLITE_OK);
	if (r->slot > log->marks.slot)
		log->marks.slot = r->slot;
	return database_step(s);
}

static int
write_number(sqlite3_stmt *s, uint64_t number)
{
	bind_number(s, 1, number);
	bind_number(s, 2, SUM_OF(number));
	return database_step(s);
}

static int
write_lease(struct logdb *log, span_t length)
{
	uint64_t incarnation = log->marks.incarnation;

	bind_number(log->lease, 1, incarnation);
	bind_number(log->lease, 2, (uint64_t)length.ns);
	bind_number(log->lease, 3, SUM_OF(incarnation, (uint64_t)length.ns));
	return database_step(log->lease);
}

static int
write_mark(struct logdb *log, const struct mark *m)
{
	bind_number(log->mark, 1, m->replica);
	bind_number(log->mark, 2, m->incarnation);
	bind_number(log->mark, 3, m->start);
	bind_number(log->mark, 4, m->ballot.round);
	bind_number(log->mark, 5, m->ballot.replica);
	bind_number(log->mark, 6, m->slot);
	bind_number(log->mark, 7, mark_sum(m));
	return database_step(log->mark);
}

int
logdb_write(struct logdb *log, const struct px_record *r)
{
	switch (r->kind) {
	case PX_RECORD_PROMISE:
		return write_ballot(log, r->ballot);
	case PX_RECORD_ENTRY:
		return write_entry(log, r);
	case PX_RECORD_CHOSEN:
		if (r->slot > log->chosen_up_to)
			log->chosen_up_to = r->slot;
		return SQLITE_OK;
	case PX_RECORD_TRIM:
		if (r->slot > log->trim)
			log->trim = r->slot;
		if (r->slot > log->marks.slot)
			log->marks.slot = r->slot;
		return SQLITE_OK;
	case PX_RECORD_LEASE:
		return write_lease(log, r->length);
	case PX_RECORD_MARK:
		return write_mark(log, &r->mark);
	}
	must(!"a kind of record");
	return SQLITE_MISUSE;
}

/* Rows at or below the base count no more from the moment that it is written; they are deleted in
 * small steps behind it. */
static int
trim_some(struct logdb *log)
{
	int rc = SQLITE_OK;

	log->more_to_delete = false;
	if (log->trim <= log->trimmed && !log->to_delete)
		return rc;
	if (log->trim > log->trimmed)
		rc = write_number(log->trim_to, log->trim);
	if (rc != SQLITE_OK)
		return rc;
	bind_number(log->delete_entries, 1, log->trim);
	bind_number(log->delete_entries, 2, TRIM_STEP);
	rc = database_step(log->delete_entries);
	log->more_to_delete = sqlite3_changes(log->db.handle) == TRIM_STEP;
	return rc;
}

int
logdb_finish(struct logdb *log)
{
	int rc = SQLITE_OK;

	if (log->chosen_up_to > log->chosen_written)
		rc = write_number(log->chosen, log->chosen_up_to);
	return rc == SQLITE_OK ? trim_some(log) : rc;
}

void
logdb_written(struct logdb *log)
{
	log->chosen_written = log->chosen_up_to;
	log->trimmed = log->trim;
	log->to_delete = log->more_to_delete;
	marks_write(&log->marks_file, &log->marks);
}

enum work
logdb_tidy(struct logdb *log, bool idle)
{
	enum work work = database_checkpoint(&log->db, idle);
	int rc;

	if (work != WORK_DONE || !idle || !log->to_delete)
		return work;
	rc = database_begin(&log->db);
	work = database_end(&log->db, rc == SQLITE_OK ? logdb_finish(log) : rc);
	if (work != WORK_DONE)
		return work == WORK_LATER ? WORK_DONE : work;
	logdb_written(log);
	return log->to_delete ? WORK_MORE : WORK_DONE;
}
