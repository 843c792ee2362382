/* The master's life, the dispatch of what reaches it, and what every step ends with. */
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
	m->tree = tree;
	m_ticket_init(m);
	m->commands = BUFFER(LIMIT_ENTRY);
	m->deadline = MONO_NEVER;
	TAILQ_INIT(&m->flights);
	TAILQ_INIT(&m->runnable);
	TAILQ_INIT(&m->held);
	TAILQ_INIT(&m->leaseless);
	TAILQ_INIT(&m->dirty);
	TAILQ_INIT(&m->due);
	TAILQ_INIT(&m->opens);
	TAILQ_INIT(&m->idle);
	TAILQ_INIT(&m->barrier.missing);
	m->delays_inherited = UINT64_MAX;
	m->timer_next = MONO_NEVER;
	m->idle_alarm = (struct timer){.at = MONO_NEVER, .kind = TIMER_IDLE};
	m_lowered_init(m);
	m_marking_init(m);
	return m;
}

/* Everything that a master has while it serves. */
static void
clear(struct master *m)
{
	struct m_session *s;
	struct flight *f;

	m_barrier_clear(m);
	while ((s = RB_ROOT(&m->sessions)) != NULL)
		m_session_free(m, s);
	while ((f = TAILQ_FIRST(&m->flights)) != NULL) {
		TAILQ_REMOVE(&m->flights, f, entry);
		free(f);
	}
	m->finishing = false;
	m_delay_free_all(m);
	m_lowered_end(m);
	m_marking_clear(m);
	m->inherited = m->inherit_last;
	m->delays_inherited = UINT64_MAX;
	buffer_reset(&m->commands);
	m->commands_n = 0;
	must(RB_EMPTY(&m->queues) && RB_EMPTY(&m->waiters) && RB_EMPTY(&m->timers));
	must(TAILQ_EMPTY(&m->runnable) && TAILQ_EMPTY(&m->held) && TAILQ_EMPTY(&m->leaseless));
	must(TAILQ_EMPTY(&m->dirty));
	must(TAILQ_EMPTY(&m->opens) && TAILQ_EMPTY(&m->due));
}

void
master_free(struct master *m)
{
	struct m_connection *c;

	while ((c = RB_ROOT(&m->connections)) != NULL)
		m_connection_free(m, c);
	clear(m);
	buffer_free(&m->commands);
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
	m->lease = c.lease;
	m->full = c.full;
	m->u = u;
	m->work = 0;
	must(m->commands_n == 0);
	if (mono_before(m->deadline, m->now))
		m_lease_account_pause(m, last);
	m->deadline = MONO_NEVER;
}

static void
run_queues(struct master *m)
{
	struct lock_queue *q;

	while (m->work < STEP_WORK && (q = TAILQ_FIRST(&m->dirty)) != NULL) {
		TAILQ_REMOVE(&m->dirty, q, dirty_entry);
		q->dirty = false;
		m->work += WAITER_WORK;
		if (q->gone)
			m_queue_tell_gone(m, q);
		else
			m_queue_grant(m, q);
		m_propose_flush(m);
	}
}

static bool
inherits(const struct master *m)
{
	return m->inherited != m->inherit_last || m->delays_inherited != UINT64_MAX;
}

/* Is any request parked that may be able to begin in this step? */
static bool
has_parked(const struct master *m)
{
	return !TAILQ_EMPTY(&m->runnable) || !TAILQ_EMPTY(&m->held) ||
	       !TAILQ_EMPTY(&m->leaseless) || !TAILQ_EMPTY(&m->marking.reads) ||
	       !TAILQ_EMPTY(&m->marking.marks);
}

/* Is there more that can be done now? */
static bool
has_more(struct master *m)
{
	if (inherits(m))
		return true;
	if (!m->barrier.stands && (!TAILQ_EMPTY(&m->opens) || !TAILQ_EMPTY(&m->due)))
		return true;
	return (has_parked(m) && m_order_next(m) != NULL) || !TAILQ_EMPTY(&m->dirty);
}

/* A new master does not know what its predecessor promised: every session gets a whole lease before
 * it may be expired, and every lock-delay is run from its start. */
static void
inherit(struct master *m)
{
	if (!m_session_all_inherited(m)) {
		m_session_inherit(m);
		if (m_session_all_inherited(m))
			m_barrier_counted(m);
	}
	m_delay_inherit(m);
}

/* The parts that wait for the barrier to fall. */
static void
run_waiting(struct master *m)
{
	if (!TAILQ_EMPTY(&m->opens))
		m_session_run_opens(m);
	if (!TAILQ_EMPTY(&m->due))
		m_admin_end_sessions(m);
	if (m->ending && !m->finishing)
		m_session_finish(m);
}

/* A part is called only if something waits for it. */
void
m_step_end(struct master *m)
{
	if (inherits(m))
		inherit(m);
	if (!m->barrier.stands)
		run_waiting(m);
	if (has_parked(m))
		m_request_run(m);
	run_queues(m);
	if (m->barrier.unsettled && TAILQ_EMPTY(&m->dirty))
		m_barrier_settle(m);
	must(m->commands_n == 0);
	m->deadline = m->timer_next;
	if (has_more(m))
		m->deadline = m->now;
	else if (!TAILQ_EMPTY(&m->leaseless))
		m->deadline = mono_min(m->deadline, mono_add(m->now, LEASE_RETRY));
	m->u = NULL;
}

/* ---- life ---- */

bool
master_serving(const struct master *m)
{
	return m->serving;
}

void
master_begin(struct master *m, struct master_clock c, uint64_t epoch, struct master_update *u)
{
	must(!m->serving && epoch != 0);
	m->serving = true;
	m->epoch = epoch;
	m->applied = tree_applied(m->tree);
	m->ending = true;
	m->place = 0;
	m_step_begin(m, c, u);
	m->inherited = m->delays_inherited = 0;
	m->inherit_last = tree_session_last(m->tree);
	m_lowered_begin(m);
	m_barrier_raise(m);
	m_step_end(m);
}

void
master_end(struct master *m, uint8_t master, struct master_update *u)
{
	struct message redirect = {
	    .code = MSG_redirect,
	    .redirect = {.epoch = m->epoch, .master = master},
	};
	struct m_connection *c;

	must(m->serving);
	m->u = u;
	RB_FOREACH(c, m_connection_tree, &m->connections)
	{
		m_connection_send(m, c, &redirect);
		c->left |= c->session != NULL;
		m_connection_detach(m, c);
	}
	clear(m);
	m->serving = false;
	m->deadline = MONO_NEVER;
	m->u = NULL;
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
		m_session_open(m, c, &message->open_session);
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
	case MSG_sessions_request:
		m_admin_list_sessions(m, c, &message->sessions_request);
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
	struct message message;

	must(m->serving);
	if (c == NULL)
		return;
	m_step_begin(m, clock, u);
	if (wire_get_frame(frame, &message) == RC_OK)
		dispatch(m, c, &message);
	else
		m_connection_breach(m, c, "a malformed message");
	m_step_end(m);
}

void
master_elsewhere(struct master *m, uint64_t conn, struct bytes frame, uint8_t master,
                 struct master_update *u)
{
	struct m_connection *c = m_connection_find(m, conn);
	struct message opened = {
	    .code = MSG_session_opened,
	    .session_opened = {.rc = RC_NOT_MASTER, .master = master},
	};
	struct message redirect = {.code = MSG_redirect, .redirect = {.master = master}};
	struct message message;

	must(!m->serving);
	if (c == NULL)
		return;
	opened.session_opened.epoch = redirect.redirect.epoch = tree_epoch(m->tree);
	m->u = u;
	if (wire_get_frame(frame, &message) != RC_OK)
		m_connection_breach(m, c, "a malformed message");
	else
		m_connection_send(m, c, message.code == MSG_open_session ? &opened : &redirect);
	m->u = NULL;
}

/* A command of the master's own, or of the replica's. */
static void
landed(struct master *m, const struct tree_answer *answer)
{
	struct flight *f;

	if (answer->op == OP_set_members || answer->op == OP_check_digest ||
	    answer->op == OP_set_setting)
		return;
	f = m_flight_land(m, answer->op);
	if (answer->op == OP_await_session)
		m_awaited_landed(m, f);
	else if (answer->op == OP_grant)
		m_queue_granted(m, f, answer);
	else if (answer->op == OP_create_session)
		m_session_created(m, f, answer);
	else if (answer->op == OP_finish_session)
		m->finishing = false;
	else if (answer->op == OP_end_session && answer->rc != RC_OK)
		m_lease_expiry_refused(m, f->session);
	free(f);
}

static void
noted(struct master *m, const struct tree_note *note)
{
	switch (note->kind) {
	case TREE_LOCK_CHANGED:
		m_queue_touch(m, note->node);
		return;
	case TREE_DELAY_BEGAN:
		m_delay_begin(m, note);
		return;
	case TREE_LOCK_GONE:
		m_delay_drop(m, note->node);
		m_queue_gone(m, note->node);
		return;
	case TREE_SESSION_ENDED:
		m_session_ended(m, note->session, note->cause);
		return;
	case TREE_SETTING_CHANGED:
		m_lowered_note(m, note);
		return;
	case TREE_NODE_CREATED:
		if (note->session != 0)
			m_marking_made(m, note->node, note->session);
		return;
	case TREE_NODE_DELETED:
		m_marking_gone(m, note->node);
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
	m_step_begin(m, c, u);
	for (size_t i = 0; i < outcome->answers_n; i++)
		if (outcome->answers[i].number == 0)
			landed(m, &outcome->answers[i]);
		else
			m_request_applied(m, &outcome->answers[i]);
	for (size_t i = 0; i < outcome->notes_n; i++)
		noted(m, &outcome->notes[i]);
	m_step_end(m);
}

static void
ring(struct master *m, struct timer *a)
{
	struct m_session *s;

	if (a->kind == TIMER_BARRIER) {
		m_barrier_timeout(m);
		return;
	}
	if (a->kind == TIMER_IDLE) {
		m_awaited_ring(m);
		return;
	}
	if (a->kind == TIMER_DELAY) {
		m_delay_timeout(m, a->id);
		return;
	}
	if (a->kind == TIMER_SETTING) {
		m_lowered_timeout(m, (uint8_t)a->id);
		return;
	}
	s = m_session_find(m, a->id);
	must(s != NULL && &s->timer == a);
	m_lease_timeout(m, s);
}

void
master_timeout(struct master *m, struct master_clock c, struct master_update *u)
{
	struct timer *a;

	if (!m->serving)
		return;
	m_step_begin(m, c, u);
	while (m->work < STEP_WORK && (a = m_timer_due(m)) != NULL) {
		m->work += REQUEST_WORK;
		ring(m, a);
	}
	m_step_end(m);
}

mono_t
master_deadline(const struct master *m)
{
	return m->deadline;
}
