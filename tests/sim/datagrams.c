/* Datagrams beside the connections of clients: sealed and opened as on real sockets, but with keys
 * made from a number. Each goes its own way: it may be lost, come twice, and long after later ones.
 * What stalls the connection does not stall them. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/sim/sim.h"

enum { LATE_MAX_S = 20 };

struct datagrams_end
datagrams_end_of(uint64_t conn, bool client)
{
	struct datagrams_end e = {.datagrams.keys.id = conn};
	struct noise_datagrams *keys = &e.datagrams.keys;

	memset(keys->sending, client ? 1 : 2, sizeof keys->sending);
	memset(keys->receiving, client ? 2 : 1, sizeof keys->receiving);
	return e;
}

/* An answer on its way is the last that the client hears: its lease counts from its question. */
static void
cut_off_behind(struct sim *s, const struct conn *c)
{
	const int64_t until = s->now + 2 * s->swarm.session_lease_ms * MS;

	if (s->calm || !rng_chance(&s->rng, 300))
		return;
	for (int i = 0; i < s->hosts_n; i++)
		net_cut_both(s, end_of_machine(c->machine), end_of_node(i), until);
	fault(s, FAULT_CLIENT_CUT_OFF, "%s hears nothing after its late answer", net_who(c));
}

static int64_t
way(struct sim *s, const struct conn *c, int64_t sent, bool to_node)
{
	int64_t at = sent + net_latency(s, c);

	if (!fault_strikes(s, FAULT_DATAGRAM_LATE))
		return at;
	fault(s, FAULT_DATAGRAM_LATE, "a datagram of %s is late", net_who(c));
	if (!to_node && !net_is_scripted(c))
		cut_off_behind(s, c);
	return at + sim_between(s, 0, LATE_MAX_S * SECOND);
}

/* Puts a sealed datagram on its way. */
static void
leave(struct sim *s, const struct conn *c, bool to_node, struct bytes frame,
      struct datagrams_end *from, void (*run)(struct sim *s, struct event *e))
{
	const int client = end_of_machine(c->machine), node = end_of_node(c->node);
	const int64_t sent = to_node ? s->now : net_departure(s, c);
	const bool cut =
	    s->net.cut_until[to_node ? client : node][to_node ? node : client] > s->now;
	uint8_t sealed[DATAGRAM_SIZE];
	int copies = 1;

	datagram_seal(&from->datagrams, frame, sealed);
	s->quiet.datagrams++;
	if (cut || s->swarm.firewall || fault_strikes(s, FAULT_DATAGRAM_LOST)) {
		fault(s, FAULT_DATAGRAM_LOST, "a datagram of %s is lost", net_who(c));
		return;
	}
	if (fault_strikes(s, FAULT_DATAGRAM_DOUBLED)) {
		fault(s, FAULT_DATAGRAM_DOUBLED, "a datagram of %s comes twice", net_who(c));
		copies = 2;
	}
	while (copies-- > 0)
		heap_push(&s->heap,
		          (struct event){.at = way(s, c, sent, to_node),
		                         .run = run,
		                         .a = c->id,
		                         .data = bytes_copy((struct bytes){sealed, sizeof sealed}),
		                         .sent = sent});
}

static void
put_off(struct sim *s, struct event *e, int64_t until)
{
	struct event again = *e;

	again.at = until;
	e->data = (struct bytes){0};
	heap_put_off(&s->heap, again);
}

/* The number that was sealed in; each is opened once. */
static void
check_once(struct sim *s, const struct conn *c, struct datagrams_end *end, struct bytes datagram)
{
	struct cursor at = cursor_of(datagram);
	uint64_t number;

	cursor_u64(&at);
	number = cursor_u64(&at);
	for (size_t i = 0; i < end->opened_n; i++)
		if (end->opened[i] == number)
			sim_fail(s, "datagram %lu of connection %lu is taken twice",
			         (unsigned long)number, (unsigned long)c->id);
	ARRAY_ROOM(end->opened, end->opened_n, end->opened_room);
	end->opened[end->opened_n++] = number;
}

static bool
is_opened(struct sim *s, const struct conn *c, struct datagrams_end *end, struct bytes datagram,
          uint8_t plain[DATAGRAM_PLAIN], struct bytes *frame)
{
	if (!datagram_open(&end->datagrams, datagram, plain, frame)) {
		sim_trace(s, "a datagram of %s is dropped", net_who(c));
		return false;
	}
	check_once(s, c, end, datagram);
	return true;
}

/* ---- to the replica ---- */

static void
run_at_node(struct sim *s, struct event *e)
{
	struct conn *c = net_conn(s, e->a);
	struct host *n = &s->hosts[c->node];
	uint8_t plain[DATAGRAM_PLAIN];
	struct bytes frame;

	if (!n->up || n->life != c->node_life || !c->node_open)
		return;
	if (host_busy_until(s, n) > s->now) {
		put_off(s, e, host_busy_until(s, n));
		return;
	}
	if (!n->up || !is_opened(s, c, &c->node_end, e->data, plain, &frame))
		return;
	trace_frame(s, "->", c->id, frame);
	server_datagram(n->server, c->id, frame);
	host_settle(s, n);
}

void
net_datagram_to_node(struct sim *s, uint64_t conn, struct bytes frame)
{
	struct conn *c = net_conn(s, conn);

	if (c->client_open)
		leave(s, c, true, frame, &c->client_end, run_at_node);
}

/* ---- to the client ---- */

static void
run_at_client(struct sim *s, struct event *e)
{
	struct conn *c = net_conn(s, e->a);
	struct machine *m = &s->machines[c->machine];
	uint8_t plain[DATAGRAM_PLAIN];
	struct bytes frame;

	if (!m->up || m->life != c->machine_life || !c->client_open || m->conn != c->id)
		return;
	if (m->paused_until > s->now) {
		put_off(s, e, m->paused_until);
		return;
	}
	if (!is_opened(s, c, &c->client_end, e->data, plain, &frame))
		return;
	trace_frame(s, "<-", c->id, frame);
	if (c->stalled_until > s->now)
		fault(s, FAULT_DATAGRAM_ALONE, "a datagram of %s comes, and its connection stalls",
		      net_who(c));
	machine_event(s, m, (struct client_event){.kind = CLIENT_DATAGRAM, .frame = frame});
}

static void
run_at_script(struct sim *s, struct event *e)
{
	struct conn *c = net_conn(s, e->a);
	uint8_t plain[DATAGRAM_PLAIN];
	struct bytes frame;

	if (c->client_open && is_opened(s, c, &c->client_end, e->data, plain, &frame))
		s->script->heard(s->script->user, c->id, CLIENT_DATAGRAM, frame);
}

void
net_datagram_to_client(struct sim *s, uint64_t conn, struct bytes frame)
{
	struct conn *c = net_conn(s, conn);

	must(!net_is_operators(c));
	if (c->node_open)
		leave(s, c, false, frame, &c->node_end,
		      net_is_scripted(c) ? run_at_script : run_at_client);
}

void
datagrams_end_free(struct datagrams_end *e)
{
	free(e->opened);
}
