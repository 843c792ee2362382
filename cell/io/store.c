#include "cell/io/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/io/dirlock.h"
#include "cell/io/failed.h"
#include "cell/io/log.h"
#include "cell/io/logdb.h"
#include "cell/io/statedb.h"

enum {
	STATE_DELAY_MS = 200,       /* how long changes wait for more to share their transaction */
	STATE_HURRY = 4 << 20,      /* bytes that don't wait */
};

struct log_job {
	struct job job;
	uint64_t ticket;
	size_t n;
	struct px_record *records;
};

struct state_job {
	struct job job;
	uint64_t applied;
	struct row_list rows;
};

struct store {
	char *directory;
	struct dirlock lock;
	struct failed failed;
	struct logdb log;
	struct statedb state;
	struct worker log_worker, state_worker;
	atomic_bool broken;         /* nothing is written or acknowledged any more */
	pthread_mutex_t mutex;      /* of the next two */
	bool marked;
	char why[DATABASE_WHY];     /* what broke */

	uv_async_t *news;           /* NULL until store_start */
	struct store_callbacks callbacks;
	bool log_closed;            /* by a thread, but the store was not started */
	bool started, told_full, told_failed, closing;
	void (*closed)(void *user);
	void *closed_user;
};

/* ---- opening ---- */

/* The two files are parts of one story: together they hold every slot. */
static bool
check_together(const struct store *s, const struct tree *tree, const struct px_recovered *r,
               char *why, size_t why_size)
{
	uint64_t applied = tree_applied(tree);

	if (applied < r->trimmed) {
		snprintf(why, why_size,
		         "state.db is %s: it ends at slot %" PRIu64 ", but log.db begins "
		         "behind slot %" PRIu64,
		         s->state.db.handle ? "an old copy" : "missing", applied, r->trimmed);
		return false;
	}
	if (applied > logdb_last(r)) {
		snprintf(why, why_size,
		         "log.db is %s: it ends at slot %" PRIu64 ", but state.db at "
		         "%" PRIu64,
		         s->log.db.handle ? "an old copy" : "missing", logdb_last(r), applied);
		return false;
	}
	return true;
}

/* Reads and checks everything. Up to here, nothing was changed on the disk. */
static bool
open_databases(struct store *s, const char *cell, uint8_t replica, struct tree **tree,
               struct px_recovered *recovered, char *why, size_t why_size)
{
	if (!logdb_open(&s->log, s->directory, cell, replica, recovered, why, why_size))
		return false;
	if (statedb_open(&s->state, s->directory, cell, tree, why, why_size)) {
		if (check_together(s, *tree, recovered, why, why_size))
			return true;
		tree_free(*tree);
		*tree = NULL;
		statedb_close(&s->state, true);
	}
	logdb_recovered_free(recovered);
	logdb_close(&s->log, true);
	return false;
}

static bool
clear_mark(struct store *s, char *why, size_t why_size)
{
	int rc;

	if (!s->failed.earlier)
		return true;
	log_warn("%s: failed in an earlier boot (%s); its files were checked and are whole",
	         s->directory, s->failed.why);
	rc = failed_clear(&s->failed);
	if (rc == 0)
		return true;
	snprintf(why, why_size, "%s/" FAILED_FILE ": %s", s->directory, strerror(-rc));
	return false;
}

static bool
start_databases(struct store *s, const char *cell, uint8_t replica, struct px_recovered *recovered,
                char *why, size_t why_size)
{
	return clear_mark(s, why, why_size) &&
	       logdb_start(&s->log, s->directory, cell, replica, recovered, why, why_size) &&
	       statedb_start(&s->state, s->directory, cell, why, why_size);
}

static struct store *
store_new(const char *directory)
{
	struct store *s = memory_zero(1, sizeof *s);

	s->directory = bytes_to_text(bytes_of(directory));
	must(pthread_mutex_init(&s->mutex, NULL) == 0);
	return s;
}

static void
store_free(struct store *s)
{
	must(pthread_mutex_destroy(&s->mutex) == 0);
	free(s->directory);
	free(s);
}

static void init_workers(struct store *s);

static bool
open_locked(struct store *s, const char *cell, uint8_t replica, struct tree **tree,
            struct px_recovered *recovered, char *why, size_t why_size)
{
	if (!failed_open(&s->failed, s->directory, why, why_size))
		return false;
	if (open_databases(s, cell, replica, tree, recovered, why, why_size)) {
		if (start_databases(s, cell, replica, recovered, why, why_size)) {
			if (recovered->chosen < tree_applied(*tree))
				recovered->chosen = tree_applied(*tree);
			return true;
		}
		if (s->log.db.io_failed || s->state.db.io_failed)
			failed_mark(&s->failed, why);
		tree_free(*tree);
		*tree = NULL;
		logdb_recovered_free(recovered);
		statedb_close(&s->state, true);
		logdb_close(&s->log, true);
	}
	failed_close(&s->failed);
	return false;
}

struct store *
store_open(const char *directory, const char *cell, uint8_t replica, struct tree **tree,
           struct px_recovered *recovered, char *why, size_t why_size)
{
	struct store *s = store_new(directory);

	if (dirlock_take(&s->lock, directory, why, why_size)) {
		if (open_locked(s, cell, replica, tree, recovered, why, why_size)) {
			init_workers(s);
			return s;
		}
		dirlock_release(&s->lock);
	}
	store_free(s);
	return NULL;
}

void
store_recovered_free(struct px_recovered *recovered)
{
	logdb_recovered_free(recovered);
}

/* ---- in the workers' threads ---- */

static void
mark_failed(struct store *s, const char *why)
{
	failed_mark(&s->failed, why);
	must(pthread_mutex_lock(&s->mutex) == 0);
	snprintf(s->why, sizeof s->why, "%s", why);
	s->marked = true;
	must(pthread_mutex_unlock(&s->mutex) == 0);
	must(uv_async_send(s->news) == 0);
}

static void
log_failed(void *user)
{
	struct store *s = user;

	mark_failed(s, s->log.db.why);
}

static void
state_failed(void *user)
{
	struct store *s = user;

	mark_failed(s, s->state.db.why);
}

static enum work
run_log(void *user, const struct job_list *batch)
{
	struct store *s = user;
	struct job *job;
	enum work work;
	int rc = database_begin(&s->log.db);

	TAILQ_FOREACH(job, batch, link) {
		const struct log_job *l = (const struct log_job *)job;

		for (size_t i = 0; i < l->n && rc == SQLITE_OK; i++)
			rc = logdb_write(&s->log, &l->records[i]);
	}
	work = database_end(&s->log.db, rc == SQLITE_OK ? logdb_finish(&s->log) : rc);
	if (work == WORK_DONE)
		logdb_written(&s->log);
	return work;
}

static enum work
tidy_log(void *user, bool idle)
{
	return logdb_tidy(&((struct store *)user)->log, idle);
}

static void
finish_log(void *user)
{
	struct store *s = user;

	if (logdb_close(&s->log, atomic_load(&s->broken)) == WORK_FAILED &&
	    !atomic_exchange(&s->broken, true))
		log_failed(s);
}

static enum work
run_state(void *user, const struct job_list *batch)
{
	struct store *s = user;
	const struct row_list **lists = NULL;
	size_t n = 0, room = 0;
	struct job *job;
	enum work work;
	int rc;

	TAILQ_FOREACH(job, batch, link) {
		ARRAY_ROOM(lists, n, room);
		lists[n++] = &((struct state_job *)job)->rows;
	}
	rc = database_begin(&s->state.db);
	if (rc == SQLITE_OK)
		rc = statedb_write(&s->state, lists, n);
	work = database_end(&s->state.db, rc);
	free(lists);
	return work;
}

static enum work
tidy_state(void *user, bool idle)
{
	return database_checkpoint(&((struct store *)user)->state.db, idle);
}

static void
finish_state(void *user)
{
	struct store *s = user;

	if (statedb_close(&s->state, atomic_load(&s->broken)) == WORK_FAILED &&
	    !atomic_exchange(&s->broken, true))
		state_failed(s);
}

static void
wake_loop(void *user)
{
	must(uv_async_send(((struct store *)user)->news) == 0);
}

static const struct worker_ops log_ops = {run_log, tidy_log, finish_log, log_failed, wake_loop};
static const struct worker_ops state_ops = {run_state, tidy_state, finish_state, state_failed,
                                            wake_loop};

static void
init_workers(struct store *s)
{
	worker_init(&s->log_worker, "log.db", &log_ops, s, &s->broken);
	worker_init(&s->state_worker, "state.db", &state_ops, s, &s->broken);
	s->state_worker.delay_ms = STATE_DELAY_MS;
	s->state_worker.hurry = STATE_HURRY;
}

/* ---- on the loop's thread ---- */

static void
free_log_jobs(struct job_list *jobs)
{
	struct job *job;

	while ((job = TAILQ_FIRST(jobs)) != NULL) {
		TAILQ_REMOVE(jobs, job, link);
		free(job);
	}
}

static void
free_state_jobs(struct job_list *jobs)
{
	struct job *job;

	while ((job = TAILQ_FIRST(jobs)) != NULL) {
		TAILQ_REMOVE(jobs, job, link);
		row_list_free(&((struct state_job *)job)->rows);
		free(job);
	}
}

static void
tell_log(struct store *s, struct job_list *done)
{
	struct job *job;

	TAILQ_FOREACH(job, done, link) {
		if (!atomic_load(&s->broken))
			s->callbacks.persisted(s->callbacks.user, ((struct log_job *)job)->ticket);
	}
	free_log_jobs(done);
}

static void
tell_state(struct store *s, struct job_list *done)
{
	struct state_job *last = (struct state_job *)TAILQ_LAST(done, job_list);

	if (last != NULL && !atomic_load(&s->broken))
		s->callbacks.saved(s->callbacks.user, last->applied);
	free_state_jobs(done);
}

static void
tell_failed(struct store *s)
{
	bool marked;

	must(pthread_mutex_lock(&s->mutex) == 0);
	marked = s->marked;
	must(pthread_mutex_unlock(&s->mutex) == 0);
	if (!marked || s->told_failed)
		return;
	s->told_failed = true;
	s->callbacks.failed(s->callbacks.user, s->why);
}

static void
tell_full(struct store *s, bool full)
{
	if (s->told_full == full || atomic_load(&s->broken))
		return;
	s->told_full = full;
	s->callbacks.full(s->callbacks.user, full);
}

static void
after_close(struct store *s)
{
	void (*closed)(void *user) = s->closed;
	void *user = s->closed_user;
	struct job_list rest;

	worker_fini(&s->log_worker, &rest);
	free_log_jobs(&rest);
	worker_fini(&s->state_worker, &rest);
	free_state_jobs(&rest);
	failed_close(&s->failed);
	dirlock_release(&s->lock);
	store_free(s);
	closed(user);
}

static void
on_handle_closed(uv_handle_t *handle)
{
	struct store *s = handle->data;

	free(handle);
	if (s != NULL)
		after_close(s);
}

static void
on_news(uv_async_t *handle)
{
	struct store *s = handle->data;
	struct worker_news log, state;

	worker_collect(&s->log_worker, &log);
	worker_collect(&s->state_worker, &state);
	tell_failed(s);
	tell_full(s, log.later || state.later);
	tell_log(s, &log.done);
	tell_state(s, &state.done);
	if (!s->closing || !log.exited || !state.exited)
		return;
	s->closing = false;
	worker_join(&s->log_worker);
	worker_join(&s->state_worker);
	uv_close((uv_handle_t *)s->news, on_handle_closed);
}

/* Both threads, or none: one that runs alone has had no job, and ends at once. */
static int
start_workers(struct store *s)
{
	int rc = worker_start(&s->log_worker);

	if (rc < 0)
		return rc;
	rc = worker_start(&s->state_worker);
	if (rc < 0) {
		worker_finish(&s->log_worker);
		worker_join(&s->log_worker);
		s->log_closed = true;
	}
	return rc;
}

int
store_start(struct store *s, uv_loop_t *loop, const struct store_callbacks *callbacks)
{
	int rc;

	must(!s->started && s->news == NULL);
	s->news = memory_zero(1, sizeof *s->news);
	rc = uv_async_init(loop, s->news, on_news);
	if (rc < 0) {
		free(s->news);
		s->news = NULL;
		return rc;
	}
	s->news->data = s;
	s->callbacks = *callbacks;
	rc = start_workers(s);
	if (rc == 0) {
		s->started = true;
		return 0;
	}
	s->news->data = NULL; /* the store may be closed before its handle is */
	uv_close((uv_handle_t *)s->news, on_handle_closed);
	s->news = NULL;
	return rc;
}

void
store_log(struct store *s, uint64_t ticket, const struct px_record *records, size_t n)
{
	struct log_job *job;
	size_t payloads = 0, head = sizeof *job + n * sizeof *records;
	uint8_t *at;

	for (size_t i = 0; i < n; i++)
		payloads += records[i].payload.len;
	job = memory_zero(1, head + payloads);
	job->job.size = head + payloads;
	job->ticket = ticket;
	job->n = n;
	job->records = (struct px_record *)(job + 1);
	at = (uint8_t *)job + head;
	for (size_t i = 0; i < n; i++) {
		job->records[i] = records[i];
		job->records[i].payload.data = at;
		if (records[i].payload.len > 0)
			memcpy(at, records[i].payload.data, records[i].payload.len);
		at += records[i].payload.len;
	}
	worker_put(&s->log_worker, &job->job);
}

static size_t
rows_size(const struct row_list *rows)
{
	size_t size = rows->n * sizeof *rows->rows;

	for (size_t i = 0; i < rows->n; i++) {
		const struct row_table_info *info = row_table_info(rows->rows[i].table);

		for (int c = 0; c < info->columns; c++)
			size += rows->rows[i].values[c].bytes.len;
	}
	return size;
}

void
store_state(struct store *s, uint64_t applied, struct row_list *rows)
{
	struct state_job *job = memory_zero(1, sizeof *job);

	job->applied = applied;
	job->rows = *rows;
	job->job.size = sizeof *job + rows_size(rows);
	*rows = (struct row_list){0};
	worker_put(&s->state_worker, &job->job);
}

size_t
store_state_queued(struct store *s)
{
	return worker_size(&s->state_worker);
}

void
store_close(struct store *s, void (*closed)(void *user), void *user)
{
	must(s->closed == NULL && closed != NULL);
	s->closed = closed;
	s->closed_user = user;
	if (!s->started) {
		if (statedb_close(&s->state, false) == WORK_FAILED)
			failed_mark(&s->failed, s->state.db.why);
		if (!s->log_closed && logdb_close(&s->log, false) == WORK_FAILED)
			failed_mark(&s->failed, s->log.db.why);
		after_close(s);
		return;
	}
	s->closing = true;
	worker_finish(&s->log_worker);
	worker_finish(&s->state_worker);
	wake_loop(s); /* threads that a failure has ended already have nothing more to tell */
}
