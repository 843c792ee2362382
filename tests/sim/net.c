/* The network between clients and replicas: connections with TCP's promises and no others; a
 * broken one loses the end of what was under way, each side learns of it in its own time, and what
 * it carried may arrive after what its successor carries. And who is cut off from whom, in one
 * direction or both. */
#include <stdio.h>
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/sim/sim.h"

static struct conn *
net_conn(struct sim *s, uint64_t id)
{
	must(id > 0 && id <= s->net.n);
	return s->net.conns[id - 1];
}

static int64_t
latency(struct sim *s, const struct conn *c)
{
	return c->base + sim_between(s, 0, s->swarm.latency_us * 1000);
}

void
net_cut(struct sim *s, int from, int to, int64_t until)
{
	if (s->net.cut_until[from][to] < until)
		s->net.cut_until[from][to] = until;
}

void
net_cut_both(struct sim *s, int a, int b, int64_t until)
{
	net_cut(s, a, b, until);
	net_cut(s, b, a, until);
}

void
net_cut_replicas(struct sim *s, int a, int b, int64_t until)
{
	net_cut_both(s, end_of_node(a - 1), end_of_node(b - 1), until);
}

void
net_heal(struct sim *s)
{
	for (int i = 0; i < ENDS; i++)
		for (int j = 0; j < ENDS; j++)
			s->net.cut_until[i][j] = 0;
}

static int64_t
arrival(struct sim *s, const struct conn *c, int64_t cut_until, int64_t last)
{
	int64_t at = s->now;

	if (at < c->stalled_until)
		at = c->stalled_until;
	if (at < cut_until)
		at = cut_until;
	at += latency(s, c);
	return at > last ? at : last;
}

/* When what is sent now arrives. */
static int64_t
at_node(struct sim *s, const struct conn *c)
{
	return arrival(s, c, s->net.cut_until[end_of_machine(c->machine)][end_of_node(c->node)],
	               c->last_to_node);
}

static int64_t
at_client(struct sim *s, const struct conn *c)
{
	return arrival(s, c, s->net.cut_until[end_of_node(c->node)][end_of_machine(c->machine)],
	               c->last_to_client);
}

static bool
is_operators(const struct conn *c)
{
	return c->machine >= MACHINES_MAX && c->machine < SCRIPTED;
}

static bool
is_scripted(const struct conn *c)
{
	return c->machine >= SCRIPTED;
}

const char *
net_who(const struct conn *c)
{
	static char text[32];

	snprintf(text, sizeof text, is_operators(c) ? "operator %d" : "client %d",
	         is_operators(c) ? c->machine - MACHINES_MAX + 1 : c->machine + 1);
	return text;
}

/* ---- to the replica ---- */

/* Set in the event of what lies in the socket of a paused or busy process: nothing cuts it off any
 * more. */
#define ARRIVED 0x100

static enum replica_event_kind
kind_of(const struct event *e)
{
	return (enum replica_event_kind)(e->b & (ARRIVED - 1));
}

static void
put_off(struct sim *s, struct event *e, int64_t until)
{
	struct event again = *e;

	again.at = until;
	again.b |= ARRIVED;
	e->data = (struct bytes){0};
	heap_push(&s->heap, again);
}

static bool
node_hears(struct sim *s, const struct conn *c, const struct event *e)
{
	const struct host *n = &s->hosts[c->node];
	enum replica_event_kind kind = kind_of(e);

	if (!host_runs(n) || n->life != c->node_life)
		return false;
	if (kind == REPLICA_FRAME && !(e->b & ARRIVED) && e->at >= c->cut_to_node)
		return false;
	return kind == REPLICA_CONNECTED || c->node_open || (e->b & ARRIVED) ||
	       n->paused_until > s->now;
}

static void
tell_node(struct sim *s, struct host *n, struct conn *c, enum replica_event_kind kind,
          struct bytes frame)
{
	c->node_open = kind != REPLICA_DISCONNECTED;
	if (kind == REPLICA_FRAME)
		trace_frame(s, "->", c->id, frame);
	else
		sim_trace(s, "replica %d %s %s", n->id,
		          kind == REPLICA_CONNECTED ? "accepts" : "loses", net_who(c));
	if (kind == REPLICA_CONNECTED &&
	    !host_opened(n, c->id, CHANNEL_CLIENT, seat_key(SEAT_ADMIN)))
		sim_fail(s, "replica %d refuses %s", n->id, net_who(c));
	if (kind == REPLICA_FRAME)
		host_frame(n, c->id, frame);
	if (kind == REPLICA_DISCONNECTED)
		host_closed(n, c->id, "the connection is gone");
	host_settle(s, n);
}

static void
run_at_node(struct sim *s, struct event *e)
{
	struct conn *c = net_conn(s, e->a);
	struct host *n = &s->hosts[c->node];
	enum replica_event_kind kind = kind_of(e);
	bool unread = c->unread.n > 0;

	if (!node_hears(s, c, e))
		return;
	if (host_busy_until(s, n) > s->now) {
		put_off(s, e, host_busy_until(s, n));
		return;
	}
	if (kind != REPLICA_CONNECTED && !c->node_open)
		return;
	/* Nobody reads it; but what it was sent and will not read any more fails. */
	if (c->held)
		unread = kind != REPLICA_DISCONNECTED || c->unsent == 0;
	if (unread) {
		struct event kept = *e;

		kept.b |= ARRIVED;
		e->data = (struct bytes){0};
		heap_push(&c->unread, kept);
		return;
	}
	tell_node(s, n, c, kind, e->data);
}

/* What lies in the socket comes in its order, and before what arrives in the same instant. */
static void
run_unread(struct sim *s, struct event *e)
{
	struct conn *c = net_conn(s, e->a);
	struct host *n = &s->hosts[c->node];
	struct event kept;

	while (!c->held && host_busy_until(s, n) <= s->now && heap_pop(&c->unread, &kept)) {
		if (node_hears(s, c, &kept) && c->node_open)
			tell_node(s, n, c, kind_of(&kept), kept.data);
		free((void *)kept.data.data);
	}
	if (!c->held && c->unread.n > 0)
		heap_push(&s->heap, (struct event){.at = host_busy_until(s, n),
		                                   .run = run_unread,
		                                   .a = c->id});
}

size_t
net_unsent(struct sim *s, uint64_t conn)
{
	return net_conn(s, conn)->unsent;
}

bool
net_is_open(struct sim *s, uint64_t conn)
{
	return net_conn(s, conn)->node_open;
}

void
net_hold(struct sim *s, uint64_t conn, bool on)
{
	struct conn *c = net_conn(s, conn);

	c->held = on && c->node_open;
	if (!c->held && c->unread.n > 0)
		heap_push(&s->heap, (struct event){.at = s->now, .run = run_unread, .a = c->id});
}

static void
push_to_node(struct sim *s, struct conn *c, int64_t at, enum replica_event_kind kind,
             struct bytes data)
{
	heap_push(&s->heap, (struct event){.at = at,
	                                   .run = run_at_node,
	                                   .a = c->id,
	                                   .b = kind,
	                                   .data = data});
}

static void
run_leave_client(struct sim *s, struct event *e)
{
	struct conn *c = net_conn(s, e->a);

	c->last_to_node = at_node(s, c);
	push_to_node(s, c, c->last_to_node, REPLICA_FRAME, e->data);
	e->data = (struct bytes){0};
}

void
net_to_node(struct sim *s, uint64_t conn, struct bytes frame)
{
	struct conn *c = net_conn(s, conn);
	struct event e = {.run = run_leave_client, .a = conn, .data = bytes_copy(frame)};

	quiet_frame(s, frame);

	if (s->swarm.rate > 0)
		uplink_send(s, end_of_machine(c->machine), &c->lane_to_node, e);
	else
		run_leave_client(s, &e);
}

/* ---- to the client ---- */

/* What a client has read makes room for more. */
static void
note_read(struct sim *s, struct conn *c, size_t bytes)
{
	struct host *n = &s->hosts[c->node];
	const size_t limit = s->swarm.limits.unsent;

	must(bytes <= c->unsent);
	c->unsent -= bytes;
	if (limit > 0 && c->unsent < limit && c->unsent + bytes >= limit && n->up &&
	    n->life == c->node_life)
		host_wake(s, n);
}

static void
trace_at_client(struct sim *s, const struct conn *c, enum client_event_kind kind,
                struct bytes frame)
{
	if (kind == CLIENT_FRAME)
		trace_frame(s, "<-", c->id, frame);
	else
		sim_trace(s, "%s %s replica %d", net_who(c),
		          kind == CLIENT_CONNECTED ? "is connected to" : "loses", c->node + 1);
}

/* At a client without a machine: an operator, or the script's. */
static void
at_other(struct sim *s, struct conn *c, enum client_event_kind kind, const struct event *e)
{
	if (!c->client_open || (kind == CLIENT_FRAME && e->at >= c->cut_to_client))
		return;
	note_read(s, c, e->data.len);
	trace_at_client(s, c, kind, e->data);
	if (kind == CLIENT_DISCONNECTED)
		c->client_open = false;
	if (is_operators(c))
		operators_event(s, c->machine - MACHINES_MAX, kind, e->data);
	else
		s->script->heard(s->script->user, c->id, kind, e->data);
}

static void
run_at_client(struct sim *s, struct event *e)
{
	struct conn *c = net_conn(s, e->a);
	enum client_event_kind kind = (enum client_event_kind)(e->b & (ARRIVED - 1));
	struct message message;
	struct machine *m;

	if (is_operators(c) || is_scripted(c)) {
		at_other(s, c, kind, e);
		return;
	}
	m = &s->machines[c->machine];
	if (!m->up || m->life != c->machine_life || !c->client_open)
		return;
	if (kind == CLIENT_FRAME && !(e->b & ARRIVED) && e->at >= c->cut_to_client)
		return;
	if (m->paused_until > s->now) {
		put_off(s, e, m->paused_until);
		return;
	}
	note_read(s, c, e->data.len);
	trace_at_client(s, c, kind, e->data);
	if (kind == CLIENT_DISCONNECTED)
		c->client_open = false;
	if (kind == CLIENT_FRAME && !c->aside && wire_get_frame(e->data, &message) == RC_OK &&
	    message.code == MSG_reply)
		history_queued(s, m->session, &message.reply, e->life);
	if (kind != CLIENT_CONNECTED || !c->aside)
		machine_event(s, m,
		              (struct client_event){.kind = kind,
		                                    .frame = e->data,
		                                    .standby = c->aside});
}

static void
push_to_client(struct sim *s, struct conn *c, int64_t at, enum client_event_kind kind,
               struct bytes data)
{
	const struct host *n = &s->hosts[c->node];

	heap_push(&s->heap, (struct event){.at = at,
	                                   .run = run_at_client,
	                                   .life = n->up ? tree_epoch(replica_tree(n->replica)) : 0,
	                                   .a = c->id,
	                                   .b = kind,
	                                   .data = data});
}

static void
run_leave_node(struct sim *s, struct event *e)
{
	struct conn *c = net_conn(s, e->a);
	enum client_event_kind kind = (enum client_event_kind)e->b;

	c->last_to_client = at_client(s, c);
	push_to_client(s, c, c->last_to_client, kind, e->data);
	e->data = (struct bytes){0};
}

static void
send_to_client(struct sim *s, struct conn *c, enum client_event_kind kind, struct bytes frame)
{
	struct event e = {.run = run_leave_node, .a = c->id, .b = kind, .data = bytes_copy(frame)};

	if (s->swarm.rate > 0)
		uplink_send(s, end_of_node(c->node), &c->lane_to_client, e);
	else
		run_leave_node(s, &e);
}

void
net_to_client(struct sim *s, uint64_t conn, struct bytes frame)
{
	struct conn *c = net_conn(s, conn);

	if (!c->node_open)
		return;
	if (!c->client_open) /* it fails, and the end is noticed */
		net_hold(s, conn, false);
	quiet_frame(s, frame);
	c->unsent += frame.len;
	send_to_client(s, c, CLIENT_FRAME, frame);
}

/* ---- a connection's life ---- */

static void
run_connect(struct sim *s, struct event *e)
{
	struct conn *c = net_conn(s, e->a);
	struct host *n = &s->hosts[c->node];

	if (host_runs(n) && n->paused_until > s->now) { /* nobody there answers */
		struct event again = *e;

		again.at = n->paused_until;
		heap_push(&s->heap, again);
		return;
	}
	if (!host_runs(n)) {
		push_to_client(s, c, s->now + latency(s, c), CLIENT_DISCONNECTED,
		               (struct bytes){0});
		return;
	}
	c->node_life = n->life;
	push_to_node(s, c, s->now, REPLICA_CONNECTED, (struct bytes){0});
	c->last_to_client = at_client(s, c);
	push_to_client(s, c, c->last_to_client, CLIENT_CONNECTED, (struct bytes){0});
}

uint64_t
net_connect(struct sim *s, int machine, int node, bool aside)
{
	struct conn *c = memory_zero(1, sizeof *c);

	s->quiet.connects++;

	ARRAY_ROOM(s->net.conns, s->net.n, s->net.room);
	s->net.conns[s->net.n++] = c;
	c->id = s->net.n;
	c->machine = machine;
	c->node = node;
	c->aside = aside;
	c->machine_life = machine >= MACHINES_MAX ? 0 : s->machines[machine].life;
	c->client_open = true;
	lane_init(&c->lane_to_node);
	lane_init(&c->lane_to_client);
	c->cut_to_node = c->cut_to_client = INT64_MAX;
	if (fault_strikes(s, FAULT_CONN_LATE)) {
		c->base = sim_between(s, 0, 2 * SECOND);
		fault(s, FAULT_CONN_LATE, "the new connection of %s is late by %.3f s", net_who(c),
		      (double)c->base / 1e9);
	}
	c->last_to_node = at_node(s, c);
	heap_push(&s->heap, (struct event){.at = c->last_to_node, .run = run_connect, .a = c->id});
	return c->id;
}

static int64_t
until_noticed(struct sim *s, int64_t most)
{
	return sim_between(s, 0, s->calm || rng_chance(&s->rng, 700) ? 20 * MS : most);
}

/* The client closes it; the frames that have left its machine are still under way. */
void
net_client_drops(struct sim *s, uint64_t conn)
{
	struct conn *c = net_conn(s, conn);

	if (!c->client_open)
		return;
	c->client_open = false;
	lane_close(&c->lane_to_node);
	push_to_node(s, c, at_node(s, c) + until_noticed(s, 20 * SECOND), REPLICA_DISCONNECTED,
	             (struct bytes){0});
}

bool
net_node_closes(struct sim *s, uint64_t conn)
{
	struct conn *c = net_conn(s, conn);
	const bool was_open = c->node_open;

	c->node_open = false;
	if (was_open)
		send_to_client(s, c, CLIENT_DISCONNECTED, (struct bytes){0});
	return was_open;
}

void
net_break(struct sim *s, struct conn *c)
{
	int64_t client = s->now + sim_between(s, 0, 2 * MS),
	        node = s->now + sim_between(s, 0, 2 * MS);

	/* One that was broken before and not noticed yet carries nothing again. */
	c->cut_to_client = client < c->cut_to_client ? client : c->cut_to_client;
	c->cut_to_node = node < c->cut_to_node ? node : c->cut_to_node;
	lane_clear(s, end_of_machine(c->machine), &c->lane_to_node);
	lane_clear(s, end_of_node(c->node), &c->lane_to_client);
	push_to_client(s, c, client + until_noticed(s, 5 * SECOND), CLIENT_DISCONNECTED,
	               (struct bytes){0});
	if (c->last_to_node < node)
		c->last_to_node = node;
	push_to_node(s, c, c->last_to_node + until_noticed(s, 20 * SECOND), REPLICA_DISCONNECTED,
	             (struct bytes){0});
}

void
net_node_died(struct sim *s, int node)
{
	for (size_t i = 0; i < s->net.n; i++) {
		struct conn *c = s->net.conns[i];
		int64_t client;

		if (c->node != node || !c->node_open)
			continue;
		c->node_open = false;
		client = s->now + sim_between(s, 0, 2 * MS);
		c->cut_to_client = client < c->cut_to_client ? client : c->cut_to_client;
		lane_clear(s, end_of_machine(c->machine), &c->lane_to_node);
		lane_clear(s, end_of_node(node), &c->lane_to_client);
		if (c->client_open)
			push_to_client(s, c, s->now + until_noticed(s, 5 * SECOND),
			               CLIENT_DISCONNECTED, (struct bytes){0});
	}
	link_node_died(s, node);
}

void
net_check_end(struct sim *s)
{
	for (size_t i = 0; i < s->net.n; i++) {
		const struct conn *c = s->net.conns[i];

		if (c->node_open && c->held)
			sim_fail(s, "replica %d does not read from %s any more", c->node + 1,
			         net_who(c));
	}
}

static uint64_t
random_conn(struct sim *s)
{
	uint64_t i = rng_below(&s->rng, (uint64_t)(s->machines_n + s->swarm.operators));
	const struct machine *m = &s->machines[i];

	if (i >= (uint64_t)s->machines_n)
		return s->operators[i - (uint64_t)s->machines_n].conn;
	return m->aside != 0 && rng_chance(&s->rng, 300) ? m->aside : m->conn;
}

struct conn *
net_random_open(struct sim *s)
{
	uint64_t conn = random_conn(s);
	struct conn *c = conn == 0 ? NULL : net_conn(s, conn);

	return c != NULL && c->client_open && c->node_open ? c : NULL;
}

void
net_free(struct sim *s)
{
	struct net *n = &s->net;

	struct event e;

	for (size_t i = 0; i < n->n; i++) {
		struct conn *c = n->conns[i];

		lane_clear(s, end_of_machine(c->machine), &c->lane_to_node);
		lane_clear(s, end_of_node(c->node), &c->lane_to_client);
		while (heap_pop(&c->unread, &e))
			free((void *)e.data.data);
		free(c->unread.events);
		free(c);
	}
	free(n->conns);
	links_free(s);
}
