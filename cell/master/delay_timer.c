/* Lock-delays (Chubby, section 2.4): when a holder's session expires, its lock stays closed for a
 * while, so that what the holder still has under way cannot meet the next one's work.
 *
 * The delay is a state of the lock that a command ends. The master proposes that command when its
 * own timer ran the whole delay since it applied the expiry, or since its epoch began: it cannot
 * know how much of it passed under its predecessor. */
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

static int
delay_compare(const struct delay_timer *a, const struct delay_timer *b)
{
	return a->node < b->node ? -1 : a->node > b->node;
}

RB_GENERATE_INTERNAL(delay_tree, delay_timer, link, delay_compare, __attribute__((unused)) static)

static struct delay_timer *
delay_find(struct master *m, uint64_t node)
{
	struct delay_timer like = {.node = node};

	return RB_FIND(delay_tree, &m->delays, &like);
}

void
m_delay_drop(struct master *m, uint64_t node)
{
	struct delay_timer *d = delay_find(m, node);

	if (d == NULL)
		return;
	m_timer_off(m, &d->timer);
	RB_REMOVE(delay_tree, &m->delays, d);
	free(d);
}

/* A lock has one delay: of two shared holders that expire, the later one's begins anew. */
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
	d->timer = (struct timer){.at = MONO_NEVER, .kind = TIMER_DELAY, .id = d->node};
	must(RB_INSERT(delay_tree, &m->delays, d) == NULL);
	m_timer_set(m, &d->timer, d->end);
}

void
m_delay_inherit(struct master *m)
{
	struct tree_note delay;

	while (m->work < STEP_WORK && m->delays_inherited != UINT64_MAX) {
		m->work += WAITER_WORK;
		if (tree_delay_after(m->tree, m->delays_inherited, &delay)) {
			m_delay_begin(m, &delay);
			m->delays_inherited = delay.node;
		} else {
			m->delays_inherited = UINT64_MAX;
		}
	}
}

/* The command names the delay that it ends; if another one stands by then, nothing happens. */
void
m_delay_timeout(struct master *m, uint64_t node)
{
	struct delay_timer *d = delay_find(m, node);
	struct op op = {.code = OP_delay_over};

	must(d != NULL && mono_reached(m->now, d->end));
	op.delay_over = (struct op_delay_over){
	    .node = node, .lock_generation = d->lock_generation, .began = d->began};
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
m_delay_free_all(struct master *m)
{
	struct delay_timer *d;

	while ((d = RB_MIN(delay_tree, &m->delays)) != NULL)
		m_delay_drop(m, d->node);
}
