#include "cell/copy/copy_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/store/state_db.h"
#include "cell/store/store.h"
#include "cell/store/swap_in.h"
#include "cell/sys/file.h"

enum {
	STEP_PAGES = 256, /* pages copied at a time */
	STEPS_A_SYNC = 4,
	WHY = 256,
};

struct copy {
	TAILQ_ENTRY(copy) link;
	struct state_copier *copier;
	char *name;
	char path[PATH_MAX];
	sqlite3 *from, *to;
	uint64_t applied;
	enum rc rc;    /* RC_OK: the copy is complete */
	char why[WHY]; /* else the reason */
	state_copy_done *done;
	void *user;
};

/* ---- in the thread ---- */

static bool
refuse(struct copy *c, enum rc rc, const char *what)
{
	c->rc = rc;
	snprintf(c->why, sizeof c->why, "%s: %s", c->name, what);
	return false;
}

static bool
fail(struct copy *c, const char *what)
{
	return refuse(c, RC_IO, what);
}

static bool
fail_errno(struct copy *c, int rc)
{
	return rc == 0 || refuse(c, rc == -ENOSPC ? RC_NOSPC : RC_IO, strerror(-rc));
}

static bool
check_room(struct copy *c, const char *source)
{
	struct statvfs fs;
	struct stat st;

	if (stat(source, &st) < 0 || statvfs(source, &fs) < 0)
		return fail(c, strerror(errno));
	if ((uint64_t)fs.f_bavail * fs.f_frsize < (uint64_t)st.st_size + COPY_SPARE)
		return refuse(c, RC_NOSPC, "no room on the disk for a copy");
	return true;
}

/* Begins a read transaction: all reads see the file as of now, while the writer goes on. */
static bool
begin_reading(struct copy *c, const char *source)
{
	sqlite3_stmt *s = NULL;
	int rc;

	if (sqlite3_open_v2(source, &c->from, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) !=
	    SQLITE_OK)
		return fail(c, sqlite3_errmsg(c->from));
	sqlite3_busy_timeout(c->from, 1000);
	rc = sqlite3_exec(c->from, "BEGIN", NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(c->from, "SELECT applied FROM meta", -1, &s, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(s);
	if (rc == SQLITE_ROW)
		c->applied = (uint64_t)sqlite3_column_int64(s, 0);
	sqlite3_finalize(s);
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		return fail(c, sqlite3_errmsg(c->from)); /* finalizing repeats it */
	return c->applied > 0 || refuse(c, RC_NODATA, "there is nothing to copy yet");
}

/* No journal and no syncs by SQLite: an unfinished copy is discarded after a crash, and we sync it
 * ourselves. */
static bool
begin_writing(struct copy *c)
{
	int fd = open(c->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return fail(c, strerror(errno));
	close(fd);
	if (sqlite3_open_v2(c->path, &c->to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) ==
	        SQLITE_OK &&
	    sqlite3_exec(c->to, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF", NULL, NULL,
	                 NULL) == SQLITE_OK)
		return true;
	return fail(c, sqlite3_errmsg(c->to));
}

static bool
copy_pages(struct copy *c)
{
	sqlite3_backup *backup = sqlite3_backup_init(c->to, "main", c->from, "main");
	int rc = SQLITE_OK, synced = 0;

	if (backup == NULL)
		return fail(c, sqlite3_errmsg(c->to));
	for (int i = 1; rc == SQLITE_OK && synced == 0; i++) {
		if (atomic_load(&c->copier->giving_up))
			break;
		rc = sqlite3_backup_step(backup, STEP_PAGES);
		if (i % STEPS_A_SYNC == 0)
			synced = file_sync(c->path);
	}
	sqlite3_backup_finish(backup);
	if (synced < 0)
		return fail_errno(c, synced);
	if (rc == SQLITE_DONE)
		return true;
	return refuse(c, rc == SQLITE_FULL ? RC_NOSPC : RC_IO,
	              rc == SQLITE_OK ? "abandoned: the replica is stopping" : sqlite3_errstr(rc));
}

/* Takes the copy out of WAL mode, so that it is a single file. */
static bool
leave_wal(struct copy *c)
{
	return sqlite3_exec(c->to, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL) == SQLITE_OK ||
	       fail(c, sqlite3_errmsg(c->to));
}

static void
copy_in_thread(uv_work_t *work)
{
	struct copy *c = ((struct state_copier *)work->data)->running;
	const char *directory = c->copier->directory;
	char source[PATH_MAX];
	bool ok;

	snprintf(source, sizeof source, "%s/" STATE_DB_FILE, directory);
	snprintf(c->path, sizeof c->path, "%s/%s", directory, c->name);
	ok = fail_errno(c, swap_in_remove(directory, c->name)) && check_room(c, source) &&
	     begin_reading(c, source) && begin_writing(c) && copy_pages(c) && leave_wal(c);
	must(sqlite3_close(c->from) == SQLITE_OK);
	must(sqlite3_close(c->to) == SQLITE_OK);
	ok = ok && fail_errno(c, file_sync(c->path)) &&
	     fail_errno(c, file_sync_directory(directory));
	if (!ok)
		(void)swap_in_remove(directory, c->name);
}

/* ---- on the loop's thread ---- */

static void start_next(struct state_copier *c);

static void
finish(struct copy *c)
{
	c->done(c->user, c->rc, c->applied, c->why);
	free(c->name);
	free(c);
}

static void
on_copied(uv_work_t *work, int status)
{
	struct state_copier *c = work->data;
	struct copy *copy = c->running;

	(void)status;
	c->running = NULL;
	finish(copy);
	if (c->running == NULL)
		start_next(c);
	if (c->running == NULL && c->idle != NULL)
		c->idle(c->idle_user);
}

static void
start_next(struct state_copier *c)
{
	struct copy *copy = TAILQ_FIRST(&c->waiting);

	if (copy == NULL || c->running != NULL)
		return;
	TAILQ_REMOVE(&c->waiting, copy, link);
	c->running = copy;
	must(uv_queue_work(c->loop, &c->work, copy_in_thread, on_copied) == 0);
}

void
state_copy_init(struct state_copier *c, uv_loop_t *loop, const char *directory)
{
	*c = (struct state_copier){.directory = directory, .loop = loop};
	c->work.data = c;
	TAILQ_INIT(&c->waiting);
}

void
state_copy_add(struct state_copier *c, const char *name, state_copy_done *done, void *user)
{
	struct copy *copy = memory_zero(1, sizeof *copy);

	copy->copier = c;
	copy->name = bytes_to_text(bytes_of(name));
	copy->done = done;
	copy->user = user;
	TAILQ_INSERT_TAIL(&c->waiting, copy, link);
	start_next(c);
}

void
state_copy_stop(struct state_copier *c, void (*idle)(void *user), void *user)
{
	struct copy *copy;

	atomic_store(&c->giving_up, true);
	while ((copy = TAILQ_FIRST(&c->waiting)) != NULL) {
		TAILQ_REMOVE(&c->waiting, copy, link);
		fail(copy, "abandoned: the replica is stopping");
		finish(copy);
	}
	c->idle = idle;
	c->idle_user = user;
	if (c->running == NULL)
		idle(user);
}

/* ---- a copy that was received ---- */

bool
state_copy_ready(const char *directory, const char *cell, char *why, size_t why_size)
{
	struct tree *tree;
	int rc;

	if (!state_db_load_copy(directory, STORE_FETCHED, cell, &tree, why, why_size)) {
		(void)swap_in_remove(directory, STORE_FETCHED);
		return false;
	}
	tree_free(tree);
	rc = swap_in_ready(directory, STORE_FETCHED, STATE_DB_FILE);
	if (rc < 0)
		snprintf(why, why_size, "%s/" STORE_FETCHED ": %s", directory, strerror(-rc));
	return rc == 0;
}
