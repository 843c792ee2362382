#include "tests/unit/replica_cell_inside.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/unit/unit.h"

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
		cell_post(r->cell,
		     (struct cell_post){.kind = DURABLE, .replica = r->id, .life = r->life,
		                        .number = u->write},
		     SYNC_MS);
}

static void
write_rows(struct cell_replica *r)
{
	const struct replica_update *u = &r->update;

	row_store_put(&r->rows, &u->rows);
	if (u->rows.n > 0 && r->cell->saves)
		cell_post(r->cell,
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
	cell_post(r->cell,
	     (struct cell_post){.kind = COPIED, .replica = r->id, .from = r->update.behind,
	                        .life = r->life},
	     COPY_MS);
}

void
cell_begin_with_copy(struct cell_replica *r, const struct cell_replica *of)
{
	r->copying = false;
	if (of->replica == NULL || of->cut_off || r->cut_off)
		return;
	cell_kill(r);
	row_store_free(&r->rows);
	row_store_copy(&r->rows, &of->rows);
	cell_start(r);
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
	for (size_t i = 0; i < u->sends_n; i++) {
		const struct replica_send *s = &u->sends[i];
		int64_t wait = s->after > r->durable ? SYNC_MS : 0;

		if (!s->to_peer)
			cell_to_client(r->cell, s->conn, TO_CLIENT, s->frame);
		else if (!r->cut_off)
			cell_post(r->cell,
			     (struct cell_post){.kind = TO_PEER, .replica = s->peer, .from = r->id,
			                        .life = r->life, .frame = s->frame},
			     WIRE_MS + wait);
	}
	for (size_t i = 0; i < u->closes_n; i++) {
		cell_conn_of(r->cell, u->closes[i])->open_there = false;
		cell_to_client(r->cell, u->closes[i], DISCONNECTED, (struct bytes){0});
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
	return memmem(r->trace.lines.data, r->trace.lines.len, text, strlen(text)) != NULL;
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
	              .drift_permille = 10,
	              .minor = r->minor,
	              .seed = r->cell->seed * 1000000 + r->id + r->life},
	    .master = {.cell = "cell",
	               .drift_permille = 10},
	    .trace = &r->trace,
	};

	assert_true(r->replica == NULL && sodium_init() >= 0);
	crypto_sign_seed_keypair(public_key, config.master.signing_key, seed);
	trace_free(&r->trace);
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
			cell_to_client(cell, i + 1, DISCONNECTED, (struct bytes){0});
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
		trace_free(&r->trace);
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
	cell_post(cell, (struct cell_post){.kind = CONNECT, .number = cell->conns_n}, WIRE_MS);
	wire_put_frame(&frame, m);
	cell_post(cell,
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
