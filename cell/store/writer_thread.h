/* A storage thread. It takes all jobs that wait, has them written as one transaction, and hands
 * them back: all jobs that arrive while a sync runs share the next one (group commit).
 *
 *   loop's thread:    writer_thread_put ... writer_thread_collect
 *   writer's thread:  run, tidy, finish
 *
 * This module does not depend on the meaning of a job. A wake-up of a thread costs more than the
 * work that it announces, so a sleeping writer is woken once, and the loop at most once for each
 * finished transaction. */
#ifndef LSFS_STORE_WRITER_THREAD_H
#define LSFS_STORE_WRITER_THREAD_H

#include <bsd/sys/queue.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include "cell/paxos/px.h"
#include "cell/tree/rows.h"

/* The first member of every job. */
struct job {
	TAILQ_ENTRY(job) link;
	size_t size; /* bytes of memory that the job holds */
};

TAILQ_HEAD(job_list, job);

enum work {
	WORK_DONE,
	WORK_MORE,   /* done, and tidy has more to do */
	WORK_LATER,  /* rolled back whole, since the disk is full: to be retried later */
	WORK_BUSY,   /* rolled back whole, since another program has the file locked: likewise */
	WORK_FAILED, /* nothing more may be written */
};

/* The owner's functions, all called in the writer's thread. */
struct writer_thread_ops {
	/* Writes the batch, as a whole or not at all. WORK_MORE: tidy has to be called. */
	enum work (*run)(void *user, const struct job_list *batch);
	/* Upkeep between transactions; `idle` when no job waits. */
	enum work (*tidy)(void *user, bool idle);
	void (*finish)(void *user); /* the last call: closes the thread's database */
	void (*failed)(void *user); /* run or tidy failed, and no writer of the store had before */
	void (*wake)(void *user);   /* asks the loop to call writer_thread_collect */
};

struct writer_thread {
	const struct writer_thread_ops *ops;
	void *user;
	const char *name;
	atomic_bool *broken; /* shared by all writers of a store: after a failure none writes */
	int delay_ms;        /* that a first job waits for more to share its transaction */
	size_t hurry;        /* bytes of waiting jobs that end the delay */

	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t more;
	/* under the mutex: */
	struct job_list waiting, done;
	size_t waiting_size; /* bytes of waiting jobs */
	bool sleeping, finishing, exited, later;
};

/* Initializes *w; all arguments are kept, not copied. */
void writer_thread_init(struct writer_thread *w, const char *name,
                        const struct writer_thread_ops *ops, void *user, atomic_bool *broken);
/* Starts the thread. 0 or -errno. */
int writer_thread_start(struct writer_thread *w);
/* Passes a job to the thread; writer_thread_collect hands it back once it is written. */
void writer_thread_put(struct writer_thread *w, struct job *job);

/* The thread's report to the loop. */
struct writer_thread_news {
	struct job_list done; /* jobs written and synced, in order; owned by the caller now */
	bool later;           /* the writer waits for disk space */
	bool exited;          /* no op is called after this: writer_thread_join won't block */
};

/* Takes the report since the last call. */
void writer_thread_collect(struct writer_thread *w, struct writer_thread_news *news);
/* Has the thread write the waiting jobs and then end. Jobs for which the disk has no space are
 * dropped: they were not acknowledged. */
void writer_thread_finish(struct writer_thread *w);
/* Waits until the thread has ended. */
void writer_thread_join(struct writer_thread *w);
/* Frees the writer, whose thread has ended or was never started; *rest gets the unwritten jobs. */
void writer_thread_fini(struct writer_thread *w, struct job_list *rest);

/* ---- the jobs of a store ---- */

/* The jobs of a store's two writers: records of the log, and rows of the state. */

struct log_job {
	struct job job;
	uint64_t write; /* its number */
	size_t n;
	struct px_record *records;
};

struct state_job {
	struct job job;
	uint64_t applied; /* index of the state with these rows */
	struct row_list rows;
};

/* One block of memory, with copies of the records and of their payloads. */
struct log_job *log_job_new(uint64_t write, const struct px_record *records, size_t n);
/* Takes the rows over. */
struct state_job *state_job_new(uint64_t applied, struct row_list *rows);
/* Frees all jobs of a list, those of the log. */
void log_jobs_free(struct job_list *jobs);
/* The same for those of the state. */
void state_jobs_free(struct job_list *jobs);

#endif
