#include <stdlib.h>

#include "cell/base/keyed.h"
#include "cell/base/principal.h"
#include "cell/tree/internal.h"

KEYED_GENERATE(sessions, session, in_tree, id)
KEYED_TREE(ended_sessions, session, in_ended, id)
BYTES_TREE(nonces, session, by_nonce, nonce)

static int
compare_principal(const struct session *a, const struct session *b)
{
	return bytes_compare(a->principal, b->principal) ?: sessions_order(a, b);
}

RB_GENERATE(principal_sessions, session, by_principal, compare_principal)

void
session_table_init(struct tree *t)
{
	t->sessions.ended_most = LIMIT_ENDING;
}

void
tree_set_ending(struct tree *t, size_t pieces)
{
	must(pieces > 0);
	t->sessions.ended_most = pieces;
}

struct session *
session_find(const struct tree *t, uint64_t id)
{
	return sessions_find(&t->sessions.by_id, id);
}

struct session *
session_live(const struct tree *t, uint64_t id)
{
	struct session *s = session_find(t, id);

	return s != NULL && s->ending == 0 ? s : NULL;
}

struct subject
session_subject(const struct tree *t, const struct session *s, struct bytes user)
{
	const bool owned = s != NULL && principal_find(t, s->principal_generation) != NULL;

	return (struct subject){
	    .principal = owned ? s->principal : (struct bytes){0},
	    .user = user,
	};
}

struct subject
session_subject_of(const struct tree *t, const struct requester *who)
{
	return session_subject(t, session_live(t, who->session), who->user);
}

struct session *
session_by_nonce(const struct tree *t, struct bytes nonce)
{
	return nonces_find(&t->sessions.by_nonce, nonce);
}

struct session *
session_add(struct tree *t, const struct tree_session *from)
{
	struct session *s = memory_zero(1, sizeof *s);

	s->id = from->id;
	s->nonce = bytes_copy(from->nonce);
	s->principal = bytes_copy(from->principal);
	s->principal_generation = from->principal_generation;
	s->host = bytes_copy(from->host);
	s->awaited = from->awaited;
	s->lasting = from->lasting;
	s->ending = from->ending;
	must(RB_INSERT(sessions, &t->sessions.by_id, s) == NULL);
	if (s->ending == 0) {
		must(RB_INSERT(nonces, &t->sessions.by_nonce, s) == NULL);
		must(RB_INSERT(principal_sessions, &t->sessions.by_principal, s) == NULL);
	} else {
		must(RB_INSERT(ended_sessions, &t->sessions.ended, s) == NULL);
	}
	t->sessions.n++;
	dirty_session(t, s);
	return s;
}

static void
session_free(struct session *s)
{
	free((void *)s->nonce.data);
	free((void *)s->principal.data);
	free((void *)s->host.data);
	free(s);
}

/* Forgets the answer. */
static void
reply_cache_drop(struct tree *t, struct session *s, struct cached_reply *k)
{
	DIRTY_ROW(t, results, .key = {s->id, k->number}, .gone = true);
	RB_REMOVE(session_replies, &s->replies, k);
	s->replies_n--;
	free((void *)k->result.data);
	free(k);
}

void
session_table_free(struct tree *t)
{
	struct session *s;
	struct cached_reply *k;

	while ((s = RB_MIN(sessions, &t->sessions.by_id)) != NULL) {
		RB_REMOVE(sessions, &t->sessions.by_id, s);
		while ((k = RB_ROOT(&s->replies)) != NULL)
			reply_cache_drop(t, s, k);
		session_free(s);
	}
}

bool
session_finish(struct execution *x, struct session *s)
{
	struct tree *t = x->tree;
	struct cached_reply *k;

	must(s->ending != 0);
	x->ended = 0;
	lock_end_session(x, s, t->sessions.ended_most);
	ephemeral_end_session(x, s, t->sessions.ended_most);
	for (; x->ended < t->sessions.ended_most; x->ended++) {
		if ((k = RB_MIN(session_replies, &s->replies)) == NULL)
			break;
		reply_cache_drop(t, s, k);
	}
	if (!RB_EMPTY(&s->holders) || !RB_EMPTY(&s->openers) || !RB_EMPTY(&s->directories) ||
	    !RB_EMPTY(&s->replies))
		return false;

	RB_REMOVE(sessions, &t->sessions.by_id, s);
	RB_REMOVE(ended_sessions, &t->sessions.ended, s);
	t->sessions.n--;
	DIRTY_ROW(t, sessions, .key = {s->id}, .gone = true);
	session_free(s);
	return true;
}

void
session_end(struct execution *x, struct session *s, enum end_cause cause)
{
	struct tree *t = x->tree;
	struct tree_note *ended = apply_note(x, TREE_SESSION_ENDED, 0);
	const bool own = x->session == s;

	ended->session = s->id;
	ended->cause = cause;
	s->ending = cause;
	RB_REMOVE(nonces, &t->sessions.by_nonce, s);
	RB_REMOVE(principal_sessions, &t->sessions.by_principal, s);
	must(RB_INSERT(ended_sessions, &t->sessions.ended, s) == NULL);
	dirty_session(t, s);
	session_finish(x, s);
	if (own)
		x->session = NULL;
}

/* A client that received no answer asks again with the same nonce, and gets its session. */
enum rc
apply_create_session(struct execution *x, const struct op_create_session *o,
                     struct result_session *r)
{
	const struct principal *p = principal_named(x->tree, o->principal);
	struct session *s = session_by_nonce(x->tree, o->nonce);

	if (o->nonce.len == 0 || !principal_host_valid(o->host))
		return RC_INVAL;
	if (p == NULL || p->generation != o->principal_generation)
		return RC_PERM;
	if (s == NULL && o->lasting && !tree_may_last(x->tree, o->principal))
		return RC_ACCES;
	if (s == NULL && x->tree->sessions.n >= LIMIT_SESSIONS)
		return RC_FULL;
	if (s == NULL) {
		s = session_add(x->tree, &(struct tree_session){
		                             .id = node_take_number(x->tree),
		                             .awaited = o->awaited,
		                             .lasting = o->lasting,
		                             .nonce = o->nonce,
		                             .principal = o->principal,
		                             .principal_generation = o->principal_generation,
		                             .host = o->host,
		                         });
		apply_note(x, TREE_SESSION_CREATED, 0)->session = s->id;
	}
	r->session = s->id;
	return RC_OK;
}

enum rc
apply_await_session(struct execution *x, const struct op_await_session *o)
{
	struct session *s = session_live(x->tree, o->session);

	if (s == NULL)
		return RC_NO_SESSION;
	s->awaited = o->awaited;
	dirty_session(x->tree, s);
	return RC_OK;
}

/* A session may end itself, or another one whose nonce it names; the master may end any, but an
 * expiry only in its own epoch: a master that was deposed meanwhile does not decide it. A nonce
 * does not prove that a lasting session has expired: operators decide that, through a master. */
static enum rc
may_end(const struct execution *x, const struct op_end_session *o, const struct session *s)
{
	if (s->lasting && o->cause == SESSION_EXPIRED && o->nonce.len > 0)
		return RC_PERM;
	if (o->nonce.len > 0)
		return bytes_equal(o->nonce, s->nonce) ? RC_OK : RC_PERM;
	if (x->session != NULL)
		return x->session == s ? RC_OK : RC_PERM;
	if (o->cause == SESSION_EXPIRED && o->epoch != x->tree->epochs.current)
		return RC_OLD_EPOCH;
	return RC_OK;
}

enum rc
apply_end_session(struct execution *x, const struct op_end_session *o)
{
	struct session *s = session_live(x->tree, o->session);
	enum rc rc;

	if (o->cause < SESSION_CLOSED || o->cause > SESSION_DESTROYED)
		return RC_INVAL;
	if (s == NULL)
		return RC_NO_SESSION;
	if ((rc = may_end(x, o, s)) != RC_OK)
		return rc;
	session_end(x, s, (enum end_cause)o->cause);
	return RC_OK;
}

enum rc
apply_finish_session(struct execution *x, const struct op_finish_session *o)
{
	struct session *s = session_find(x->tree, o->session);

	if (s == NULL || s->ending == 0)
		return RC_NO_SESSION;
	session_finish(x, s);
	return RC_OK;
}

/* ---- reads ---- */

static void
show(const struct session *s, struct tree_session *to)
{
	*to = (struct tree_session){
	    .id = s->id,
	    .awaited = s->awaited,
	    .lasting = s->lasting,
	    .nonce = s->nonce,
	    .principal = s->principal,
	    .principal_generation = s->principal_generation,
	    .host = s->host,
	};
}

bool
tree_session(const struct tree *t, uint64_t id, struct tree_session *s)
{
	const struct session *found = session_live(t, id);

	if (found != NULL)
		show(found, s);
	return found != NULL;
}

bool
tree_session_after(const struct tree *t, uint64_t id, struct tree_session *s)
{
	struct session *found = sessions_after(&t->sessions.by_id, id);

	while (found != NULL && found->ending != 0)
		found = RB_NEXT(sessions, NULL, found);
	if (found != NULL)
		show(found, s);
	return found != NULL;
}

bool
tree_session_of_after(const struct tree *t, struct bytes principal, uint64_t id,
                      struct tree_session *s)
{
	struct session key = {.id = id + 1, .principal = principal}, *found;

	if (id == UINT64_MAX)
		return false;
	found = RB_NFIND(principal_sessions, (struct principal_sessions *)&t->sessions.by_principal,
	                 &key);
	if (found == NULL || !bytes_equal(found->principal, principal))
		return false;
	show(found, s);
	return true;
}

uint64_t
tree_session_by_nonce(const struct tree *t, struct bytes nonce)
{
	const struct session *s = session_by_nonce(t, nonce);

	return s == NULL ? 0 : s->id;
}

bool
tree_ending(const struct tree *t, uint64_t *session, enum end_cause *cause)
{
	struct ended_sessions *ended = (struct ended_sessions *)&t->sessions.ended;
	const struct session *s = RB_MIN(ended_sessions, ended);

	if (s == NULL)
		return false;
	*session = s->id;
	*cause = s->ending;
	return true;
}

uint64_t
tree_session_last(const struct tree *t)
{
	const struct session *last = RB_MAX(sessions, (struct sessions *)&t->sessions.by_id);

	return last == NULL ? 0 : last->id;
}

size_t
tree_sessions(const struct tree *t)
{
	return t->sessions.n;
}

size_t
tree_session_locks(const struct tree *t, uint64_t id)
{
	const struct session *s = session_find(t, id);

	return s == NULL ? 0 : s->holders_n;
}

/* ---- reply cache ---- */

KEYED_GENERATE(session_replies, cached_reply, in_session, number)

struct cached_reply *
reply_cache_find(const struct session *s, uint64_t number)
{
	return session_replies_find(&s->replies, number);
}

void
reply_cache_keep(struct tree *t, struct session *s, const struct cached_reply *from)
{
	struct cached_reply *k = memory_zero(1, sizeof *k);

	*k = *from;
	k->result = bytes_copy(from->result);
	must(RB_INSERT(session_replies, &s->replies, k) == NULL);
	s->replies_n++;
	DIRTY_ROW(t, results, .key = {s->id, k->number}, .object = k);
}

enum rc
reply_cache_look(struct tree *t, struct session *s, const struct command *c, enum op_code op,
                 const struct cached_reply **cached)
{
	struct cached_reply *k;

	*cached = NULL;
	if (c->number == 0)
		return RC_OK;

	if (c->below > s->below) {
		s->below = c->below;
		dirty_session(t, s);
		while ((k = RB_MIN(session_replies, &s->replies)) != NULL && k->number < c->below)
			reply_cache_drop(t, s, k);
	}

	if (c->number < s->below)
		return RC_OLD_REQUEST;
	*cached = reply_cache_find(s, c->number);
	if (*cached != NULL)
		return (*cached)->op == op ? RC_OK : RC_INVAL;
	return c->number - s->below < LIMIT_NUMBERS ? RC_OK : RC_INVAL;
}

bool
tree_request_known(const struct tree *t, uint64_t session, uint64_t number)
{
	const struct session *s = session_live(t, session);

	return s != NULL && (number < s->below || reply_cache_find(s, number) != NULL);
}
