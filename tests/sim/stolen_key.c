/* Somebody has the key of a follower, and sends with it in its name while that replica goes on as
 * ever: heartbeats and entries of ballots that nobody has promised, and refusals because of them.
 * Where nothing fails, the cell keeps a master for all that, and seldom another one. (Not where
 * each message goes its own way: heartbeats may be lost there, so that grants end.) */
#include <stdlib.h>
#include "cell/base/must.h"
#include "tests/sim/sim.h"

enum {
	SETTLE_SECONDS = 2, /* of calm before that */
	TRY_SECONDS = 20,
	LASTS_LEASES = 16, /* of the master: the time in which it may yield twice */
	YIELDS = 2,
	AWAY_LEASES = 6, /* at most until there is a master again */
	EVERY_MS = 50,   /* so seldom that it is no flood */
};

void
stolen_key_draw(struct sim *s)
{
	s->stolen_key = (struct stolen_key){.rng = rng_seeded(s->seed + 5)};
	s->stolen_key.on = s->hosts_n >= 3 && s->liar.id == 0 && s->swarm.operators == 0 &&
	                   !s->swarm.bulk && !s->swarm.datagrams && sim_leases_hold(s) &&
	                   rng_chance(&s->stolen_key.rng, 200);
}

static struct message
falsehood(struct sim *s, uint8_t owner)
{
	struct stolen_key *k = &s->stolen_key;
	const uint64_t round = px_status(replica_px(sim_serving(s)->replica))->master.round;
	const struct ballot ballot = {round + 1 + rng_below(&k->rng, 1000), owner};

	switch (rng_below(&k->rng, 3)) {
	case 0:
		return (struct message){.code = MSG_heartbeat,
		                        .heartbeat = {.ballot = ballot,
		                                      .sequence = 1,
		                                      .lease_ms = LIMIT_LEASE_MAX_S * 1000}};
	case 1:
		return (struct message){.code = MSG_accept, .accept = {.ballot = ballot}};
	default:
		return (struct message){.code = MSG_refused, .refused = {.ballot = ballot}};
	}
}

static void
say(struct sim *s, int to)
{
	const struct message m = falsehood(s, (uint8_t)s->stolen_key.of);
	struct buffer frame = BUFFER(LIMIT_FRAME);

	wire_put_frame(&frame, &m);
	must(!frame.failed);
	trace_frame(s, "lie", (uint64_t)to, buffer_view(&frame));
	link_put(s, s->stolen_key.of, to, buffer_view(&frame));
	buffer_free(&frame);
}

static void
check(struct sim *s)
{
	const struct stolen_key *k = &s->stolen_key;

	if (s->model.epoch > k->epoch + YIELDS)
		sim_fail(s, "a follower's key was stolen, and %lu masters have gone for that",
		         (unsigned long)(s->model.epoch - k->epoch));
	if (s->now - k->served_at > AWAY_LEASES * s->swarm.lease_ms * MS)
		sim_fail(s, "a follower's key was stolen, and the cell has no master");
}

static void
run_say(struct sim *s, struct event *e)
{
	struct stolen_key *k = &s->stolen_key;

	if (sim_serving(s) != NULL)
		k->served_at = s->now;
	check(s);
	if (s->now >= k->until || s->hosts[k->of - 1].role != PX_FOLLOWER)
		return;
	for (int id = 1; id <= s->hosts_n && sim_serving(s) != NULL; id++)
		if (id != k->of)
			say(s, id);
	heap_again(&s->heap, e, s->now + (int64_t)rng_below(&k->rng, EVERY_MS * MS));
}

/* Who does not is not bound, and may follow anybody. */
static bool
all_follow(const struct sim *s, const struct host *master)
{
	for (int i = 0; i < s->hosts_n; i++) {
		const struct px *px = replica_px(s->hosts[i].replica);
		const mono_t now = clock_local(&s->hosts[i].clock, s->now);

		if (px_status(px)->master.replica != master->id || !px_has_master(px, now))
			return false;
	}
	return true;
}

/* e->b: until when it is tried. */
static void
run_steal(struct sim *s, struct event *e)
{
	struct stolen_key *k = &s->stolen_key;
	const struct host *master = sim_serving(s);

	if (!bulk_all_well(s) || master == NULL || !all_follow(s, master)) {
		if (s->now < (int64_t)e->b) {
			k->until = s->now + SECOND;
			heap_again(&s->heap, e, k->until);
		}
		return;
	}
	do
		k->of = 1 + (int)rng_below(&k->rng, (uint64_t)s->hosts_n);
	while (k->of == master->id);
	fault(s, FAULT_STOLEN_KEY, "the key of replica %d is stolen", k->of);
	k->until = s->now + LASTS_LEASES * s->swarm.lease_ms * MS;
	k->epoch = s->model.epoch;
	k->served_at = s->now;
	heap_push(&s->heap, (struct event){.at = s->now, .run = run_say});
}

void
stolen_key_start(struct sim *s, int64_t from)
{
	if (!s->stolen_key.on)
		return;
	s->stolen_key.until = from + SETTLE_SECONDS * SECOND;
	heap_push(&s->heap,
	          (struct event){.at = s->stolen_key.until,
	                         .run = run_steal,
	                         .b = (uint64_t)(s->stolen_key.until + TRY_SECONDS * SECOND)});
}
