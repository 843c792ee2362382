/* The network between clients and replicas: connections with TCP's promises and no others; a
 * broken one loses the end of what was under way, each side learns of it in its own time, and what
 * it carried may arrive after what its successor carries. And who is cut off from whom, in one
 * direction or both. */
#include <stdio.h>
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/sim/sim.h"

struct conn *
net_conn(struct sim *s, uint64_t id)
{
	must(id > 0 && id <= s->net.n);
	return s->net.conns[id - 1];
}

int64_t
net_latency(struct sim *s, const struct conn *c)
{
	return c->base + sim_between(s, 0, s->swarm.latency_us * 1000);
}

int64_t
net_cut_until(const struct sim *s, int from, int to, bool bulk)
{
	const int64_t cut = s->net.cut_until[from][to], narrow = s->net.narrow_until[from];

	return bulk && narrow > cut ? narrow : cut;
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
arrival(struct sim *s, const struct conn *c, int64_t at, int64_t cut_until, int64_t last)
{
	if (at < c->stalled_until)
		at = c->stalled_until;
	if (at < cut_until)
		at = cut_until;
	at += net_latency(s, c);
	return at > last ? at : last;
}

/* When what is sent now arrives. */
int64_t
net_at_node(struct sim *s, const struct conn *c)
{
	return arrival(s, c, s->now,
	               s->net.cut_until[end_of_machine(c->machine)][end_of_node(c->node)],
	               c->last_to_node);
}

int64_t
net_departure(const struct sim *s, const struct conn *c)
{
	return host_departure(s, &s->hosts[c->node]);
}

int64_t
net_at_client(struct sim *s, const struct conn *c, int64_t sent)
{
	return arrival(s, c, sent,
	               s->net.cut_until[end_of_node(c->node)][end_of_machine(c->machine)],
	               c->last_to_client);
}

bool
net_is_operators(const struct conn *c)
{
	return c->machine >= MACHINES_MAX && c->machine < SCRIPTED;
}

bool
net_is_scripted(const struct conn *c)
{
	return c->machine >= SCRIPTED;
}

const char *
net_who(const struct conn *c)
{
	static char text[32];

	snprintf(text, sizeof text, net_is_operators(c) ? "operator %d" : "client %d",
	         net_is_operators(c) ? c->machine - MACHINES_MAX + 1 : c->machine + 1);
	return text;
}

/* ---- a connection's life ---- */

static void
run_connect(struct sim *s, struct event *e)
{
	struct conn *c = net_conn(s, e->a);
	struct host *n = &s->hosts[c->node];

	if (!c->client_open) /* it has given up, and the end of it may have come */
		return;
	if (n->up && n->paused_until > s->now) { /* nobody there answers */
		heap_again(&s->heap, e, n->paused_until);
		return;
	}
	if (!n->up) {
		net_push_to_client(s, c, s->now, s->now + net_latency(s, c), CLIENT_DISCONNECTED,
		                   (struct bytes){0});
		return;
	}
	c->node_life = n->life;
	net_push_to_node(s, c, s->now, REPLICA_CONNECTED, (struct bytes){0});
	c->last_to_client = net_at_client(s, c, net_departure(s, c));
	net_push_to_client(s, c, s->now, c->last_to_client, CLIENT_CONNECTED, (struct bytes){0});
}

uint64_t
net_connect(struct sim *s, int machine, int node, bool aside, uint8_t seat)
{
	struct conn *c = memory_zero(1, sizeof *c);

	s->quiet.connects++;

	ARRAY_ROOM(s->net.conns, s->net.n, s->net.room);
	s->net.conns[s->net.n++] = c;
	c->id = s->net.n;
	c->machine = machine;
	c->node = node;
	c->aside = aside;
	c->seat = seat;
	c->machine_life = machine >= MACHINES_MAX ? 0 : s->machines[machine].life;
	c->client_open = true;
	c->client_end = datagrams_end_of(c->id, true);
	c->node_end = datagrams_end_of(c->id, false);
	lane_init(&c->lane_to_node);
	lane_init(&c->lane_to_client);
	c->cut_to_node = c->cut_to_client = INT64_MAX;
	if (fault_strikes(s, FAULT_CONN_LATE)) {
		c->base = sim_between(s, 0, 2 * SECOND);
		fault(s, FAULT_CONN_LATE, "the new connection of %s is late by %.3f s", net_who(c),
		      (double)c->base / 1e9);
	}
	c->last_to_node = net_at_node(s, c);
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
	net_push_to_node(s, c, net_at_node(s, c) + until_noticed(s, 20 * SECOND),
	                 REPLICA_DISCONNECTED, (struct bytes){0});
}

bool
net_node_closes(struct sim *s, uint64_t conn)
{
	struct conn *c = net_conn(s, conn);
	const bool was_open = c->node_open;

	c->node_open = false;
	s->hosts[c->node].clients -= was_open;
	if (was_open)
		net_send_to_client(s, c, CLIENT_DISCONNECTED, (struct bytes){0});
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
	net_push_to_client(s, c, s->now, client + until_noticed(s, 5 * SECOND), CLIENT_DISCONNECTED,
	                   (struct bytes){0});
	if (c->last_to_node < node)
		c->last_to_node = node;
	net_push_to_node(s, c, c->last_to_node + until_noticed(s, 20 * SECOND),
	                 REPLICA_DISCONNECTED, (struct bytes){0});
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
			net_push_to_client(s, c, s->now, s->now + until_noticed(s, 5 * SECOND),
			                   CLIENT_DISCONNECTED, (struct bytes){0});
	}
	link_node_died(s, node);
}

/* What was sent to a client that has gone fails in time, and ends the connection. */
void
net_check_end(struct sim *s)
{
	for (size_t i = 0; i < s->net.n; i++) {
		const struct conn *c = s->net.conns[i];

		if (c->node_open && c->held && (c->client_open || c->unsent == 0))
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
		datagrams_end_free(&c->client_end);
		datagrams_end_free(&c->node_end);
		free(c->notices);
		free(c);
	}
	free(n->conns);
	links_free(s);
}
