#include "tests/hostile/hostile_line.h"

#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/sys/clock.h"
#include "cell/wire/codec.h"

enum { UNWRITTEN_MAX = 1024 * 1024 };

const char *hostile_secret;
uint64_t hostile_learnt;

static struct buffer recorded = {.limit = 1024};
static const struct hostile_line *recorder; /* the first connection, until one was opened */
static bool is_recorded;

struct written {
	uv_write_t request;
	struct bytes owned;
};

struct bytes
hostile_line_recorded(void)
{
	return is_recorded ? buffer_view(&recorded) : (struct bytes){0};
}

static void
record(const struct hostile_line *l, struct bytes sealed)
{
	if (recorder == NULL && !is_recorded) {
		recorder = l;
		buffer_reset(&recorded);
	}
	if (recorder == l)
		buffer_put_bytes(&recorded, sealed);
}

/* ---- out ---- */

static void
on_written(uv_write_t *request, int status)
{
	struct written *w = (struct written *)request;

	(void)status; /* a connection that is closed is told by on_read */
	free((void *)w->owned.data);
	free(w);
}

static void
write_sealed(struct hostile_line *l, struct buffer *sealed)
{
	struct written *w = memory_zero(1, sizeof *w);
	uv_buf_t buf;

	must(!sealed->failed);
	w->owned = buffer_take(sealed);
	buf = uv_buf_init((char *)w->owned.data, (unsigned)w->owned.len);
	if (w->owned.len == 0 || l->is_closing ||
	    uv_write(&w->request, (uv_stream_t *)&l->tcp, &buf, 1, on_written) < 0)
		on_written(&w->request, 0);
}

bool
hostile_line_send(struct hostile_line *l, struct bytes plain)
{
	struct buffer sealed = BUFFER(SIZE_MAX);

	if (!l->is_open || l->is_closing ||
	    uv_stream_get_write_queue_size((uv_stream_t *)&l->tcp) > UNWRITTEN_MAX)
		return false;
	channel_send(&l->channel, plain, &sealed);
	write_sealed(l, &sealed);
	return true;
}

/* ---- the end ---- */

static void
on_closed(uv_handle_t *handle)
{
	struct hostile_line *l = handle->data;

	channel_end(&l->channel);
	buffer_free(&l->in);
	if (recorder == l)
		recorder = NULL;
	l->is_open = l->is_closing = false;
	l->closed(l);
}

void
hostile_line_end(struct hostile_line *l)
{
	if (l->is_closing)
		return;
	l->is_closing = true;
	uv_close((uv_handle_t *)&l->tcp, on_closed);
}

void
hostile_line_stop_reading(struct hostile_line *l)
{
	uv_read_stop((uv_stream_t *)&l->tcp);
}

/* ---- in ---- */

static void
take_frame(struct hostile_line *l, struct bytes frame)
{
	if (hostile_secret != NULL &&
	    memmem(frame.data, frame.len, hostile_secret, strlen(hostile_secret)) != NULL)
		hostile_learnt++;
	l->frame(l, frame);
}

static void
take_frames(struct hostile_line *l)
{
	struct bytes rest = buffer_view(&l->in);
	long len;

	while (!l->is_closing && (len = wire_frame_length(rest)) > 0) {
		take_frame(l, (struct bytes){rest.data, (size_t)len});
		rest.data += len;
		rest.len -= (size_t)len;
	}
	if (rest.len > 0)
		memmove(l->in.data, rest.data, rest.len);
	l->in.len = rest.len;
}

static void
receive(struct hostile_line *l, struct bytes from)
{
	struct buffer sealed = BUFFER(SIZE_MAX);
	const enum channel_state state = channel_receive(&l->channel, from, &sealed, &l->in);

	if (!l->is_open)
		record(l, buffer_view(&sealed));
	write_sealed(l, &sealed);
	if (state == CHANNEL_OPEN && !l->is_open) {
		l->is_open = true;
		is_recorded |= recorder == l;
		l->opened(l);
	}
	if (state == CHANNEL_FAILED)
		hostile_line_end(l);
	else if (l->is_open)
		take_frames(l);
}

static void
on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	static char bytes[64 * 1024];

	(void)handle, (void)suggested;
	*buf = uv_buf_init(bytes, sizeof bytes);
}

static void
on_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
	struct hostile_line *l = stream->data;

	if (len < 0)
		hostile_line_end(l);
	else if (len > 0)
		receive(l, (struct bytes){(const uint8_t *)buf->base, (size_t)len});
}

/* ---- the beginning ---- */

static void
on_connected(uv_connect_t *request, int status)
{
	struct hostile_line *l = request->handle->data;
	struct channel_config config = {.initiator = true,
	                                .role = CHANNEL_CLIENT,
	                                .own = l->target->own,
	                                .remote = l->target->key};
	struct buffer out = BUFFER(SIZE_MAX);

	if (l->is_closing)
		return;
	if (status < 0 || uv_read_start((uv_stream_t *)&l->tcp, on_room, on_read) < 0) {
		hostile_line_end(l);
		return;
	}
	memcpy(config.cell_id, l->target->cell_id, sizeof config.cell_id);
	random_fill(config.ephemeral_secret, sizeof config.ephemeral_secret);
	channel_start(&l->channel, &config, &out);
	record(l, buffer_view(&out));
	write_sealed(l, &out);
}

void
hostile_line_begin(struct hostile_line *l)
{
	l->in = BUFFER(2 * LIMIT_FRAME);
	memset(&l->channel, 0, sizeof l->channel);
	must(uv_tcp_init(l->target->loop, &l->tcp) == 0);
	l->tcp.data = l;
	if (uv_tcp_connect(&l->connecting, &l->tcp, (const struct sockaddr *)&l->target->address,
	                   on_connected) < 0)
		hostile_line_end(l);
}
