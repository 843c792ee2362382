/* Each pair of replicas has four connections, two in each direction; messages go on those that the
 * sender has made. Of the two, one is for short messages and one for bulk, so that a heartbeat
 * never waits behind log entries. When a connection is lost or can't be made it is tried again
 * after a pause, which doubles while no connection lasts. When the other replica connects it is
 * known to be up, so the own connection is tried again at once. */
#include "cell/server/internal.h"

#include <bsd/sys/queue.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/wire/codec.h"

enum { PAUSE_FIRST_MS = 20, PAUSE_MAX_MS = 1000, LASTING_MS = 1000 };

enum { SHORT, BULK, LINES };

struct line {
	uint64_t out, in; /* the connections made by us, and by the other replica; 0: none */
	bool up;          /* `out` is open */
	mono_t up_since, down_since; /* `up` says which of them counts */
	mono_t retry; /* of the next attempt; MONO_NEVER: there is an `out`, or the replica was
	               * removed */
	struct backoff pause;
};

struct peer {
	TAILQ_ENTRY(peer) link;
	struct cell_file_replica member;
	struct line lines[LINES];
	const char *told; /* the reason that was logged for the SHORT line; static */
};

struct gateway {
	struct server *server;
	const struct clock_io *clock; /* these two are the server's */
	const struct network_io *net;
	TAILQ_HEAD(, peer) peers;
	uint64_t version; /* of the list of members */
	size_t clients_n;
	bool crowded; /* it was logged that no further client is let in */
	mono_t due;   /* of the first retry; MONO_NEVER: none */
	struct replica_links links;
};

static struct peer *
peer_of_id(const struct gateway *g, uint8_t id)
{
	struct peer *p;

	TAILQ_FOREACH(p, &g->peers, link) {
		if (p->member.id == id)
			return p;
	}
	return NULL;
}

static struct peer *
peer_of_key(const struct gateway *g, const uint8_t key[NOISE_KEY])
{
	struct peer *p;

	TAILQ_FOREACH(p, &g->peers, link) {
		if (sodium_memcmp(p->member.public_key, key, NOISE_KEY) == 0)
			return p;
	}
	return NULL;
}

static struct peer *
peer_of_conn(const struct gateway *g, uint64_t conn, struct line **line)
{
	struct peer *p;

	TAILQ_FOREACH(p, &g->peers, link) {
		for (int i = 0; i < LINES; i++) {
			*line = &p->lines[i];
			if ((*line)->in == conn || (*line)->out == conn)
				return p;
		}
	}
	return NULL;
}

static bool
is_removed(const struct peer *p)
{
	return p->member.role == MEMBER_REMOVED;
}

/* ---- for people ---- */

static void
list_links(struct gateway *g)
{
	struct peer *p;

	g->links.n = 0;
	TAILQ_FOREACH(p, &g->peers, link) {
		const struct line *l = &p->lines[SHORT];

		if (!is_removed(p))
			g->links.list[g->links.n++] =
			    (struct replica_link){p->member.id, l->up ? MONO_NEVER : l->down_since};
	}
}

const struct replica_links *
gateway_links(const struct gateway *g)
{
	return &g->links;
}

/* ---- connections to the other replicas ---- */

static void
dial(struct gateway *g, struct peer *p, struct line *l)
{
	const bool bulk = l == &p->lines[BULK];

	must(l->out == 0 && !is_removed(p));
	l->retry = MONO_NEVER;
	l->out = g->net->connect(g->net->transport, p->member.address,
	                         bulk ? CHANNEL_BULK : CHANNEL_REPLICA, p->member.public_key);
}

static void
arm(struct gateway *g)
{
	struct peer *p;

	g->due = MONO_NEVER;
	TAILQ_FOREACH(p, &g->peers, link)
		for (int i = 0; i < LINES; i++)
			g->due = mono_min(g->due, p->lines[i].retry);
}

mono_t
gateway_deadline(const struct gateway *g)
{
	return g->due;
}

void
gateway_timeout(struct gateway *g, mono_t now)
{
	struct peer *p;

	TAILQ_FOREACH(p, &g->peers, link) {
		for (int i = 0; i < LINES; i++)
			if (mono_reached(now, p->lines[i].retry))
				dial(g, p, &p->lines[i]);
	}
	arm(g);
}

void
gateway_send_peer(struct gateway *g, uint8_t replica, struct bytes frame)
{
	struct peer *p = peer_of_id(g, replica);
	struct line *l;

	if (p == NULL)
		return;
	l = &p->lines[wire_frame_is_bulk(frame) ? BULK : SHORT];
	if (l->up)
		g->net->send(g->net->transport, l->out, frame);
	else if (is_removed(p) && l->in != 0)
		g->net->send(g->net->transport, l->in, frame);
}

/* ---- members ---- */

static void
hang_up(struct gateway *g, struct peer *p)
{
	for (int i = 0; i < LINES; i++) {
		struct line *l = &p->lines[i];

		if (l->out != 0)
			g->net->close(g->net->transport, l->out);
		l->out = 0;
		if (l->up)
			l->down_since = clock_io_now(g->clock);
		l->up = false;
		l->retry = MONO_NEVER;
	}
}

static void
try_at_once(struct gateway *g, struct peer *p)
{
	p->told = NULL;
	for (int i = 0; i < LINES; i++) {
		p->lines[i].pause = backoff_of(span_ms(PAUSE_FIRST_MS), span_ms(PAUSE_MAX_MS));
		if (!is_removed(p))
			dial(g, p, &p->lines[i]);
	}
}

/* Ids are never used again: the same id with another key is another replica. */
static const struct cell_file_replica *
same_member(const struct cell_file_replica *members, int n, const struct peer *p)
{
	for (int i = 0; i < n; i++)
		if (members[i].id == p->member.id &&
		    memcmp(members[i].public_key, p->member.public_key, NOISE_KEY) == 0)
			return &members[i];
	return NULL;
}

void
gateway_set_members(struct gateway *g, uint64_t version, const struct cell_file_replica *members,
                    int n)
{
	struct peer *p, *next;

	if (version < g->version)
		return;
	g->version = version;
	TAILQ_FOREACH_SAFE(p, &g->peers, link, next) {
		const struct cell_file_replica *member = same_member(members, n, p);
		const bool was_removed = is_removed(p);
		bool moved;

		if (member == NULL) {
			hang_up(g, p);
			for (int i = 0; i < LINES; i++)
				if (p->lines[i].in != 0)
					g->net->close(g->net->transport, p->lines[i].in);
			TAILQ_REMOVE(&g->peers, p, link);
			free(p);
			continue;
		}
		moved = strcmp(p->member.address, member->address) != 0;
		p->member = *member;
		if (moved || was_removed != is_removed(p)) {
			hang_up(g, p);
			try_at_once(g, p);
		}
	}
	for (int i = 0; i < n; i++) {
		if (members[i].id == g->server->config.identity->replica ||
		    peer_of_id(g, members[i].id) != NULL)
			continue;
		p = memory_zero(1, sizeof *p);
		p->member = members[i];
		for (int line = 0; line < LINES; line++) {
			p->lines[line].retry = MONO_NEVER;
			p->lines[line].down_since = clock_io_now(g->clock);
		}
		TAILQ_INSERT_TAIL(&g->peers, p, link);
		try_at_once(g, p);
	}
	list_links(g);
}

bool
gateway_has_member(const struct gateway *g, uint8_t id)
{
	const struct peer *p = peer_of_id(g, id);

	return p != NULL && !is_removed(p);
}

bool
gateway_knows(const struct gateway *g, const uint8_t key[NOISE_KEY])
{
	return peer_of_key(g, key) != NULL;
}

/* ---- accepted connections ---- */

size_t
gateway_clients(const struct gateway *g)
{
	return g->clients_n;
}

static bool
on_client(struct gateway *g, uint64_t conn, enum channel_role role, const uint8_t key[NOISE_KEY])
{
	struct bytes principal;
	enum rc rc = server_principal(g->server, role, key, &principal);

	if (rc == RC_OK) {
		/* The last files are not for clients: a replica must still be able to connect. */
		const bool full = g->clients_n >= g->server->config.clients_max;

		if (full && !g->crowded)
			clock_io_log(g->clock, LEVEL_WARN,
			             "%zu clients are connected: no more are let in", g->clients_n);
		g->crowded = full;
		rc = full ? RC_FULL : RC_OK;
	}
	if (rc == RC_OK) {
		g->clients_n++;
		clock_io_log(g->clock, LEVEL_DEBUG, "client %llu comes as %.*s",
		             (unsigned long long)conn, (int)principal.len,
		             (const char *)principal.data);
		server_client_connected(g->server, conn | GATEWAY_CONN, principal,
		                        (struct bytes){key, NOISE_KEY});
	} else {
		const struct message m = {.code = MSG_denied, .denied.rc = (uint8_t)rc};
		struct buffer frame = BUFFER(64);

		wire_put_frame(&frame, &m);
		must(!frame.failed);
		g->net->send(g->net->transport, conn, buffer_view(&frame));
		buffer_free(&frame);
	}
	return rc == RC_OK;
}

bool
server_opened(struct server *s, uint64_t conn, enum channel_role role, const uint8_t key[NOISE_KEY])
{
	struct gateway *g = s->gateway;
	struct peer *p = peer_of_key(g, key);
	struct line *l;

	if (!channel_role_is_replica(role))
		return on_client(g, conn, role, key);
	if (p == NULL)
		return false;
	l = &p->lines[role == CHANNEL_BULK ? BULK : SHORT];
	if (l->out == conn) {
		l->up = true;
		l->up_since = clock_io_now(g->clock);
		list_links(g);
		/* Only the line for short messages is logged: both connect to the same process. */
		if (l == &p->lines[SHORT])
			clock_io_log(g->clock, LEVEL_INFO, "replica %u at %s: connected",
			             p->member.id, p->member.address);
	} else {
		if (l->in != 0)
			g->net->close(g->net->transport, l->in); /* the other replica has given that
			                                          * connection up */
		l->in = conn;
		if (l->out == 0 && !is_removed(p))
			dial(g, p, l);
	}
	return true;
}

/* A frame of a replica may also arrive on a connection that we have made: from a member by whose
 * list we were removed. */
void
server_frame(struct server *s, uint64_t conn, struct bytes frame)
{
	struct line *line;
	const struct peer *p = peer_of_conn(s->gateway, conn, &line);

	if (p != NULL)
		server_peer_frame(s, p->member.id, frame);
	else
		server_client_frame(s, conn | GATEWAY_CONN, frame);
}

void
server_closed(struct server *s, uint64_t conn, const char *why)
{
	struct gateway *g = s->gateway;
	struct line *l;
	struct peer *p = peer_of_conn(g, conn, &l);

	if (p == NULL) {
		clock_io_log(g->clock, LEVEL_DEBUG, "client %llu has gone: %s",
		             (unsigned long long)conn, why);
		g->clients_n--;
		server_client_gone(s, conn | GATEWAY_CONN);
	} else if (l->out == conn) {
		mono_t now = clock_io_now(g->clock);

		if (l->up && span_to_ms(mono_since(now, l->up_since)) >= LASTING_MS)
			backoff_reset(&l->pause);
		if (l == &p->lines[SHORT]) {
			if (l->up || p->told != why)
				clock_io_log(g->clock, LEVEL_WARN,
				             "replica %u at %s: no connection: %s", p->member.id,
				             p->member.address, why);
			p->told = why;
		}
		if (l->up)
			l->down_since = now;
		l->up = false;
		list_links(g);
		l->out = 0;
		l->retry = mono_add(now, backoff_take(&l->pause));
		arm(g);
	} else {
		l->in = 0;
	}
}

void
gateway_send(struct gateway *g, uint64_t conn, struct bytes frame)
{
	g->net->send(g->net->transport, conn & ~GATEWAY_CONN, frame);
}

void
gateway_send_datagram(struct gateway *g, uint64_t conn, struct bytes frame)
{
	g->net->send_datagram(g->net->transport, conn & ~GATEWAY_CONN, frame);
}

void
gateway_hold(struct gateway *g, uint64_t conn, bool on)
{
	g->net->hold(g->net->transport, conn & ~GATEWAY_CONN, on);
}

size_t
gateway_unsent_bytes(const struct gateway *g, uint64_t conn)
{
	return g->net->unsent(g->net->transport, conn & ~GATEWAY_CONN);
}

bool
gateway_principal(const struct gateway *g, uint64_t conn, struct bytes *name)
{
	const uint8_t *key = g->net->key(g->net->transport, conn & ~GATEWAY_CONN);
	const enum rc rc = key ? server_principal(g->server, CHANNEL_CLIENT, key, name) : RC_PERM;

	return rc == RC_OK || rc == RC_FULL;
}

void
gateway_close(struct gateway *g, uint64_t conn)
{
	if (g->net->close(g->net->transport, conn & ~GATEWAY_CONN))
		g->clients_n--;
}

/* ---- life ---- */

struct gateway *
gateway_new(struct server *s)
{
	const struct cell_file *cell_file = &s->config.identity->cell_file;
	struct gateway *g = memory_zero(1, sizeof *g);

	g->server = s;
	g->clock = &s->io.clock;
	g->net = &s->io.network;
	g->due = MONO_NEVER;
	TAILQ_INIT(&g->peers);
	gateway_set_members(g, 0, cell_file->replicas, cell_file->replicas_n);
	return g;
}

void
gateway_free(struct gateway *g)
{
	struct peer *p;

	if (g == NULL)
		return;
	while ((p = TAILQ_FIRST(&g->peers)) != NULL) {
		TAILQ_REMOVE(&g->peers, p, link);
		free(p);
	}
	free(g);
}
