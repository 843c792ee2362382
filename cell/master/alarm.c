/* What is due when: the alarms of sessions and lock-delays, sorted by time. */
#include "cell/base/must.h"
#include "cell/master/internal.h"

static int
alarm_compare(const struct alarm *a, const struct alarm *b)
{
	if (a->at.ns != b->at.ns)
		return a->at.ns < b->at.ns ? -1 : 1;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

RB_GENERATE_INTERNAL(alarm_tree, alarm, link, alarm_compare, __attribute__((unused)) static)

void
m_alarm_off(struct master *m, struct alarm *a)
{
	if (mono_is_never(a->at))
		return;
	RB_REMOVE(alarm_tree, &m->alarms, a);
	a->at = MONO_NEVER;
}

void
m_alarm_set(struct master *m, struct alarm *a, mono_t at)
{
	m_alarm_off(m, a);
	a->at = at;
	if (!mono_is_never(at))
		must(RB_INSERT(alarm_tree, &m->alarms, a) == NULL);
}

mono_t
m_alarm_next(const struct master *m)
{
	const struct alarm *first = RB_MIN(alarm_tree, (struct alarm_tree *)&m->alarms);

	return first != NULL ? first->at : MONO_NEVER;
}

struct alarm *
m_alarm_due(struct master *m)
{
	struct alarm *first = RB_MIN(alarm_tree, &m->alarms);

	return first != NULL && mono_reached(m->now, first->at) ? first : NULL;
}
