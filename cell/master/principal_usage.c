#include <stdlib.h>
#include "cell/base/keyed.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

BYTES_TREE(principal_usages, principal_usage, link, principal)

static struct principal_usage *
find_or_add(struct master *m, struct bytes principal)
{
	struct principal_usage *u = principal_usages_find(&m->usages, principal);

	if (u != NULL)
		return u;
	u = memory_zero(1, sizeof *u);
	u->principal = bytes_copy(principal);
	must(RB_INSERT(principal_usages, &m->usages, u) == NULL);
	return u;
}

static void
drop_unused(struct master *m, struct principal_usage *u)
{
	must(u->sessions > 0 || (u->waiters == 0 && u->requests == 0));
	if (u->connections > 0 || u->sessions > 0 || u->openings > 0)
		return;
	RB_REMOVE(principal_usages, &m->usages, u);
	free((void *)u->principal.data);
	free(u);
}

void
m_usage_connect(struct master *m, struct m_connection *c)
{
	if (c->principal.len == 0)
		return;
	c->usage = find_or_add(m, c->principal);
	c->usage->connections++;
}

void
m_usage_disconnect(struct master *m, struct m_connection *c)
{
	if (c->usage == NULL)
		return;
	c->usage->connections--;
	drop_unused(m, c->usage);
	c->usage = NULL;
}

void
m_usage_join(struct master *m, struct m_session *s, struct bytes principal)
{
	s->usage = find_or_add(m, principal);
	s->usage->sessions++;
}

void
m_usage_part(struct master *m, struct m_session *s)
{
	s->usage->sessions--;
	drop_unused(m, s->usage);
	s->usage = NULL;
}

bool
m_usage_session_fits(struct master *m, struct bytes principal)
{
	const struct principal_usage *u = principal_usages_find(&m->usages, principal);

	return u == NULL || u->sessions + u->openings < LIMIT_PRINCIPAL_SESSIONS;
}

struct principal_usage *
m_usage_opening(struct master *m, struct bytes principal)
{
	struct principal_usage *u = find_or_add(m, principal);

	u->openings++;
	return u;
}

void
m_usage_opened(struct master *m, struct principal_usage *u)
{
	must(u->openings > 0);
	u->openings--;
	drop_unused(m, u);
}

bool
m_usage_waiter_fits(const struct m_session *s)
{
	return s->usage->waiters < LIMIT_PRINCIPAL_WAITERS;
}

bool
m_usage_take_request(struct m_session *s, size_t bytes)
{
	s->usage->requests++;
	s->usage->window += bytes;
	return s->usage->window <= LIMIT_PRINCIPAL_WINDOW;
}

void
m_usage_add_waiter(struct m_session *s)
{
	s->usage->waiters++;
}

void
m_usage_drop_waiter(struct m_session *s)
{
	must(s->usage->waiters > 0);
	s->usage->waiters--;
}

void
m_usage_drop_request(struct m_session *s, size_t bytes)
{
	must(s->usage->requests > 0 && s->usage->window >= bytes);
	s->usage->requests--;
	s->usage->window -= bytes;
}

/* ---- how near they are ---- */

static struct limit_row
limit_row(const char *name, const char *unit, uint64_t most, struct bytes principal)
{
	return (struct limit_row){bytes_of(name), bytes_of(unit), LIMIT_OF_PRINCIPAL, 0,
	                          most,           principal};
}

static void
count_for(struct limit_row *row, const struct principal_usage *u, uint64_t used)
{
	if (used <= row->used)
		return;
	row->used = used;
	row->principal = u->principal;
}

void
m_usage_limits(const struct master *m, struct bytes only, struct limit_row rows[USAGE_LIMITS])
{
	struct principal_usage *u;

	rows[0] = limit_row("sessions", "count", LIMIT_PRINCIPAL_SESSIONS, only);
	rows[1] = limit_row("waiters", "count", LIMIT_PRINCIPAL_WAITERS, only);
	rows[2] = limit_row("request_bytes", "bytes", LIMIT_PRINCIPAL_WINDOW, only);
	rows[3] = limit_row("connections", "count", LIMIT_PRINCIPAL_CONNECTIONS, only);
	RB_FOREACH(u, principal_usages, (struct principal_usages *)&m->usages) {
		if (only.len > 0 && !bytes_equal(only, u->principal))
			continue;
		count_for(&rows[0], u, u->sessions);
		count_for(&rows[1], u, u->waiters);
		count_for(&rows[2], u, u->window);
		count_for(&rows[3], u, u->connections);
	}
}
