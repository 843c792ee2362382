#include "fs/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/net/transport.h"

/* A connection over the network. */
struct path {
	uint64_t conn; /* 0: none */
	struct client_replica replica;
};

struct link {
	struct link_callbacks callbacks;

	/* in this process */
	struct server *server; /* NULL: over the network */
	char *principal;
	uint64_t conn;  /* 0: none */
	uv_idle_t idle; /* runs until `connected` was called */

	/* over the network */
	struct transport *transport;
	struct client_members members;  /* with their addresses and keys */
	struct srv_addresses srv;       /* where to begin instead; none: at the members' own */
	unsigned times[LIMIT_REPLICAS]; /* that each member was tried there */
	struct path paths[2];           /* the connection for requests, the standby */
	char trouble[LIMIT_HOST + 160];
	bool heard;                    /* a replica has sent a frame */
	bool elsewhere;                /* a replica belongs to another cell */
	uint8_t tried[LIMIT_REPLICAS]; /* replicas not reached; until `heard` */
	int tried_n;
	void (*refused)(void *user);
	void *refused_user;

	void (*stopped)(void *user);
	void *stopped_user;
};

static void
gone(void *link)
{
	struct link *l = link;
	void (*stopped)(void *user) = l->stopped;
	void *user = l->stopped_user;

	free(l->principal);
	free(l);
	stopped(user);
}

/* ---- in this process ---- */

static void
on_idle(uv_idle_t *idle)
{
	struct link *l = idle->data;

	must(uv_idle_stop(idle) == 0);
	l->callbacks.connected(l->callbacks.user);
}

static void
on_host_frame(void *user, struct bytes frame)
{
	struct link *l = user;

	l->callbacks.frame(l->callbacks.user, false, frame);
}

static void
on_host_closed(void *user)
{
	struct link *l = user;

	l->conn = 0;
	must(uv_idle_stop(&l->idle) == 0);
	l->callbacks.disconnected(l->callbacks.user, false, false);
}

static void
on_idle_closed(uv_handle_t *idle)
{
	gone(idle->data);
}

struct link *
link_to_server(uv_loop_t *loop, struct server *server, const char *principal)
{
	struct link *l = memory_zero(1, sizeof *l);

	l->server = server;
	l->principal = bytes_to_text(bytes_of(principal));
	must(uv_idle_init(loop, &l->idle) == 0);
	l->idle.data = l;
	return l;
}

/* ---- over the network ---- */

static bool
is_standby(const struct link *l, uint64_t conn)
{
	must(conn == l->paths[false].conn || conn == l->paths[true].conn);
	return conn == l->paths[true].conn;
}

static bool
on_opened(void *user, uint64_t conn, enum channel_role role, const uint8_t key[NOISE_KEY])
{
	struct link *l = user;

	(void)role;
	(void)key; /* the channel has checked that it is the replica's */
	if (is_standby(l, conn))
		transport_probe(l->transport, conn);
	else
		l->callbacks.connected(l->callbacks.user);
	return true;
}

static void
on_net_frame(void *user, uint64_t conn, struct bytes frame)
{
	struct link *l = user;
	bool standby = is_standby(l, conn);

	l->heard = true;
	if (!standby)
		l->trouble[0] = '\0';
	l->callbacks.frame(l->callbacks.user, standby, frame);
}

static void
on_net_datagram(void *user, uint64_t conn, struct bytes frame)
{
	struct link *l = user;

	if (!is_standby(l, conn))
		l->callbacks.datagram(l->callbacks.user, frame);
}

static int
index_of(const struct link *l, uint8_t id)
{
	for (int i = 0; i < l->members.n; i++)
		if (l->members.list[i].id == id)
			return i;
	return -1;
}

/* The next time the replica is tried at another address. */
static bool
was_tried_everywhere(struct link *l, uint8_t replica)
{
	const int i = index_of(l, replica);

	return l->srv.n == 0 || i < 0 || ++l->times[i] >= (unsigned)l->srv.n;
}

static bool
was_tried(const struct link *l, uint8_t replica)
{
	for (int i = 0; i < l->tried_n; i++)
		if (l->tried[i] == replica)
			return true;
	return false;
}

static bool
is_denied(const char *why)
{
	return why == transport_unknown_key || why == transport_not_lasting;
}

/* A replica of another cell may have got the address of one of ours, so the client is refused for
 * good only when no other replica is left to try. */
static void
attempt_failed(struct link *l, const struct path *path, const char *why)
{
	if (was_tried_everywhere(l, path->replica.id) && !l->heard &&
	    !was_tried(l, path->replica.id) && l->tried_n < LIMIT_REPLICAS)
		l->tried[l->tried_n++] = path->replica.id;
	l->elsewhere |= why == transport_other_cell;
	if (l->refused == NULL || path == &l->paths[true] ||
	    (l->heard && why != transport_not_lasting))
		return;
	if (is_denied(why) || (l->elsewhere && l->tried_n >= l->members.n))
		l->refused(l->refused_user);
}

static void
on_net_closed(void *user, uint64_t conn, const char *why)
{
	struct link *l = user;
	bool standby = is_standby(l, conn);
	struct path *path = &l->paths[standby];

	if (!standby && (!l->elsewhere || l->heard))
		snprintf(l->trouble, sizeof l->trouble, "replica %u at %s: %s", path->replica.id,
		         path->replica.address, why);
	path->conn = 0;
	attempt_failed(l, path, why);
	l->callbacks.disconnected(l->callbacks.user, standby, is_denied(why));
}

/* The replica, with the address at which it is tried now. */
static struct client_replica
find_replica(const struct link *l, uint8_t id)
{
	const int i = index_of(l, id);
	struct client_replica r;

	must(i >= 0);
	r = l->members.list[i];
	if (l->srv.n > 0)
		snprintf(r.address, sizeof r.address, "%s",
		         srv_address(&l->srv, l->members.list[i].address, i, l->times[i]));
	return r;
}

static void
connect_path(struct link *l, bool standby, uint8_t replica)
{
	struct path *path = &l->paths[standby];

	if (path->conn != 0) {
		transport_close(l->transport, path->conn);
		attempt_failed(l, path, "no answer in time");
	}
	*path = (struct path){0};
	if (replica == 0)
		return;
	path->replica = find_replica(l, replica);
	path->conn = transport_connect(l->transport, path->replica.address, CHANNEL_CLIENT,
	                               path->replica.key);
}

struct link *
link_to_cell(uv_loop_t *loop, const struct cell_file *cell_file, const struct srv_addresses *srv,
             const struct noise_pair *key, int *error)
{
	struct link *l = memory_zero(1, sizeof *l);
	struct transport_config config = {
	    .own = key,
	    .callbacks = {.opened = on_opened,
	                  .frame = on_net_frame,
	                  .closed = on_net_closed,
	                  .datagram = on_net_datagram,
	                  .user = l},
	};

	l->members.n = cell_file->replicas_n;
	for (int i = 0; i < cell_file->replicas_n; i++) {
		struct client_replica *r = &l->members.list[i];

		r->id = cell_file->replicas[i].id;
		strcpy(r->address, cell_file->replicas[i].address);
		memcpy(r->key, cell_file->replicas[i].public_key, sizeof r->key);
	}
	l->srv = *srv;
	memcpy(config.cell_id, cell_file->id, sizeof config.cell_id);
	*error = transport_new(&l->transport, loop, &config);
	if (*error == 0)
		return l;
	free(l);
	return NULL;
}

/* ---- common to both ---- */

void
link_set_members(struct link *l, const struct client_members *members)
{
	l->members = *members;
	l->srv.n = 0;
}

void
link_start(struct link *l, const struct link_callbacks *callbacks)
{
	l->callbacks = *callbacks;
}

void
link_connect(struct link *l, uint8_t replica)
{
	const struct server_client client = {on_host_frame, on_host_closed, l};

	if (l->server == NULL) {
		connect_path(l, false, replica);
		return;
	}
	if (l->conn != 0)
		server_disconnect(l->server, l->conn);
	l->conn = server_connect(l->server, &client, l->principal);
	must(uv_idle_start(&l->idle, on_idle) == 0);
}

void
link_listen(struct link *l, uint8_t replica)
{
	if (l->server == NULL)
		connect_path(l, true, replica);
}

void
link_send(struct link *l, struct bytes frames)
{
	if (l->server != NULL && l->conn != 0)
		server_send(l->server, l->conn, frames);
	else if (l->server == NULL && l->paths[false].conn != 0)
		transport_send(l->transport, l->paths[false].conn, frames);
}

void
link_send_datagram(struct link *l, struct bytes frame)
{
	if (l->server == NULL && l->paths[false].conn != 0)
		transport_send_datagram(l->transport, l->paths[false].conn, frame);
}

void
link_on_refused(struct link *l, void (*refused)(void *user), void *user)
{
	l->refused = refused;
	l->refused_user = user;
}

const char *
link_trouble(const struct link *l)
{
	if (l->trouble[0] != '\0')
		return l->trouble;
	return l->heard || l->server != NULL ? "the cell has no master" : "no replica answers";
}

void
link_stop(struct link *l, void (*stopped)(void *user), void *user)
{
	l->stopped = stopped;
	l->stopped_user = user;
	if (l->server == NULL) {
		transport_stop(l->transport, gone, l);
		return;
	}
	if (l->conn != 0)
		server_disconnect(l->server, l->conn);
	uv_close((uv_handle_t *)&l->idle, on_idle_closed);
}
