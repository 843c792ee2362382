/* What processes believe to hold. No two believe in one lock. */
#include "cell/base/memory.h"
#include "tests/sim/sim.h"

/* Does this client, by its own clock, have the right to think that its session lives? */
bool
machine_leased(const struct sim *s, const struct machine *m)
{
	struct client_status status;

	if (!m->up)
		return false;
	status = client_status(m->client);
	return status.state == CLIENT_SAFE &&
	       mono_before(clock_local(&m->clock, s->now), status.lease_end);
}

bool
machine_has_parted(const struct sim *s, const struct machine *m)
{
	const struct client_status status = client_status(m->client);

	return m->lasting && m->closing && status.state == CLIENT_CLOSED &&
	       mono_before(clock_local(&m->clock, s->now), status.lease_end);
}

bool
machine_believes(const struct sim *s, const struct machine *m)
{
	return machine_leased(s, m) && !machine_is_destroyed(m);
}

bool
machine_is_destroyed(const struct machine *m)
{
	return m->session == m->destroyed;
}

void
machine_session_destroyed(struct sim *s, uint64_t session)
{
	for (int i = 0; i < s->machines_n; i++)
		if (s->machines[i].session == session)
			s->machines[i].destroyed = session;
}

void
machine_check_exclusion(struct sim *s, const struct machine *m, const struct hold *h)
{
	if (!sim_leases_hold(s) || machine_is_destroyed(m))
		return;
	for (int i = 0; i < s->machines_n; i++) {
		const struct machine *other = &s->machines[i];

		for (size_t j = 0; j < other->holds_n && machine_believes(s, other); j++) {
			const struct hold *o = &other->holds[j];

			if (o->node != h->node || (other == m && o->owner == h->owner))
				continue;
			if (o->mode == LOCK_EXCLUSIVE || h->mode == LOCK_EXCLUSIVE)
				sim_fail(s, "clients %d and %d both hold the lock of %s", m->id + 1,
				         other->id + 1, trace_path(s, h->node));
		}
	}
}

void
machine_add_hold(struct sim *s, struct machine *m, struct hold hold)
{
	hold.since = s->now;
	for (size_t i = 0; i < m->holds_n; i++) {
		if (m->holds[i].node == hold.node && m->holds[i].owner == hold.owner) {
			m->holds[i] = m->holds[--m->holds_n];
			break;
		}
	}
	if (m->closing || unlocks_has(s, hold.node, m->session, hold.acquisition))
		return; /* nobody is left who could believe anything, or it is told otherwise */
	machine_check_exclusion(s, m, &hold);
	watches_holds(s, m, &hold);
	ARRAY_ROOM(m->holds, m->holds_n, m->holds_room);
	m->holds[m->holds_n++] = hold;
}

/* From the moment in which it asks for the release nobody believes any more. */
void
machine_drop_hold(struct machine *m, uint64_t node, uint64_t acquisition)
{
	for (size_t i = 0; i < m->holds_n; i++) {
		if (m->holds[i].node == node && m->holds[i].acquisition == acquisition) {
			m->holds[i] = m->holds[--m->holds_n];
			return;
		}
	}
}

void
machine_drop_owner(struct machine *m, uint64_t node, uint64_t owner)
{
	for (size_t i = 0; i < m->holds_n; i++)
		if (m->holds[i].node == node && m->holds[i].owner == owner)
			m->holds[i--] = m->holds[--m->holds_n];
}

/* Who asks for less has to reckon with others from then on; who waits for a conversion may lose
 * what he had over it, as with flock(2). */
void
machine_weaken_hold(struct machine *m, const struct acquire *a)
{
	for (size_t i = 0; i < m->holds_n; i++) {
		struct hold *h = &m->holds[i];

		if (h->node != a->node || h->owner != a->owner)
			continue;
		if (a->mode < h->mode)
			h->mode = (enum lock_mode)a->mode;
		if (a->wait)
			m->holds[i--] = m->holds[--m->holds_n];
	}
}

bool
machine_made(const struct machine *m, const struct record *r)
{
	return r->machine == m->id && r->life == m->life &&
	       (r->session == 0 || r->session == m->session);
}

static enum lock_mode
held_mode(const struct machine *m, uint64_t node, uint64_t acquisition)
{
	for (size_t i = 0; i < m->holds_n; i++)
		if (m->holds[i].node == node && m->holds[i].acquisition == acquisition)
			return m->holds[i].mode;
	return LOCK_NONE;
}

/* A release or a cancel: from then on nobody believes in that acquisition, or waits for it. */
void
machine_give_up(struct sim *s, struct machine *m, uint64_t node, uint64_t acquisition)
{
	const enum lock_mode mode =
	    machine_believes(s, m) ? held_mode(m, node, acquisition) : LOCK_NONE;

	machine_drop_hold(m, node, acquisition);
	for (size_t i = 0; i < s->history.acquires_n; i++) {
		struct record *r = s->history.acquires[i];
		const struct acquire *a = &r->op.acquire.acquire;

		if (machine_made(m, r) && a->node == node && a->acquisition == acquisition) {
			r->waiting = false;
			r->given_up = true;
			if (a->mode == mode && r->session != 0 && sim_leases_hold(s))
				judgement_held(s, r);
		}
	}
}
