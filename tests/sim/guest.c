/* In some runs the last client has the key of another principal than the others, which operators
 * add, remove and add again while its client goes on. When it is removed its sessions end: at once
 * where the client says that it knows, and else when its leave to cache is over. Its client also
 * tells hosts' names now and then that are none. */
#include <stdio.h>
#include "tests/sim/sim.h"

enum {
	PROMPT_MS = 500,  /* for the end of a session whose client is there */
	SETTLE_MS = 5000, /* of calm, or of an epoch, before sessions must end in time */
	SLACK_MS = 3000,
};

bool
guest_is(const struct sim *s, const struct machine *m)
{
	return s->guest.on && m->id == s->guest.machine;
}

/* 0: it is not there. */
static uint64_t
generation(const struct sim *s)
{
	for (size_t i = 0; i < s->model.principals_n; i++)
		if (bytes_equal(bytes_of(s->model.principals[i].text), bytes_of(GUEST)))
			return s->model.principals[i].generation;
	return 0;
}

/* An operator may remove what it sees, and nothing later. */
static struct wish
wish_removal(struct sim *s)
{
	s->guest.unwanted = generation(s);
	return (struct wish){.what = OPERATION_REMOVE_PRINCIPAL, .seen = s->guest.unwanted};
}

/* ---- wishes ---- */

struct wish
guest_wish(struct sim *s)
{
	struct guest *g = &s->guest;
	const bool there = generation(s) != 0;

	if (!g->on || !rng_chance(&g->rng, there ? 150 : 500))
		return (struct wish){0};
	return there ? wish_removal(s) : (struct wish){.what = OPERATION_ADD_PRINCIPAL};
}

/* Once it is removed while nothing fails. */
struct wish
guest_wish_calm(struct sim *s)
{
	const struct guest *g = &s->guest;

	if (!g->on)
		return (struct wish){0};
	if (generation(s) == 0)
		return (struct wish){.what = OPERATION_ADD_PRINCIPAL};
	if (!g->removed && s->machines[g->machine].state == CLIENT_SAFE)
		return wish_removal(s);
	return (struct wish){0};
}

const char *
guest_waits_for(const struct sim *s)
{
	if (!s->guest.on)
		return NULL;
	if (generation(s) == 0)
		return "the guest is to be added";
	return s->guest.removed ? NULL : "the guest is to be removed";
}

/* ---- what it had ---- */

static bool
serves_still(struct sim *s)
{
	return s->guest.epoch == s->model.epoch && sim_serving(s) != NULL;
}

static void
run_prompt(struct sim *s, struct event *e)
{
	if (serves_still(s) && model_alive(&s->model, e->a))
		sim_fail(s, "the guest was removed, its client knows, and session %lu goes on",
		         (unsigned long)e->a);
}

/* By the master, which has read all that was said, on a connection that nothing else has closed. */
static bool
is_heard(struct sim *s, const struct machine *m)
{
	const struct host *n = sim_serving(s);
	const struct conn *c = m->conn != 0 ? s->net.conns[m->conn - 1] : NULL;

	return n != NULL && m->up && !m->closing && m->state == CLIENT_SAFE &&
	       m->paused_until <= s->now && c != NULL && c->client_open && !c->held &&
	       c->stalled_until <= s->now && c->cut_to_node == INT64_MAX &&
	       c->last_to_node <= s->now && c->node == n->id - 1;
}

/* What the end of its session changes is cached by nobody who has to be waited for. */
static bool
all_are_heard(struct sim *s)
{
	for (int i = 0; i < s->machines_n; i++)
		if (!is_heard(s, &s->machines[i]))
			return false;
	return model_sessions_alive(&s->model) == (size_t)s->machines_n;
}

void
guest_removed(struct sim *s)
{
	struct guest *g = &s->guest;
	const struct machine *m;

	if (!g->on)
		return;
	if (generation(s) > g->unwanted)
		sim_fail(s, "the guest is removed, and was added since that was wanted");
	m = &s->machines[g->machine];
	g->removed_at = s->now;
	g->epoch = s->model.epoch;
	machine_session_destroyed(s, m->session);
	if (s->now < (s->swarm.chaos_ms + SETTLE_MS) * MS)
		return;
	g->removed = true;
	if (all_are_heard(s))
		heap_push(&s->heap, (struct event){.at = s->now + PROMPT_MS * MS,
		                                   .run = run_prompt,
		                                   .a = m->session});
}

static void
run_check(struct sim *s, struct event *e)
{
	const int64_t lease = setting_changes_greatest(s, SETTING_cache_lease);
	const uint64_t session = model_unowned_session(&s->model);
	const struct host *master = sim_serving(s);
	int64_t since = s->swarm.chaos_ms * MS;

	/* The lease of the only voter does not end while it is paused, or its disk slow. */
	if (master != NULL && master->paused_until > since)
		since = master->paused_until;
	if (master != NULL && master->disk.log_under_way.busy > since)
		since = master->disk.log_under_way.busy;
	since = s->model.epoch_from > since ? s->model.epoch_from : since;
	since += SETTLE_MS * MS;
	since = s->guest.removed_at > since ? s->guest.removed_at : since;
	if (session != 0 && master != NULL && s->now > since + lease + SLACK_MS * MS)
		sim_fail(s, "the guest was removed, and session %lu goes on",
		         (unsigned long)session);
	heap_push(&s->heap, (struct event){.at = e->at + SECOND, .run = run_check});
}

void
guest_draw(struct sim *s)
{
	struct guest *g = &s->guest;

	g->rng = rng_seeded(s->seed + 6);
	g->on = s->swarm.operators > 0 && s->machines_n > 1 && !s->swarm.bulk && !s->hub.on &&
	        s->liar.id == 0 && rng_chance(&g->rng, 300);
	g->machine = s->machines_n - 1;
	if (g->on)
		heap_push(&s->heap, (struct event){.at = SECOND, .run = run_check});
}

/* ---- what it says ---- */

bool
guest_lies(struct sim *s, const struct machine *m, const struct message *said,
           struct buffer *instead)
{
	struct message lie = *said;

	if (!guest_is(s, m) || s->calm || said->code != MSG_open_session ||
	    !rng_chance(&s->guest.rng, 100))
		return false;
	lie.open_session.host = bytes_of("a\nb");
	wire_put_frame(instead, &lie);
	return true;
}
