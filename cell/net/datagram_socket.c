/* Datagrams beside the connections of clients (wire/datagram.h), in both directions between the
 * addresses that the connection has. A listening transport has one socket, on the port on which it
 * listens, and knows each datagram's connection by the id in it; an outgoing connection has a
 * socket of its own, from its first datagram on. Datagrams that can't be sent are lost, and those
 * that can't be opened are dropped without an answer: each costs a look-up, and opening 80 bytes
 * when the id is right. libuv reads at most 32 of them in a turn. */
#include <netinet/in.h>
#include <sodium.h>
#include <string.h>

#include "cell/base/keyed.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/net/stream.h"
#include "cell/sys/log.h"

KEYED_TREE(datagram_tree, stream, by_datagram, datagrams.keys.id)

static void
on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct transport *n = handle->data;

	(void)suggested;
	*buf = uv_buf_init((char *)n->bytes, sizeof n->bytes);
}

/* Answers are sent to where the last datagram that could be opened has come from: so they get
 * through where addresses are translated. */
static void
on_datagram(uv_udp_t *handle, ssize_t len, const uv_buf_t *buf, const struct sockaddr *from,
            unsigned flags)
{
	struct transport *n = handle->data;
	const struct transport_callbacks *callbacks = &n->config.callbacks;
	const struct bytes datagram = {(const uint8_t *)buf->base, len > 0 ? (size_t)len : 0};
	struct stream *s = NULL;
	uint8_t plain[DATAGRAM_PLAIN];
	struct bytes frame;
	uint64_t id;

	if (!(flags & UV_UDP_PARTIAL) && datagram_id(datagram, &id))
		s = datagram_tree_find(&n->by_datagram, id);
	if (s == NULL || from == NULL || s->state != STREAM_OPEN ||
	    (s->dialer == NULL ? n->datagram_socket : s->datagram_socket) != handle ||
	    !datagram_open(&s->datagrams, datagram, plain, &frame))
		return;
	memcpy(&s->datagram_peer, from,
	       from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
	                                   : sizeof(struct sockaddr_in));
	callbacks->datagram(callbacks->user, s->id, frame);
}

/* ---- sockets ---- */

static uv_udp_t *
socket_new(struct transport *n)
{
	uv_udp_t *udp = memory_zero(1, sizeof *udp);

	must(uv_udp_init(n->loop, udp) == 0);
	udp->data = n;
	n->handles_n++;
	return udp;
}

static void
socket_end(uv_udp_t **udp)
{
	if (*udp != NULL)
		uv_close((uv_handle_t *)*udp, transport_handle_closed);
	*udp = NULL;
}

/* If that fails, KeepAlives are sent over TCP only, as to replicas behind a packet filter. */
void
datagram_socket_listen(struct transport *n, const struct sockaddr *at)
{
	int rc;

	if (n->config.callbacks.datagram == NULL)
		return;
	n->datagram_socket = socket_new(n);
	if ((rc = uv_udp_bind(n->datagram_socket, at, 0)) == 0 &&
	    (rc = uv_udp_recv_start(n->datagram_socket, on_room, on_datagram)) == 0)
		return;
	log_warn("UDP port %d can't be used, KeepAlives are received over TCP only: %s",
	         transport_port(n), uv_strerror(rc));
	socket_end(&n->datagram_socket);
}

void
datagram_socket_unlisten(struct transport *n)
{
	socket_end(&n->datagram_socket);
}

static bool
connect_socket(struct stream *s)
{
	struct sockaddr_storage peer;
	int len = sizeof peer;

	if (s->datagram_socket != NULL)
		return true;
	s->datagram_socket = socket_new(s->transport);
	if (uv_tcp_getpeername(&s->tcp, (struct sockaddr *)&peer, &len) == 0 &&
	    uv_udp_connect(s->datagram_socket, (struct sockaddr *)&peer) == 0 &&
	    uv_udp_recv_start(s->datagram_socket, on_room, on_datagram) == 0)
		return true;
	socket_end(&s->datagram_socket);
	return false;
}

/* ---- connections ---- */

void
datagram_socket_open(struct stream *s)
{
	struct transport *n = s->transport;

	if (channel_role_is_replica(s->channel.role) || n->config.callbacks.datagram == NULL)
		return;
	s->datagrams = datagrams_of(&s->channel.noise);
	if (RB_INSERT(datagram_tree, &n->by_datagram, s) != NULL)
		s->datagrams = (struct datagrams){0}; /* two with one id: the second has none */
}

void
datagram_socket_close(struct stream *s)
{
	if (s->datagrams.keys.id != 0)
		RB_REMOVE(datagram_tree, &s->transport->by_datagram, s);
	sodium_memzero(&s->datagrams, sizeof s->datagrams);
	socket_end(&s->datagram_socket);
}

void
transport_send_datagram(struct transport *n, uint64_t conn, struct bytes frame)
{
	struct stream *s = transport_find(n, conn);
	uint8_t sealed[DATAGRAM_SIZE];
	uv_buf_t buf = uv_buf_init((char *)sealed, sizeof sealed);
	const struct sockaddr *to;

	if (s == NULL || s->state != STREAM_OPEN || s->datagrams.keys.id == 0)
		return;
	to = s->dialer == NULL ? (const struct sockaddr *)&s->datagram_peer : NULL;
	if (to != NULL ? n->datagram_socket == NULL || to->sa_family == AF_UNSPEC
	               : !connect_socket(s))
		return;
	datagram_seal(&s->datagrams, frame, sealed);
	uv_udp_try_send(to != NULL ? n->datagram_socket : s->datagram_socket, &buf, 1, to);
}
