/* The digests of the state: replicas tell theirs to the master at certain entries, and when most of
 * them are the same the master puts it into the log, for the others to compare with their own. */
#include "tests/sim/sim.h"

enum {
	SETTLE_S = 4, /* of calm, until processes that were down are there */
	TELL_S = 2,   /* until the others have told theirs, and it is in the log */
	BEHIND = 32,  /* entries of which a replica that has a state applies each */
};

static uint64_t
every(const struct sim *s)
{
	return s->swarm.digest_every != 0 ? s->swarm.digest_every : DIVERGENCE_EVERY;
}

static struct agreed_place *
place_of(struct sim *s, uint64_t index)
{
	return &s->model.agreed[index / every(s) % DIVERGENCE_KEPT];
}

/* Do most voters come to the entry by applying those before it? One that is far behind, or lacks
 * what the master's log no longer has, gets the state of another one, and has no digest of its
 * own. */
static bool
is_followed(struct sim *s, uint64_t index)
{
	const struct host *master = sim_serving(s);
	const uint64_t first = master != NULL ? px_status(replica_px(master->replica))->first : 0;
	int voters = 0, near = 0;

	for (int i = 0; i < s->hosts_n; i++) {
		const struct host *n = &s->hosts[i];

		if (members_role(s, n->id) != MEMBER_VOTER)
			continue;
		voters++;
		if (n->up && tree_applied(replica_tree(n->replica)) + 1 >= first)
			near += tree_applied(replica_tree(n->replica)) + BEHIND >= index;
	}
	return near > voters / 2;
}

void
agreed_applied(struct sim *s, uint64_t index)
{
	if (index % every(s) == 0)
		*place_of(s, index) = (struct agreed_place){index, s->model.epoch, s->now,
		                                            .followed = is_followed(s, index)};
}

void
agreed_told(struct sim *s, uint64_t index)
{
	if (place_of(s, index)->index == index)
		place_of(s, index)->told = true;
}

void
agreed_check_end(struct sim *s)
{
	const int64_t from = (s->swarm.chaos_ms + SETTLE_S * 1000) * MS;
	const struct px_members *list = px_members(replica_px(sim_serving(s)->replica));

	if (list->n < 2)
		return; /* there are no others */
	for (int i = 0; i < DIVERGENCE_KEPT; i++) {
		const struct agreed_place *p = &s->model.agreed[i];

		if (p->index > list->version && p->at > from && p->at < s->now - TELL_S * SECOND &&
		    p->epoch == s->model.epoch && p->followed && !p->told)
			sim_fail(s, "no digest of entry %lu is in the log",
			         (unsigned long)p->index);
	}
}
