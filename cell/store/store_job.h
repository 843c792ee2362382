/* The jobs of a store's two writers: records of the log, and rows of the state. */
#ifndef LSFS_STORE_JOB_H
#define LSFS_STORE_JOB_H

#include "cell/paxos/px.h"
#include "cell/store/writer_thread.h"
#include "cell/tree/rows.h"

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
