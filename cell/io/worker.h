/* A storage thread. It takes all jobs that wait, has them written as one transaction, and hands
 * them back: whatever arrived while the last sync ran shares the next one (group commit).
 *
 *   loop's thread:  worker_put ... worker_collect       worker's thread:  run, tidy, finish
 *
 * Nothing here knows what a job means. Every wake-up costs more than the work it announces, so a
 * sleeping worker is woken once, and the loop at most once for a finished transaction. */
#ifndef LSFS_IO_WORKER_H
#define LSFS_IO_WORKER_H

#include <bsd/sys/queue.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* The first member of every job. */
struct job {
	TAILQ_ENTRY(job) link;
	size_t size; /* bytes that it keeps */
};

TAILQ_HEAD(job_list, job);

enum work {
	WORK_DONE,
	WORK_MORE,   /* done, and tidy has more to do when there is time */
	WORK_LATER,  /* rolled back whole, since there was no room: the same again, later */
	WORK_BUSY,   /* likewise, since another program is in the way */
	WORK_FAILED, /* nothing may be written any more */
};

/* All called in the worker's thread. */
struct worker_ops {
	enum work (*run)(void *user, const struct job_list *batch); /* all of it, or nothing */
	/* Upkeep between transactions; `idle` when no job waits. */
	enum work (*tidy)(void *user, bool idle);
	void (*finish)(void *user);  /* the last call: close what belongs to this thread */
	void (*failed)(void *user);  /* its run or tidy was the first of the store that failed */
	void (*wake)(void *user);    /* there is something to collect */
};

struct worker {
	const struct worker_ops *ops;
	void *user;
	const char *name;
	atomic_bool *broken;    /* shared by all workers of a store: one failed, none writes */
	int delay_ms; /* how long a first job may wait for more to share its transaction */
	size_t hurry;           /* bytes that end the delay */

	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t more;
	/* under the mutex: */
	struct job_list waiting, done;
	size_t waiting_size, size; /* bytes that wait; bytes not yet written in all */
	bool sleeping, finishing, exited, later;
};

void worker_init(struct worker *w, const char *name, const struct worker_ops *ops, void *user,
                 atomic_bool *broken);
int worker_start(struct worker *w); /* 0 or -errno */
void worker_put(struct worker *w, struct job *job);
size_t worker_size(struct worker *w);

/* What the loop has to know. */
struct worker_news {
	struct job_list done; /* written and synced, in order; the caller's now */
	bool later;           /* the worker waits for room */
	bool exited;          /* no further call of its ops: worker_join returns at once */
};

void worker_collect(struct worker *w, struct worker_news *news);
/* Write what waits, then end. What has no room then is given up (nobody was told that it is
 * safe). */
void worker_finish(struct worker *w);
void worker_join(struct worker *w);
/* After the thread ended, or if it was never started: hands over what was never written. */
void worker_fini(struct worker *w, struct job_list *rest);

#endif
