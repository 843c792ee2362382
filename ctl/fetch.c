#include "ctl/fetch.h"

#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cell/base/checksum.h"
#include "cell/base/must.h"
#include "cell/sys/file.h"
#include "cell/net/transport.h"
#include "cell/wire/codec.h"

enum {
	AGAIN_MS = 50,       /* until the request is repeated while the replica makes the copy */
	OTHERS_MAX_S = 60,   /* wait for a replica that makes copies for others */
	STALE_MS = 300,      /* until the next copy may be newer: the state is written behind */
	STALE_MAX = 10,      /* copies that may be too old before we give up */
	SIGNALS = 3,
};

static const int signal_numbers[SIGNALS] = {SIGINT, SIGTERM, SIGHUP};

struct fetching {
	struct fetch *f;
	struct transport *transport;
	uv_loop_t loop;
	uv_timer_t patience, again;
	uv_signal_t signals[SIGNALS];
	uint64_t conn;
	uint64_t copy, offset; /* of the part that is asked for */
	int busy, stale;       /* numbers of answers: busy with others; a copy that is too old */
	int signal;            /* the signal that interrupts us */
	bool ended;
	enum fetch_end end;
};

/* ---- the end ---- */

static void
on_net_stopped(void *user)
{
	(void)user; /* nothing is left on the loop: uv_run returns */
}

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
finish(struct fetching *g, enum fetch_end end, const char *why)
{
	if (g->ended)
		return;
	mask_signals(SIG_BLOCK);
	g->ended = true;
	g->end = end;
	snprintf(g->f->why, sizeof g->f->why, "%s", why);
	uv_close((uv_handle_t *)&g->patience, NULL);
	uv_close((uv_handle_t *)&g->again, NULL);
	for (int i = 0; i < SIGNALS; i++)
		uv_close((uv_handle_t *)&g->signals[i], NULL);
	transport_stop(g->transport, on_net_stopped, g);
}

static void
fail(struct fetching *g, const char *why)
{
	finish(g, FETCH_FAILED, why);
}

static void
on_patience(uv_timer_t *timer)
{
	fail(timer->data, "no answer in time");
}

static void
on_signal(uv_signal_t *handle, int number)
{
	struct fetching *g = handle->data;

	g->signal = number;
	finish(g, FETCH_INTERRUPTED, "interrupted");
}

/* ---- asking ---- */

static void
ask(struct fetching *g)
{
	const struct message request = {
		.code = MSG_copy_request,
		.copy_request = {.copy = g->copy, .offset = g->offset},
	};
	struct buffer frame = BUFFER(256);

	wire_put_frame(&frame, &request);
	must(!frame.failed);
	transport_send(g->transport, g->conn, buffer_view(&frame));
	buffer_free(&frame);
	must(uv_timer_start(&g->patience, on_patience, FETCH_PATIENCE_MS, 0) == 0);
}

static void
on_again(uv_timer_t *timer)
{
	ask(timer->data);
}

static void
ask_again(struct fetching *g, uint64_t ms)
{
	must(uv_timer_stop(&g->patience) == 0);
	must(uv_timer_start(&g->again, on_again, ms, 0) == 0);
}

/* Discards the parts fetched so far and asks for a new copy; after too many of them the fetch fails
 * for the reason `why`. */
static void
start_over(struct fetching *g, const char *why)
{
	g->copy = g->offset = 0;
	if (++g->stale == STALE_MAX)
		fail(g, why);
	else if (ftruncate(g->f->fd, 0) < 0)
		finish(g, FETCH_HOPELESS, strerror(errno));
	else
		ask_again(g, STALE_MS);
}

/* ---- answers ---- */

static void
on_busy(struct fetching *g, const struct msg_copy_part *part)
{
	g->copy = part->copy;
	g->busy = part->copy == 0 ? g->busy + 1 : 0;
	if (g->busy > OTHERS_MAX_S * 1000 / AGAIN_MS)
		fail(g, "it is making copies for others");
	else
		ask_again(g, AGAIN_MS);
}

static void
on_data(struct fetching *g, const struct msg_copy_part *part)
{
	struct fetch *f = g->f;
	int rc;

	if (part->applied < f->wanted) {
		start_over(g, "its state is too far behind");
		return;
	}
	if (part->offset != g->offset || part->data.len > part->size - part->offset ||
	    (part->data.len == 0 && part->offset < part->size) ||
	    part->checksum != checksum(part->data)) {
		fail(g, "a part of the copy was damaged on the way");
		return;
	}
	rc = file_write_at(f->fd, part->data, (off_t)g->offset);
	if (rc < 0) {
		finish(g, FETCH_HOPELESS, strerror(-rc)); /* our disk: no replica can help */
		return;
	}
	g->copy = part->copy;
	g->offset += part->data.len;
	f->applied = part->applied;
	f->size = part->size;
	if (g->offset == part->size)
		finish(g, FETCH_DONE, "");
	else
		ask(g);
}

static void
on_part(struct fetching *g, const struct msg_copy_part *part)
{
	switch (part->rc) {
	case RC_OK:
		on_data(g, part);
		return;
	case RC_BUSY:
		on_busy(g, part);
		return;
	case RC_NOENT:
		start_over(g, "it discards its copies");
		return;
	case RC_NODATA: /* a new cell, until its first entry is applied */
		start_over(g, "its state is still empty");
		return;
	case RC_NOSPC:
		fail(g, "its disk has no room for a copy");
		return;
	case RC_IO:
		fail(g, "it cannot make or read a copy: see its log");
		return;
	case RC_PERM:
	case RC_ACCES:
		finish(g, FETCH_HOPELESS, "only an administrator may (a principal in /acl/admin)");
		return;
	default:
		fail(g, rc_text(part->rc));
	}
}

/* ---- the connection ---- */

static bool
on_opened(void *user, uint64_t conn, enum channel_role role, const uint8_t key[NOISE_KEY])
{
	(void)conn;
	(void)role;
	(void)key; /* the channel has checked that it is the replica's */
	ask(user);
	return true;
}

static void
on_frame(void *user, uint64_t conn, struct bytes frame)
{
	struct fetching *g = user;
	struct message message;

	(void)conn;
	if (g->ended)
		return;
	if (wire_get_frame(frame, &message) != RC_OK)
		fail(g, "it speaks another version of the protocol");
	else if (message.code == MSG_copy_part)
		on_part(g, &message.copy_part);
}

static void
on_closed(void *user, uint64_t conn, const char *why)
{
	(void)conn;
	fail(user, why ? why : "it closed the connection");
}

static void
start_handles(struct fetching *g)
{
	must(uv_timer_init(&g->loop, &g->patience) == 0);
	must(uv_timer_init(&g->loop, &g->again) == 0);
	g->patience.data = g->again.data = g;
	must(uv_timer_start(&g->patience, on_patience, FETCH_PATIENCE_MS, 0) == 0);
	for (int i = 0; i < SIGNALS; i++) {
		must(uv_signal_init(&g->loop, &g->signals[i]) == 0);
		g->signals[i].data = g;
		must(uv_signal_start(&g->signals[i], on_signal, signal_numbers[i]) == 0);
	}
}

static int
start(struct fetching *g)
{
	struct transport_config config = {
		.own = g->f->key, .patience = span_ms(FETCH_PATIENCE_MS),
		.callbacks = {on_opened, on_frame, on_closed, g},
	};
	int rc = uv_loop_init(&g->loop);

	if (rc < 0)
		return rc;
	memcpy(config.cell_id, g->f->cell_file->id, sizeof config.cell_id);
	rc = transport_new(&g->transport, &g->loop, &config);
	if (rc < 0) {
		must(uv_loop_close(&g->loop) == 0);
		return rc;
	}
	start_handles(g);
	return 0;
}

enum fetch_end
fetch_copy(struct fetch *f)
{
	struct fetching g = {.f = f};
	int rc;

	signal(SIGPIPE, SIG_IGN);
	f->applied = f->size = 0;
	rc = sodium_init() < 0 ? UV_EIO : start(&g);
	if (rc < 0) {
		snprintf(f->why, sizeof f->why, "cannot ask: %s", uv_strerror(rc));
		return FETCH_HOPELESS;
	}
	g.conn = transport_connect(g.transport, f->replica->address, CHANNEL_CLIENT,
	                           f->replica->public_key);
	mask_signals(SIG_UNBLOCK);
	uv_run(&g.loop, UV_RUN_DEFAULT);
	must(uv_loop_close(&g.loop) == 0);
	if (g.signal != 0)
		raise(g.signal);
	return g.end;
}
