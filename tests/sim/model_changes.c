/* The changes that the log has made, one after the other; and what the trees keep of them: all
 * behind the index up to which the history is compacted, in whatever order within one entry. No
 * change is forgotten while it is younger than the least span that was set, and the others have no
 * more bytes than the least number that was. */
#include <stdlib.h>
#include "cell/base/memory.h"
#include "tests/sim/sim.h"

enum { LEAST_BYTES = 192, MOST_BYTES = LEAST_BYTES + LIMIT_PATH + LIMIT_NAME };

void
model_past(struct model *m, enum change_kind kind, uint64_t node, uint64_t generation)
{
	if (m->applied == 0)
		return; /* a new cell begins with them */
	ARRAY_ROOM(m->past.all, m->past.n, m->past.room);
	m->past.all[m->past.n++] = (struct past){m->applied, node, generation, kind, m->stamp_ns};
}

void
model_past_stamped(struct model *m, int64_t stamp_ns)
{
	if (stamp_ns > m->past.newest_ns)
		m->past.newest_ns = stamp_ns;
}

void
model_past_setting(struct model *m, uint8_t code, uint64_t value)
{
	if (code == SETTING_history_seconds && value < m->past.least_s)
		m->past.least_s = value;
	if (code == SETTING_history_bytes && value < m->past.least_bytes)
		m->past.least_bytes = value;
}

bool
model_past_is_whole(const struct model *m)
{
	for (size_t i = 0; i < m->past.n; i++)
		if ((m->past.newest_ns - m->past.all[i].stamp_ns) / SECOND >=
		    (int64_t)m->past.least_s)
			return false;
	return m->past.n * MOST_BYTES < m->past.least_bytes;
}

static size_t
first_after(const struct model *m, uint64_t index)
{
	size_t first = m->past.n;

	while (first > 0 && m->past.all[first - 1].index > index)
		first--;
	return first;
}

/* Among the changes of its entry, which follow that with the number `before`. */
static bool
has(const struct tree *t, uint64_t before, const struct past *p)
{
	struct past_change c;

	while (tree_change_after(t, &before, &c) && c.index == p->index)
		if (c.kind == p->kind && c.node == p->node && c.generation == p->generation)
			return true;
	return false;
}

static void
check_age(struct sim *s, const struct host *n, size_t first, size_t kept)
{
	const struct model *m = &s->model;
	const struct past *forgotten = &m->past.all[first - 1];

	if ((m->past.newest_ns - forgotten->stamp_ns) / SECOND + 1 < (int64_t)m->past.least_s &&
	    (kept + 1) * MOST_BYTES < m->past.least_bytes)
		sim_fail(s, "replica %d has forgotten the changes up to %lu too early", n->id,
		         (unsigned long)forgotten->index);
}

void
model_check_past(struct sim *s, const struct host *n, const struct tree *t)
{
	const struct model *m = &s->model;
	const size_t first = first_after(m, tree_compacted(t));
	uint64_t number = 0, before = 0, at;
	size_t kept = 0, want = 0;
	struct past_change c;

	while (tree_change_after(t, &number, &c))
		kept += c.index > tree_compacted(t);
	for (size_t i = first; i < m->past.n && m->past.all[i].index <= tree_applied(t); i++) {
		const struct past *p = &m->past.all[i];

		for (at = before; tree_change_after(t, &at, &c) && c.index < p->index;)
			before = at;
		want++;
		if (!has(t, before, p))
			sim_fail(s, "replica %d lacks the change %d of node %lu at %lu", n->id,
			         p->kind, (unsigned long)p->node, (unsigned long)p->index);
	}
	if (kept != want)
		sim_fail(s, "replica %d has %zu changes and should have %zu", n->id, kept, want);
	if (first > 0 && tree_applied(t) == m->applied)
		check_age(s, n, first, kept);
}
