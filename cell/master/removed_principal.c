#include "cell/master/removed_principal.h"

#include "cell/base/must.h"
#include "cell/master/internal.h"

bool
m_removed_owns(const struct master *m, const struct tree_session *t)
{
	struct tree_principal p;

	return !tree_principal(m->tree, t->principal, &p) ||
	       p.generation != t->principal_generation;
}

static void
order_end(struct master *m, struct m_session *s)
{
	if (s->ending.cause == 0)
		m_end_order(m, s, SESSION_DESTROYED);
}

/* The sessions on these connections are told of their end before. */
static void
close_connections(struct master *m, struct bytes principal)
{
	struct m_connection *c, *next;

	RB_FOREACH_SAFE(c, m_connection_tree, &m->connections.by_id, next) {
		if (!bytes_equal(c->principal, principal))
			continue;
		if (c->session != NULL)
			order_end(m, c->session);
		M_TRACE(m, "connection %" PRIu64 " is closed: its principal was removed", c->id);
		m_connection_close(m, c);
	}
}

void
m_removed_note(struct master *m, const struct tree_note *note)
{
	close_connections(m, note->name);
	m->removed = (struct removed_principals){.due = true};
}

void
master_principal_removed(struct master *m, struct bytes principal, struct master_update *u)
{
	must(!m->serving);
	m->update = u;
	close_connections(m, principal);
	m->update = NULL;
}

void
m_removed_run(struct master *m)
{
	struct removed_principals *r = &m->removed;
	struct tree_session t;

	while (m_has_time(m) && (r->due = tree_session_after(m->tree, r->after, &t))) {
		m->work += SESSION_WORK;
		r->after = t.id;
		if (m_removed_owns(m, &t))
			order_end(m, m_session_find(m, t.id));
	}
}

void
m_removed_clear(struct master *m)
{
	m->removed.due = false;
}
