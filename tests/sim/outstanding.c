/* A new master waits for sessions that may cache or wait for a lock, and until they have returned
 * nothing changes that they may have cached. Which sessions these are is written in the log, and
 * that they return is seen where their clients send it. */
#include "tests/sim/sim.h"

static struct model_session *
session_of(struct model *m, uint64_t id)
{
	for (size_t i = 0; i < m->sessions_n; i++)
		if (m->sessions[i].id == id)
			return &m->sessions[i];
	return NULL;
}

void
outstanding_begin(struct model *m)
{
	m->awaits = false;
	for (size_t i = 0; i < m->sessions_n; i++) {
		struct model_session *s = &m->sessions[i];

		s->outstanding = s->alive && s->awaited && !s->given_up;
		m->awaits |= s->alive && s->awaited;
	}
}

static void
returned(struct model *m, uint64_t id, bool given_up)
{
	struct model_session *s = session_of(m, id);

	if (s == NULL)
		return;
	s->outstanding = false;
	s->given_up |= given_up;
}

/* Who asks for a new session has nothing cached in an earlier one. */
void
outstanding_frame(struct sim *s, int machine, struct bytes frame)
{
	struct message m;

	if (machine >= MACHINES_MAX ||
	    (wire_frame_code(frame) != MSG_returned &&
	     wire_frame_code(frame) != MSG_open_session) ||
	    wire_get_frame(frame, &m) != RC_OK)
		return;
	if (m.code == MSG_returned && m.returned.epoch == s->model.epoch) {
		returned(&s->model, m.returned.session, false);
	} else if (m.code == MSG_open_session && m.open_session.session == 0) {
		returned(&s->model, m.open_session.earlier, true);
		returned(&s->model, s->machines[machine].session, true);
	}
}

/* Locks, and opens of files that others may have open, too, are not cached. */
static bool
changes_what_is_cached(enum op_code code)
{
	if (code == OP_end_session || code == OP_finish_session)
		return true;
	return wire_op(code)->class == OP_CLASS_COMMAND && code != OP_acquire &&
	       code != OP_release && code != OP_cancel && code != OP_open_ephemeral;
}

void
outstanding_check(struct sim *s, const struct op *op)
{
	const struct model *m = &s->model;
	const int64_t lease = setting_changes_least(s, SETTING_cache_lease);
	const uint64_t ends = op->code == OP_end_session ? op->end_session.session : 0;

	if (!m->awaits || s->script != NULL || !sim_leases_hold(s) ||
	    !changes_what_is_cached(op->code) || s->now - m->epoch_from >= lease / 100 * 98)
		return;
	for (size_t i = 0; i < m->sessions_n; i++)
		if (m->sessions[i].alive && m->sessions[i].outstanding && m->sessions[i].id != ends)
			sim_fail(s, "%s takes effect, and session %lu has not returned",
			         wire_op(op->code)->name, (unsigned long)m->sessions[i].id);
}

/* When a barrier was needed the log says that it has fallen, once. */
static void
settled(struct sim *s, uint64_t epoch)
{
	struct model *m = &s->model;

	if (epoch != m->epoch)
		return;
	if ((!m->awaits || m->settled == epoch) && s->script == NULL)
		sim_fail(s, "epoch %lu is settled, and nobody was waited for",
		         (unsigned long)epoch);
	m->settled = epoch;
	m->settled_index = m->applied;
	if (s->now - m->epoch_from >= setting_changes_least(s, SETTING_cache_lease) / 100 * 98)
		m->lapsed_before = m->epoch_from;
}

/* Since a barrier fell the lock was free: the next master knows of a waiter as little as of any
 * other session, until it is granted. */
bool
outstanding_unclaimed(const struct sim *s, const struct item *it)
{
	return it->holders_n == 0 && it->delay_mode == LOCK_NONE &&
	       it->lock_changed < s->model.settled_index;
}

/* The barrier for the place has fallen, and its client comes too late for it. */
bool
outstanding_lapsed(struct sim *s, const struct record *r)
{
	const struct item *it = model_item(&s->model, r->op.acquire.acquire.node);

	return r->queued_at < s->model.lapsed_before && it != NULL && outstanding_unclaimed(s, it);
}

void
outstanding_decide(struct sim *s, const struct op *op)
{
	struct model_session *session = session_of(&s->model, op->await_session.session);

	if (op->code == OP_settle_epoch)
		settled(s, op->settle_epoch.epoch);
	else if (session != NULL)
		session->awaited = op->await_session.awaited;
}

void
outstanding_check_end(struct sim *s)
{
	const struct model *m = &s->model;
	const int64_t lease = setting_changes_greatest(s, SETTING_cache_lease);

	if (m->awaits && m->settled != m->epoch && s->now - m->epoch_from > 2 * lease + SECOND)
		sim_fail(s, "epoch %lu is not settled", (unsigned long)m->epoch);
}
