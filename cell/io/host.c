/* The host's order of business. Whatever happens (a client's frame, a record that became durable, a
 * deadline) is one step of the replica; its records go to the store, its messages out as soon as
 * what they wait for is durable. Frames for clients are put into a queue and delivered at the end
 * of the loop's turn: neither a client's call nor a step ever happens within another.
 *
 * An answer must not cost a wake-up of its own: the queue is emptied by a check handle (behind the
 * poll, where most work comes from) and a prepare handle (before it); as long as something is in
 * it, an idle handle keeps the loop from falling asleep. */
#include "cell/io/host_state.h"

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
host_stay_awake(struct host *h)
{
	must(uv_idle_start(&h->idle, on_idle) == 0);
}

/* What leaves by the network is on its way at once: that calls nobody. */
static void
post(struct host *h, struct parcel parcel)
{
	if (parcel.peer != 0) {
		gateway_send_peer(h->gateway, parcel.peer, parcel.frame);
	} else if ((parcel.conn & GATEWAY_CONN) == 0) {
		local_post(&h->local, parcel);
		host_stay_awake(h);
		return;
	} else if (parcel.close) {
		gateway_close(h->gateway, parcel.conn);
	} else {
		gateway_send(h->gateway, parcel.conn, parcel.frame);
	}
	parcel_free(&parcel);
}

/* ---- steps ---- */

static void on_timer(uv_timer_t *timer);

/* libuv's clock only wakes us; what is due is decided by ours. A timer that is set for earlier is
 * left alone: waking once too early is cheaper than setting it anew at every step. */
void
host_arm(struct host *h, mono_t now)
{
	mono_t deadline = mono_min(replica_deadline(h->replica), h->leave_by);
	int64_t left = mono_since(deadline, now).ns;

	if (mono_is_never(deadline) ||
	    (!mono_is_never(h->armed) && !mono_before(deadline, h->armed)))
		return;
	h->armed = deadline;
	uv_update_time(h->timer.loop);
	must(uv_timer_start(&h->timer, on_timer, left <= 0 ? 0 : (uint64_t)(left / 1000000 + 1),
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
send_one(struct host *h, struct replica_send *send)
{
	struct parcel parcel = {.conn = send->conn, .after = send->after, .frame = send->frame};

	if (send->to_peer)
		parcel.peer = send->peer;
	must(parcel.peer == 0 || h->gateway != NULL);
	send->frame = (struct bytes){NULL, 0};
	if (send->after > h->durable)
		parcel_put(&h->gate, parcel);
	else
		post(h, parcel);
}

void
host_follow_members(struct host *h)
{
	static struct cell_file_replica list[LIMIT_MEMBERS];
	const struct msg_members m = replica_members(h->replica);

	gateway_set_members(h->gateway, m.version, list, member_addresses_of(&m.members, list));
}

/* What was computed here differs from what a quorum has. */
static void
begin_anew(struct host *h)
{
	log_error("%s: the state differs from that of the other replicas: sets it aside and copies "
	          "one of theirs", h->directory);
	h->failed = true;
	h->set_state_aside = true;
	host_tell(h, HOST_RESTART);
}

/* One that was removed has no vote either, before it knows that it is expelled. */
static bool
is_removed(const struct host *h)
{
	const uint8_t self = h->identity.replica;
	struct member m;

	return tree_member_after(replica_tree(h->replica), (uint8_t)(self - 1), &m) &&
	       m.id == self && m.role == MEMBER_REMOVED;
}

static void
follow_condition(struct host *h)
{
	const enum replica_condition now = replica_condition(h->replica);
	const unsigned self = h->identity.replica;

	if (now == h->condition)
		return;
	h->condition = now;
	if (now == CONDITION_VOTING)
		log_info("replica %u has a vote", self);
	else if (now == CONDITION_LEARNER && !is_removed(h))
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
		host_tell(h, HOST_FAILED);
}

static void
carry_out(struct host *h, struct replica_update *u)
{
	if (u->records_n > 0)
		store_log(h->store, u->ticket, u->records, u->records_n);
	if (u->rows.n > 0)
		store_state(h->store, u->applied, &u->rows);
	for (size_t i = 0; i < u->sends_n; i++)
		send_one(h, &u->sends[i]);
	for (size_t i = 0; i < u->closes_n; i++)
		post(h, (struct parcel){.conn = u->closes[i], .close = true});
	trace(&u->trace);
	if (u->diverged)
		begin_anew(h);
	if (h->gateway != NULL && u->members_changed)
		host_follow_members(h);
	if (h->exchange != NULL)
		exchange_need(h->exchange, u->behind);
}

/* While a step lasts nobody is heard: neither a KeepAlive nor another replica. */
static void
count_step(struct host *h, span_t took)
{
	uint64_t us = (uint64_t)(took.ns / 1000);

	if (us > h->times.longest_us)
		h->times.longest_us = us;
	h->times.slow += us > STEP_SLOW_MS * 1000;
}

void
host_step(struct host *h, struct replica_event event)
{
	must(!h->stepping && h->started);
	if (h->failed || h->stopping)
		return;
	h->stepping = true;
	event.now = clock_now();
	event.wall_ns = clock_wall_ns();
	event.times = h->times;
	replica_step(h->replica, &event, &h->update);
	carry_out(h, &h->update);
	follow_condition(h);
	host_arm(h, event.now);
	count_step(h, mono_since(clock_now(), event.now));
	h->stepping = false;
}

void
host_tell(struct host *h, enum host_news news)
{
	if (h->news != HOST_FAILED)
		h->news = news;
	host_stay_awake(h);
}

/* ---- the inbox ---- */

static bool
behind(struct host *h)
{
	return store_state_queued(h->store) > STORE_QUEUE_HIGH ||
	       replica_backlog(h->replica) > BACKLOG_HIGH;
}

/* While log or state.db are far behind, what may change them waits; and a client that does not read
 * its replies is not given more of them. */
static bool
is_ready(void *user, uint64_t conn, struct bytes frame)
{
	struct host *h = user;

	if (wire_frame_code(frame) == MSG_request && behind(h))
		return false;
	return (conn & GATEWAY_CONN) == 0 || gateway_unsent_bytes(h->gateway, conn) < UNSENT_HIGH;
}

static void
step_frame(struct host *h, uint64_t conn, struct bytes frame)
{
	host_step(h, (struct replica_event){.kind = REPLICA_FRAME, .conn = conn, .frame = frame});
}

/* Requests take turns, and all of them a part of the loop's turn only: between two of them come
 * KeepAlives, other replicas, and what is due. */
static void
read_inbox(struct host *h)
{
	const mono_t end = mono_add(clock_now(), span_ms(TURN_MS));
	struct parcel p;

	h->turn_runs = h->turn_over = false;
	while (!h->stopping && !h->turn_over && inbox_take(&h->inbox, is_ready, h, &p)) {
		if ((p.conn & GATEWAY_CONN) != 0 && inbox_bytes(&h->inbox, p.conn) <= FLOOD / 2 &&
		    inbox_bytes(&h->inbox, p.conn) + p.frame.len > FLOOD / 2)
			gateway_hold(h->gateway, p.conn, false);
		step_frame(h, p.conn, p.frame);
		parcel_free(&p);
		h->turn_over = mono_reached(clock_now(), end);
	}
}

static bool
turn_is_over(struct host *h)
{
	const mono_t now = clock_now();

	if (!h->turn_runs)
		h->turn_end = mono_add(now, span_ms(TURN_MS));
	h->turn_runs = true;
	return mono_reached(now, h->turn_end);
}

/* A KeepAlive never waits. */
static bool
must_wait(struct host *h, uint64_t conn, struct bytes frame)
{
	if (wire_frame_code(frame) == MSG_keepalive)
		return false;
	return !inbox_empty(&h->inbox) || turn_is_over(h) || !is_ready(h, conn, frame);
}

static void
take(struct host *h, uint64_t conn, struct bytes frame)
{
	if (!must_wait(h, conn, frame)) {
		step_frame(h, conn, frame);
		return;
	}
	if (inbox_put(&h->inbox, conn, bytes_copy(frame)) > FLOOD && (conn & GATEWAY_CONN) != 0)
		gateway_hold(h->gateway, conn, true);
	host_stay_awake(h);
}

/* ---- the loop's calls ---- */

/* The deadline's step is taken behind the poll, not here: a client's KeepAlive that had arrived by
 * then is heard first, also after a long pause of the whole process. */
static void
on_timer(uv_timer_t *timer)
{
	struct host *h = timer->data;

	h->armed = MONO_NEVER;
	h->due = true;
	host_stay_awake(h);
}

static void
take_deadline(struct host *h)
{
	mono_t now = clock_now();

	if (!h->due)
		return;
	h->due = false;
	if (mono_reached(now, replica_deadline(h->replica)))
		host_step(h, (struct replica_event){.kind = REPLICA_TIMEOUT});
	else if (!h->failed)
		host_arm(h, now);
}

static void
rest(struct host *h)
{
	if (TAILQ_EMPTY(&h->local.outbox) && !h->due && !h->turn_over &&
	    h->news == HOST_NO_NEWS)
		must(uv_idle_stop(&h->idle) == 0);
}

/* Who was told to stop already need not hear why it should. */
static void
deliver_news(struct host *h)
{
	const enum host_news news = h->news;
	void *user = h->config.user;

	h->news = HOST_NO_NEWS;
	if (!mono_is_never(h->leave_by))
		return;
	if (news == HOST_RESTART && h->config.restart != NULL)
		h->config.restart(user);
	else if (news != HOST_NO_NEWS && h->config.failed != NULL)
		h->config.failed(user);
}

static void
on_prepare(uv_prepare_t *handle)
{
	struct host *h = handle->data;

	local_deliver(&h->local);
	if (!h->stopping)
		rest(h);
}

static void
on_check(uv_check_t *handle)
{
	struct host *h = handle->data;

	local_deliver(&h->local);
	if (h->stopping)
		return;
	read_inbox(h);
	take_deadline(h);
	local_deliver(&h->local);
	if (!h->stopping)
		rest(h);
	if (!h->stopping)
		host_stop_if_left(h);
	if (!h->stopping)
		deliver_news(h);
}

/* ---- the store's calls ---- */

static void
on_persisted(void *user, uint64_t ticket)
{
	struct host *h = user;
	struct parcel p;

	if (ticket == 0)
		return; /* hints, which nobody waits for */
	must(ticket >= h->durable);
	h->durable = ticket;
	while (!TAILQ_EMPTY(&h->gate) && TAILQ_FIRST(&h->gate)->after <= ticket &&
	       parcel_take(&h->gate, &p))
		post(h, p);
	host_step(h, (struct replica_event){.kind = REPLICA_PERSISTED, .ticket = ticket});
}

void
host_keep_cell_file(struct host *h, uint64_t saved)
{
	static struct cell_file_replica list[LIMIT_MEMBERS];
	const uint64_t version = tree_members_version(replica_tree(h->replica));
	struct msg_members m;

	if (h->cell_file_writer == NULL || version > saved ||
	    version <= cell_file_writer_version(h->cell_file_writer))
		return;
	m = replica_members(h->replica);
	if (m.version == version)
		cell_file_writer_follow(h->cell_file_writer, version, list,
		                        member_addresses_of(&m.members, list));
}

static void
on_saved(void *user, uint64_t applied)
{
	host_keep_cell_file(user, applied);
	host_step(user, (struct replica_event){.kind = REPLICA_SAVED, .index = applied});
}

static void
on_full(void *user, bool full)
{
	struct host *h = user;

	if (full)
		log_warn("%s: no room on the disk; waiting for it", h->directory);
	else
		log_info("%s: there is room on the disk again", h->directory);
	host_step(h, (struct replica_event){.kind = REPLICA_FULL, .on = full});
}

static void
on_failed(void *user, const char *why)
{
	struct host *h = user;

	log_error("%s: %s", h->directory, why);
	h->failed = true;
	if (!h->stopping)
		host_tell(h, HOST_FAILED);
}

const struct store_callbacks host_store_callbacks = {
	.persisted = on_persisted, .saved = on_saved, .full = on_full, .failed = on_failed,
};

/* ---- clients ---- */

uint64_t
host_connect(struct host *h, const struct host_client *client, const char *principal)
{
	uint64_t conn = local_connect(&h->local, client);

	host_step(h, (struct replica_event){
	            .kind = REPLICA_CONNECTED, .conn = conn, .principal = bytes_of(principal)});
	return conn;
}

void
host_send(struct host *h, uint64_t conn, struct bytes frames)
{
	while (frames.len > 0) {
		long len = wire_frame_length(frames);
		struct bytes frame = {frames.data, (size_t)len};

		must(len > 0 && frame.len <= frames.len);
		frames.data += len;
		frames.len -= frame.len;
		if (!local_has(&h->local, conn))
			return;
		take(h, conn, frame);
	}
}

void
host_disconnect(struct host *h, uint64_t conn)
{
	inbox_drop(&h->inbox, conn);
	if (local_disconnect(&h->local, conn))
		host_step(h, (struct replica_event){.kind = REPLICA_DISCONNECTED, .conn = conn});
}

/* ---- the network's calls ---- */

/* Likewise what the master proposes, while our own state.db is far behind: it comes again, as any
 * message does that is lost. */
static bool
is_too_much(struct host *h, struct bytes frame)
{
	return wire_frame_code(frame) == MSG_accept && behind(h);
}

static void
on_peer(void *user, uint8_t replica, struct bytes frame)
{
	struct host *h = user;

	if (is_too_much(h, frame))
		return;
	if (!exchange_peer(h->exchange, replica, gateway_has_member(h->gateway, replica), frame))
		host_step(h, (struct replica_event){
		                 .kind = REPLICA_PEER, .peer = replica, .frame = frame});
}

void
host_copy_begun(void *user, uint8_t replica)
{
	host_step(user, (struct replica_event){.kind = REPLICA_COPY_BEGUN, .peer = replica});
}

void
host_exchange_send(void *user, uint8_t replica, uint64_t conn, struct bytes frame)
{
	struct host *h = user;

	if (replica != 0)
		gateway_send_peer(h->gateway, replica, frame);
	else
		gateway_send(h->gateway, conn, frame);
}

static void
on_client_connected(void *user, uint64_t conn, const char *principal)
{
	host_step(user, (struct replica_event){.kind = REPLICA_CONNECTED, .conn = conn,
	                                       .principal = bytes_of(principal)});
}

static void
on_client_disconnected(void *user, uint64_t conn)
{
	struct host *h = user;

	exchange_forget(h->exchange, conn);
	inbox_drop(&h->inbox, conn);
	host_step(h, (struct replica_event){.kind = REPLICA_DISCONNECTED, .conn = conn});
}

static bool
is_admin(const struct host *h, uint64_t conn)
{
	const char *principal = gateway_principal(h->gateway, conn);

	return principal != NULL && tree_is_admin(replica_tree(h->replica), bytes_of(principal));
}

/* Whoever sends more than can be taken comes again and sends it again. */
static void
on_client_frame(void *user, uint64_t conn, struct bytes frame)
{
	struct host *h = user;

	if (wire_frame_code(frame) == MSG_copy_request &&
	    exchange_client(h->exchange, conn, is_admin(h, conn), frame))
		return;
	if (h->inbox.bytes <= INBOX_MAX || !must_wait(h, conn, frame)) {
		take(h, conn, frame);
		return;
	}
	gateway_close(h->gateway, conn);
	on_client_disconnected(h, conn);
}

const struct gateway_callbacks host_gateway_callbacks = {
	.peer = on_peer, .connected = on_client_connected, .frame = on_client_frame,
	.disconnected = on_client_disconnected,
};

/* ---- handles ---- */

void
host_start_handles(struct host *h, uv_loop_t *loop)
{
	must(uv_timer_init(loop, &h->timer) == 0);
	must(uv_prepare_init(loop, &h->prepare) == 0);
	must(uv_check_init(loop, &h->check) == 0);
	must(uv_idle_init(loop, &h->idle) == 0);
	h->timer.data = h->prepare.data = h->check.data = h->idle.data = h;
	must(uv_prepare_start(&h->prepare, on_prepare) == 0);
	must(uv_check_start(&h->check, on_check) == 0);
}
