/* The server's order of business. Whatever happens (a client's frame, a record that became durable,
 * a deadline) is one step of the replica; its records go to the store, its messages out as soon as
 * what they wait for is durable. Frames for clients are put into a queue and delivered at the end
 * of the loop's turn: neither a client's call nor a step ever happens within another.
 *
 * An answer must not cost a wake-up of its own: the queue is emptied by a check handle (behind the
 * poll, where most work comes from) and a prepare handle (before it); as long as something is in
 * it, an idle handle keeps the loop from falling asleep. */
#include "cell/server/internal.h"

#include <stdlib.h>
#include <string.h>

#include "cell/base/must.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"
#include "cell/config/member_addresses.h"
#include "cell/wire/codec.h"

enum {
	BACKLOG_HIGH = 32 * 1024 * 1024, /* bytes of requests that wait for the log */
	INBOX_MAX = 256 * 1024 * 1024,   /* of those that are not begun yet */
	FLOOD = 6 * 1024 * 1024,         /* of one connection; a client may have 4 MiB in flight */
	UNSENT_HIGH = 4 * 1024 * 1024,   /* of replies: further requests wait for their leaving */
	TURN_MS = 4,                     /* of a turn of the loop, for clients' requests */
	STEP_SLOW_MS = 10,
};

/* ---- delivery ---- */

static void
on_idle(uv_idle_t *handle)
{
	(void)handle; /* that it runs is all that is wanted: the loop does not sleep */
}

void
server_stay_awake(struct server *s)
{
	must(uv_idle_start(&s->idle, on_idle) == 0);
}

/* What leaves by the network is on its way at once: that calls nobody. */
static void
post(struct server *s, struct queued_frame queued)
{
	if (queued.peer != 0) {
		gateway_send_peer(s->gateway, queued.peer, queued.frame);
	} else if ((queued.conn & GATEWAY_CONN) == 0) {
		local_clients_post(&s->clients, queued);
		server_stay_awake(s);
		return;
	} else if (queued.close) {
		gateway_close(s->gateway, queued.conn);
	} else {
		gateway_send(s->gateway, queued.conn, queued.frame);
	}
	queued_frame_free(&queued);
}

/* ---- steps ---- */

static void on_timer(uv_timer_t *timer);

/* libuv's clock only wakes us; what is due is decided by ours. A timer that is set for earlier is
 * left alone: waking once too early is cheaper than setting it anew at every step. */
void
server_arm(struct server *s, mono_t now)
{
	mono_t deadline = mono_min(replica_deadline(s->replica), s->leave_by);
	int64_t left = mono_since(deadline, now).ns;

	if (mono_is_never(deadline) ||
	    (!mono_is_never(s->armed) && !mono_before(deadline, s->armed)))
		return;
	s->armed = deadline;
	uv_update_time(s->timer.loop);
	must(uv_timer_start(&s->timer, on_timer, left <= 0 ? 0 : (uint64_t)(left / 1000000 + 1),
	                    0) == 0);
}

static void
trace(struct buffer *text)
{
	char *line, *rest;

	if (text->len == 0)
		return;
	buffer_put_u8(text, 0);
	rest = (char *)text->data;
	while ((line = strsep(&rest, "\n")) != NULL) {
		if (*line != '\0')
			log_info("%s", line);
	}
}

static void
send_one(struct server *s, struct replica_send *send)
{
	struct queued_frame queued = {
	    .conn = send->conn, .after = send->after, .frame = send->frame};

	if (send->to_peer)
		queued.peer = send->peer;
	must(queued.peer == 0 || s->gateway != NULL);
	send->frame = (struct bytes){NULL, 0};
	if (send->after > s->durable)
		frame_queue_put(&s->gate, queued);
	else
		post(s, queued);
}

void
server_follow_members(struct server *s)
{
	static struct cell_file_replica list[LIMIT_MEMBERS];
	const struct msg_members m = replica_members(s->replica);

	gateway_set_members(s->gateway, m.version, list, member_addresses_of(&m.members, list));
}

/* What was computed here differs from what a quorum has. */
static void
begin_anew(struct server *s)
{
	log_error("%s: the state differs from that of the other replicas: sets it aside and copies "
	          "one of theirs", s->directory);
	s->failed = true;
	s->set_state_aside = true;
	server_tell(s, SERVER_RESTART);
}

/* One that was removed has no vote either, before it knows that it is expelled. */
static bool
is_removed(const struct server *s)
{
	const uint8_t self = s->identity.replica;
	struct member m;

	return tree_member_after(replica_tree(s->replica), (uint8_t)(self - 1), &m) &&
	       m.id == self && m.role == MEMBER_REMOVED;
}

static void
follow_condition(struct server *s)
{
	const enum replica_condition now = replica_condition(s->replica);
	const unsigned self = s->identity.replica;

	if (now == s->condition)
		return;
	s->condition = now;
	if (now == CONDITION_VOTING)
		log_info("replica %u has a vote", self);
	else if (now == CONDITION_LEARNER && !is_removed(s))
		log_info("replica %u is a learner: it gets a vote when it has caught up", self);
	else if (now == CONDITION_REPAIRING)
		log_warn("replica %u lacks part of its log or of its state, which comes from the "
		         "others", self);
	else if (now == CONDITION_LOST)
		log_error("the data of replica %u is older than what it has told others: it has no "
		          "vote any more; remove it and add a new one (lsctl replica remove %u; "
		          "lsctl replica add ...)", self, self);
	else if (now == CONDITION_ALONE)
		log_warn("replica %u has known of no master for 10 s: is it cut off, are the "
		         "others down, or is it no member any more?", self);
	else if (now == CONDITION_EXPELLED)
		log_error("replica %u is not a member of this cell any more", self);
	if (now == CONDITION_EXPELLED)
		server_tell(s, SERVER_FAILED);
}

static void
carry_out(struct server *s, struct replica_update *u)
{
	if (u->records_n > 0)
		store_log(s->store, u->write, u->records, u->records_n);
	if (u->rows.n > 0)
		store_state(s->store, u->applied, &u->rows);
	for (size_t i = 0; i < u->sends_n; i++)
		send_one(s, &u->sends[i]);
	for (size_t i = 0; i < u->closes_n; i++)
		post(s, (struct queued_frame){.conn = u->closes[i], .close = true});
	trace(&u->trace);
	if (u->diverged)
		begin_anew(s);
	if (s->gateway != NULL && u->members_changed)
		server_follow_members(s);
	if (s->transfer != NULL)
		state_transfer_need(s->transfer, u->behind);
}

/* While a step lasts nobody is heard: neither a KeepAlive nor another replica. */
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
	must(!s->stepping && s->started);
	if (s->failed || s->stopping)
		return;
	s->stepping = true;
	event.now = clock_now();
	event.wall_ns = clock_wall_ns();
	event.times = s->times;
	replica_step(s->replica, &event, &s->update);
	carry_out(s, &s->update);
	follow_condition(s);
	server_arm(s, event.now);
	count_step(s, mono_since(clock_now(), event.now));
	s->stepping = false;
}

void
server_tell(struct server *s, enum server_news news)
{
	if (s->news != SERVER_FAILED)
		s->news = news;
	server_stay_awake(s);
}

/* ---- the inbox ---- */

static bool
behind(struct server *s)
{
	return store_state_queued(s->store) > STORE_QUEUE_HIGH ||
	       replica_backlog(s->replica) > BACKLOG_HIGH;
}

/* While log or state.db are far behind, what may change them waits; and a client that does not read
 * its replies is not given more of them. */
static bool
is_ready(void *user, uint64_t conn, struct bytes frame)
{
	struct server *s = user;

	if (wire_frame_code(frame) == MSG_request && behind(s))
		return false;
	return (conn & GATEWAY_CONN) == 0 || gateway_unsent_bytes(s->gateway, conn) < UNSENT_HIGH;
}

static void
step_frame(struct server *s, uint64_t conn, struct bytes frame)
{
	server_step(s, (struct replica_event){.kind = REPLICA_FRAME, .conn = conn, .frame = frame});
}

/* Requests take turns, and all of them a part of the loop's turn only: between two of them come
 * KeepAlives, other replicas, and what is due. */
static void
read_inbox(struct server *s)
{
	const mono_t end = mono_add(clock_now(), span_ms(TURN_MS));
	struct queued_frame p;

	s->turn_runs = s->turn_over = false;
	while (!s->stopping && !s->turn_over && inbox_take(&s->inbox, is_ready, s, &p)) {
		if ((p.conn & GATEWAY_CONN) != 0 && inbox_bytes(&s->inbox, p.conn) <= FLOOD / 2 &&
		    inbox_bytes(&s->inbox, p.conn) + p.frame.len > FLOOD / 2)
			gateway_hold(s->gateway, p.conn, false);
		step_frame(s, p.conn, p.frame);
		queued_frame_free(&p);
		s->turn_over = mono_reached(clock_now(), end);
	}
}

static bool
turn_is_over(struct server *s)
{
	const mono_t now = clock_now();

	if (!s->turn_runs)
		s->turn_end = mono_add(now, span_ms(TURN_MS));
	s->turn_runs = true;
	return mono_reached(now, s->turn_end);
}

/* A KeepAlive never waits. */
static bool
must_wait(struct server *s, uint64_t conn, struct bytes frame)
{
	if (wire_frame_code(frame) == MSG_keepalive)
		return false;
	return !inbox_empty(&s->inbox) || turn_is_over(s) || !is_ready(s, conn, frame);
}

static void
take(struct server *s, uint64_t conn, struct bytes frame)
{
	if (!must_wait(s, conn, frame)) {
		step_frame(s, conn, frame);
		return;
	}
	if (inbox_put(&s->inbox, conn, bytes_copy(frame)) > FLOOD && (conn & GATEWAY_CONN) != 0)
		gateway_hold(s->gateway, conn, true);
	server_stay_awake(s);
}

/* ---- the loop's calls ---- */

/* The deadline's step is taken behind the poll, not here: a client's KeepAlive that had arrived by
 * then is heard first, also after a long pause of the whole process. */
static void
on_timer(uv_timer_t *timer)
{
	struct server *s = timer->data;

	s->armed = MONO_NEVER;
	s->due = true;
	server_stay_awake(s);
}

static void
take_deadline(struct server *s)
{
	mono_t now = clock_now();

	if (!s->due)
		return;
	s->due = false;
	if (mono_reached(now, replica_deadline(s->replica)))
		server_step(s, (struct replica_event){.kind = REPLICA_TIMEOUT});
	else if (!s->failed)
		server_arm(s, now);
}

static void
rest(struct server *s)
{
	if (TAILQ_EMPTY(&s->clients.outbox) && !s->due && !s->turn_over &&
	    s->news == SERVER_NO_NEWS)
		must(uv_idle_stop(&s->idle) == 0);
}

/* Who was told to stop already need not hear why it should. */
static void
deliver_news(struct server *s)
{
	const enum server_news news = s->news;
	void *user = s->config.user;

	s->news = SERVER_NO_NEWS;
	if (!mono_is_never(s->leave_by))
		return;
	if (news == SERVER_RESTART && s->config.restart != NULL)
		s->config.restart(user);
	else if (news != SERVER_NO_NEWS && s->config.failed != NULL)
		s->config.failed(user);
}

static void
on_prepare(uv_prepare_t *handle)
{
	struct server *s = handle->data;

	local_clients_deliver(&s->clients);
	if (!s->stopping)
		rest(s);
}

static void
on_check(uv_check_t *handle)
{
	struct server *s = handle->data;

	local_clients_deliver(&s->clients);
	if (s->stopping)
		return;
	read_inbox(s);
	take_deadline(s);
	local_clients_deliver(&s->clients);
	if (!s->stopping)
		rest(s);
	if (!s->stopping)
		server_stop_if_left(s);
	if (!s->stopping)
		deliver_news(s);
}

/* ---- the store's calls ---- */

static void
on_persisted(void *user, uint64_t write)
{
	struct server *s = user;
	struct queued_frame p;

	if (write == 0)
		return; /* hints, which nobody waits for */
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

static void
on_saved(void *user, uint64_t applied)
{
	server_keep_cell_file(user, applied);
	server_step(user, (struct replica_event){.kind = REPLICA_SAVED, .index = applied});
}

static void
on_full(void *user, bool full)
{
	struct server *s = user;

	if (full)
		log_warn("%s: no room on the disk; waiting for it", s->directory);
	else
		log_info("%s: there is room on the disk again", s->directory);
	server_step(s, (struct replica_event){.kind = REPLICA_FULL, .on = full});
}

static void
on_failed(void *user, const char *why)
{
	struct server *s = user;

	log_error("%s: %s", s->directory, why);
	s->failed = true;
	if (!s->stopping)
		server_tell(s, SERVER_FAILED);
}

const struct store_callbacks server_store_callbacks = {
	.persisted = on_persisted, .saved = on_saved, .full = on_full, .failed = on_failed,
};

/* ---- clients ---- */

uint64_t
server_connect(struct server *s, const struct server_client *client, const char *principal)
{
	uint64_t conn = local_clients_connect(&s->clients, client);

	server_step(s, (struct replica_event){
	            .kind = REPLICA_CONNECTED, .conn = conn, .principal = bytes_of(principal)});
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
		if (!local_clients_has(&s->clients, conn))
			return;
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

/* ---- the network's calls ---- */

/* Likewise what the master proposes, while our own state.db is far behind: it comes again, as any
 * message does that is lost. */
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
		server_step(s, (struct replica_event){
		                   .kind = REPLICA_PEER, .peer = replica, .frame = frame});
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
	server_step(user, (struct replica_event){.kind = REPLICA_CONNECTED, .conn = conn,
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

/* Whoever sends more than can be taken comes again and sends it again. */
static void
on_client_frame(void *user, uint64_t conn, struct bytes frame)
{
	struct server *s = user;

	if (wire_frame_code(frame) == MSG_copy_request &&
	    state_transfer_client(s->transfer, conn, is_admin(s, conn), frame))
		return;
	if (s->inbox.bytes <= INBOX_MAX || !must_wait(s, conn, frame)) {
		take(s, conn, frame);
		return;
	}
	gateway_close(s->gateway, conn);
	on_client_disconnected(s, conn);
}

const struct gateway_callbacks server_gateway_callbacks = {
	.peer = on_peer, .connected = on_client_connected, .frame = on_client_frame,
	.disconnected = on_client_disconnected,
};

/* ---- handles ---- */

void
server_start_handles(struct server *s, uv_loop_t *loop)
{
	must(uv_timer_init(loop, &s->timer) == 0);
	must(uv_prepare_init(loop, &s->prepare) == 0);
	must(uv_check_init(loop, &s->check) == 0);
	must(uv_idle_init(loop, &s->idle) == 0);
	s->timer.data = s->prepare.data = s->check.data = s->idle.data = s;
	must(uv_prepare_start(&s->prepare, on_prepare) == 0);
	must(uv_check_start(&s->check, on_check) == 0);
}
