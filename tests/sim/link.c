/* What replicas send each other. In most runs over connections, one for each direction: in order,
 * until one breaks and loses the end of what was under way; its successor does not wait for what is
 * still to come out of it. In the others each message goes its own way, may be lost, and may come
 * twice: paxos promises to bear that as well. */
#include <stdlib.h>
#include "cell/base/must.h"
#include "tests/sim/sim.h"

static struct link *
link_of(struct sim *s, int from, int to, int i)
{
	return &s->net.links[from - 1][to - 1][i];
}

/* An event of a link names who sends, and on which of its links. */
static uint64_t
name_of(int from, int i)
{
	return (uint64_t)from | (uint64_t)i << 8;
}

static int
sender_of(const struct event *e)
{
	return (int)(e->a & 0xff);
}

static struct link *
link_of_event(struct sim *s, const struct event *e)
{
	return link_of(s, sender_of(e), e->who + 1, (int)(e->a >> 8));
}

/* Set in the event of a message that was put off once; that waits for its turn. */
#define PUT_OFF ((uint64_t)1 << 63)
#define QUEUED ((uint64_t)1 << 62)

static void
put_off(struct sim *s, struct event *e, int64_t until)
{
	struct event again = *e;

	again.at = until;
	again.b |= PUT_OFF;
	e->data = (struct bytes){0};
	heap_push(&s->heap, again);
}

static void
run_arrive(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];
	const struct link *l = link_of_event(s, e);
	const int from = sender_of(e);
	int64_t turn;

	if (!n->up || (!s->swarm.datagrams && n->life != e->life))
		return;
	if (n->paused_until > s->now) {
		put_off(s, e, n->paused_until);
		return;
	}
	if (l->late > 0 && e->b == l->generation - 1) {
		put_off(s, e, s->now + l->late);
		return;
	}
	if (!gate_passes(s, from, n->id))
		return;
	if (!(e->b & QUEUED) && (turn = host_turn(s, n)) > s->now) {
		e->b |= QUEUED;
		put_off(s, e, turn);
		return;
	}
	if (wire_frame_code(e->data) == MSG_heartbeat)
		n->heard_at = s->now;
	trace_frame(s, "peer", (uint64_t)from * 100 + (uint64_t)n->id, e->data);
	host_event(s, n,
	           (struct replica_event){
	               .kind = REPLICA_PEER, .peer = (uint8_t)from, .frame = e->data});
}

static struct event
event_of(struct sim *s, int from, int to, int i, struct bytes frame)
{
	return (struct event){.at = s->now,
	                      .run = run_arrive,
	                      .who = to - 1,
	                      .life = s->hosts[to - 1].life,
	                      .a = name_of(from, i),
	                      .b = link_of(s, from, to, i)->generation,
	                      .data = bytes_copy(frame)};
}

static int64_t
arrival(struct sim *s, int from, int to)
{
	int64_t cut = s->net.cut_until[end_of_host(from)][end_of_host(to)];

	return (cut > s->now ? cut : s->now) + sim_between(s, 50000, s->swarm.latency_us * 1000);
}

static bool
happens(struct sim *s, enum fault f)
{
	if (s->calm || !rng_chance(&s->rng, s->swarm.rates[f]))
		return false;
	s->stats.faults[f]++;
	return true;
}

static void
send_datagram(struct sim *s, const struct event *e)
{
	const int from = sender_of(e), to = e->who + 1;
	int copies = 1;

	if (s->net.cut_until[end_of_host(from)][end_of_host(to)] > s->now ||
	    happens(s, FAULT_MESSAGE_LOST))
		copies = 0;
	else if (happens(s, FAULT_MESSAGE_DOUBLED))
		copies = 2;
	while (copies-- > 0) {
		bool late = happens(s, FAULT_MESSAGE_LATE);
		struct event copy = *e;

		copy.at = arrival(s, from, to) + (late ? sim_between(s, 0, SECOND) : 0);
		copy.data = bytes_copy(e->data);
		heap_push(&s->heap, copy);
	}
}

/* It is on its way, from the machine that sends to the one that receives. */
static void
travel(struct sim *s, struct event *e)
{
	struct link *l = link_of_event(s, e);
	int64_t at;

	if (s->swarm.datagrams) {
		send_datagram(s, e);
		return;
	}
	if (e->b != l->generation)
		return;
	at = arrival(s, sender_of(e), e->who + 1);
	l->last = at > l->last ? at : l->last;
	e->at = l->last;
	heap_push(&s->heap, *e);
	e->data = (struct bytes){0};
}

static void
run_leave(struct sim *s, struct event *e)
{
	e->run = run_arrive;
	travel(s, e);
}

void
link_send(struct sim *s, int from, int to, struct bytes frame)
{
	if (from == s->liar.id && !s->calm)
		liar_send(s, to, frame);
	else
		link_put(s, from, to, frame);
}

void
link_put(struct sim *s, int from, int to, struct bytes frame)
{
	const int i = wire_frame_is_bulk(frame); /* on a connection of its own */
	struct link *l = link_of(s, from, to, i);
	struct event e;

	must(to >= 1 && to <= HOSTS_MAX && to != from);
	if (!gate_passes(s, from, to))
		return;
	if (!s->swarm.datagrams && (l->down_until > s->now || !s->hosts[to - 1].up))
		return;
	e = event_of(s, from, to, i, frame);
	if (s->swarm.rate > 0) {
		e.run = run_leave;
		uplink_send(s, end_of_host(from), &l->lane, e);
		return;
	}
	travel(s, &e);
	free((void *)e.data.data);
}

static void
break_one(struct sim *s, int from, int to, int i)
{
	struct link *l = link_of(s, from, to, i);
	int64_t cut = s->now + sim_between(s, 0, s->swarm.latency_us * 1000);

	for (size_t j = 0; j < s->heap.n; j++) {
		struct event *e = &s->heap.events[j];

		if (e->run != run_arrive || e->who != to - 1 || e->a != name_of(from, i) ||
		    e->b != l->generation)
			continue;
		if (e->at >= cut)
			e->life = 0; /* of no replica */
	}
	lane_clear(s, end_of_host(from), &l->lane);
	l->late = rng_chance(&s->rng, 300) ? sim_between(s, 0, SECOND) : 0;
	l->generation++;
	l->last = 0;
	l->down_until = s->now + (s->calm ? 0 : sim_between(s, 0, 300 * MS));
}

/* The end of what is under way is lost. The rest may come late, among what the next connection
 * carries. */
void
link_break(struct sim *s, int from, int to)
{
	for (int i = 0; i < LINKS; i++)
		break_one(s, from, to, i);
}

void
links_init(struct sim *s)
{
	for (int from = 1; from <= HOSTS_MAX; from++)
		for (int to = 1; to <= HOSTS_MAX; to++)
			for (int i = 0; i < LINKS; i++)
				lane_init(&link_of(s, from, to, i)->lane);
}

void
links_free(struct sim *s)
{
	for (int from = 1; from <= HOSTS_MAX; from++)
		for (int to = 1; to <= HOSTS_MAX; to++)
			for (int i = 0; i < LINKS; i++)
				lane_clear(s, end_of_host(from), &link_of(s, from, to, i)->lane);
}

/* The order of what waits is that of its making, which the heap keeps among equal times. */
void
link_heal(struct sim *s, int from, int to)
{
	int64_t at = s->now + sim_between(s, 50000, s->swarm.latency_us * 1000);

	s->net.cut_until[end_of_host(from)][end_of_host(to)] = 0;
	for (int i = 0; i < LINKS; i++) {
		struct link *l = link_of(s, from, to, i);

		l->down_until = 0;
		l->last = l->last < at ? l->last : at;
	}
	for (size_t i = 0; i < s->heap.n; i++) {
		struct event *e = &s->heap.events[i];

		if (e->run == run_arrive && e->who == to - 1 && sender_of(e) == from && e->at > at)
			e->at = at;
	}
	heap_sort(&s->heap);
}

void
link_node_died(struct sim *s, int node)
{
	for (int i = 1; i <= s->hosts_n && !s->swarm.datagrams; i++) {
		if (i == node + 1)
			continue;
		link_break(s, i, node + 1);
		link_break(s, node + 1, i);
	}
}
