/* Connections between replicas. Each server dials two to every other one and decides by itself what
 * goes where (cell/server/gateway.h). In most runs they have TCP's promises: in order, until one
 * breaks and loses the end of what was under way, which each end notices in its own time. In the
 * others each frame goes its own way, may be lost, and may come twice or to a later connection:
 * paxos promises to bear that as well. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/sim/sim.h"

/* Numbers of connections: with this bit, the link's index, and which end it is. */
#define LINK_CONN (1ull << 62)

/* What happens at an end of a link; an event's `b` is one of these, `a` the connection's number. */
enum news { NEWS_KNOCK, NEWS_OPENED, NEWS_FRAME, NEWS_CLOSED, NEWS_PATIENCE };

static uint64_t
conn_of(const struct link *l, int end)
{
	return LINK_CONN | l->index << 1 | (uint64_t)end;
}

static struct link *
link_of(const struct sim *s, uint64_t conn, int *end)
{
	uint64_t index = (conn & ~LINK_CONN) >> 1;

	must((conn & LINK_CONN) != 0 && index < s->net.links_n);
	*end = (int)(conn & 1);
	return s->net.links[index];
}

bool
link_is(uint64_t conn)
{
	return (conn & LINK_CONN) != 0;
}

static struct host *
host_at(struct sim *s, const struct link *l, int end)
{
	return &s->hosts[l->ends[end].host - 1];
}

static int
end_of(const struct link *l, int end)
{
	return end_of_host(l->ends[end].host);
}

static int64_t
departure(struct sim *s, const struct link *l, int from)
{
	return host_departure(s, host_at(s, l, from));
}

static void run_news(struct sim *s, struct event *e);

static void
push_sent(struct sim *s, struct link *l, int end, int64_t sent, int64_t at, enum news news,
          struct bytes data)
{
	heap_push(&s->heap, (struct event){.at = at,
	                                   .run = run_news,
	                                   .who = l->ends[end].host - 1,
	                                   .a = conn_of(l, end),
	                                   .b = news,
	                                   .data = data,
	                                   .sent = sent});
}

static void
push_news(struct sim *s, struct link *l, int end, int64_t at, enum news news)
{
	push_sent(s, l, end, s->now, at, news, (struct bytes){0});
}

/* When it arrives at the end: nothing overtakes what was sent before it. */
static int64_t
in_order(struct link *l, int end, int64_t at)
{
	return l->ends[end].last = at > l->ends[end].last ? at : l->ends[end].last;
}

/* Puts on its way what leaves an end at `sent`. */
static void
carry(struct sim *s, struct link *l, int from, int64_t sent, enum news news, struct bytes data)
{
	const int64_t cut = net_cut_until(s, end_of(l, from), end_of(l, !from), l->line);
	int64_t at = cut > sent ? cut : sent;

	at += sim_between(s, 50000, s->swarm.latency_us * 1000);
	push_sent(s, l, !from, sent, in_order(l, !from, at), news, data);
}

static void
carry_news(struct sim *s, struct link *l, int from, enum news news)
{
	carry(s, l, from, departure(s, l, from), news, (struct bytes){0});
}

/* ---- dialing ---- */

static struct link *
link_new(struct sim *s, int from, int to, int line)
{
	struct link *l = memory_zero(1, sizeof *l);

	s->quiet.connects++;
	ARRAY_ROOM(s->net.links, s->net.links_n, s->net.links_room);
	l->index = s->net.links_n;
	s->net.links[s->net.links_n++] = l;
	l->line = line;
	l->ends[0] = (struct link_end){.host = from, .state = LINK_SHAKING};
	l->ends[1] = (struct link_end){.host = to};
	for (int end = 0; end < 2; end++) {
		lane_init(&l->ends[end].lane);
		l->ends[end].cut = INT64_MAX;
		l->ends[end].life = s->hosts[l->ends[end].host - 1].life;
	}
	s->net.latest[from - 1][to - 1][line] = l;
	return l;
}

uint64_t
link_dial(struct sim *s, int from, const char *address, bool bulk, const uint8_t *key)
{
	const struct member m = {.address = bytes_of(address), .key = {key, NOISE_KEY}};
	int to = host_with_body(s, seat_of(&m).body);
	struct link *l;

	if (to == 0 || to == from) { /* nobody is there, or somebody with another key */
		l = link_new(s, from, from, bulk);
		push_news(s, l, 0, s->now + sim_between(s, 50000, s->swarm.latency_us * 1000),
		          NEWS_CLOSED);
		return conn_of(l, 0);
	}
	l = link_new(s, from, to, bulk);
	carry_news(s, l, 0, NEWS_KNOCK);
	push_news(s, l, 0, s->now + LINK_PATIENCE_MS * MS, NEWS_PATIENCE);
	return conn_of(l, 0);
}

static enum channel_role
role_of(const struct link *l)
{
	return l->line ? CHANNEL_BULK : CHANNEL_REPLICA;
}

const uint8_t *
link_key(struct sim *s, uint64_t conn)
{
	int end;
	struct link *l = link_of(s, conn, &end);

	return l->ends[end].state == LINK_OPEN ? seat_key(host_at(s, l, !end)->body) : NULL;
}

/* ---- news at an end ---- */

static void
opened(struct sim *s, struct link *l, int end)
{
	struct host *n = host_at(s, l, end);

	l->ends[end].state = LINK_OPEN;
	if (!host_opened(n, conn_of(l, end), role_of(l), seat_key(host_at(s, l, !end)->body)))
		link_close(s, conn_of(l, end));
	host_settle(s, n);
}

/* The one that has dialed knows first. */
static void
knock(struct sim *s, struct link *l)
{
	struct host *n = host_at(s, l, 1);

	if (!n->up) {
		carry_news(s, l, 1, NEWS_CLOSED);
		return;
	}
	if (l->ends[0].state == LINK_CLOSED)
		return;
	l->ends[1].life = n->life;
	carry_news(s, l, 1, NEWS_OPENED);
	opened(s, l, 1);
}

static void
closed(struct sim *s, struct link *l, int end, const char *why)
{
	struct host *n = host_at(s, l, end);

	l->ends[end].state = LINK_CLOSED;
	host_closed(n, conn_of(l, end), why);
	host_settle(s, n);
}

static void
take_frame(struct sim *s, struct link *l, int end, struct bytes frame)
{
	struct host *n = host_at(s, l, end);

	if (wire_frame_code(frame) == MSG_heartbeat)
		n->heard_at = s->now;
	trace_frame(s, "peer", (uint64_t)l->ends[!end].host * 100 + (uint64_t)n->id, frame);
	host_frame(n, conn_of(l, end), frame);
	host_settle(s, n);
}

/* Without promises a frame may come to a connection later than its own. */
static struct link *
link_for_frame(const struct sim *s, struct link *l, int end)
{
	struct link *latest = s->net.latest[l->ends[0].host - 1][l->ends[1].host - 1][l->line];

	return s->swarm.datagrams && l->ends[end].state != LINK_OPEN ? latest : l;
}

static bool
is_there(struct sim *s, const struct link *l, int end)
{
	const struct host *n = host_at(s, l, end);

	return n->up && n->life == l->ends[end].life;
}

static void
run_news(struct sim *s, struct event *e)
{
	const enum news news = (enum news)e->b;
	struct link *l;
	int end;

	l = link_of(s, e->a, &end);
	if (news == NEWS_FRAME)
		l = link_for_frame(s, l, end);
	if (news != NEWS_KNOCK && !is_there(s, l, end))
		return;
	if (news == NEWS_FRAME && e->at >= l->ends[end].cut)
		return;
	if (host_puts_off(s, host_at(s, l, end), e))
		return;
	switch (news) {
	case NEWS_KNOCK:
		knock(s, l);
		return;
	case NEWS_OPENED:
		if (l->ends[end].state == LINK_SHAKING)
			opened(s, l, end);
		return;
	case NEWS_FRAME:
		if (l->ends[end].state == LINK_OPEN)
			take_frame(s, l, end, e->data);
		return;
	case NEWS_PATIENCE:
	case NEWS_CLOSED:
		if (l->ends[end].state == LINK_SHAKING ||
		    (l->ends[end].state == LINK_OPEN && news == NEWS_CLOSED))
			closed(s, l, end, "the connection is gone");
		return;
	}
}

/* ---- frames ---- */

static bool
happens(struct sim *s, enum fault f)
{
	if (s->calm || !rng_chance(&s->rng, s->swarm.rates[f]))
		return false;
	s->stats.faults[f]++;
	return true;
}

/* The parts of a state keep their order: each one that is overtaken costs the fetch a patience. */
static void
send_datagram(struct sim *s, struct link *l, int from, int64_t sent, struct bytes frame)
{
	int copies = 1;

	if (net_cut_until(s, end_of(l, from), end_of(l, !from), l->line) > s->now ||
	    happens(s, FAULT_MESSAGE_LOST))
		copies = 0;
	else if (happens(s, FAULT_MESSAGE_DOUBLED))
		copies = 2;
	while (copies-- > 0) {
		bool late = happens(s, FAULT_MESSAGE_LATE);
		int64_t at = sent + sim_between(s, 50000, s->swarm.latency_us * 1000) +
		             (late ? sim_between(s, 0, SECOND) : 0);

		if (wire_frame_code(frame) == MSG_state_part)
			at = in_order(l, !from, at);
		push_sent(s, l, !from, sent, at, NEWS_FRAME, bytes_copy(frame));
	}
}

/* It is on its way, from the machine that sends to the one that receives. */
static void
run_leave(struct sim *s, struct event *e)
{
	int from;
	struct link *l = link_of(s, e->a, &from);

	if (s->swarm.datagrams && e->b == NEWS_FRAME) {
		send_datagram(s, l, from, e->at, e->data);
		return;
	}
	carry(s, l, from, e->at, (enum news)e->b, e->data);
	e->data = (struct bytes){0};
}

static void
leave(struct sim *s, struct link *l, int from, enum news news, struct bytes frame)
{
	struct event e = {.at = departure(s, l, from),
	                  .run = run_leave,
	                  .a = conn_of(l, from),
	                  .b = news,
	                  .data = bytes_copy(frame),
	                  .sent = departure(s, l, from)};

	if (s->swarm.rate > 0) {
		uplink_send(s, end_of(l, from), &l->ends[from].lane, e);
		return;
	}
	run_leave(s, &e);
	free((void *)e.data.data);
}

void
link_put(struct sim *s, int from, int to, struct bytes frame)
{
	struct link *l = s->net.latest[from - 1][to - 1][wire_frame_is_bulk(frame)];

	if (l != NULL && l->ends[0].state == LINK_OPEN)
		leave(s, l, 0, NEWS_FRAME, frame);
}

void
link_send(struct sim *s, uint64_t conn, struct bytes frame)
{
	int end;
	struct link *l = link_of(s, conn, &end);

	if (l->ends[end].state != LINK_OPEN)
		return;
	in_order(l, !end,
	         s->now + adversary_frame(s, l->ends[end].host, l->ends[!end].host, frame));
	if (l->ends[end].host == s->liar.id && end == 0 && !s->calm)
		liar_send(s, l->ends[1].host, frame);
	else
		leave(s, l, end, NEWS_FRAME, frame);
	quiet_frame(s, frame);
}

bool
link_close(struct sim *s, uint64_t conn)
{
	int end;
	struct link *l = link_of(s, conn, &end);
	const bool would_tell = l->ends[end].state != LINK_CLOSED;

	if (would_tell && end == 0 && host_knows(host_at(s, l, 0), host_at(s, l, 1)->body))
		sim_fail(s, "replica %d hangs up on replica %d, which is a member", l->ends[0].host,
		         l->ends[1].host);
	if (would_tell)
		leave(s, l, end, NEWS_CLOSED, (struct bytes){0});
	l->ends[end].state = LINK_CLOSED;
	return would_tell;
}

/* ---- faults ---- */

static int64_t
until_noticed(struct sim *s)
{
	return sim_between(s, 0, s->calm || rng_chance(&s->rng, 700) ? 20 * MS : 300 * MS);
}

/* What this end has sent and has not arrived by then is lost; the other one notices. */
static void
cut_off(struct sim *s, struct link *l, int from, int64_t at)
{
	lane_clear(s, end_of(l, from), &l->ends[from].lane);
	if (at < l->ends[!from].cut)
		l->ends[!from].cut = at;
	push_news(s, l, !from, at + until_noticed(s), NEWS_CLOSED);
}

static bool
is_over(const struct link *l)
{
	return l->ends[0].state == LINK_CLOSED &&
	       (l->ends[1].state == LINK_CLOSED || l->ends[1].state == LINK_NONE);
}

void
link_break(struct sim *s, int from, int to)
{
	for (int line = 0; line < LINKS; line++) {
		struct link *l = s->net.latest[from - 1][to - 1][line];

		for (int end = 0; l != NULL && !is_over(l) && end < 2; end++)
			cut_off(s, l, end, s->now + sim_between(s, 0, s->swarm.latency_us * 1000));
	}
}

/* Nothing is in its way any more: what waits arrives when the sender's last turn is over, but for
 * what it had not sent when it died. The order is that of its making, which the heap keeps among
 * equal times. */
void
link_heal(struct sim *s, int from, int to)
{
	int64_t at = host_departure(s, &s->hosts[from - 1]) +
	             sim_between(s, 50000, s->swarm.latency_us * 1000);

	s->net.cut_until[end_of_host(from)][end_of_host(to)] = 0;
	for (size_t i = 0; i < s->heap.n; i++) {
		struct event *e = &s->heap.events[i];
		struct link *l;
		int end;

		if (e->run != run_news || e->who != to - 1 || e->b == NEWS_PATIENCE)
			continue;
		l = link_of(s, e->a, &end);
		if (l->ends[!end].host != from || e->at <= at || e->sent > at)
			continue;
		e->at = at;
		l->ends[end].last = at;
	}
	heap_sort(&s->heap);
}

/* Its process is gone: the others' ends of its connections are told by its machine. In a script
 * what it has sent arrives. */
void
link_node_died(struct sim *s, int node)
{
	const int64_t at = s->script != NULL ? s->now + MS : 0;

	for (size_t i = 0; i < s->net.links_n; i++) {
		struct link *l = s->net.links[i];

		if (is_over(l))
			continue;
		for (int end = 0; end < 2; end++) {
			if (l->ends[end].host != node + 1 || l->ends[end].state == LINK_NONE)
				continue;
			if (l->ends[end].state != LINK_CLOSED)
				cut_off(s, l, end,
				        at > 0 ? at : s->now + sim_between(s, 0, 2 * MS));
			l->ends[end].state = LINK_CLOSED;
		}
	}
}

void
links_free(struct sim *s)
{
	for (size_t i = 0; i < s->net.links_n; i++) {
		for (int end = 0; end < 2; end++)
			lane_clear(s, end_of(s->net.links[i], end),
			           &s->net.links[i]->ends[end].lane);
		free(s->net.links[i]);
	}
	free(s->net.links);
}
