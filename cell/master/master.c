/* Begin and end of a mastership, the dispatch of messages and of applied commands, and the frame of
 * every step. */
#include <sodium.h>
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"
#include "cell/master/master.h"

struct master *
master_new(const struct master_config *config, const struct tree *tree)
{
	struct master *m = memory_zero(1, sizeof *m);

	must(config->drift_permille >= 0 && config->drift_permille < 1000);
	m->config = *config;
	if (m->config.step_work == 0)
		m->config.step_work = STEP_WORK;
	if (m->config.keepalives == 0)
		m->config.keepalives = KEEPALIVES;
	m->tree = tree;
	m->deadline = MONO_NEVER;
	m_timer_init(m);
	m_ticket_set_keys(m);
	m_proposals_init(m);
	TAILQ_INIT(&m->order.runnable);
	TAILQ_INIT(&m->order.behind_barrier);
	TAILQ_INIT(&m->order.without_lease);
	TAILQ_INIT(&m->order.at_gate);
	gate_init(&m->gate);
	TAILQ_INIT(&m->queues.touched);
	TAILQ_INIT(&m->ending.due);
	TAILQ_INIT(&m->opening.parked);
	m_await_init(m);
	TAILQ_INIT(&m->barrier.outstanding);
	m_delay_init(m);
	m_lowered_init(m);
	m_event_init(m);
	m_missed_init(m);
	return m;
}

void
master_set_keys(struct master *m, const struct master_keys *keys)
{
	m->config.keys = *keys;
	m_ticket_set_keys(m);
}

/* Frees all that a master has only while it serves. */
static void
clear(struct master *m)
{
	m_barrier_clear(m);
	m_session_free_all(m);
	m_proposals_clear(m);
	m_end_clear(m);
	m_removed_clear(m);
	m_purge_clear(m);
	m_delay_clear(m);
	gate_clear(&m->gate);
	m_lowered_end(m);
	must(RB_EMPTY(&m->queues.by_node) && RB_EMPTY(&m->queues.waiters));
	must(RB_EMPTY(&m->watches.nodes));
	must(TAILQ_EMPTY(&m->events.waiting) && TAILQ_EMPTY(&m->missed.waiting));
	must(TAILQ_EMPTY(&m->queues.touched) && RB_EMPTY(&m->timers.by_time));
	must(TAILQ_EMPTY(&m->order.runnable) && TAILQ_EMPTY(&m->order.behind_barrier));
	must(TAILQ_EMPTY(&m->order.without_lease) && TAILQ_EMPTY(&m->order.at_gate));
	must(TAILQ_EMPTY(&m->opening.parked) && TAILQ_EMPTY(&m->ending.due));
}

void
master_free(struct master *m)
{
	struct m_connection *c;

	while ((c = RB_ROOT(&m->connections.by_id)) != NULL)
		m_connection_free(m, c);
	clear(m);
	must(RB_EMPTY(&m->usages));
	m_proposals_free(m);
	sodium_memzero(m, sizeof *m);
	free(m);
}

void
master_update_free(struct master_update *u)
{
	for (size_t i = 0; i < u->proposals_n; i++)
		free((void *)u->proposals[i].data);
	for (size_t i = 0; i < u->sends_n; i++)
		free((void *)u->sends[i].frame.data);
	free(u->proposals);
	free(u->sends);
	free(u->closes);
	*u = (struct master_update){0};
}

/* ---- the frame of a step ---- */

void
m_step_begin(struct master *m, struct master_clock c, struct master_update *u)
{
	mono_t last = m->now;

	m->now = c.now;
	m->wall_ns = c.wall_ns;
	m->has_lease = c.lease;
	m->full = c.full;
	m->update = u;
	m->work = 0;
	must(m->proposals.commands_n == 0);
	if (mono_before(m->deadline, m->now))
		m_lease_account_pause(m, last);
	m->deadline = MONO_NEVER;
}

static bool
inherits(const struct master *m)
{
	return m->sessions.inherited != m->sessions.inherit_to ||
	       m->delays.inherited != UINT64_MAX || m->lives.inherited != UINT64_MAX;
}

/* Is any request parked that may be able to begin in this step? */
static bool
has_parked(const struct master *m)
{
	return !TAILQ_EMPTY(&m->order.runnable) || !TAILQ_EMPTY(&m->order.behind_barrier) ||
	       !TAILQ_EMPTY(&m->order.without_lease) || !TAILQ_EMPTY(&m->order.at_gate);
}

/* Is there more that can be done now? */
static bool
has_more(struct master *m)
{
	if (inherits(m) || m->removed.due || m->noted < m->applied ||
	    !TAILQ_EMPTY(&m->events.waiting) || !TAILQ_EMPTY(&m->missed.waiting))
		return true;
	if (!m->barrier.stands &&
	    (!TAILQ_EMPTY(&m->opening.parked) || !TAILQ_EMPTY(&m->ending.due) ||
	     (m->ending.unfinished && m_end_has_more(m)) || m_purge_is_due(m) ||
	     m_expiry_is_due(m)))
		return true;
	return (has_parked(m) && m_order_next(m) != NULL) || !TAILQ_EMPTY(&m->queues.touched);
}

/* A part is called only if something waits for it. */
void
m_step_end(struct master *m)
{
	if (inherits(m)) {
		/* A new master does not know what its predecessor promised: every session gets a
		 * whole lease before it may expire, and every lock-delay and time to live runs from
		 * its start. */
		if (!m_session_all_inherited(m)) {
			m_session_inherit(m);
			if (m_session_all_inherited(m))
				m_barrier_counted(m);
		}
		m_delay_inherit(m);
	}
	if (m->removed.due)
		m_removed_run(m);
	if (!m->barrier.stands) {
		/* The parts that wait until the barrier has fallen. */
		if (!TAILQ_EMPTY(&m->opening.parked))
			m_opening_run(m);
		if (!TAILQ_EMPTY(&m->ending.due))
			m_end_run(m);
		if (m->ending.unfinished && m_end_has_more(m))
			m_end_finish(m);
		if (m_purge_is_due(m))
			m_purge_run(m);
	}
	if (has_parked(m))
		m_request_run(m);
	/* After the requests that renew a file. */
	if (!m->barrier.stands && m_expiry_is_due(m))
		m_expiry_run(m);
	if (!TAILQ_EMPTY(&m->queues.touched))
		m_queue_run(m);
	if (m->barrier.unsettled && TAILQ_EMPTY(&m->queues.touched))
		m_barrier_settle(m);
	if (m->lengthened.due)
		m_lengthened_propose(m);
	if (!TAILQ_EMPTY(&m->gate.untold))
		m_cache_tell(m);
	/* First what earlier steps have made: else it would wait until all else is made. */
	if (!TAILQ_EMPTY(&m->events.waiting))
		m_event_send(m);
	if (m->noted < m->applied)
		m_event_make(m);
	if (!TAILQ_EMPTY(&m->missed.waiting))
		m_missed_run(m);
	if (!TAILQ_EMPTY(&m->events.waiting))
		m_event_send(m);
	must(m->proposals.commands_n == 0);
	m->deadline = m->timers.next;
	if (has_more(m))
		m->deadline = m->now;
	else if (!TAILQ_EMPTY(&m->order.without_lease))
		m->deadline = mono_min(m->deadline, mono_add(m->now, LEASE_RETRY));
	m->update->deadline = m->deadline;
	m->update = NULL;
}

/* ---- begin and end ---- */

void
master_begin(struct master *m, struct master_clock c, uint64_t epoch, struct master_update *u)
{
	must(!m->serving && epoch != 0 && m->config.keys.n > 0);
	m->serving = true;
	m->epoch = epoch;
	m->applied = tree_applied(m->tree);
	m_event_begin(m);
	m_ticket_begin(m);
	m_end_begin(m);
	m_step_begin(m, c, u);
	m_lengthened_begin(m);
	m_session_begin(m);
	m_delay_begin_epoch(m);
	m_lowered_begin(m);
	m_barrier_raise(m);
	m_step_end(m);
}

void
master_end(struct master *m, uint8_t master, struct master_update *u)
{
	struct message redirect = MESSAGE(redirect, .epoch = m->epoch, .master = master);
	struct m_connection *c;

	must(m->serving);
	m->update = u;
	RB_FOREACH(c, m_connection_tree, &m->connections.by_id) {
		m_connection_send(m, c, &redirect);
		m_connection_leave(m, c);
	}
	clear(m);
	m->serving = false;
	m->deadline = u->deadline = MONO_NEVER;
	m->update = NULL;
}

/* ---- events ---- */

void
master_disconnected(struct master *m, uint64_t conn)
{
	struct m_connection *c = m_connection_find(m, conn);

	if (c != NULL)
		m_connection_free(m, c);
}

static void
dispatch(struct master *m, struct m_connection *c, const struct message *message)
{
	switch (message->code) {
	case MSG_open_session:
		m_opening_receive(m, c, &message->open_session);
		return;
	case MSG_keepalive:
		m_keepalive_receive(m, c, &message->keepalive);
		return;
	case MSG_returned:
		m_barrier_returned(m, c, &message->returned);
		return;
	case MSG_request:
		m_request_receive(m, c, &message->request);
		return;
	case MSG_dropped:
		m_cache_receive(m, c, &message->dropped);
		return;
	case MSG_watch:
		m_watch_receive(m, c, &message->watch);
		return;
	case MSG_sessions_request:
		m_admin_list_sessions(m, c, &message->sessions_request);
		return;
	case MSG_locks_request:
		m_admin_list_locks(m, c, &message->locks_request);
		return;
	case MSG_principals_request:
		m_admin_list_principals(m, c, &message->principals_request);
		return;
	case MSG_check_sequencer:
		m_read_check(m, c, &message->check_sequencer);
		return;
	default:
		m_connection_breach(m, c, "a message that no client sends");
	}
}

void
master_frame(struct master *m, struct master_clock clock, uint64_t conn, struct bytes frame,
             struct master_update *u)
{
	struct m_connection *c = m_connection_find(m, conn);
	const unsigned code = wire_frame_code(frame);
	struct message message;
	bool lists;

	must(m->serving);
	if (c == NULL)
		return;
	m_step_begin(m, clock, u);
	/* The holder of a replica's key has the state, and may list what people are shown of it. */
	lists = (code == MSG_sessions_request || code == MSG_locks_request) &&
	        master_of_member(m, conn);
	if (c->principal.len == 0 && !lists)
		m_connection_deny(m, c, RC_PERM);
	else if (wire_get_frame(frame, &message) == RC_OK)
		dispatch(m, c, &message);
	else
		m_connection_breach(m, c, "a malformed message");
	m_step_end(m);
}

void
master_datagram(struct master *m, struct master_clock clock, uint64_t conn, struct bytes frame,
                struct master_update *u)
{
	const struct m_connection *c = m_connection_find(m, conn);
	struct message message;

	must(m->serving);
	if (c == NULL || wire_get_frame(frame, &message) != RC_OK || message.code != MSG_keepalive)
		return;
	m_step_begin(m, clock, u);
	m_keepalive_datagram(m, c, &message.keepalive);
	m_step_end(m);
}

void
master_redirect(struct master *m, uint64_t conn, struct bytes frame, uint8_t master,
                struct master_update *u)
{
	struct m_connection *c = m_connection_find(m, conn);
	struct message opened = MESSAGE(session_opened, .rc = RC_NOT_MASTER, .master = master);
	struct message redirect = MESSAGE(redirect, .master = master);
	struct message message;

	must(!m->serving);
	if (c == NULL)
		return;
	opened.session_opened.epoch = redirect.redirect.epoch = tree_epoch(m->tree);
	m->update = u;
	if (wire_get_frame(frame, &message) != RC_OK)
		m_connection_breach(m, c, "a malformed message");
	else
		m_connection_send(m, c, message.code == MSG_open_session ? &opened : &redirect);
	m->update = NULL;
}

/* A command of the master's own, or of the replica's, was applied. */
static void
own_applied(struct master *m, const struct tree_answer *answer)
{
	struct own_command *own;

	switch (answer->op) {
	case OP_set_members:
	case OP_check_digest:
	case OP_set_setting:
	case OP_add_principal:
	case OP_remove_principal:
	case OP_rekey_principal:
	case OP_rotate_key:
	case OP_unlock:
		return; /* the replica's */
	default:
		own = m_proposal_applied(m, answer->op);
	}
	switch (answer->op) {
	case OP_await_session:
		m_await_applied(m, own);
		break;
	case OP_grant:
		m_queue_granted(m, own, answer);
		break;
	case OP_create_session:
		m_opening_created(m, own, answer);
		break;
	case OP_lengthen_promise:
		m_lengthened_applied(m);
		break;
	case OP_settle_setting:
		if (own->setting == SETTING_session_lease)
			m_lengthened_settled(m);
		break;
	case OP_finish_session:
		m_end_finished(m);
		break;
	case OP_purge_name:
		m_purge_applied(m);
		break;
	case OP_expire:
		m_expiry_applied(m, own, answer->rc);
		break;
	case OP_end_session:
		if (answer->rc != RC_OK)
			m_end_refused(m, own->session);
		break;
	default:
		break;
	}
	free(own);
}

static void
noted(struct master *m, const struct tree_note *note)
{
	switch (note->kind) {
	case TREE_LOCK_CHANGED:
		m_queue_touch(m, note->node);
		return;
	case TREE_LOCK_LOST:
		m_queue_lost(m, note);
		return;
	case TREE_DELAY_BEGAN:
		m_delay_begin(m, &m->delays, note);
		return;
	case TREE_TTL_BEGAN:
		m_delay_begin(m, &m->lives, note);
		return;
	case TREE_LOCK_GONE:
		m_delay_drop(m, &m->delays, note->node);
		m_queue_gone(m, note->node);
		return;
	case TREE_SESSION_ENDED:
		m_end_applied(m, note->session, note->cause);
		return;
	case TREE_SETTING_CHANGED:
		m_lowered_note(m, note);
		return;
	case TREE_PRINCIPAL_REMOVED:
		m_removed_note(m, note);
		m_queue_judge_all(m);
		return;
	case TREE_NODE_CHANGED:
	case TREE_NODE_CREATED:
	case TREE_NODE_DELETED:
		if (note->kind == TREE_NODE_DELETED)
			m_delay_drop(m, &m->lives, note->node);
		/* Rights depend on the files in /acl, and on which of them a node names: a change
		 * of those names is no change of its contents. */
		if (RB_EMPTY(&m->queues.by_node))
			return;
		if (note->parent == NODE_ACL)
			m_queue_judge_all(m);
		else if (note->kind == TREE_NODE_CHANGED && note->generation == 0)
			m_queue_judge(m, note->node);
		return;
	default:
		return;
	}
}

void
master_applied(struct master *m, struct master_clock c, uint64_t index,
               const struct tree_outcome *outcome, struct master_update *u)
{
	must(m->serving && index == m->applied + 1);
	m->applied = index;
	if (RB_EMPTY(&m->watches.nodes) && m->noted == index - 1)
		m->noted = index;
	m_step_begin(m, c, u);
	for (size_t i = 0; i < outcome->answers_n; i++)
		if (outcome->answers[i].number == 0)
			own_applied(m, &outcome->answers[i]);
		else
			m_request_applied(m, &outcome->answers[i]);
	for (size_t i = 0; i < outcome->notes_n; i++)
		noted(m, &outcome->notes[i]);
	m_step_end(m);
}

static void
timer_expired(struct master *m, const struct timer *t)
{
	switch (t->kind) {
	case TIMER_BARRIER:
		m_barrier_timeout(m);
		return;
	case TIMER_IDLE:
		m_await_timeout(m);
		return;
	case TIMER_DELAY:
		m_delay_timeout(m, t->id);
		return;
	case TIMER_TTL:
		m_ttl_timeout(m, t->id);
		return;
	case TIMER_SETTING:
		m_lowered_timeout(m, (uint8_t)t->id);
		return;
	case TIMER_CACHE:
		m_cache_timeout(m, m_session_find(m, t->id));
		return;
	case TIMER_SESSION:
		m_lease_timeout(m, m_session_find(m, t->id));
		return;
	}
}

void
master_timeout(struct master *m, struct master_clock c, struct master_update *u)
{
	const struct timer *t;

	must(m->serving);
	m_step_begin(m, c, u);
	while (m_has_time(m) && (t = m_timer_due(m)) != NULL) {
		m->work += REQUEST_WORK;
		timer_expired(m, t);
	}
	m_step_end(m);
}
