#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/unit/replica_cell.h"
#include "tests/unit/unit.h"

enum { WIRE_MS = 1, SYNC_MS = 2, COPY_MS = 50 };

struct cell_conn {
	int client; /* -1: the operator */
	const char *principal;
	bool aside, open_here, open_there; /* at the client; at the replica */
	uint8_t replica;
	uint64_t life;
};

enum post_kind {
	TO_PEER,      /* replica, from, frame */
	DURABLE,      /* replica, number: ticket */
	SAVED,        /* replica, number: index */
	COPIED,       /* replica, from: whose state it gets */
	CONNECT,      /* number: conn */
	HANG_UP,      /* conn: the client has closed it */
	TO_REPLICA,   /* conn, frame */
	CONNECTED,    /* conn */
	TO_CLIENT,    /* conn, frame */
	DISCONNECTED, /* conn */
};

/* Something under way. */
struct cell_post {
	mono_t at;
	uint64_t sequence;
	enum post_kind kind;
	int replica, from;
	uint64_t life, number; /* of the replica; conn or ticket */
	struct bytes frame;    /* owned */
};

static void
post(struct cell *cell, struct cell_post p, int64_t ms)
{
	p.at = mono_add(cell->now, span_ms(ms));
	p.sequence = ++cell->sequence;
	p.frame = bytes_copy(p.frame);
	ARRAY_ROOM(cell->posts, cell->posts_n, cell->posts_room);
	cell->posts[cell->posts_n++] = p;
}

static struct cell_conn *
conn_of(struct cell *cell, uint64_t id)
{
	must(id > 0 && id <= cell->conns_n);
	return &cell->conns[id - 1];
}

/* ---- replicas ---- */

static void
log_put(struct cell_replica *r, const struct px_record *record)
{
	struct cell_entry *e;

	while (r->log_n < record->slot) {
		ARRAY_ROOM(r->log, r->log_n, r->log_room);
		r->log[r->log_n++] = (struct cell_entry){0};
	}
	e = &r->log[record->slot - 1];
	free((void *)e->entry.payload.data);
	e->entry = (struct log_entry){
	    .slot = record->slot,
	    .ballot = record->ballot,
	    .origin = record->origin,
	    .before = record->before,
	    .checksum = record->checksum,
	    .payload = bytes_copy(record->payload),
	};
}

static void
log_trim(struct cell_replica *r, uint64_t slot)
{
	r->trimmed = slot > r->trimmed ? slot : r->trimmed;
	for (uint64_t i = 0; i < r->log_n && i < slot; i++) {
		free((void *)r->log[i].entry.payload.data);
		r->log[i] = (struct cell_entry){0};
	}
}

/* Written at once, but nothing that waits for it goes out before it is synced; who is killed in
 * between finds it written, which a disk may do. */
static void
write_records(struct cell_replica *r)
{
	const struct replica_update *u = &r->update;

	for (size_t i = 0; i < u->records_n; i++) {
		const struct px_record *record = &u->records[i];

		if (record->kind == PX_RECORD_ENTRY)
			log_put(r, record);
		else if (record->kind == PX_RECORD_PROMISE)
			r->promised = record->ballot;
		else if (record->kind == PX_RECORD_CHOSEN)
			r->chosen = record->slot;
		else if (record->kind == PX_RECORD_LEASE)
			r->lease = record->length;
		else if (record->kind == PX_RECORD_TRIM)
			log_trim(r, record->slot);
		else if (record->kind == PX_RECORD_MARK)
			r->marks[record->mark.replica] = record->mark;
	}
	if (u->records_n > 0)
		post(r->cell,
		     (struct cell_post){.kind = DURABLE, .replica = r->id, .life = r->life,
		                        .number = u->ticket},
		     SYNC_MS);
}

static void
write_rows(struct cell_replica *r)
{
	const struct replica_update *u = &r->update;

	row_store_put(&r->rows, &u->rows);
	if (u->rows.n > 0 && r->cell->saves)
		post(r->cell,
		     (struct cell_post){.kind = SAVED, .replica = r->id, .life = r->life,
		                        .number = u->applied},
		     SYNC_MS);
}

/* Who is told that it is behind gets a copy of the other's state, and starts with that. */
static void
fetch_state(struct cell_replica *r)
{
	if (r->update.behind == 0 || r->copying || !r->cell->saves)
		return;
	r->copying = true;
	post(r->cell,
	     (struct cell_post){.kind = COPIED, .replica = r->id, .from = r->update.behind,
	                        .life = r->life},
	     COPY_MS);
}

static void
begin_with_copy(struct cell_replica *r, const struct cell_replica *of)
{
	r->copying = false;
	if (of->replica == NULL || of->cut_off || r->cut_off)
		return;
	cell_kill(r);
	row_store_free(&r->rows);
	row_store_copy(&r->rows, &of->rows);
	cell_start(r);
}

static void
send_to_client(struct cell *cell, uint64_t conn, enum post_kind kind, struct bytes frame)
{
	post(cell, (struct cell_post){.kind = kind, .number = conn, .frame = frame}, WIRE_MS);
}

/* What waits for a sync waits as long as one takes: they end in the order of their beginning. */
static void
carry_out(struct cell_replica *r)
{
	struct replica_update *u = &r->update;

	write_records(r);
	write_rows(r);
	fetch_state(r);
	r->diverged |= u->diverged;
	r->members_changed |= u->members_changed;
	buffer_put_bytes(&r->trace, buffer_view(&u->trace));
	for (size_t i = 0; i < u->sends_n; i++) {
		const struct replica_send *s = &u->sends[i];
		int64_t wait = s->after > r->durable ? SYNC_MS : 0;

		if (!s->to_peer)
			send_to_client(r->cell, s->conn, TO_CLIENT, s->frame);
		else if (!r->cut_off)
			post(r->cell,
			     (struct cell_post){.kind = TO_PEER, .replica = s->peer, .from = r->id,
			                        .life = r->life, .frame = s->frame},
			     WIRE_MS + wait);
	}
	for (size_t i = 0; i < u->closes_n; i++) {
		conn_of(r->cell, u->closes[i])->open_there = false;
		send_to_client(r->cell, u->closes[i], DISCONNECTED, (struct bytes){0});
	}
}

/* Paxos reads the changes of the members in the log, the state is told of them: both must take the
 * same ones. */
static void
check_members(const struct replica *r)
{
	const struct px_members *voting = px_members(replica_px(r));
	const struct tree *t = replica_tree(r);
	struct member m = {0};
	int n = 0;

	if (tree_applied(t) != px_chosen(replica_px(r)) || !tree_member_after(t, 0, &m))
		return;
	assert_int_equal(voting->version, tree_members_version(t));
	for (uint8_t id = 0; tree_member_after(t, id, &m); id = m.id)
		n += m.role != MEMBER_REMOVED;
	assert_int_equal(voting->n, n);
}

void
cell_replica_event(struct cell_replica *r, struct replica_event event)
{
	event.now = r->cell->now;
	event.wall_ns = r->cell->now.ns;
	replica_step(r->replica, &event, &r->update);
	check_members(r->replica);
	carry_out(r);
}

bool
cell_traced(const struct cell_replica *r, const char *text)
{
	return memmem(r->trace.data, r->trace.len, text, strlen(text)) != NULL;
}

struct member
cell_member(uint8_t id, enum member_role role)
{
	static char addresses[LIMIT_REPLICA_ID + 1][16];
	static uint8_t keys[LIMIT_REPLICA_ID + 1][32];

	snprintf(addresses[id], sizeof addresses[id], "host%u:1", id);
	memset(keys[id], id, sizeof keys[id]);
	return (struct member){.id = id,
	                       .role = (uint8_t)role,
	                       .address = bytes_of(addresses[id]),
	                       .key = {keys[id], sizeof keys[id]}};
}

static int
configured_members(const struct cell_replica *r, struct member members[LIMIT_REPLICAS])
{
	for (int i = 0; i < r->file.n; i++)
		members[i] = cell_member(r->file.list[i].id,
		                         r->file.list[i].voter ? MEMBER_VOTER : MEMBER_LEARNER);
	return r->file.n;
}

static struct tree *
stored_tree(const struct cell_replica *r)
{
	struct tree *t;
	char why[200];

	if (!r->cell->saves || r->rows.rows.n == 0)
		return tree_new("cell");
	t = row_store_load(&r->rows, why, sizeof why);
	assert_non_null(t);
	return t;
}

/* Entries and marks, which the caller frees. */
static struct px_recovered
recovered(struct cell_replica *r, const struct tree *t)
{
	struct log_entry *entries = memory_zero(r->log_n + 1, sizeof *entries);
	struct mark *marks = memory_zero(LIMIT_REPLICA_ID, sizeof *marks);
	struct px_recovered had = {
	    .incarnation = ++r->incarnation,
	    .promised = r->promised,
	    .chosen = r->chosen > r->trimmed ? r->chosen : r->trimmed,
	    .trimmed = r->trimmed,
	    .wait = r->lease,
	    .entries = entries,
	    .applied = tree_applied(t),
	    .applied_origin = tree_origin(t),
	    .marks = marks,
	};

	for (size_t i = r->trimmed; i < r->log_n; i++)
		entries[had.entries_n++] = r->log[i].entry;
	for (int i = 1; i <= LIMIT_REPLICA_ID; i++)
		if (r->marks[i].replica != 0)
			marks[had.marks_n++] = r->marks[i];
	return had;
}

void
cell_start(struct cell_replica *r)
{
	static const uint8_t seed[32] = {1};
	uint8_t public_key[32];
	struct tree *tree = stored_tree(r);
	struct px_recovered had = recovered(r, tree);
	struct member members[LIMIT_REPLICAS];
	struct replica_config config = {
	    .members = members,
	    .members_n = configured_members(r, members),
	    .digest_every = r->cell->digest_every,
	    .paxos = {.self = r->id,
	              .start = r->cell->seed * 1000000 + r->id * 1000 + r->life,
	              .lease = span_ms(500),
	              .heartbeat = span_ms(100),
	              .drift_permille = 10,
	              .seed = r->cell->seed * 1000000 + r->id + r->life},
	    .master = {.cell = "cell",
	               .session_lease = span_ms(CELL_LEASE_MS),
	               .cache_lease = span_ms(CELL_CACHE_LEASE_MS),
	               .drift_permille = 10},
	};

	assert_true(r->replica == NULL && sodium_init() >= 0);
	crypto_sign_seed_keypair(public_key, config.master.signing_key, seed);
	r->trace.limit = 1 << 20;
	buffer_reset(&r->trace);
	r->life++;
	r->durable = 0;
	r->frozen = r->diverged = r->members_changed = r->copying = false;
	r->replica = replica_new(&config, tree, &had, r->cell->now);
	free((void *)had.entries);
	free((void *)had.marks);
}

struct cell_replica *
cell_join(struct cell *cell)
{
	const struct cell_replica *master = cell_await_master(cell);
	struct cell_replica *r = &cell->replicas[cell->replicas_n++];

	assert_true(cell->replicas_n <= CELL_REPLICAS);
	r->file = *px_members(replica_px(master->replica));
	cell_start(r);
	return r;
}

/* Its connections break, and what it had sent on them is lost. */
void
cell_kill(struct cell_replica *r)
{
	struct cell *cell = r->cell;

	assert_non_null(r->replica);
	for (size_t i = 0; i < cell->conns_n; i++) {
		struct cell_conn *c = &cell->conns[i];

		if (c->replica != r->id || c->life != r->life)
			continue;
		c->open_there = false;
		for (size_t j = 0; j < cell->posts_n; j++)
			if (cell->posts[j].kind == TO_CLIENT && cell->posts[j].number == i + 1)
				cell->posts[j].kind = DISCONNECTED;
		if (c->open_here)
			send_to_client(cell, i + 1, DISCONNECTED, (struct bytes){0});
	}
	replica_free(r->replica);
	replica_update_free(&r->update);
	r->replica = NULL;
	r->life++;
}

void
cell_freeze(struct cell_replica *r)
{
	r->frozen = true;
}

void
cell_thaw(struct cell_replica *r)
{
	r->frozen = false;
}

void
cell_stop_cleanly(struct cell_replica *r)
{
	cell_replica_event(r, (struct replica_event){.kind = REPLICA_STOP});
}

struct cell_replica *
cell_master(struct cell *cell)
{
	for (int i = 0; i < cell->replicas_n; i++) {
		struct cell_replica *r = &cell->replicas[i];

		if (r->replica != NULL && !r->frozen && replica_serving(r->replica, cell->now))
			return r;
	}
	return NULL;
}

struct cell_replica *
cell_await_master(struct cell *cell)
{
	for (int i = 0; i < 5000 && cell_master(cell) == NULL; i++)
		cell_pass_ms(cell, 1);
	assert_non_null(cell_master(cell));
	return cell_master(cell);
}

void
cell_check_agreement(struct cell *cell)
{
	const struct tree *first = NULL;

	for (int i = 0; i < cell->replicas_n; i++) {
		const struct tree *t;

		if (cell->replicas[i].replica == NULL)
			continue;
		t = replica_tree(cell->replicas[i].replica);
		if (first == NULL)
			first = t;
		assert_int_equal(tree_applied(t), tree_applied(first));
		assert_true(tree_digest(t) == tree_digest(first));
	}
}

/* ---- clients ---- */

static uint64_t
client_connect(struct cell_client *c, uint64_t old, uint8_t replica, bool aside)
{
	struct cell *cell = c->cell;

	if (old != 0 && conn_of(cell, old)->open_here) {
		conn_of(cell, old)->open_here = false;
		post(cell, (struct cell_post){.kind = HANG_UP, .number = old}, WIRE_MS);
	}
	if (replica == 0)
		return 0;
	ARRAY_ROOM(cell->conns, cell->conns_n, cell->conns_room);
	cell->conns[cell->conns_n++] = (struct cell_conn){
	    .client = c->id,
	    .principal = "admin",
	    .aside = aside,
	    .open_here = true,
	    .replica = replica,
	};
	post(cell, (struct cell_post){.kind = CONNECT, .number = cell->conns_n}, WIRE_MS);
	return cell->conns_n;
}

static void
note_answer(struct cell_client *c, const struct client_answer *from)
{
	struct cell_answer *a = &c->answers[c->answers_n++];

	assert_true(c->answers_n < CELL_ANSWERS);
	assert_null(cell_answer(c, from->token)); /* exactly once */
	*a = (struct cell_answer){.token = from->token, .rc = from->rc, .at = c->cell->now};
	if (from->result.kind == RESULT_created)
		a->node = from->result.created.attr.node;
	if (from->result.kind == RESULT_acquired) {
		a->lock_generation = from->result.acquired.lock_generation;
		a->fence = from->result.acquired.fence;
	}
	if (from->result.kind == RESULT_contents) {
		assert_true(from->result.contents.contents.len < sizeof a->contents);
		memcpy(a->contents, from->result.contents.contents.data,
		       from->result.contents.contents.len);
	}
}

static void
client_event(struct cell_client *c, struct client_event event)
{
	struct client_update *u = &c->update;
	struct bytes rest;

	event.now = c->cell->now;
	client_step(c->client, &event, u);
	if (u->connect)
		c->conn = client_connect(c, c->conn, u->replica, false);
	if (u->listen)
		c->aside = client_connect(c, c->aside, u->listen_to, true);
	rest = buffer_view(&u->frames);
	while (rest.len > 0) {
		struct bytes frame = {rest.data, (size_t)wire_frame_length(rest)};

		post(c->cell,
		     (struct cell_post){.kind = TO_REPLICA, .number = c->conn, .frame = frame},
		     WIRE_MS);
		rest.data += frame.len;
		rest.len -= frame.len;
	}
	for (size_t i = 0; i < u->answers_n; i++)
		note_answer(c, &u->answers[i]);
	for (size_t i = 0; i < u->grants_n; i++) {
		assert_true(c->grants_n < CELL_ANSWERS);
		c->granted_at[c->grants_n] = c->cell->now;
		c->grants[c->grants_n++] = u->grants[i];
	}
	if (u->state_changed && cell_client_state(c) == CLIENT_EXPIRED)
		c->lost++;
}

struct cell_client *
cell_client(struct cell *cell, bool caching)
{
	struct cell_client *c = &cell->clients[cell->clients_n];
	struct client_config config = {
	    .host = "here",
	    .grace = span_ms(DEFAULT_GRACE_MS),
	    .drift_permille = 10,
	    .caching = caching,
	    .seed = 77 + (uint64_t)cell->clients_n,
	    .replicas_n = cell->first_n,
	};

	assert_true(cell->clients_n < CELL_CLIENTS);
	memset(config.nonce, 'a' + cell->clients_n, LIMIT_NONCE);
	for (int i = 0; i < cell->first_n; i++)
		config.replicas[i] = (uint8_t)(i + 1);
	c->cell = cell;
	c->id = cell->clients_n++;
	c->client = client_new(&config, cell->now);
	for (int i = 0; i < 5000 && cell_client_state(c) != CLIENT_SAFE; i++)
		cell_pass_ms(cell, 1);
	assert_int_equal(cell_client_state(c), CLIENT_SAFE);
	return c;
}

void
cell_client_freeze(struct cell_client *c)
{
	c->frozen = true;
}

void
cell_client_thaw(struct cell_client *c)
{
	c->frozen = false;
}

void
cell_client_close(struct cell_client *c)
{
	client_event(c, (struct client_event){.kind = CLIENT_CLOSE});
}

struct cell_replica *
cell_listened_to(const struct cell_client *c)
{
	return &c->cell->replicas[conn_of(c->cell, c->aside)->replica - 1];
}

enum client_state
cell_client_state(const struct cell_client *c)
{
	return client_status(c->client).state;
}

/* ---- what is under way arrives ---- */

static struct cell_replica *
replica_at(struct cell *cell, const struct cell_post *p)
{
	int id = p->kind < CONNECT ? p->replica : conn_of(cell, p->number)->replica;

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
	struct cell_conn *c = conn_of(r->cell, id);

	if (r->replica == NULL) {
		send_to_client(r->cell, id, DISCONNECTED, (struct bytes){0});
		return;
	}
	c->open_there = true;
	c->life = r->life;
	send_to_client(r->cell, id, CONNECTED, (struct bytes){0});
	cell_replica_event(r, (struct replica_event){.kind = REPLICA_CONNECTED,
	                                        .conn = id,
	                                        .principal = bytes_of(c->principal)});
}

static void
arrive_at_replica(struct cell_replica *r, const struct cell_post *p)
{
	struct cell_conn *c = p->kind >= CONNECT ? conn_of(r->cell, p->number) : NULL;

	if (p->kind == CONNECT) {
		arrive_connect(r, p->number);
		return;
	}
	if (r->replica == NULL || (c != NULL && !c->open_there))
		return;
	if (p->kind == TO_PEER && !r->cut_off && !r->cell->replicas[p->from - 1].cut_off) {
		cell_replica_event(r, (struct replica_event){.kind = REPLICA_PEER,
		                                        .peer = (uint8_t)p->from,
		                                        .frame = p->frame});
	} else if (p->kind == DURABLE && p->life == r->life) {
		r->durable = p->number;
		cell_replica_event(
		    r, (struct replica_event){.kind = REPLICA_PERSISTED, .ticket = p->number});
	} else if (p->kind == SAVED && p->life == r->life) {
		cell_replica_event(
		    r, (struct replica_event){.kind = REPLICA_SAVED, .index = p->number});
	} else if (p->kind == COPIED && p->life == r->life) {
		begin_with_copy(r, &r->cell->replicas[p->from - 1]);
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
	struct cell_conn *conn = conn_of(cell, p->number);
	struct cell_client *c = &cell->clients[conn->client < 0 ? 0 : conn->client];
	struct client_event event = {.frame = p->frame, .aside = conn->aside};

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
	client_event(c, event);
}

/* Is its receiver there to take it? */
static bool
can_arrive(struct cell *cell, const struct cell_post *p)
{
	if (p->kind == DURABLE && replica_at(cell, p)->stuck)
		return false;
	if (for_replica(p))
		return !replica_at(cell, p)->frozen;
	return conn_of(cell, p->number)->client < 0 ||
	       !cell->clients[conn_of(cell, p->number)->client].frozen;
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
		client_event(client, (struct client_event){.kind = CLIENT_TIMEOUT});
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

/* ---- life ---- */

struct cell *
cell_new(int replicas)
{
	return cell_new_seeded(replicas, 0);
}

struct cell *
cell_new_seeded(int replicas, uint64_t seed)
{
	struct cell *cell = memory_zero(1, sizeof *cell);

	cell->seed = seed;
	cell->now = (mono_t){span_s(1000).ns};
	cell->replicas_n = cell->first_n = replicas;
	for (int i = 0; i < CELL_REPLICAS; i++) {
		cell->replicas[i].cell = cell;
		cell->replicas[i].id = (uint8_t)(i + 1);
	}
	for (int i = 0; i < replicas; i++) {
		for (int j = 0; j < replicas; j++)
			cell->replicas[i].file.list[j] = (struct px_member){(uint8_t)(j + 1), true};
		cell->replicas[i].file.n = replicas;
		cell_start(&cell->replicas[i]);
	}
	cell_await_master(cell);
	return cell;
}

void
cell_free(struct cell *cell)
{
	for (int i = 0; i < cell->replicas_n; i++) {
		struct cell_replica *r = &cell->replicas[i];

		if (r->replica != NULL)
			replica_free(r->replica);
		replica_update_free(&r->update);
		row_store_free(&r->rows);
		buffer_free(&r->trace);
		for (size_t j = 0; j < r->log_n; j++)
			free((void *)r->log[j].entry.payload.data);
		free(r->log);
	}
	for (int i = 0; i < cell->clients_n; i++) {
		client_free(cell->clients[i].client);
		client_update_free(&cell->clients[i].update);
	}
	for (size_t i = 0; i < cell->posts_n; i++)
		free((void *)cell->posts[i].frame.data);
	free((void *)cell->operator.frame.data);
	free(cell->posts);
	free(cell->conns);
	free(cell);
}

/* ---- operators ---- */

void
cell_say(struct cell_replica *r, const char *principal, const struct message *m)
{
	struct cell *cell = r->cell;
	struct buffer frame = BUFFER(LIMIT_FRAME + 4);

	ARRAY_ROOM(cell->conns, cell->conns_n, cell->conns_room);
	cell->conns[cell->conns_n++] = (struct cell_conn){
	    .client = -1, .principal = principal, .open_here = true, .replica = r->id};
	free((void *)cell->operator.frame.data);
	cell->operator = (struct cell_operator){
	    .conn = cell->conns_n, .wants_members = m->code == MSG_members_request};
	post(cell, (struct cell_post){.kind = CONNECT, .number = cell->conns_n}, WIRE_MS);
	wire_put_frame(&frame, m);
	post(cell,
	     (struct cell_post){
	         .kind = TO_REPLICA, .number = cell->conns_n, .frame = buffer_view(&frame)},
	     WIRE_MS);
	buffer_free(&frame);
}

const struct message *
cell_question(struct cell_replica *r, const char *principal, const struct message *m,
              enum message_code answer)
{
	struct cell_operator *o = &r->cell->operator;

	cell_say(r, principal, m);
	for (int i = 0; i < 10000 && o->frame.len == 0 && !o->gone; i++)
		cell_pass_ms(r->cell, 1);
	return o->frame.len > 0 && o->m.code == answer ? &o->m : NULL;
}

struct msg_operated
cell_operate(struct cell *cell, const struct msg_operate *m)
{
	const struct message ask = {.code = MSG_operate, .operate = *m};
	struct cell_operator *o = &cell->operator;

	for (int tries = 0; tries < 20; tries++) {
		cell_say(cell_await_master(cell), "admin", &ask);
		/* The master names itself to who connects. */
		cell_pass_ms(cell, 2);
		o->redirected = false;
		for (int i = 0; i < 5000 && o->frame.len == 0 && !o->gone && !o->redirected; i++)
			cell_pass_ms(cell, 1);
		if (o->frame.len > 0 && o->m.code == MSG_operated)
			return o->m.operated;
	}
	fail_msg("no master answers the operator");
	return (struct msg_operated){0};
}

/* ---- requests ---- */

uint64_t
cell_ask(struct cell_client *c, const struct op *op)
{
	client_event(c, (struct client_event){
	                    .kind = CLIENT_REQUEST, .token = ++c->tokens, .op = op});
	return c->tokens;
}

const struct cell_answer *
cell_answer(const struct cell_client *c, uint64_t token)
{
	for (size_t i = 0; i + 1 <= c->answers_n; i++)
		if (c->answers[i].token == token)
			return &c->answers[i];
	return NULL;
}

const struct cell_answer *
cell_await(struct cell_client *c, uint64_t token, int64_t ms)
{
	for (int64_t i = 0; i < ms && cell_answer(c, token) == NULL; i++)
		cell_pass_ms(c->cell, 1);
	return cell_answer(c, token);
}

const struct cell_answer *
cell_call(struct cell_client *c, const struct op *op)
{
	const struct cell_answer *a = cell_await(c, cell_ask(c, op), 20);

	assert_non_null(a);
	assert_int_equal(a->rc, RC_OK);
	return a;
}

uint64_t
cell_file(struct cell_client *c, const char *name)
{
	struct op op = {.code = OP_create};

	op.create =
	    (struct op_create){.parent = NODE_ROOT, .name = bytes_of(name), .kind = NODE_FILE};
	return cell_call(c, &op)->node;
}

uint64_t
cell_append(struct cell_client *c, uint64_t node, const char *text)
{
	struct op op = {.code = OP_append, .append = {.node = node, .data = bytes_of(text)}};

	return cell_ask(c, &op);
}

const char *
cell_read(struct cell_client *c, uint64_t node)
{
	struct op op = {.code = OP_get_contents, .get_contents = {.node = node}};

	return cell_call(c, &op)->contents;
}

uint64_t
cell_lock(struct cell_client *c, uint64_t node, enum lock_mode mode, bool wait)
{
	struct op op = {.code = OP_acquire};

	op.acquire.acquire = (struct acquire){.node = node,
	                                      .owner = 1,
	                                      .acquisition = ++c->acquisitions,
	                                      .mode = mode,
	                                      .wait = wait,
	                                      .delay_s = -1,
	                                      .default_delay_s = DEFAULT_LOCK_DELAY_S};
	return cell_ask(c, &op);
}

uint64_t
cell_unlock(struct cell_client *c, uint64_t node, uint64_t acquisition)
{
	struct op op = {.code = OP_release, .release = {node, 1, acquisition}};

	return cell_ask(c, &op);
}

bool
cell_granted(const struct cell_client *c, uint64_t acquisition)
{
	for (size_t i = 0; i < c->grants_n; i++)
		if (c->grants[i].acquisition == acquisition && c->grants[i].rc == RC_OK)
			return true;
	return false;
}
