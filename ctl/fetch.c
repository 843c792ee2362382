#include "ctl/fetch.h"

#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cell/base/must.h"
#include "cell/copy/state_fetch.h"
#include "cell/net/transport.h"
#include "cell/sys/clock.h"
#include "cell/sys/file.h"
#include "cell/sys/log.h"
#include "cell/wire/codec.h"

enum {
	COPIES_MAX = 10, /* of one source, that may be too old */
	SIGNALS = 3,
};

static const int signal_numbers[SIGNALS] = {SIGINT, SIGTERM, SIGHUP};

struct fetching {
	struct fetch *f;
	struct state_fetch fetch;
	int next; /* the source that is asked when the present one is given up */
	struct transport *transport;
	uv_loop_t loop;
	uv_timer_t timer; /* for fetch.due */
	uv_signal_t signals[SIGNALS];
	uint64_t conn; /* to the source; 0: none */
	bool open;
	bool written;                     /* the file may have contents */
	struct msg_state_request request; /* to be sent when the connection is open */
	int signal;                       /* the signal that interrupts us */
	bool ended;
	enum fetch_end end;
};

/* ---- the end ---- */

/* Unblocks (SIG_UNBLOCK) or blocks the signals that interrupt a fetch: the caller has them blocked,
 * and only our handlers may receive them. */
static void
mask_signals(int how)
{
	sigset_t set;

	sigemptyset(&set);
	for (int i = 0; i < SIGNALS; i++)
		sigaddset(&set, signal_numbers[i]);
	must(pthread_sigmask(how, &set, NULL) == 0);
}

static void
finish(struct fetching *g, enum fetch_end end)
{
	if (g->ended)
		return;
	mask_signals(SIG_BLOCK);
	g->ended = true;
	g->end = end;
	uv_close((uv_handle_t *)&g->timer, NULL);
	for (int i = 0; i < SIGNALS; i++)
		uv_close((uv_handle_t *)&g->signals[i], NULL);
	transport_stop(g->transport, NULL, NULL);
}

static void
on_signal(uv_signal_t *handle, int number)
{
	struct fetching *g = handle->data;

	g->signal = number;
	finish(g, FETCH_INTERRUPTED);
}

/* ---- steps ---- */

static void step(struct fetching *g, struct state_fetch_event e);

static const struct cell_file_replica *
replica_of(const struct fetching *g, uint8_t id)
{
	for (int i = 0; i < g->f->sources_n; i++)
		if (g->f->sources[i].replica->id == id)
			return g->f->sources[i].replica;
	must(false);
	return NULL;
}

static void
want_next(struct fetching *g)
{
	const struct fetch_source *source = &g->f->sources[g->next++];

	step(g, (struct state_fetch_event){.kind = STATE_FETCH_WANT,
	                                   .replica = source->replica->id,
	                                   .least = source->least});
}

static void
on_given_up(struct fetching *g, const struct state_fetch_update *u)
{
	const struct cell_file_replica *replica = replica_of(g, u->source);

	snprintf(g->f->why, sizeof g->f->why, "%s", u->why);
	log_error("replica %d at %s: %s", replica->id, replica->address, u->why);
	if (g->conn != 0)
		transport_close(g->transport, g->conn);
	g->conn = 0;
	g->open = false;
	if (u->hopeless || g->next == g->f->sources_n)
		finish(g, FETCH_FAILED);
	else
		want_next(g);
}

/* Writes what the update has. Returns NULL, or why that has failed, with a word on the disk: it is
 * not that of the replica. */
static const char *
write_fetched(struct fetching *g, const struct state_fetch_update *u)
{
	static char why[128];
	int rc = 0;

	if (u->begin && g->written)
		rc = ftruncate(g->f->fd, 0) < 0 ? -errno : 0;
	if (rc == 0 && u->data.len > 0) {
		rc = file_write_at(g->f->fd, u->data, (off_t)u->offset);
		g->written = true;
	}
	if (rc == 0)
		return NULL;
	snprintf(why, sizeof why, "the copy cannot be written here: %s", strerror(-rc));
	return why;
}

static void
send_request(struct fetching *g)
{
	const struct message m = {.code = MSG_state_request, .state_request = g->request};
	struct buffer frame = BUFFER(256);

	wire_put_frame(&frame, &m);
	must(!frame.failed);
	transport_send(g->transport, g->conn, buffer_view(&frame));
	buffer_free(&frame);
}

static void
ask(struct fetching *g, const struct state_fetch_update *u)
{
	const struct cell_file_replica *replica = replica_of(g, u->to);

	g->request = u->request;
	if (g->conn == 0)
		g->conn = transport_connect(g->transport, replica->address, CHANNEL_CLIENT,
		                            replica->public_key);
	else if (g->open)
		send_request(g);
}

static void
on_timer(uv_timer_t *timer)
{
	step(timer->data, (struct state_fetch_event){.kind = STATE_FETCH_TIME});
}

static void
step(struct fetching *g, struct state_fetch_event e)
{
	struct state_fetch_update u;
	const char *why;
	int64_t left;

	if (g->ended)
		return;
	e.now = clock_now();
	state_fetch_step(&g->fetch, &e, &u);
	why = write_fetched(g, &u);
	if (u.news == STATE_FETCH_WAITS)
		log_info("replica %u at %s still makes the copy", u.source,
		         replica_of(g, u.source)->address);
	if (why != NULL)
		step(g, (struct state_fetch_event){.kind = STATE_FETCH_UNWRITTEN, .why = why});
	else if (u.news == STATE_FETCH_GIVEN_UP)
		on_given_up(g, &u);
	else if (u.news == STATE_FETCH_FETCHED)
		finish(g, FETCH_DONE);
	else if (u.check) /* by the caller, which loads the whole */
		step(g, (struct state_fetch_event){.kind = STATE_FETCH_CHECKED});
	else if (u.to != 0)
		ask(g, &u);
	if (g->ended)
		return;

	left = span_to_ms(mono_since(g->fetch.due, clock_now())) + 1;
	if (mono_is_never(g->fetch.due))
		must(uv_timer_stop(&g->timer) == 0);
	else
		must(uv_timer_start(&g->timer, on_timer, left > 0 ? (uint64_t)left : 0, 0) == 0);
}

/* ---- the connection ---- */

static bool
on_opened(void *user, uint64_t conn, enum channel_role role, const uint8_t key[NOISE_KEY])
{
	struct fetching *g = user;

	(void)conn;
	(void)role;
	(void)key; /* the channel has checked that it is the replica's */
	g->open = true;
	send_request(g);
	return true;
}

static void
lose(struct fetching *g, const char *why)
{
	step(g, (struct state_fetch_event){.kind = STATE_FETCH_LOST,
	                                   .replica = g->fetch.source,
	                                   .why = why});
}

static void
on_frame(void *user, uint64_t conn, struct bytes frame)
{
	struct fetching *g = user;
	struct state_fetch_event e = {.replica = g->fetch.source};
	struct message m;

	if (conn != g->conn)
		return;
	if (wire_get_frame(frame, &m) != RC_OK) {
		lose(g, "it speaks another version of the protocol");
	} else if (m.code == MSG_state_part) {
		e.kind = STATE_FETCH_PART;
		e.part = &m.state_part;
		step(g, e);
	} else if (m.code == MSG_state_refused) {
		e.kind = STATE_FETCH_REFUSED;
		e.refused = &m.state_refused;
		step(g, e);
	}
}

static void
on_closed(void *user, uint64_t conn, const char *why)
{
	struct fetching *g = user;

	if (conn != g->conn)
		return;
	g->conn = 0;
	lose(g, why ? why : "it closed the connection");
}

/* ---- the beginning ---- */

static int
start(struct fetching *g)
{
	struct transport_config config = {
	    .own = g->f->key,
	    .patience = span_ms(FETCH_PATIENCE_MS),
	    .callbacks = {.opened = on_opened, .frame = on_frame, .closed = on_closed, .user = g},
	};
	struct sigaction before;
	int rc = uv_loop_init(&g->loop);

	if (rc < 0)
		return rc;
	memcpy(config.cell_id, g->f->cell_file->id, sizeof config.cell_id);
	rc = transport_new(&g->transport, &g->loop, &config);
	if (rc < 0) {
		must(uv_loop_close(&g->loop) == 0);
		return rc;
	}
	must(uv_timer_init(&g->loop, &g->timer) == 0);
	g->timer.data = g;
	for (int i = 0; i < SIGNALS; i++) {
		must(uv_signal_init(&g->loop, &g->signals[i]) == 0);
		g->signals[i].data = g;
		sigaction(signal_numbers[i], NULL, &before);
		if (before.sa_handler != SIG_IGN) /* as after nohup */
			must(uv_signal_start(&g->signals[i], on_signal, signal_numbers[i]) == 0);
	}
	return 0;
}

enum fetch_end
fetch_copy(struct fetch *f)
{
	struct fetching g = {.f = f};
	int rc;

	must(f->sources_n > 0);
	signal(SIGPIPE, SIG_IGN);
	state_fetch_init(&g.fetch,
	                 &(struct state_fetch_policy){.patience = span_ms(FETCH_PATIENCE_MS),
	                                              .requests = 1,
	                                              .copies = COPIES_MAX});
	rc = sodium_init() < 0 ? UV_EIO : start(&g);
	if (rc < 0) {
		snprintf(f->why, sizeof f->why, "cannot ask: %s", uv_strerror(rc));
		log_error("%s", f->why);
		return FETCH_FAILED;
	}
	want_next(&g);
	mask_signals(SIG_UNBLOCK);
	uv_run(&g.loop, UV_RUN_DEFAULT);
	must(uv_loop_close(&g.loop) == 0);
	f->replica = g.fetch.source;
	f->applied = g.fetch.applied;
	f->size = g.fetch.size;
	if (g.signal != 0)
		raise(g.signal);
	return g.end;
}
