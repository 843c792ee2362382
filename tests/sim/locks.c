/* The model's locks, and what must hold of every grant. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "tests/sim/sim.h"

static struct holder *
holder_of(struct item *it, uint64_t session, uint64_t owner)
{
	for (size_t i = 0; i < it->holders_n; i++) {
		if (it->holders[i].session == session && it->holders[i].owner == owner)
			return &it->holders[i];
	}
	return NULL;
}

static bool
is_slot_free(const struct item *it, int slot)
{
	for (size_t i = 0; i < it->holders_n; i++)
		if (it->holders[i].slot == slot)
			return false;
	return !it->slot_delayed[slot];
}

static int
lowest_slot(const struct item *it)
{
	int slot = 0;

	while (slot < LIMIT_SLOTS && !is_slot_free(it, slot))
		slot++;
	return slot < LIMIT_SLOTS ? slot : -1;
}

/* Who left a delay behind may still be at work. */
static bool
are_slots_taken(const struct item *it)
{
	size_t taken = it->holders_n;

	for (int i = 0; i < LIMIT_SLOTS; i++)
		taken += it->slot_delayed[i];
	return it->slots > 0 && taken >= it->slots;
}

static bool
in_the_way(const struct item *it, const struct holder *own, enum lock_mode mode)
{
	for (size_t i = 0; i < it->holders_n; i++) {
		if (&it->holders[i] != own &&
		    (mode == LOCK_EXCLUSIVE || it->holders[i].now.mode == LOCK_EXCLUSIVE))
			return true;
	}
	if (mode == LOCK_SHARED && own == NULL && are_slots_taken(it))
		return true;
	if (it->delay_mode == LOCK_EXCLUSIVE ||
	    (it->delay_mode == LOCK_SHARED && mode == LOCK_EXCLUSIVE))
		return true;
	return false;
}

static struct outcome
granted(const struct holder *h)
{
	return (struct outcome){.rc = RC_OK,
	                        .fence = h->now.fence,
	                        .lock_generation = h->now.generation};
}

static int
ticket_order(const struct ticket *a, const struct ticket *b)
{
	if (a->epoch != b->epoch)
		return a->epoch < b->epoch ? -1 : 1;
	return a->place < b->place ? -1 : a->place > b->place;
}

/* When it was asked for, alone or in a transaction. */
static int64_t
asked(const struct sim *s, uint64_t session, const struct acquire *by)
{
	for (size_t i = 0; i < s->history.acquires_n; i++) {
		const struct record *r = s->history.acquires[i];
		const struct acquire *a = &r->op.acquire.acquire;

		if (r->session == session && a->node == by->node &&
		    a->acquisition == by->acquisition)
			return r->made;
	}
	return s->model.by != NULL ? s->model.by->made : 0;
}

/* Did the master of this epoch tell this waiter so, before the other one asked? */
static bool
was_before(const struct sim *s, const struct record *waiter, uint64_t session,
           const struct acquire *a)
{
	return waiter->queued_epoch == s->model.epoch && waiter->queued_at < asked(s, session, a);
}

/* A waiter of an earlier master has time to come to the next one and say so; once. Its ticket does
 * not outlast two rotations of the signing key. */
static bool
has_time_left(const struct sim *s, const struct item *it, const struct record *waiter)
{
	const int64_t lease = setting_changes_least(s, SETTING_cache_lease);
	const struct model *m = &s->model;

	return sim_leases_hold(s) && !outstanding_unclaimed(s, it) &&
	       waiter->queued_epoch < m->epoch && m->keys.rotations < waiter->rotations + 2 &&
	       waiter->queued_at < m->epoch_from && waiter->queued_at >= m->lapsed_before &&
	       s->now - m->epoch_from < lease / 100 * 98;
}

/* It has the lock and has not heard of it; or it converts, and that was not before the epoch. */
static bool
has_or_converts(const struct sim *s, const struct item *it, const struct record *waiter)
{
	const struct acquire *w = &waiter->op.acquire.acquire;
	const struct holder *h = holder_of((struct item *)it, waiter->session, w->owner);

	return h != NULL &&
	       (h->now.acquisition == w->acquisition || waiter->queued_epoch != s->model.epoch);
}

/* Nobody passes a waiter, not over a fail-over either. Two that share a lock are in nobody's way,
 * unless it counts: who comes while the other's grant is under way may be first when that is
 * refused. */
static void
check_turn(struct sim *s, const struct item *it, uint64_t session, const struct acquire *a)
{
	/* It had the lock as it was asked for again. */
	if (unlocks_since(it, session, asked(s, session, a)))
		return;
	for (size_t i = 0; i < s->history.acquires_n; i++) {
		const struct record *r = s->history.acquires[i];
		const struct acquire *w = &r->op.acquire.acquire;

		if (!r->waiting || w->node != it->node)
			continue;
		if (w->mode == LOCK_SHARED && a->mode == LOCK_SHARED && it->slots == 0)
			continue;
		if (!model_alive(&s->model, r->session))
			continue;
		if (r->session == session && w->owner == a->owner)
			continue;
		if (!was_before(s, r, session, a) && !has_time_left(s, it, r))
			continue;
		if (a->ticket.epoch != 0 && ticket_order(&a->ticket, &r->ticket) <= 0)
			continue;
		if (has_or_converts(s, it, r))
			continue;
		sim_fail(s,
		         "session %lu gets the lock of %s out of turn: %lu waits since place %lu",
		         (unsigned long)session, trace_path(s, it->node), (unsigned long)r->session,
		         (unsigned long)r->ticket.place);
	}
}

static void
new_fence(struct sim *s, uint64_t index, struct item *it, struct holder *h)
{
	uint64_t *last = &s->model.last_fence;

	*last = index > *last ? index : *last + 1;
	h->now.fence = it->last_fence = *last;
	h->now.generation = it->lock_generation;
	h->now.at = s->now;
	model_happened(&s->model, it,
	               &(struct happening){.kind = EVENT_LOCK_ACQUIRED,
	                                   .generation = it->lock_generation,
	                                   .at = s->now});
	model_past(&s->model, CHANGE_LOCK, it->node, it->lock_generation);
}

static struct holder *
take(struct sim *s, uint64_t index, struct item *it, uint64_t session, const struct acquire *a)
{
	struct holder *h = holder_of(it, session, a->owner);
	int64_t delay_s = a->delay_s >= 0         ? a->delay_s
	                  : it->lock_delay_s >= 0 ? it->lock_delay_s
	                                          : a->default_delay_s;

	if (h == NULL) {
		check_turn(s, it, session, a);
		it->lock_generation += it->holders_n == 0;
		ARRAY_ROOM(it->holders, it->holders_n, it->holders_room);
		h = &it->holders[it->holders_n];
		*h =
		    (struct holder){.session = session, .owner = a->owner, .slot = lowest_slot(it)};
		it->holders_n++;
		new_fence(s, index, it, h);
	} else {
		h->earlier = h->now;
		if (h->now.mode == LOCK_SHARED && a->mode == LOCK_EXCLUSIVE) {
			it->lock_generation++;
			new_fence(s, index, it, h);
		}
	}
	it->lock_changed = index;
	h->now.acquisition = a->acquisition;
	h->now.mode = (enum lock_mode)a->mode;
	h->pid = a->pid;
	if (delay_s > h->delay_s)
		h->delay_s = delay_s;
	return h;
}

void
locks_acquire(struct sim *s, uint64_t index, uint64_t session, const struct acquire *a,
              struct outcome *want)
{
	struct item *it = model_item(&s->model, a->node);
	struct holder *h;

	if (it == NULL || it->died != 0) {
		want->rc = RC_STALE;
		return;
	}
	h = holder_of(it, session, a->owner);
	if (h != NULL && h->now.acquisition == a->acquisition)
		*want = granted(h);
	else if (in_the_way(it, h, (enum lock_mode)a->mode))
		want->rc = RC_BUSY_LOCK;
	else
		*want = granted(take(s, index, it, session, a));
}

/* The acquire and its presentations after a reconnect are one: what one of them got, all got. */
void
locks_took(struct sim *s, uint64_t index, uint64_t session, const struct acquire *by,
           const struct outcome *want)
{
	for (size_t i = 0; i < s->history.acquires_n; i++) {
		struct record *r = s->history.acquires[i];
		const struct acquire *a = &r->op.acquire.acquire;

		if (r->session != session || a->node != by->node ||
		    a->acquisition != by->acquisition ||
		    (r->executed != 0 && !unlocks_has(s, by->node, session, by->acquisition)))
			continue;
		r->executed = index;
		r->by_another = true;
		r->want = *want;
		r->waiting = false;
	}
}

/* A waiter that has lost its right waits no more: the master refuses it when it sees the loss,
 * with fewer entries under way, and not only when its turn comes. */
static void
refused(struct sim *s, uint64_t index, const struct op_grant *op)
{
	for (size_t i = 0; i < s->history.acquires_n; i++) {
		struct record *r = s->history.acquires[i];
		const struct acquire *a = &r->op.acquire.acquire;

		if (r->session != op->session || a->node != op->acquire.node ||
		    a->acquisition != op->acquire.acquisition)
			continue;
		r->waiting = false;
		if (r->unentitled != 0 && index > r->unentitled + 64 &&
		    r->queued_epoch == s->model.epoch)
			sim_fail(s, "a waiter lost its right in entry %lu, and waits",
			         (unsigned long)r->unentitled);
	}
}

/* A grant that the master proposed. It names a live session or does nothing. */
bool
locks_has(const struct item *it, uint64_t session, const struct acquire *a)
{
	const struct holder *h = holder_of((struct item *)it, session, a->owner);

	return h != NULL && h->now.acquisition == a->acquisition;
}

int64_t
locks_blocked_since(const struct sim *s, const struct item *it, uint64_t session, uint64_t owner)
{
	const struct holder *h = holder_of((struct item *)it, session, owner);

	for (size_t i = 0; h != NULL && i < s->history.acquires_n; i++) {
		const struct record *r = s->history.acquires[i];
		const struct acquire *w = &r->op.acquire.acquire;

		if (r->waiting && w->node == it->node && r->queued_epoch == s->model.epoch &&
		    r->queued_at < h->now.at && model_alive(&s->model, r->session) &&
		    (w->mode == LOCK_EXCLUSIVE || h->now.mode == LOCK_EXCLUSIVE) &&
		    !has_or_converts(s, it, r))
			return h->now.at;
	}
	return INT64_MAX;
}

void
locks_granted(struct sim *s, uint64_t index, const struct command *c, const struct op_grant *op)
{
	struct outcome want = {0};
	struct item *it = model_item(&s->model, op->acquire.node);

	if (it != NULL)
		it->named = index;
	if (!model_alive(&s->model, op->session))
		return;
	if (!model_permits_grant(s, c, op)) {
		refused(s, index, op);
		return;
	}
	locks_acquire(s, index, op->session, &op->acquire, &want);
	/* How many share a counting lock may have changed since the master decided. */
	if (want.rc == RC_BUSY_LOCK && it->granted == index && it->slots == 0 && s->script == NULL)
		sim_fail(s, "an entry grants the lock of %s twice", trace_path(s, it->node));
	if (want.rc != RC_OK)
		return;
	it->granted = index;
	locks_took(s, index, op->session, &op->acquire, &want);
}

static void
drop(struct item *it, struct holder *h)
{
	size_t at = (size_t)(h - it->holders);

	it->holders_n--;
	for (; at < it->holders_n; at++)
		it->holders[at] = it->holders[at + 1];
}

static void
release_held(struct item *it, uint64_t session, const struct op_release *op)
{
	struct holder *h = holder_of(it, session, op->owner);

	if (h != NULL && h->now.acquisition == op->acquisition)
		drop(it, h);
}

static void
cancel_held(struct sim *s, uint64_t index, struct item *it, uint64_t session,
            const struct op_cancel *op)
{
	struct holder *h = holder_of(it, session, op->owner);

	if (h == NULL || h->now.acquisition != op->acquisition)
		return;
	if (h->earlier.acquisition == 0) {
		drop(it, h);
		return;
	}
	if (in_the_way(it, h, h->earlier.mode))
		h->earlier.mode = LOCK_SHARED;
	h->now = h->earlier;
	h->earlier.acquisition = 0;
	if (h->now.mode == LOCK_EXCLUSIVE && h->now.fence != it->last_fence) {
		it->lock_generation++;
		new_fence(s, index, it, h);
	}
}

void
locks_give_back(struct sim *s, uint64_t index, uint64_t session, const struct op *op,
                struct outcome *want)
{
	struct item *it = model_item(&s->model, wire_op_node(op));

	if (!model_item_alive(it)) {
		want->rc = op->code == OP_release ? RC_STALE : RC_OK;
		return;
	}
	it->lock_changed = index;
	if (op->code == OP_release)
		release_held(it, session, &op->release);
	else
		cancel_held(s, index, it, session, &op->cancel);
}

static int64_t
largest_delay(const struct item *it)
{
	int64_t most = it->delay_mode != LOCK_NONE ? it->delay_s : 0;

	for (size_t i = 0; i < it->holders_n; i++) {
		if (it->holders[i].delay_s > most)
			most = it->holders[i].delay_s;
	}
	return most;
}

/* Chubby, section 2.4: the lock of a holder that failed stays away from others for the lock-delay.
 */
static void
begin_delay(struct sim *s, struct item *it, uint64_t index, const struct holder *h)
{
	int64_t seconds = largest_delay(it);

	if (seconds == 0)
		return;
	it->delay_mode = h->now.mode;
	if (h->slot >= 0)
		it->slot_delayed[h->slot] = true;
	it->delay_s = seconds;
	it->delay_began = index;
	it->delay_generation = it->lock_generation;
	it->delay_from = s->now;
	if (h->now.mode == LOCK_SHARED)
		adversary_delay(s, it->node, seconds * SECOND);
}

bool
locks_session_ends(struct sim *s, struct item *it, uint64_t index, uint64_t session, uint64_t fence,
                   bool expired)
{
	struct holder *first = NULL;

	for (struct holder *h = it->holders; h < it->holders + it->holders_n; h++)
		if (h->session == session && h->now.fence <= fence &&
		    (first == NULL || h->owner < first->owner))
			first = h;
	if (first == NULL)
		return false;
	it->lock_changed = index;
	if (expired)
		begin_delay(s, it, index, first);
	drop(it, first);
	return true;
}

bool
locks_keep(struct sim *s, const struct item *it, uint64_t session, struct bytes user)
{
	bool kept = it->delay_mode != LOCK_NONE;

	for (size_t i = 0; i < it->holders_n; i++)
		kept |= it->holders[i].session != session;
	return kept && !model_is_operator(s, session, user);
}

/* The master's clock may run a hundredth faster than ours. */
void
locks_delay_over(struct sim *s, const struct op_delay_over *op)
{
	struct item *it = model_item(&s->model, op->node);

	if (it == NULL || it->died != 0 || it->delay_mode == LOCK_NONE ||
	    op->lock_generation != it->delay_generation || op->began != it->delay_began)
		return;
	if (sim_leases_hold(s) && s->now - it->delay_from < it->delay_s * SECOND / 100 * 99)
		sim_fail(s, "the lock-delay of %s ends too early", trace_path(s, it->node));
	it->delay_mode = LOCK_NONE;
	memset(it->slot_delayed, 0, sizeof it->slot_delayed);
	it->lock_changed = s->model.applied;
}

bool
locks_guard_stale(struct sim *s, const struct guard *g)
{
	const struct item *it = model_item(&s->model, g->node);

	for (size_t i = 0; it != NULL && it->died == 0 && i < it->holders_n; i++) {
		const struct holder *h = &it->holders[i];

		if (h->now.fence == g->fence && h->now.generation == g->lock_generation &&
		    h->now.mode == (enum lock_mode)g->mode && model_alive(&s->model, h->session))
			return false;
	}
	return true;
}
