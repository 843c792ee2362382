/* Frames on the connections of clients, and news of these connections: they leave, are under way,
 * and arrive. */
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/sim/sim.h"

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
	heap_put_off(&s->heap, again);
}

static bool
node_hears(struct sim *s, const struct conn *c, const struct event *e)
{
	const struct host *n = &s->hosts[c->node];
	enum replica_event_kind kind = kind_of(e);

	if (!n->up || n->life != c->node_life)
		return false;
	if (kind == REPLICA_FRAME && !(e->b & ARRIVED) && e->at >= c->cut_to_node)
		return false;
	return kind == REPLICA_CONNECTED || c->node_open || (e->b & ARRIVED) ||
	       host_busy_until(s, n) > s->now; /* it has yet to learn of the connection */
}

/* Somebody whose key the cell does not know is told so, and a stranger to the replicas nothing. */
static void
check_strangers(struct sim *s, struct host *n, const struct conn *c)
{
	const uint8_t *key = seat_key(SEAT_STRANGER);
	const uint64_t deeds = n->deeds;

	if (host_opened(n, c->id, CHANNEL_CLIENT, key) || n->deeds != deeds + 1)
		sim_fail(s, "replica %d does not refuse a client with a wrong key", n->id);
	if (host_opened(n, c->id, CHANNEL_HOST, key) || n->deeds != deeds + 2)
		sim_fail(s, "replica %d does not refuse an operator with a wrong key", n->id);
	if (host_opened(n, c->id, CHANNEL_REPLICA, key) ||
	    host_opened(n, c->id, CHANNEL_BULK, key) || n->deeds != deeds + 2)
		sim_fail(s, "replica %d does not refuse a replica with a wrong key", n->id);
}

/* A client is let in unless there are as many as may be. */
static void
node_accepts(struct sim *s, struct host *n, struct conn *c)
{
	const bool room = n->clients < host_clients_max(s);

	if (s->script == NULL)
		check_strangers(s, n, c);
	c->node_open = true;
	n->clients++;
	if (host_opened(n, c->id, c->seat <= HOSTS_MAX ? CHANNEL_HOST : CHANNEL_CLIENT,
	                seat_key(c->seat))) {
		if (!room)
			sim_fail(s, "replica %d lets in more clients than it may", n->id);
		return;
	}
	if (room && c->seat == SEAT_ADMIN)
		sim_fail(s, "replica %d refuses %s", n->id, net_who(c));
	net_node_closes(s, c->id);
}

enum { TURN_MS = 4, TURN_SLACK_MS = 1 };

/* In a turn that has lasted so long no request is processed as it comes: KeepAlives and other
 * replicas would have to wait. */
static void
node_reads(struct sim *s, struct host *n, const struct conn *c, struct bytes frame)
{
	const uint64_t deeds = n->deeds;
	const int64_t spent = n->spent;
	const bool request = wire_frame_code(frame) == MSG_request;

	host_frame(n, c->id, frame);
	if (!request || n->deeds == deeds)
		return;
	if (n->requests_from < 0)
		n->requests_from = spent;
	if (s->swarm.clocks != CLOCKS_WILD &&
	    spent - n->requests_from > (TURN_MS + TURN_SLACK_MS) * MS)
		sim_fail(s, "replica %d goes on with requests for %lu us", n->id,
		         (unsigned long)(spent - n->requests_from) / 1000);
}

static void
tell_node(struct sim *s, struct host *n, struct conn *c, enum replica_event_kind kind,
          struct bytes frame)
{
	switch (kind) {
	case REPLICA_FRAME:
		trace_frame(s, "->", c->id, frame);
		cached_acknowledged(c, frame);
		node_reads(s, n, c, frame);
		break;
	case REPLICA_CONNECTED:
		sim_trace(s, "%s reaches replica %d", net_who(c), n->id);
		node_accepts(s, n, c);
		break;
	default:
		sim_trace(s, "replica %d loses %s", n->id, net_who(c));
		c->node_open = false;
		n->clients--;
		host_closed(n, c->id, "the connection is gone");
	}
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

void
net_push_to_node(struct sim *s, struct conn *c, int64_t at, enum replica_event_kind kind,
                 struct bytes data)
{
	heap_push(&s->heap, (struct event){.at = at,
	                                   .run = run_at_node,
	                                   .a = c->id,
	                                   .b = kind,
	                                   .data = data,
	                                   .sent = s->now});
}

static void
run_leave_client(struct sim *s, struct event *e)
{
	struct conn *c = net_conn(s, e->a);

	c->last_to_node = net_at_node(s, c);
	net_push_to_node(s, c, c->last_to_node, REPLICA_FRAME, e->data);
	e->data = (struct bytes){0};
}

void
net_to_node(struct sim *s, uint64_t conn, struct bytes frame)
{
	struct conn *c = net_conn(s, conn);
	struct event e = {s->now, .run = run_leave_client, .a = conn, .data = bytes_copy(frame)};

	quiet_frame(s, frame);
	outstanding_frame(s, c->machine, frame);
	cached_asked(s, c, frame);
	if (s->swarm.rate > 0)
		uplink_send(s, end_of_machine(c->machine), &c->lane_to_node, e);
	else
		run_leave_client(s, &e);
}

/* ---- to the client ---- */

enum { UNSHARED = 16 };

/* What a client has read makes room for more. Many connections share it: then each has less. */
static void
note_read(struct sim *s, struct conn *c, size_t bytes)
{
	struct host *n = &s->hosts[c->node];
	const size_t limit = s->swarm.limits.unsent;

	must(bytes <= c->unsent);
	c->unsent -= bytes;
	if (limit > 0 && n->up && n->life == c->node_life &&
	    (n->clients > UNSHARED || (c->unsent < limit && c->unsent + bytes >= limit)))
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

/* At a client without a machine: an operator, the script's, or one that says nothing. */
static void
at_other(struct sim *s, struct conn *c, enum client_event_kind kind, const struct event *e)
{
	if (!c->client_open || (kind == CLIENT_FRAME && e->at >= c->cut_to_client))
		return;
	note_read(s, c, e->data.len);
	trace_at_client(s, c, kind, e->data);
	if (kind == CLIENT_DISCONNECTED)
		c->client_open = false;
	if (net_is_operators(c))
		operators_event(s, c->machine - MACHINES_MAX, kind, e->data);
	else if (s->script != NULL)
		s->script->heard(s->script->user, c->id, kind, e->data);
}

static void
run_at_client(struct sim *s, struct event *e)
{
	struct conn *c = net_conn(s, e->a);
	enum client_event_kind kind = (enum client_event_kind)(e->b & (ARRIVED - 1));
	struct message message;
	struct machine *m;

	if (net_is_operators(c) || net_is_scripted(c)) {
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
	if (kind == CLIENT_FRAME && wire_get_frame(e->data, &message) == RC_OK) {
		if (message.code == MSG_denied && message.denied.rc == RC_PERM) {
			c->denied = true; /* it is for the driver */
			return;
		}
		if (message.code == MSG_reply && !c->aside)
			history_queued(s, m->session, &message.reply, e->life);
	}
	if (kind != CLIENT_CONNECTED || !c->aside)
		machine_event(s, m,
		              (struct client_event){.kind = kind,
		                                    .frame = e->data,
		                                    .standby = c->aside,
		                                    .denied =
		                                        kind == CLIENT_DISCONNECTED && c->denied});
}

void
net_push_to_client(struct sim *s, struct conn *c, int64_t sent, int64_t at,
                   enum client_event_kind kind, struct bytes data)
{
	const struct host *n = &s->hosts[c->node];

	heap_push(&s->heap, (struct event){.at = at,
	                                   .run = run_at_client,
	                                   .life = n->up ? tree_epoch(replica_tree(n->replica)) : 0,
	                                   .a = c->id,
	                                   .b = kind,
	                                   .data = data,
	                                   .sent = sent});
}

static void
run_leave_node(struct sim *s, struct event *e)
{
	struct conn *c = net_conn(s, e->a);
	enum client_event_kind kind = (enum client_event_kind)e->b;

	c->last_to_client = net_at_client(s, c, e->at);
	net_push_to_client(s, c, e->at, c->last_to_client, kind, e->data);
	e->data = (struct bytes){0};
}

void
net_send_to_client(struct sim *s, struct conn *c, enum client_event_kind kind, struct bytes frame)
{
	struct event e = {.at = net_departure(s, c),
	                  .run = run_leave_node,
	                  .a = c->id,
	                  .b = kind,
	                  .data = bytes_copy(frame),
	                  .sent = net_departure(s, c)};

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
	cached_sent(s, c, frame);
	c->unsent += frame.len;
	net_send_to_client(s, c, CLIENT_FRAME, frame);
}
