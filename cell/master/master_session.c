/* Sessions: how they are opened, on which connection they are, and how they end. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

static int
session_compare(const struct m_session *a, const struct m_session *b)
{
	return a->id < b->id ? -1 : a->id > b->id;
}

RB_GENERATE(m_session_tree, m_session, link, session_compare)

/* Of an earlier epoch: it has a whole lease before it may be expired. */
static struct m_session *
session_inherit(struct master *m, const struct tree_session *t)
{
	struct m_session *s = m_session_record(m, t);

	m_lease_inherited(m, s);
	if (s->awaited)
		m_barrier_await(m, s);
	return s;
}

struct m_session *
m_session_find(struct master *m, uint64_t id)
{
	struct m_session like = {.id = id};
	struct m_session *s = RB_FIND(m_session_tree, &m->sessions, &like);
	struct tree_session t;

	if (s == NULL && id > m->inherited && id <= m->inherit_last &&
	    tree_session(m->tree, id, &t))
		s = session_inherit(m, &t);
	return s;
}

bool
m_session_all_inherited(const struct master *m)
{
	return m->inherited == m->inherit_last;
}

void
m_session_inherit(struct master *m)
{
	struct tree_session t;

	while (m->work < STEP_WORK && !m_session_all_inherited(m)) {
		m->work += SESSION_WORK;
		if (!tree_session_after(m->tree, m->inherited, &t) || t.id > m->inherit_last) {
			m->inherited = m->inherit_last;
			return;
		}
		m_session_find(m, t.id);
		m->inherited = t.id;
	}
}

struct m_session *
m_session_record(struct master *m, const struct tree_session *t)
{
	struct m_session *s = memory_zero(1, sizeof *s);

	s->id = t->id;
	s->awaited = t->awaited;
	s->promised = m->now;
	s->timer = (struct timer){.at = MONO_NEVER, .kind = TIMER_SESSION, .id = t->id};
	TAILQ_INIT(&s->given_up_order);
	TAILQ_INIT(&s->waiters);
	s->heard = (mono_t){INT64_MIN};
	must(RB_INSERT(m_session_tree, &m->sessions, s) == NULL);
	m_lease_heard(m, s);
	return s;
}

void
m_session_forget_requests(struct master *m, struct m_session *s)
{
	while (!TAILQ_EMPTY(&s->waiters))
		m_waiter_drop(m, TAILQ_FIRST(&s->waiters));
	m_awaited_forget(m, s);
	m_request_free_all(s);
}

void
m_session_free(struct master *m, struct m_session *s)
{
	m_session_forget_requests(m, s);
	m_lock_forget_given_up(s, UINT64_MAX);
	if (s->due)
		TAILQ_REMOVE(&m->due, s, due_entry);
	m_timer_off(m, &s->timer);
	if (s->connection != NULL)
		m_connection_detach(m, s->connection);
	RB_REMOVE(m_session_tree, &m->sessions, s);
	free(s);
}

/* ---- opening ---- */

static void
opened(struct master *m, const struct m_connection *c, enum rc rc, uint64_t session)
{
	struct message reply = {
	    .code = MSG_session_opened,
	    .session_opened =
	        {
	            .rc = rc,
	            .session = session,
	            .epoch = m->epoch,
	            .master = m->config.replica,
	            .principal = c->principal,
	        },
	};

	m_connection_send(m, c, &reply);
}

/* A session has one connection: the newest. */
static void
session_attach(struct master *m, struct m_session *s, struct m_connection *c)
{
	must(c->session == NULL || c->session == s);
	if (s->connection != NULL && s->connection != c)
		m_connection_close(m, s->connection);
	c->session = s;
	c->ended = 0;
	c->left = false;
	s->connection = c;
	m_lease_heard(m, s);
	opened(m, c, RC_OK, s->id);
}

/* The live session that this connection may have, NULL when there is none: the nonce proves that it
 * is the client's own, and a session belongs to one principal. */
static struct m_session *
session_claim(struct master *m, const struct m_connection *c, uint64_t id, struct bytes nonce)
{
	struct tree_session t;

	if (id == 0 || !tree_session(m->tree, id, &t))
		return NULL;
	if (!bytes_equal(t.nonce, nonce) || !bytes_equal(t.principal, c->principal))
		return NULL;
	return m_session_find(m, id);
}

/* Ends the session of an earlier run and creates the new one, in one entry: its locks must not stay
 * held by somebody who is gone, nor be free without their delay. */
static void
session_create(struct master *m, struct m_connection *c, const struct msg_open_session *msg)
{
	struct op end = {
	    .code = OP_end_session,
	    .end_session = {.session = msg->earlier,
	                    .cause = SESSION_EXPIRED,
	                    .epoch = m->epoch,
	                    .nonce = msg->earlier_nonce},
	};
	struct op create = {
	    .code = OP_create_session,
	    .create_session = {.nonce = msg->nonce,
	                       .principal = c->principal,
	                       .host = msg->host,
	                       .awaited = msg->caching},
	};

	if (session_claim(m, c, msg->earlier, msg->earlier_nonce) != NULL) {
		m_propose(m, msg->earlier, &end)->session = msg->earlier;
		m_lock_session_ends(m, msg->earlier, SESSION_EXPIRED);
	}
	m_propose(m, 0, &create)->connection = c->id;
	m_propose_flush(m);
	c->opening = true;
	memcpy(c->nonce, msg->nonce.data, LIMIT_NONCE);
}

/* The end of an earlier session takes its ephemeral files away, which others may have cached. It
 * has no cache of its own any more: who shows its nonce says so. */
static bool
waits_for_barrier(struct master *m, const struct m_connection *c,
                  const struct msg_open_session *msg)
{
	struct m_session *earlier = session_claim(m, c, msg->earlier, msg->earlier_nonce);

	if (earlier == NULL)
		return false;
	m_barrier_passed(m, earlier);
	return m->barrier.stands;
}

static void
session_create_later(struct master *m, struct m_connection *c, const struct msg_open_session *msg)
{
	struct message message = {.code = MSG_open_session, .open_session = *msg};
	struct buffer frame = BUFFER(LIMIT_FRAME);

	wire_put_frame(&frame, &message);
	must(!frame.failed && c->open.data == NULL);
	c->open = buffer_take(&frame);
	c->opening = true;
	memcpy(c->nonce, msg->nonce.data, LIMIT_NONCE);
	TAILQ_INSERT_TAIL(&m->opens, c, opens_entry);
}

/* A client that asks for a new session knows that the one it had is over. */
static void
acknowledge_end(struct master *m, const struct m_connection *c, const struct msg_open_session *msg)
{
	struct m_session *s = m_session_find(m, c->ended);

	if (s != NULL && s->doomed != 0 && msg->session == 0)
		m_operate_due(m, s);
}

static void
refuse_doomed(struct master *m, struct m_connection *c, const struct m_session *s)
{
	opened(m, c, RC_NO_SESSION, 0);
	c->ended = s->id;
}

void
m_session_open(struct master *m, struct m_connection *c, const struct msg_open_session *msg)
{
	uint64_t id = msg->session != 0 ? msg->session : tree_session_by_nonce(m->tree, msg->nonce);
	struct m_session *s = session_claim(m, c, id, msg->nonce);

	acknowledge_end(m, c, msg);
	if (msg->nonce.len != LIMIT_NONCE) {
		m_connection_breach(m, c, "a session's nonce has 16 bytes");
	} else if (c->session != NULL && c->session != s) {
		m_connection_breach(m, c, "it has a session already");
	} else if (c->opening) {
		if (msg->session != 0 || memcmp(c->nonce, msg->nonce.data, LIMIT_NONCE) != 0)
			m_connection_breach(m, c, "it is opening another session");
	} else if (s != NULL && s->doomed != 0) {
		refuse_doomed(m, c, s);
	} else if (s != NULL) {
		s->caching = msg->caching;
		if (s->caching)
			m_awaited_raise(m, s);
		session_attach(m, s, c);
	} else if (id != 0) {
		opened(m, c, RC_NO_SESSION, 0);
	} else if (m->full) {
		opened(m, c, RC_FULL, 0);
	} else if (waits_for_barrier(m, c, msg)) {
		session_create_later(m, c, msg);
	} else {
		session_create(m, c, msg);
	}
}

void
m_session_run_opens(struct master *m)
{
	struct m_connection *c;

	while (m->work < STEP_WORK && (c = TAILQ_FIRST(&m->opens)) != NULL) {
		struct bytes frame = c->open;
		struct message message;

		TAILQ_REMOVE(&m->opens, c, opens_entry);
		c->open = (struct bytes){NULL, 0};
		c->opening = false;
		must(wire_get_frame(frame, &message) == RC_OK);
		m->work += REQUEST_WORK;
		m_session_open(m, c, &message.open_session);
		free((void *)frame.data);
	}
}

void
m_session_created(struct master *m, const struct flight *f, const struct tree_answer *answer)
{
	struct m_connection *c = m_connection_find(m, f->connection);
	struct result result;
	struct tree_session t;
	struct m_session *s = NULL;

	if (answer->rc == RC_OK) {
		must(wire_get_result(RESULT_session, answer->result, &result) == RC_OK);
		must(tree_session(m->tree, result.session.session, &t));
		s = m_session_find(m, t.id);
		if (s == NULL) {
			s = m_session_record(m, &t);
			s->caching = t.awaited;
		}
	}
	if (c == NULL || !c->opening)
		return;
	c->opening = false;
	if (answer->rc != RC_OK)
		opened(m, c, answer->rc, 0);
	else if (bytes_equal(t.principal, c->principal))
		session_attach(m, s, c);
	else
		m_connection_breach(m, c, "a nonce that another principal used");
}

/* ---- the end ---- */

/* The connection stays, for the session that the client opens next; frames for the old one that are
 * still under way are ignored. */
void
m_session_farewell(struct master *m, struct m_session *s)
{
	struct m_connection *c = s->connection;
	struct message last = {
	    .code = MSG_keepalive_reply,
	    .keepalive_reply = {.rc = RC_NO_SESSION, .epoch = m->epoch, .sequence = c->sequence},
	};

	m_connection_send(m, c, &last);
	m_connection_detach(m, c);
	c->ended = s->id;
}

void
m_session_ended(struct master *m, uint64_t id, enum session_end cause)
{
	struct m_session *s = m_session_find(m, id);

	must(cause != 0);
	m->ending = true;
	if (s == NULL)
		return;
	if (s->connection != NULL)
		m_session_farewell(m, s);
	m_barrier_passed(m, s);
	m_session_free(m, s);
}

/* One after the other, whoever has begun it: an earlier master, too. What goes with it others may
 * have cached. */
void
m_session_finish(struct master *m)
{
	struct op op = {.code = OP_finish_session};
	enum session_end cause;
	uint64_t session;

	must(!m->barrier.stands && !m->finishing);
	m->ending = tree_ending(m->tree, &session, &cause);
	if (!m->ending)
		return;
	op.finish_session.session = session;
	m_propose(m, 0, &op);
	m_lock_session_ends(m, session, cause);
	m_propose_flush(m);
	m->finishing = true;
}
