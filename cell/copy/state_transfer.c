#include "cell/copy/state_transfer.h"

#include <stdlib.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/copy/state_fetch.h"
#include "cell/wire/codec.h"

enum {
	PATIENCE_MS = 3000,
	REQUESTS_MAX = 4, /* without an answer; then another source is asked */
	PAUSE_MS = 500,   /* after a source was given up; grows with each */
	PAUSE_MAX_MS = 4000,
	TELL_EVERY_S = 5,
};

struct state_transfer {
	struct state_transfer_config config;
	struct state_sender *sender;
	struct state_fetch fetch;
	mono_t since, told; /* when the fetch was begun; when its progress was logged last */
};

static mono_t
now_of(const struct state_transfer *x)
{
	return clock_io_now(x->config.clock);
}

static void
send_message(struct state_transfer *x, uint8_t replica, uint64_t conn, const struct message *m)
{
	struct buffer frame = BUFFER(LIMIT_FRAME);

	wire_put_frame(&frame, m);
	must(!frame.failed);
	x->config.send(x->config.user, replica, conn, buffer_view(&frame));
	buffer_free(&frame);
}

/* ---- sending the own state ---- */

static void
on_send(void *user, struct state_sender_reader reader, const struct message *m)
{
	send_message(user, reader.peer, reader.conn, m);
}

static void
on_copy_begun(void *user, uint8_t replica)
{
	struct state_transfer *x = user;

	x->config.copy_begun(x->config.user, replica);
}

bool
state_transfer_client(struct state_transfer *x, uint64_t conn, bool admin, struct bytes frame)
{
	static const struct message refusal = {
	    .code = MSG_state_refused,
	    .state_refused = {.rc = RC_PERM},
	};
	struct message m;

	if (wire_frame_code(frame) != MSG_state_request || wire_get_frame(frame, &m) != RC_OK)
		return false;
	if (admin)
		state_sender_ask(x->sender, (struct state_sender_reader){.conn = conn},
		                 &m.state_request);
	else
		send_message(x, 0, conn, &refusal);
	return true;
}

void
state_transfer_forget(struct state_transfer *x, uint64_t conn)
{
	state_sender_forget(x->sender, (struct state_sender_reader){.conn = conn});
}

void
state_transfer_made(struct state_transfer *x, enum rc rc, uint64_t applied, uint64_t size,
                    const char *why)
{
	state_sender_made(x->sender, rc, applied, size, why);
}

/* ---- fetching another state: carries out what state_fetch.h decides ---- */

static void
log_news(struct state_transfer *x, const struct state_fetch_update *u)
{
	const struct clock_io *io = x->config.clock;

	switch (u->news) {
	case STATE_FETCH_NO_NEWS:
		return;
	case STATE_FETCH_BEGUN:
		x->since = x->told = now_of(x);
		clock_io_log(io, LEVEL_INFO,
		             "this replica is far behind: copies the state of replica %u",
		             u->source);
		return;
	case STATE_FETCH_WAITS:
		clock_io_log(io, LEVEL_INFO, "replica %u still makes the copy of its state",
		             u->source);
		return;
	case STATE_FETCH_GIVEN_UP:
		clock_io_log(io, LEVEL_WARN, "the state of replica %u was not copied: %s",
		             u->source, u->why);
		return;
	case STATE_FETCH_UNNEEDED:
		clock_io_log(io, LEVEL_INFO, "the state of replica %u is not needed any more",
		             u->source);
		return;
	case STATE_FETCH_FETCHED:
		clock_io_log(io, LEVEL_INFO, "the state of replica %u is here, %llu MiB in %lld s",
		             u->source, (unsigned long long)(x->fetch.size >> 20),
		             (long long)(span_to_ms(mono_since(now_of(x), x->since)) / 1000));
		return;
	}
}

static void
fetch_step(struct state_transfer *x, struct state_fetch_event e)
{
	const struct copy_io *io = x->config.files;
	const struct state_fetch *f = &x->fetch;
	struct state_fetch_update u;
	const char *why = NULL;

	e.now = now_of(x);
	state_fetch_step(&x->fetch, &e, &u);
	log_news(x, &u);
	if (u.drop || u.begin)
		io->drop_fetch(io->user);
	if (u.begin)
		why = io->begin_fetch(io->user);
	if (!u.begin && u.data.len > 0) {
		if (!mono_before(e.now, mono_add(x->told, span_s(TELL_EVERY_S)))) {
			x->told = e.now;
			clock_io_log(x->config.clock, LEVEL_INFO,
			             "%llu of %llu MiB of the state of replica %u are here",
			             (unsigned long long)(f->offset >> 20),
			             (unsigned long long)(f->size >> 20), f->source);
		}
		why = io->write_fetch(io->user, u.offset, u.data);
	}
	if (why != NULL) {
		fetch_step(x,
		           (struct state_fetch_event){.kind = STATE_FETCH_UNWRITTEN, .why = why});
		return;
	}
	if (u.check)
		io->check_fetch(io->user);
	if (u.to != 0)
		send_message(x, u.to, 0,
		             &(struct message){.code = MSG_state_request,
		                               .state_request = u.request});
	if (u.news == STATE_FETCH_FETCHED)
		x->config.ready(x->config.user);
}

void
state_transfer_need(struct state_transfer *x, uint8_t replica, uint64_t least)
{
	if (replica != 0 || x->fetch.wanted != 0)
		fetch_step(x, (struct state_fetch_event){.kind = STATE_FETCH_WANT,
		                                         .replica = replica,
		                                         .least = least});
}

void
state_transfer_checked(struct state_transfer *x, const char *why)
{
	fetch_step(x, (struct state_fetch_event){.kind = STATE_FETCH_CHECKED, .why = why});
}

/* ---- messages of other replicas ---- */

/* A removed replica is given nothing more. But its answers are accepted: a master that has removed
 * itself may be the only replica whose state reaches the beginning of its log. */
bool
state_transfer_peer(struct state_transfer *x, uint8_t from, bool member, struct bytes frame)
{
	const unsigned code = wire_frame_code(frame);
	struct message m;

	if (code != MSG_state_request && code != MSG_state_part && code != MSG_state_refused)
		return false;
	if (wire_get_frame(frame, &m) != RC_OK)
		return true;
	if (code == MSG_state_part)
		fetch_step(x, (struct state_fetch_event){.kind = STATE_FETCH_PART,
		                                         .replica = from,
		                                         .part = &m.state_part});
	else if (code == MSG_state_refused)
		fetch_step(x, (struct state_fetch_event){.kind = STATE_FETCH_REFUSED,
		                                         .replica = from,
		                                         .refused = &m.state_refused});
	else if (member)
		state_sender_ask(x->sender, (struct state_sender_reader){.peer = from},
		                 &m.state_request);
	return true;
}

/* ---- life ---- */

struct state_transfer *
state_transfer_new(const struct state_transfer_config *config)
{
	struct state_transfer *x = memory_zero(1, sizeof *x);
	const span_t patience = config->patience;

	x->config = *config;
	x->sender = state_sender_new(&(struct state_sender_config){.clock = config->clock,
	                                                           .files = config->files,
	                                                           .send = on_send,
	                                                           .begun = on_copy_begun,
	                                                           .part_max = config->part_max,
	                                                           .user = x});
	state_fetch_init(&x->fetch,
	                 &(struct state_fetch_policy){.patience = patience.ns != 0
	                                                              ? patience
	                                                              : span_ms(PATIENCE_MS),
	                                              .requests = REQUESTS_MAX,
	                                              .copies = 1,
	                                              .pause = span_ms(PAUSE_MS),
	                                              .pause_max = span_ms(PAUSE_MAX_MS)});
	/* An earlier process may have left an incomplete file. */
	config->files->drop_fetch(config->files->user);
	return x;
}

mono_t
state_transfer_deadline(const struct state_transfer *x)
{
	return mono_min(state_sender_deadline(x->sender), x->fetch.due);
}

void
state_transfer_timeout(struct state_transfer *x, mono_t now)
{
	state_sender_timeout(x->sender, now);
	fetch_step(x, (struct state_fetch_event){.kind = STATE_FETCH_TIME});
}

void
state_transfer_free(struct state_transfer *x)
{
	if (x == NULL)
		return;
	state_sender_free(x->sender);
	if (x->fetch.phase < STATE_FETCH_CHECKING)
		x->config.files->drop_fetch(x->config.files->user);
	free(x);
}
