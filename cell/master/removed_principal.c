#include <stdlib.h>

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

static void
hang_up(struct master *m, struct m_connection *c)
{
	M_TRACE(m, "connection %" PRIu64 " is closed: its principal was removed", c->id);
	m_connection_close(m, c);
}

/* A client is told of the end of its session, and shows on the same connection that it knows: then
 * others need not wait until its leave to cache is over. So that connection is closed with the
 * session. */
static void
close_connections(struct master *m, struct bytes principal)
{
	struct m_connection *c, *next;

	RB_FOREACH_SAFE(c, m_connection_tree, &m->connections.by_id, next) {
		if (!bytes_equal(c->principal, principal))
			continue;
		if (c->session != NULL)
			order_end(m, c->session);
		if (c->ended == 0 || m_session_find(m, c->ended) == NULL)
			hang_up(m, c);
	}
}

void
m_removed_ended(struct master *m, uint64_t connection)
{
	struct m_connection *c = m_connection_find(m, connection);
	struct tree_principal p;

	if (c != NULL && !m_connection_principal(m, c, &p))
		hang_up(m, c);
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

/* ---- name purge ---- */

bool
m_purge_is_due(const struct master *m)
{
	const struct name_purge *p = &m->purge;

	return p->name.len > 0 && !p->proposed &&
	       (p->pass == NULL || p->pass->list != &m->gate.blocked);
}

void
m_purge_clear(struct master *m)
{
	if (m->purge.pass != NULL)
		gate_leave(&m->gate, m->purge.pass);
	free((void *)m->purge.name.data);
	m->purge = (struct name_purge){0};
}

void
m_purge_run(struct master *m)
{
	struct name_purge *p = &m->purge;
	const struct op op = OPERATION(purge_name, p->name);
	struct footprint changes = {0};

	must(!m->barrier.stands);
	tree_changes(m->tree, &(struct requester){0}, &op, 0, &changes);
	if (changes.n == 0) {
		m_purge_clear(m);
		return;
	}
	if (p->pass == NULL)
		p->pass = gate_pass_new(NULL, 0, 0);
	if (!gate_enter(&m->gate, p->pass, &changes))
		return;
	m_propose_bounded(m, 0, &op, p->pass);
	m_propose_flush(m);
	p->pass = NULL;
	p->proposed = true;
}

void
m_purge_applied(struct master *m)
{
	m->purge.proposed = false;
}

void
master_purge_name(struct master *m, struct master_clock clock, struct bytes principal,
                  struct master_update *u)
{
	must(m->serving);
	if (m->purge.name.len > 0)
		return;
	m->purge.name = bytes_copy(principal);
	m_step_begin(m, clock, u);
	m_step_end(m);
}
