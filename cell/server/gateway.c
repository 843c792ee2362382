/* Each pair of replicas has four connections, two for each direction: the one that connects speaks.
 * On one of the two goes all that is short, on the other one the bulk, so that a heartbeat never
 * waits behind entries. A connection that could not be made or is lost is tried again after a
 * pause, which grows as long as none lasts; a replica that knocks here is there: its turn comes at
 * once. */
#include "cell/server/gateway.h"

#include <bsd/sys/queue.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"
#include "cell/net/transport.h"
#include "cell/wire/codec.h"

enum { PAUSE_FIRST_MS = 20, PAUSE_MAX_MS = 1000, LASTING_MS = 1000 };

/* Files that clients leave to replicas, to databases, and to those who have not proved a key. */
enum { FILES_KEPT = TRANSPORT_UNPROVED_MAX + 64 };

enum { SHORT, BULK, LINES };

struct line {
	uint64_t out, in; /* connections of the net; 0: none */
	bool up;          /* `out` is open */
	mono_t up_since;
	mono_t retry;     /* MONO_NEVER while there is an `out`, and for one that was removed */
	int64_t pause_ms;
};

struct peer {
	TAILQ_ENTRY(peer) link;
	struct cell_file_replica member;
	struct line lines[LINES];
	const char *told; /* why the first one is down, as the log knows it; static */
};

struct gateway {
	struct cell_file cell_file;
	uint8_t self;
	struct gateway_callbacks callbacks;
	struct transport *transport;
	TAILQ_HEAD(, peer) peers;
	uint64_t version; /* of the list that they are */
	size_t clients_n, clients_max;
	bool crowded;     /* as the log knows it */
	bool started;
	uv_timer_t timer;
	void (*stopped)(void *user);
	void *stopped_user;
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

/* ---- to the other replicas ---- */

static void
dial(struct gateway *g, struct peer *p, struct line *l)
{
	const bool bulk = l == &p->lines[BULK];

	must(l->out == 0 && !is_removed(p));
	l->retry = MONO_NEVER;
	l->out = transport_connect(g->transport, p->member.address,
	                           bulk ? CHANNEL_BULK : CHANNEL_REPLICA, p->member.public_key);
}

static void on_timer(uv_timer_t *timer);

static void
arm(struct gateway *g)
{
	mono_t next = MONO_NEVER;
	struct peer *p;
	int64_t ms;

	TAILQ_FOREACH(p, &g->peers, link)
		for (int i = 0; i < LINES; i++)
			next = mono_min(next, p->lines[i].retry);
	if (mono_is_never(next))
		return;
	ms = span_to_ms(mono_since(next, clock_now())) + 1;
	uv_update_time(g->timer.loop);
	must(uv_timer_start(&g->timer, on_timer, ms < 0 ? 0 : (uint64_t)ms, 0) == 0);
}

static void
on_timer(uv_timer_t *timer)
{
	struct gateway *g = timer->data;
	mono_t now = clock_now();
	struct peer *p;

	TAILQ_FOREACH(p, &g->peers, link) {
		for (int i = 0; i < LINES; i++)
			if (mono_reached(now, p->lines[i].retry))
				dial(g, p, &p->lines[i]);
	}
	arm(g);
}

/* What becomes of the first line is told in the log; the other one shares its fate. */
static void
line_is_up(struct peer *p, struct line *l)
{
	l->up = true;
	l->up_since = clock_now();
	if (l == &p->lines[SHORT])
		log_info("replica %u at %s: connected", p->member.id, p->member.address);
}

static void
tell_down(struct peer *p, bool was_up, const char *why)
{
	if (was_up || p->told != why)
		log_warn("replica %u at %s: no connection: %s", p->member.id,
		         p->member.address, why);
	p->told = why;
}

static void
line_is_down(struct gateway *g, struct peer *p, struct line *l, const char *why)
{
	mono_t now = clock_now();

	if (l->up && span_to_ms(mono_since(now, l->up_since)) >= LASTING_MS)
		l->pause_ms = PAUSE_FIRST_MS;
	if (l == &p->lines[SHORT])
		tell_down(p, l->up, why);
	l->up = false;
	l->out = 0;
	l->retry = mono_add(now, span_ms(l->pause_ms));
	l->pause_ms = l->pause_ms * 2 < PAUSE_MAX_MS ? l->pause_ms * 2 : PAUSE_MAX_MS;
	arm(g);
}

static void
peer_has_come(struct gateway *g, struct peer *p, struct line *l, uint64_t conn)
{
	if (l->in != 0)
		transport_close(g->transport, l->in); /* it does not know of that one any more */
	l->in = conn;
	if (l->out == 0 && !is_removed(p))
		dial(g, p, l);
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
		transport_send(g->transport, l->out, frame);
	else if (is_removed(p) && l->in != 0)
		transport_send(g->transport, l->in, frame);
}

/* ---- who is a member ---- */

static void
hang_up(struct gateway *g, struct peer *p)
{
	for (int i = 0; i < LINES; i++) {
		struct line *l = &p->lines[i];

		if (l->out != 0)
			transport_close(g->transport, l->out);
		l->out = 0;
		l->up = false;
		l->retry = MONO_NEVER;
	}
}

static void
drop_peer(struct gateway *g, struct peer *p)
{
	hang_up(g, p);
	for (int i = 0; i < LINES; i++)
		if (p->lines[i].in != 0)
			transport_close(g->transport, p->lines[i].in);
	TAILQ_REMOVE(&g->peers, p, link);
	free(p);
}

static void
try_at_once(struct gateway *g, struct peer *p)
{
	p->told = NULL;
	for (int i = 0; i < LINES; i++) {
		p->lines[i].pause_ms = PAUSE_FIRST_MS;
		if (g->started && !is_removed(p))
			dial(g, p, &p->lines[i]);
	}
}

static void
add_peer(struct gateway *g, const struct cell_file_replica *member)
{
	struct peer *p = memory_zero(1, sizeof *p);

	p->member = *member;
	for (int i = 0; i < LINES; i++)
		p->lines[i].retry = MONO_NEVER;
	TAILQ_INSERT_TAIL(&g->peers, p, link);
	try_at_once(g, p);
}

static void
change_peer(struct gateway *g, struct peer *p, const struct cell_file_replica *member)
{
	const bool moved = strcmp(p->member.address, member->address) != 0;
	const bool was_removed = is_removed(p);

	p->member = *member;
	if (!moved && was_removed == is_removed(p))
		return;
	hang_up(g, p);
	try_at_once(g, p);
}

/* Ids are never used again; if one comes with another key it is somebody else. */
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

		if (member != NULL)
			change_peer(g, p, member);
		else
			drop_peer(g, p);
	}
	for (int i = 0; i < n; i++)
		if (members[i].id != g->self && peer_of_id(g, members[i].id) == NULL)
			add_peer(g, &members[i]);
}

bool
gateway_has_member(const struct gateway *g, uint8_t id)
{
	const struct peer *p = peer_of_id(g, id);

	return p != NULL && !is_removed(p);
}

/* ---- who comes ---- */

/* The name of the principal that holds the key; NULL for a stranger. */
static const char *
principal_of_key(const struct gateway *g, const uint8_t key[NOISE_KEY])
{
	if (g->cell_file.has_admin && sodium_memcmp(g->cell_file.admin_public, key, NOISE_KEY) == 0)
		return "admin";
	return NULL;
}

/* Clients never take the last files: a replica that comes back must get in. */
static bool
has_room(struct gateway *g)
{
	const bool room = g->clients_n < g->clients_max;

	if (!room && !g->crowded)
		log_warn("%zu clients are connected: no more are let in", g->clients_n);
	g->crowded = !room;
	return room;
}

static void
client_has_come(struct gateway *g, uint64_t conn, const char *principal)
{
	g->clients_n++;
	log_debug("client %llu comes as %s", (unsigned long long)conn, principal);
	g->callbacks.connected(g->callbacks.user, conn | GATEWAY_CONN, principal);
}

/* Somebody who has proved to hold a key learns that it is of no use here. */
static void
deny(struct gateway *g, uint64_t conn, enum rc rc)
{
	const struct message m = {.code = MSG_denied, .denied.rc = (uint8_t)rc};
	struct buffer frame = BUFFER(64);

	wire_put_frame(&frame, &m);
	must(!frame.failed);
	transport_send(g->transport, conn, buffer_view(&frame));
	buffer_free(&frame);
}

static bool
on_client(struct gateway *g, uint64_t conn, const char *principal)
{
	if (principal != NULL && has_room(g)) {
		client_has_come(g, conn, principal);
		return true;
	}
	deny(g, conn, principal != NULL ? RC_FULL : RC_PERM);
	return false;
}

static bool
on_opened(void *user, uint64_t conn, enum channel_role role, const uint8_t key[NOISE_KEY])
{
	struct gateway *g = user;
	struct peer *p = peer_of_key(g, key);
	struct line *l;

	if (role == CHANNEL_CLIENT)
		return on_client(g, conn, principal_of_key(g, key));
	if (p == NULL)
		return false;
	l = &p->lines[role == CHANNEL_BULK ? BULK : SHORT];
	if (l->out == conn)
		line_is_up(p, l);
	else
		peer_has_come(g, p, l, conn);
	return true;
}

/* On a connection that we have made only a member speaks that takes us for removed. */
static void
on_frame(void *user, uint64_t conn, struct bytes frame)
{
	struct gateway *g = user;
	struct line *line;
	const struct peer *p = peer_of_conn(g, conn, &line);

	if (p != NULL)
		g->callbacks.peer(g->callbacks.user, p->member.id, frame);
	else
		g->callbacks.frame(g->callbacks.user, conn | GATEWAY_CONN, frame);
}

static void
on_closed(void *user, uint64_t conn, const char *why)
{
	struct gateway *g = user;
	struct line *l;
	struct peer *p = peer_of_conn(g, conn, &l);

	if (p == NULL) {
		log_debug("client %llu has gone: %s", (unsigned long long)conn, why);
		g->clients_n--;
		g->callbacks.disconnected(g->callbacks.user, conn | GATEWAY_CONN);
	} else if (l->out == conn) {
		line_is_down(g, p, l, why);
	} else {
		l->in = 0;
	}
}

void
gateway_send(struct gateway *g, uint64_t conn, struct bytes frame)
{
	transport_send(g->transport, conn & ~GATEWAY_CONN, frame);
}

void
gateway_hold(struct gateway *g, uint64_t conn, bool on)
{
	transport_hold(g->transport, conn & ~GATEWAY_CONN, on);
}

size_t
gateway_unsent_bytes(const struct gateway *g, uint64_t conn)
{
	return transport_unsent_bytes(g->transport, conn & ~GATEWAY_CONN);
}

const char *
gateway_principal(const struct gateway *g, uint64_t conn)
{
	const uint8_t *key = transport_key(g->transport, conn & ~GATEWAY_CONN);

	return key != NULL ? principal_of_key(g, key) : NULL;
}

void
gateway_close(struct gateway *g, uint64_t conn)
{
	if (transport_close(g->transport, conn & ~GATEWAY_CONN))
		g->clients_n--;
}

/* ---- life ---- */

static size_t
most_clients(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur == RLIM_INFINITY)
		return SIZE_MAX;
	return files.rlim_cur > 2 * FILES_KEPT ? (size_t)files.rlim_cur - FILES_KEPT
	                                       : (size_t)files.rlim_cur / 2;
}

struct gateway *
gateway_new(uv_loop_t *loop, const struct identity *identity,
            const struct gateway_callbacks *callbacks, char *why, size_t why_size)
{
	struct gateway *g = memory_zero(1, sizeof *g);
	struct transport_config config = {
	    .own = &identity->pair, .callbacks = {on_opened, on_frame, on_closed, g},
	};
	int rc;

	g->cell_file = identity->cell_file;
	g->self = identity->replica;
	g->clients_max = most_clients();
	g->callbacks = *callbacks;
	memcpy(config.cell_id, g->cell_file.id, sizeof config.cell_id);
	TAILQ_INIT(&g->peers);
	if ((rc = transport_new(&g->transport, loop, &config)) < 0) {
		snprintf(why, why_size, "the network: %s", uv_strerror(rc));
		free(g);
		return NULL;
	}
	must(uv_timer_init(loop, &g->timer) == 0);
	g->timer.data = g;
	gateway_set_members(g, 0, g->cell_file.replicas, g->cell_file.replicas_n);
	return g;
}

/* A number was meant as it stands, and so was "localhost". Debian gives a machine's own name an
 * address that no other one reaches. */
static bool
is_own_name(const char *address)
{
	return strspn(address, "0123456789.:[]") != strlen(address) && address[0] != '[' &&
	       strncmp(address, "localhost:", 10) != 0;
}

static bool
start_listening(struct gateway *g, const char *address, char *why, size_t why_size)
{
	const char *at = g->cell_file.listen[0] != '\0' ? g->cell_file.listen : address;
	char where[INET6_ADDRSTRLEN + 16];
	bool loopback;

	if (!transport_listen(g->transport, at, why, why_size))
		return false;
	loopback = transport_listening(g->transport, where, sizeof where);
	log_info("replica %u listens on %s", g->self, where);
	if (loopback && is_own_name(at))
		log_warn("%s is %s here: no other machine can connect; set `listen' in the data "
		         "directory's cell.conf, or mend /etc/hosts", at, where);
	return true;
}

bool
gateway_start(struct gateway *g, char *why, size_t why_size)
{
	struct peer *p;

	for (int i = 0; i < g->cell_file.replicas_n; i++)
		if (g->cell_file.replicas[i].id == g->self &&
		    !start_listening(g, g->cell_file.replicas[i].address, why, why_size))
			return false;
	g->started = true;
	TAILQ_FOREACH(p, &g->peers, link)
		try_at_once(g, p);
	return true;
}

static void
on_timer_closed(uv_handle_t *timer)
{
	struct gateway *g = timer->data;
	void (*stopped)(void *user) = g->stopped;
	void *user = g->stopped_user;
	struct peer *p;

	while ((p = TAILQ_FIRST(&g->peers)) != NULL) {
		TAILQ_REMOVE(&g->peers, p, link);
		free(p);
	}
	free(g);
	stopped(user);
}

static void
on_net_stopped(void *user)
{
	struct gateway *g = user;

	uv_close((uv_handle_t *)&g->timer, on_timer_closed);
}

void
gateway_stop(struct gateway *g, void (*stopped)(void *user), void *user)
{
	g->stopped = stopped;
	g->stopped_user = user;
	must(uv_timer_stop(&g->timer) == 0);
	transport_stop(g->transport, on_net_stopped, g);
}
