/* The server's processing of events. Each event (a client's frame, a record that became durable, a
 * deadline) is one step of the replica. The step's records go to the log, and its messages are sent
 * as soon as the records that they wait for are durable. Frames for clients in this process are
 * queued and delivered at the end of the turn, so that no client is called within a step, and no
 * step is taken within a client's call. */
#include "cell/server/internal.h"

#include "cell/base/must.h"
#include "cell/config/member_addresses.h"
#include "cell/wire/codec.h"

enum {
	TURN_MS = 4, /* the part of a turn in which clients' requests are read */
	STEP_SLOW_MS = 10,
};

static mono_t
now_of(const struct server *s)
{
	return s->io.now(s->io.user);
}

/* ---- delivery ---- */

/* Frames for the network are sent at once, because sending calls nothing back. */
static void
post(struct server *s, struct queued_frame queued)
{
	if (queued.peer != 0) {
		gateway_send_peer(s->gateway, queued.peer, queued.frame);
	} else if ((queued.conn & GATEWAY_CONN) == 0) {
		local_clients_post(&s->clients, queued);
		return;
	} else if (queued.close) {
		gateway_close(s->gateway, queued.conn);
	} else {
		gateway_send(s->gateway, queued.conn, queued.frame);
	}
	queued_frame_free(&queued);
}

/* ---- steps ---- */

static void
log_traces(struct server *s)
{
	enum trace_kind kind;
	const char *line;

	while ((line = trace_take(&s->trace, &kind)) != NULL)
		server_io_log(&s->io, kind == TRACE_NOTICE ? SERVER_INFO : SERVER_DEBUG, "%s",
		              line);
}

static void
send_one(struct server *s, struct replica_send *send)
{
	struct queued_frame queued = {.conn = send->conn,
	                              .after = send->after,
	                              .frame = send->frame};

	if (send->to_peer)
		queued.peer = send->peer;
	must(queued.peer == 0 || s->gateway != NULL);
	send->frame = (struct bytes){NULL, 0};
	if (send->after > s->durable)
		frame_queue_put(&s->gate, queued);
	else
		post(s, queued);
}

static void
follow_members(struct server *s)
{
	static struct cell_file_replica list[LIMIT_MEMBERS];
	const struct msg_members m = replica_members(s->replica);

	gateway_set_members(s->gateway, m.version, list, member_addresses_of(&m.members, list));
}

/* The state of this replica differs from the state of a quorum: it must be fetched from another
 * replica. */
static void
begin_anew(struct server *s)
{
	server_io_log(&s->io, SERVER_ERROR,
	              "%s: the state differs from that of the other replicas: sets it aside and "
	              "copies one of theirs",
	              s->config.directory);
	s->failed = true;
	server_tell(s, SERVER_DIVERGED);
}

/* A removed replica has no vote either, even before it has received its expulsion. */
static bool
is_removed(const struct server *s)
{
	const uint8_t self = s->config.identity->replica;
	struct member m;

	return tree_member_after(replica_tree(s->replica), (uint8_t)(self - 1), &m) &&
	       m.id == self && m.role == MEMBER_REMOVED;
}

static void
follow_condition(struct server *s)
{
	const enum replica_condition now = s->update.condition;
	const unsigned self = s->config.identity->replica;
	const struct server_io *io = &s->io;

	if (now == s->condition)
		return;
	s->condition = now;
	if (now == CONDITION_VOTING)
		server_io_log(io, SERVER_INFO, "replica %u has a vote", self);
	else if (now == CONDITION_LEARNER && !is_removed(s))
		server_io_log(io, SERVER_INFO,
		              "replica %u is a learner: it gets a vote when it has caught up",
		              self);
	else if (now == CONDITION_REPAIRING)
		server_io_log(io, SERVER_WARN,
		              "replica %u lacks part of its log or of its state, which comes from "
		              "the others",
		              self);
	else if (now == CONDITION_LOST)
		server_io_log(io, SERVER_ERROR,
		              "the data of replica %u is older than what it has told others: it "
		              "has no vote any more; remove it and add a new one (lsctl replica "
		              "remove %u; lsctl replica add ...)",
		              self, self);
	else if (now == CONDITION_ALONE)
		server_io_log(io, SERVER_WARN,
		              "replica %u has known of no master for 10 s: is it cut off, are the "
		              "others down, or is it no member any more?",
		              self);
	else if (now == CONDITION_EXPELLED)
		server_io_log(io, SERVER_ERROR, "replica %u is not a member of this cell any more",
		              self);
	else if (now == CONDITION_OUTDATED)
		server_io_log(io, SERVER_ERROR,
		              "replica %u speaks minor version %u, and the log of the cell is "
		              "written in a later one: install a newer version and start it again",
		              self, (unsigned)s->config.minor);
	if (now == CONDITION_EXPELLED || now == CONDITION_OUTDATED)
		server_tell(s, SERVER_FAILED);
}

static void
carry_out(struct server *s, struct replica_update *u)
{
	if (u->records_n > 0)
		s->io.append(s->io.user, u->write, u->records, u->records_n);
	if (u->rows.n > 0)
		s->io.save(s->io.user, u->applied, &u->rows);
	for (size_t i = 0; i < u->sends_n; i++)
		send_one(s, &u->sends[i]);
	for (size_t i = 0; i < u->closes_n; i++)
		post(s, (struct queued_frame){.conn = u->closes[i], .close = true});
	log_traces(s);
	if (u->diverged)
		begin_anew(s);
	if (s->gateway != NULL && u->members_changed)
		follow_members(s);
	if (s->transfer != NULL)
		state_transfer_need(s->transfer, u->behind, tree_applied(replica_tree(s->replica)));
}

/* Counts long steps: during a step neither KeepAlives nor messages of other replicas are
 * processed. */
static void
count_step(struct server *s, span_t took)
{
	uint64_t us = (uint64_t)(took.ns / 1000);

	if (us > s->times.longest_us)
		s->times.longest_us = us;
	s->times.slow += us > STEP_SLOW_MS * 1000;
}

void
server_step(struct server *s, struct replica_event event)
{
	must(!s->stepping);
	if (s->failed || s->left)
		return;
	s->stepping = true;
	event.now = now_of(s);
	if (s->turn_runs && mono_is_never(s->turn_end))
		s->turn_end = mono_add(event.now, span_ms(TURN_MS));
	event.wall_ns = s->io.wall_ns(s->io.user);
	event.times = s->times;
	replica_step(s->replica, &event, &s->update);
	carry_out(s, &s->update);
	follow_condition(s);
	s->deadline = s->update.deadline;
	count_step(s, mono_since(now_of(s), event.now));
	s->stepping = false;
}

void
server_tell(struct server *s, enum server_verdict news)
{
	if (s->news != SERVER_FAILED)
		s->news = news;
}

/* ---- the inbox ---- */

static bool
behind(struct server *s)
{
	return s->io.unsaved(s->io.user) > s->config.limits.unsaved ||
	       replica_backlog(s->replica) > s->config.limits.backlog;
}

/* True if the frame can be processed now. Requests wait while writing the log or the state is far
 * behind; and a client that does not read its replies gets no more of them. */
static bool
may_step(struct server *s, uint64_t conn, unsigned code)
{
	if (code == MSG_request && behind(s))
		return false;
	return (conn & GATEWAY_CONN) == 0 ||
	       gateway_unsent_bytes(s->gateway, conn) < s->config.limits.unsent;
}

static bool
is_ready(void *user, uint64_t conn, struct bytes frame)
{
	return may_step(user, conn, wire_frame_code(frame));
}

static void
step_frame(struct server *s, uint64_t conn, struct bytes frame)
{
	server_step(s, (struct replica_event){.kind = REPLICA_FRAME, .conn = conn, .frame = frame});
}

/* Goes on reading from a client that was held, when half of its frames are processed. */
static void
read_on(struct server *s, const struct queued_frame *taken)
{
	const size_t half = s->config.limits.flood / 2, left = inbox_bytes(&s->inbox, taken->conn);

	if ((taken->conn & GATEWAY_CONN) != 0 && left <= half && left + taken->frame.len > half)
		gateway_hold(s->gateway, taken->conn, false);
}

/* Clients' frames are processed in a part of the turn only: KeepAlives, messages of other replicas
 * and deadlines are handled between two parts. */
static void
read_inbox(struct server *s)
{
	struct queued_frame p;
	mono_t end;

	s->turn_runs = s->turn_over = s->put = false;
	if (s->inbox.bytes == 0)
		return;
	end = mono_add(now_of(s), span_ms(TURN_MS));
	while (!s->left && !s->turn_over && inbox_take(&s->inbox, is_ready, s, &p)) {
		read_on(s, &p);
		step_frame(s, p.conn, p.frame);
		queued_frame_free(&p);
		s->turn_over = mono_reached(now_of(s), end);
	}
}

/* The time in which clients' frames are processed at once begins with the first one of a turn. */
static bool
turn_is_over(struct server *s)
{
	if (s->turn_runs)
		return mono_reached(now_of(s), s->turn_end);
	s->turn_runs = true;
	s->turn_end = MONO_NEVER;
	return false;
}

/* True if the frame must wait in the inbox; a KeepAlive never does. */
static bool
must_wait(struct server *s, uint64_t conn, struct bytes frame)
{
	const unsigned code = wire_frame_code(frame);

	if (code == MSG_keepalive)
		return false;
	return s->inbox.bytes > 0 || turn_is_over(s) || !may_step(s, conn, code);
}

static void
take(struct server *s, uint64_t conn, struct bytes frame)
{
	if (!must_wait(s, conn, frame)) {
		step_frame(s, conn, frame);
		return;
	}
	if (inbox_put(&s->inbox, conn, bytes_copy(frame)) > s->config.limits.flood &&
	    (conn & GATEWAY_CONN) != 0)
		gateway_hold(s->gateway, conn, true);
	s->put = true;
}

/* ---- turns ---- */

void
server_deliver(struct server *s)
{
	if (!TAILQ_EMPTY(&s->clients.outbox))
		local_clients_deliver(&s->clients);
}

void
server_timeout(struct server *s)
{
	s->due = true;
}

/* Handles the deadlines after the input of the turn: a KeepAlive that arrived before the deadline
 * counts, even after a long pause of the whole process. */
static void
take_deadlines(struct server *s)
{
	const mono_t now = s->due ? now_of(s) : (mono_t){0};

	if (!s->due)
		return;
	s->due = false;
	if (mono_reached(now, s->deadline))
		server_step(s, (struct replica_event){.kind = REPLICA_TIMEOUT});
	if (s->gateway == NULL)
		return;
	if (mono_reached(now, gateway_deadline(s->gateway)))
		gateway_timeout(s->gateway, now);
	if (mono_reached(now, state_transfer_deadline(s->transfer)))
		state_transfer_timeout(s->transfer, now);
}

/* While the server is being stopped, the owner gets no other verdicts than SERVER_LEFT. */
static enum server_verdict
verdict(struct server *s)
{
	const enum server_verdict news = s->news;

	s->news = SERVER_GOES_ON;
	if (mono_is_never(s->leave_by))
		return news;
	s->left = s->left || server_has_left(s);
	return s->left ? SERVER_LEFT : SERVER_GOES_ON;
}

enum server_verdict
server_turn(struct server *s)
{
	server_deliver(s);
	read_inbox(s);
	take_deadlines(s);
	server_deliver(s);
	return verdict(s);
}

mono_t
server_deadline(const struct server *s)
{
	const bool leaves = !mono_is_never(s->leave_by);
	mono_t next = mono_min(s->deadline, s->leave_by);

	if (!TAILQ_EMPTY(&s->clients.outbox) || s->due || s->turn_over || s->put ||
	    s->news != SERVER_GOES_ON || (leaves && (s->failed || s->gateway == NULL)))
		return (mono_t){0};
	if (s->failed)
		next = s->leave_by;
	if (s->gateway != NULL) {
		next = mono_min(next, gateway_deadline(s->gateway));
		next = mono_min(next, state_transfer_deadline(s->transfer));
	}
	return next;
}

/* ---- the disk ---- */

void
server_persisted(struct server *s, uint64_t write)
{
	struct queued_frame p;

	if (write == 0)
		return; /* a write of hints only, for which no frame waits */
	must(write >= s->durable);
	s->durable = write;
	while (!TAILQ_EMPTY(&s->gate) && TAILQ_FIRST(&s->gate)->after <= write &&
	       frame_queue_take(&s->gate, &p))
		post(s, p);
	server_step(s, (struct replica_event){.kind = REPLICA_PERSISTED, .write = write});
}

void
server_keep_cell_file(struct server *s, uint64_t saved)
{
	static struct cell_file_replica list[LIMIT_MEMBERS];
	const uint64_t version = tree_members_version(replica_tree(s->replica));
	struct msg_members m;

	if (s->cell_file_writer == NULL || version > saved ||
	    version <= cell_file_writer_version(s->cell_file_writer))
		return;
	m = replica_members(s->replica);
	if (m.version == version)
		cell_file_writer_follow(s->cell_file_writer, version, list,
		                        member_addresses_of(&m.members, list));
}

void
server_saved(struct server *s, uint64_t applied)
{
	server_keep_cell_file(s, applied);
	server_step(s, (struct replica_event){.kind = REPLICA_SAVED, .index = applied});
}

void
server_full(struct server *s, bool full)
{
	if (full)
		server_io_log(&s->io, SERVER_WARN, "%s: no room on the disk; waiting for it",
		              s->config.directory);
	else
		server_io_log(&s->io, SERVER_INFO, "%s: there is room on the disk again",
		              s->config.directory);
	server_step(s, (struct replica_event){.kind = REPLICA_FULL, .on = full});
}

void
server_disk_failed(struct server *s, const char *why)
{
	server_io_log(&s->io, SERVER_ERROR, "%s: %s", s->config.directory, why);
	s->failed = true;
	server_tell(s, SERVER_FAILED);
}

void
server_cell_file_written(struct server *s, enum rc rc, const char *why)
{
	cell_file_writer_written(s->cell_file_writer, rc, why);
}

void
server_copy_made(struct server *s, enum rc rc, uint64_t applied, uint64_t size, const char *why)
{
	state_transfer_made(s->transfer, rc, applied, size, why);
}

void
server_fetch_checked(struct server *s, const char *why)
{
	state_transfer_checked(s->transfer, why);
}

/* ---- clients ---- */

uint64_t
server_connect(struct server *s, const struct server_client *client, const char *principal)
{
	uint64_t conn = local_clients_connect(&s->clients, client);

	server_step(s, (struct replica_event){.kind = REPLICA_CONNECTED,
	                                      .conn = conn,
	                                      .principal = bytes_of(principal)});
	return conn;
}

void
server_send(struct server *s, uint64_t conn, struct bytes frames)
{
	while (frames.len > 0) {
		long len = wire_frame_length(frames);
		struct bytes frame = {frames.data, (size_t)len};

		must(len > 0 && frame.len <= frames.len);
		frames.data += len;
		frames.len -= frame.len;
		take(s, conn, frame);
	}
}

void
server_disconnect(struct server *s, uint64_t conn)
{
	inbox_drop(&s->inbox, conn);
	if (local_clients_disconnect(&s->clients, conn))
		server_step(s, (struct replica_event){.kind = REPLICA_DISCONNECTED, .conn = conn});
}

/* ---- the network ---- */

/* True if the frame is an Accept of the master while writing our state is far behind. It is
 * dropped, since the master repeats it like every lost message. */
static bool
is_too_much(struct server *s, struct bytes frame)
{
	return wire_frame_code(frame) == MSG_accept && behind(s);
}

static void
on_peer(void *user, uint8_t replica, struct bytes frame)
{
	struct server *s = user;

	if (is_too_much(s, frame))
		return;
	if (!state_transfer_peer(s->transfer, replica, gateway_has_member(s->gateway, replica),
	                         frame))
		server_step(s, (struct replica_event){.kind = REPLICA_PEER,
		                                      .peer = replica,
		                                      .frame = frame});
}

void
server_copy_begun(void *user, uint8_t replica)
{
	server_step(user, (struct replica_event){.kind = REPLICA_COPY_BEGUN, .peer = replica});
}

void
server_transfer_send(void *user, uint8_t replica, uint64_t conn, struct bytes frame)
{
	struct server *s = user;

	if (replica != 0)
		gateway_send_peer(s->gateway, replica, frame);
	else
		gateway_send(s->gateway, conn, frame);
}

static void
on_client_connected(void *user, uint64_t conn, const char *principal)
{
	server_step(user, (struct replica_event){.kind = REPLICA_CONNECTED,
	                                         .conn = conn,
	                                         .principal = bytes_of(principal)});
}

static void
on_client_disconnected(void *user, uint64_t conn)
{
	struct server *s = user;

	state_transfer_forget(s->transfer, conn);
	inbox_drop(&s->inbox, conn);
	server_step(s, (struct replica_event){.kind = REPLICA_DISCONNECTED, .conn = conn});
}

static bool
is_admin(const struct server *s, uint64_t conn)
{
	const char *principal = gateway_principal(s->gateway, conn);

	return principal != NULL && tree_is_admin(replica_tree(s->replica), bytes_of(principal));
}

/* Closes the connections of clients that send more than the inbox can hold; a client repeats its
 * requests on a new connection. */
static void
on_client_frame(void *user, uint64_t conn, struct bytes frame)
{
	struct server *s = user;

	if (wire_frame_code(frame) == MSG_state_request &&
	    state_transfer_client(s->transfer, conn, is_admin(s, conn), frame))
		return;
	if (s->inbox.bytes <= s->config.limits.inbox || !must_wait(s, conn, frame)) {
		take(s, conn, frame);
		return;
	}
	gateway_close(s->gateway, conn);
	on_client_disconnected(s, conn);
}

const struct gateway_callbacks server_gateway_callbacks = {
    .peer = on_peer,
    .connected = on_client_connected,
    .frame = on_client_frame,
    .disconnected = on_client_disconnected,
};

bool
server_opened(struct server *s, uint64_t conn, enum channel_role role, const uint8_t key[NOISE_KEY])
{
	return gateway_opened(s->gateway, conn, role, key);
}

void
server_frame(struct server *s, uint64_t conn, struct bytes frame)
{
	gateway_frame(s->gateway, conn, frame);
}

void
server_closed(struct server *s, uint64_t conn, const char *why)
{
	gateway_closed(s->gateway, conn, why);
}

const struct replica *
server_replica(const struct server *s)
{
	return s->replica;
}
