/* What a machine sends leaves over one uplink. Its connections share that in turns of a packet, and
 * what they have given it stands in one queue: so a short frame on a connection of its own waits
 * for that queue, and not for what other connections have still to send. */
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/sim/sim.h"

enum {
	PACKET = 4096,
	OVERHEAD = 64, /* bytes of headers, for each frame */
};

/* A frame that has not left as a whole; `event` comes when it has. */
struct outgoing {
	TAILQ_ENTRY(outgoing) entry;
	struct lane *lane;
	struct event event;
	size_t left;
};

void
uplinks_init(struct sim *s)
{
	struct rng r = rng_seeded(~s->seed);
	struct swarm *w = &s->swarm;

	for (int i = 0; i < ENDS; i++) {
		TAILQ_INIT(&s->net.uplinks[i].coming);
		TAILQ_INIT(&s->net.uplinks[i].busy_lanes);
	}
	if (rng_chance(&r, 250)) {
		w->rate = UPLINK_SLOWEST;
		while (w->rate < UPLINK_FASTEST && rng_chance(&r, 600))
			w->rate *= 2;
		w->queue_ns = (int64_t)rng_below(&r, 100) * MS;
	}
	if (rng_chance(&r, 200))
		w->cost_ns = 1000 + (int64_t)rng_below(&r, 200000);
	w->bulk = !w->mounts && rng_chance(&r, w->rate > 0 ? 250 : 50);
	if (w->bulk)
		bulk_make_room(w);
	w->lease_ms = LEASE_MS;
	if (w->bulk && rng_chance(&r, 250)) { /* for a cell whose replicas are far apart */
		w->lease_ms = 4 * LEASE_MS;
		w->latency_us = 200000;
		w->batch_entries = 0;
		w->limits.part += 8000;
	}
}

void
lane_init(struct lane *l)
{
	TAILQ_INIT(&l->frames);
	l->waits = false;
}

static void
drop(struct outgoing_list *list, struct outgoing *o)
{
	TAILQ_REMOVE(list, o, entry);
	free((void *)o->event.data.data);
	free(o);
}

void
lane_clear(struct sim *s, int end, struct lane *l)
{
	struct uplink *u = &s->net.uplinks[end];
	struct outgoing *o, *next;

	for (o = TAILQ_FIRST(&u->coming); o != NULL; o = next) {
		next = TAILQ_NEXT(o, entry);
		if (o->lane == l)
			drop(&u->coming, o);
	}
	while (!TAILQ_EMPTY(&l->frames))
		drop(&l->frames, TAILQ_FIRST(&l->frames));
	if (l->waits)
		TAILQ_REMOVE(&u->busy_lanes, l, entry);
	l->waits = false;
}

void
lane_close(struct lane *l)
{
	struct outgoing *o;

	while (!TAILQ_EMPTY(&l->frames) &&
	       (o = TAILQ_LAST(&l->frames, outgoing_list)) != TAILQ_FIRST(&l->frames))
		drop(&l->frames, o);
}

/* One packet of the lane whose turn it is. */
static void
send_packet(struct sim *s, struct uplink *u)
{
	struct lane *l = TAILQ_FIRST(&u->busy_lanes);
	struct outgoing *o = TAILQ_FIRST(&l->frames);
	size_t n = o->left < PACKET ? o->left : PACKET;

	TAILQ_REMOVE(&u->busy_lanes, l, entry);
	u->busy_until += (int64_t)n * SECOND / s->swarm.rate;
	o->left -= n;
	if (o->left == 0) {
		o->event.at = u->busy_until;
		heap_push(&s->heap, o->event);
		o->event.data = (struct bytes){0};
		drop(&l->frames, o);
	}
	l->waits = !TAILQ_EMPTY(&l->frames);
	if (l->waits)
		TAILQ_INSERT_TAIL(&u->busy_lanes, l, entry);
}

static void run_uplink(struct sim *s, struct event *e);

static void
go_on(struct sim *s, int end)
{
	struct uplink *u = &s->net.uplinks[end];

	if (u->busy_until < s->now)
		u->busy_until = s->now;
	while (!TAILQ_EMPTY(&u->busy_lanes) && u->busy_until <= s->now + s->swarm.queue_ns)
		send_packet(s, u);
	u->runs = !TAILQ_EMPTY(&u->busy_lanes);
	if (u->runs)
		heap_push(&s->heap, (struct event){.at = u->busy_until - s->swarm.queue_ns,
		                                   .run = run_uplink,
		                                   .who = end});
}

static void
run_uplink(struct sim *s, struct event *e)
{
	go_on(s, e->who);
}

/* A KeepAlive overtakes the frames that have not begun to leave, but for other KeepAlives. */
static void
put_into_lane(struct lane *l, struct outgoing *o)
{
	struct outgoing *next = TAILQ_FIRST(&l->frames);

	if (next == NULL || !wire_frame_goes_first(o->event.data)) {
		TAILQ_INSERT_TAIL(&l->frames, o, entry);
		return;
	}
	do
		next = TAILQ_NEXT(next, entry);
	while (next != NULL && wire_frame_goes_first(next->event.data));
	if (next != NULL)
		TAILQ_INSERT_BEFORE(next, o, entry);
	else
		TAILQ_INSERT_TAIL(&l->frames, o, entry);
}

static void
give(struct sim *s, int end, struct outgoing *o)
{
	struct uplink *u = &s->net.uplinks[end];
	struct lane *l = o->lane;

	put_into_lane(l, o);
	if (!l->waits)
		TAILQ_INSERT_TAIL(&u->busy_lanes, l, entry);
	l->waits = true;
	if (!u->runs)
		go_on(s, end);
}

static void
run_coming(struct sim *s, struct event *e)
{
	struct uplink *u = &s->net.uplinks[e->who];
	struct outgoing *o;

	while ((o = TAILQ_FIRST(&u->coming)) != NULL && o->event.at <= s->now) {
		TAILQ_REMOVE(&u->coming, o, entry);
		give(s, e->who, o);
	}
}

/* A turn has sent it, and takes until `e.at` to do so. */
void
uplink_send(struct sim *s, int end, struct lane *l, struct event e)
{
	struct uplink *u = &s->net.uplinks[end];
	struct outgoing *o = memory_zero(1, sizeof *o);
	const struct outgoing *last = TAILQ_LAST(&u->coming, outgoing_list);

	must(s->swarm.rate > 0 && (last == NULL || last->event.at <= e.at));
	o->lane = l;
	o->event = e;
	o->left = e.data.len + OVERHEAD;
	if (e.at <= s->now) {
		give(s, end, o);
		return;
	}
	TAILQ_INSERT_TAIL(&u->coming, o, entry);
	heap_push(&s->heap, (struct event){.at = e.at, .run = run_coming, .who = end});
}
