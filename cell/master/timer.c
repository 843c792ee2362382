#include "cell/base/must.h"
#include "cell/master/internal.h"

static int
timer_compare(const struct timer *a, const struct timer *b)
{
	if (a->at.ns != b->at.ns)
		return a->at.ns < b->at.ns ? -1 : 1;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

RB_GENERATE_INTERNAL(timer_tree, timer, link, timer_compare, __attribute__((unused)) static)

struct timer
m_timer(enum timer_kind kind, uint64_t id)
{
	return (struct timer){.at = MONO_NEVER, .kind = kind, .id = id};
}

static void
note_next(struct master *m)
{
	const struct timer *first = RB_MIN(timer_tree, &m->timers.by_time);

	m->timers.next = first != NULL ? first->at : MONO_NEVER;
}

void
m_timer_init(struct master *m)
{
	note_next(m);
}

void
m_timer_off(struct master *m, struct timer *t)
{
	if (mono_is_never(t->at))
		return;
	RB_REMOVE(timer_tree, &m->timers.by_time, t);
	t->at = MONO_NEVER;
	note_next(m);
}

void
m_timer_set(struct master *m, struct timer *t, mono_t at)
{
	m_timer_off(m, t);
	t->at = at;
	if (!mono_is_never(at))
		must(RB_INSERT(timer_tree, &m->timers.by_time, t) == NULL);
	note_next(m);
}

struct timer *
m_timer_due(struct master *m)
{
	struct timer *first = RB_MIN(timer_tree, &m->timers.by_time);

	return first != NULL && mono_reached(m->now, first->at) ? first : NULL;
}
