#include "cell/master/internal.h"

enum {
	CHANGE_WORK = 1024,      /* for each change that is looked at */
	ROOM = LIMIT_EVENTS / 2, /* with so many events the session is told no more for now */
};

static const enum tree_note_kind notes[] = {
    [CHANGE_CREATED] = TREE_NODE_CREATED,    [CHANGE_CONTENTS] = TREE_NODE_CHANGED,
    [CHANGE_ATTRIBUTES] = TREE_NODE_CHANGED, [CHANGE_DELETED] = TREE_NODE_DELETED,
    [CHANGE_LOCK] = TREE_LOCK_TAKEN,
};

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
	M_TRACE(m, "session %" PRIu64 " has events up to %" PRIu64 " of %" PRIu64, s->id, q->upto,
	        m->noted);
}

void
m_missed_wait(struct master *m, struct m_session *s)
{
	struct session_missed *q = &s->missed;

	if (!q->behind || q->waits || !s->events.resumed || s->events.kept_n >= ROOM)
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

/* Whole entries: the session may be told up to the last of them that it has all. Others may wait
 * already for locks that the session holds. */
static void
catch_up(struct master *m, struct m_session *s)
{
	struct session_missed *q = &s->missed;
	struct past_change c;
	struct watcher *w;
	uint64_t number;

	if (q->upto < tree_compacted(m->tree)) {
		m_event_gap(m, s);
		q->upto = m->noted;
	}
	number = tree_change_number(m->tree, q->upto);
	while (tree_change_after(m->tree, &number, &c)) {
		struct tree_note note = {.kind = notes[c.kind],
		                         .node = c.node,
		                         .generation = c.generation,
		                         .lock_generation = c.generation};

		if (c.index != q->upto && (!m_has_time(m) || s->events.kept_n >= ROOM)) {
			m_missed_wait(m, s);
			return;
		}
		q->upto = c.index;
		m->work += CHANGE_WORK;
		tree_name_at(m->tree, c.node, c.index - 1, &note.parent, &note.name);
		m->missed.to = s;
		m->missed.index = c.index;
		m->missed.time_ns = c.time_ns;
		m_event_noted(m, &note);
		m->missed.to = NULL;
	}
	q->behind = false;
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
	}
}
