#include "cell/master/gate.h"

#include <stdlib.h>

#include "cell/base/limit.h"
#include "cell/base/keyed.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

KEYED_TREE(gate_keys, gate_key, link, key)
KEYED_TREE(gate_session_copies, gate_copy, of_session, key->key)

void
gate_init(struct gate *g)
{
	RB_INIT(&g->keys);
	TAILQ_INIT(&g->blocked);
	TAILQ_INIT(&g->ready);
	TAILQ_INIT(&g->left);
	TAILQ_INIT(&g->untold);
}

void
gate_clear(struct gate *g)
{
	struct gate_pass *p;

	while ((p = TAILQ_FIRST(&g->left)) != NULL)
		gate_leave(g, p);
	must(RB_EMPTY(&g->keys) && TAILQ_EMPTY(&g->blocked) && TAILQ_EMPTY(&g->ready));
	must(TAILQ_EMPTY(&g->untold));
}

/* ---- keys ---- */

static struct gate_key *
key_find(const struct gate *g, uint64_t key)
{
	return gate_keys_find(&g->keys, key);
}

static struct gate_key *
key_make(struct gate *g, uint64_t key)
{
	struct gate_key *k = key_find(g, key);

	if (k != NULL)
		return k;
	k = memory_zero(1, sizeof *k);
	k->key = key;
	TAILQ_INIT(&k->holders);
	TAILQ_INIT(&k->copies);
	must(RB_INSERT(gate_keys, &g->keys, k) == NULL);
	return k;
}

static void
key_unuse(struct gate *g, struct gate_key *k)
{
	if (!TAILQ_EMPTY(&k->holders) || !TAILQ_EMPTY(&k->copies))
		return;
	RB_REMOVE(gate_keys, &g->keys, k);
	free(k);
}

/* ---- passes ---- */

struct gate_pass *
gate_pass_new(struct m_request *r, uint64_t session, uint64_t number)
{
	struct gate_pass *p = memory_zero(1, sizeof *p);

	p->request = r;
	p->session = session;
	p->number = number;
	TAILQ_INIT(&p->holds);
	return p;
}

static void
put(struct gate_pass *p, struct gate_passes *list)
{
	must(p->list == NULL);
	p->list = list;
	TAILQ_INSERT_TAIL(list, p, entry);
}

void
gate_take(struct gate_pass *p)
{
	if (p->list != NULL)
		TAILQ_REMOVE(p->list, p, entry);
	p->list = NULL;
}

/* Is the copy in the way of the command? Not if the command's own session has dropped it. */
static bool
counts(const struct gate_pass *p, const struct gate_copy *c)
{
	if (p->session == c->session->id)
		for (size_t i = 0; i < p->dropped.n; i++)
			if (p->dropped.keys[i] == c->key->key)
				return false;
	return true;
}

/* ---- copies ---- */

void
gate_session_init(struct gate_session *s, uint64_t id)
{
	*s = (struct gate_session){.id = id};
	RB_INIT(&s->copies);
	TAILQ_INIT(&s->notices);
}

static struct gate_copy *
copy_find(const struct gate_session *s, struct gate_key *k)
{
	return gate_session_copies_find(&s->copies, k->key);
}

bool
gate_may_copy(const struct gate *g, const struct gate_session *s, uint64_t key)
{
	struct gate_key *k = key_find(g, key);
	const struct gate_copy *c = k != NULL ? copy_find(s, k) : NULL;

	if (s->notices_n >= LIMIT_NOTICES || (k != NULL && !TAILQ_EMPTY(&k->holders)))
		return false;
	return c != NULL ? c->notice == NULL : s->copies_n < LIMIT_COPIES;
}

void
gate_copy(struct gate *g, struct gate_session *s, uint64_t key, uint64_t leave)
{
	struct gate_key *k;
	struct gate_copy *c;

	must(gate_may_copy(g, s, key));
	k = key_make(g, key);
	c = copy_find(s, k);
	if (c == NULL) {
		c = memory_zero(1, sizeof *c);
		c->key = k;
		c->session = s;
		must(RB_INSERT(gate_session_copies, &s->copies, c) == NULL);
		TAILQ_INSERT_TAIL(&k->copies, c, in_key);
		s->copies_n++;
	}
	c->leave = leave;
}

/* The copy is in the way of no command any more. */
static void
copy_gone(struct gate *g, struct gate_copy *c)
{
	struct gate_key *k = c->key;
	struct gate_hold *h;

	TAILQ_FOREACH(h, &k->holders, in_key) {
		if (h->pass->in_log || !counts(h->pass, c))
			continue;
		must(h->pass->debts > 0);
		if (--h->pass->debts > 0 || h->pass->list != &g->blocked)
			continue;
		gate_take(h->pass);
		put(h->pass, &g->ready);
	}
	if (c->notice != NULL)
		TAILQ_REMOVE(&c->notice->copies, c, in_notice);
	TAILQ_REMOVE(&k->copies, c, in_key);
	RB_REMOVE(gate_session_copies, &c->session->copies, c);
	c->session->copies_n--;
	free(c);
	key_unuse(g, k);
}

void
gate_give_back(struct gate *g, struct gate_session *s, uint64_t key, uint64_t leave)
{
	struct gate_key *k = key_find(g, key);
	struct gate_copy *c = k != NULL ? copy_find(s, k) : NULL;

	if (c != NULL && c->notice == NULL && c->leave <= leave)
		copy_gone(g, c);
}

/* ---- notices ---- */

static void
notice_add(struct gate_notice *n, struct gate_copy *c)
{
	must(c->notice == NULL);
	c->notice = n;
	TAILQ_INSERT_TAIL(&n->copies, c, in_notice);
}

/* The notice names all keys of which the session has a copy. */
static void
notice_widen(struct gate_notice *n, struct gate_session *s)
{
	struct gate_copy *c;

	n->everything = true;
	RB_FOREACH(c, gate_session_copies, &s->copies)
		if (c->notice == NULL)
			notice_add(n, c);
}

/* The notice that is being made. A session that acknowledges nothing is finally told to drop
 * everything: from then on it gets no further copy, and so no further notice, until it has
 * acknowledged that. */
static struct gate_notice *
notice_open(struct gate *g, struct gate_session *s)
{
	struct gate_notice *n = TAILQ_LAST(&s->notices, gate_notices);

	if (n != NULL && !n->sent)
		return n;
	n = memory_zero(1, sizeof *n);
	n->number = ++s->notices_made;
	s->notices_n++;
	TAILQ_INIT(&n->copies);
	TAILQ_INSERT_TAIL(&s->notices, n, entry);
	TAILQ_INSERT_TAIL(&g->untold, s, entry);
	if (s->notices_n == LIMIT_NOTICES)
		notice_widen(n, s);
	return n;
}

/* The session is told of its copy's key. Every answer with rights depends on KEY_RIGHTS, so it is
 * told to drop everything then: ACL files change rarely. */
static void
tell(struct gate *g, struct gate_copy *c)
{
	struct gate_notice *n = notice_open(g, c->session);

	if (c->notice == NULL)
		notice_add(n, c);
	if (c->key->key == KEY_RIGHTS)
		notice_widen(n, c->session);
}

struct gate_session *
gate_untold(const struct gate *g)
{
	return TAILQ_FIRST(&g->untold);
}

struct gate_notice *
gate_told(struct gate *g, struct gate_session *s, mono_t now)
{
	struct gate_notice *n = TAILQ_LAST(&s->notices, gate_notices);

	must(n != NULL && !n->sent);
	n->sent = true;
	n->sent_at = n->late_from = now;
	TAILQ_REMOVE(&g->untold, s, entry);
	return n;
}

void
gate_account_pause(struct gate_session *s, span_t pause)
{
	struct gate_notice *n;

	TAILQ_FOREACH(n, &s->notices, entry)
		n->late_from = mono_add(n->late_from, pause);
}

const struct gate_notice *
gate_oldest(const struct gate_session *s)
{
	return TAILQ_FIRST(&s->notices);
}

static void
notice_done(struct gate *g, struct gate_session *s, struct gate_notice *n)
{
	struct gate_copy *c;

	while ((c = TAILQ_FIRST(&n->copies)) != NULL)
		copy_gone(g, c);
	if (!n->sent)
		TAILQ_REMOVE(&g->untold, s, entry);
	TAILQ_REMOVE(&s->notices, n, entry);
	s->notices_n--;
	free(n);
}

bool
gate_acknowledge(struct gate *g, struct gate_session *s, uint64_t upto)
{
	const struct gate_notice *last = TAILQ_LAST(&s->notices, gate_notices);
	struct gate_notice *n;

	if (upto > s->notices_made || (last != NULL && !last->sent && upto >= last->number))
		return false;
	while ((n = TAILQ_FIRST(&s->notices)) != NULL && n->number <= upto)
		notice_done(g, s, n);
	return true;
}

void
gate_forget(struct gate *g, struct gate_session *s)
{
	struct gate_notice *n;
	struct gate_copy *c;

	while ((n = TAILQ_FIRST(&s->notices)) != NULL)
		notice_done(g, s, n);
	while ((c = RB_ROOT(&s->copies)) != NULL)
		copy_gone(g, c);
}

/* ---- the way of a command ---- */

static bool
holds(const struct gate_pass *p, uint64_t key)
{
	const struct gate_hold *h;

	TAILQ_FOREACH(h, &p->holds, in_pass)
		if (h->key->key == key)
			return true;
	return false;
}

/* A reason for which passes were blocked may be gone. */
static void
stir(struct gate *g)
{
	struct gate_pass *p;

	while ((p = TAILQ_FIRST(&g->blocked)) != NULL) {
		gate_take(p);
		put(p, &g->ready);
	}
}

static bool
is_open(const struct gate *g, const struct gate_pass *p)
{
	const struct gate_hold *h, *other;

	if (p->debts > 0 || g->turned == 0)
		return p->debts == 0;
	TAILQ_FOREACH(h, &p->holds, in_pass)
		TAILQ_FOREACH(other, &h->key->holders, in_key)
			if (other->pass != p && other->pass->turn != 0 && !other->pass->in_log &&
			    (p->turn == 0 || other->pass->turn < p->turn))
				return false;
	return true;
}

bool
gate_enter(struct gate *g, struct gate_pass *p, struct footprint *changes)
{
	must(!p->in_log);
	gate_take(p);
	if (p->changes.keys != NULL)
		footprint_free(&p->changes);
	p->changes = *changes;
	*changes = (struct footprint){0};
	for (size_t i = 0; i < p->changes.n; i++) {
		struct gate_hold *h;
		struct gate_copy *c;

		if (holds(p, p->changes.keys[i]))
			continue;
		h = memory_zero(1, sizeof *h);
		h->pass = p;
		h->key = key_make(g, p->changes.keys[i]);
		TAILQ_INSERT_TAIL(&h->key->holders, h, in_key);
		TAILQ_INSERT_TAIL(&p->holds, h, in_pass);
		TAILQ_FOREACH(c, &h->key->copies, in_key) {
			if (!counts(p, c))
				continue;
			p->debts++;
			if (c->notice == NULL)
				tell(g, c);
		}
	}
	if (is_open(g, p))
		return true;
	put(p, &g->blocked);
	return false;
}

void
gate_proposed(struct gate *g, struct gate_pass *p)
{
	must(!p->in_log && p->list == NULL && p->debts == 0);
	p->in_log = true;
	if (p->turn != 0) {
		g->turned--;
		stir(g);
	}
}

void
gate_refused(struct gate *g, struct gate_pass *p)
{
	must(p->in_log);
	p->in_log = false;
	g->turned++;
	if (p->turn == 0)
		p->turn = ++g->turns;
}

void
gate_leave(struct gate *g, struct gate_pass *p)
{
	struct gate_copy *c, *next;
	struct gate_hold *h;

	gate_take(p);
	/* The session keeps no copies of these keys from replies older than the command's answer,
	 * so it no longer has those that it was given. */
	if (p->in_log)
		TAILQ_FOREACH(h, &p->holds, in_pass)
			TAILQ_FOREACH_SAFE(c, &h->key->copies, in_key, next)
				if (!counts(p, c))
					copy_gone(g, c);
	while ((h = TAILQ_FIRST(&p->holds)) != NULL) {
		struct gate_key *k = h->key;

		TAILQ_REMOVE(&k->holders, h, in_key);
		TAILQ_REMOVE(&h->pass->holds, h, in_pass);
		free(h);
		key_unuse(g, k);
	}
	if (p->turn != 0 && !p->in_log) {
		g->turned--;
		stir(g);
	}
	footprint_free(&p->changes);
	footprint_free(&p->dropped);
	free(p);
}

void
gate_abandon(struct gate *g, struct gate_pass *p)
{
	p->request = NULL;
	if (p->in_log)
		put(p, &g->left);
	else
		gate_leave(g, p);
}

/* ---- admission ---- */

bool
m_admission_bounded(const struct m_request *r)
{
	return !r->read && r->code != OP_acquire && r->code != OP_release && r->code != OP_cancel &&
	       r->code != OP_open_ephemeral;
}

static struct gate_pass *
pass_new(struct m_request *r)
{
	return r != NULL ? gate_pass_new(r, r->session->id, r->number) : gate_pass_new(NULL, 0, 0);
}

void
m_admission_note_dropped(struct m_request *r, const struct wire_list *nodes)
{
	struct cursor at = cursor_of(nodes->packed);
	struct node_key node;

	if (!m_admission_bounded(r))
		return;
	r->pass = pass_new(r);
	for (uint32_t i = 0; i < nodes->count && wire_next_node_key(&at, &node); i++)
		footprint_add(&r->pass->dropped, node.node);
}

struct gate_pass *
m_admission_end(struct master *m, struct m_request *r, const struct op *op)
{
	struct gate_pass *p = pass_new(r);
	struct footprint changes = {0};
	bool copied = m->barrier.stands;

	tree_changes(m->tree, &(struct requester){0}, op, 0, &changes);
	for (size_t i = 0; i < changes.n && !copied; i++) {
		const struct gate_key *k = key_find(&m->gate, changes.keys[i]);

		copied = k != NULL && !TAILQ_EMPTY(&k->copies);
	}
	if (copied)
		footprint_free(&changes);
	if (gate_enter(&m->gate, p, &changes))
		return p;
	gate_leave(&m->gate, p);
	p = pass_new(r);
	must(gate_enter(&m->gate, p, &changes));
	return p;
}

struct request_list *
m_admission_wait_list(struct master *m, struct m_request *r, const struct op *op)
{
	struct footprint changes = {0};

	if (!m_admission_bounded(r))
		return NULL;
	if (op->code == OP_end_session) {
		if (r->pass != NULL)
			gate_leave(&m->gate, r->pass);
		r->pass = m_admission_end(m, r, op);
		return NULL;
	}
	if (r->pass == NULL)
		r->pass = pass_new(r);
	/* One that has taken effect changes nothing: apply gives the answer that it kept. */
	if (!tree_request_known(m->tree, r->session->id, r->number))
		tree_changes(m->tree, &r->requester, op, r->node, &changes);
	return gate_enter(&m->gate, r->pass, &changes) ? NULL : &m->order.at_gate;
}

bool
m_admission_revocable(const struct m_request *r)
{
	/* The changes of other commands stay all that these can change, whatever is applied before
	 * them. */
	return r->pass != NULL && r->code != OP_end_session &&
	       (r->pass->changes.n == 0 || r->code == OP_delete || r->code == OP_rename ||
	        r->code == OP_close_ephemeral || r->code == OP_transaction);
}

struct m_request *
m_admission_next(struct master *m)
{
	const struct gate_pass *p;

	TAILQ_FOREACH(p, &m->gate.ready, entry)
		if (p->request != NULL)
			return p->request;
	return NULL;
}

bool
m_admission_applied(struct master *m, struct m_request *r, const struct tree_answer *answer)
{
	struct gate_pass *p = r != NULL ? r->pass : NULL;

	if (r == NULL) /* the request is gone; its pass may still be here */
		TAILQ_FOREACH(p, &m->gate.left, entry)
			if (p->session == answer->session && p->number == answer->number)
				break;
	if (r != NULL && answer->rc == RC_AGAIN) {
		M_TRACE(m, "request %" PRIu64 ".%" PRIu64 " would change other nodes by now",
		        r->session->id, r->number);
		gate_refused(&m->gate, p);
		return true;
	}
	if (p != NULL)
		gate_leave(&m->gate, p);
	if (r != NULL)
		r->pass = NULL;
	return false;
}
