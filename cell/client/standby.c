/* The second connection: idle, to one replica that is not the master, on which a new master is
 * announced. So a client leaves a master that hangs while its connections stay open as soon as
 * there is another, and not only when it notices the silence. */
#include "cell/base/must.h"
#include "cell/client/internal.h"

enum {
	RETRY_FIRST_MS = 50,
	RETRY_MAX_MS = 2000,
};

void
client_standby_begin(struct client *c)
{
	c->standby.due = c->now;
}

/* Chooses any of the other replicas, so that clients are spread evenly; not the one that failed
 * last, if there is a choice. */
static uint8_t
choose(struct client *c)
{
	uint8_t others[LIMIT_REPLICAS];
	uint64_t n = 0;

	for (int i = 0; i < c->config.replicas_n; i++) {
		uint8_t replica = c->config.replicas[i];

		if (replica == c->connection.replica ||
		    (replica == c->standby.failed && c->config.replicas_n > 2))
			continue;
		others[n++] = replica;
	}
	must(n > 0);
	return others[rng_below(&c->rng, n)];
}

/* Requests the second connection to this replica; 0: to none. */
static void
listen_to(struct client *c, uint8_t replica)
{
	c->standby.replica = replica;
	c->update->listen = true;
	c->update->listen_to = replica;
}

static void
fail(struct client *c)
{
	int64_t ms = RETRY_FIRST_MS;

	for (unsigned i = 0; i < c->standby.failures && ms < RETRY_MAX_MS; i++)
		ms *= 2;
	ms = ms < RETRY_MAX_MS ? ms : RETRY_MAX_MS;
	CLIENT_TRACE(c, "the second connection, to replica %u, has failed: next within %lld ms",
	             c->standby.replica, (long long)ms);
	c->standby.failures++;
	c->standby.failed = c->standby.replica;
	c->standby.replica = 0;
	c->standby.due =
	    mono_add(c->now, (span_t){(int64_t)rng_below(&c->rng, (uint64_t)span_ms(ms).ns)});
}

void
client_standby_on_disconnected(struct client *c)
{
	if (c->standby.replica != 0)
		fail(c);
}

/* Only the name of a master and the list of members are valid messages on it; any other ends it. */
void
client_standby_on_frame(struct client *c, struct bytes frame)
{
	struct message m;

	if (wire_get_frame(frame, &m) != RC_OK ||
	    (m.code != MSG_redirect && m.code != MSG_members)) {
		fail(c);
		listen_to(c, 0);
		return;
	}
	c->standby.failures = 0;
	if (m.code == MSG_members)
		client_replica_list_received(c, &m.members);
	else
		client_connection_announced(c, &m.redirect);
}

static void
leave(struct client *c, const char *why)
{
	CLIENT_TRACE(c, "the second connection leaves replica %u: %s", c->standby.replica, why);
	c->standby.due = c->now;
	listen_to(c, 0);
}

/* The connection is not kept to a replica that is no longer a member, which learns of no master. */
void
client_standby_members(struct client *c)
{
	for (int i = 0; i < c->config.replicas_n; i++)
		if (c->config.replicas[i] == c->standby.replica)
			return;
	if (c->standby.replica != 0)
		leave(c, "it is no member");
}

static bool
is_first(const struct client *c)
{
	return c->standby.replica == c->connection.replica &&
	       c->connection.state == CONNECTION_OPEN;
}

/* A replica admits a limited number of connections: where there is only one, a client has no second
 * connection to it. */
static bool
is_needless(const struct client *c)
{
	return c->config.replicas_n < 2 && c->standby.replica != 0 && is_first(c);
}

/* The connection is wanted from the first session on. While the client looks for a new master it
 * stays where it is: that is when it is needed. */
static bool
is_wanted(const struct client *c)
{
	if (c->config.replicas_n < 2 || c->session.id == 0)
		return false;
	return c->standby.replica == 0 || is_first(c);
}

void
client_standby_tick(struct client *c)
{
	if (is_needless(c))
		leave(c, "there is no other");
	if (!is_wanted(c) || !mono_reached(c->now, c->standby.due))
		return;
	listen_to(c, choose(c));
	MESSAGE_TRACE(c->config.trace, "listens to replica %u", c->standby.replica);
}

mono_t
client_standby_deadline(const struct client *c)
{
	if (is_needless(c))
		return c->now;
	return is_wanted(c) ? c->standby.due : MONO_NEVER;
}
