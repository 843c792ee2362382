/* A replica's machine after a failed fsync. The page cache goes on showing what was written, though
 * the disk may not have it, and forgets it when the machine restarts (Rebello et al., "Can
 * applications recover from fsync failures?", ATC 2020). So a process that is started again in the
 * same boot would read, and tell, what is gone later. */
#include <stdio.h>
#include "tests/sim/sim.h"

enum { IN_DIRECTORY, IN_RUN };

static void
name_boot(const struct boot *b, char name[BOOT_VERDICT_BOOT])
{
	snprintf(name, BOOT_VERDICT_BOOT, "boot-%lu", (unsigned long)b->number);
}

/* The machine restarts: the run directory is empty, the data directory is as the disk has it. */
static void
run_boot(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];
	struct boot *b = &n->boot;

	sim_trace(s, "the machine of replica %d restarts", n->id);
	if (n->up)
		host_crash(s, n, FAULT_CRASH);
	disk_copy(&n->disk, &b->real);
	b->failed = false;
	b->number++;
	b->marks[IN_RUN][0] = '\0';
	host_down(s, n, 0);
}

/* The mark is written to two places, for the disk that failed may fail again. */
int64_t
boot_failed(struct sim *s, struct host *n)
{
	int64_t at =
	    s->now + (s->calm ? sim_between(s, 0, SECOND) : sim_between(s, SECOND, 20 * SECOND));
	uint64_t where = rng_below(&s->rng, 3);
	struct boot *b = &n->boot;
	char name[BOOT_VERDICT_BOOT];
	bool differ;

	n->disk.broken = false;
	differ = disk_fail(s, &n->disk, &b->real);
	fault(s, FAULT_FSYNC, "fsync fails: replica %d ends%s", n->id,
	      differ ? ", and its page cache shows what the disk does not have" : "");
	b->failed = true;
	name_boot(b, name);
	if (where != IN_DIRECTORY)
		boot_verdict_write(b->marks[IN_RUN], name, "fsync");
	if (where != IN_RUN)
		boot_verdict_write(b->marks[IN_DIRECTORY], name, "fsync");
	heap_push(&s->heap, (struct event){.at = at, .run = run_boot, .who = n->id - 1});
	return at;
}

/* In a later boot everything is read and checked, and the mark is taken back. */
bool
boot_allows(struct sim *s, struct host *n)
{
	char name[BOOT_VERDICT_BOOT], why[BOOT_VERDICT_WHY];

	name_boot(&n->boot, name);
	for (int i = IN_DIRECTORY; i <= IN_RUN; i++) {
		if (boot_verdict_judge(n->boot.marks[i], name, why) == BOOT_VERDICT_NOW) {
			fault(s, FAULT_REFUSED, "replica %d is not to start in this boot", n->id);
			return false;
		}
	}
	n->boot.marks[IN_DIRECTORY][0] = n->boot.marks[IN_RUN][0] = '\0';
	return true;
}
