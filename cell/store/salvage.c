#include "cell/store/salvage.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell/base/must.h"
#include "cell/config/identity.h"
#include "cell/paxos/ballot.h"
#include "cell/store/dir_lock.h"
#include "cell/store/log_db.h"
#include "cell/store/swap_in.h"
#include "cell/sys/clock.h"
#include "cell/sys/file.h"

static const struct state_db not_open = {.watermark_file.fd = -1};

enum { COPY_PART = 1 << 16, BUSY_MS = 5000 };

static bool
fail(struct salvage *s, const char *path, const char *what)
{
	must(snprintf(s->why, sizeof s->why, "%s: %s", path, what) > 0); /* truncated if too long */
	return false;
}

/* Puts the source before a reason that a database gave, which names only the file. */
static bool
fail_in(struct salvage *s, const char *source)
{
	char what[sizeof s->why];

	snprintf(what, sizeof what, "%s", s->why);
	return fail(s, source, what);
}

static bool
salvage_begin(struct salvage *s, const char *source, const char *work)
{
	*s = (struct salvage){.state = not_open};
	if (strlen(work) + 32 > PATH_MAX || strlen(source) + 32 > PATH_MAX)
		return fail(s, source, strerror(ENAMETOOLONG));
	snprintf(s->work, sizeof s->work, "%s", work);
	return true;
}

/* ---- copies of files ---- */

static bool
signal_waits(void)
{
	sigset_t pending;

	sigemptyset(&pending);
	sigpending(&pending);
	return sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM) ||
	       sigismember(&pending, SIGHUP) || sigismember(&pending, SIGQUIT);
}

/* *reading: the error is one of the source. */
static int
copy_open(int from, int to, bool *reading)
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
		*reading = n < 0;
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

/* 0 or -errno, and *where: the path that it is about. */
static int
copy(const char *from, const char *to, const char **where)
{
	int in = open(from, O_RDONLY | O_CLOEXEC), out, rc;
	bool reading = false;

	*where = from;
	if (in < 0)
		return -errno;
	out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	rc = out < 0 ? -errno : copy_open(in, out, &reading);
	close(in);
	*where = reading ? from : to;
	if (out >= 0 && close(out) < 0 && rc == 0)
		rc = -errno;
	if (rc < 0 && out >= 0)
		unlink(to);
	return rc;
}

static bool
copy_to_work(struct salvage *s, const char *from, const char *name, bool needed)
{
	char to[PATH_MAX + 32];
	const char *where;
	struct stat st;
	int rc;

	if (stat(from, &st) < 0 && errno == ENOENT && !needed)
		return true;
	snprintf(to, sizeof to, "%s/%s", s->work, name);
	rc = copy(from, to, &where);
	if (rc < 0)
		return fail(s, where, strerror(-rc));
	if (st.st_mtime > s->written_s)
		s->written_s = st.st_mtime;
	return true;
}

/* SQLite writes files beside a database that it opens, so only copies are opened. Those that wait
 * to replace a database do so in the copy. */
static bool
copy_data(struct salvage *s, const char *source)
{
	static const char *const names[] = {
	    STATE_DB_FILE,  STATE_DB_FILE "-wal", STATE_DB_FILE SWAP_IN_READY,
	    LOG_DB_FILE,    LOG_DB_FILE "-wal",   LOG_DB_FILE SWAP_IN_READY,
	    WATERMARK_FILE,
	};
	char path[PATH_MAX];
	int rc;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(path, sizeof path, "%s/%s", source, names[i]);
		if (!copy_to_work(s, path, names[i], false))
			return false;
	}
	rc = swap_in(s->work, LOG_DB_FILE, false);
	if (rc == 0)
		rc = state_db_swap_in(s->work);
	return rc == 0 || fail(s, s->work, strerror(-rc));
}

/* ---- copies of databases in use ---- */

/* Copies a database into a file that was created empty before, with permissions for its owner
 * only. */
static bool
vacuum_into(struct salvage *s, sqlite3 *handle, const char *to)
{
	int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	char *sql = sqlite3_mprintf("VACUUM INTO %Q", to);
	bool ok;

	if (fd >= 0)
		close(fd);
	sqlite3_busy_timeout(handle, BUSY_MS);
	ok = sql != NULL && sqlite3_exec(handle, sql, NULL, NULL, NULL) == SQLITE_OK;
	if (!ok)
		must(snprintf(s->why, sizeof s->why, "cannot be copied to %s: %s", to,
		              sqlite3_errmsg(handle)) > 0);
	sqlite3_free(sql);
	return ok;
}

static bool
copy_running_file(struct salvage *s, const char *source, const char *name)
{
	char from[PATH_MAX], to[PATH_MAX + 32];
	sqlite3 *handle = NULL;
	bool ok;

	snprintf(from, sizeof from, "%s/%s", source, name);
	snprintf(to, sizeof to, "%s/%s", s->work, name);
	ok = sqlite3_open_v2(from, &handle, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK;
	if (ok)
		ok = vacuum_into(s, handle, to);
	else
		snprintf(s->why, sizeof s->why, "%s", sqlite3_errmsg(handle));
	sqlite3_close(handle);
	return ok || fail_in(s, from);
}

/* The log is copied first: entries trimmed from it by then are in the state, which is copied
 * later. */
static bool
copy_running(struct salvage *s, const char *source)
{
	return copy_running_file(s, source, LOG_DB_FILE) &&
	       copy_running_file(s, source, STATE_DB_FILE);
}

/* ---- loading ---- */

/* Applies the entries of the log that follow the state, up to the first that does not continue the
 * entry before it: that one was never chosen (paxos/px.h). */
static bool
roll_forward(struct salvage *s, const char *source, const struct px_recovered *log)
{
	struct ballot origin = tree_origin(s->tree);
	struct tree_outcome out = {0};
	char what[128];

	if (log->trimmed > tree_applied(s->tree)) {
		snprintf(what, sizeof what,
		         STATE_DB_FILE " ends at slot %" PRIu64 ", but " LOG_DB_FILE
		                       " begins behind slot %" PRIu64,
		         tree_applied(s->tree), log->trimmed);
		return fail(s, source, what);
	}
	for (size_t i = 0; i < log->entries_n; i++) {
		const struct log_entry *e = &log->entries[i];

		if (e->slot <= tree_applied(s->tree))
			continue;
		if (ballot_less(e->origin, origin) || !ballot_goes_on(e->before, origin))
			break;
		origin = e->origin;
		tree_apply(s->tree, e->slot, origin, e->payload, &out);
		s->from_log++;
	}
	tree_outcome_free(&out);
	s->damaged = log->damaged > tree_applied(s->tree) ? log->damaged : 0;
	return true;
}

static bool
add_log(struct salvage *s, const char *source, uint8_t replica)
{
	struct px_recovered recovered;
	struct log_db log;
	bool ok;

	if (!log_db_open(&log, s->work, s->cell, replica, s->why, sizeof s->why))
		return fail_in(s, source);
	if (log_db_recover(&log, tree_applied(s->tree), LOG_DB_ENTRIES, &recovered, s->why,
	                   sizeof s->why)) {
		ok = roll_forward(s, source, &recovered);
		log_db_recovered_free(&recovered);
	} else {
		ok = fail_in(s, source);
	}
	log_db_close(&log, true);
	return ok;
}

static bool
load(struct salvage *s, const char *source)
{
	return state_db_open(&s->state, s->work, s->cell, &s->tree, s->why, sizeof s->why) ||
	       fail_in(s, source);
}

/* A cell that never had a master has no state to restore. */
static bool
check_begun(struct salvage *s, const char *source)
{
	return tree_epoch(s->tree) > 0 || fail(s, source, "there is nothing in it yet");
}

/* ---- the sources ---- */

static bool
check_backup(struct salvage *s, const char *source)
{
	char wal[PATH_MAX];
	struct stat st;

	if (stat(source, &st) < 0)
		return fail(s, source, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return fail(s, source, "neither a backup nor a data directory");
	s->written_s = st.st_mtime;
	snprintf(wal, sizeof wal, "%s-wal", source);
	if (stat(wal, &st) == 0 && st.st_size > 0)
		return fail(s, wal, "a part of the state is in this file: give its directory");
	return true;
}

/* The cell of the file, which `source` stands for in messages. */
static bool
read_owner(struct salvage *s, const char *source, const char *directory, const char *name)
{
	if (!state_db_owner(directory, name, s->cell, sizeof s->cell, s->why, sizeof s->why))
		return fail_in(s, source);
	return cell_file_cell_name_valid(s->cell) || fail(s, source, "not a backup of a cell");
}

bool
salvage_backup(struct salvage *s, const char *source, const char *work)
{
	const char *name = source != NULL ? source : work;

	return salvage_begin(s, name, work) &&
	       (source == NULL ||
	        (check_backup(s, source) && copy_to_work(s, source, STATE_DB_FILE, true))) &&
	       read_owner(s, name, work, STATE_DB_FILE) && load(s, name) && check_begun(s, name);
}

bool
salvage_look(struct salvage *s, const char *source)
{
	char path[PATH_MAX], other[PATH_MAX], *directory, *name;

	if (!salvage_begin(s, source, "") || !check_backup(s, source))
		return false;
	snprintf(path, sizeof path, "%s", source);
	snprintf(other, sizeof other, "%s", source);
	directory = dirname(path);
	name = basename(other);
	if (!read_owner(s, source, directory, name))
		return false;
	if (!state_db_load_copy(directory, name, s->cell, &s->tree, s->why, sizeof s->why))
		return fail_in(s, source);
	return check_begun(s, source);
}

static bool
read_directory(struct salvage *s, const char *source,
               bool (*copy_it)(struct salvage *s, const char *source))
{
	struct identity identity;
	bool learner;
	bool ok = identity_read_replica(source, &identity, &learner, s->why, sizeof s->why);

	snprintf(s->cell, sizeof s->cell, "%s", identity.cell_file.name);
	ok = ok && copy_it(s, source) && load(s, source) && add_log(s, source, identity.replica) &&
	     check_begun(s, source);
	identity_forget(&identity);
	return ok;
}

bool
salvage_directory(struct salvage *s, const char *source, const char *work)
{
	struct dir_lock lock;
	bool ok;

	if (!salvage_begin(s, source, work) ||
	    !dir_lock_share(&lock, source, s->why, sizeof s->why))
		return false;
	ok = read_directory(s, source, copy_data);
	dir_lock_release(&lock);
	return ok;
}

bool
salvage_running(struct salvage *s, const char *source, const char *work)
{
	if (dir_lock_holder(source) <= 0)
		return salvage_directory(s, source, work);
	return salvage_begin(s, source, work) && read_directory(s, source, copy_running);
}

/* ---- writing ---- */

bool
salvage_write(struct salvage *s)
{
	static const char *const names[] = {LOG_DB_FILE, LOG_DB_FILE "-wal", LOG_DB_FILE "-shm",
	                                    WATERMARK_FILE};
	struct row_list rows = {0};
	const struct row_list *list = &rows;
	struct sqlite_db *db = &s->state.db;
	char path[PATH_MAX + 32];
	enum work work;
	int rc;

	if (!state_db_start(&s->state, s->work, s->cell, s->why, sizeof s->why))
		return false;
	tree_dirty_rows(s->tree, &rows);
	rc = sqlite_begin(db);
	if (rc == SQLITE_OK)
		rc = state_db_write(&s->state, &list, 1);
	work = sqlite_end(db, rc);
	row_list_free(&rows);
	if (work != WORK_DONE || state_db_close(&s->state, false) != WORK_DONE)
		return fail(s, s->work, s->state.db.why);
	s->state = not_open;

	/* Only the state is left, in one file. */
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(path, sizeof path, "%s/%s", s->work, names[i]);
		unlink(path);
	}
	snprintf(path, sizeof path, "%s/" STATE_DB_FILE "-wal", s->work);
	return access(path, F_OK) < 0 || fail(s, path, "SQLite did not remove the file");
}

void
salvage_end(struct salvage *s)
{
	state_db_close(&s->state, true);
	tree_free(s->tree);
	s->state = not_open;
	s->tree = NULL;
}

void
salvage_empty(const char *work)
{
	static const char *const names[] = {STATE_DB_FILE, STATE_DB_FILE SWAP_IN_READY, LOG_DB_FILE,
	                                    LOG_DB_FILE SWAP_IN_READY, WATERMARK_FILE};
	static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		for (size_t k = 0; k < sizeof suffixes / sizeof *suffixes; k++) {
			snprintf(path, sizeof path, "%s/%s%s", work, names[i], suffixes[k]);
			unlink(path);
		}
	}
}

int
salvage_clean(const char *work)
{
	salvage_empty(work);
	return rmdir(work) < 0 ? -errno : 0;
}

int
salvage_place(const char *work, const char *path)
{
	char from[PATH_MAX];
	const char *where; /* on the same disk in any case */

	if (snprintf(from, sizeof from, "%s/" STATE_DB_FILE, work) >= PATH_MAX)
		return -ENAMETOOLONG;
	return copy(from, path, &where);
}

/* ---- a new cell ---- */

static bool
become_new(struct salvage *s, struct restoration *to)
{
	snprintf(to->cell, sizeof to->cell, "%s", s->cell);
	to->applied = tree_applied(s->tree);
	to->from_log = s->from_log;
	to->damaged = s->damaged;
	to->written_s = s->written_s;
	to->sessions = tree_usage(s->tree).sessions;
	if (tree_restore(s->tree, clock_wall_ns()) != RC_OK) {
		snprintf(s->why, sizeof s->why, "cell %s: its counters can't grow any further",
		         s->cell);
		return false;
	}
	to->nodes = tree_usage(s->tree).nodes;
	to->bytes = tree_usage(s->tree).bytes;
	return true;
}

bool
restoration_prepare(const char *source, const char *work, struct restoration *restored, char *why,
                    size_t why_size)
{
	struct salvage s;
	struct stat st;
	bool ok = stat(source, &st) == 0 && S_ISDIR(st.st_mode)
	              ? salvage_directory(&s, source, work)
	              : salvage_backup(&s, source, work);

	*restored = (struct restoration){0};
	ok = ok && become_new(&s, restored) && salvage_write(&s);
	if (!ok)
		snprintf(why, why_size, "%s", s.why);
	salvage_end(&s);
	return ok;
}
