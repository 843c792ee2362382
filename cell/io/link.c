#include "cell/io/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/io/net.h"

/* A connection over the network. */
struct path {
	uint64_t conn; /* 0: none */
	struct client_replica replica;
	bool open, heard; /* a frame came */
};

struct link {
	struct link_callbacks callbacks;

	/* in this process */
	struct host *host; /* NULL: over the network */
	char *principal;
	uint64_t conn;     /* 0: none */
	uv_idle_t idle;    /* runs until `connected` was told */

	/* over the network */
	struct net *net;
	struct client_members members; /* the address book */
	struct path paths[2]; /* the second one is aside */
	char trouble[LIMIT_HOST + 160];

	void (*stopped)(void *user);
	void *stopped_user;
};

static void
gone(struct link *l)
{
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
	l->callbacks.disconnected(l->callbacks.user, false);
}

static void
connect_to_host(struct link *l)
{
	const struct host_client client = {on_host_frame, on_host_closed, l};

	if (l->conn != 0)
		host_disconnect(l->host, l->conn);
	l->conn = host_connect(l->host, &client, l->principal);
	must(uv_idle_start(&l->idle, on_idle) == 0);
}

static void
on_idle_closed(uv_handle_t *idle)
{
	gone(idle->data);
}

struct link *
link_to_host(uv_loop_t *loop, struct host *host, const char *principal)
{
	struct link *l = memory_zero(1, sizeof *l);

	l->host = host;
	l->principal = bytes_to_text(bytes_of(principal));
	must(uv_idle_init(loop, &l->idle) == 0);
	l->idle.data = l;
	return l;
}

/* ---- over the network ---- */

static bool
is_aside(const struct link *l, uint64_t conn)
{
	must(conn == l->paths[false].conn || conn == l->paths[true].conn);
	return conn == l->paths[true].conn;
}

static bool
on_opened(void *user, uint64_t conn, enum channel_role role, const uint8_t key[NOISE_KEY])
{
	struct link *l = user;
	bool aside = is_aside(l, conn);

	(void)role;
	(void)key; /* the one that was asked for */
	l->paths[aside].open = true;
	if (!aside)
		l->callbacks.connected(l->callbacks.user);
	return true;
}

static void
on_net_frame(void *user, uint64_t conn, struct bytes frame)
{
	struct link *l = user;
	bool aside = is_aside(l, conn);

	l->paths[aside].heard = true;
	if (!aside)
		l->trouble[0] = '\0';
	l->callbacks.frame(l->callbacks.user, aside, frame);
}

/* A replica that does not know our key lets us prove it, and then hangs up. */
static void
on_net_closed(void *user, uint64_t conn, const char *why)
{
	struct link *l = user;
	bool aside = is_aside(l, conn);
	struct path *path = &l->paths[aside];

	if (path->open && !path->heard)
		why = "it has closed the connection: is this key known to the cell?";
	if (!aside)
		snprintf(l->trouble, sizeof l->trouble, "replica %u at %s: %s", path->replica.id,
		         path->replica.address, why);
	path->conn = 0;
	l->callbacks.disconnected(l->callbacks.user, aside);
}

static const struct client_replica *
find_replica(const struct link *l, uint8_t id)
{
	for (int i = 0; i < l->members.n; i++)
		if (l->members.list[i].id == id)
			return &l->members.list[i];
	return NULL;
}

static void
connect_path(struct link *l, bool aside, uint8_t replica)
{
	struct path *path = &l->paths[aside];
	const struct client_replica *member = find_replica(l, replica);

	if (path->conn != 0)
		net_close(l->net, path->conn);
	*path = (struct path){0};
	if (replica == 0)
		return;
	must(member != NULL);
	path->replica = *member;
	path->conn = net_connect(l->net, member->address, CHANNEL_CLIENT, member->key);
}

static void
begin_with(struct link *l, const struct conf *conf)
{
	l->members.n = conf->replicas_n;
	for (int i = 0; i < conf->replicas_n; i++) {
		struct client_replica *r = &l->members.list[i];

		r->id = conf->replicas[i].id;
		strcpy(r->address, conf->replicas[i].address);
		memcpy(r->key, conf->replicas[i].public_key, sizeof r->key);
	}
}

struct link *
link_to_cell(uv_loop_t *loop, const struct conf *conf, const struct noise_pair *key, int *error)
{
	struct link *l = memory_zero(1, sizeof *l);
	struct net_config config = {
	    .own = key, .callbacks = {on_opened, on_net_frame, on_net_closed, l},
	};

	begin_with(l, conf);
	memcpy(config.cell_id, conf->id, sizeof config.cell_id);
	*error = net_new(&l->net, loop, &config);
	if (*error == 0)
		return l;
	free(l);
	return NULL;
}

static void
on_net_stopped(void *user)
{
	gone(user);
}

/* ---- both ---- */

void
link_set_members(struct link *l, const struct client_members *members)
{
	l->members = *members;
}

void
link_start(struct link *l, const struct link_callbacks *callbacks)
{
	l->callbacks = *callbacks;
}

void
link_connect(struct link *l, uint8_t replica)
{
	if (l->host != NULL)
		connect_to_host(l);
	else
		connect_path(l, false, replica);
}

void
link_listen(struct link *l, uint8_t replica)
{
	if (l->host == NULL)
		connect_path(l, true, replica);
}

void
link_send(struct link *l, struct bytes frames)
{
	if (l->host != NULL && l->conn != 0)
		host_send(l->host, l->conn, frames);
	else if (l->host == NULL && l->paths[false].conn != 0)
		net_send(l->net, l->paths[false].conn, frames);
}

const char *
link_trouble(const struct link *l)
{
	return l->trouble;
}

void
link_stop(struct link *l, void (*stopped)(void *user), void *user)
{
	l->stopped = stopped;
	l->stopped_user = user;
	if (l->host == NULL) {
		net_stop(l->net, on_net_stopped, l);
		return;
	}
	if (l->conn != 0)
		host_disconnect(l->host, l->conn);
	uv_close((uv_handle_t *)&l->idle, on_idle_closed);
}
