#include <stdlib.h>
#include <string.h>

#include "cell/base/keyed.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/base/principal.h"
#include "cell/master/internal.h"

KEYED_GENERATE(m_session_tree, m_session, link, id)

/* Records a session that lives in the tree. */
static struct m_session *
session_record(struct master *m, const struct tree_session *t)
{
	struct m_session *s = memory_zero(1, sizeof *s);

	s->id = t->id;
	m_usage_join(m, s, t->principal);
	m_await_begin(s, t->awaited);
	TAILQ_INIT(&s->withdrawals.received);
	TAILQ_INIT(&s->waiters.list);
	TAILQ_INIT(&s->requests.answered);
	TAILQ_INIT(&s->refused);
	m_keepalive_begin(s);
	m_cache_begin(s);
	must(RB_INSERT(m_session_tree, &m->sessions.by_id, s) == NULL);
	m_lease_begin(m, s, t->lasting);
	return s;
}

struct m_session *
m_session_find(struct master *m, uint64_t id)
{
	struct m_session *s = m_session_tree_find(&m->sessions.by_id, id);
	struct tree_session t;

	if (s != NULL || id <= m->sessions.inherited || id > m->sessions.inherit_to ||
	    !tree_session(m->tree, id, &t))
		return s;
	s = session_record(m, &t);
	m_lease_inherited(m, s); /* a whole lease before it may expire */
	if (s->await.bit)
		m_barrier_await(m, s);
	if (m_removed_owns(m, &t))
		m_end_order(m, s, SESSION_DESTROYED);
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

/* Nothing that the session has asked for and that is not proposed yet is done any more. */
static void
session_forget_requests(struct master *m, struct m_session *s)
{
	m_waiters_drop(m, s);
	m_await_forget(m, s);
	m_request_free_all(m, s);
}

/* Frees the record. */
static void
session_free(struct master *m, struct m_session *s)
{
	session_forget_requests(m, s);
	m_usage_part(m, s);
	m_withdrawals_forget(&s->withdrawals, UINT64_MAX);
	if (s->ending.due)
		TAILQ_REMOVE(&m->ending.due, s, ending.entry);
	m_lease_forget(m, s);
	m_cache_forget(m, s);
	m_watch_drop_all(m, s);
	m_event_forget(m, s);
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
		session_free(m, s);
	m->sessions.inherited = m->sessions.inherit_to;
}

/* ---- session opening ---- */

void
m_opening_detach(struct master *m, struct m_connection *c)
{
	if (c->opening.message.data != NULL) {
		TAILQ_REMOVE(&m->opening.parked, c, opening.entry);
		free((void *)c->opening.message.data);
		c->opening.message = (struct bytes){NULL, 0};
	}
	c->opening.under_way = false;
}

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

static void
session_attach(struct master *m, struct m_session *s, struct m_connection *c)
{
	m_connection_attach(m, c, s);
	m_lease_extend(m, s);
	opened(m, c, RC_OK, s->id);
}

/* The session's end is ordered: its client has none any more. */
static void
opened_ending(struct master *m, struct m_connection *c, const struct m_session *s)
{
	opened(m, c, RC_NO_SESSION, 0);
	m_connection_ended(c, s->id);
}

/* The live session that may be open on this connection, NULL when there is none: the nonce proves
 * that it is the client's own, and a session belongs to one principal. */
static struct m_session *
session_claim(struct master *m, const struct m_connection *c, uint64_t id, struct bytes nonce)
{
	struct tree_principal p;
	struct tree_session t;

	if (id == 0 || !tree_session(m->tree, id, &t) || !m_connection_principal(m, c, &p))
		return NULL;
	if (!bytes_equal(t.nonce, nonce) || t.principal_generation != p.generation)
		return NULL;
	return m_session_find(m, id);
}

/* The session of an earlier run of the client, which is to end; NULL if there is none, or it lasts
 * until an operator ends it. */
static struct m_session *
earlier_session(struct master *m, const struct m_connection *c, const struct msg_open_session *msg)
{
	struct m_session *s = session_claim(m, c, msg->earlier, msg->earlier_nonce);

	return s == NULL || m_lease_lasts(s) ? NULL : s;
}

/* Ends the session of an earlier run of the client and creates the new one, in one entry: the locks
 * of the earlier one must neither stay held nor be free without their delay. */
static void
session_create(struct master *m, struct m_connection *c, const struct tree_principal *p,
               const struct msg_open_session *msg)
{
	struct op end = OPERATION(end_session, .session = msg->earlier, .cause = SESSION_EXPIRED,
	                          .epoch = m->epoch, .nonce = msg->earlier_nonce);
	struct op create = OPERATION(create_session, .nonce = msg->nonce, .principal = p->name,
	                             .principal_generation = p->generation, .host = msg->host,
	                             .awaited = msg->caching, .lasting = msg->lasting);
	struct own_command *own;

	if (earlier_session(m, c, msg) != NULL) {
		m_propose_bounded(m, msg->earlier, &end, m_admission_end(m, NULL, &end))->session =
		    msg->earlier;
		m_lock_session_ends(m, msg->earlier, SESSION_EXPIRED);
	}
	own = m_propose(m, 0, &create);
	own->connection = c->id;
	own->usage = m_usage_opening(m, p->name);
	m_propose_flush(m);
	c->opening.under_way = true;
	memcpy(c->opening.nonce, msg->nonce.data, LIMIT_NONCE);
}

/* The end of an earlier session takes its ephemeral files away, which other sessions may have
 * cached. The earlier session has no cache any more: the client says so by naming its nonce. */
static bool
waits_for_barrier(struct master *m, const struct m_connection *c,
                  const struct msg_open_session *msg)
{
	struct m_session *earlier = earlier_session(m, c, msg);

	if (earlier == NULL)
		return false;
	m_barrier_passed(m, earlier);
	return m->barrier.stands;
}

/* A client that asks for a new session knows that its earlier one is over. */
static void
acknowledge_end(struct master *m, const struct m_connection *c, const struct msg_open_session *msg)
{
	struct m_session *s = m_session_find(m, c->ended);

	if (s != NULL && s->ending.cause != 0 && msg->session == 0)
		m_end_due(m, s);
}

void
m_opening_receive(struct master *m, struct m_connection *c, const struct msg_open_session *msg)
{
	uint64_t id = msg->session != 0 ? msg->session : tree_session_by_nonce(m->tree, msg->nonce);
	struct m_session *s = session_claim(m, c, id, msg->nonce);
	struct tree_principal p;

	acknowledge_end(m, c, msg);
	if (msg->nonce.len != LIMIT_NONCE) {
		m_connection_breach(m, c, "a session's nonce has 16 bytes");
	} else if (!principal_host_valid(msg->host)) {
		m_connection_breach(m, c, "a host's name has visible ASCII characters only");
	} else if (!m_connection_principal(m, c, &p)) {
		m_connection_breach(m, c, "there is no such principal");
	} else if (c->session != NULL && c->session != s) {
		m_connection_breach(m, c, "it has a session already");
	} else if (c->opening.under_way) {
		if (msg->session != 0 ||
		    memcmp(c->opening.nonce, msg->nonce.data, LIMIT_NONCE) != 0)
			m_connection_breach(m, c, "it is opening another session");
	} else if (s != NULL && s->ending.cause != 0) {
		opened_ending(m, c, s);
	} else if (s != NULL) {
		/* The client may not have heard that it is back, and then keeps its cache. */
		m_await_set_caching(s, msg->caching || m_cache_has_leave(m, s));
		if (msg->caching)
			m_await_raise(m, s);
		session_attach(m, s, c);
	} else if (id != 0) {
		opened(m, c, RC_NO_SESSION, 0);
	} else if (msg->lasting && !tree_may_last(m->tree, p.name)) {
		m_connection_deny(m, c, RC_ACCES);
	} else if (m->full || !m_usage_session_fits(m, p.name)) {
		opened(m, c, RC_FULL, 0);
	} else if (waits_for_barrier(m, c, msg)) {
		struct message message = {.code = MSG_open_session, .open_session = *msg};
		struct buffer frame = BUFFER(LIMIT_FRAME);

		wire_put_frame(&frame, &message);
		must(!frame.failed && c->opening.message.data == NULL);
		c->opening.message = buffer_take(&frame);
		c->opening.under_way = true;
		memcpy(c->opening.nonce, msg->nonce.data, LIMIT_NONCE);
		TAILQ_INSERT_TAIL(&m->opening.parked, c, opening.entry);
		M_TRACE(m, "session %" PRIu64 " is to end before a new one: waits for the barrier",
		        msg->earlier);
	} else {
		session_create(m, c, &p, msg);
	}
}

void
m_opening_run(struct master *m)
{
	struct m_connection *c;

	while (m_has_time(m) && (c = TAILQ_FIRST(&m->opening.parked)) != NULL) {
		struct bytes frame = c->opening.message;
		struct message message;

		TAILQ_REMOVE(&m->opening.parked, c, opening.entry);
		c->opening.message = (struct bytes){NULL, 0};
		c->opening.under_way = false;
		must(wire_get_frame(frame, &message) == RC_OK);
		m->work += REQUEST_WORK;
		m_opening_receive(m, c, &message.open_session);
		free((void *)frame.data);
	}
}

void
m_opening_created(struct master *m, const struct own_command *own, const struct tree_answer *answer)
{
	struct m_connection *c = m_connection_find(m, own->connection);
	struct result result;
	struct tree_session t;
	struct m_session *s = NULL;

	m_usage_opened(m, own->usage);
	if (answer->rc == RC_OK) {
		must(wire_get_result(RESULT_session, answer->result, &result) == RC_OK);
		must(tree_session(m->tree, result.session.session, &t));
		s = m_session_find(m, t.id);
		if (s == NULL) {
			s = session_record(m, &t);
			m_await_set_caching(s, t.awaited);
		}
	}
	if (c == NULL || !c->opening.under_way)
		return;
	c->opening.under_way = false;
	if (answer->rc == RC_PERM)
		m_connection_breach(m, c, "its principal was removed");
	else if (answer->rc == RC_ACCES)
		m_connection_deny(m, c, RC_ACCES);
	else if (answer->rc != RC_OK)
		opened(m, c, answer->rc, 0);
	else if (s == NULL || session_claim(m, c, t.id, t.nonce) != s)
		m_connection_breach(m, c, "a nonce that another principal used");
	else if (s->ending.cause != 0)
		opened_ending(m, c, s);
	else
		session_attach(m, s, c);
}

/* ---- session end ---- */

void
m_end_begin(struct master *m)
{
	m->ending.unfinished = true;
}

void
m_end_clear(struct master *m)
{
	m->ending.finishing = false;
	if (m->ending.pass != NULL)
		gate_leave(&m->gate, m->ending.pass);
	m->ending.pass = NULL;
}

/* ---- as operators order it ---- */

/* The connection stays, for the session that the client opens next; frames for the earlier one that
 * are still in flight are ignored. */
static void
farewell(struct master *m, struct m_session *s)
{
	struct m_connection *c = s->connection;
	struct message last = MESSAGE(keepalive_reply, .rc = RC_NO_SESSION, .epoch = m->epoch,
	                              .sequence = c->keepalive.sequence);

	m_connection_send(m, c, &last);
	m_connection_detach(m, c);
	m_connection_ended(c, s->id);
}

void
m_end_order(struct master *m, struct m_session *s, enum end_cause cause)
{
	M_TRACE(m, "session %" PRIu64 " is to end, as an operator orders", s->id);
	if (s->ending.cause == 0) {
		/* The client is told first, so that no other session gets a lock that this client
		 * still believes to have. The client shows that it knows of the end by opening
		 * another session; a client that cannot be reached has time until its leave to
		 * cache is over. Then the end waits for the barrier, like every end of a session
		 * that its client did not ask for: ephemeral files go with it, which other sessions
		 * may have cached. */
		span_t lease = m_lease_longest(m, SETTING_cache_lease);

		s->ending.latest = mono_add(mono_add(m->now, lease), m_lease_margin(m, lease));
		s->ending.connection = 0;
		if (s->connection != NULL) {
			s->ending.connection = s->connection->id;
			farewell(m, s);
		}
		session_forget_requests(m, s);
	}
	s->ending.cause = cause;
	m_lease_arm(m, s);
}

void
m_end_due(struct master *m, struct m_session *s)
{
	must(s->ending.cause != 0);
	m_barrier_passed(m, s);
	if (s->ending.due || s->ending.proposed)
		return;
	s->ending.due = true;
	TAILQ_INSERT_TAIL(&m->ending.due, s, ending.entry);
	m_lease_arm(m, s);
}

void
m_end_run(struct master *m)
{
	struct m_session *s;

	while (m_has_time(m) && (s = TAILQ_FIRST(&m->ending.due)) != NULL) {
		m->work += REQUEST_WORK;
		TAILQ_REMOVE(&m->ending.due, s, ending.entry);
		s->ending.due = false;
		m_end_propose(m, s, s->ending.cause);
	}
}

/* ---- in the log ---- */

void
m_end_propose(struct master *m, struct m_session *s, enum end_cause cause)
{
	struct op op =
	    OPERATION(end_session, .session = s->id, .cause = (uint8_t)cause, .epoch = m->epoch);

	m_propose_bounded(m, 0, &op, m_admission_end(m, NULL, &op))->session = s->id;
	m_lock_session_ends(m, s->id, cause);
	m_propose_flush(m);
	s->ending.proposed = true;
	m_lease_arm(m, s);
}

void
m_end_refused(struct master *m, uint64_t session)
{
	struct m_session *s = m_session_find(m, session);

	if (s == NULL || !s->ending.proposed)
		return;
	s->ending.proposed = false;
	m_lease_extend(m, s);
}

void
m_end_applied(struct master *m, uint64_t id, enum end_cause cause)
{
	struct m_session *s = m_session_find(m, id);

	must(cause != 0);
	m->ending.unfinished = true;
	if (s == NULL)
		return;
	if (s->connection != NULL)
		farewell(m, s);
	m_removed_ended(m, s->ending.connection);
	m_barrier_passed(m, s);
	session_free(m, s);
}

bool
m_end_has_more(const struct master *m)
{
	const struct endings *e = &m->ending;

	return e->unfinished && !e->finishing &&
	       (e->pass == NULL || e->pass->list != &m->gate.blocked);
}

/* Ended sessions are finished one after the other, those of earlier epochs included. Other sessions
 * may have cached the nodes that go with them, and are told before. */
void
m_end_finish(struct master *m)
{
	struct op op = {.code = OP_finish_session};
	struct footprint changes = {0};
	enum end_cause cause;
	uint64_t session;

	must(!m->barrier.stands && !m->ending.finishing);
	m->ending.unfinished = tree_ending(m->tree, &session, &cause);
	if (!m->ending.unfinished)
		return;
	op.finish_session.session = session;
	if (m->ending.pass == NULL)
		m->ending.pass = gate_pass_new(NULL, 0, 0);
	tree_changes(m->tree, &(struct requester){0}, &op, 0, &changes);
	if (!gate_enter(&m->gate, m->ending.pass, &changes))
		return;
	m_propose_bounded(m, 0, &op, m->ending.pass);
	m->ending.pass = NULL;
	m_lock_session_ends(m, session, cause);
	m_propose_flush(m);
	m->ending.finishing = true;
}

void
m_end_finished(struct master *m)
{
	m->ending.finishing = false;
}
