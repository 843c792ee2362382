/* The options of a connection's socket: when the kernel gives a silent peer up, and how much it
 * takes ahead. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "cell/net/stream.h"

enum {
	/* A connection is closed when sent bytes are not acknowledged for this long. Short for
	 * replicas: a dead connection delays the next one to a replica that has restarted. A
	 * client's connection may be kept for about as long as its session's lease. */
	SILENCE_REPLICA_MS = 3000,
	SILENCE_CLIENT_MS = 15000,
	KERNEL_UNSENT = 64 * 1024, /* bytes that the kernel takes ahead */
};

void
socket_options_set(struct stream *s)
{
	const bool replica = channel_role_is_replica(s->channel.role);
	const unsigned ms = replica ? SILENCE_REPLICA_MS : SILENCE_CLIENT_MS;
	const int on = 1, ahead = KERNEL_UNSENT;
	uv_os_fd_t fd;

	if (uv_fileno((uv_handle_t *)&s->tcp, &fd) < 0)
		return;
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
	/* Heartbeats are few and small. Lost ones are repeated at an even pace: with TCP's doubled
	 * pauses a connection stayed silent for longer after a short cut than a lease lasts. A
	 * client's KeepAlive cannot overtake bytes that the kernel has taken. */
	if (replica)
		setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof on);
	else
		setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &ahead, sizeof ahead);
}

/* The kernel probes each second after half of TRANSPORT_PROBED_S without traffic, and closes the
 * connection when the peer has not answered for the whole time. */
void
socket_options_probe(struct stream *s)
{
	const int idle = TRANSPORT_PROBED_S / 2, interval = 1;
	const unsigned ms = (TRANSPORT_PROBED_S - 1) * 1000;
	uv_os_fd_t fd;

	if (uv_fileno((uv_handle_t *)&s->tcp, &fd) < 0)
		return;
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}
