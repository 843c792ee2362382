#include "tests/unit/replica_cell_inside.h"

#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/unit/unit.h"

void
cell_post(struct cell *cell, struct cell_post p, int64_t ms)
{
	p.at = mono_add(cell->now, span_ms(ms));
	p.sequence = ++cell->sequence;
	p.frame = bytes_copy(p.frame);
	ARRAY_ROOM(cell->posts, cell->posts_n, cell->posts_room);
	cell->posts[cell->posts_n++] = p;
}

struct cell_conn *
cell_conn_of(struct cell *cell, uint64_t id)
{
	must(id > 0 && id <= cell->conns_n);
	return &cell->conns[id - 1];
}

void
cell_to_client(struct cell *cell, uint64_t conn, enum post_kind kind, struct bytes frame)
{
	cell_post(cell, (struct cell_post){.kind = kind, .number = conn, .frame = frame}, WIRE_MS);
}

/* ---- what is under way arrives ---- */

static struct cell_replica *
replica_at(struct cell *cell, const struct cell_post *p)
{
	int id = p->kind < CONNECT ? p->replica : cell_conn_of(cell, p->number)->replica;

	return &cell->replicas[id - 1];
}

static bool
for_replica(const struct cell_post *p)
{
	return p->kind <= TO_REPLICA;
}

static void
arrive_connect(struct cell_replica *r, uint64_t id)
{
	struct cell_conn *c = cell_conn_of(r->cell, id);

	if (r->replica == NULL) {
		cell_to_client(r->cell, id, DISCONNECTED, (struct bytes){0});
		return;
	}
	c->open_there = true;
	c->life = r->life;
	cell_to_client(r->cell, id, CONNECTED, (struct bytes){0});
	cell_replica_event(r, (struct replica_event){.kind = REPLICA_CONNECTED,
	                                        .conn = id,
	                                        .principal = bytes_of(c->principal)});
}

static void
arrive_at_replica(struct cell_replica *r, const struct cell_post *p)
{
	struct cell_conn *c = p->kind >= CONNECT ? cell_conn_of(r->cell, p->number) : NULL;

	if (p->kind == CONNECT) {
		arrive_connect(r, p->number);
		return;
	}
	if (r->replica == NULL || (c != NULL && !c->open_there))
		return;
	if (p->kind == TO_PEER && !r->cut_off && !r->deaf &&
	    !r->cell->replicas[p->from - 1].cut_off) {
		cell_replica_event(r, (struct replica_event){.kind = REPLICA_PEER,
		                                        .peer = (uint8_t)p->from,
		                                        .frame = p->frame});
	} else if (p->kind == DURABLE && p->life == r->life) {
		r->durable = p->number;
		cell_replica_event(
		    r, (struct replica_event){.kind = REPLICA_PERSISTED, .write = p->number});
	} else if (p->kind == SAVED && p->life == r->life) {
		cell_replica_event(
		    r, (struct replica_event){.kind = REPLICA_SAVED, .index = p->number});
	} else if (p->kind == COPIED && p->life == r->life) {
		cell_begin_with_copy(r, &r->cell->replicas[p->from - 1]);
	} else if (p->kind == HANG_UP) {
		c->open_there = false;
		cell_replica_event(
		    r, (struct replica_event){.kind = REPLICA_DISCONNECTED, .conn = p->number});
	} else if (p->kind == TO_REPLICA) {
		cell_replica_event(r, (struct replica_event){
		                     .kind = REPLICA_FRAME, .conn = p->number, .frame = p->frame});
	}
}

static void
arrive_at_operator(struct cell_operator *o, const struct cell_post *p)
{
	struct message m;

	o->gone |= p->kind == DISCONNECTED;
	if (p->kind != TO_CLIENT)
		return;
	assert_int_equal(wire_get_frame(p->frame, &m), RC_OK);
	/* Who is master, and who is a member, is told without being asked. */
	o->redirected |= m.code == MSG_redirect;
	if (m.code == MSG_redirect || (m.code == MSG_members && !o->wants_members))
		return;
	free((void *)o->frame.data);
	o->frame = bytes_copy(p->frame);
	assert_int_equal(wire_get_frame(o->frame, &o->m), RC_OK);
}

static void
arrive_at_client(struct cell *cell, const struct cell_post *p)
{
	struct cell_conn *conn = cell_conn_of(cell, p->number);
	struct cell_client *c = &cell->clients[conn->client < 0 ? 0 : conn->client];
	struct client_event event = {.frame = p->frame, .standby = conn->aside};

	if (conn->client < 0) {
		if (p->number == cell->operator.conn)
			arrive_at_operator(&cell->operator, p);
		return;
	}
	if (!conn->open_here || (p->kind == CONNECTED && conn->aside))
		return;
	event.kind = p->kind == CONNECTED   ? CLIENT_CONNECTED
	             : p->kind == TO_CLIENT ? CLIENT_FRAME
	                                    : CLIENT_DISCONNECTED;
	if (p->kind == DISCONNECTED)
		conn->open_here = false;
	cell_client_event(c, event);
}

/* Is its receiver there to take it? */
static bool
can_arrive(struct cell *cell, const struct cell_post *p)
{
	if (p->kind == DURABLE && replica_at(cell, p)->stuck)
		return false;
	if (for_replica(p))
		return !replica_at(cell, p)->frozen;
	return cell_conn_of(cell, p->number)->client < 0 ||
	       !cell->clients[cell_conn_of(cell, p->number)->client].frozen;
}

static struct cell_post *
next_post(struct cell *cell)
{
	struct cell_post *first = NULL;

	for (size_t i = 0; i < cell->posts_n; i++) {
		struct cell_post *p = &cell->posts[i];

		if (!can_arrive(cell, p))
			continue;
		if (first == NULL || p->at.ns < first->at.ns ||
		    (p->at.ns == first->at.ns && p->sequence < first->sequence))
			first = p;
	}
	return first;
}

static void
arrive(struct cell *cell, struct cell_post *at)
{
	struct cell_post p = *at;

	*at = cell->posts[--cell->posts_n];
	if (for_replica(&p))
		arrive_at_replica(replica_at(cell, &p), &p);
	else
		arrive_at_client(cell, &p);
	free((void *)p.frame.data);
}

/* ---- time ---- */

/* Whose deadline is first; `*client` or `*replica` is set. */
static mono_t
next_deadline(struct cell *cell, struct cell_client **client, struct cell_replica **replica)
{
	mono_t first = MONO_NEVER;

	*client = NULL;
	*replica = NULL;
	for (int i = 0; i < cell->replicas_n; i++) {
		struct cell_replica *r = &cell->replicas[i];

		if (r->replica == NULL || r->frozen ||
		    !mono_before(replica_deadline(r->replica), first))
			continue;
		first = replica_deadline(r->replica);
		*replica = r;
	}
	for (int i = 0; i < cell->clients_n; i++) {
		struct cell_client *c = &cell->clients[i];

		if (c->frozen || !mono_before(client_deadline(c->client), first))
			continue;
		first = client_deadline(c->client);
		*client = c;
		*replica = NULL;
	}
	return first;
}

/* One thing that is due by `end`; what has arrived comes before what time makes due. */
static bool
happen(struct cell *cell, mono_t end)
{
	struct cell_post *p = next_post(cell);
	struct cell_client *client;
	struct cell_replica *replica;
	mono_t due = next_deadline(cell, &client, &replica);

	if (p != NULL && !mono_before(due, p->at) && !mono_before(end, p->at)) {
		cell->now = mono_max(cell->now, p->at);
		arrive(cell, p);
		return true;
	}
	if (mono_before(end, due))
		return false;
	cell->now = mono_max(cell->now, due);
	if (client != NULL)
		cell_client_event(client, (struct client_event){.kind = CLIENT_TIMEOUT});
	else
		cell_replica_event(replica, (struct replica_event){.kind = REPLICA_TIMEOUT});
	return true;
}

void
cell_pass_ms(struct cell *cell, int64_t ms)
{
	mono_t end = mono_add(cell->now, span_ms(ms));

	while (happen(cell, end))
		;
	cell->now = end;
}
