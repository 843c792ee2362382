#include "cell/store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/store/internal.h"
#include "cell/store/writer_thread.h"
#include "cell/store/swap_in.h"
#include "cell/sys/log.h"

enum {
	STATE_DELAY_MS = 200,  /* that changes wait for more to share their transaction */
	STATE_HURRY = 4 << 20, /* bytes of changes that are written without that delay */
	UPKEEP_MS = 1000,
};

struct store {
	struct data_dir dir;
	struct reserve reserve;
	struct file_guard guard;
	struct writer_thread log_writer, state_writer;
	struct checkpointer checkpointer; /* of log.db, for log_writer */
	bool log_busy, state_busy; /* of the writers: it was logged that a program has the lock */
	atomic_bool broken;        /* nothing more is written or acknowledged */
	pthread_mutex_t mutex;     /* of the next two */
	bool stopped;
	char why[SQLITE_WHY]; /* the failure that set `broken` */

	uv_async_t *news; /* NULL until store_start */
	uv_timer_t upkeep;
	uv_work_t taking; /* allocates the reserve again */
	bool taking_runs;
	struct store_callbacks callbacks;
	size_t unsaved;  /* bytes of the rows that were passed in and are not reported as written */
	bool log_closed; /* its thread has closed it, though the store was not started */
	bool started, reported_full, reported_failed, closing;
	bool set_aside; /* state.db, once it is closed */
	void (*closed)(void *user);
	void *closed_user;
};

/* ---- opening ---- */

static void init_writers(struct store *s);

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
		ok = data_dir_open(&s->dir, directory, cell, replica, others, tree, recovered, why,
		                   why_size);
		/* At most one repetition: then the reserve is gone. */
	} while (!ok && s->dir.locked && reserve_give_up_if_full(&s->reserve));
	if (!ok) {
		store_free(s);
		return NULL;
	}
	(void)reserve_take(&s->reserve);
	init_writers(s);
	return s;
}

void
store_recovered_free(struct px_recovered *recovered)
{
	log_db_recovered_free(recovered);
}

/* ---- in the writers' threads ---- */

/* Stops both writers; the first call's reason is reported. */
static void
stop_with(struct store *s, const char *why)
{
	must(pthread_mutex_lock(&s->mutex) == 0);
	snprintf(s->why, sizeof s->why, "%s", why);
	s->stopped = true;
	must(pthread_mutex_unlock(&s->mutex) == 0);
	must(uv_async_send(s->news) == 0);
}

/* Only an I/O error marks the disk as failed: the next start repairs or refuses a damaged file. */
static void
sqlite_failed(struct store *s, const struct sqlite_db *db)
{
	if (!db->damaged)
		disk_failure_mark(&s->dir.disk_failure, db->why);
	stop_with(s, db->why);
}

static void
checkpoint_failed(void *user, const struct sqlite_db *db)
{
	sqlite_failed(user, db);
}

static void
log_failed(void *user)
{
	struct store *s = user;

	sqlite_failed(s, &s->dir.log.db);
}

static void
state_failed(void *user)
{
	struct store *s = user;

	sqlite_failed(s, &s->dir.state.db);
}

/* Runs a batch; when the disk is full, gives up the reserve and runs it again. */
static enum work
run_with_reserve(struct store *s, const struct job_list *batch,
                 enum work (*run)(struct store *s, const struct job_list *batch),
                 const struct sqlite_db *db, bool *was_busy)
{
	enum work work = run(s, batch);

	if (work == WORK_LATER && reserve_give_up(&s->reserve)) {
		must(uv_async_send(s->news) == 0);
		work = run(s, batch);
	}
	if (work == WORK_BUSY && !*was_busy)
		log_warn("%s: another program has it locked: %s", s->dir.directory, db->why);
	*was_busy = work == WORK_BUSY;
	return work;
}

static enum work
write_log(struct store *s, const struct job_list *batch)
{
	struct job *job;
	enum work work;
	int rc = sqlite_begin(&s->dir.log.db);

	TAILQ_FOREACH(job, batch, link) {
		const struct log_job *l = (const struct log_job *)job;

		for (size_t i = 0; i < l->n && rc == SQLITE_OK; i++)
			rc = log_db_write(&s->dir.log, &l->records[i]);
	}
	work = sqlite_end(&s->dir.log.db, rc == SQLITE_OK ? log_db_finish(&s->dir.log) : rc);
	/* A write-ahead log that starts over needs no more room for the next attempt. */
	if (work == WORK_LATER && checkpointer_tidy(&s->checkpointer, true) == WORK_FAILED)
		return WORK_FAILED;
	if (work != WORK_DONE)
		return work;
	log_db_written(&s->dir.log);
	return s->dir.log.db.untidy || s->dir.log.to_delete ? WORK_MORE : WORK_DONE;
}

static enum work
run_log(void *user, const struct job_list *batch)
{
	struct store *s = user;

	return run_with_reserve(s, batch, write_log, &s->dir.log.db, &s->log_busy);
}

static enum work
tidy_log(void *user, bool idle)
{
	struct store *s = user;
	enum work work = checkpointer_tidy(&s->checkpointer, atomic_load(&s->reserve.gone));

	return work == WORK_DONE && idle ? log_db_tidy(&s->dir.log) : work;
}

static void
finish_log(void *user)
{
	struct store *s = user;

	checkpointer_finish(&s->checkpointer);
	if (log_db_close(&s->dir.log, atomic_load(&s->broken)) == WORK_FAILED &&
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
	rc = sqlite_begin(&s->dir.state.db);
	if (rc == SQLITE_OK)
		rc = state_db_write(&s->dir.state, lists, n);
	work = sqlite_end(&s->dir.state.db, rc);
	free(lists);
	/* As in write_log. */
	if (work == WORK_LATER && sqlite_checkpoint(&s->dir.state.db) == WORK_FAILED)
		return WORK_FAILED;
	if (work != WORK_DONE)
		return work;
	state_db_written(&s->dir.state);
	return s->dir.state.db.untidy ? WORK_MORE : WORK_DONE;
}

static enum work
run_state(void *user, const struct job_list *batch)
{
	struct store *s = user;

	return run_with_reserve(s, batch, write_state, &s->dir.state.db, &s->state_busy);
}

static enum work
tidy_state(void *user, bool idle)
{
	struct store *s = user;

	return sqlite_tidy(&s->dir.state.db, idle || atomic_load(&s->reserve.gone));
}

static void
finish_state(void *user)
{
	struct store *s = user;

	if (state_db_close(&s->dir.state, atomic_load(&s->broken)) == WORK_FAILED &&
	    !atomic_exchange(&s->broken, true))
		state_failed(s);
}

static void
wake_loop(void *user)
{
	must(uv_async_send(((struct store *)user)->news) == 0);
}

static const struct writer_thread_ops log_ops = {run_log, tidy_log, finish_log, log_failed,
                                                 wake_loop};
static const struct writer_thread_ops state_ops = {run_state, tidy_state, finish_state,
                                                   state_failed, wake_loop};

static void
init_writers(struct store *s)
{
	checkpointer_init(&s->checkpointer, &s->dir.log.db, &s->broken, checkpoint_failed, s);
	writer_thread_init(&s->log_writer, "log.db", &log_ops, s, &s->broken);
	writer_thread_init(&s->state_writer, "state.db", &state_ops, s, &s->broken);
	s->state_writer.delay_ms = STATE_DELAY_MS;
	s->state_writer.hurry = STATE_HURRY;
}

/* ---- on the loop's thread ---- */

static void
after_close(struct store *s)
{
	void (*closed)(void *user) = s->closed;
	void *user = s->closed_user;
	struct job_list rest;
	int rc;

	checkpointer_fini(&s->checkpointer);
	writer_thread_fini(&s->log_writer, &rest);
	log_jobs_free(&rest);
	writer_thread_fini(&s->state_writer, &rest);
	state_jobs_free(&rest);
	rc = s->set_aside ? swap_in_set_aside(s->dir.directory, STATE_DB_FILE) : 0;
	if (rc < 0)
		log_error("%s: cannot set the state aside: %s", s->dir.directory, strerror(-rc));
	data_dir_close(&s->dir);
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
	struct writer_thread_news log, state;
	bool full, stopped;
	struct job *job;

	writer_thread_collect(&s->log_writer, &log);
	writer_thread_collect(&s->state_writer, &state);

	must(pthread_mutex_lock(&s->mutex) == 0);
	stopped = s->stopped;
	must(pthread_mutex_unlock(&s->mutex) == 0);
	if (stopped && !s->reported_failed) {
		s->reported_failed = true;
		s->callbacks.failed(s->callbacks.user, s->why);
	}
	full = log.later || state.later || atomic_load(&s->reserve.gone);
	if (s->reported_full != full && !atomic_load(&s->broken)) {
		s->reported_full = full;
		s->callbacks.full(s->callbacks.user, full);
	}

	TAILQ_FOREACH(job, &log.done, link)
		if (!atomic_load(&s->broken))
			s->callbacks.persisted(s->callbacks.user, ((struct log_job *)job)->write);
	log_jobs_free(&log.done);
	TAILQ_FOREACH(job, &state.done, link)
		s->unsaved -= job->size;
	job = TAILQ_LAST(&state.done, job_list);
	if (job != NULL && !atomic_load(&s->broken))
		s->callbacks.saved(s->callbacks.user, ((struct state_job *)job)->applied,
		                   s->unsaved);
	state_jobs_free(&state.done);

	if (!s->closing || s->taking_runs || !log.exited || !state.exited)
		return;
	s->closing = false;
	writer_thread_join(&s->log_writer);
	writer_thread_join(&s->state_writer);
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
	char why[SQLITE_WHY];

	if (atomic_load(&s->broken) || s->closing)
		return;
	if (!file_guard_check(&s->guard, why, sizeof why)) {
		if (!atomic_exchange(&s->broken, true))
			stop_with(s, why);
		return;
	}
	if (!atomic_load(&s->reserve.gone) || s->taking_runs)
		return;
	s->taking_runs = true;
	s->taking.data = s;
	must(uv_queue_work(timer->loop, &s->taking, take_in_thread, on_taken) == 0);
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
	/* Both threads, or neither: if the second can't start, the first, still idle, is ended. */
	rc = writer_thread_start(&s->log_writer);
	if (rc == 0 && (rc = writer_thread_start(&s->state_writer)) < 0) {
		writer_thread_finish(&s->log_writer);
		writer_thread_join(&s->log_writer);
		s->log_closed = true;
	}
	if (rc == 0) {
		file_guard_begin(&s->guard, s->dir.directory);
		must(uv_timer_init(loop, &s->upkeep) == 0);
		s->upkeep.data = s;
		must(uv_timer_start(&s->upkeep, on_upkeep, UPKEEP_MS, UPKEEP_MS) == 0);
		if (atomic_load(&s->reserve.gone))
			must(uv_async_send(s->news) == 0);

		s->started = true;
		return 0;
	}
	uv_close((uv_handle_t *)s->news, on_news_closed);
	s->news = NULL;
	return rc;
}

void
store_log(struct store *s, uint64_t write, const struct px_record *records, size_t n)
{
	writer_thread_put(&s->log_writer, &log_job_new(write, records, n)->job);
}

size_t
store_state(struct store *s, uint64_t applied, struct row_list *rows)
{
	struct state_job *job = state_job_new(applied, rows);

	s->unsaved += job->job.size;
	writer_thread_put(&s->state_writer, &job->job);
	return s->unsaved;
}

void
store_fail(struct store *s, const char *why)
{
	disk_failure_mark(&s->dir.disk_failure, why);
	if (!atomic_exchange(&s->broken, true))
		stop_with(s, why);
}

void
store_set_state_aside(struct store *s)
{
	s->set_aside = true;
}

void
store_close(struct store *s, void (*closed)(void *user), void *user)
{
	must(s->closed == NULL && closed != NULL);
	s->closed = closed;
	s->closed_user = user;
	if (!s->started) {
		if (state_db_close(&s->dir.state, false) == WORK_FAILED)
			disk_failure_mark(&s->dir.disk_failure, s->dir.state.db.why);
		if (!s->log_closed && log_db_close(&s->dir.log, false) == WORK_FAILED)
			disk_failure_mark(&s->dir.disk_failure, s->dir.log.db.why);
		after_close(s);
		return;
	}
	s->closing = true;
	writer_thread_finish(&s->log_writer);
	writer_thread_finish(&s->state_writer);
	wake_loop(s); /* threads that a failure has ended report nothing */
}
