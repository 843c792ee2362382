/* A storage thread. It takes all jobs that wait, has them written as one transaction, and hands
 * them back: whatever arrived while the last sync ran shares the next one (group commit).
 *
 *   loop's thread:  writer_thread_put ... writer_thread_collect       writer's thread:  run, tidy,
 * finish
 *
 * Nothing here knows what a job means. Every wake-up costs more than the work it announces, so a
 * sleeping writer is woken once, and the loop at most once for a finished transaction. */
#ifndef LSFS_STORE_WRITER_THREAD_H
#define LSFS_STORE_WRITER_THREAD_H

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

/* All called in the writer's thread. */
struct writer_thread_ops {
	enum work (*run)(void *user, const struct job_list *batch); /* all of it, or nothing */
	/* Upkeep between transactions; `idle` when no job waits. */
	enum work (*tidy)(void *user, bool idle);
	void (*finish)(void *user);  /* the last call: close what belongs to this thread */
	void (*failed)(void *user);  /* its run or tidy was the first of the store that failed */
	void (*wake)(void *user);    /* there is something to collect */
};

struct writer_thread {
	const struct writer_thread_ops *ops;
	void *user;
	const char *name;
	atomic_bool *broken;    /* shared by all writers of a store: one failed, none writes */
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

void writer_thread_init(struct writer_thread *w, const char *name,
                        const struct writer_thread_ops *ops, void *user, atomic_bool *broken);
int writer_thread_start(struct writer_thread *w); /* 0 or -errno */
void writer_thread_put(struct writer_thread *w, struct job *job);
size_t writer_thread_size(struct writer_thread *w);

/* What the loop has to know. */
struct writer_thread_news {
	struct job_list done; /* written and synced, in order; the caller's now */
	bool later;           /* the writer waits for room */
	bool exited;          /* no further call of its ops: writer_thread_join returns at once */
};

void writer_thread_collect(struct writer_thread *w, struct writer_thread_news *news);
/* Write what waits, then end. What has no room then is given up (nobody was told that it is
 * safe). */
void writer_thread_finish(struct writer_thread *w);
void writer_thread_join(struct writer_thread *w);
/* After the thread ended, or if it was never started: hands over what was never written. */
void writer_thread_fini(struct writer_thread *w, struct job_list *rest);

#endif
