#include "cell/master/principal_usage.h"

#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

static int
by_name(const struct principal_usage *a, const struct principal_usage *b)
{
	return bytes_compare(a->principal, b->principal);
}

RB_GENERATE_INTERNAL(principal_usages, principal_usage, link, by_name,
                     __attribute__((unused)) static)

static struct principal_usage *
find(struct master *m, struct bytes principal)
{
	struct principal_usage like = {.principal = principal};

	return RB_FIND(principal_usages, &m->usages, &like);
}

void
m_usage_join(struct master *m, struct m_session *s, struct bytes principal)
{
	struct principal_usage *u = find(m, principal);

	if (u == NULL) {
		u = memory_zero(1, sizeof *u);
		u->principal = bytes_copy(principal);
		must(RB_INSERT(principal_usages, &m->usages, u) == NULL);
	}
	u->sessions++;
	s->usage = u;
}

void
m_usage_part(struct master *m, struct m_session *s)
{
	struct principal_usage *u = s->usage;

	s->usage = NULL;
	if (--u->sessions > 0)
		return;
	must(u->waiters == 0 && u->requests == 0);
	RB_REMOVE(principal_usages, &m->usages, u);
	free((void *)u->principal.data);
	free(u);
}

bool
m_usage_session_fits(struct master *m, struct bytes principal)
{
	const struct principal_usage *u = find(m, principal);

	return u == NULL || u->sessions < LIMIT_PRINCIPAL_SESSIONS;
}

bool
m_usage_waiter_fits(const struct m_session *s)
{
	return s->usage->waiters < LIMIT_PRINCIPAL_WAITERS;
}

bool
m_usage_request_fits(const struct m_session *s, size_t bytes)
{
	const size_t window = s->usage->window;

	return window <= LIMIT_PRINCIPAL_WINDOW && bytes <= LIMIT_PRINCIPAL_WINDOW - window;
}

void
m_usage_add_waiter(struct m_session *s)
{
	s->usage->waiters++;
}

void
m_usage_add_request(struct m_session *s, size_t bytes)
{
	s->usage->requests++;
	s->usage->window += bytes;
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
