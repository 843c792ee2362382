/* When a holder's session expires, its lock stays closed for a while, so that messages of this
 * holder that are still in flight cannot meet the work of the next one (Chubby, section 2.4).
 *
 * The delay is a state of the lock that a command ends. The master proposes that command when its
 * own timer has run the whole delay since the expiry was applied, or since its epoch began: it
 * cannot know how much of the delay passed under its predecessor. */
#include <stdlib.h>
#include "cell/base/keyed.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

KEYED_TREE(delay_tree, delay_timer, link, node)

void
m_delay_init(struct master *m)
{
	m->delays.inherited = UINT64_MAX;
}

void
m_delay_begin_epoch(struct master *m)
{
	m->delays.inherited = 0;
}

/* True when all of these run. */
static bool
delay_all_inherited(const struct master *m)
{
	return m->delays.inherited == UINT64_MAX;
}

static struct delay_timer *
delay_find(struct master *m, uint64_t node)
{
	return delay_tree_find(&m->delays.by_node, node);
}

void
m_delay_drop(struct master *m, uint64_t node)
{
	struct delay_timer *d = delay_find(m, node);

	if (d == NULL)
		return;
	m_timer_off(m, &d->timer);
	RB_REMOVE(delay_tree, &m->delays.by_node, d);
	free(d);
}

/* A lock has one delay: when a second shared holder expires, the delay begins again. */
void
m_delay_begin(struct master *m, const struct tree_note *note)
{
	struct delay_timer *d = memory_zero(1, sizeof *d);

	must(note->kind == TREE_DELAY_BEGAN && note->seconds >= 0);
	m_delay_drop(m, note->node);
	d->node = note->node;
	d->lock_generation = note->lock_generation;
	d->began = note->index;
	d->end = mono_add(m->now, span_s(note->seconds));
	d->timer = m_timer(TIMER_DELAY, d->node);
	must(RB_INSERT(delay_tree, &m->delays.by_node, d) == NULL);
	m_timer_set(m, &d->timer, d->end);
}

void
m_delay_inherit(struct master *m)
{
	struct tree_note delay;

	while (m_has_time(m) && !delay_all_inherited(m)) {
		m->work += WAITER_WORK;
		if (tree_delay_after(m->tree, m->delays.inherited, &delay)) {
			M_TRACE(m, "lock %" PRIu64 ": its delay begins anew with the epoch",
			        delay.node);
			m_delay_begin(m, &delay);
			m->delays.inherited = delay.node;
		} else {
			m->delays.inherited = UINT64_MAX;
		}
	}
}

/* The command names the delay that it ends; when another one stands by then, it has no effect. */
void
m_delay_timeout(struct master *m, uint64_t node)
{
	struct delay_timer *d = delay_find(m, node);
	struct op op = {.code = OP_delay_over};

	must(d != NULL && mono_reached(m->now, d->end));
	M_TRACE(m, "lock %" PRIu64 ": its delay is over", node);
	op.delay_over = (struct op_delay_over){.node = node,
	                                       .lock_generation = d->lock_generation,
	                                       .began = d->began};
	m_propose(m, 0, &op);
	m_lock_delay_ends(m, node);
	m_propose_flush(m);
	m_delay_drop(m, node);
}

int64_t
m_delay_left_s(struct master *m, uint64_t node)
{
	const struct delay_timer *d = delay_find(m, node);
	int64_t second = span_s(1).ns, left;

	if (d == NULL || mono_reached(m->now, d->end))
		return 1;
	left = mono_since(d->end, m->now).ns;
	return (left + second - 1) / second;
}

void
m_delay_clear(struct master *m)
{
	struct delay_timer *d;

	while ((d = RB_MIN(delay_tree, &m->delays.by_node)) != NULL)
		m_delay_drop(m, d->node);
	m->delays.inherited = UINT64_MAX;
}
