/* A restore at the end of a run: the state of a replica, or an older copy of it, becomes a cell of
 * its own, as `lsctl restore` makes it: a cell in one process, which runs cell/server. A client of
 * the old cell goes on in it. Whatever the new cell counts is greater than anything that the old
 * one ever gave out, and nothing of an old session is worth anything. There are no faults and no
 * delays. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/sim/sim.h"

enum { FILES_TRIED = 3, STEPS_MAX = 100000 };

struct queued_frame {
	bool to_replica;
	uint64_t conn;
	struct bytes frame; /* owned */
};

struct restored;

/* One of the client's connections. */
struct restored_end {
	struct restored *of;
	bool standby;
	uint64_t conn; /* 0: there is none */
};

struct restored {
	struct sim *s;
	struct disk disk;
	struct identity identity;
	struct server *server;
	uint64_t written, saved; /* to be reported to it; 0: nothing */
	struct machine *m;       /* whose client goes on */
	mono_t now;
	struct restored_end main, standby;
	struct queued_frame *parcels; /* from `next` on */
	size_t n, room, next;
	bool expired, answered;
	uint64_t tokens;
	uint8_t at; /* which of those that the client knows has the address of the new cell */
	struct client_answer answer;
	struct result result;
};

static void
above(struct restored *r, const char *what, uint64_t number, uint64_t old)
{
	if (number <= old)
		sim_fail(r->s, "after a restore %s is %lu, and the old cell had %lu", what,
		         (unsigned long)number, (unsigned long)old);
}

/* ---- the new cell ---- */

static void
deliver(struct restored *r, bool to_replica, uint64_t conn, struct bytes frame)
{
	ARRAY_ROOM(r->parcels, r->n, r->room);
	r->parcels[r->n++] = (struct queued_frame){.to_replica = to_replica,
	                                           .conn = conn,
	                                           .frame = bytes_copy(frame)};
}

static mono_t
io_now(void *user)
{
	return ((const struct restored *)user)->now;
}

static int64_t
io_wall_ns(void *user)
{
	return ((const struct restored *)user)->now.ns;
}

static void
io_random(void *user, void *to, size_t n)
{
	struct restored *r = user;
	uint8_t *at = to;

	for (size_t i = 0; i < n; i++)
		at[i] = (uint8_t)rng_next(&r->s->rng);
}

static void
io_append(void *user, uint64_t write, const struct px_record *records, size_t n)
{
	struct restored *r = user;

	(void)disk_write_log(r->s, &r->disk, write, records, n);
	(void)disk_log_done(&r->disk, write);
	r->written = write;
}

static void
io_save(void *user, uint64_t applied, struct row_list *rows)
{
	struct restored *r = user;

	disk_save(&r->disk, rows, applied);
	row_list_free(rows);
	r->saved = applied;
}

static size_t
io_unsaved(void *user)
{
	(void)user;
	return 0;
}

static void
io_fail(void *user, const char *why)
{
	sim_fail(((struct restored *)user)->s, "after a restore a disk fails: %s", why);
}

/* What the disk has written is reported, until there is nothing for the server to do. */
static void
turn(struct restored *r)
{
	do {
		const uint64_t written = r->written, saved = r->saved;

		r->written = r->saved = 0;
		if (written != 0)
			server_persisted(r->server, written);
		if (saved != 0)
			server_saved(r->server, saved);
		if (server_turn(r->server) != SERVER_GOES_ON)
			sim_fail(r->s, "after a restore the server ends");
	} while (r->written != 0 || r->saved != 0 || server_deadline(r->server).ns == 0);
	server_deliver(r->server);
}

static void
server_begins(struct restored *r)
{
	const struct server_io io = {
	    .now = io_now,
	    .wall_ns = io_wall_ns,
	    .random = io_random,
	    .append = io_append,
	    .save = io_save,
	    .unsaved = io_unsaved,
	    .fail = io_fail,
	    .user = r,
	};
	struct px_recovered recovered;
	struct tree *t = disk_recover(r->s, &r->disk, &recovered);

	strcpy(r->identity.cell_file.name, "sim");
	r->identity.cell_file.replicas_n = 1;
	r->identity.cell_file.replicas[0].id = r->identity.replica = 1;
	r->identity.cell_file.replicas[0].role = MEMBER_VOTER;
	r->identity.has_signing = true;
	r->server = server_new(
	    &(struct server_config){
	        .identity = &r->identity,
	        .directory = "the new cell",
	        .tree = t,
	        .recovered = &recovered,
	        .clients_max = SIZE_MAX,
	        .minor = MINOR_NEWEST,
	    },
	    &io);
	free((void *)recovered.entries);
	turn(r);
}

/* ---- its client ---- */

static void client_hears(struct restored *r, struct client_event event);

static void
on_frame(void *user, struct bytes frame)
{
	const struct restored_end *end = user;

	deliver(end->of, false, end->conn, frame);
}

static void
on_closed(void *user)
{
	struct restored_end *end = user;

	end->conn = 0;
	client_hears(end->of,
	             (struct client_event){.kind = CLIENT_DISCONNECTED, .standby = end->standby});
}

static void
connect(struct restored *r, struct restored_end *end, uint8_t replica)
{
	const struct server_client client = {on_frame, on_closed, end};

	if (end->conn != 0)
		server_disconnect(r->server, end->conn);
	end->conn =
	    replica != 0 && replica == r->at ? server_connect(r->server, &client, "admin") : 0;
	if (!end->standby || end->conn == 0)
		client_hears(r, (struct client_event){.kind = end->conn != 0 ? CLIENT_CONNECTED
		                                                             : CLIENT_DISCONNECTED,
		                                      .standby = end->standby});
}

static void
send_frames(struct restored *r)
{
	struct bytes rest = buffer_view(&r->m->update.frames);

	while (rest.len > 0) {
		struct bytes frame = {rest.data, (size_t)wire_frame_length(rest)};

		must(frame.len > 0 && frame.len <= rest.len);
		deliver(r, true, r->main.conn, frame);
		rest.data += frame.len;
		rest.len -= frame.len;
	}
}

static void
client_hears(struct restored *r, struct client_event event)
{
	struct client_update *u = &r->m->update;
	bool connects, listens;
	uint8_t to, listen_to;

	event.now = r->now;
	client_step(r->m->client, &event, u);
	send_frames(r);
	for (size_t i = 0; i < u->answers_n; i++) {
		if (u->answers[i].token != r->tokens)
			continue;
		r->answered = true;
		r->answer = u->answers[i];
	}
	r->expired =
	    r->expired || (u->state_changed && client_status(r->m->client).state == CLIENT_EXPIRED);
	connects = u->connect;
	to = u->replica;
	listens = u->listen;
	listen_to = u->listen_to;
	if (listens)
		connect(r, &r->standby, listen_to);
	if (connects)
		connect(r, &r->main, to);
}

/* ---- time ---- */

static void
next_parcel(struct restored *r)
{
	struct queued_frame p = r->parcels[r->next++];

	if (p.to_replica && p.conn != 0 && p.conn == r->main.conn)
		server_send(r->server, p.conn, p.frame);
	else if (!p.to_replica && p.conn != 0 &&
	         (p.conn == r->main.conn || p.conn == r->standby.conn))
		client_hears(r, (struct client_event){.kind = CLIENT_FRAME,
		                                      .frame = p.frame,
		                                      .standby = p.conn == r->standby.conn});
	free((void *)p.frame.data);
}

static void
step(struct restored *r)
{
	mono_t server, client;

	if (r->next < r->n) {
		next_parcel(r);
		turn(r);
		return;
	}
	server = server_deadline(r->server);
	client = client_deadline(r->m->client);
	r->now = mono_max(r->now, mono_min(server, client));
	if (mono_reached(r->now, server))
		server_timeout(r->server);
	if (mono_reached(r->now, client))
		client_hears(r, (struct client_event){.kind = CLIENT_TIMEOUT});
	turn(r);
}

/* Asks, and waits for the answer; its views last until the next step. */
static enum rc
ask(struct restored *r, const struct op *op)
{
	r->tokens++;
	r->answered = false;
	client_hears(r, (struct client_event){.kind = CLIENT_REQUEST,
	                                      .request = client_request_new(r->tokens, op, false)});
	for (int i = 0; !r->answered; i++) {
		if (i == STEPS_MAX)
			sim_fail(r->s, "after a restore %s is never answered",
			         wire_op_name(op->code));
		step(r);
	}
	r->result = r->answer.result;
	return r->answer.rc;
}

/* ---- what has to hold ---- */

static uint64_t
newest_generation(const struct item *it)
{
	return it->versions[it->versions_n - 1].generation;
}

static void
check_session(struct restored *r)
{
	struct client_status status;
	int i = 0;

	do {
		step(r);
		status = client_status(r->m->client);
		if (++i == STEPS_MAX)
			sim_fail(r->s, "after a restore client %d gets no session", r->m->id + 1);
	} while (status.state != CLIENT_SAFE || (status.session == r->m->session && !r->expired));
	if (!r->expired)
		sim_fail(r->s, "after a restore client %d has its old session", r->m->id + 1);
	above(r, "a session", status.session, r->s->model.next - 1);
	above(r, "the epoch", status.epoch, r->s->model.epoch);
}

static void
check_new_file(struct restored *r)
{
	struct op op = {.code = OP_create,
	                .create = {.parent = NODE_ROOT,
	                           .name = bytes_of("restored"),
	                           .kind = NODE_FILE,
	                           .exclusive = 1}};

	if (ask(r, &op) != RC_OK)
		sim_fail(r->s, "after a restore a file can't be made");
	above(r, "an instance", r->result.created.attr.node, r->s->model.next - 1);
}

/* A lock that stands delayed in the copy is nobody's yet; its generation can be read. */
static void
check_lock(struct restored *r, const struct item *it)
{
	struct op op = {.code = OP_acquire,
	                .acquire = {.acquire = {.node = it->node,
	                                        .owner = 1,
	                                        .acquisition = r->tokens + 1,
	                                        .mode = LOCK_EXCLUSIVE,
	                                        .delay_s = -1}}};
	enum rc rc = ask(r, &op);

	if (rc == RC_OK) {
		above(r, "a fencing token", r->result.acquired.fence, r->s->model.last_fence);
		above(r, "a lock generation", r->result.acquired.lock_generation,
		      it->lock_generation);
	} else if (rc != RC_BUSY_LOCK) {
		sim_fail(r->s, "after a restore a lock can't be taken: %s", rc_name(rc));
	}
	op = (struct op){.code = OP_get_lock, .get_lock = {.node = it->node}};
	if (ask(r, &op) != RC_OK)
		sim_fail(r->s, "after a restore a lock can't be read");
	if (rc == RC_BUSY_LOCK && r->result.lock.state != LOCK_STATE_DELAYED)
		sim_fail(r->s, "after a restore the lock of %s is still held", it->name);
	above(r, "a lock generation", r->result.lock.lock_generation, it->lock_generation);
}

static void
check_file(struct restored *r, const struct item *it)
{
	struct op op = {.code = OP_set_contents,
	                .set_contents = {.node = it->node, .contents = bytes_of("restored")}};
	enum rc rc = ask(r, &op);

	if (rc == RC_STALE)
		return; /* it was made behind the copy, or had gone before */
	if (rc != RC_OK)
		sim_fail(r->s, "after a restore a file can't be written: %s", rc_name(rc));
	above(r, "a content generation", r->result.attr.attr.content_generation,
	      newest_generation(it));
	check_lock(r, it);
}

/* Who waited in the old cell has no place in the queues of the new one. */
static void
check_ticket(struct restored *r)
{
	for (size_t i = r->s->history.acquires_n; i-- > 0;) {
		const struct record *old = r->s->history.acquires[i];
		struct op op = old->op;

		if (old->ticket.epoch == 0)
			continue;
		op.acquire.acquire.ticket = old->ticket;
		if (ask(r, &op) != RC_PERM)
			sim_fail(r->s, "after a restore a place in a queue is taken for one");
		return;
	}
}

/* ---- the copy ---- */

/* The state of a replica as it is, or as it was earlier. */
static const struct disk *
choose(struct sim *s)
{
	const struct host *n = &s->hosts[rng_below(&s->rng, (uint64_t)s->hosts_n)];
	const struct disk *d = rng_chance(&s->rng, 700) ? &n->copy : &n->disk;

	return d->applied > 0 && !d->state_lost ? d : NULL;
}

static void
add_row(void *user, const struct row *row)
{
	row_list_add(user, row);
}

/* Only the state goes into the new cell: its log is empty, and what it has promised is gone. */
static void
make_cell(struct restored *r, const struct disk *from)
{
	struct row_list rows = {0};
	struct tree_session session;
	struct px_recovered recovered;
	struct tree *t;

	disk_init(&r->disk);
	disk_each_row(from, add_row, &rows);
	disk_replace_state(&r->disk, &rows, from->applied);
	row_list_free(&rows);
	t = disk_recover(r->s, &r->disk, &recovered);
	free((void *)recovered.entries);
	if (tree_restore(t, r->s->now) != RC_OK)
		sim_fail(r->s, "a restore is refused");
	if (tree_session_after(t, 0, &session))
		sim_fail(r->s, "session %lu outlives a restore", (unsigned long)session.id);
	tree_dirty_rows(t, &rows);
	disk_save(&r->disk, &rows, tree_applied(t));
	row_list_free(&rows);
	tree_free(t);
}

static void
restored_free(struct restored *r)
{
	for (; r->next < r->n; r->next++)
		free((void *)r->parcels[r->next].frame.data);
	free(r->parcels);
	server_free(r->server);
	disk_free(&r->disk);
}

static uint8_t
known_to(const struct machine *m)
{
	const struct client_members *told = client_members(m->client);
	const struct seat *seat = m->cell_file.list;

	while (seat->role == MEMBER_REMOVED)
		seat++;
	return told->n > 0 ? told->list[0].id : seat->id;
}

/* The machine's client is of no use to the old cell any more. */
void
restored_check(struct sim *s)
{
	struct restored r = {.s = s, .m = &s->machines[0]};
	const struct disk *from = s->swarm.restore ? choose(s) : NULL;

	if (from == NULL)
		return;
	fault(s, FAULT_RESTORED, "a copy of log %lu becomes a new cell",
	      (unsigned long)from->applied);
	r.main.of = r.standby.of = &r;
	r.standby.standby = true;
	r.now = clock_local(&r.m->clock, s->now);
	r.at = known_to(r.m);
	r.tokens = UINT64_C(1) << 62; /* not the history's */
	make_cell(&r, from);
	server_begins(&r);
	client_hears(&r, (struct client_event){.kind = CLIENT_DISCONNECTED});
	check_session(&r);
	check_new_file(&r);
	for (int i = 0; i < FILES_TRIED; i++) {
		const struct item *it = s->model.items[rng_below(&s->rng, s->model.items_n)];

		if (it->kind == NODE_FILE)
			check_file(&r, it);
	}
	check_ticket(&r);
	restored_free(&r);
}
