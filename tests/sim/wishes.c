/* What operators want, in words, and what they want next. */
#include <stdio.h>
#include <string.h>
#include "tests/sim/sim.h"

enum { NOBODY = 200 }; /* an id that is never given */

/* ---- in words ---- */

const char *
wish_text(const struct wish *w)
{
	static char text[80];

	if (w->what == OPERATION_ADD_REPLICA)
		snprintf(text, sizeof text, "add a replica at host%u", w->body);
	else if (w->what == OPERATION_REMOVE_REPLICA)
		snprintf(text, sizeof text, "remove replica %u", w->id);
	else if (w->what == OPERATION_SET)
		snprintf(text, sizeof text, "set %s to %lu", setting_info(w->set.setting)->name,
		         (unsigned long)w->set.value);
	else if (w->what == OPERATION_DESTROY_SESSION)
		snprintf(text, sizeof text, "end session %lu", (unsigned long)w->session);
	else if (w->what == OPERATION_UNLOCK)
		snprintf(text, sizeof text, "release the lock of node %lu", (unsigned long)w->node);
	else if (w->what == OPERATION_ROTATE_KEY)
		snprintf(text, sizeof text, "rotate the signing key");
	else if (w->what == OPERATION_ADD_PRINCIPAL)
		snprintf(text, sizeof text, "add the guest");
	else if (w->what == OPERATION_REMOVE_PRINCIPAL)
		snprintf(text, sizeof text, "remove the guest");
	else if (w->id == 0)
		snprintf(text, sizeof text, "hand the mastership over");
	else
		snprintf(text, sizeof text, "hand the mastership over to replica %u", w->id);
	return text;
}

/* ---- wishes ---- */

bool
operators_doom(const struct sim *s, uint8_t id)
{
	for (int i = 0; i < s->swarm.operators; i++) {
		const struct wish *w = &s->operators[i].wish;

		if (w->what == OPERATION_REMOVE_REPLICA && w->id == id && !w->foolish)
			return true;
	}
	return false;
}

static bool
may_add(const struct sim *s)
{
	int members = members_count(s, MEMBER_VOTER) + members_count(s, MEMBER_LEARNER);

	for (int i = 0; i < s->swarm.operators; i++)
		members += s->operators[i].wish.what == OPERATION_ADD_REPLICA;
	return members < LIMIT_REPLICAS && s->bodies < HOSTS_MAX;
}

static struct wish
wish_add(struct sim *s)
{
	if (!may_add(s))
		return (struct wish){0};
	return (struct wish){.what = OPERATION_ADD_REPLICA, .body = ++s->bodies};
}

static bool
may_remove(const struct sim *s, const struct host *n)
{
	enum member_role role = members_role(s, n->id);

	return role != 0 && role != MEMBER_REMOVED && !operators_doom(s, (uint8_t)n->id) &&
	       !members_spare_vote(s, n);
}

static struct wish
wish_remove(const struct sim *s, const struct host *n)
{
	if (n == NULL || !may_remove(s, n))
		return (struct wish){0};
	return (struct wish){.what = OPERATION_REMOVE_REPLICA, .id = (uint8_t)n->id};
}

static struct wish
wish_transfer(struct sim *s)
{
	uint8_t id = rng_chance(&s->rng, 300) ? 0 : (uint8_t)sim_random_host(s)->id;

	if (members_count(s, MEMBER_VOTER) < 2)
		return (struct wish){0};
	return (struct wish){.what = OPERATION_TRANSFER, .id = id};
}

static struct wish
wish_setting(struct sim *s)
{
	return (struct wish){.what = OPERATION_SET, .set = setting_changes_draw(s)};
}

/* Is it the session of a client, which need not have been told of it yet? */
static bool
is_somebodys(const struct sim *s, const struct model_session *session)
{
	for (int i = 0; i < s->machines_n; i++)
		if (s->machines[i].session == session->id ||
		    memcmp(s->machines[i].nonce, session->nonce, LIMIT_NONCE) == 0)
			return true;
	return false;
}

/* The lasting session of a client that died before it was told of it, and counts as an opener of
 * what is marked since; 0: there is none. */
static uint64_t
nobodys_session(const struct sim *s)
{
	for (size_t i = 0; i < s->model.sessions_n; i++) {
		const struct model_session *session = &s->model.sessions[i];

		if (session->alive && session->lasting && !is_somebodys(s, session))
			return session->id;
	}
	return 0;
}

struct wish
wish_left(const struct sim *s)
{
	uint64_t left = 0;

	for (int i = 0; i < s->machines_n && left == 0; i++)
		left = s->machines[i].left;
	if (left == 0 && s->calm)
		left = nobodys_session(s);
	return (struct wish){.what = left != 0 ? OPERATION_DESTROY_SESSION : 0, .session = left};
}

/* That of a client that died, or of any. */
static struct wish
wish_destroy(struct sim *s)
{
	const struct machine *m = &s->machines[rng_below(&s->rng, (uint64_t)s->machines_n)];
	const struct wish left = wish_left(s);

	if (left.what != 0 || m->session == 0)
		return left;
	return (struct wish){.what = OPERATION_DESTROY_SESSION, .session = m->session};
}

/* Somebody's lock, if there is one that is held. */
static struct wish
wish_unlock(struct sim *s)
{
	const uint64_t from = rng_below(&s->rights.rng, s->model.next);

	for (uint64_t n = 0; n < s->model.next; n++) {
		const struct item *it = model_item(&s->model, (from + n) % s->model.next);

		if (model_item_alive(it) && it->holders_n > 0)
			return (struct wish){.what = OPERATION_UNLOCK,
			                     .node = it->node,
			                     .seen = it->last_fence,
			                     .session = rng_chance(&s->rights.rng, 500)
			                                    ? it->holders[0].session
			                                    : 0,
			                     .keep_delay = rng_chance(&s->rights.rng, 500)};
	}
	return (struct wish){0};
}

/* Another one is master; this one does not know it yet, and may be removed meanwhile. */
struct host *
wish_deposed_master(struct sim *s)
{
	const struct host *serving = sim_serving(s);

	for (int i = 0; i < s->hosts_n && serving != NULL; i++) {
		struct host *n = &s->hosts[i];

		if (n->up && n != serving && px_role(replica_px(n->replica)) == PX_MASTER)
			return n;
	}
	return NULL;
}

/* Its key belongs to one that was removed. */
static struct wish
wish_add_again(const struct sim *s, const struct host *n)
{
	if (n == NULL || members_role(s, n->id) != MEMBER_REMOVED)
		return (struct wish){0};
	return (struct wish){.what = OPERATION_ADD_REPLICA, .body = n->body, .foolish = true};
}

static struct wish
wish_nonsense(struct sim *s)
{
	if (rng_chance(&s->rng, 500))
		return (
		    struct wish){.what = OPERATION_REMOVE_REPLICA, .id = NOBODY, .foolish = true};
	return wish_add_again(s, sim_random_host(s));
}

/* Somebody whom nothing else can help. */
struct host *
wish_hopeless(struct sim *s)
{
	for (int id = 1; id <= s->hosts_n; id++) {
		struct host *n = &s->hosts[id - 1];
		enum member_role role = members_role(s, id);

		if ((role == MEMBER_VOTER || role == MEMBER_LEARNER) && n->body != 0 &&
		    (n->gone || host_is_lost(n) || (s->calm && n->up && !members_reaches(s, n))))
			return n;
	}
	return NULL;
}

struct wish
wish_draw(struct sim *s)
{
	struct host *master = wish_deposed_master(s);
	uint64_t kind = rng_below(&s->rng, 100);
	int members = members_count(s, MEMBER_VOTER) + members_count(s, MEMBER_LEARNER);
	const struct wish guest = guest_wish(s);

	if (guest.what != 0)
		return guest;
	if (master != NULL)
		return members_role(s, master->id) == MEMBER_REMOVED ? wish_add_again(s, master)
		                                                     : wish_remove(s, master);
	if (rng_chance(&s->rng, wish_left(s).what != 0 ? 400 : 60))
		return wish_destroy(s);
	if (rng_chance(&s->rights.rng, 100))
		return (struct wish){.what = OPERATION_ROTATE_KEY};
	if (rng_chance(&s->rights.rng, s->swarm.unlocks))
		return wish_unlock(s);
	if (rng_chance(&s->rng, s->swarm.settings))
		return wish_setting(s);
	if (kind < (members < 3 ? 60u : members < 5 ? 40u : 25u))
		return wish_add(s);
	if (kind < 50)
		return wish_remove(s, wish_hopeless(s));
	if (kind < 60)
		return wish_remove(s, sim_serving(s));
	if (kind < 80)
		return wish_remove(s, sim_random_host(s));
	return kind < 95 ? wish_transfer(s) : wish_nonsense(s);
}

/* In the calm part only what is broken is mended, and what was removed for that is replaced. */
struct wish
wish_draw_calm(struct sim *s, struct operator* o)
{
	struct wish none = {0};

	if (o->id != 0)
		return none;
	if (wish_left(s).what != 0)
		return wish_left(s);
	if (guest_wish_calm(s).what != 0)
		return guest_wish_calm(s);
	if (members_count(s, MEMBER_VOTER) < 3 && wish_hopeless(s) != NULL && may_add(s) &&
	    members_count(s, MEMBER_LEARNER) == 0)
		return wish_add(s);
	return wish_remove(s, wish_hopeless(s));
}
