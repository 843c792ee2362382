/* A command that has not begun holds up later ones that touch its footprint, an ordered one all
 * later ones; from the proposal on the log keeps the order. A read waits only behind an ordered
 * command, until that is answered, and only if its footprint has a key that the read's answer
 * depends on. Each unanswered command claims the keys of its footprint, so that the last command in
 * the way of a request is found in logarithmic time; a parked request waits in exactly one list. */
#include <stdlib.h>
#include "cell/base/keyed.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

/* Keys beside those of nodes. */
#define KEY_EVERYTHING 0   /* claimed by commands that touch, or hold up, everything */
#define KEY_ANY UINT64_MAX /* claimed by each command */

static int
claim_compare(const struct claim *a, const struct claim *b)
{
	return keyed_order(a->key, b->key) ?: keyed_order(a->number, b->number);
}

RB_GENERATE_INTERNAL(claim_tree, claim, link, claim_compare, __attribute__((unused)) static)

/* ---- claims ---- */

/* One claim of a key is enough: a footprint may name a node twice, under any number. */
static void
claim(struct claim_list *list, struct claim_tree *tree, uint64_t key, struct m_request *r)
{
	struct claim *c = &list->claims[list->n];

	*c = (struct claim){.key = key, .number = r->number, .request = r};
	if (RB_INSERT(claim_tree, tree, c) == NULL)
		list->n++;
}

static void
claim_footprint(struct claim_list *list, struct claim_tree *tree, struct m_request *r, bool all)
{
	const struct footprint *f = &r->footprint;

	must(list->n == 0);
	if (list->claims == NULL)
		list->claims = memory_zero(f->n + 2, sizeof *list->claims);
	for (size_t i = 0; i < f->n; i++)
		claim(list, tree, f->keys[i], r);
	if (all)
		claim(list, tree, KEY_EVERYTHING, r);
	claim(list, tree, KEY_ANY, r);
}

static void
unclaim(struct claim_list *list, struct claim_tree *tree)
{
	while (list->n > 0)
		RB_REMOVE(claim_tree, tree, &list->claims[--list->n]);
}

static struct m_request *
claimant_before(struct claim_tree *tree, uint64_t key, uint64_t number)
{
	struct claim like = {.key = key, .number = number};
	struct claim *c = RB_NFIND(claim_tree, tree, &like);

	c = c != NULL ? RB_PREV(claim_tree, tree, c) : RB_MAX(claim_tree, tree);
	return c != NULL && c->key == key ? c->request : NULL;
}

/* The last command of a lower number that claims one of the request's keys; NULL if none does. */
static struct m_request *
last_before(const struct claim_tree *claims, const struct m_request *r)
{
	struct claim_tree *tree = (struct claim_tree *)claims;
	const struct footprint *f = &r->footprint;
	struct m_request *last, *e;

	last = claimant_before(tree, f->everything ? KEY_ANY : KEY_EVERYTHING, r->number);
	for (size_t i = 0; i < f->n; i++) {
		e = claimant_before(tree, f->keys[i], r->number);
		if (e != NULL && (last == NULL || e->number > last->number))
			last = e;
	}
	return last;
}

size_t
m_order_bytes(const struct m_request *r)
{
	const size_t claim = r->ordered ? 2 * sizeof(struct claim) : sizeof(struct claim);

	return r->footprint.n *
	       (sizeof r->footprint.keys[0] + (r->read ? 0 : claim + sizeof(struct gate_hold)));
}

void
m_order_claim(struct m_session *s, struct m_request *r)
{
	struct claim_tree *tree = r->parked ? &s->order.parked : &s->order.begun;

	if (r->read)
		return;
	if (r->order.claims.n > 0)
		unclaim(&r->order.claims, r->parked ? &s->order.begun : &s->order.parked);
	claim_footprint(&r->order.claims, tree, r, r->ordered || r->footprint.everything);
	if (r->ordered && r->order.claims_ordered.n == 0)
		claim_footprint(&r->order.claims_ordered, &s->order.ordered, r,
		                r->footprint.everything);
}

/* ---- obstacles ---- */

bool
m_request_behind_command(const struct m_session *s, const struct m_request *r)
{
	return last_before(&s->order.begun, r) != NULL;
}

/* May the request be answered from this master's state, without the log? */
static bool
needs_lease(const struct master *m, const struct m_request *r, const struct op *op)
{
	return r->read || (r->code == OP_acquire &&
	                   (!r->acquire.wait || !tree_permits(m->tree, &r->requester, op)));
}

static struct request_list *
held_by_barrier(struct master *m, struct m_session *s, const struct m_request *r)
{
	struct m_request *e = NULL;

	if (!m->barrier.stands || !m_barrier_holds(m, s, r))
		return NULL;
	if (r->code == OP_acquire)
		e = last_before(&s->order.begun, r);
	return e != NULL ? &e->order.behind : &m->order.behind_barrier;
}

struct request_list *
m_order_wait_list(struct master *m, struct m_session *s, struct m_request *r, const struct op *op)
{
	/* An acquire with a ticket has stood in the queue under an earlier master: it is older than
	 * what waits before it now, and has to be in its place before another acquire gets the
	 * lock. */
	const bool ticket = r->code == OP_acquire && r->acquire.ticket.epoch != 0;
	/* A command with a turn at the gate was in the log before: one of a lower number that has
	 * come since may wait at the gate for that turn. */
	const bool turn = r->pass != NULL && r->pass->turn != 0;
	struct request_list *held = NULL;
	struct m_request *e = NULL;

	if (r->read)
		e = last_before(&s->order.ordered, r);
	else if (!ticket && !turn)
		e = last_before(&s->order.parked, r);
	if (e != NULL)
		return &e->order.behind;
	if ((held = held_by_barrier(m, s, r)) != NULL)
		return held;
	if (needs_lease(m, r, op))
		return m->has_lease ? NULL : &m->order.without_lease;
	return m_admission_wait_list(m, r, op);
}

const char *
m_order_wait_name(const struct master *m, const struct request_list *list)
{
	if (list == &m->order.behind_barrier)
		return "the barrier";
	if (list == &m->order.without_lease)
		return "the master's lease";
	if (list == &m->order.at_gate)
		return "the gate";
	return "an earlier request";
}

/* ---- waiting ---- */

void
m_order_wait(struct m_request *r, struct request_list *list)
{
	must(r->order.list == NULL);
	r->order.list = list;
	TAILQ_INSERT_TAIL(list, r, order.entry);
}

void
m_order_leave(struct m_request *r)
{
	if (r->order.list != NULL)
		TAILQ_REMOVE(r->order.list, r, order.entry);
	r->order.list = NULL;
}

void
m_order_wake(struct master *m, struct m_request *r)
{
	struct m_request *w;

	while ((w = TAILQ_FIRST(&r->order.behind)) != NULL) {
		m_order_leave(w);
		m_order_wait(w, &m->order.runnable);
	}
}

struct m_request *
m_order_next(struct master *m)
{
	struct m_request *r = TAILQ_FIRST(&m->order.runnable);

	if (r == NULL && !m->barrier.stands)
		r = TAILQ_FIRST(&m->order.behind_barrier);
	if (r == NULL && m->has_lease)
		r = TAILQ_FIRST(&m->order.without_lease);
	return r != NULL ? r : m_admission_next(m);
}

void
m_order_forget(struct m_session *s, struct m_request *r)
{
	struct m_request *w;

	m_order_leave(r);
	while ((w = TAILQ_FIRST(&r->order.behind)) != NULL)
		m_order_leave(w);
	unclaim(&r->order.claims, r->parked ? &s->order.parked : &s->order.begun);
	unclaim(&r->order.claims_ordered, &s->order.ordered);
	free(r->order.claims.claims);
	free(r->order.claims_ordered.claims);
	footprint_free(&r->footprint);
}
