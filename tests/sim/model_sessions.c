/* The model's sessions, the ephemeral files that they have open, and what is left of them at their
 * end. */
#include <stdio.h>
#include <string.h>
#include "cell/base/memory.h"
#include "tests/sim/sim.h"

static struct model_session *
session_of(struct model *m, uint64_t id)
{
	for (size_t i = 0; i < m->sessions_n; i++) {
		if (m->sessions[i].id == id)
			return &m->sessions[i];
	}
	return NULL;
}

bool
model_alive(const struct model *m, uint64_t session)
{
	const struct model_session *s = session_of((struct model *)m, session);

	return s != NULL && s->alive;
}

const char *
model_principal(const struct model *m, uint64_t session, uint64_t index)
{
	const struct model_session *s = session_of((struct model *)m, session);

	return s != NULL && (s->unowned == 0 || s->unowned > index) ? s->principal : "";
}

void
model_begin_epoch(struct sim *s, const struct op_begin_epoch *op)
{
	struct model *m = &s->model;

	/* The first one makes the cell. */
	for (size_t i = 0; m->epoch == 0 && i < m->items_n; i++)
		m->items[i]->mtime_ns = m->items[i]->ctime_ns = m->stamp_ns;
	m->epoch++;
	m->epoch_from = s->now;
	setting_changes_epoch(s);
	outstanding_begin(m);
	members_first(s, op->members);
}

size_t
model_sessions_alive(const struct model *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->sessions_n; i++)
		n += m->sessions[i].alive;
	return n;
}

uint64_t
model_unowned_session(const struct model *m)
{
	for (size_t i = 0; i < m->sessions_n; i++)
		if (m->sessions[i].alive && m->sessions[i].unowned != 0)
			return m->sessions[i].id;
	return 0;
}

void
model_create_session(struct sim *sim, const struct op_create_session *op)
{
	struct model *m = &sim->model;
	struct model_session *s;

	if (!model_owns(m, op->principal, op->principal_generation))
		return;
	for (size_t i = 0; i < op->host.len; i++)
		if (op->host.data[i] <= ' ' || op->host.data[i] > '~')
			sim_fail(sim, "session %lu is one of a host without a name",
			         (unsigned long)m->next);
	for (size_t i = 0; i < m->sessions_n; i++) {
		if (m->sessions[i].alive &&
		    memcmp(m->sessions[i].nonce, op->nonce.data, LIMIT_NONCE) == 0)
			return;
	}
	ARRAY_ROOM(m->sessions, m->sessions_n, m->sessions_room);
	s = &m->sessions[m->sessions_n++];
	s->id = m->next++;
	s->alive = true;
	s->awaited = op->awaited;
	s->lasting = op->lasting;
	s->outstanding = s->given_up = false;
	s->unowned = 0;
	memcpy(s->nonce, op->nonce.data, LIMIT_NONCE);
	snprintf(s->principal, sizeof s->principal, "%.*s", (int)op->principal.len,
	         (const char *)op->principal.data);
}

static struct item *
find_opener(struct model *m, uint64_t session, uint64_t opened, struct opener **o)
{
	for (size_t i = 0; i < m->items_n; i++) {
		struct item *it = m->items[i];

		for (size_t j = 0; it->died == 0 && j < it->openers_n; j++) {
			*o = &it->openers[j];
			if ((*o)->session == session && (*o)->opened == opened)
				return it;
		}
	}
	return NULL;
}

struct item *
model_opened(struct model *m, uint64_t session, uint64_t opened)
{
	struct opener *o;

	return find_opener(m, session, opened, &o);
}

void
model_open(struct item *it, struct opener o)
{
	for (size_t i = 0; i < it->openers_n; i++) {
		if (it->openers[i].session == o.session && it->openers[i].opened == o.opened)
			return;
	}
	ARRAY_ROOM(it->openers, it->openers_n, it->openers_room);
	it->openers[it->openers_n++] = o;
}

/* Wherever renames have brought it; false when the session has not opened it. */
bool
model_close(struct sim *s, uint64_t index, uint64_t session, uint64_t opened)
{
	struct opener *o;
	struct item *it = find_opener(&s->model, session, opened, &o);

	if (it == NULL)
		return false;
	*o = it->openers[--it->openers_n];
	if (it->openers_n > 0)
		return true;
	users_check_unopened(s, it);
	model_delete(s, it, index);
	return true;
}

/* The smallest number by which the session has opened something; 0: it has nothing open. */
static uint64_t
first_opened(const struct model *m, uint64_t session)
{
	uint64_t first = 0;

	for (size_t i = 0; i < m->items_n; i++) {
		const struct item *it = m->items[i];

		for (size_t j = 0; it->died == 0 && j < it->openers_n; j++)
			if (it->openers[j].session == session &&
			    (first == 0 || it->openers[j].opened < first))
				first = it->openers[j].opened;
	}
	return first;
}

/* A lease is a promise: nobody's session may end as expired while its client believes in it, unless
 * the client itself, or the one that took its place, says so. */
static void
check_expiry(struct sim *s, uint64_t session, bool by_master)
{
	if (!sim_leases_hold(s) || s->script != NULL) /* an operator may say so, too */
		return;
	for (int i = 0; by_master && i < s->machines_n; i++) {
		const struct machine *m = &s->machines[i];

		if (m->session == session && machine_leased(s, m))
			sim_fail(s, "session %lu is expired, and its client's lease holds",
			         (unsigned long)session);
	}
	/* Nobody knows what the master before had promised: each session has a lease anew. */
	if (by_master && s->now - s->model.epoch_from <
	                     setting_changes_least(s, SETTING_session_lease) / 100 * 98)
		sim_fail(s, "session %lu is expired, and its master is new",
		         (unsigned long)session);
}

/* True unless the close would delete the file, and the command does not declare that. */
static bool
close_declared(struct sim *s, const struct command *c, uint64_t session, uint64_t opened)
{
	const struct item *it = model_opened(&s->model, session, opened);

	return it->openers_n > 1 || declared_deletion(s, c, it);
}

/* All that the session has goes piece by piece: locks, opens, directories that never had a child.
 */
static void
go_on_ending(struct sim *s, uint64_t index, const struct command *c,
             const struct model_session *session)
{
	struct model *m = &s->model;
	const size_t most = s->swarm.ending;
	struct item **it, **const end = m->items + m->items_n;
	uint64_t opened;

	m->ended = 0;
	for (it = m->items; it < end; it++)
		while (m->ended < most && (*it)->died == 0 &&
		       locks_session_ends(s, *it, index, session->id, UINT64_MAX, session->expired))
			m->ended++;
	while (m->ended < most && (opened = first_opened(m, session->id)) != 0 &&
	       close_declared(s, c, session->id, opened))
		if (model_close(s, index, session->id, opened))
			m->ended++;
	for (it = m->items; it < end && m->ended < most; it++)
		if ((*it)->died == 0 && (*it)->creator == session->id) {
			if (!declared_deletion(s, c, *it))
				return;
			model_delete(s, *it, index);
		}
}

/* A master goes on with it however often; at the end of a run nothing may be left. */
void
model_finish_session(struct sim *s, uint64_t index, const struct command *c, uint64_t id)
{
	const struct model_session *session = session_of(&s->model, id);

	if (session == NULL || session->alive)
		sim_fail(s, "the end of session %lu goes on, and it lives", (unsigned long)id);
	go_on_ending(s, index, c, session);
}

enum rc
model_end_session(struct sim *s, uint64_t index, const struct command *c,
                  const struct op_end_session *op)
{
	struct model *m = &s->model;
	struct model_session *session = session_of(m, op->session);
	bool expired = op->cause == SESSION_EXPIRED;

	if (session == NULL || !session->alive)
		return RC_NO_SESSION;
	if (c->session == 0 && expired && op->nonce.len == 0 && op->epoch != m->epoch)
		return RC_OLD_EPOCH;
	if (session->lasting && expired && op->nonce.len > 0)
		return RC_PERM;
	if (session->lasting && expired && s->script == NULL)
		sim_fail(s, "session %lu is expired, and it lasts", (unsigned long)session->id);
	check_expiry(s, op->session, c->session == 0 && expired && op->nonce.len == 0);
	if (c->session != op->session && op->nonce.len > 0)
		machine_session_destroyed(s, op->session);
	session->alive = false;
	session->expired = expired;
	go_on_ending(s, index, c, session);
	history_waits_over(s, op->session);
	return RC_OK;
}
