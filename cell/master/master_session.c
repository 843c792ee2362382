#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

static int
session_compare(const struct m_session *a, const struct m_session *b)
{
	return a->id < b->id ? -1 : a->id > b->id;
}

RB_GENERATE(m_session_tree, m_session, link, session_compare)

/* A session of an earlier epoch has a whole lease before it may expire. */
static struct m_session *
session_inherit(struct master *m, const struct tree_session *t)
{
	struct m_session *s = m_session_record(m, t);

	m_lease_inherited(m, s);
	if (s->await.bit)
		m_barrier_await(m, s);
	if (m_removed_owns(m, t))
		m_end_order(m, s, SESSION_DESTROYED);
	return s;
}

struct m_session *
m_session_find(struct master *m, uint64_t id)
{
	struct m_session like = {.id = id};
	struct m_session *s = RB_FIND(m_session_tree, &m->sessions.by_id, &like);
	struct tree_session t;

	if (s == NULL && id > m->sessions.inherited && id <= m->sessions.inherit_to &&
	    tree_session(m->tree, id, &t))
		s = session_inherit(m, &t);
	return s;
}

void
m_session_begin(struct master *m)
{
	m->sessions.inherited = 0;
	m->sessions.inherit_to = tree_session_last(m->tree);
}

bool
m_session_all_inherited(const struct master *m)
{
	return m->sessions.inherited == m->sessions.inherit_to;
}

void
m_session_inherit(struct master *m)
{
	struct tree_session t;

	while (m_has_time(m) && !m_session_all_inherited(m)) {
		m->work += SESSION_WORK;
		if (!tree_session_after(m->tree, m->sessions.inherited, &t) ||
		    t.id > m->sessions.inherit_to) {
			m->sessions.inherited = m->sessions.inherit_to;
			return;
		}
		m_session_find(m, t.id);
		m->sessions.inherited = t.id;
	}
}

struct m_session *
m_session_record(struct master *m, const struct tree_session *t)
{
	struct m_session *s = memory_zero(1, sizeof *s);

	s->id = t->id;
	m_usage_join(m, s, t->principal);
	m_await_begin(s, t->awaited);
	m_withdrawals_init(&s->withdrawals);
	m_waiters_init(s);
	m_request_begin(s);
	m_keepalive_begin(s);
	m_cache_begin(s);
	must(RB_INSERT(m_session_tree, &m->sessions.by_id, s) == NULL);
	m_lease_begin(m, s, t->lasting);
	return s;
}

void
m_session_forget_requests(struct master *m, struct m_session *s)
{
	m_waiters_drop(m, s);
	m_await_forget(m, s);
	m_request_free_all(m, s);
}

void
m_session_free(struct master *m, struct m_session *s)
{
	m_session_forget_requests(m, s);
	m_usage_part(m, s);
	m_withdrawals_forget(&s->withdrawals, UINT64_MAX);
	m_end_forget(m, s);
	m_lease_forget(m, s);
	m_cache_forget(m, s);
	m_watch_drop_all(m, s);
	m_event_forget(m, s);
	m_mark_answered(m, s, false);
	if (s->connection != NULL)
		m_connection_detach(m, s->connection);
	RB_REMOVE(m_session_tree, &m->sessions.by_id, s);
	free(s);
}

void
m_session_free_all(struct master *m)
{
	struct m_session *s;

	while ((s = RB_ROOT(&m->sessions.by_id)) != NULL)
		m_session_free(m, s);
	m->sessions.inherited = m->sessions.inherit_to;
}
