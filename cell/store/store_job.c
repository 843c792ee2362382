#include "cell/store/store_job.h"

#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"

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
