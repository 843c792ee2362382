/* KeepAlives (Chubby, section 2.8): one is always under way while the session is open on a
 * connection; the master answers when the lease wants renewal, and the next one follows at once. */
#include "cell/base/must.h"
#include "cell/client/internal.h"

static void
keepalive_send(struct client *c)
{
	struct message m = {
	    .code = MSG_keepalive,
	    .keepalive = {.session = c->session, .epoch = c->epoch, .sequence = ++c->sequence},
	};

	must(c->connection == CONNECTION_OPEN);
	c->sent = c->now;
	client_send(c, &m);
}

void
client_keepalive_start(struct client *c)
{
	c->greeted = false;
	keepalive_send(c);
}

/* "The client's lease ends at its sending time": the master cannot have begun to count earlier. The
 * drift allowance covers a clock of ours that runs slower than the master's. */
static mono_t
lease_end(const struct client *c, uint32_t lease_ms)
{
	span_t lease = span_ms(lease_ms);

	return mono_add(c->sent, (span_t){lease.ns / 1000 * (1000 - c->config.drift_permille)});
}

void
client_keepalive_on_reply(struct client *c, const struct msg_keepalive_reply *m)
{
	if (m->sequence != c->sequence)
		return;
	if (m->rc == RC_NO_SESSION) {
		client_session_lost(c, true);
		return;
	}
	if (m->rc != RC_OK || m->epoch != c->epoch || m->held_ms >= m->lease_ms) {
		client_connection_drop(c);
		return;
	}
	c->failures = 0;
	c->greeted = true;
	c->lease = span_ms(m->lease_ms - m->held_ms);
	c->lease_end = mono_max(c->lease_end, lease_end(c, m->lease_ms));
	keepalive_send(c);
	if (mono_before(c->now, c->lease_end))
		client_session_safe(c);
}

/* A master holds a KeepAlive for at most a third of the lease. After twice that the connection is
 * taken for dead, while there is still time to find another before the lease is over. The first one
 * on a connection is answered at once, unless by somebody who is master no more and has not heard
 * of it. */
static mono_t
silence_end(const struct client *c)
{
	span_t patience = {c->lease.ns / 3 * 2};

	if (!c->greeted && patience.ns > client_connection_patience(c).ns)
		patience = client_connection_patience(c);
	return mono_add(c->sent, patience);
}

void
client_keepalive_tick(struct client *c)
{
	if (c->connection == CONNECTION_OPEN && mono_reached(c->now, silence_end(c)))
		client_connection_failed(c);
}

mono_t
client_keepalive_deadline(const struct client *c)
{
	return c->connection == CONNECTION_OPEN ? silence_end(c) : MONO_NEVER;
}
