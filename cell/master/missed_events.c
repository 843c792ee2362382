#include "cell/master/internal.h"

enum { ROOM = LIMIT_EVENTS / 2 }; /* with so many events the session is told no more entries */

void
m_missed_init(struct master *m)
{
	TAILQ_INIT(&m->missed.waiting);
}

void
m_missed_begin(struct master *m, struct m_session *s, uint64_t upto)
{
	struct session_missed *q = &s->missed;

	if (q->behind && upto >= q->upto)
		return;
	q->behind = true;
	q->upto = upto;
	q->changes = 0;
	M_TRACE(m, "session %" PRIu64 " has events up to %" PRIu64 " of %" PRIu64, s->id, q->upto,
	        m->applied);
}

bool
m_missed_is_within_entry(const struct m_session *s)
{
	return s->missed.changes > 0;
}

static bool
has_room(const struct m_session *s)
{
	return m_missed_is_within_entry(s) || s->events.kept_n < ROOM;
}

void
m_missed_wait(struct master *m, struct m_session *s)
{
	struct session_missed *q = &s->missed;

	if (!q->behind || q->waits || !s->events.resumed || !has_room(s))
		return;
	q->waits = true;
	TAILQ_INSERT_TAIL(&m->missed.waiting, s, missed.entry);
}

void
m_missed_wait_no_more(struct master *m, struct m_session *s)
{
	if (s->missed.waits)
		TAILQ_REMOVE(&m->missed.waiting, s, missed.entry);
	s->missed.waits = false;
}

/* Others may wait already for locks that the session holds. */
static void
catch_up(struct master *m, struct m_session *s)
{
	struct session_missed *q = &s->missed;
	struct past_change c;
	struct watcher *w;
	uint64_t number;

	if (q->upto < tree_compacted(m->tree)) {
		m_event_gap(m, s);
		q->upto = m->applied;
		q->changes = 0;
	}
	number = tree_change_number(m->tree, q->upto) + q->changes;
	while (tree_change_after(m->tree, &number, &c)) {
		if (c.index - 1 > q->upto) {
			q->upto = c.index - 1;
			q->changes = 0;
		}
		if (!m_has_time(m) || !has_room(s)) {
			m_missed_wait(m, s);
			return;
		}
		m_event_tell(m, s, &c);
		q->changes++;
	}
	q->behind = false;
	q->upto = m->applied;
	q->changes = 0;
	RB_FOREACH(w, session_watchers, &s->watches.by_node)
		if (m_queue_find(m, w->node->node) != NULL)
			m_event_conflict_with(m, w);
}

void
m_missed_run(struct master *m)
{
	struct m_session *s;

	while (m_has_time(m) && (s = TAILQ_FIRST(&m->missed.waiting)) != NULL) {
		m->work += SESSION_WORK;
		m_missed_wait_no_more(m, s);
		catch_up(m, s);
		m_event_wait(m, s);
	}
}
