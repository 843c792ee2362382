#include "cell/io/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/io/copier.h"
#include "cell/io/files.h"
#include "cell/io/install.h"
#include "cell/sys/log.h"
#include "cell/io/reserve.h"
#include "cell/io/watch.h"

enum {
	STATE_DELAY_MS = 200,       /* how long changes wait for more to share their transaction */
	STATE_HURRY = 4 << 20,      /* bytes that don't wait */
	UPKEEP_MS = 1000,
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
	struct files files;
	struct reserve reserve;
	struct watch watch;
	struct copier copier;
	struct worker log_worker, state_worker;
	bool log_busy, state_busy;  /* of the workers: told that somebody is in the way */
	atomic_bool broken;         /* nothing is written or acknowledged any more */
	pthread_mutex_t mutex;      /* of the next two */
	bool stopped;
	char why[DATABASE_WHY];     /* what broke */

	uv_async_t *news;           /* NULL until store_start */
	uv_timer_t upkeep;
	uv_work_t taking;           /* the reserve is being made again */
	bool taking_runs;
	struct store_callbacks callbacks;
	bool log_closed;            /* by a thread, but the store was not started */
	bool started, told_full, told_failed, closing, copier_idle;
	void (*closed)(void *user);
	void *closed_user;
};

/* ---- opening ---- */

static void init_workers(struct store *s);

static void
store_free(struct store *s)
{
	must(pthread_mutex_destroy(&s->mutex) == 0);
	reserve_fini(&s->reserve);
	free(s);
}

struct store *
store_open(const char *directory, const char *cell, uint8_t replica, bool others,
           struct tree **tree, struct px_recovered *recovered, char *why, size_t why_size)
{
	struct store *s = memory_zero(1, sizeof *s);
	bool ok;

	must(pthread_mutex_init(&s->mutex, NULL) == 0);
	reserve_init(&s->reserve, directory);
	do {
		ok = files_open(&s->files, directory, cell, replica, others, tree, recovered, why,
		                why_size);
		/* Once: then there is none any more. */
	} while (!ok && s->files.locked && reserve_give_up_if_full(&s->reserve));
	if (!ok) {
		store_free(s);
		return NULL;
	}
	(void)reserve_take(&s->reserve);
	init_workers(s);
	return s;
}

void
store_recovered_free(struct px_recovered *recovered)
{
	logdb_recovered_free(recovered);
}

bool
store_snapshot_ready(const char *directory, const char *cell, char *why, size_t why_size)
{
	int rc;

	if (!statedb_check_copy(directory, STORE_SNAPSHOT, cell, why, why_size)) {
		(void)install_remove(directory, STORE_SNAPSHOT);
		return false;
	}
	rc = install_ready(directory, STORE_SNAPSHOT, "state.db");
	if (rc < 0)
		snprintf(why, why_size, "%s/" STORE_SNAPSHOT ": %s", directory, strerror(-rc));
	return rc == 0;
}

int
store_set_state_aside(const char *directory)
{
	return install_set_aside(directory, "state.db");
}

/* ---- in the workers' threads ---- */

/* The first one that sets `broken` says why. */
static void
stop_with(struct store *s, const char *why)
{
	must(pthread_mutex_lock(&s->mutex) == 0);
	snprintf(s->why, sizeof s->why, "%s", why);
	s->stopped = true;
	must(pthread_mutex_unlock(&s->mutex) == 0);
	must(uv_async_send(s->news) == 0);
}

/* A damaged file is no word against the disk: the next start looks at it. */
static void
database_failed(struct store *s, const struct database *db)
{
	if (!db->damaged)
		failed_mark(&s->files.failed, db->why);
	stop_with(s, db->why);
}

static void
log_failed(void *user)
{
	struct store *s = user;

	database_failed(s, &s->files.log.db);
}

static void
state_failed(void *user)
{
	struct store *s = user;

	database_failed(s, &s->files.state.db);
}

/* Runs it, with the reserve's room if there is no other. */
static enum work
run_with_reserve(struct store *s, const struct job_list *batch,
                 enum work (*run)(struct store *s, const struct job_list *batch),
                 const struct database *db, bool *was_busy)
{
	enum work work = run(s, batch);

	if (work == WORK_LATER && reserve_give_up(&s->reserve)) {
		must(uv_async_send(s->news) == 0);
		work = run(s, batch);
	}
	if (work == WORK_BUSY && !*was_busy)
		log_warn("%s: another program keeps it locked: %s", s->files.directory, db->why);
	*was_busy = work == WORK_BUSY;
	return work;
}

static enum work
write_log(struct store *s, const struct job_list *batch)
{
	struct job *job;
	enum work work;
	int rc = database_begin(&s->files.log.db);

	TAILQ_FOREACH(job, batch, link) {
		const struct log_job *l = (const struct log_job *)job;

		for (size_t i = 0; i < l->n && rc == SQLITE_OK; i++)
			rc = logdb_write(&s->files.log, &l->records[i]);
	}
	work = database_end(&s->files.log.db, rc == SQLITE_OK ? logdb_finish(&s->files.log) : rc);
	if (work == WORK_DONE)
		logdb_written(&s->files.log);
	return work;
}

static enum work
run_log(void *user, const struct job_list *batch)
{
	struct store *s = user;

	return run_with_reserve(s, batch, write_log, &s->files.log.db, &s->log_busy);
}

static enum work
tidy_log(void *user, bool idle)
{
	return logdb_tidy(&((struct store *)user)->files.log, idle);
}

static void
finish_log(void *user)
{
	struct store *s = user;

	if (logdb_close(&s->files.log, atomic_load(&s->broken)) == WORK_FAILED &&
	    !atomic_exchange(&s->broken, true))
		log_failed(s);
}

static enum work
write_state(struct store *s, const struct job_list *batch)
{
	const struct row_list **lists = NULL;
	size_t n = 0, room = 0;
	struct job *job;
	enum work work;
	int rc;

	TAILQ_FOREACH(job, batch, link) {
		ARRAY_ROOM(lists, n, room);
		lists[n++] = &((struct state_job *)job)->rows;
	}
	rc = database_begin(&s->files.state.db);
	if (rc == SQLITE_OK)
		rc = statedb_write(&s->files.state, lists, n);
	work = database_end(&s->files.state.db, rc);
	if (work == WORK_DONE)
		statedb_written(&s->files.state);
	free(lists);
	return work;
}

static enum work
run_state(void *user, const struct job_list *batch)
{
	struct store *s = user;

	return run_with_reserve(s, batch, write_state, &s->files.state.db, &s->state_busy);
}

static enum work
tidy_state(void *user, bool idle)
{
	return database_checkpoint(&((struct store *)user)->files.state.db, idle);
}

static void
finish_state(void *user)
{
	struct store *s = user;

	if (statedb_close(&s->files.state, atomic_load(&s->broken)) == WORK_FAILED &&
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
	bool stopped;

	must(pthread_mutex_lock(&s->mutex) == 0);
	stopped = s->stopped;
	must(pthread_mutex_unlock(&s->mutex) == 0);
	if (!stopped || s->told_failed)
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
	files_close(&s->files);
	store_free(s);
	closed(user);
}

static void
on_news_closed(uv_handle_t *handle)
{
	free(handle);
}

static void
on_upkeep_closed(uv_handle_t *handle)
{
	after_close(handle->data);
}

static void
on_news(uv_async_t *handle)
{
	struct store *s = handle->data;
	struct worker_news log, state;

	worker_collect(&s->log_worker, &log);
	worker_collect(&s->state_worker, &state);
	tell_failed(s);
	tell_full(s, log.later || state.later || reserve_gone(&s->reserve));
	tell_log(s, &log.done);
	tell_state(s, &state.done);
	if (!s->closing || !s->copier_idle || s->taking_runs || !log.exited || !state.exited)
		return;
	s->closing = false;
	worker_join(&s->log_worker);
	worker_join(&s->state_worker);
	uv_close((uv_handle_t *)s->news, on_news_closed);
	uv_close((uv_handle_t *)&s->upkeep, on_upkeep_closed);
}

/* ---- upkeep: once a second ---- */

static void
take_in_thread(uv_work_t *work)
{
	(void)reserve_take(&((struct store *)work->data)->reserve);
}

static void
on_taken(uv_work_t *work, int status)
{
	struct store *s = work->data;

	(void)status;
	s->taking_runs = false;
	must(uv_async_send(s->news) == 0);
}

static void
on_upkeep(uv_timer_t *timer)
{
	struct store *s = timer->data;
	char why[DATABASE_WHY];

	if (atomic_load(&s->broken) || s->closing)
		return;
	if (!watch_check(&s->watch, why, sizeof why)) {
		if (!atomic_exchange(&s->broken, true))
			stop_with(s, why);
		return;
	}
	if (!reserve_gone(&s->reserve) || s->taking_runs)
		return;
	s->taking_runs = true;
	s->taking.data = s;
	must(uv_queue_work(timer->loop, &s->taking, take_in_thread, on_taken) == 0);
}

static void
start_upkeep(struct store *s, uv_loop_t *loop)
{
	watch_begin(&s->watch, s->files.directory);
	must(uv_timer_init(loop, &s->upkeep) == 0);
	s->upkeep.data = s;
	must(uv_timer_start(&s->upkeep, on_upkeep, UPKEEP_MS, UPKEEP_MS) == 0);
	if (reserve_gone(&s->reserve))
		must(uv_async_send(s->news) == 0);
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
	copier_init(&s->copier, loop, s->files.directory, "state.db");
	rc = start_workers(s);
	if (rc == 0) {
		start_upkeep(s, loop);
		s->started = true;
		return 0;
	}
	uv_close((uv_handle_t *)s->news, on_news_closed);
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
store_copy(struct store *s, const char *name,
           void (*done)(void *user, enum rc rc, uint64_t applied, const char *why), void *user)
{
	must(s->started && !s->closing);
	copier_add(&s->copier, name, done, user);
}

static void
on_copier_idle(void *user)
{
	struct store *s = user;

	s->copier_idle = true;
	wake_loop(s);
}

void
store_fail(struct store *s, const char *why)
{
	failed_mark(&s->files.failed, why);
	stop_with(s, why);
}

void
store_close(struct store *s, void (*closed)(void *user), void *user)
{
	must(s->closed == NULL && closed != NULL);
	s->closed = closed;
	s->closed_user = user;
	if (!s->started) {
		if (statedb_close(&s->files.state, false) == WORK_FAILED)
			failed_mark(&s->files.failed, s->files.state.db.why);
		if (!s->log_closed && logdb_close(&s->files.log, false) == WORK_FAILED)
			failed_mark(&s->files.failed, s->files.log.db.why);
		after_close(s);
		return;
	}
	s->closing = true;
	worker_finish(&s->log_worker);
	worker_finish(&s->state_worker);
	/* Threads that a failure has ended have nothing more to tell: this wakes the loop. */
	copier_stop(&s->copier, on_copier_idle, s);
}
