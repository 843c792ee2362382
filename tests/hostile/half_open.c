#include "tests/hostile/half_open.h"

#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/sys/clock.h"

enum half_kind { SILENT, STOPPED, NOISE, SLOW, REPEATED, HALF_KINDS };

enum { AT_ONCE = 64, SLOW_EVERY = 16, TEXT_MAX = 256 };

struct half {
	struct half_open *all;
	enum half_kind kind;
	uv_tcp_t tcp;
	uv_connect_t connecting;
	uint8_t text[TEXT_MAX];
	size_t len, sent;
	bool is_open, is_closing;
};

struct half_open {
	const struct hostile_target *targets;
	size_t targets_n;
	struct half *halves;
	size_t most, made, standing, ticks;
};

static void
end(struct half *h)
{
	if (!h->is_closing)
		uv_close((uv_handle_t *)&h->tcp, NULL);
	h->all->standing -= h->is_open;
	h->is_open = false;
	h->is_closing = true;
}

/* The kernel has room for so little. */
static void
send_some(struct half *h, size_t len)
{
	uv_buf_t buf = uv_buf_init((char *)h->text + h->sent, (unsigned)len);
	int n = len > 0 ? uv_try_write((uv_stream_t *)&h->tcp, &buf, 1) : 0;

	if (n > 0)
		h->sent += (size_t)n;
	else if (n < 0 && n != UV_EAGAIN)
		end(h);
}

static void
on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	static char bytes[4096];

	(void)handle, (void)suggested;
	*buf = uv_buf_init(bytes, sizeof bytes);
}

static void
on_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
	(void)buf;
	if (len < 0)
		end(stream->data);
}

static void
on_connected(uv_connect_t *request, int status)
{
	struct half *h = request->handle->data;

	if (h->is_closing)
		return;
	if (status < 0) {
		end(h);
		return;
	}
	h->is_open = true;
	h->all->standing++;
	if (uv_read_start((uv_stream_t *)&h->tcp, on_room, on_read) < 0)
		end(h);
	else if (h->kind != SLOW)
		send_some(h, h->len);
}

static void
put(struct half *h, const void *data, size_t len)
{
	must(h->len + len <= TEXT_MAX);
	if (len > 0)
		memcpy(h->text + h->len, data, len);
	h->len += len;
}

static void
choose_text(struct half *h, const struct hostile_target *target)
{
	static const uint8_t preamble[CHANNEL_PREAMBLE] =
	    {'l', 's', 'f', 's', CHANNEL_VERSION, CHANNEL_CLIENT};
	const struct bytes recorded = hostile_line_recorded();
	uint8_t noise[CHANNEL_FIRST];

	random_fill(noise, sizeof noise);
	if (h->kind == REPEATED && recorded.len <= TEXT_MAX) {
		put(h, recorded.data, recorded.len);
	} else if (h->kind == NOISE) {
		put(h, noise, sizeof noise);
	} else if (h->kind != SILENT) {
		put(h, preamble, sizeof preamble);
		put(h, target->cell_id, CELL_ID);
		put(h, noise, h->kind == STOPPED ? sizeof noise / 2 : sizeof noise);
	}
}

static void
open_one(struct half_open *all)
{
	const struct hostile_target *target = &all->targets[all->made % all->targets_n];
	struct half *h = &all->halves[all->made];

	h->all = all;
	h->kind = (enum half_kind)(all->made / all->targets_n % HALF_KINDS);
	h->tcp.data = h;
	all->made++;
	choose_text(h, target);
	must(uv_tcp_init(target->loop, &h->tcp) == 0);
	if (uv_tcp_connect(&h->connecting, &h->tcp, (const struct sockaddr *)&target->address,
	                   on_connected) < 0)
		end(h);
}

void
half_open_tick(struct half_open *all)
{
	for (int i = 0; i < AT_ONCE && all->made < all->most; i++)
		open_one(all);
	if (++all->ticks % SLOW_EVERY != 0)
		return;
	for (size_t i = 0; i < all->made; i++) {
		struct half *h = &all->halves[i];

		if (h->kind == SLOW && h->is_open && h->sent < h->len)
			send_some(h, 1);
	}
}

struct half_open *
half_open_new(const struct hostile_target *targets, size_t targets_n, size_t most)
{
	struct half_open *all = memory_zero(1, sizeof *all);

	all->targets = targets;
	all->targets_n = targets_n;
	all->most = most;
	all->halves = memory_zero(most, sizeof *all->halves);
	return all;
}

size_t
half_open_made(const struct half_open *h)
{
	return h->made;
}

size_t
half_open_standing(const struct half_open *h)
{
	return h->standing;
}
