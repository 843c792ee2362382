#include "cell/io/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell/base/must.h"
#include "cell/io/clock.h"
#include "cell/io/dirlock.h"
#include "cell/io/file.h"
#include "cell/io/identity.h"
#include "cell/io/logdb.h"
#include "cell/io/statedb.h"
#include "cell/paxos/ballot.h"
#include "cell/wire/codec.h"

/* By so much every counter grows: at a million a second an old cell needs twelve days to catch up
 * with a copy, and the copies of copies have room for eight million more. */
static const uint64_t jump = 1ull << 40;

enum { COPY_PART = 1 << 16 };

struct restoring {
	const char *source, *work;
	struct restored *restored;
	char *why;
	size_t why_size;
	struct statedb state;
	struct tree *tree;
};

static bool
fail(struct restoring *r, const char *path, const char *what)
{
	snprintf(r->why, r->why_size, "%s: %s", path, what);
	return false;
}

/* What the databases say names their files only. */
static bool
fail_in_source(struct restoring *r)
{
	char what[DATABASE_WHY * 2];

	snprintf(what, sizeof what, "%s", r->why);
	return fail(r, r->source, what);
}

/* ---- copies: the source is never opened by SQLite, which would write beside it ---- */

static bool
signal_waits(void)
{
	sigset_t pending;

	sigemptyset(&pending);
	sigpending(&pending);
	return sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM) ||
	       sigismember(&pending, SIGHUP) || sigismember(&pending, SIGQUIT);
}

static int
copy_open(int from, int to)
{
	uint8_t part[COPY_PART];
	off_t at = 0;

	for (;;) {
		ssize_t n = pread(from, part, sizeof part, at);
		int rc;

		if (signal_waits())
			return -EINTR;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return fsync(to) < 0 ? -errno : 0;
		rc = file_write_at(to, (struct bytes){part, (size_t)n}, at);
		if (rc < 0)
			return rc;
		at += n;
	}
}

static int
copy(const char *from, const char *to)
{
	int in = open(from, O_RDONLY | O_CLOEXEC), out, rc;

	if (in < 0)
		return -errno;
	out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	rc = out < 0 ? -errno : copy_open(in, out);
	close(in);
	if (out >= 0 && close(out) < 0 && rc == 0)
		rc = -errno;
	if (rc < 0 && out >= 0)
		unlink(to);
	return rc;
}

static bool
copy_to_work(struct restoring *r, const char *from, const char *name, bool needed)
{
	char to[PATH_MAX];
	struct stat st;
	int rc;

	if (stat(from, &st) < 0 && errno == ENOENT && !needed)
		return true;
	snprintf(to, sizeof to, "%s/%s", r->work, name);
	rc = copy(from, to);
	if (rc < 0)
		return fail(r, from, strerror(-rc));
	if (st.st_mtime > r->restored->written_s)
		r->restored->written_s = st.st_mtime;
	return true;
}

static bool
copy_backup(struct restoring *r)
{
	char wal[PATH_MAX];
	struct stat st;

	snprintf(wal, sizeof wal, "%s-wal", r->source);
	if (stat(wal, &st) == 0 && st.st_size > 0)
		return fail(r, wal, "a part of the state is in this file: name the directory");
	return copy_to_work(r, r->source, STATEDB_FILE, true);
}

static bool
copy_data(struct restoring *r)
{
	static const char *const names[] = {STATEDB_FILE, STATEDB_FILE "-wal", LOGDB_FILE,
	                                    LOGDB_FILE "-wal", MARKS_FILE};
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(path, sizeof path, "%s/%s", r->source, names[i]);
		if (!copy_to_work(r, path, names[i], false))
			return false;
	}
	return true;
}

/* ---- the state that was ---- */

/* The log goes on behind the state; an entry of an older origin behind one of a newer was never
 * chosen (paxos/px.h). */
static bool
roll_forward(struct restoring *r, const struct px_recovered *log)
{
	struct ballot origin = tree_origin(r->tree);
	struct tree_outcome out = {0};
	char what[128];

	if (log->trimmed > tree_applied(r->tree)) {
		snprintf(what, sizeof what,
		         STATEDB_FILE " ends at slot %" PRIu64 ", but " LOGDB_FILE
		         " begins behind slot %" PRIu64,
		         tree_applied(r->tree), log->trimmed);
		return fail(r, r->source, what);
	}
	for (size_t i = 0; i < log->entries_n; i++) {
		const struct log_entry *e = &log->entries[i];

		if (e->slot <= tree_applied(r->tree))
			continue;
		if (ballot_less(e->origin, origin))
			break;
		origin = e->origin;
		tree_apply(r->tree, e->slot, origin, e->payload, &out);
		r->restored->from_log++;
	}
	tree_outcome_free(&out);
	r->restored->damaged = log->damaged > tree_applied(r->tree) ? log->damaged : 0;
	return true;
}

static bool
add_log(struct restoring *r, const struct identity *identity)
{
	struct px_recovered recovered;
	struct logdb log;
	bool ok;

	if (!logdb_open(&log, r->work, identity->conf.name, identity->replica, &recovered, r->why,
	                r->why_size))
		return fail_in_source(r);
	ok = roll_forward(r, &recovered);
	logdb_recovered_free(&recovered);
	logdb_close(&log, true);
	return ok;
}

static bool
open_state(struct restoring *r, const char *cell)
{
	if (statedb_open(&r->state, r->work, cell, &r->tree, r->why, r->why_size)) {
		snprintf(r->restored->cell, sizeof r->restored->cell, "%s", cell);
		return true;
	}
	return fail_in_source(r);
}

static bool
read_backup(struct restoring *r)
{
	char cell[LIMIT_CELL_NAME + 1];

	if (!copy_backup(r))
		return false;
	if (!statedb_owner(r->work, cell, sizeof cell, r->why, r->why_size))
		return fail_in_source(r);
	if (!conf_cell_name_valid(cell))
		return fail(r, r->source, "not a backup of a cell");
	return open_state(r, cell);
}

static bool
read_data_locked(struct restoring *r)
{
	struct identity identity;
	bool ok = identity_read(r->source, &identity, r->why, r->why_size);

	ok = ok && copy_data(r) && open_state(r, identity.conf.name) && add_log(r, &identity);
	identity_forget(&identity);
	return ok;
}

static bool
read_data(struct restoring *r)
{
	struct dirlock lock;
	bool ok;

	if (!dirlock_take(&lock, r->source, r->why, r->why_size))
		return false;
	ok = read_data_locked(r);
	dirlock_release(&lock);
	return ok;
}

static bool
read_source(struct restoring *r)
{
	struct stat st;

	if (stat(r->source, &st) < 0)
		return fail(r, r->source, strerror(errno));
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return fail(r, r->source, "neither a backup nor a data directory");
	return S_ISDIR(st.st_mode) ? read_data(r) : read_backup(r);
}

/* ---- the state of the new cell ---- */

/* Like an entry of the log; of no ballot, so that whatever the new cell proposes is newer. */
static enum rc
apply_restore(struct tree *tree)
{
	struct buffer op = BUFFER(LIMIT_ENTRY), commands = op, payload = op;
	struct op restore = {.code = OP_restore, .restore = {.jump = jump}};
	struct command command = {.stamp_ns = clock_wall_ns()};
	struct tree_outcome out = {0};
	enum rc rc;

	wire_put_op(&op, &restore);
	command.op = buffer_view(&op);
	wire_put_command(&commands, &command);
	wire_put_entry(&payload, &(struct entry){.commands = {buffer_view(&commands), 1}});
	must(!op.failed && !commands.failed && !payload.failed);
	must(tree_apply(tree, tree_applied(tree) + 1, BALLOT_NONE, buffer_view(&payload), &out) ==
	     RC_OK);
	rc = out.answers[0].rc;
	tree_outcome_free(&out);
	buffer_free(&op);
	buffer_free(&commands);
	buffer_free(&payload);
	return rc;
}

static bool
become_new(struct restoring *r)
{
	struct restored *to = r->restored;

	if (tree_epoch(r->tree) == 0)
		return fail(r, r->source, "there is nothing in it: its cell never had a master");
	to->applied = tree_applied(r->tree);
	to->sessions = tree_usage(r->tree).sessions;
	if (apply_restore(r->tree) != RC_OK)
		return fail(r, r->source, "its counters are at their end");
	to->nodes = tree_usage(r->tree).nodes;
	to->bytes = tree_usage(r->tree).bytes;
	return true;
}

static bool
write_state(struct restoring *r)
{
	struct row_list rows = {0};
	const struct row_list *list = &rows;
	struct database *db = &r->state.db;
	enum work work;
	int rc;

	if (!statedb_start(&r->state, r->work, r->restored->cell, r->why, r->why_size))
		return false;
	tree_changes(r->tree, &rows);
	rc = database_begin(db);
	if (rc == SQLITE_OK)
		rc = statedb_write(&r->state, &list, 1);
	work = database_end(db, rc);
	row_list_free(&rows);
	return work == WORK_DONE || fail(r, r->work, db->why);
}

/* Only the state is left, in one file. */
static bool
finish(struct restoring *r)
{
	static const char *const names[] = {LOGDB_FILE, LOGDB_FILE "-wal", LOGDB_FILE "-shm",
	                                    MARKS_FILE};
	char path[PATH_MAX];

	if (statedb_close(&r->state, false) != WORK_DONE)
		return fail(r, r->work, r->state.db.why);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(path, sizeof path, "%s/%s", r->work, names[i]);
		unlink(path);
	}
	snprintf(path, sizeof path, "%s/" STATEDB_FILE "-wal", r->work);
	return access(path, F_OK) < 0 || fail(r, path, "is still there");
}

bool
restore_prepare(const char *source, const char *work, struct restored *restored, char *why,
                size_t why_size)
{
	struct restoring r = {.source = source,
	                      .work = work,
	                      .restored = restored,
	                      .why = why,
	                      .why_size = why_size};
	bool ok;

	*restored = (struct restored){0};
	if (strlen(work) + 32 > PATH_MAX || strlen(source) + 32 > PATH_MAX)
		return fail(&r, "restore", strerror(ENAMETOOLONG));
	ok = read_source(&r) && become_new(&r) && write_state(&r);
	if (ok)
		ok = finish(&r);
	else
		statedb_close(&r.state, true);
	tree_free(r.tree);
	return ok;
}

int
restore_place(const char *work, const char *path)
{
	char from[PATH_MAX];

	snprintf(from, sizeof from, "%s/" STATEDB_FILE, work);
	return copy(from, path);
}
