/* Of five replicas one was cut off under load, and lacks much of the log. When it is back the
 * master goes, and the others that are left reach none but it: a majority hears only that one, so
 * it has to become the master, and fetch what it lacks before. (Where each message goes its own
 * way, nothing is said of how long that takes.) */
#include <stdlib.h>
#include "cell/base/must.h"
#include "tests/sim/sim.h"

enum {
	FITTED = 100,       /* of 1,000 cells without operators are made so that this can happen */
	FAR_US = 15000,     /* at least, and at most twice that: the hub fetches for long */
	SETTLE_SECONDS = 2, /* of calm before that */
	TRY_SECONDS = 20,
	AWAY_MS = 3000,      /* the hub, at most */
	ELECTION_LEASES = 8, /* until there is a master, besides the time to send what it lacks */
};

void
hub_draw(struct sim *s)
{
	struct hub *h = &s->hub;

	*h = (struct hub){.rng = rng_seeded(s->seed + 6)};
	if (s->swarm.operators == 0 && s->liar.id == 0 && rng_chance(&h->rng, FITTED)) {
		s->hosts_n = 5;
		s->swarm.datagrams = s->swarm.mounts = false;
		s->swarm.rate = 0;
		s->swarm.latency_us = FAR_US + (int64_t)rng_below(&h->rng, FAR_US);
	}
	if (s->hosts_n != 5 || s->swarm.operators > 0 || s->liar.id != 0 || s->swarm.datagrams ||
	    s->swarm.mounts)
		return;
	h->on = rng_chance(&h->rng, 500);
	if (!h->on || s->swarm.bulk)
		return;
	s->swarm.bulk = true;
	bulk_make_room(&s->swarm);
}

static bool
is_spoke(const struct sim *s, int id, const struct host *master)
{
	return id != s->hub.id && id != master->id;
}

static const struct px *
px_of(const struct sim *s, int id)
{
	return replica_px(s->hosts[id - 1].replica);
}

static void
heal(struct sim *s, int id)
{
	for (int other = 1; other <= s->hosts_n; other++) {
		if (other == id)
			continue;
		link_heal(s, id, other);
		link_heal(s, other, id);
	}
}

/* The bytes that the hub and the spokes lack of the longest log of a spoke: the hub has to fetch
 * its own, and to send the others theirs before they accept what is new. 0: the hub lacks none, or
 * that log does not have them all. */
static int64_t
lacking(const struct sim *s, const struct host *master)
{
	const struct px *longest = NULL;
	int64_t bytes = 0;

	for (int id = 1; id <= s->hosts_n; id++)
		if (is_spoke(s, id, master) &&
		    (longest == NULL || px_last(px_of(s, id)) > px_last(longest)))
			longest = px_of(s, id);
	for (int id = 1; id <= s->hosts_n; id++) {
		const uint64_t has = px_last(px_of(s, id));

		if (id == master->id)
			continue;
		if (px_status(longest)->first > has + 1 ||
		    (id == s->hub.id && has >= px_last(longest)))
			return 0;
		for (uint64_t slot = has + 1; slot <= px_last(longest); slot++)
			bytes += (int64_t)px_payload(longest, slot).len;
	}
	return bytes;
}

static void
run_check(struct sim *s, struct event *e)
{
	(void)e;
	if (sim_serving(s) == NULL)
		sim_fail(s, "a majority reaches replica %d alone, and it is no master yet",
		         s->hub.id);
}

static void
strike(struct sim *s, struct host *master, int64_t bytes)
{
	int64_t takes = ELECTION_LEASES * s->swarm.lease_ms * MS +
	                8 * (s->swarm.disk_us + s->swarm.latency_us) * 1000;

	if (s->swarm.rate > 0)
		takes += 2 * bytes * SECOND / s->swarm.rate;
	fault(s, FAULT_HUB,
	      "the others reach each other through replica %d only; together they lack %ld bytes",
	      s->hub.id, (long)bytes);
	s->bulk_at = s->now + takes;
	for (int a = 1; a <= s->hosts_n; a++)
		for (int b = a + 1; b <= s->hosts_n; b++)
			if (is_spoke(s, a, master) && is_spoke(s, b, master))
				net_cut_replicas(s, a, b, s->bulk_at + SECOND);
	host_crash_for(s, master, LOSE_NOTHING, takes + SECOND);
	heap_push(&s->heap, (struct event){.at = s->bulk_at, .run = run_check});
}

/* e->a: the epoch in which the hub was cut off. */
static void
run_strike(struct sim *s, struct event *e)
{
	struct host *master = sim_serving(s);
	int64_t bytes = 0;

	heal(s, s->hub.id);
	if (master != NULL && master->id != s->hub.id && s->model.epoch == e->a && bulk_all_well(s))
		bytes = lacking(s, master);
	if (bytes > 0)
		strike(s, master, bytes);
}

/* e->b: until when it is tried. */
static void
run_begin(struct sim *s, struct event *e)
{
	struct hub *h = &s->hub;
	const struct host *master = sim_serving(s);
	const int64_t until = s->now + (int64_t)rng_below(&h->rng, AWAY_MS * MS);
	struct machine *m = &s->machines[0];

	if (!bulk_all_well(s) || master == NULL || !m->up || m->closing ||
	    m->paused_until > s->now || m->state != CLIENT_SAFE) {
		if (s->now >= (int64_t)e->b)
			return;
		s->bulk_at = s->now + SECOND;
		heap_again(&s->heap, e, s->bulk_at);
		return;
	}
	do
		h->id = 1 + (int)rng_below(&h->rng, (uint64_t)s->hosts_n);
	while (h->id == master->id);
	sim_trace(s, "replica %d is cut off, and client 1 has much to write", h->id);
	work_bulk(s, m);
	for (int other = 1; other <= s->hosts_n; other++)
		if (other != h->id)
			net_cut_replicas(s, h->id, other, until + SECOND);
	s->bulk_at = until;
	heap_push(&s->heap, (struct event){.at = until, .run = run_strike, .a = s->model.epoch});
}

void
hub_start(struct sim *s, int64_t from)
{
	s->bulk_at = from + SETTLE_SECONDS * SECOND;
	heap_push(&s->heap, (struct event){.at = s->bulk_at,
	                                   .run = run_begin,
	                                   .b = (uint64_t)(s->bulk_at + TRY_SECONDS * SECOND)});
}
