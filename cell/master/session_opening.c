#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

void
m_opening_init(struct master *m)
{
	TAILQ_INIT(&m->opening.parked);
}

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
	m_mark_attached(m, s);
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

/* The session of an earlier run of the client, which is to end; NULL: there is none, or it lasts
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
	                       .principal = p->name,
	                       .principal_generation = p->generation,
	                       .host = msg->host,
	                       .awaited = msg->caching,
	                       .lasting = msg->lasting},
	};

	if (earlier_session(m, c, msg) != NULL) {
		m_propose_bounded(m, msg->earlier, &end, m_admission_end(m, NULL, &end))->session =
		    msg->earlier;
		m_lock_session_ends(m, msg->earlier, SESSION_EXPIRED);
	}
	m_propose(m, 0, &create)->connection = c->id;
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

static void
session_create_parked(struct master *m, struct m_connection *c, const struct msg_open_session *msg)
{
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
}

/* A client that asks for a new session knows that its earlier one is over. */
static void
acknowledge_end(struct master *m, const struct m_connection *c, const struct msg_open_session *msg)
{
	struct m_session *s = m_session_find(m, c->ended);

	if (s != NULL && s->ending.cause != 0 && msg->session == 0)
		m_end_due(m, s);
}

static void
refuse_ending(struct master *m, struct m_connection *c, const struct m_session *s)
{
	opened(m, c, RC_NO_SESSION, 0);
	m_connection_ended(c, s->id);
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
	} else if (!m_connection_principal(m, c, &p)) {
		m_connection_breach(m, c, "there is no such principal");
	} else if (c->session != NULL && c->session != s) {
		m_connection_breach(m, c, "it has a session already");
	} else if (c->opening.under_way) {
		if (msg->session != 0 ||
		    memcmp(c->opening.nonce, msg->nonce.data, LIMIT_NONCE) != 0)
			m_connection_breach(m, c, "it is opening another session");
	} else if (s != NULL && s->ending.cause != 0) {
		refuse_ending(m, c, s);
	} else if (s != NULL) {
		m_await_set_caching(s, msg->caching);
		if (msg->caching)
			m_await_raise(m, s);
		session_attach(m, s, c);
	} else if (id != 0) {
		opened(m, c, RC_NO_SESSION, 0);
	} else if (m->full || !m_usage_session_fits(m, p.name)) {
		opened(m, c, RC_FULL, 0);
	} else if (waits_for_barrier(m, c, msg)) {
		session_create_parked(m, c, msg);
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

	if (answer->rc == RC_OK) {
		must(wire_get_result(RESULT_session, answer->result, &result) == RC_OK);
		must(tree_session(m->tree, result.session.session, &t));
		s = m_session_find(m, t.id);
		if (s == NULL) {
			s = m_session_record(m, &t);
			m_await_set_caching(s, t.awaited);
		}
	}
	if (c == NULL || !c->opening.under_way)
		return;
	c->opening.under_way = false;
	if (answer->rc == RC_PERM)
		m_connection_breach(m, c, "its principal was removed");
	else if (answer->rc != RC_OK)
		opened(m, c, answer->rc, 0);
	else if (s != NULL && session_claim(m, c, t.id, t.nonce) == s)
		session_attach(m, s, c);
	else
		m_connection_breach(m, c, "a nonce that another principal used");
}
