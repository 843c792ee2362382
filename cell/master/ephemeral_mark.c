/* An ephemeral file is deleted when no session has it open, and the cell does not know which
 * sessions have a permanent file open. So the master asks all of them but the one that marks the
 * file, and counts a session that does not answer within a cache lease as one that has it open.
 * Later marks do not wait for a session that was silent, until it has answered a question: a client
 * that is stuck delays one mark, not all.
 *
 * From the question to the apply no other session can open the file unnoticed: what it was answered
 * before is on its connection in front of the question, and requests by which it may open the file
 * wait for the apply: reads, which would show a permanent file, creates that find it, and renames
 * onto it. One that is under way when the question arrives is counted by the client itself.
 *
 * A session may be counted that has the file not open. It is told that it is an opener, and then
 * closes the file: after the apply, and whenever it is open on a new connection. So a master has
 * nothing to remember of the marks of earlier ones. */
#include "cell/base/limit.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

enum { OPENED_PAGE = 256 }; /* numbers in one message */

void
m_mark_init(struct master *m)
{
	TAILQ_INIT(&m->mark.asked);
	TAILQ_INIT(&m->mark.asking);
	TAILQ_INIT(&m->mark.opens);
	TAILQ_INIT(&m->mark.behind);
}

static bool
is_marks(const struct ephemeral_mark *k, uint64_t session, uint64_t number)
{
	return k->state != MARK_NONE && k->session == session && k->number == number;
}

/* ---- counting ---- */

static void
counted(struct master *m)
{
	struct ephemeral_mark *k = &m->mark;

	must(k->state == MARK_ASKING && TAILQ_EMPTY(&k->asked));
	k->state = MARK_COUNTED;
	k->asked_upto = k->ask_upto;
	m_timer_off(m, &k->timer);
	M_TRACE(m, "node %" PRIu64 " may be open in %zu other sessions", k->node, k->openers.n);
}

bool
m_mark_asks(const struct master *m)
{
	return m->mark.state == MARK_ASKING && m->mark.asked_upto < m->mark.ask_upto;
}

static void
count_if_all(struct master *m)
{
	if (m->mark.state == MARK_ASKING && !m_mark_asks(m) && TAILQ_EMPTY(&m->mark.asked))
		counted(m);
}

/* Each session is asked once. More openers than a file can have are not counted. */
static void
count(struct ephemeral_mark *k, uint64_t session)
{
	if (k->openers.n == LIMIT_OPENERS)
		return;
	ARRAY_ROOM(k->openers.keys, k->openers.n, k->openers.room);
	k->openers.keys[k->openers.n++] = session;
}

static void
forget_answer(struct master *m, struct m_session *s)
{
	must(s->mark.asked);
	s->mark.asked = false;
	TAILQ_REMOVE(&m->mark.asked, s, mark.entry);
}

void
m_mark_answered(struct master *m, struct m_session *s, bool open)
{
	if (!s->mark.asked)
		return;
	forget_answer(m, s);
	if (open)
		count(&m->mark, s->id);
	count_if_all(m);
}

void
m_mark_receive(struct master *m, const struct m_connection *c, const struct msg_opens *msg)
{
	struct m_session *s = c->session;

	if (s == NULL || s->id != msg->session || msg->epoch != m->epoch)
		return;
	s->mark.silent = false;
	if (msg->question == m->mark.question)
		m_mark_answered(m, s, msg->open != 0);
}

void
m_mark_timeout(struct master *m)
{
	struct ephemeral_mark *k = &m->mark;
	struct tree_session t;
	struct m_session *s;

	must(k->state == MARK_ASKING);
	while ((s = TAILQ_FIRST(&k->asked)) != NULL) {
		M_TRACE(m,
		        "session %" PRIu64 " has not answered: node %" PRIu64 " may be open there",
		        s->id, k->node);
		forget_answer(m, s);
		s->mark.silent = true;
		count(k, s->id);
	}
	while (k->openers.n < LIMIT_OPENERS && k->asked_upto < k->ask_upto &&
	       tree_session_after(m->tree, k->asked_upto, &t) && t.id <= k->ask_upto) {
		count(k, t.id);
		k->asked_upto = t.id;
	}
	counted(m);
}

/* ---- asking ---- */

static void
send_question(struct master *m, const struct m_session *s)
{
	const struct message msg = {
	    .code = MSG_who_opens,
	    .who_opens = {.question = m->mark.question, .node = m->mark.node},
	};

	if (s->connection != NULL)
		m_connection_send(m, s->connection, &msg);
}

static void
ask(struct master *m, struct m_session *s)
{
	if (s == NULL || s->id == m->mark.session)
		return;
	send_question(m, s);
	if (s->mark.silent) {
		count(&m->mark, s->id);
		return;
	}
	s->mark.asked = true;
	TAILQ_INSERT_TAIL(&m->mark.asked, s, mark.entry);
}

void
m_mark_run(struct master *m)
{
	struct ephemeral_mark *k = &m->mark;
	struct tree_session t;

	while (m_has_time(m) && m_mark_asks(m)) {
		m->work += SESSION_WORK;
		if (!tree_session_after(m->tree, k->asked_upto, &t) || t.id > k->ask_upto)
			t.id = k->ask_upto;
		else
			ask(m, m_session_find(m, t.id));
		k->asked_upto = t.id;
	}
	count_if_all(m);
}

struct request_list *
m_mark_ask(struct master *m, const struct m_request *r)
{
	struct ephemeral_mark *k = &m->mark;

	if (is_marks(k, r->session->id, r->number))
		return k->state == MARK_ASKING ? &k->asking : NULL;
	must(k->state == MARK_NONE);
	k->session = r->session->id;
	k->number = r->number;
	k->node = r->node;
	footprint_free(&k->openers);
	if (r->pass->changes.n == 0 || !tree_openers_matter(m->tree, k->session, k->node)) {
		k->state = MARK_COUNTED;
		return NULL;
	}
	k->state = MARK_ASKING;
	k->question++;
	k->asked_upto = 0;
	k->ask_upto = tree_session_last(m->tree);
	k->timer = m_timer(TIMER_MARK, k->question);
	m_timer_set(m, &k->timer,
	            mono_add(m->now, tree_setting_span(m->tree, SETTING_cache_lease)));
	M_TRACE(m, "node %" PRIu64 " is to be ephemeral: question %" PRIu64 " to all sessions",
	        k->node, k->question);
	return &k->asking;
}

/* ---- telling ---- */

static void
send_registered(struct master *m, const struct m_session *s, const uint64_t *nodes, uint32_t n)
{
	struct buffer packed = BUFFER(LIMIT_FRAME);
	struct message msg = {.code = MSG_registered};

	for (uint32_t i = 0; i < n; i++)
		wire_put_node_key(&packed, &(struct node_key){nodes[i]});
	must(!packed.failed);
	msg.registered.nodes = (struct wire_list){buffer_view(&packed), n};
	M_TRACE(m, "session %" PRIu64 " is told of %" PRIu32 " ephemeral files that it has open",
	        s->id, n);
	m_connection_send(m, s->connection, &msg);
	buffer_free(&packed);
}

void
m_mark_attached(struct master *m, struct m_session *s)
{
	uint64_t opened[OPENED_PAGE], last = 0;
	uint32_t n;

	do {
		for (n = 0; n < OPENED_PAGE; last = opened[n++])
			if (!tree_opened_after(m->tree, s->id, last, &opened[n]))
				break;
		if (n > 0)
			send_registered(m, s, opened, n);
	} while (n == OPENED_PAGE);
	if (s->mark.asked)
		send_question(m, s);
}

static void
tell_counted(struct master *m)
{
	const struct ephemeral_mark *k = &m->mark;
	const struct m_session *s;

	for (size_t i = 0; i < k->openers.n; i++)
		if ((s = m_session_find(m, k->openers.keys[i])) != NULL && s->connection != NULL)
			send_registered(m, s, &k->node, 1);
}

/* ---- the requests that wait ---- */

/* May the request open the file for its session? */
static bool
may_open(const struct ephemeral_mark *k, const struct m_request *r)
{
	if (r->session->id == k->session ||
	    !(r->read || r->code == OP_create || r->code == OP_rename))
		return false;
	for (size_t i = 0; i < r->footprint.n; i++)
		if (r->footprint.keys[i] == k->node)
			return true;
	return false;
}

/* A make_ephemeral also waits until the opens behind the last one have begun. */
struct request_list *
m_mark_wait_list(struct master *m, const struct m_request *r)
{
	struct ephemeral_mark *k = &m->mark;

	if (r->code == OP_make_ephemeral && !is_marks(k, r->session->id, r->number))
		return k->state != MARK_NONE || !TAILQ_EMPTY(&k->opens) ? &k->behind : NULL;
	return k->state != MARK_NONE && may_open(k, r) ? &k->opens : NULL;
}

struct m_request *
m_mark_next(struct master *m)
{
	const struct ephemeral_mark *k = &m->mark;

	if (k->state == MARK_COUNTED)
		return TAILQ_FIRST(&k->asking);
	if (k->state != MARK_NONE)
		return NULL;
	return TAILQ_EMPTY(&k->opens) ? TAILQ_FIRST(&k->behind) : TAILQ_FIRST(&k->opens);
}

/* ---- the entry ---- */

void
m_mark_propose(struct master *m, const struct m_session *s, const struct m_request *r)
{
	struct ephemeral_mark *k = &m->mark;
	struct op op = {.code = OP_make_ephemeral, .make_ephemeral.node = r->node};
	struct buffer openers = BUFFER(LIMIT_ENTRY), encoded = BUFFER(LIMIT_ENTRY);

	must(k->state == MARK_COUNTED && is_marks(k, s->id, r->number));
	k->state = MARK_PROPOSED;
	for (size_t i = 0; i < k->openers.n; i++)
		wire_put_session_key(&openers, &(struct session_key){k->openers.keys[i]});
	op.make_ephemeral.openers =
	    (struct wire_list){buffer_view(&openers), (uint32_t)k->openers.n};
	wire_put_op(&encoded, &op);
	must(!openers.failed && !encoded.failed);
	m_propose_as(m, s, r, buffer_view(&encoded));
	m_propose_flush(m);
	buffer_free(&openers);
	buffer_free(&encoded);
}

void
m_mark_applied(struct master *m, const struct tree_answer *answer)
{
	if (!is_marks(&m->mark, answer->session, answer->number))
		return;
	if (answer->rc == RC_OK)
		tell_counted(m);
	m->mark.state = MARK_NONE;
}

/* ---- the end ---- */

static void
ask_no_more(struct master *m)
{
	while (!TAILQ_EMPTY(&m->mark.asked))
		forget_answer(m, TAILQ_FIRST(&m->mark.asked));
	if (m->mark.state == MARK_ASKING)
		m_timer_off(m, &m->mark.timer);
	m->mark.state = MARK_NONE;
}

/* A command in the log is applied, even if its session has ended. */
void
m_mark_forget(struct master *m, const struct m_request *r)
{
	if (m->mark.state != MARK_PROPOSED && is_marks(&m->mark, r->session->id, r->number))
		ask_no_more(m);
}

void
m_mark_clear(struct master *m)
{
	struct ephemeral_mark *k = &m->mark;

	ask_no_more(m);
	footprint_free(&k->openers);
	k->question = 0;
	must(TAILQ_EMPTY(&k->asking) && TAILQ_EMPTY(&k->opens) && TAILQ_EMPTY(&k->behind));
}
