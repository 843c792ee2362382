/* KeepAlives (Chubby, section 2.8): one is always in flight while the session is open on a
 * connection; the master answers it when the lease is to be renewed, and the client sends the next
 * one at once. */
#include "cell/base/must.h"
#include "cell/base/setting.h"
#include "cell/client/internal.h"

void
client_keepalive_begin(struct client *c)
{
	c->keepalive.lease = settings_span(&(struct settings){0}, SETTING_session_lease);
	client_keepalive_renounce(c);
}

void
client_keepalive_renounce(struct client *c)
{
	c->keepalive.lease_end = c->now;
}

static void
keepalive_send(struct client *c)
{
	struct message m = {
	    .code = MSG_keepalive,
	    .keepalive = {.session = c->session.id,
	                  .epoch = c->session.epoch,
	                  .sequence = ++c->keepalive.sequence,
	                  .generation = client_caching_asks(c),
	                  .heard = client_watches_acknowledge(c)},
	};

	must(c->connection.state == CONNECTION_OPEN);
	c->keepalive.sent = c->now;
	MESSAGE_TRACE(c->config.trace, "sends keepalive %llu",
	              (unsigned long long)c->keepalive.sequence);
	client_send(c, &m);
}

void
client_keepalive_start(struct client *c)
{
	c->keepalive.greeted = c->keepalive.returned = false;
	keepalive_send(c);
}

/* "The client's lease ends at its sending time": the master can't have begun to count earlier. The
 * drift allowance covers a client's clock that runs slower than the master's. */
mono_t
client_keepalive_until(const struct client *c, uint32_t ms)
{
	const int64_t permille_ns = span_ms(ms).ns / 1000;
	const span_t lease = {permille_ns * (1000 - c->config.drift_permille)};

	return mono_add(c->keepalive.sent, lease);
}

void
client_keepalive_on_reply(struct client *c, const struct msg_keepalive_reply *m)
{
	struct client_keepalive *k = &c->keepalive;

	if (m->sequence != k->sequence) {
		CLIENT_TRACE(c, "the answer to keepalive %llu is ignored: %llu is under way",
		             (unsigned long long)m->sequence, (unsigned long long)k->sequence);
		return;
	}
	if (m->rc == RC_NO_SESSION) {
		client_session_lost(c, true);
		return;
	}
	if (m->rc != RC_OK || m->epoch != c->session.epoch || m->held_ms >= m->lease_ms) {
		CLIENT_TRACE(c, "the answer to keepalive %llu renews nothing: %s, epoch %llu",
		             (unsigned long long)m->sequence, rc_name(m->rc),
		             (unsigned long long)m->epoch);
		client_connection_drop(c);
		return;
	}
	client_connection_proven(c);
	client_session_learn_grace(c, m->grace_ms);
	k->greeted = true;
	k->lease = span_ms(m->lease_ms - m->held_ms);
	k->lease_end = mono_max(k->lease_end, client_keepalive_until(c, m->lease_ms));
	CLIENT_TRACE(c, "keepalive %llu is answered after %lld ms: the lease ends in %lld ms",
	             (unsigned long long)k->sequence, -client_ms_until(c, k->sent),
	             client_ms_until(c, k->lease_end));
	client_caching_renew(c, m);
	keepalive_send(c);
	if (mono_before(c->now, k->lease_end))
		client_session_safe(c);
}

/* KeepAlives overtake requests. This message does not: it is sent behind all requests that had to
 * be sent again, and behind the tickets. */
void
client_keepalive_tell_returned(struct client *c)
{
	const struct message m = {
	    .code = MSG_returned,
	    .returned = {.session = c->session.id, .epoch = c->session.epoch},
	};

	if (c->waits.present_n > 0)
		return;
	must(c->keepalive.greeted && !c->keepalive.returned);
	c->keepalive.returned = true;
	MESSAGE_TRACE(c->config.trace, "sends returned: all requests were sent again");
	client_send(c, &m);
}

/* A master holds a KeepAlive for at most a third of the lease. After twice that time the connection
 * is given up as failed, while there is still time to find another before the lease ends. The first
 * KeepAlive on a connection is answered at once, unless the replica is no longer master and does
 * not know it yet. */
static mono_t
silence_end(const struct client *c)
{
	span_t patience = {c->keepalive.lease.ns / 3 * 2};

	if (!c->keepalive.greeted && patience.ns > client_connection_patience(c).ns)
		patience = client_connection_patience(c);
	return mono_add(c->keepalive.sent, patience);
}

void
client_keepalive_tick(struct client *c)
{
	if (c->connection.state != CONNECTION_OPEN || !mono_reached(c->now, silence_end(c)))
		return;
	CLIENT_TRACE(c, "replica %u has not answered keepalive %llu for %lld ms",
	             c->connection.replica, (unsigned long long)c->keepalive.sequence,
	             -client_ms_until(c, c->keepalive.sent));
	client_connection_failed(c);
}

mono_t
client_keepalive_deadline(const struct client *c)
{
	return c->connection.state == CONNECTION_OPEN ? silence_end(c) : MONO_NEVER;
}
