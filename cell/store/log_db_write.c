#include "cell/store/log_db.h"

#include "cell/base/checksum.h"
#include "cell/base/must.h"
#include "cell/paxos/ballot.h"
#include "cell/sys/clock.h"

/* ---- checksums ---- */

uint64_t
log_db_sum(const uint64_t *numbers, size_t n)
{
	uint8_t packed[8 * LOG_DB_SUM_MAX];

	must(n <= LOG_DB_SUM_MAX);
	for (size_t i = 0; i < 8 * n; i++)
		packed[i] = (uint8_t)(numbers[i / 8] >> (8 * (i % 8)));
	return checksum((struct bytes){packed, 8 * n});
}

uint64_t
log_db_owner_sum(const char *cell, uint8_t replica)
{
	return LOG_DB_SUM_OF(checksum(bytes_of(cell)), replica);
}

/* ---- rows ---- */

enum { TRIM_STEP = 256 }; /* entries deleted in one transaction */

static const char *const statements[LOG_STATEMENTS] = {
    [LOG_BALLOT] = "REPLACE INTO ballots VALUES (0, ?, ?, ?)",
    [LOG_BALLOT_AGAIN] = "REPLACE INTO ballots_again VALUES (0, ?, ?, ?)",
    [LOG_ENTRY] = "REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [LOG_CHOSEN] = "REPLACE INTO chosen VALUES (0, ?, ?)",
    [LOG_LEASE] = "REPLACE INTO leases VALUES (?, ?, ?)",
    [LOG_OLD_LEASES] = "DELETE FROM leases WHERE incarnation < ?",
    [LOG_MARK] = "REPLACE INTO marks VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    [LOG_DELETE_ENTRIES] = ("DELETE FROM entries WHERE slot IN"
                            " (SELECT slot FROM entries WHERE slot <= ? ORDER BY slot LIMIT ?)"),
    [LOG_TRIMMED] = "REPLACE INTO trimmed VALUES (0, ?, ?)",
    [LOG_MISSING] = "REPLACE INTO missing VALUES (0, ?, ?)",
};

bool
log_db_write_prepare(struct log_db *log, char *why, size_t why_size)
{
	for (int i = 0; i < LOG_STATEMENTS; i++) {
		if (!sqlite_prepare(&log->db, &log->statements[i], statements[i], why, why_size))
			return false;
	}
	return true;
}

static void
bind_number(sqlite3_stmt *statement, int at, uint64_t number)
{
	must(sqlite3_bind_int64(statement, at, (int64_t)number) == SQLITE_OK);
}

/* Binds the numbers of a row, and after them their checksum. */
static void
bind_numbers(sqlite3_stmt *statement, const uint64_t *numbers, size_t n)
{
	for (size_t i = 0; i < n; i++)
		bind_number(statement, (int)i + 1, numbers[i]);
	bind_number(statement, (int)n + 1, log_db_sum(numbers, n));
}

static int
write_row(sqlite3_stmt *statement, const uint64_t *numbers, size_t n)
{
	bind_numbers(statement, numbers, n);
	return sqlite_step(statement);
}

/* Writes a row of these numbers. */
#define WRITE(statement, ...)                                 \
	write_row(statement, (const uint64_t[]){__VA_ARGS__}, \
	          sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static int
write_ballot(struct log_db *log, struct ballot b)
{
	int rc = WRITE(log->statements[LOG_BALLOT], b.round, b.replica);

	if (rc == SQLITE_OK)
		rc = WRITE(log->statements[LOG_BALLOT_AGAIN], b.round, b.replica);
	log->watermark.ballot = ballot_max(log->watermark.ballot, b);
	return rc;
}

static int
write_entry(struct log_db *log, const struct px_record *r)
{
	const uint64_t numbers[] = {r->slot,           r->ballot.round,   r->ballot.replica,
	                            r->origin.round,   r->origin.replica, r->before.round,
	                            r->before.replica, r->checksum};
	sqlite3_stmt *s = log->statements[LOG_ENTRY];

	bind_numbers(s, numbers, 8);
	must(sqlite3_bind_blob(s, 10, r->payload.len > 0 ? (const void *)r->payload.data : "",
	                       (int)r->payload.len, SQLITE_STATIC) == SQLITE_OK);
	log->written = r->slot;
	if (r->slot > log->watermark.slot)
		log->watermark.slot = r->slot;
	return sqlite_step(s);
}

static int
write_lease(struct log_db *log, span_t length)
{
	return WRITE(log->statements[LOG_LEASE], log->watermark.incarnation, (uint64_t)length.ns);
}

void
log_db_note_mark(struct log_db *log, const struct mark *m)
{
	if (m->replica != log->replica)
		return;
	log->watermark.own = m->incarnation;
	log->watermark.start = m->start;
}

static int
write_mark(struct log_db *log, const struct mark *m)
{
	log_db_note_mark(log, m);
	return WRITE(log->statements[LOG_MARK], m->replica, m->incarnation, m->start,
	             m->ballot.round, m->ballot.replica, m->slot, m->proof);
}

int
log_db_write_recovered(struct log_db *log, const struct px_recovered *r)
{
	int rc = write_ballot(log, r->promised);

	if (rc == SQLITE_OK)
		rc = WRITE(log->statements[LOG_CHOSEN], r->chosen);
	if (rc == SQLITE_OK)
		rc = WRITE(log->statements[LOG_TRIMMED], r->trimmed);
	if (rc == SQLITE_OK)
		rc = WRITE(log->statements[LOG_MISSING], r->damaged);
	/* This start's own grants are recorded under its incarnation, and may be shorter. */
	if (rc == SQLITE_OK && r->wait.ns > 0)
		rc = WRITE(log->statements[LOG_LEASE], r->incarnation - 1, (uint64_t)r->wait.ns);
	for (size_t i = 0; i < r->marks_n && rc == SQLITE_OK; i++)
		rc = write_mark(log, &r->marks[i]);
	for (size_t i = 0; i < r->entries_n && rc == SQLITE_OK; i++) {
		const struct log_entry *e = &r->entries[i];

		rc = write_entry(log, &(struct px_record){.slot = e->slot,
		                                          .ballot = e->ballot,
		                                          .origin = e->origin,
		                                          .before = e->before,
		                                          .payload = e->payload,
		                                          .checksum = e->checksum});
	}
	return rc;
}

int
log_db_write(struct log_db *log, const struct px_record *r)
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
		if (r->slot > log->watermark.slot)
			log->watermark.slot = r->slot;
		return SQLITE_OK;
	case PX_RECORD_LEASE:
		return write_lease(log, r->length);
	case PX_RECORD_MARK:
		return write_mark(log, &r->mark);
	}
	must(!"a kind of record");
	return SQLITE_MISUSE;
}

/* Deletes some of the rows at or below the base. They are ignored as soon as the base is written;
 * deleting in small steps keeps each transaction short. */
static int
trim_some(struct log_db *log)
{
	int rc = SQLITE_OK;

	log->more_to_delete = false;
	if (log->trim <= log->trimmed && !log->to_delete)
		return rc;
	if (log->trim > log->trimmed)
		rc = WRITE(log->statements[LOG_TRIMMED], log->trim);
	if (rc != SQLITE_OK)
		return rc;
	bind_number(log->statements[LOG_DELETE_ENTRIES], 1, log->trim);
	bind_number(log->statements[LOG_DELETE_ENTRIES], 2, TRIM_STEP);
	rc = sqlite_step(log->statements[LOG_DELETE_ENTRIES]);
	log->more_to_delete = sqlite3_changes(log->db.handle) == TRIM_STEP;
	return rc;
}

int
log_db_finish(struct log_db *log)
{
	int rc = SQLITE_OK;

	/* Entries are written in slot order: with this one every lost entry was replaced. */
	log->found_again = log->lost != 0 && (log->written >= log->lost || log->trim >= log->lost);
	if (log->found_again)
		rc = WRITE(log->statements[LOG_MISSING], 0);

	/* The rows of earlier incarnations' leases go once this one has run for longer than the
	 * longest of them. */
	log->leases_forgotten = log->old_leases && mono_reached(clock_now(), log->old_leases_end);
	if (rc == SQLITE_OK && log->leases_forgotten) {
		bind_number(log->statements[LOG_OLD_LEASES], 1, log->watermark.incarnation);
		rc = sqlite_step(log->statements[LOG_OLD_LEASES]);
	}

	if (rc == SQLITE_OK && log->chosen_up_to > log->chosen_written)
		rc = WRITE(log->statements[LOG_CHOSEN], log->chosen_up_to);
	return rc == SQLITE_OK ? trim_some(log) : rc;
}

void
log_db_written(struct log_db *log)
{
	log->chosen_written = log->chosen_up_to;
	log->trimmed = log->trim;
	log->to_delete = log->more_to_delete;
	if (log->found_again)
		log->lost = 0;
	if (log->leases_forgotten)
		log->old_leases = false;
	sqlite_update_wal(&log->db);
	log->watermark.wal = log->db.wal;
	watermark_write(&log->watermark_file, &log->watermark);
	log->durable = log->watermark;
}

enum work
log_db_tidy(struct log_db *log)
{
	enum work work;
	int rc;

	if (!log->to_delete)
		return WORK_DONE;
	rc = sqlite_begin(&log->db);
	work = sqlite_end(&log->db, rc == SQLITE_OK ? log_db_finish(log) : rc);
	if (work != WORK_DONE)
		return work == WORK_LATER || work == WORK_BUSY ? WORK_DONE : work;
	log_db_written(log);
	return log->to_delete ? WORK_MORE : WORK_DONE;
}
