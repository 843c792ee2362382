/* One connection: received bytes are decrypted by the channel and split into frames; sent frames
 * wait for the end of the turn, are encrypted and written. The kernel gets no more than it can send
 * soon, the rest waits here: a KeepAlive overtakes it, so that a lease does not depend on how much
 * else is sent. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/sys/clock.h"
#include "cell/net/stream.h"
#include "cell/wire/codec.h"

enum {
	KEEPALIVE_S = 15,                      /* without traffic; then TCP probes a connection */
	CLIENT_FRAME_MAX = LIMIT_ENTRY + 4096, /* bytes of the longest request */
	CLIENTS_TURN_MS = 1,         /* of one turn of the loop, for all clients together */
	READ_LITTLE = 1024,          /* bytes of one read once that time has passed */
	CHUNK = 64 * 1024,           /* bytes that are encrypted together, or one longer frame */
	LAST_WORDS_MAX = 256 * 1024, /* bytes that wait for a client whose connection is closed */
};

const char transport_unknown_key[] = "the cell does not know this key";
const char transport_not_lasting[] = "acl/lasting does not name the principal of this key";
const char transport_other_cell[] = CHANNEL_OTHER_CELL;

/* The bytes that a write could not pass to the kernel at once. */
struct remainder {
	uv_write_t request;
	uint8_t data[];
};

struct stream *
stream_new(struct transport *n, struct dialer *dialer)
{
	struct stream *s = memory_zero(1, sizeof *s);

	s->transport = n;
	s->id = ++n->last_id;
	s->state = STREAM_SHAKING;
	s->dialer = dialer;
	s->tell = dialer != NULL;
	s->frame_max = LIMIT_FRAME;
	s->in = BUFFER((size_t)LIMIT_FRAME + 2 * READ_SIZE);
	s->first = BUFFER(TRANSPORT_QUEUE_MAX);
	s->out = BUFFER(TRANSPORT_QUEUE_MAX);
	must(uv_tcp_init(n->loop, &s->tcp) == 0);
	s->tcp.data = s;
	return s;
}

void
stream_free(struct stream *s)
{
	channel_end(&s->channel);
	buffer_free(&s->in);
	buffer_free(&s->first);
	buffer_free(&s->out);
	dialer_free(s->dialer);
	free(s);
}

/* ---- the end ---- */

static void
on_closed(uv_handle_t *handle)
{
	transport_stream_closed(handle->data);
}

/* While a connection is being made its handle may be closing already, or a look-up be under way:
 * dialer.c then completes the end in the callback of either. */
void
stream_end(struct stream *s, const char *why)
{
	if (s->state == STREAM_CLOSING)
		return;
	transport_clear_deadline(s);
	transport_unlist(s);
	handshakes_leave(s);
	if (s->state == STREAM_SHAKING && s->dialer != NULL)
		dialer_gives_up(s);
	else if (s->state == STREAM_SHAKING && why != NULL)
		transport_refused(s, why);
	datagram_socket_close(s);
	readers_leave(s);
	s->why = why;
	s->state = STREAM_CLOSING;
	if (s->dialer != NULL && s->dialer->busy)
		uv_cancel((uv_req_t *)&s->dialer->resolving);
	else if (!uv_is_closing((uv_handle_t *)&s->tcp))
		uv_close((uv_handle_t *)&s->tcp, on_closed);
}

size_t
stream_unsent(const struct stream *s)
{
	return uv_stream_get_write_queue_size((const uv_stream_t *)&s->tcp) + s->first.len +
	       s->out.len - s->out_begin;
}

static bool is_client(const struct stream *s);

/* A client sends again what was not answered; as its connection counts for nobody any more, only
 * the end of a short queue is waited for. */
void
stream_linger(struct stream *s)
{
	if (s->state == STREAM_OPEN)
		stream_flush(s);
	if (s->state == STREAM_CLOSING)
		return;
	if (is_client(s) && s->out.len - s->out_begin > LAST_WORDS_MAX) {
		buffer_free(&s->out);
		s->out_begin = 0;
	}
	if (stream_unsent(s) == 0) {
		stream_end(s, s->why);
		return;
	}
	uv_read_stop((uv_stream_t *)&s->tcp);
	transport_clear_deadline(s);
	datagram_socket_close(s);
	readers_leave(s);
	if (s->transport->receives != s)
		buffer_free(&s->in);
	s->state = STREAM_LINGERING;
	transport_set_deadline(s);
}

/* ---- out ---- */

static bool can_send(const struct stream *s);

static void
on_written(uv_write_t *request, int status)
{
	struct stream *s = request->handle->data;

	free(request);
	readers_count(s);
	if (status < 0)
		stream_end(s, uv_strerror(status));
	else if (can_send(s))
		transport_list_late(s);
	if (s->state == STREAM_LINGERING && stream_unsent(s) == 0)
		stream_end(s, s->why);
}

static void
write_now(struct stream *s, struct bytes bytes)
{
	uv_buf_t buf = uv_buf_init((char *)bytes.data, (unsigned)bytes.len);
	struct remainder *r;
	int rc;

	if (bytes.len == 0)
		return;
	rc = uv_try_write((uv_stream_t *)&s->tcp, &buf, 1);
	if (rc == UV_EAGAIN)
		rc = 0;
	if (rc >= 0 && (size_t)rc < bytes.len) {
		const size_t left = bytes.len - (size_t)rc;

		r = memory_grow(NULL, sizeof *r + left, 1);
		memcpy(r->data, bytes.data + rc, left);
		buf = uv_buf_init((char *)r->data, (unsigned)left);
		rc = uv_write(&r->request, (uv_stream_t *)&s->tcp, &buf, 1, on_written);
		if (rc < 0)
			free(r);
	}
	if (rc < 0)
		stream_end(s, uv_strerror(rc));
}

/* The length of the first frame. Bytes that are no frame are sent as they are: the peer refuses
 * them. */
static size_t
first_frame(struct bytes frames)
{
	const long len = wire_frame_length(frames);

	return len > 0 ? (size_t)len : frames.len;
}

/* Whole frames from the beginning of `out`. */
static struct bytes
next_chunk(const struct stream *s)
{
	struct bytes left = {s->out.data + s->out_begin, s->out.len - s->out_begin};
	size_t len = 0;

	while (len < left.len) {
		const size_t frame = first_frame((struct bytes){left.data + len, left.len - len});

		if (len > 0 && len + frame > CHUNK)
			break;
		len += frame;
	}
	return (struct bytes){left.data, len};
}

/* True if there is something to write, the kernel has taken all before it, and the channel has not
 * failed: end_failed drops what is left. */
static bool
can_send(const struct stream *s)
{
	return (s->state == STREAM_OPEN || s->state == STREAM_LINGERING) &&
	       s->channel.state == CHANNEL_OPEN && s->first.len + s->out.len > 0 &&
	       uv_stream_get_write_queue_size((const uv_stream_t *)&s->tcp) == 0;
}

/* The memory of an empty queue is freed, for most connections are idle most of the time. A long
 * queue is moved when half of it was sent, or it is full. */
static void
drop_sent(struct stream *s)
{
	s->out.len -= s->out_begin;
	if (s->out.len > 0)
		memmove(s->out.data, s->out.data + s->out_begin, s->out.len);
	else
		buffer_free(&s->out);
	s->out_begin = 0;
}

static void
send_chunk(struct stream *s)
{
	struct buffer *sealed = &s->transport->sealed;
	const struct bytes chunk = next_chunk(s);

	if (s->first.len > 0)
		channel_send(&s->channel, buffer_view(&s->first), sealed);
	buffer_free(&s->first);
	if (chunk.len > 0)
		channel_send(&s->channel, chunk, sealed);
	must(!sealed->failed);

	s->out_begin += chunk.len;
	if (s->out_begin >= s->out.len / 2)
		drop_sent(s);

	write_now(s, buffer_view(sealed));
	if (sealed->room > 4 * READ_SIZE)
		buffer_free(sealed);
	else
		buffer_reset(sealed);
	readers_count(s);
}

static bool
is_client(const struct stream *s)
{
	return s->dialer == NULL && !channel_role_is_replica(s->channel.role);
}

void
stream_flush(struct stream *s)
{
	transport_unlist(s);
	if (can_send(s))
		send_chunk(s);
	while (can_send(s) && !is_client(s))
		send_chunk(s);
	if (can_send(s))
		transport_list_late(s);
	else if (s->state == STREAM_LINGERING && stream_unsent(s) == 0)
		stream_end(s, s->why);
}

void
transport_send(struct transport *n, uint64_t conn, struct bytes frames)
{
	struct stream *s = transport_find(n, conn), *ends;

	if (s == NULL || s->state != STREAM_OPEN || frames.len == 0)
		return;
	while ((ends = stream_unsent(s) + frames.len > TRANSPORT_QUEUE_MAX
	                   ? s
	                   : readers_surplus(s, frames.len)) != NULL) {
		stream_end(ends, "the peer does not read what it is sent");
		if (ends == s)
			return;
	}
	if (s->out.len + frames.len > TRANSPORT_QUEUE_MAX)
		drop_sent(s);
	if (!s->late || wire_frame_goes_first(frames))
		transport_list_unsent(s);

	while (frames.len > 0) {
		const struct bytes frame = {frames.data, first_frame(frames)};

		buffer_put_bytes(wire_frame_goes_first(frame) ? &s->first : &s->out, frame);
		frames.data += frame.len;
		frames.len -= frame.len;
	}
	must(!s->first.failed && !s->out.failed);
	readers_count(s);
}

/* ---- in ---- */

static void
become_open(struct stream *s)
{
	const struct transport_callbacks *callbacks = &s->transport->config.callbacks;

	transport_clear_deadline(s);
	s->state = STREAM_OPEN;
	s->tell = true;
	if (s->dialer != NULL)
		dialer_opened(s);
	if (is_client(s)) {
		s->frame_max = CLIENT_FRAME_MAX;
		readers_join(s);
	}
	socket_options_set(s);
	datagram_socket_open(s);
	if (callbacks->opened(callbacks->user, s->id, s->channel.role, channel_peer(&s->channel)))
		return;
	if (s->dialer == NULL)
		transport_refused(s, channel_role_is_replica(s->channel.role)
		                         ? "the replica is no member, or not yet known as one"
		                         : "its key is not welcome");
	s->tell = false;
	stream_linger(s);
}

/* The reason for which the replica refuses us; NULL when the frame is not a denial. */
static const char *
denial(struct bytes frame)
{
	struct message m;

	if (frame.data[4] != MSG_denied || wire_get_frame(frame, &m) != RC_OK)
		return NULL;
	if (m.denied.rc == RC_PERM || m.denied.rc == RC_ACCES)
		return m.denied.rc == RC_PERM ? transport_unknown_key : transport_not_lasting;
	return m.denied.rc == RC_FULL ? "the replica has no room for one more client"
	                              : "the replica does not know this key yet";
}

/* Tells how much memory an unfinished frame has, of which a part may still be encrypted. */
static void
tell_unfinished(struct stream *s, bool fresh)
{
	const struct transport_callbacks *callbacks = &s->transport->config.callbacks;
	const size_t bytes = s->in.room + s->channel.in.room;

	if (s->state != STREAM_OPEN || !is_client(s) || callbacks->unfinished == NULL ||
	    (bytes == s->unfinished && (bytes == 0 || !fresh)))
		return;
	s->unfinished = bytes;
	callbacks->unfinished(callbacks->user, s->id, bytes, fresh);
}

/* Hands out the whole frames and returns the bytes of an unfinished one. */
static struct bytes
take_frames(struct stream *s, struct bytes from)
{
	const struct transport_callbacks *callbacks = &s->transport->config.callbacks;

	while (s->state == STREAM_OPEN) {
		struct cursor prefix = cursor_of(from);
		const long len = cursor_u32(&prefix) > s->frame_max ? -1 : wire_frame_length(from);
		const struct bytes frame = {from.data, (size_t)len};
		const char *why;

		if (len < 0)
			stream_end(s, "the peer sent a malformed frame");
		if (len <= 0)
			break;
		why = s->dialer != NULL ? denial(frame) : NULL;
		if (why != NULL)
			stream_end(s, why);
		else
			callbacks->frame(callbacks->user, s->id, frame);
		/* The frame holds the cell's signing key, in our buffer. */
		if (wire_frame_code(frame) == MSG_secret)
			sodium_memzero((void *)frame.data, frame.len);
		from.data += len;
		from.len -= (size_t)len;
	}
	return from;
}

/* The channel seals nothing any more: its queue is lost. */
static void
end_failed(struct stream *s)
{
	if (s->state == STREAM_CLOSING)
		return;
	buffer_free(&s->first);
	buffer_free(&s->out);
	s->out_begin = 0;
	s->why = strcmp(s->channel.why, CHANNEL_OTHER_CELL) ? s->channel.why : transport_other_cell;
	stream_linger(s);
}

void
stream_answer(struct stream *s)
{
	struct transport *n = s->transport;
	const enum channel_state state = channel_answer(&s->channel, &n->sealed);

	write_now(s, buffer_view(&n->sealed));
	buffer_reset(&n->sealed);
	if (state == CHANNEL_FAILED)
		end_failed(s);
}

static void
receive(struct stream *s, struct bytes from)
{
	struct transport *n = s->transport;
	struct buffer *plain = s->in.len > 0 ? &s->in : &n->plain;
	enum channel_state state = channel_receive(&s->channel, from, &n->sealed, plain);

	write_now(s, buffer_view(&n->sealed));
	buffer_reset(&n->sealed);
	if (state == CHANNEL_OPEN && s->state == STREAM_SHAKING)
		become_open(s);
	n->receives = s;
	if (s->state == STREAM_OPEN) {
		const struct bytes all = buffer_view(plain), rest = take_frames(s, all);

		/* Keeps an unfinished frame with the connection. Most connections hold none most
		 * of the time, so that an idle connection needs no buffer. */
		if (plain != &s->in) {
			buffer_put_bytes(&s->in, rest);
			buffer_reset(plain);
		} else if (rest.len == 0) {
			buffer_free(&s->in);
		} else if (rest.len < s->in.len) {
			memmove(s->in.data, rest.data, rest.len);
			s->in.len = rest.len;
		}

		tell_unfinished(s, rest.len < all.len);
	}
	n->receives = NULL;
	if (s->state == STREAM_LINGERING)
		buffer_free(&s->in);
	buffer_reset(&n->plain);
	if (state == CHANNEL_CLAIMED && s->state == STREAM_SHAKING)
		handshakes_claimed(s);
	else if (state == CHANNEL_FAILED)
		end_failed(s);
}

static void
on_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
	struct stream *s = stream->data;

	if (len == UV_ENOBUFS)
		return; /* on_room gave no buffer: the socket is read in the next turn */
	if (len == UV_EOF)
		/* A peer that can't decrypt our handshake message closes the connection without an
		 * answer. */
		stream_end(s, s->state != STREAM_SHAKING ? "closed by the peer"
		              : s->dialer == NULL
		                  ? "closed before it had proved a key"
		                  : "refused: it has another key, or is of another cell");
	else if (len < 0)
		stream_end(s, uv_strerror((int)len));
	else if (len > 0)
		receive(s, (struct bytes){(const uint8_t *)buf->base, (size_t)len});
}

/* Says how many bytes may be read from a connection now. All accepted connections but those of
 * replicas share CLIENTS_TURN_MS of a turn, so that however much clients send, timers and messages
 * from replicas do not wait for long. Once that time has passed each client's socket is still read
 * once, a little: it may hold a KeepAlive. Handshakes, which take longest, wait for the next turn.
 * With an empty buffer libuv reads nothing, and asks again in the next turn. */
static void
on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct stream *s = handle->data;
	struct transport *n = s->transport;
	const bool again = s->turn == n->turn;
	size_t room = sizeof n->bytes;

	(void)suggested;
	s->turn = n->turn;
	if (s->dialer == NULL &&
	    !(s->state == STREAM_OPEN && channel_role_is_replica(s->channel.role))) {
		const mono_t now = clock_now();

		if (!n->turn_runs)
			n->turn_end = mono_add(now, span_ms(CLIENTS_TURN_MS));
		n->turn_runs = true;
		if (mono_reached(now, n->turn_end))
			room = again || s->state == STREAM_SHAKING ? 0 : READ_LITTLE;
	}
	*buf = uv_buf_init((char *)n->bytes, (unsigned)room);
}

void
stream_read(struct stream *s)
{
	const int rc = uv_read_start((uv_stream_t *)&s->tcp, on_room, on_read);

	must(rc == 0 || rc == UV_EALREADY);
}

void
stream_start(struct stream *s)
{
	struct transport *n = s->transport;
	struct channel_config config = {.initiator = s->dialer != NULL, .own = n->own};
	int rc;

	memcpy(config.cell_id, n->config.cell_id, sizeof config.cell_id);
	if (config.initiator) {
		config.role = s->dialer->role;
		config.remote = s->dialer->key;
	}
	random_fill(config.ephemeral_secret, sizeof config.ephemeral_secret);
	channel_start(&s->channel, &config, &n->sealed);
	sodium_memzero(&config, sizeof config);
	if ((rc = uv_tcp_nodelay(&s->tcp, 1)) < 0 ||
	    (rc = uv_tcp_keepalive(&s->tcp, 1, KEEPALIVE_S)) < 0 ||
	    (rc = uv_read_start((uv_stream_t *)&s->tcp, on_room, on_read)) < 0)
		stream_end(s, uv_strerror(rc));
	else if (s->channel.state == CHANNEL_FAILED)
		stream_end(s, s->channel.why);
	else
		write_now(s, buffer_view(&n->sealed));
	buffer_reset(&n->sealed);
}

void
transport_hold(struct transport *n, uint64_t conn, bool on)
{
	struct stream *s = transport_find(n, conn);

	if (s == NULL || s->state != STREAM_OPEN)
		return;
	if (on)
		uv_read_stop((uv_stream_t *)&s->tcp);
	else
		stream_read(s);
}

size_t
transport_unsent_bytes(struct transport *n, uint64_t conn)
{
	const struct stream *s = transport_find(n, conn);

	if (s == NULL || s->state != STREAM_OPEN)
		return 0;
	return stream_unsent(s);
}
