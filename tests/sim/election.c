/* A master is found soon when nothing is in its way any more. */
#include "tests/sim/sim.h"

enum {
	ELECTION_SECONDS = 5,
	COPY_SECONDS = 4, /* until a copy that failed is tried again: one may need it to vote */
};

static int64_t
election_time(const struct sim *s)
{
	const int64_t lease = setting_changes_greatest(s, SETTING_master_lease);

	return lease / LEASE_MS * (ELECTION_SECONDS * SECOND / MS) + liar_delay(s);
}

/* The values that the replicas know to be chosen, in number. */
static uint64_t
values_known(const struct sim *s)
{
	uint64_t n = 0;

	for (int i = 0; i < s->hosts_n; i++)
		if (s->hosts[i].up)
			n += px_status(replica_px(s->hosts[i].replica))->chosen;
	return n;
}

/* An operator may have sent the last one away; and a candidate may take long to receive the values
 * that it lacks, where these are large or messages hold few: it has to get on with that. */
static void
run_check_master(struct sim *s, struct event *e)
{
	const uint64_t known = values_known(s);
	int64_t soon = s->handed_over + election_time(s);

	if (sim_serving(s) != NULL)
		return;
	if (known > e->a)
		soon = e->at + election_time(s);
	if (soon <= e->at)
		sim_fail(s, "the replicas have no master, and nothing is in its way");
	heap_push(&s->heap, (struct event){.at = soon, .run = run_check_master, .a = known});
}

int64_t
election_expect(struct sim *s)
{
	int64_t at = s->now, copy = 0;

	for (int i = 0; i < s->hosts_n; i++) {
		const struct host *n = &s->hosts[i];
		const int64_t times[] = {n->up ? n->paused_until : n->back_at,
		                         n->disk.log_under_way.busy,
		                         n->disk.state_under_way.busy,
		                         n->disk.stuck_until,
		                         n->disk.state_stuck_until,
		                         n->stopping ? s->now + 3 * SECOND : 0};

		for (size_t t = 0; host_exists(n) && t < sizeof times / sizeof *times; t++)
			at = times[t] > at ? times[t] : at;
		if (host_exists(n) && n->up && px_status(replica_px(n->replica))->behind != 0)
			copy = COPY_SECONDS * SECOND;
	}
	if (s->swarm.datagrams) /* connections that do not come about were not broken */
		at += LINK_PATIENCE_MS * MS;
	at += copy + election_time(s);
	heap_push(&s->heap,
	          (struct event){.at = at, .run = run_check_master, .a = values_known(s)});
	return at;
}
