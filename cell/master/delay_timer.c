/* When a holder's session expires, its lock stays closed for a while, so that messages of this
 * holder that are still in flight cannot meet the work of the next one (Chubby, section 2.4). A
 * file with a time to live goes when nobody has renewed it for that time.
 *
 * Both are states of a node that a command ends. The master proposes that command when its own
 * timer has run the whole time since the last beginning was applied, or since its epoch began: it
 * cannot know how much of it passed under its predecessor. The command names the index of the
 * beginning: when the state has begun again meanwhile, it has no effect. */
#include <stdlib.h>
#include "cell/base/keyed.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

KEYED_TREE(delay_tree, delay_timer, link, node)

void
m_delay_init(struct master *m)
{
	m->delays = (struct delay_timers){.kind = TIMER_DELAY, .after = tree_delay_after};
	m->lives = (struct delay_timers){.kind = TIMER_TTL, .after = tree_ttl_after};
	m->delays.inherited = m->lives.inherited = UINT64_MAX;
	TAILQ_INIT(&m->expiries.due);
}

void
m_delay_begin_epoch(struct master *m)
{
	m->delays.inherited = m->lives.inherited = 0;
}

static struct delay_timer *
delay_find(const struct delay_timers *of, uint64_t node)
{
	return delay_tree_find(&of->by_node, node);
}

void
m_delay_drop(struct master *m, struct delay_timers *of, uint64_t node)
{
	struct delay_timer *d = delay_find(of, node);

	if (d == NULL)
		return;
	m_timer_off(m, &d->timer);
	if (d->due)
		TAILQ_REMOVE(&m->expiries.due, d, in_due);
	if (d->pass != NULL)
		gate_leave(&m->gate, d->pass);
	RB_REMOVE(delay_tree, &of->by_node, d);
	free(d);
}

/* A lock has one delay: when a second shared holder expires, the delay begins again. */
void
m_delay_begin(struct master *m, struct delay_timers *of, const struct tree_note *note)
{
	struct delay_timer *d;

	must(note->seconds >= 0);
	m_delay_drop(m, of, note->node);
	if (note->seconds == 0)
		return;
	d = memory_zero(1, sizeof *d);
	d->node = note->node;
	d->generation = note->kind == TREE_DELAY_BEGAN ? note->lock_generation : note->generation;
	d->began = note->index;
	d->end = mono_add(m->now, span_s(note->seconds));
	d->timer = m_timer(of->kind, d->node);
	must(RB_INSERT(delay_tree, &of->by_node, d) == NULL);
	m_timer_set(m, &d->timer, d->end);
}

static void
inherit(struct master *m, struct delay_timers *of, const char *what)
{
	struct tree_note begun;

	while (m_has_time(m) && of->inherited != UINT64_MAX) {
		m->work += WAITER_WORK;
		if (of->after(m->tree, of->inherited, &begun)) {
			M_TRACE(m, "%s %" PRIu64 ": its %s begins again with the epoch",
			        of->kind == TIMER_DELAY ? "lock" : "file", begun.node, what);
			m_delay_begin(m, of, &begun);
			of->inherited = begun.node;
		} else {
			of->inherited = UINT64_MAX;
		}
	}
}

void
m_delay_inherit(struct master *m)
{
	inherit(m, &m->delays, "delay");
	inherit(m, &m->lives, "time to live");
}

void
m_delay_timeout(struct master *m, uint64_t node)
{
	struct delay_timer *d = delay_find(&m->delays, node);
	struct op op = {.code = OP_delay_over};

	must(d != NULL && mono_reached(m->now, d->end));
	M_TRACE(m, "lock %" PRIu64 ": its delay is over", node);
	op.delay_over = (struct op_delay_over){.node = node,
	                                       .lock_generation = d->generation,
	                                       .began = d->began};
	m_propose(m, 0, &op);
	m_lock_delay_ends(m, node);
	m_propose_flush(m);
	m_delay_drop(m, &m->delays, node);
}

int64_t
m_delay_left_s(const struct delay_timers *of, mono_t now, uint64_t node)
{
	const struct delay_timer *d = delay_find(of, node);
	int64_t second = span_s(1).ns, left;

	if (d == NULL || mono_reached(now, d->end))
		return 1;
	left = mono_since(d->end, now).ns;
	return (left + second - 1) / second;
}

static void
drop_all(struct master *m, struct delay_timers *of)
{
	struct delay_timer *d;

	while ((d = RB_MIN(delay_tree, &of->by_node)) != NULL)
		m_delay_drop(m, of, d->node);
	of->inherited = UINT64_MAX;
}

void
m_delay_clear(struct master *m)
{
	drop_all(m, &m->delays);
	drop_all(m, &m->lives);
}

/* ---- expiries ---- */

/* This many wait at the gate at once: a session that acknowledges nothing holds up each for a cache
 * lease, and they must not then wait for each other. */
enum { EXPIRIES = 64 };

void
m_ttl_timeout(struct master *m, uint64_t node)
{
	struct delay_timer *d = delay_find(&m->lives, node);

	must(d != NULL && !d->due);
	if (!m->has_lease) {
		m_timer_set(m, &d->timer, mono_add(m->now, LEASE_RETRY));
		return;
	}
	M_TRACE(m, "file %" PRIu64 ": its time to live is over", node);
	m_timer_off(m, &d->timer);
	d->due = true;
	TAILQ_INSERT_TAIL(&m->expiries.due, d, in_due);
}

void
m_ttl_account_pause(struct master *m, span_t pause)
{
	struct delay_timer *d;

	RB_FOREACH(d, delay_tree, &m->lives.by_node) {
		d->end = mono_add(d->end, pause);
		if (!d->due)
			m_timer_set(m, &d->timer, d->end);
	}
}

static bool
is_blocked(const struct master *m, const struct delay_timer *d)
{
	return d->pass != NULL && d->pass->list == &m->gate.blocked;
}

bool
m_expiry_is_due(const struct master *m)
{
	const struct delay_timer *d;
	int n = 0;

	TAILQ_FOREACH(d, &m->expiries.due, in_due)
		if (n++ == EXPIRIES || !is_blocked(m, d))
			return n <= EXPIRIES;
	return false;
}

static void
expire(struct master *m, struct delay_timer *d)
{
	struct footprint changes = {0};
	struct op op = {.code = OP_expire};

	op.expire =
	    (struct op_expire){.node = d->node, .generation = d->generation, .began = d->began};
	tree_changes(m->tree, &(struct requester){0}, &op, d->node, &changes);
	if (d->pass == NULL)
		d->pass = gate_pass_new(NULL, 0, 0);
	if (!gate_enter(&m->gate, d->pass, &changes))
		return;
	m_propose_bounded(m, 0, &op, d->pass)->node = d->node;
	d->pass = NULL;
	m_delay_drop(m, &m->lives, d->node);
}

void
m_expiry_run(struct master *m)
{
	struct delay_timer *d, *next;
	int n = 0;

	must(!m->barrier.stands);
	TAILQ_FOREACH_SAFE(d, &m->expiries.due, in_due, next) {
		if (n++ == EXPIRIES || !m_has_time(m))
			break;
		m->work += REQUEST_WORK;
		if (!is_blocked(m, d))
			expire(m, d);
	}
	m_propose_flush(m);
}

/* A command that was refused although the file was not renewed is due again: for example, an
 * ephemeral directory would be deleted with it by now. */
void
m_expiry_applied(struct master *m, const struct own_command *own, enum rc rc)
{
	struct tree_note ttl;

	if (rc != RC_AGAIN || !tree_ttl_after(m->tree, own->node - 1, &ttl) ||
	    ttl.node != own->node)
		return;
	m_delay_begin(m, &m->lives, &ttl);
	delay_find(&m->lives, own->node)->end = m->now;
	m_timer_set(m, &delay_find(&m->lives, own->node)->timer, m->now);
}
