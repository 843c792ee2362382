/* All connections of a process: listening, look-up by number, deadlines, the end. */
#include "cell/net/transport.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/keyed.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"
#include "cell/sys/secret.h"
#include "cell/net/stream.h"

enum { BACKLOG = 512, LATE_CHUNKS = 2, PACE_QUIET_S = 10, PACE_MAX_S = 600 };

KEYED_TREE(stream_tree, stream, node, id)

struct stream *
transport_find(struct transport *n, uint64_t id)
{
	return stream_tree_find(&n->streams, id);
}

/* ---- the end ---- */

static void
handle_gone(struct transport *n)
{
	void (*stopped)(void *user) = n->stopped;
	void *user = n->stopped_user;

	if (--n->handles_n > 0)
		return;
	handshake_budget_free(&n->handshakes);
	buffer_free(&n->plain);
	buffer_free(&n->sealed);
	secret_free(n->own);
	free(n);
	if (stopped != NULL)
		stopped(user);
}

static void
on_handle_closed(uv_handle_t *handle)
{
	handle_gone(handle->data);
}

void
transport_handle_closed(uv_handle_t *handle)
{
	struct transport *n = handle->data;

	free(handle);
	handle_gone(n);
}

/* The user may have called transport_stop from within the last connection's `closed`. */
static void
stop_if_empty(struct transport *n)
{
	if (!n->stopping || !RB_EMPTY(&n->streams) || uv_is_closing((uv_handle_t *)&n->timer))
		return;
	uv_close((uv_handle_t *)&n->timer, on_handle_closed);
	uv_close((uv_handle_t *)&n->admission, on_handle_closed);
	uv_close((uv_handle_t *)&n->prepare, on_handle_closed);
	uv_close((uv_handle_t *)&n->idle, on_handle_closed);
}

void
transport_stream_closed(struct stream *s)
{
	struct transport *n = s->transport;
	const struct transport_callbacks *callbacks = &n->config.callbacks;
	uint64_t id = s->id;
	const char *why = s->why;
	bool tell = s->tell;

	RB_REMOVE(stream_tree, &n->streams, s);
	stream_free(s);
	if (tell)
		callbacks->closed(callbacks->user, id, why);
	stop_if_empty(n);
}

/* ---- deadlines ---- */

static void on_timer(uv_timer_t *timer);

/* libuv's clock only wakes the loop; deadlines are compared with clock_now. */
static void
arm(struct transport *n)
{
	struct stream *first = TAILQ_FIRST(&n->timed);
	int64_t ms;

	if (first == NULL || uv_is_active((uv_handle_t *)&n->timer) ||
	    uv_is_closing((uv_handle_t *)&n->timer))
		return;
	ms = span_to_ms(mono_since(first->deadline, clock_now())) + 1;
	uv_update_time(n->loop);
	must(uv_timer_start(&n->timer, on_timer, ms < 0 ? 0 : (uint64_t)ms, 0) == 0);
}

static void
on_timer(uv_timer_t *timer)
{
	struct transport *n = timer->data;
	mono_t now = clock_now();
	struct stream *s;

	while ((s = TAILQ_FIRST(&n->timed)) != NULL && mono_reached(now, s->deadline))
		stream_end(s, s->state == STREAM_SHAKING ? "no answer in time" : s->why);
	arm(n);
}

void
transport_set_deadline(struct stream *s)
{
	struct transport *n = s->transport;

	must(s->state == STREAM_SHAKING || s->state == STREAM_LINGERING);
	s->deadline = mono_add(clock_now(), n->config.patience);
	TAILQ_INSERT_TAIL(&n->timed, s, timed);
	if (s->state == STREAM_SHAKING && s->dialer == NULL)
		n->unproved_n++;
	arm(n);
}

void
transport_clear_deadline(struct stream *s)
{
	if (s->state != STREAM_SHAKING && s->state != STREAM_LINGERING)
		return;
	TAILQ_REMOVE(&s->transport->timed, s, timed);
	if (s->state == STREAM_SHAKING && s->dialer == NULL)
		s->transport->unproved_n--;
	origins_leave(s);
}

/* ---- the end of a turn ---- */

static void
on_idle(uv_idle_t *handle)
{
	(void)handle; /* while an idle handle runs, the loop does not sleep */
}

void
transport_list_unsent(struct stream *s)
{
	if (s->listed)
		return;
	transport_unlist(s);
	s->listed = true;
	TAILQ_INSERT_TAIL(&s->transport->unsent, s, unsent);
	must(uv_idle_start(&s->transport->idle, on_idle) == 0);
}

void
transport_list_late(struct stream *s)
{
	if (s->listed || s->late)
		return;
	s->late = true;
	TAILQ_INSERT_TAIL(&s->transport->late, s, unsent);
	must(uv_idle_start(&s->transport->idle, on_idle) == 0);
}

void
transport_unlist(struct stream *s)
{
	if (s->listed)
		TAILQ_REMOVE(&s->transport->unsent, s, unsent);
	if (s->late)
		TAILQ_REMOVE(&s->transport->late, s, unsent);
	s->listed = s->late = false;
}

static void
on_prepare(uv_prepare_t *handle)
{
	struct transport *n = handle->data;
	struct stream *s;

	n->turn++;
	n->turn_runs = false;
	while ((s = TAILQ_FIRST(&n->unsent)) != NULL)
		stream_flush(s);
	for (int i = 0; i < LATE_CHUNKS && (s = TAILQ_FIRST(&n->late)) != NULL; i++)
		stream_flush(s);
	if (TAILQ_EMPTY(&n->late))
		must(uv_idle_stop(&n->idle) == 0);
}

/* ---- refused connections ---- */

bool
pace_allows(struct pace *p, mono_t now, unsigned *held)
{
	const bool again =
	    p->last.ns != 0 && mono_before(now, mono_add(p->last, span_s(PACE_QUIET_S)));

	p->last = now;
	if (again && mono_before(now, p->next)) {
		p->held++;
		return false;
	}
	if (!again)
		p->pause = backoff_of(span_s(1), span_s(PACE_MAX_S));
	p->next = mono_add(now, backoff_take(&p->pause));
	*held = p->held;
	p->held = 0;
	return true;
}

/* Paced, so that repeated connection attempts cannot fill a disk with log lines. */
void
transport_refused(struct stream *s, const char *why)
{
	struct transport *n = s->transport;
	struct sockaddr_storage address;
	char name[INET6_ADDRSTRLEN] = "somewhere";
	int len = sizeof address;
	unsigned held;

	if (n->stopping || !pace_allows(&n->refusals, clock_now(), &held))
		return;
	if (uv_tcp_getpeername(&s->tcp, (struct sockaddr *)&address, &len) < 0)
		address.ss_family = AF_UNSPEC;
	if (address.ss_family == AF_INET6)
		uv_ip6_name((struct sockaddr_in6 *)&address, name, sizeof name);
	else if (address.ss_family == AF_INET)
		uv_ip4_name((struct sockaddr_in *)&address, name, sizeof name);
	if (held > 0)
		log_warn("a connection from %s is refused: %s (and %u more)", name, why, held);
	else
		log_warn("a connection from %s is refused: %s", name, why);
}

static void
on_connection(uv_stream_t *listener, int status)
{
	struct transport *n = listener->data;
	struct stream *s;

	if (status < 0)
		return;
	s = stream_new(n, NULL);
	RB_INSERT(stream_tree, &n->streams, s);
	transport_set_deadline(s);
	if ((status = uv_accept(listener, (uv_stream_t *)&s->tcp)) < 0) {
		stream_end(s, uv_strerror(status));
		return;
	}
	origins_join(s);
	if (n->unproved_n > TRANSPORT_UNPROVED_MAX)
		stream_end(origins_surplus(n), "too many connections that have not proved a key");
	if (s->state == STREAM_SHAKING)
		stream_start(s);
}

/* ---- listening ---- */

static struct sockaddr_storage
listening(const struct transport *n)
{
	struct sockaddr_storage address;
	int len = sizeof address;

	must(n->listener != NULL);
	must(uv_tcp_getsockname(n->listener, (struct sockaddr *)&address, &len) == 0);
	return address;
}

bool
transport_listen(struct transport *n, const char *address, char *why, size_t why_size)
{
	const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	char host[NI_MAXHOST], port[NI_MAXSERV];
	struct sockaddr_storage at;
	struct addrinfo *found = NULL;
	int rc = 0;

	must(n->listener == NULL && !n->stopping);
	if (!dialer_split(address, host, port)) {
		snprintf(why, why_size, "%s: not an address HOST:PORT", address);
		return false;
	}
	if ((rc = getaddrinfo(host, port, &wanted, &found)) != 0) {
		snprintf(why, why_size, "%s: %s", address, gai_strerror(rc));
		return false;
	}
	for (struct addrinfo *a = found; a != NULL && n->listener == NULL; a = a->ai_next) {
		uv_tcp_t *tcp = memory_zero(1, sizeof *tcp);

		must(uv_tcp_init(n->loop, tcp) == 0);
		tcp->data = n;
		n->handles_n++;
		if ((rc = uv_tcp_bind(tcp, a->ai_addr, 0)) == 0 &&
		    (rc = uv_listen((uv_stream_t *)tcp, BACKLOG, on_connection)) == 0)
			n->listener = tcp;
		else
			uv_close((uv_handle_t *)tcp, transport_handle_closed);
	}
	freeaddrinfo(found);
	if (n->listener == NULL) {
		snprintf(why, why_size, "%s: can't listen there: %s", address, uv_strerror(rc));
		return false;
	}
	at = listening(n);
	datagram_socket_listen(n, (const struct sockaddr *)&at);
	return true;
}

int
transport_port(const struct transport *n)
{
	const struct sockaddr_storage address = listening(n);

	return ntohs(address.ss_family == AF_INET6
	                 ? ((const struct sockaddr_in6 *)&address)->sin6_port
	                 : ((const struct sockaddr_in *)&address)->sin_port);
}

bool
transport_listening(const struct transport *n, char *to, size_t size)
{
	const struct sockaddr_storage address = listening(n);
	const struct sockaddr_in *four = (const struct sockaddr_in *)&address;
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address;
	char name[INET6_ADDRSTRLEN] = "";

	if (address.ss_family == AF_INET6) {
		uv_ip6_name(six, name, sizeof name);
		snprintf(to, size, "[%s]:%d", name, transport_port(n));
		return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
	}
	uv_ip4_name(four, name, sizeof name);
	snprintf(to, size, "%s:%d", name, transport_port(n));
	return ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* ---- creation, use and the end ---- */

int
transport_new(struct transport **transport, uv_loop_t *loop, const struct transport_config *config)
{
	struct transport *n;

	if (sodium_init() < 0)
		return -EIO;
	n = memory_zero(1, sizeof *n);
	n->loop = loop;
	n->config = *config;
	n->own = secret_new(sizeof *n->own);
	*n->own = *config->own;
	n->config.own = NULL;
	if (n->config.patience.ns == 0)
		n->config.patience = span_ms(TRANSPORT_PATIENCE_MS);
	n->plain = BUFFER(2 * READ_SIZE);
	n->sealed = BUFFER(SIZE_MAX);
	RB_INIT(&n->streams);
	RB_INIT(&n->by_datagram);
	RB_INIT(&n->origins);
	RB_INIT(&n->readers);
	TAILQ_INIT(&n->timed);
	TAILQ_INIT(&n->unsent);
	TAILQ_INIT(&n->late);
	TAILQ_INIT(&n->waiting);
	handshake_budget_init(&n->handshakes);
	must(uv_timer_init(loop, &n->timer) == 0);
	must(uv_timer_init(loop, &n->admission) == 0);
	must(uv_prepare_init(loop, &n->prepare) == 0);
	must(uv_idle_init(loop, &n->idle) == 0);
	n->handles_n = 4;
	n->timer.data = n->admission.data = n->prepare.data = n->idle.data = n;
	must(uv_prepare_start(&n->prepare, on_prepare) == 0);
	*transport = n;
	return 0;
}

uint64_t
transport_connect(struct transport *n, const char *address, enum channel_role role,
                  const uint8_t key[NOISE_KEY])
{
	struct dialer *dialer = memory_zero(1, sizeof *dialer);
	struct stream *s;

	must(!n->stopping);
	dialer->role = role;
	memcpy(dialer->key, key, NOISE_KEY);
	s = stream_new(n, dialer);
	RB_INSERT(stream_tree, &n->streams, s);
	transport_set_deadline(s);
	dialer_start(s, address);
	return s->id;
}

static void
close_stream(struct stream *s)
{
	s->tell = false;
	if (s->state == STREAM_SHAKING)
		stream_end(s, NULL);
	else if (s->state == STREAM_OPEN)
		stream_linger(s);
}

const uint8_t *
transport_key(struct transport *n, uint64_t conn)
{
	const struct stream *s = transport_find(n, conn);

	return s != NULL && s->state == STREAM_OPEN ? channel_peer(&s->channel) : NULL;
}

void
transport_probe(struct transport *n, uint64_t conn)
{
	struct stream *s = transport_find(n, conn);

	if (s != NULL)
		socket_options_probe(s);
}

bool
transport_close(struct transport *n, uint64_t conn)
{
	struct stream *s = transport_find(n, conn);
	const bool would_tell = s != NULL && s->tell;

	if (s != NULL)
		close_stream(s);
	return would_tell;
}

void
transport_stop(struct transport *n, void (*stopped)(void *user), void *user)
{
	struct stream *s;

	must(!n->stopping);
	n->stopping = true;
	n->stopped = stopped;
	n->stopped_user = user;
	if (n->listener != NULL)
		uv_close((uv_handle_t *)n->listener, transport_handle_closed);
	datagram_socket_unlisten(n);
	RB_FOREACH(s, stream_tree, &n->streams)
		close_stream(s);
	stop_if_empty(n);
}
