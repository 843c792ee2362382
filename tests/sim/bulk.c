/* A client that has much to write at once, and what must not happen for that: in a cell in which
 * nothing fails nobody else becomes master and the client keeps its lease, however slow the uplinks
 * are; and if the master dies just then, there soon is another one. (Not where each message goes
 * its own way: what is out of order is sent again, and that fills a slow uplink.) */
#include <stdio.h>
#include "cell/base/must.h"
#include "tests/sim/sim.h"

enum {
	SETTLE_SECONDS = 2, /* of calm before that */
	ELECTION_MS = 3000, /* from its start until somebody serves, with a lease of LEASE_MS */
	TRY_SECONDS = 20,
	CHECK_MS = 50,
	OPEN_SLACK = 5 * BULK_BYTES,
	KILL_SECONDS = 8,  /* of writing until the master dies, at most */
	SESSION_MS = 3000, /* the shortest lease that is kept with much to write */
};

void
bulk_make_room(struct swarm *w)
{
	if (w->session_lease_ms < SESSION_MS)
		w->session_lease_ms = SESSION_MS;
	w->limits = (struct server_limits){.part = w->limits.part};
}

bool
bulk_all_well(const struct sim *s)
{
	for (int i = 0; i < s->hosts_n; i++) {
		const struct host *n = &s->hosts[i];

		if (!host_exists(n) || !n->up || n->stopping || n->copies.fetching ||
		    n->paused_until > s->now || n->disk.stuck_until > s->now ||
		    n->disk.state_stuck_until > s->now ||
		    replica_condition(n->replica) != CONDITION_VOTING)
			return false;
	}
	return true;
}

/* Does every replica have what the master knows to be chosen? Else the transfer of what some have
 * missed before would count as a part of the election. */
static bool
all_caught_up(const struct sim *s, const struct host *master)
{
	for (int i = 0; i < s->hosts_n; i++) {
		const struct host *n = &s->hosts[i];

		if (host_exists(n) && px_last(replica_px(n->replica)) <
		                          px_status(replica_px(master->replica))->chosen)
			return false;
	}
	return true;
}

/* The master was killed: is there another one? */
static void
run_check_elected(struct sim *s, struct event *e)
{
	(void)e;
	if (sim_serving(s) == NULL)
		sim_fail(s, "the master died under load, and the election has not ended");
}

/* So many that the others need it for a majority. */
static void
kill_half(struct sim *s, int64_t away)
{
	int others = (s->hosts_n - 1) / 2;

	for (int i = 0; i < s->hosts_n && others > 0; i++)
		if (s->hosts[i].up && others-- > 0)
			host_crash_for(s, &s->hosts[i], LOSE_NOTHING, away);
}

/* Or it comes back soon, with all that it had proposed and nobody else has, and waits for a lease
 * before it votes. */
static void
kill_master(struct sim *s, struct host *master)
{
	const int64_t lease = s->swarm.lease_ms * MS;
	int64_t takes = 2 * lease + ELECTION_MS * lease / LEASE_MS +
	                4 * (s->swarm.disk_us + s->swarm.latency_us) * 1000;
	int64_t back = 0;

	if (rng_chance(&s->rng, 500)) {
		back = sim_between(s, 0, 2 * lease);
		takes += back;
	}
	host_crash_for(s, master, LOSE_NOTHING, back > 0 ? back : takes + SECOND);
	if (back > 0)
		kill_half(s, takes + SECOND);
	if (s->liar.id == 0) /* else rounds may be far apart, and are reached in time only */
		heap_push(&s->heap, (struct event){.at = s->now + takes, .run = run_check_elected});
}

/* What a master has proposed, and is not chosen, the next one may have to send first. */
static void
check_open(struct sim *s, const struct host *master)
{
	const struct px *px = replica_px(master->replica);
	const int64_t most = OPEN_SLACK + s->swarm.rate * s->swarm.lease_ms / LEASE_MS;
	int64_t open = 0;

	for (uint64_t slot = px_status(px)->chosen + 1; slot <= px_last(px); slot++)
		open += (int64_t)px_payload(px, slot).len;
	if (s->swarm.rate > 0 && open > most)
		sim_fail(s, "%lld bytes are open, more than the master can send in a second",
		         (long long)open);
}

/* e->a: the epoch that it began in; e->b: the client's session; e->life: when the master is to die;
 * 0: never. */
static void
run_check(struct sim *s, struct event *e)
{
	struct host *master = sim_serving(s);
	bool busy = !work_idle(s, &s->machines[0]);

	if (s->model.epoch != e->a)
		sim_fail(s, "nothing failed, and under load another one became master");
	if (s->machines[0].destroyed == e->b)
		return;
	if (s->machines[0].session != e->b || s->machines[0].state != CLIENT_SAFE)
		sim_fail(s, "nothing failed, and a client with much to write lost its lease");
	if (!busy || !bulk_all_well(s))
		return;
	if (master != NULL)
		check_open(s, master);
	if (e->life != 0 && master != NULL && s->now >= (int64_t)e->life) {
		kill_master(s, master);
		return;
	}
	heap_again(&s->heap, e, s->now + CHECK_MS * MS);
}

static void run_bulk(struct sim *s, struct event *e);

/* `until`: then some of them will never be well. */
static void
try_later(struct sim *s, uint64_t until)
{
	if (s->now >= (int64_t)until)
		return;
	s->bulk_at = s->now + SECOND;
	heap_push(&s->heap, (struct event){.at = s->bulk_at, .run = run_bulk, .b = until});
}

static void
run_bulk(struct sim *s, struct event *e)
{
	const struct host *master = sim_serving(s);
	struct machine *m = &s->machines[0];
	int64_t kill = 0;

	if (s->hosts_n == 1)
		return;
	if (!bulk_all_well(s) || master == NULL || !all_caught_up(s, master) || !m->up ||
	    m->closing || m->paused_until > s->now || m->state != CLIENT_SAFE ||
	    !client_counts(m->client).connected) { /* a master may be full of others */
		try_later(s, e->b);
		return;
	}
	if (!s->swarm.datagrams && rng_chance(&s->rng, 500))
		kill = s->now + sim_between(s, 0, KILL_SECONDS * SECOND);
	sim_trace(s, "client 1 has much to write");
	work_bulk(s, m);
	heap_push(&s->heap, (struct event){.at = s->now + CHECK_MS * MS,
	                                   .run = run_check,
	                                   .life = (uint64_t)kill,
	                                   .a = s->model.epoch,
	                                   .b = m->session});
}

/* Where operators are, the master may change for other reasons. */
void
bulk_start(struct sim *s, int64_t from)
{
	if (!s->swarm.bulk || s->swarm.operators > 0)
		return;
	s->bulk_at = from + SETTLE_SECONDS * SECOND;
	heap_push(&s->heap, (struct event){.at = s->bulk_at,
	                                   .run = run_bulk,
	                                   .b = (uint64_t)(s->bulk_at + TRY_SECONDS * SECOND)});
}
