/* The host's order of business. Whatever happens (a client's frame, a record that became durable, a
 * deadline) is one step of the replica; its records go to the store, its messages out as soon as
 * what they wait for is durable. Frames for clients are put into a queue and delivered at the end
 * of the loop's turn: neither a client's call nor a step ever happens within another.
 *
 * An answer must not cost a wake-up of its own: the queue is emptied by a check handle (behind the
 * poll, where most work comes from) and a prepare handle (before it); as long as something is in
 * it, an idle handle keeps the loop from falling asleep. */
#include "cell/io/host.h"

#include <bsd/sys/queue.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/io/clock.h"
#include "cell/io/conf.h"
#include "cell/io/keyfile.h"
#include "cell/io/log.h"
#include "cell/io/store.h"
#include "cell/replica.h"
#include "cell/wire/codec.h"

enum {
	MASTER_LEASE_MS = 500,
	HEARTBEAT_MS = 100,
	DRIFT_PERMILLE = 10,
	LOOP_HANDLES = 4,
};

struct connection {
	TAILQ_ENTRY(connection) link;
	uint64_t id;
	struct host_client client;
};

/* A frame that waits: for its delivery, for a record to be durable, or for its turn to be read. */
struct parcel {
	TAILQ_ENTRY(parcel) link;
	uint64_t conn;
	uint64_t after;     /* log ticket */
	bool close;         /* no frame: the replica closes the connection */
	struct bytes frame; /* owned */
};

TAILQ_HEAD(parcel_list, parcel);
TAILQ_HEAD(connection_list, connection);

struct host {
	char *directory;
	struct conf conf;
	struct host_config config;
	struct replica_config replica_config;
	struct store *store;
	struct tree *tree;             /* until the replica has it */
	struct px_recovered recovered; /* likewise */
	struct replica *replica;
	struct replica_update update;
	bool stepping, started, stopping, failed;

	struct connection_list connections;
	uint64_t last_conn;
	struct parcel_list outbox;  /* to be delivered */
	struct parcel_list gate;    /* until their tickets are durable; tickets never fall */
	struct parcel_list inbox;   /* clients' requests, while state.db is behind */
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

/* ---- parcels ---- */

static void
parcel_put(struct parcel_list *list, struct parcel parcel)
{
	struct parcel *p = memory_zero(1, sizeof *p);

	*p = parcel;
	TAILQ_INSERT_TAIL(list, p, link);
}

static void
parcel_drop(struct parcel_list *list, struct parcel *p)
{
	TAILQ_REMOVE(list, p, link);
	free((void *)p->frame.data);
	free(p);
}

static void
parcels_free(struct parcel_list *list)
{
	struct parcel *p;

	while ((p = TAILQ_FIRST(list)) != NULL)
		parcel_drop(list, p);
}

static struct connection *
find_connection(struct host *h, uint64_t id)
{
	struct connection *c;

	TAILQ_FOREACH(c, &h->connections, link) {
		if (c->id == id)
			return c;
	}
	return NULL;
}

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

static void
post(struct host *h, struct parcel parcel)
{
	parcel_put(&h->outbox, parcel);
	stay_awake(h);
}

static void
deliver_one(struct host *h, struct parcel *p)
{
	struct connection *c = find_connection(h, p->conn);
	struct host_client client;

	if (c == NULL)
		return;
	client = c->client;
	if (!p->close) {
		client.frame(client.user, p->frame);
		return;
	}
	TAILQ_REMOVE(&h->connections, c, link);
	free(c);
	client.closed(client.user);
}

/* What the clients send meanwhile is answered into the same queue. */
static void
deliver(struct host *h)
{
	struct parcel *p;

	while ((p = TAILQ_FIRST(&h->outbox)) != NULL && !h->stopping) {
		TAILQ_REMOVE(&h->outbox, p, link);
		deliver_one(h, p);
		free((void *)p->frame.data);
		free(p);
	}
}

/* ---- steps ---- */

static void on_timer(uv_timer_t *timer);

/* libuv's clock only wakes us; what is due is decided by ours. A timer that is set for earlier is
 * left alone: waking once too early is cheaper than setting it anew at every step. */
static void
arm(struct host *h, mono_t now)
{
	mono_t deadline = replica_deadline(h->replica);
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

	must(!send->to_peer); /* a cell of one has nobody to talk to */
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

static void
rest(struct host *h)
{
	if (TAILQ_EMPTY(&h->outbox) && !h->due)
		must(uv_idle_stop(&h->idle) == 0);
}

static void
on_prepare(uv_prepare_t *handle)
{
	struct host *h = handle->data;

	deliver(h);
	if (!h->stopping)
		rest(h);
}

static void
on_check(uv_check_t *handle)
{
	struct host *h = handle->data;

	deliver(h);
	if (h->stopping)
		return;
	take_deadline(h);
	deliver(h);
	if (!h->stopping)
		rest(h);
}

/* ---- the store's calls ---- */

static void
on_persisted(void *user, uint64_t ticket)
{
	struct host *h = user;
	struct parcel *p;

	if (ticket == 0)
		return; /* hints, which nobody waits for */
	must(ticket >= h->durable);
	h->durable = ticket;
	while ((p = TAILQ_FIRST(&h->gate)) != NULL && p->after <= ticket) {
		TAILQ_REMOVE(&h->gate, p, link);
		TAILQ_INSERT_TAIL(&h->outbox, p, link);
		stay_awake(h);
	}
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
	struct parcel *p;

	step(h, (struct replica_event){.kind = REPLICA_SAVED, .index = applied});
	while ((p = TAILQ_FIRST(&h->inbox)) != NULL && !behind(h)) {
		step(h, (struct replica_event){
		            .kind = REPLICA_FRAME, .conn = p->conn, .frame = p->frame});
		parcel_drop(&h->inbox, p);
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

static bool
read_files(struct host *h, char *why, size_t why_size)
{
	char path[4096];
	uint8_t *secret = h->replica_config.master.signing_key;

	snprintf(path, sizeof path, "%s/cell.conf", h->directory);
	if (!conf_read(path, &h->conf, why, why_size))
		return false;
	if (h->conf.replicas_n != 1 || h->conf.replicas[0].address[0] != '\0') {
		snprintf(why, why_size, "%s: not the file of a cell in one process", path);
		return false;
	}
	snprintf(path, sizeof path, "%s/signing.key", h->directory);
	if (!keyfile_read_signing(path, secret, why, why_size))
		return false;
	/* An Ed25519 secret key ends with its public half. */
	if (memcmp(secret + SIGN_SECRET - SIGN_PUBLIC, h->conf.signing_public, SIGN_PUBLIC) == 0)
		return true;
	snprintf(why, why_size, "%s: not the key that is named in %s/cell.conf", path,
	         h->directory);
	return false;
}

static void
configure(struct host *h)
{
	struct px_config *paxos = &h->replica_config.paxos;
	struct master_config *master = &h->replica_config.master;

	paxos->self = h->conf.replicas[0].id;
	paxos->members[0] = paxos->self;
	paxos->members_n = 1;
	paxos->lease = span_ms(MASTER_LEASE_MS);
	paxos->heartbeat = span_ms(HEARTBEAT_MS);
	paxos->drift_permille = DRIFT_PERMILLE;
	random_fill(&paxos->seed, sizeof paxos->seed);
	master->cell = h->conf.name;
	master->session_lease = span_ms(DEFAULT_SESSION_LEASE_MS);
	master->cache_lease = span_ms(DEFAULT_CACHE_LEASE_MS);
	master->drift_permille = DRIFT_PERMILLE;
}

static void
host_free(struct host *h)
{
	struct connection *c;

	if (h->replica != NULL)
		replica_free(h->replica);
	else if (h->tree != NULL)
		tree_free(h->tree);
	store_recovered_free(&h->recovered);
	replica_update_free(&h->update);
	parcels_free(&h->outbox);
	parcels_free(&h->gate);
	parcels_free(&h->inbox);
	while ((c = TAILQ_FIRST(&h->connections)) != NULL) {
		TAILQ_REMOVE(&h->connections, c, link);
		free(c);
	}
	explicit_bzero(&h->replica_config, sizeof h->replica_config);
	free(h->directory);
	free(h);
}

struct host *
host_open(const struct host_config *config, char *why, size_t why_size)
{
	struct host *h = memory_zero(1, sizeof *h);

	h->config = *config;
	h->directory = bytes_to_text(bytes_of(config->directory));
	h->armed = MONO_NEVER;
	TAILQ_INIT(&h->connections);
	TAILQ_INIT(&h->outbox);
	TAILQ_INIT(&h->gate);
	TAILQ_INIT(&h->inbox);
	if (read_files(h, why, why_size)) {
		configure(h);
		h->store = store_open(h->directory, h->conf.name, h->replica_config.paxos.self,
		                      &h->tree, &h->recovered, why, why_size);
	}
	if (h->store != NULL)
		return h;
	host_free(h);
	return NULL;
}

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

int
host_start(struct host *h, uv_loop_t *loop)
{
	const struct store_callbacks callbacks = {on_persisted, on_saved, on_full, on_failed, h};
	mono_t now = clock_now();
	int rc = store_start(h->store, loop, &callbacks);

	must(!h->started);
	if (rc < 0)
		return rc;
	h->replica = replica_new(&h->replica_config, h->tree, &h->recovered, now);
	h->tree = NULL;
	store_recovered_free(&h->recovered);
	start_handles(h, loop);
	h->started = true;
	arm(h, now);
	return 0;
}

/* ---- clients in this process ---- */

uint64_t
host_connect(struct host *h, const struct host_client *client, const char *principal)
{
	struct connection *c = memory_zero(1, sizeof *c);

	c->id = ++h->last_conn;
	c->client = *client;
	TAILQ_INSERT_TAIL(&h->connections, c, link);
	step(h, (struct replica_event){
	            .kind = REPLICA_CONNECTED, .conn = c->id, .principal = bytes_of(principal)});
	return c->id;
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

void
host_send(struct host *h, uint64_t conn, struct bytes frames)
{
	while (frames.len > 0) {
		long len = wire_frame_length(frames);
		struct bytes frame = {frames.data, (size_t)len};

		must(len > 0 && frame.len <= frames.len);
		frames.data += len;
		frames.len -= frame.len;
		if (find_connection(h, conn) == NULL)
			return;
		if (must_wait(h, frame))
			parcel_put(&h->inbox,
			           (struct parcel){.conn = conn, .frame = bytes_copy(frame)});
		else
			step(h, (struct replica_event){
			            .kind = REPLICA_FRAME, .conn = conn, .frame = frame});
	}
}

void
host_disconnect(struct host *h, uint64_t conn)
{
	struct connection *c = find_connection(h, conn);

	if (c == NULL)
		return;
	TAILQ_REMOVE(&h->connections, c, link);
	free(c);
	step(h, (struct replica_event){.kind = REPLICA_DISCONNECTED, .conn = conn});
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

void
host_stop(struct host *h, void (*stopped)(void *user), void *user)
{
	must(!h->stopping && !h->stepping && stopped != NULL);
	if (h->started)
		step(h, (struct replica_event){.kind = REPLICA_STOP});
	h->stopping = true;
	h->stopped = stopped;
	h->stopped_user = user;
	if (h->started)
		must(uv_idle_stop(&h->idle) == 0);
	store_close(h->store, on_store_closed, h);
}
