/* Locks that operators release, while their holders live on. */
#include "cell/base/memory.h"
#include "tests/sim/mount_locks.h"
#include "tests/sim/sim.h"

static void
note(const struct sim *s, struct item *it, uint64_t session, uint64_t acquisition)
{
	ARRAY_ROOM(it->unlocked, it->unlocked_n, it->unlocked_room);
	it->unlocked[it->unlocked_n++] = (struct unlocked){session, acquisition, s->now};
}

bool
unlocks_has(struct sim *s, uint64_t node, uint64_t session, uint64_t acquisition)
{
	const struct item *it = model_item(&s->model, node);

	for (size_t i = 0; it != NULL && i < it->unlocked_n; i++)
		if (it->unlocked[i].session == session &&
		    it->unlocked[i].acquisition == acquisition)
			return true;
	return false;
}

bool
unlocks_since(const struct item *it, uint64_t session, int64_t at)
{
	for (size_t i = 0; i < it->unlocked_n; i++)
		if (it->unlocked[i].session == session && it->unlocked[i].at >= at)
			return true;
	return false;
}

/* Is it one of those that the operator has seen? */
static bool
is_named(const struct holder *h, uint64_t session, uint64_t fence)
{
	return (session == 0 || h->session == session) && h->now.fence <= fence;
}

static const struct holder *
first_named(const struct item *it, uint64_t session, uint64_t fence)
{
	for (size_t i = 0; i < it->holders_n; i++)
		if (is_named(&it->holders[i], session, fence))
			return &it->holders[i];
	return NULL;
}

/* Its clients are told later, and may believe what they like until then. */
void
unlocks_apply(struct sim *s, uint64_t index, const struct op_unlock *op)
{
	struct item *it = model_item(&s->model, op->node);
	const struct holder *h;

	if (!model_item_alive(it))
		return;
	for (size_t i = 0; i < it->holders_n; i++) {
		h = &it->holders[i];
		if (!is_named(h, op->session, op->fence))
			continue;
		note(s, it, h->session, h->now.acquisition);
		note(s, it, h->session, h->earlier.acquisition);
		for (int m = 0; m < s->machines_n; m++)
			if (s->machines[m].session == h->session)
				machine_drop_owner(&s->machines[m], it->node, h->owner);
	}
	while ((h = first_named(it, op->session, op->fence)) != NULL)
		locks_session_ends(s, it, index, h->session, op->fence, op->keep_delay);
}

void
unlocks_check(struct sim *s, uint64_t node, uint64_t session, uint64_t fence)
{
	const struct item *it = model_item(&s->model, node);

	if (session == 0 && model_item_alive(it) && sim_leases_hold(s) &&
	    first_named(it, 0, fence) != NULL)
		sim_fail(s, "an operator is told that the lock of %s is released, and it is held",
		         trace_path(s, node));
}

bool
unlocks_told(struct sim *s, struct machine *m, const struct client_grant *g)
{
	if (g->rc != RC_INTR)
		return false;
	if (!unlocks_has(s, g->node, m->session, g->acquisition))
		sim_fail(s, "client %d is told that it has lost what no operator took", m->id + 1);
	if (m->mount != NULL)
		mounts_event(s, m, (struct mount_event){.kind = MOUNT_GRANT, .grant = g});
	else
		work_granted(s, m, g); /* it may wait, and not know that it had the lock */
	return true;
}

struct lock_check {
	struct sim *sim;
	const struct machine *machine;
};

static void
check_lock(void *user, uint64_t node, uint64_t acquisition)
{
	const struct lock_check *c = user;

	if (unlocks_has(c->sim, node, c->machine->session, acquisition))
		sim_fail(c->sim, "at the end client %d has a lock that an operator has released",
		         c->machine->id + 1);
}

/* Every mount has been told, or has asked. */
void
unlocks_check_end(struct sim *s)
{
	for (int i = 0; i < s->machines_n; i++) {
		struct lock_check c = {s, &s->machines[i]};

		if (c.machine->up && c.machine->mount != NULL)
			mount_locks_each(c.machine->mount, check_lock, &c);
	}
}
