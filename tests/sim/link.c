/* What replicas send each other. In most runs over connections, one for each direction: in order,
 * until one breaks and loses the end of what was under way; its successor does not wait for what is
 * still to come out of it. In the others each message goes its own way, may be lost, and may come
 * twice: paxos promises to bear that as well. */
#include "cell/base/must.h"
#include "tests/sim/sim.h"

static struct link *
link_of(struct sim *s, int from, int to)
{
	return &s->net.links[from - 1][to - 1];
}

/* Set in the event of a message that was put off once. */
#define PUT_OFF ((uint64_t)1 << 63)

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
	struct link *l = link_of(s, (int)e->a, n->id);

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
	if (!gate_passes(s, (int)e->a, n->id))
		return;
	if (wire_frame_code(e->data) == MSG_heartbeat)
		n->heard_at = s->now;
	trace_frame(s, "peer", e->a * 100 + (uint64_t)n->id, e->data);
	host_event(s, n,
	           (struct replica_event){
	               .kind = REPLICA_PEER, .peer = (uint8_t)e->a, .frame = e->data});
}

static void
push(struct sim *s, int from, int to, int64_t at, struct bytes frame)
{
	heap_push(&s->heap, (struct event){.at = at,
	                                   .run = run_arrive,
	                                   .who = to - 1,
	                                   .life = s->hosts[to - 1].life,
	                                   .a = (uint64_t)from,
	                                   .b = link_of(s, from, to)->generation,
	                                   .data = bytes_copy(frame)});
}

static int64_t
arrival(struct sim *s, int from, int to)
{
	int64_t cut = s->net.cut_until[end_of_node(from - 1)][end_of_node(to - 1)];

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
send_datagram(struct sim *s, int from, int to, struct bytes frame)
{
	int copies = 1;

	if (s->net.cut_until[end_of_node(from - 1)][end_of_node(to - 1)] > s->now ||
	    happens(s, FAULT_MESSAGE_LOST))
		copies = 0;
	else if (happens(s, FAULT_MESSAGE_DOUBLED))
		copies = 2;
	while (copies-- > 0) {
		bool late = happens(s, FAULT_MESSAGE_LATE);

		push(s, from, to, arrival(s, from, to) + (late ? sim_between(s, 0, SECOND) : 0),
		     frame);
	}
}

void
link_send(struct sim *s, int from, int to, struct bytes frame)
{
	struct link *l = link_of(s, from, to);
	int64_t at;

	must(to >= 1 && to <= HOSTS_MAX && to != from);
	if (!gate_passes(s, from, to))
		return;
	if (s->swarm.datagrams) {
		send_datagram(s, from, to, frame);
		return;
	}
	if (l->down_until > s->now || !s->hosts[to - 1].up)
		return;
	at = arrival(s, from, to);
	l->last = at > l->last ? at : l->last;
	push(s, from, to, l->last, frame);
}

/* The end of what is under way is lost. The rest may come late, among what the next connection
 * carries. */
void
link_break(struct sim *s, int from, int to)
{
	struct link *l = link_of(s, from, to);
	int64_t cut = s->now + sim_between(s, 0, s->swarm.latency_us * 1000);

	for (size_t i = 0; i < s->heap.n; i++) {
		struct event *e = &s->heap.events[i];

		if (e->run != run_arrive || e->who != to - 1 || e->a != (uint64_t)from ||
		    e->b != l->generation)
			continue;
		if (e->at >= cut)
			e->life = 0; /* of no replica */
	}
	l->late = rng_chance(&s->rng, 300) ? sim_between(s, 0, SECOND) : 0;
	l->generation++;
	l->last = 0;
	l->down_until = s->now + (s->calm ? 0 : sim_between(s, 0, 300 * MS));
}

/* The order of what waits is that of its making, which the heap keeps among equal times. */
void
link_heal(struct sim *s, int from, int to)
{
	struct link *l = link_of(s, from, to);
	int64_t at = s->now + sim_between(s, 50000, s->swarm.latency_us * 1000);

	s->net.cut_until[end_of_node(from - 1)][end_of_node(to - 1)] = 0;
	l->down_until = 0;
	l->last = l->last < at ? l->last : at;
	for (size_t i = 0; i < s->heap.n; i++) {
		struct event *e = &s->heap.events[i];

		if (e->run == run_arrive && e->who == to - 1 && e->a == (uint64_t)from &&
		    e->at > at)
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
