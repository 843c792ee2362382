/* Each pair of replicas has two connections, one for each direction: who connects is who speaks. A
 * connection that could not be made or is lost is tried again after a pause, which grows as long as
 * none lasts; a replica that knocks here is there, so its turn comes at once. */
#include "cell/io/gateway.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/io/clock.h"
#include "cell/io/log.h"
#include "cell/io/net.h"

enum { PAUSE_FIRST_MS = 20, PAUSE_MAX_MS = 1000, LASTING_MS = 1000 };

struct peer {
	const struct conf_replica *replica;
	uint64_t out, in; /* connections of the net; 0: none */
	bool up;          /* `out` is open */
	mono_t up_since;
	mono_t retry;     /* MONO_NEVER while there is an `out` */
	int64_t pause_ms;
	const char *told; /* why it is down, as the log knows it; static */
};

struct gateway {
	struct conf conf;
	uint8_t self;
	struct gateway_callbacks callbacks;
	struct net *net;
	struct peer peers[LIMIT_REPLICAS];
	int peers_n;
	uv_timer_t timer;
	void (*stopped)(void *user);
	void *stopped_user;
};

/* ---- to the other replicas ---- */

static void
dial(struct gateway *g, struct peer *p)
{
	must(p->out == 0);
	p->retry = MONO_NEVER;
	p->out = net_connect(g->net, p->replica->address, CHANNEL_REPLICA, p->replica->public_key);
}

static void on_timer(uv_timer_t *timer);

static void
arm(struct gateway *g)
{
	mono_t next = MONO_NEVER;
	int64_t ms;

	for (int i = 0; i < g->peers_n; i++)
		next = mono_min(next, g->peers[i].retry);
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

	for (int i = 0; i < g->peers_n; i++)
		if (mono_reached(now, g->peers[i].retry))
			dial(g, &g->peers[i]);
	arm(g);
}

static void
peer_is_up(struct peer *p)
{
	p->up = true;
	p->up_since = clock_now();
	log_info("replica %u at %s: connected", p->replica->id, p->replica->address);
}

static void
peer_is_down(struct gateway *g, struct peer *p, const char *why)
{
	mono_t now = clock_now();

	if (p->up && span_to_ms(mono_since(now, p->up_since)) >= LASTING_MS)
		p->pause_ms = PAUSE_FIRST_MS;
	if (p->up || p->told != why)
		log_warn("replica %u at %s: no connection: %s", p->replica->id,
		         p->replica->address, why);
	p->told = why;
	p->up = false;
	p->out = 0;
	p->retry = mono_add(now, span_ms(p->pause_ms));
	p->pause_ms = p->pause_ms * 2 < PAUSE_MAX_MS ? p->pause_ms * 2 : PAUSE_MAX_MS;
	arm(g);
}

static void
peer_has_come(struct gateway *g, struct peer *p, uint64_t conn)
{
	if (p->in != 0)
		net_close(g->net, p->in); /* it does not know of that one any more */
	p->in = conn;
	if (p->out == 0)
		dial(g, p);
}

void
gateway_send_peer(struct gateway *g, uint8_t replica, struct bytes frame)
{
	for (int i = 0; i < g->peers_n; i++)
		if (g->peers[i].replica->id == replica && g->peers[i].up)
			net_send(g->net, g->peers[i].out, frame);
}

/* ---- who comes ---- */

static struct peer *
peer_of_key(struct gateway *g, const uint8_t key[NOISE_KEY])
{
	for (int i = 0; i < g->peers_n; i++)
		if (sodium_memcmp(g->peers[i].replica->public_key, key, NOISE_KEY) == 0)
			return &g->peers[i];
	return NULL;
}

/* The name of the principal that holds the key; NULL for a stranger. */
static const char *
principal_of_key(const struct gateway *g, const uint8_t key[NOISE_KEY])
{
	if (g->conf.has_admin && sodium_memcmp(g->conf.admin_public, key, NOISE_KEY) == 0)
		return "admin";
	return NULL;
}

static void
client_has_come(struct gateway *g, uint64_t conn, const char *principal)
{
	log_debug("client %llu comes as %s", (unsigned long long)conn, principal);
	g->callbacks.connected(g->callbacks.user, conn | GATEWAY_CONN, principal);
}

static bool
on_opened(void *user, uint64_t conn, enum channel_role role, const uint8_t key[NOISE_KEY])
{
	struct gateway *g = user;
	struct peer *p = peer_of_key(g, key);
	const char *principal = principal_of_key(g, key);

	if (p != NULL && p->out == conn)
		peer_is_up(p);
	else if (role == CHANNEL_REPLICA && p != NULL)
		peer_has_come(g, p, conn);
	else if (role == CHANNEL_CLIENT && principal != NULL)
		client_has_come(g, conn, principal);
	else
		return false;
	return true;
}

static void
on_frame(void *user, uint64_t conn, struct bytes frame)
{
	struct gateway *g = user;

	for (int i = 0; i < g->peers_n; i++) {
		struct peer *p = &g->peers[i];

		if (p->in == conn)
			g->callbacks.peer(g->callbacks.user, p->replica->id, frame);
		if (p->in == conn || p->out == conn)
			return; /* nobody speaks on a connection that we have made */
	}
	g->callbacks.frame(g->callbacks.user, conn | GATEWAY_CONN, frame);
}

static void
on_closed(void *user, uint64_t conn, const char *why)
{
	struct gateway *g = user;

	for (int i = 0; i < g->peers_n; i++) {
		struct peer *p = &g->peers[i];

		if (p->out == conn)
			peer_is_down(g, p, why);
		else if (p->in == conn)
			p->in = 0;
		else
			continue;
		return;
	}
	log_debug("client %llu has gone: %s", (unsigned long long)conn, why);
	g->callbacks.disconnected(g->callbacks.user, conn | GATEWAY_CONN);
}

void
gateway_send(struct gateway *g, uint64_t conn, struct bytes frame)
{
	net_send(g->net, conn & ~GATEWAY_CONN, frame);
}

void
gateway_close(struct gateway *g, uint64_t conn)
{
	net_close(g->net, conn & ~GATEWAY_CONN);
}

/* ---- life ---- */

struct gateway *
gateway_new(uv_loop_t *loop, const struct identity *identity,
            const struct gateway_callbacks *callbacks, char *why, size_t why_size)
{
	struct gateway *g = memory_zero(1, sizeof *g);
	struct net_config config = {
	    .own = &identity->pair, .callbacks = {on_opened, on_frame, on_closed, g},
	};
	int rc;

	g->conf = identity->conf;
	g->self = identity->replica;
	g->callbacks = *callbacks;
	memcpy(config.cell_id, g->conf.signing_public, sizeof config.cell_id);
	for (int i = 0; i < g->conf.replicas_n; i++)
		if (g->conf.replicas[i].id != g->self)
			g->peers[g->peers_n++] = (struct peer){
			    .replica = &g->conf.replicas[i], .retry = MONO_NEVER,
			    .pause_ms = PAUSE_FIRST_MS,
			};
	if ((rc = net_new(&g->net, loop, &config)) < 0) {
		snprintf(why, why_size, "the network: %s", uv_strerror(rc));
		free(g);
		return NULL;
	}
	must(uv_timer_init(loop, &g->timer) == 0);
	g->timer.data = g;
	return g;
}

bool
gateway_start(struct gateway *g, char *why, size_t why_size)
{
	for (int i = 0; i < g->conf.replicas_n; i++)
		if (g->conf.replicas[i].id == g->self &&
		    !net_listen(g->net, g->conf.replicas[i].address, why, why_size))
			return false;
	for (int i = 0; i < g->peers_n; i++)
		dial(g, &g->peers[i]);
	return true;
}

static void
on_timer_closed(uv_handle_t *timer)
{
	struct gateway *g = timer->data;
	void (*stopped)(void *user) = g->stopped;
	void *user = g->stopped_user;

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
	net_stop(g->net, on_net_stopped, g);
}
