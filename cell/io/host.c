/* The host's order of business. Whatever happens (a client's frame, a record that became durable, a
 * deadline) is one step of the replica; its records go to the store, its messages out as soon as
 * what they wait for is durable. Frames for clients are put into a queue and delivered at the end
 * of the loop's turn: neither a client's call nor a step ever happens within another.
 *
 * An answer must not cost a wake-up of its own: the queue is emptied by a check handle (behind the
 * poll, where most work comes from) and a prepare handle (before it); as long as something is in
 * it, an idle handle keeps the loop from falling asleep. */
#include "cell/io/host.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/io/clock.h"
#include "cell/io/gateway.h"
#include "cell/io/identity.h"
#include "cell/io/local.h"
#include "cell/io/log.h"
#include "cell/io/store.h"
#include "cell/replica.h"
#include "cell/wire/codec.h"

enum {
	MASTER_LEASE_MS = 500,
	HEARTBEAT_MS = 100,
	DRIFT_PERMILLE = 10,
	LOOP_HANDLES = 4,
	LEAVE_MS = 2000, /* to hand the mastership over and to send what waits for the log */
};

enum { INBOX_MAX = 64 * 1024 * 1024 }; /* bytes of requests that are not read yet */

struct host {
	char *directory;
	struct identity identity;
	struct host_config config;
	struct replica_config replica_config;
	struct store *store;
	struct tree *tree;             /* until the replica has it */
	struct px_recovered recovered; /* likewise */
	struct replica *replica;
	struct replica_update update;
	struct gateway *gateway;       /* NULL: a cell in one process */
	bool stepping, started, stopping, failed;
	mono_t leave_by;               /* about to stop: until then at most; else MONO_NEVER */

	struct local local;         /* clients in this process, and what is to be delivered */
	struct parcel_list gate;    /* until their tickets are durable; tickets never fall */
	struct parcel_list inbox;   /* clients' requests, while state.db is behind */
	size_t inbox_bytes;
	uint64_t durable;           /* the last ticket that is */

	uv_timer_t timer;
	uv_prepare_t prepare;
	uv_check_t check;
	uv_idle_t idle;
	mono_t armed;               /* for when the timer is set */
	bool due;
	int open_handles;
	void (*stopped)(void *user);
	void *stopped_user;
};

/* ---- delivery ---- */

static void
on_idle(uv_idle_t *handle)
{
	(void)handle; /* that it runs is all that is wanted: the loop does not sleep */
}

static void
stay_awake(struct host *h)
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
		stay_awake(h);
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
static void
arm(struct host *h, mono_t now)
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
}

static void
step(struct host *h, struct replica_event event)
{
	must(!h->stepping && h->started);
	if (h->failed || h->stopping)
		return;
	h->stepping = true;
	event.now = clock_now();
	event.wall_ns = clock_wall_ns();
	replica_step(h->replica, &event, &h->update);
	carry_out(h, &h->update);
	arm(h, event.now);
	h->stepping = false;
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
	stay_awake(h);
}

static void
take_deadline(struct host *h)
{
	mono_t now = clock_now();

	if (!h->due)
		return;
	h->due = false;
	if (mono_reached(now, replica_deadline(h->replica)))
		step(h, (struct replica_event){.kind = REPLICA_TIMEOUT});
	else if (!h->failed)
		arm(h, now);
}

static void stop_if_left(struct host *h);

static void
rest(struct host *h)
{
	if (TAILQ_EMPTY(&h->local.outbox) && !h->due)
		must(uv_idle_stop(&h->idle) == 0);
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
	take_deadline(h);
	local_deliver(&h->local);
	if (!h->stopping)
		rest(h);
	if (!h->stopping)
		stop_if_left(h);
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
	step(h, (struct replica_event){.kind = REPLICA_PERSISTED, .ticket = ticket});
}

static bool
behind(struct host *h)
{
	return store_state_queued(h->store) > STORE_QUEUE_HIGH;
}

static void
on_saved(void *user, uint64_t applied)
{
	struct host *h = user;
	struct parcel p;

	step(h, (struct replica_event){.kind = REPLICA_SAVED, .index = applied});
	while (!behind(h) && parcel_take(&h->inbox, &p)) {
		h->inbox_bytes -= p.frame.len;
		step(h, (struct replica_event){
		            .kind = REPLICA_FRAME, .conn = p.conn, .frame = p.frame});
		parcel_free(&p);
	}
}

static void
on_full(void *user, bool full)
{
	struct host *h = user;

	if (full)
		log_warn("%s: no room on the disk; waiting for it", h->directory);
	else
		log_info("%s: there is room on the disk again", h->directory);
}

static void
on_failed(void *user, const char *why)
{
	struct host *h = user;

	log_error("%s: %s", h->directory, why);
	h->failed = true;
	if (h->config.failed != NULL && !h->stopping)
		h->config.failed(h->config.user);
}

/* ---- opening ---- */

static void
configure(struct host *h)
{
	struct px_config *paxos = &h->replica_config.paxos;
	struct master_config *master = &h->replica_config.master;
	const struct conf *conf = &h->identity.conf;

	paxos->self = h->identity.replica;
	paxos->members.n = conf->replicas_n;
	for (int i = 0; i < conf->replicas_n; i++)
		paxos->members.list[i] = (struct px_member){conf->replicas[i].id, true};
	paxos->lease = span_ms(MASTER_LEASE_MS);
	paxos->heartbeat = span_ms(HEARTBEAT_MS);
	paxos->drift_permille = DRIFT_PERMILLE;
	random_fill(&paxos->start, sizeof paxos->start);
	random_fill(&paxos->seed, sizeof paxos->seed);
	master->cell = conf->name;
	memcpy(master->signing_key, h->identity.signing, sizeof master->signing_key);
	master->session_lease = span_ms(DEFAULT_SESSION_LEASE_MS);
	master->cache_lease = span_ms(DEFAULT_CACHE_LEASE_MS);
	master->drift_permille = DRIFT_PERMILLE;
}

static void
host_free(struct host *h)
{
	if (h->replica != NULL)
		replica_free(h->replica);
	else if (h->tree != NULL)
		tree_free(h->tree);
	store_recovered_free(&h->recovered);
	replica_update_free(&h->update);
	parcels_free(&h->gate);
	parcels_free(&h->inbox);
	local_clear(&h->local);
	sodium_memzero(&h->replica_config, sizeof h->replica_config);
	identity_forget(&h->identity);
	free(h->directory);
	free(h);
}

struct host *
host_open(const struct host_config *config, char *why, size_t why_size)
{
	struct host *h = memory_zero(1, sizeof *h);

	h->config = *config;
	h->directory = bytes_to_text(bytes_of(config->directory));
	h->armed = h->leave_by = MONO_NEVER;
	local_init(&h->local);
	TAILQ_INIT(&h->gate);
	TAILQ_INIT(&h->inbox);
	if (identity_read(h->directory, &h->identity, why, why_size)) {
		configure(h);
		h->store = store_open(h->directory, h->identity.conf.name, h->identity.replica,
		                      h->identity.conf.replicas_n > 1, &h->tree, &h->recovered,
		                      why, why_size);
	}
	if (h->store != NULL)
		return h;
	host_free(h);
	return NULL;
}

/* ---- clients ---- */

uint64_t
host_connect(struct host *h, const struct host_client *client, const char *principal)
{
	uint64_t conn = local_connect(&h->local, client);

	step(h, (struct replica_event){
	            .kind = REPLICA_CONNECTED, .conn = conn, .principal = bytes_of(principal)});
	return conn;
}

/* While state.db is far behind, what may change it is not read; KeepAlives are. */
static bool
must_wait(struct host *h, struct bytes frame)
{
	struct message message;

	if (TAILQ_EMPTY(&h->inbox) && !behind(h))
		return false;
	return wire_get_frame(frame, &message) == RC_OK && message.code == MSG_request;
}

static void
take(struct host *h, uint64_t conn, struct bytes frame)
{
	if (!must_wait(h, frame)) {
		step(h, (struct replica_event){
		            .kind = REPLICA_FRAME, .conn = conn, .frame = frame});
		return;
	}
	parcel_put(&h->inbox, (struct parcel){.conn = conn, .frame = bytes_copy(frame)});
	h->inbox_bytes += frame.len;
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
	if (local_disconnect(&h->local, conn))
		step(h, (struct replica_event){.kind = REPLICA_DISCONNECTED, .conn = conn});
}

/* ---- the network's calls ---- */

static void
on_peer(void *user, uint8_t replica, struct bytes frame)
{
	step(user, (struct replica_event){.kind = REPLICA_PEER, .peer = replica, .frame = frame});
}

static void
on_client_connected(void *user, uint64_t conn, const char *principal)
{
	step(user, (struct replica_event){
	               .kind = REPLICA_CONNECTED, .conn = conn, .principal = bytes_of(principal)});
}

static void
on_client_disconnected(void *user, uint64_t conn)
{
	step(user, (struct replica_event){.kind = REPLICA_DISCONNECTED, .conn = conn});
}

/* Whoever sends more than can be taken comes again and sends it again. */
static void
on_client_frame(void *user, uint64_t conn, struct bytes frame)
{
	struct host *h = user;

	if (h->inbox_bytes <= INBOX_MAX) {
		take(h, conn, frame);
		return;
	}
	gateway_close(h->gateway, conn);
	on_client_disconnected(h, conn);
}

/* ---- starting ---- */

static void
start_handles(struct host *h, uv_loop_t *loop)
{
	must(uv_timer_init(loop, &h->timer) == 0);
	must(uv_prepare_init(loop, &h->prepare) == 0);
	must(uv_check_init(loop, &h->check) == 0);
	must(uv_idle_init(loop, &h->idle) == 0);
	h->timer.data = h->prepare.data = h->check.data = h->idle.data = h;
	must(uv_prepare_start(&h->prepare, on_prepare) == 0);
	must(uv_check_start(&h->check, on_check) == 0);
	h->open_handles = LOOP_HANDLES;
}

static bool
start_gateway(struct host *h, uv_loop_t *loop, char *why, size_t why_size)
{
	const struct gateway_callbacks callbacks = {
	    on_peer, on_client_connected, on_client_frame, on_client_disconnected, h,
	};

	if (conf_is_standalone(&h->identity.conf))
		return true;
	h->gateway = gateway_new(loop, &h->identity, &callbacks, why, why_size);
	return h->gateway != NULL && gateway_start(h->gateway, why, why_size);
}

bool
host_start(struct host *h, uv_loop_t *loop, char *why, size_t why_size)
{
	const struct store_callbacks callbacks = {on_persisted, on_saved, on_full, on_failed, h};
	mono_t now = clock_now();
	int rc;

	must(!h->started && h->gateway == NULL);
	if (!start_gateway(h, loop, why, why_size))
		return false;
	if ((rc = store_start(h->store, loop, &callbacks)) < 0) {
		snprintf(why, why_size, "%s: cannot start: %s", h->directory, uv_strerror(rc));
		return false;
	}
	h->replica = replica_new(&h->replica_config, h->tree, &h->recovered, now);
	h->tree = NULL;
	store_recovered_free(&h->recovered);
	start_handles(h, loop);
	h->started = true;
	arm(h, now);
	return true;
}

/* ---- stopping ---- */

static void
on_handle_closed(uv_handle_t *handle)
{
	struct host *h = handle->data;
	void (*stopped)(void *user) = h->stopped;
	void *user = h->stopped_user;

	if (--h->open_handles > 0)
		return;
	host_free(h);
	stopped(user);
}

static void
on_store_closed(void *user)
{
	struct host *h = user;
	void (*stopped)(void *user_) = h->stopped;
	void *stopped_user = h->stopped_user;

	if (!h->started) {
		host_free(h);
		stopped(stopped_user);
		return;
	}
	uv_close((uv_handle_t *)&h->timer, on_handle_closed);
	uv_close((uv_handle_t *)&h->prepare, on_handle_closed);
	uv_close((uv_handle_t *)&h->check, on_handle_closed);
	uv_close((uv_handle_t *)&h->idle, on_handle_closed);
}

static void
on_gateway_stopped(void *user)
{
	struct host *h = user;

	h->gateway = NULL;
	store_close(h->store, on_store_closed, h);
}

static void
stop_now(struct host *h)
{
	h->stopping = true;
	parcels_free(&h->gate);
	if (h->started)
		must(uv_idle_stop(&h->idle) == 0);
	if (h->gateway != NULL)
		gateway_stop(h->gateway, on_gateway_stopped, h);
	else
		on_gateway_stopped(h);
}

/* The others have to hear that we go, so that one of them follows at once. */
static void
stop_if_left(struct host *h)
{
	bool left = px_role(replica_px(h->replica)) == PX_FOLLOWER && TAILQ_EMPTY(&h->gate);

	if (!mono_is_never(h->leave_by) &&
	    (left || h->failed || mono_reached(clock_now(), h->leave_by)))
		stop_now(h);
}

void
host_stop(struct host *h, void (*stopped)(void *user), void *user)
{
	must(!h->stopping && !h->stepping && stopped != NULL && mono_is_never(h->leave_by));
	h->stopped = stopped;
	h->stopped_user = user;
	local_clear(&h->local);
	if (h->started)
		step(h, (struct replica_event){.kind = REPLICA_STOP});
	if (!h->started || h->gateway == NULL || h->failed) {
		stop_now(h);
		return;
	}
	h->leave_by = mono_add(clock_now(), span_ms(LEAVE_MS));
	arm(h, clock_now());
	stay_awake(h);
}
