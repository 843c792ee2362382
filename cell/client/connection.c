/* When to connect, and when to give a connection up. The driver makes connections, one at a
 * time. */
#include "cell/base/must.h"
#include "cell/client/internal.h"

enum {
	RETRY_FIRST_MS = 10,
	RETRY_MAX_MS = 1000,
	ATTEMPT_FIRST_MS = 2000, /* to connect and to open the session; twice that the next time */
	ATTEMPT_MAX_MS = 16000,
};

static int64_t
grown_ms(int64_t first, int64_t max, unsigned failures)
{
	int64_t ms = first;

	for (unsigned i = 0; i < failures && ms < max; i++)
		ms *= 2;
	return ms < max ? ms : max;
}

/* Half of the pause is random: the clients of a master that died must not come back as one. */
static span_t
retry_pause(struct client *c)
{
	int64_t ms = grown_ms(RETRY_FIRST_MS, RETRY_MAX_MS, c->failures);

	return (span_t){span_ms(ms).ns / 2 +
	                (int64_t)rng_below(&c->rng, (uint64_t)span_ms(ms).ns / 2)};
}

void
client_connection_drop(struct client *c)
{
	if (c->connection == CONNECTION_NONE)
		return;
	c->connection = CONNECTION_NONE;
	c->due = mono_add(c->now, retry_pause(c));
	c->failures++;
}

void
client_connection_on_connected(struct client *c)
{
	if (c->connection != CONNECTION_CONNECTING)
		return;
	client_session_open(c);
}

void
client_connection_on_disconnected(struct client *c)
{
	client_connection_drop(c);
}

/* open_session was sent on the standing connection. */
void
client_connection_opening(struct client *c)
{
	must(c->connection != CONNECTION_NONE);
	c->connection = CONNECTION_OPENING;
	c->due = mono_add(c->now, span_ms(grown_ms(ATTEMPT_FIRST_MS, ATTEMPT_MAX_MS, c->failures)));
}

/* The one that a replica has named, else each in turn; 0 when there is but one and it has no name. */
static uint8_t
next_replica(struct client *c)
{
	uint8_t hint = c->prefer;

	c->prefer = 0;
	if (hint != 0 || c->config.replicas_n == 0)
		return hint;
	return c->config.replicas[c->tried++ % c->config.replicas_n];
}

static void
connection_attempt(struct client *c)
{
	c->connection = CONNECTION_CONNECTING;
	c->due = mono_add(c->now, span_ms(grown_ms(ATTEMPT_FIRST_MS, ATTEMPT_MAX_MS, c->failures)));
	c->update->connect = true;
	c->update->replica = next_replica(c);
	buffer_reset(&c->update->frames);
}

void
client_connection_tick(struct client *c)
{
	if (c->connection == CONNECTION_OPEN || !mono_reached(c->now, c->due))
		return;
	if (c->connection == CONNECTION_NONE)
		connection_attempt(c);
	else
		client_connection_drop(c);
}

mono_t
client_connection_deadline(const struct client *c)
{
	return c->connection == CONNECTION_OPEN ? MONO_NEVER : c->due;
}

void
client_send(struct client *c, const struct message *m)
{
	must(c->connection != CONNECTION_NONE);
	wire_put_frame(&c->update->frames, m);
}
