#include "cell/store/log_db_write.h"

#include <string.h>

#include "cell/base/checksum.h"
#include "cell/base/must.h"
#include "cell/sys/clock.h"
#include "cell/paxos/ballot.h"

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
log_db_entry_sum(const struct log_entry *e)
{
	return LOG_DB_SUM_OF(e->slot, e->ballot.round, e->ballot.replica, e->origin.round,
	                     e->origin.replica, e->before.round, e->before.replica, e->checksum);
}

uint64_t
log_db_mark_sum(const struct mark *m)
{
	return LOG_DB_SUM_OF(m->replica, m->incarnation, m->start, m->ballot.round,
	                     m->ballot.replica, m->slot, m->proof);
}

uint64_t
log_db_owner_sum(const char *cell, uint8_t replica)
{
	return LOG_DB_SUM_OF(checksum(bytes_of(cell)), replica);
}

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

static int
write_ballot(struct log_db *log, struct ballot b)
{
	int rc = SQLITE_OK;

	for (int copy = 0; copy < 2 && rc == SQLITE_OK; copy++) {
		bind_number(log->statements[LOG_BALLOT + copy], 1, b.round);
		bind_number(log->statements[LOG_BALLOT + copy], 2, b.replica);
		bind_number(log->statements[LOG_BALLOT + copy], 3,
		            LOG_DB_SUM_OF(b.round, b.replica));
		rc = sqlite_step(log->statements[LOG_BALLOT + copy]);
	}
	log->watermark.ballot = ballot_max(log->watermark.ballot, b);
	return rc;
}

static int
write_entry(struct log_db *log, const struct px_record *r)
{
	struct log_entry e = {.slot = r->slot,
	                      .ballot = r->ballot,
	                      .origin = r->origin,
	                      .before = r->before,
	                      .checksum = r->checksum};
	sqlite3_stmt *s = log->statements[LOG_ENTRY];

	bind_number(s, 1, r->slot);
	bind_number(s, 2, r->ballot.round);
	bind_number(s, 3, r->ballot.replica);
	bind_number(s, 4, r->origin.round);
	bind_number(s, 5, r->origin.replica);
	bind_number(s, 6, r->before.round);
	bind_number(s, 7, r->before.replica);
	bind_number(s, 8, r->checksum);
	bind_number(s, 9, log_db_entry_sum(&e));
	must(sqlite3_bind_blob(s, 10, r->payload.len > 0 ? (const void *)r->payload.data : "",
	                       (int)r->payload.len, SQLITE_STATIC) == SQLITE_OK);
	log->written = r->slot;
	if (r->slot > log->watermark.slot)
		log->watermark.slot = r->slot;
	return sqlite_step(s);
}

static int
write_number(sqlite3_stmt *s, uint64_t number)
{
	bind_number(s, 1, number);
	bind_number(s, 2, LOG_DB_SUM_OF(number));
	return sqlite_step(s);
}

static int
write_lease(struct log_db *log, span_t length)
{
	uint64_t incarnation = log->watermark.incarnation;

	bind_number(log->statements[LOG_LEASE], 1, incarnation);
	bind_number(log->statements[LOG_LEASE], 2, (uint64_t)length.ns);
	bind_number(log->statements[LOG_LEASE], 3, LOG_DB_SUM_OF(incarnation, (uint64_t)length.ns));
	return sqlite_step(log->statements[LOG_LEASE]);
}

static int
write_mark(struct log_db *log, const struct mark *m)
{
	bind_number(log->statements[LOG_MARK], 1, m->replica);
	bind_number(log->statements[LOG_MARK], 2, m->incarnation);
	bind_number(log->statements[LOG_MARK], 3, m->start);
	bind_number(log->statements[LOG_MARK], 4, m->ballot.round);
	bind_number(log->statements[LOG_MARK], 5, m->ballot.replica);
	bind_number(log->statements[LOG_MARK], 6, m->slot);
	bind_number(log->statements[LOG_MARK], 7, m->proof);
	bind_number(log->statements[LOG_MARK], 8, log_db_mark_sum(m));
	return sqlite_step(log->statements[LOG_MARK]);
}

int
log_db_write_recovered(struct log_db *log, const struct px_recovered *r)
{
	int rc = write_ballot(log, r->promised);

	if (rc == SQLITE_OK)
		rc = write_number(log->statements[LOG_CHOSEN], r->chosen);
	if (rc == SQLITE_OK)
		rc = write_number(log->statements[LOG_TRIMMED], r->trimmed);
	if (rc == SQLITE_OK)
		rc = write_number(log->statements[LOG_MISSING], r->damaged);
	if (rc == SQLITE_OK && r->wait.ns > 0)
		rc = write_lease(log, r->wait);
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
		rc = write_number(log->statements[LOG_TRIMMED], log->trim);
	if (rc != SQLITE_OK)
		return rc;
	bind_number(log->statements[LOG_DELETE_ENTRIES], 1, log->trim);
	bind_number(log->statements[LOG_DELETE_ENTRIES], 2, TRIM_STEP);
	rc = sqlite_step(log->statements[LOG_DELETE_ENTRIES]);
	log->more_to_delete = sqlite3_changes(log->db.handle) == TRIM_STEP;
	return rc;
}

/* Deletes the rows of earlier incarnations' leases, once this incarnation has run for longer than
 * the longest of them. */
static int
forget_leases(struct log_db *log)
{
	log->leases_forgotten = log->old_leases && mono_reached(clock_now(), log->old_leases_end);
	if (!log->leases_forgotten)
		return SQLITE_OK;
	bind_number(log->statements[LOG_OLD_LEASES], 1, log->watermark.incarnation);
	return sqlite_step(log->statements[LOG_OLD_LEASES]);
}

/* Clears the row `missing`: entries are written in slot order, so with this one every lost entry
 * has been replaced. */
static int
forget_lost(struct log_db *log)
{
	log->found_again = log->lost != 0 && (log->written >= log->lost || log->trim >= log->lost);
	return log->found_again ? write_number(log->statements[LOG_MISSING], 0) : SQLITE_OK;
}

int
log_db_finish(struct log_db *log)
{
	int rc = forget_lost(log);

	if (rc == SQLITE_OK)
		rc = forget_leases(log);
	if (rc == SQLITE_OK && log->chosen_up_to > log->chosen_written)
		rc = write_number(log->statements[LOG_CHOSEN], log->chosen_up_to);
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
log_db_tidy(struct log_db *log, bool idle)
{
	enum work work = sqlite_checkpoint(&log->db, idle);
	int rc;

	if (work != WORK_DONE || !idle || !log->to_delete)
		return work;
	rc = sqlite_begin(&log->db);
	work = sqlite_end(&log->db, rc == SQLITE_OK ? log_db_finish(log) : rc);
	if (work != WORK_DONE)
		return work == WORK_LATER || work == WORK_BUSY ? WORK_DONE : work;
	log_db_written(log);
	return log->to_delete ? WORK_MORE : WORK_DONE;
}
