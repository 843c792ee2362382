#include <stdlib.h>
#include "cell/base/memory.h"
#include "tests/unit/hostile_judge.h"

enum { BREACH, OLD_EPOCH, ACQUIRE, AGAIN };

void
judge_free(struct judge *j)
{
	for (size_t i = 0; i < j->asked_n; i++)
		free((void *)j->asked[i].result.data);
	free(j->asked);
	free(j->given_up);
	free(j->below);
	free(j->issued);
}

void
judge_new_master(struct judge *j)
{
	j->given_up_n = 0;
	j->below_n = 0;
}

/* ---- breaches ---- */

static bool
may_end(uint64_t session, const struct op_end_session *op)
{
	return (op->session == session && op->cause == SESSION_CLOSED) ||
	       (op->cause == SESSION_EXPIRED && op->nonce.len == LIMIT_NONCE);
}

static bool
request_is_breach(uint64_t session, const struct msg_request *r)
{
	struct op op;

	return r->session != session || r->number == 0 || r->below > r->number ||
	       r->number - r->below >= LIMIT_NUMBERS || r->dropped.count > LIMIT_DROPPED ||
	       wire_get_op(r->op, &op) != RC_OK || wire_op(op.code)->class == OP_CLASS_MASTER ||
	       (op.code == OP_end_session && !may_end(session, &op.end_session));
}

/* A connection has one session, and opens no other one. */
static bool
opening_is_breach(const struct judge *j, uint64_t session, const struct msg_open_session *o)
{
	struct tree_session s;

	return tree_session(j->tree, session, &s) &&
	       (!bytes_equal(s.nonce, o->nonce) || (o->session != 0 && o->session != session));
}

bool
judge_is_breach(struct judge *j, uint64_t session, const struct message *m)
{
	bool breach = false;

	if (m->code == MSG_request)
		breach = request_is_breach(session, &m->request);
	else if (m->code == MSG_keepalive)
		breach = m->keepalive.session != session;
	else if (m->code == MSG_open_session)
		breach = opening_is_breach(j, session, &m->open_session);
	j->judged[BREACH] += breach;
	return breach;
}

/* ---- acquires that must be refused ---- */

enum genuine { FORGED, PERHAPS, ISSUED };

static enum genuine
ticket_of(const struct judge *j, uint64_t session, const struct acquire *a)
{
	enum genuine g = a->ticket.epoch == 0 ? ISSUED : FORGED;

	for (size_t i = 0; i < j->issued_n && g != ISSUED; i++) {
		const struct issued *it = &j->issued[i];
		const struct acquire *b = &it->acquire;
		const bool same =
		    a->node == b->node && a->owner == b->owner && a->acquisition == b->acquisition;

		if (it->session == session && (same || it->any) &&
		    a->ticket.epoch == b->ticket.epoch && a->ticket.place == b->ticket.place &&
		    a->ticket.code == b->ticket.code)
			g = it->any ? PERHAPS : ISSUED;
	}
	return g;
}

/* The number of the first request that gave the acquisition up; 0: none has, or all have been
 * forgotten since. */
static uint64_t
given_up_by(const struct judge *j, uint64_t session, const struct acquire *a)
{
	for (size_t i = 0; i < j->given_up_n; i++) {
		const struct given_up *g = &j->given_up[i];

		if (g->session == session && g->node == a->node && g->owner == a->owner &&
		    g->acquisition == a->acquisition)
			return g->number;
	}
	return 0;
}

static uint64_t
below_of(struct judge *j, uint64_t session, uint64_t below)
{
	for (size_t i = 0; i < j->below_n; i++) {
		if (j->below[i].session != session)
			continue;
		if (j->below[i].below < below)
			j->below[i].below = below;
		return j->below[i].below;
	}
	ARRAY_ROOM(j->below, j->below_n, j->below_room);
	j->below[j->below_n++] = (struct told_below){session, below};
	return below;
}

/* What has the lock is answered so, whatever ticket it shows. */
static bool
has_lock(const struct judge *j, const struct asked *a)
{
	const struct acquire *q = &a->acquire;
	struct result_acquired had;

	return tree_lock_held_by(j->tree, a->session, q->owner, q->acquisition, q->node, &had);
}

/* Decides whether the acquire has to be refused, and by which code. */
static void
judge_acquire(const struct judge *j, struct asked *a, uint64_t below)
{
	const struct acquire *q = &a->acquire;
	const enum genuine ticket = ticket_of(j, a->session, q);
	const uint64_t gave_up = given_up_by(j, a->session, q);

	if (q->mode != LOCK_SHARED && q->mode != LOCK_EXCLUSIVE) {
		a->rc = RC_INVAL;
	} else if (ticket == FORGED) {
		a->rc = has_lock(j, a) ? RC_OK : RC_PERM;
	} else if (ticket == ISSUED && gave_up != 0 && gave_up >= below) {
		a->rc = gave_up > a->number ? RC_INTR : RC_INVAL;
		a->gave_up = gave_up;
	}
}

/* ---- what was asked ---- */

static struct asked *
find(struct judge *j, uint64_t session, uint64_t number)
{
	for (size_t i = j->asked_n; i-- > 0;)
		if (j->asked[i].session == session && j->asked[i].number == number)
			return &j->asked[i];
	return NULL;
}

static void
give_up(struct judge *j, const struct given_up *g)
{
	ARRAY_ROOM(j->given_up, j->given_up_n, j->given_up_room);
	j->given_up[j->given_up_n++] = *g;
}

static void
note_given_up(struct judge *j, uint64_t session, uint64_t number, const struct op *op)
{
	if (op->code == OP_release)
		give_up(j, &(struct given_up){session, number, op->release.node, op->release.owner,
		                              op->release.acquisition});
	if (op->code == OP_cancel)
		give_up(j, &(struct given_up){session, number, op->cancel.node, op->cancel.owner,
		                              op->cancel.acquisition});
}

void
judge_sent(struct judge *j, uint64_t session, const struct message *m)
{
	const struct msg_request *r = &m->request;
	struct asked *a;
	struct op op;
	bool current;
	uint64_t below;

	if (m->code != MSG_request || wire_get_op(r->op, &op) != RC_OK)
		return;
	current = r->epoch == tree_epoch(j->tree);
	below = current ? below_of(j, session, r->below) : 0;
	a = find(j, session, r->number);
	if (a != NULL) {
		a->ambiguous |=
		    a->code != op.code || op.code == OP_acquire || !current || a->refused;
	} else {
		ARRAY_ROOM(j->asked, j->asked_n, j->asked_room);
		a = &j->asked[j->asked_n++];
		*a = (struct asked){.session = session, .number = r->number, .code = op.code};
		if (op.code == OP_acquire)
			a->acquire = op.acquire.acquire;
		if (!current)
			a->rc = RC_OLD_EPOCH;
		else if (op.code == OP_acquire)
			judge_acquire(j, a, below);
		a->refused = a->rc != RC_OK;
	}
	if (current)
		note_given_up(j, session, r->number, &op);
}

/* ---- answers ---- */

/* Commands whose answer the cell keeps. The master itself answers some of the others. */
static bool
is_kept(enum op_code code)
{
	return wire_op(code)->class == OP_CLASS_COMMAND && code != OP_acquire &&
	       code != OP_end_session;
}

static bool
says_nothing(enum rc rc)
{
	return rc == RC_OLD_EPOCH || rc == RC_OLD_REQUEST || rc == RC_NO_SESSION || rc == RC_NOSPC;
}

/* One that waited behind others may have been given up once more meanwhile, or that it was may have
 * been forgotten. Its subject may lack the right to the lock, which is decided before its number.
 */
static const char *
refused_rightly(struct judge *j, const struct asked *a, const struct msg_reply *r)
{
	j->judged[a->rc == RC_OLD_EPOCH ? OLD_EPOCH : ACQUIRE]++;
	if (a->rc == RC_PERM && has_lock(j, a))
		return NULL;
	if (a->rc == RC_INVAL && r->rc == RC_ACCES)
		return NULL;
	if (r->rc == a->rc || (a->gave_up != 0 && r->rc == RC_INTR) ||
	    (a->gave_up != 0 && a->gave_up < below_of(j, a->session, 0)))
		return NULL;
	return "a request that must be refused has another answer";
}

static const char *
same_again(struct judge *j, struct asked *a, const struct msg_reply *r)
{
	if (!is_kept(a->code) || says_nothing((enum rc)r->rc))
		return NULL;
	if (!a->answered) {
		a->answered = true;
		a->rc = (enum rc)r->rc;
		a->result = bytes_copy(r->result);
		return NULL;
	}
	j->judged[AGAIN]++;
	return a->rc == r->rc && bytes_equal(a->result, r->result)
	           ? NULL
	           : "a request that came again has another answer";
}

static void
note_ticket(struct judge *j, const struct asked *a, const struct msg_reply *r)
{
	struct issued *i;
	struct result result;

	if (r->rc != RC_QUEUED || wire_get_result(RESULT_acquired, r->result, &result) != RC_OK)
		return;
	ARRAY_ROOM(j->issued, j->issued_n, j->issued_room);
	i = &j->issued[j->issued_n++];
	*i = (struct issued){.session = a->session, .any = a->ambiguous, .acquire = a->acquire};
	i->acquire.ticket = result.acquired.ticket;
}

const char *
judge_answer(struct judge *j, uint64_t session, const struct msg_reply *r)
{
	struct asked *a = find(j, session, r->number);

	if (a == NULL)
		return "an answer to nothing";
	note_ticket(j, a, r);
	if (a->ambiguous)
		return NULL;
	return a->refused ? refused_rightly(j, a, r) : same_again(j, a, r);
}

const char *
judge_opened(const struct judge *j, uint64_t session, struct bytes nonce, struct bytes principal)
{
	struct tree_session s;

	if (tree_session(j->tree, session, &s) &&
	    (!bytes_equal(s.nonce, nonce) || !bytes_equal(s.principal, principal)))
		return "a session is open that is somebody else's";
	return NULL;
}
