/* Acquires that wait in a lock's queue at the cell. The queue is in the master's memory only; after
 * a fail-over the next master rebuilds it from the waits that clients present, sorted by ticket. */
#include <stdlib.h>
#include "cell/base/keyed.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/client/internal.h"

enum { ACQUIRE_BYTES = 128 }; /* of an operation acquire, at most */

static int
wait_compare(const struct lock_wait *a, const struct lock_wait *b)
{
	const struct acquire *p = &a->acquire, *q = &b->acquire;

	return keyed_order(p->node, q->node) ?: keyed_order(p->owner, q->owner)
		?: keyed_order(p->acquisition, q->acquisition);
}

RB_GENERATE_INTERNAL(wait_tree, lock_wait, node, wait_compare, __attribute__((unused)) static)

static struct lock_wait *
wait_find(struct client *c, struct lock_key key)
{
	struct lock_wait like = {0};

	like.acquire.node = key.node;
	like.acquire.owner = key.owner;
	like.acquire.acquisition = key.acquisition;
	return RB_FIND(wait_tree, &c->waits.by_key, &like);
}

static void
wait_drop(struct client *c, struct lock_wait *w)
{
	if (w->present)
		c->waits.present_n--;
	RB_REMOVE(wait_tree, &c->waits.by_key, w);
	TAILQ_REMOVE(&c->waits.list, w, entry);
	free((void *)w->user.data);
	free(w);
}

void
client_lock_waits_add(struct client *c, const struct acquire *a, struct bytes user,
                      struct ticket ticket)
{
	struct lock_wait *w = memory_zero(1, sizeof *w);

	w->acquire = *a;
	w->acquire.ticket = ticket;
	w->user = bytes_copy(user);
	must(RB_INSERT(wait_tree, &c->waits.by_key, w) == NULL);
	TAILQ_INSERT_TAIL(&c->waits.list, w, entry);
	CLIENT_TRACE(c, "acquisition %llu of node %llu is queued at place %llu",
	             (unsigned long long)a->acquisition, (unsigned long long)a->node,
	             (unsigned long long)ticket.place);
}

void
client_lock_waits_remove(struct client *c, struct lock_key key)
{
	struct lock_wait *w = wait_find(c, key);

	if (w == NULL)
		return;
	CLIENT_TRACE(c, "acquisition %llu of node %llu is withdrawn",
	             (unsigned long long)key.acquisition, (unsigned long long)key.node);
	wait_drop(c, w);
}

static void
tell(struct client *c, const struct client_grant *g)
{
	struct client_update *u = c->update;

	ARRAY_ROOM(u->grants, u->grants_n, u->grants_room);
	u->grants[u->grants_n++] = *g;
}

static void
tell_of(struct client *c, const struct lock_wait *w, struct client_grant g)
{
	g.node = w->acquire.node;
	g.owner = w->acquire.owner;
	g.acquisition = w->acquire.acquisition;
	tell(c, &g);
}

static void
wait_over(struct client *c, struct lock_wait *w, enum rc rc, uint64_t lock_generation,
          uint64_t fence)
{
	CLIENT_TRACE(c, "acquisition %llu of node %llu waits no more: %s",
	             (unsigned long long)w->acquire.acquisition,
	             (unsigned long long)w->acquire.node, rc_name(rc));
	tell_of(c, w,
	        (struct client_grant){.rc = rc,
	                              .lock_generation = lock_generation,
	                              .fence = fence});
	wait_drop(c, w);
}

/* A grant of a wait that was removed is ignored: its cancel or release is in flight and gives the
 * lock back. RC_INTR: an operator has released the lock. For a wait that is being presented
 * again this is news from before the reconnect: the answer says where the wait stands now. */
void
client_lock_waits_on_granted(struct client *c, const struct msg_granted *m)
{
	struct lock_wait *w = wait_find(c, (struct lock_key){m->node, m->owner, m->acquisition});

	if (w != NULL && w->presenting && m->rc == RC_INTR) {
		CLIENT_TRACE(c, "acquisition %llu of node %llu was lost before it was known",
		             (unsigned long long)m->acquisition, (unsigned long long)m->node);
	} else if (w != NULL) {
		wait_over(c, w, m->rc, m->lock_generation, m->fence);
	} else if (m->rc == RC_INTR) {
		CLIENT_TRACE(c, "acquisition %llu of node %llu is lost",
		             (unsigned long long)m->acquisition, (unsigned long long)m->node);
		tell(c, &(struct client_grant){.node = m->node,
		                               .owner = m->owner,
		                               .acquisition = m->acquisition,
		                               .rc = RC_INTR});
	} else {
		CLIENT_TRACE(c, "a grant is ignored: acquisition %llu does not wait",
		             (unsigned long long)m->acquisition);
	}
}

void
client_lock_waits_on_presented(struct client *c, struct lock_key key, enum rc rc,
                               const struct result_acquired *g)
{
	struct lock_wait *w = wait_find(c, key);

	if (w == NULL)
		return;
	w->presenting = false;
	if (rc == RC_QUEUED) {
		w->acquire.ticket = g->ticket;
		if (g->kept == LOCK_NONE)
			tell_of(c, w, (struct client_grant){.rc = RC_QUEUED});
	} else if (rc == RC_OK)
		wait_over(c, w, RC_OK, g->lock_generation, g->fence);
	else
		wait_over(c, w, rc, 0, 0);
}

/* A wait whose presentation was not answered on the last connection was sent again with its
 * number. */
void
client_lock_waits_reconnected(struct client *c)
{
	struct lock_wait *w;

	c->waits.present_n = 0;
	TAILQ_FOREACH(w, &c->waits.list, entry) {
		w->present = !w->presenting;
		c->waits.present_n += w->present;
	}
}

void
client_lock_waits_present(struct client *c)
{
	struct lock_wait *w;

	TAILQ_FOREACH(w, &c->waits.list, entry) {
		struct op op = {.code = OP_acquire, .acquire.acquire = w->acquire};

		if (!w->present)
			continue;
		if (!client_request_room(c, ACQUIRE_BYTES))
			return;
		w->present = false;
		w->presenting = true;
		c->waits.present_n--;
		client_request_own(c, REQUEST_WAIT, &op, w->user);
	}
	must(c->waits.present_n == 0);
}

void
client_lock_waits_forget(struct client *c)
{
	while (!TAILQ_EMPTY(&c->waits.list))
		wait_drop(c, TAILQ_FIRST(&c->waits.list));
}

/* ---- the image ---- */

static void
wait_image(struct acquire *a, struct bytes *user, struct image *i)
{
	IMAGE(i, a->node);
	IMAGE(i, a->owner);
	IMAGE(i, a->acquisition);
	IMAGE(i, a->mode);
	IMAGE(i, a->wait);
	IMAGE(i, a->delay_s);
	IMAGE(i, a->default_delay_s);
	IMAGE(i, a->pid);
	IMAGE(i, a->ticket.epoch);
	IMAGE(i, a->ticket.place);
	IMAGE(i, a->ticket.code);
	image_bytes(i, user);
}

void
client_lock_waits_image(struct client *c, struct image *i)
{
	struct lock_wait *w = TAILQ_FIRST(&c->waits.list);
	struct acquire a = {0};
	struct bytes user = {0};

	for (; !image_reads(i) && image_number(i, w != NULL); w = TAILQ_NEXT(w, entry))
		wait_image(&w->acquire, &w->user, i);
	while (image_reads(i) && image_number(i, 0) != 0) {
		wait_image(&a, &user, i);
		if (wait_find(c, (struct lock_key){a.node, a.owner, a.acquisition}) != NULL)
			image_refuse(i);
		else
			client_lock_waits_add(c, &a, user, a.ticket);
		free((void *)user.data);
	}
}
