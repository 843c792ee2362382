#include <stdlib.h>
#include "cell/base/limit.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/gate.h"

static int
key_compare(const struct gate_key *a, const struct gate_key *b)
{
	return a->key < b->key ? -1 : a->key > b->key;
}

static int
copy_compare(const struct gate_copy *a, const struct gate_copy *b)
{
	return key_compare(a->key, b->key);
}

RB_GENERATE_INTERNAL(gate_keys, gate_key, link, key_compare, __attribute__((unused)) static)
RB_GENERATE_INTERNAL(gate_session_copies, gate_copy, of_session, copy_compare,
                     __attribute__((unused)) static)

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
	struct gate_key like = {.key = key};

	return RB_FIND(gate_keys, (struct gate_keys *)&g->keys, &like);
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

static bool
has_dropped(const struct gate_pass *p, uint64_t key)
{
	for (size_t i = 0; i < p->dropped.n; i++)
		if (p->dropped.keys[i] == key)
			return true;
	return false;
}

/* Is the copy in the way of the command? */
static bool
counts(const struct gate_pass *p, const struct gate_copy *c)
{
	return p->session != c->session->id || !has_dropped(p, c->key->key);
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
	struct gate_copy like = {.key = k};

	return RB_FIND(gate_session_copies, (struct gate_session_copies *)&s->copies, &like);
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

/* The copy is in the way of the command no more. */
static void
debt_paid(struct gate *g, struct gate_pass *p)
{
	must(p->debts > 0);
	if (--p->debts > 0 || p->list != &g->blocked)
		return;
	gate_take(p);
	put(p, &g->ready);
}

static void
copy_gone(struct gate *g, struct gate_copy *c)
{
	struct gate_key *k = c->key;
	struct gate_hold *h;

	TAILQ_FOREACH(h, &k->holders, in_key)
		if (!h->pass->in_log && counts(h->pass, c))
			debt_paid(g, h->pass);
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

/* The notice that is being made. A session that acknowledges nothing is told to drop everything at
 * last: it gets no further copy then, and so no further notice, until it does. */
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
	n->sent_at = now;
	TAILQ_REMOVE(&g->untold, s, entry);
	return n;
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

static void
hold(struct gate *g, struct gate_pass *p, uint64_t key)
{
	struct gate_hold *h = memory_zero(1, sizeof *h);
	struct gate_copy *c;

	h->pass = p;
	h->key = key_make(g, key);
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

static void
let_go(struct gate *g, struct gate_hold *h)
{
	struct gate_key *k = h->key;

	TAILQ_REMOVE(&k->holders, h, in_key);
	TAILQ_REMOVE(&h->pass->holds, h, in_pass);
	free(h);
	key_unuse(g, k);
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
goes_before(const struct gate_pass *a, const struct gate_pass *b)
{
	return a != b && a->turn != 0 && !a->in_log && (b->turn == 0 || a->turn < b->turn);
}

static bool
is_open(const struct gate_pass *p)
{
	const struct gate_hold *h, *other;

	TAILQ_FOREACH(h, &p->holds, in_pass)
		TAILQ_FOREACH(other, &h->key->holders, in_key)
			if (goes_before(other->pass, p))
				return false;
	return p->debts == 0;
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
	for (size_t i = 0; i < p->changes.n; i++)
		if (!holds(p, p->changes.keys[i]))
			hold(g, p, p->changes.keys[i]);
	if (is_open(p))
		return true;
	put(p, &g->blocked);
	return false;
}

bool
gate_is_free(const struct gate *g, const struct footprint *changes)
{
	for (size_t i = 0; i < changes->n; i++) {
		const struct gate_key *k = key_find(g, changes->keys[i]);

		if (k != NULL && !TAILQ_EMPTY(&k->copies))
			return false;
	}
	return true;
}

struct m_request *
gate_ready(const struct gate *g)
{
	const struct gate_pass *p;

	TAILQ_FOREACH(p, &g->ready, entry)
		if (p->request != NULL)
			return p->request;
	return NULL;
}

void
gate_proposed(struct gate *g, struct gate_pass *p)
{
	must(!p->in_log && p->list == NULL && p->debts == 0);
	p->in_log = true;
	if (p->turn != 0)
		stir(g);
}

void
gate_refused(struct gate *g, struct gate_pass *p)
{
	must(p->in_log);
	p->in_log = false;
	if (p->turn == 0)
		p->turn = ++g->turns;
}

void
gate_leave(struct gate *g, struct gate_pass *p)
{
	struct gate_hold *h;

	gate_take(p);
	while ((h = TAILQ_FIRST(&p->holds)) != NULL)
		let_go(g, h);
	if (p->turn != 0 && !p->in_log)
		stir(g);
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

struct gate_pass *
gate_abandoned(const struct gate *g, uint64_t session, uint64_t number)
{
	struct gate_pass *p;

	TAILQ_FOREACH(p, &g->left, entry)
		if (p->session == session && p->number == number)
			return p;
	return NULL;
}
