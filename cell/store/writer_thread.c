#include "cell/store/writer_thread.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"

enum { RETRY_FIRST_MS = 50, RETRY_MAX_MS = 1000 };

void
writer_thread_init(struct writer_thread *w, const char *name, const struct writer_thread_ops *ops,
                   void *user, atomic_bool *broken)
{
	pthread_condattr_t attr;

	*w = (struct writer_thread){.name = name, .ops = ops, .user = user, .broken = broken};
	TAILQ_INIT(&w->waiting);
	TAILQ_INIT(&w->done);
	must(pthread_condattr_init(&attr) == 0);
	must(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
	must(pthread_cond_init(&w->more, &attr) == 0);
	must(pthread_condattr_destroy(&attr) == 0);
	must(pthread_mutex_init(&w->mutex, NULL) == 0);
}

static void
lock(struct writer_thread *w)
{
	must(pthread_mutex_lock(&w->mutex) == 0);
}

static void
unlock(struct writer_thread *w)
{
	must(pthread_mutex_unlock(&w->mutex) == 0);
}

/* Waits, with the mutex held, until `ms` have passed, the writer is to finish, or, unless pausing,
 * the waiting jobs reach the bytes that end a delay. */
static void
wait_at_most(struct writer_thread *w, int ms, bool pausing)
{
	struct timespec until;
	int rc = 0;

	must(clock_gettime(CLOCK_MONOTONIC, &until) == 0);
	until.tv_sec += ms / 1000;
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	while (rc != ETIMEDOUT && !w->finishing && (pausing || w->waiting_size < w->hurry)) {
		rc = pthread_cond_timedwait(&w->more, &w->mutex, &until);
		must(rc == 0 || rc == ETIMEDOUT);
	}
}

/* Takes all jobs that wait; false when no job will follow. */
static bool
take_batch(struct writer_thread *w, struct job_list *batch)
{
	lock(w);
	while (TAILQ_EMPTY(&w->waiting) && !w->finishing) {
		w->sleeping = true;
		must(pthread_cond_wait(&w->more, &w->mutex) == 0);
		w->sleeping = false;
	}
	if (w->delay_ms > 0)
		wait_at_most(w, w->delay_ms, false);
	TAILQ_CONCAT(batch, &w->waiting, link);
	w->waiting_size = 0;
	unlock(w);
	return !TAILQ_EMPTY(batch) && !atomic_load(w->broken);
}

/* Runs the batch, and again while the disk is full or another program has the database locked: the
 * transaction was rolled back whole each time. */
static enum work
run_with_retries(struct writer_thread *w, const struct job_list *batch)
{
	int pause_ms = RETRY_FIRST_MS;
	enum work work;

	for (;;) {
		bool finishing, again;

		work = atomic_load(w->broken) ? WORK_FAILED : w->ops->run(w->user, batch);
		lock(w);
		finishing = w->finishing;

		/* Reports to the loop when the wait for disk space begins and ends. */
		if (w->later != (work == WORK_LATER)) {
			w->later = (work == WORK_LATER);
			w->ops->wake(w->user);
		}

		again = (work == WORK_LATER || work == WORK_BUSY) && !finishing;
		if (again)
			wait_at_most(w, pause_ms, true);
		unlock(w);
		if (!again)
			return work;
		pause_ms = pause_ms * 2 < RETRY_MAX_MS ? pause_ms * 2 : RETRY_MAX_MS;
	}
}

static void
put_back(struct writer_thread *w, struct job_list *batch)
{
	lock(w);
	TAILQ_CONCAT(batch, &w->waiting, link);
	TAILQ_CONCAT(&w->waiting, batch, link);
	unlock(w);
}

static bool
tidy(struct writer_thread *w)
{
	enum work work;

	do {
		bool idle;

		lock(w);
		idle = TAILQ_EMPTY(&w->waiting) && !w->finishing;
		unlock(w);
		work = atomic_load(w->broken) ? WORK_DONE : w->ops->tidy(w->user, idle);
		if (!idle)
			break;
	} while (work == WORK_MORE);
	return work != WORK_FAILED;
}

/* One transaction and the upkeep after it; false when the thread is to end. */
static bool
work_once(struct writer_thread *w)
{
	struct job_list batch = TAILQ_HEAD_INITIALIZER(batch);
	enum work work;

	if (!take_batch(w, &batch)) {
		put_back(w, &batch);
		return false;
	}
	work = run_with_retries(w, &batch);
	if (work == WORK_DONE || work == WORK_MORE) {
		lock(w);
		TAILQ_CONCAT(&w->done, &batch, link);
		unlock(w);
		w->ops->wake(w->user);

		if (work == WORK_DONE || tidy(w))
			return true;
		work = WORK_FAILED;
	}
	put_back(w, &batch);
	if (work == WORK_FAILED && !atomic_exchange(w->broken, true))
		w->ops->failed(w->user);
	return false;
}

static void *
writer_thread_main(void *argument)
{
	struct writer_thread *w = argument;

	while (work_once(w))
		;
	w->ops->finish(w->user);
	lock(w);
	w->exited = true;
	unlock(w);
	w->ops->wake(w->user);
	return NULL;
}

int
writer_thread_start(struct writer_thread *w)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	must(pthread_sigmask(SIG_SETMASK, &all, &old) == 0);
	rc = pthread_create(&w->thread, NULL, writer_thread_main, w);
	must(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0);
	if (rc == 0)
		(void)pthread_setname_np(w->thread, w->name);
	return -rc;
}

void
writer_thread_put(struct writer_thread *w, struct job *job)
{
	bool signal;

	lock(w);
	TAILQ_INSERT_TAIL(&w->waiting, job, link);
	w->waiting_size += job->size;
	signal = w->sleeping || (w->delay_ms > 0 && w->waiting_size >= w->hurry &&
	                         w->waiting_size - job->size < w->hurry);
	w->sleeping = false;
	unlock(w);
	if (signal)
		must(pthread_cond_signal(&w->more) == 0);
}

void
writer_thread_collect(struct writer_thread *w, struct writer_thread_news *news)
{
	lock(w);
	TAILQ_INIT(&news->done);
	TAILQ_CONCAT(&news->done, &w->done, link);
	news->later = w->later;
	news->exited = w->exited;
	unlock(w);
}

void
writer_thread_finish(struct writer_thread *w)
{
	lock(w);
	w->finishing = true;
	must(pthread_cond_signal(&w->more) == 0);
	unlock(w);
}

void
writer_thread_join(struct writer_thread *w)
{
	must(pthread_join(w->thread, NULL) == 0);
}

void
writer_thread_fini(struct writer_thread *w, struct job_list *rest)
{
	TAILQ_INIT(rest);
	TAILQ_CONCAT(rest, &w->waiting, link);
	TAILQ_CONCAT(rest, &w->done, link);
	must(pthread_cond_destroy(&w->more) == 0);
	must(pthread_mutex_destroy(&w->mutex) == 0);
}

/* ---- jobs ---- */

struct log_job *
log_job_new(uint64_t write, const struct px_record *records, size_t n)
{
	struct log_job *job;
	size_t payloads = 0, head = sizeof *job + n * sizeof *records;
	uint8_t *at;

	for (size_t i = 0; i < n; i++)
		payloads += records[i].payload.len;
	job = memory_zero(1, head + payloads);
	job->job.size = head + payloads;
	job->write = write;
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
	return job;
}

struct state_job *
state_job_new(uint64_t applied, struct row_list *rows)
{
	struct state_job *job = memory_zero(1, sizeof *job);

	job->applied = applied;
	job->rows = *rows;
	job->job.size = sizeof *job + rows->n * sizeof *rows->rows + rows->bytes;
	*rows = (struct row_list){0};
	return job;
}

void
log_jobs_free(struct job_list *jobs)
{
	struct job *job;

	while ((job = TAILQ_FIRST(jobs)) != NULL) {
		TAILQ_REMOVE(jobs, job, link);
		free(job);
	}
}

void
state_jobs_free(struct job_list *jobs)
{
	struct job *job;

	while ((job = TAILQ_FIRST(jobs)) != NULL) {
		TAILQ_REMOVE(jobs, job, link);
		row_list_free(&((struct state_job *)job)->rows);
		free(job);
	}
}
