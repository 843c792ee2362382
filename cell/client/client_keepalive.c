/* KeepAlives (Chubby, section 2.8): one is always in flight while the session is open on a
 * connection; the master answers it when the lease is to be renewed, and the client sends the next
 * one at once.
 *
 * TCP waits ever longer before it repeats what was lost, whatever the lease; so KeepAlives are sent
 * by UDP (Chubby, section 4.1) while one over TCP is answered late. They renew the session's lease
 * only: for leave to cache, invalidations and renewals have to come in order. */
#include "cell/base/must.h"
#include "cell/base/setting.h"
#include "cell/client/internal.h"

/* Spans as parts of the lease. */
enum {
	LEASE_PARTS = 24,
	LATE_PARTS = 10,    /* then a KeepAlive is late: datagrams are sent, one in each part */
	SILENT_PARTS = 16,  /* then the connection has failed */
	STALLED_PARTS = 48, /* as long TCP may stall while datagrams are answered */
};

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
	struct message m =
	    MESSAGE(keepalive, .session = c->session.id, .epoch = c->session.epoch,
	            .sequence = ++c->keepalive.sequence, .generation = client_caching_asks(c),
	            .heard = client_watches_acknowledge(c));

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
	c->keepalive.datagram_before = c->keepalive.datagram_sequence;
	keepalive_send(c);
	c->keepalive.datagram_answered = c->keepalive.sent;
}

/* "The client's lease ends at its sending time": the master can't have begun to count earlier. The
 * drift allowance covers a client's clock that runs slower than the master's. */
static mono_t
lease_from(const struct client *c, mono_t sent, uint32_t ms)
{
	const int64_t permille_ns = span_ms(ms).ns / 1000;
	const span_t lease = {permille_ns * (1000 - c->config.drift_permille)};

	return mono_add(sent, lease);
}

mono_t
client_keepalive_until(const struct client *c, uint32_t ms)
{
	return lease_from(c, c->keepalive.sent, ms);
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
	k->scarce = m->scarce != 0;
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

/* KeepAlives overtake requests. This message does not: it is sent after all requests that had to
 * be sent again, and after the tickets. */
void
client_keepalive_tell_returned(struct client *c)
{
	const struct message m =
	    MESSAGE(returned, .session = c->session.id, .epoch = c->session.epoch);

	if (c->waits.present_n > 0)
		return;
	must(c->keepalive.greeted && !c->keepalive.returned);
	c->keepalive.returned = true;
	MESSAGE_TRACE(c->config.trace, "sends returned: all requests were sent again");
	client_send(c, &m);
}

/* ---- over UDP ---- */

/* The time of the last KeepAlive, of either kind, that is known to have reached the master. */
static mono_t
heard(const struct client *c)
{
	return mono_max(c->keepalive.sent, c->keepalive.datagram_answered);
}

static span_t
parts_of_lease(const struct client *c, int parts)
{
	return (span_t){c->keepalive.lease.ns / LEASE_PARTS * parts};
}

static mono_t
datagram_due(const struct client *c)
{
	const struct client_keepalive *k = &c->keepalive;
	const mono_t first = mono_add(heard(c), parts_of_lease(c, LATE_PARTS));

	if (!k->greeted)
		return MONO_NEVER;
	if (k->datagram_sequence == k->datagram_before)
		return first;
	return mono_max(first, mono_add(k->datagram_sent[k->datagram_sequence % DATAGRAMS_KEPT],
	                                parts_of_lease(c, 1)));
}

/* A frame that answers no datagram of this session on this connection is late, and changes
 * nothing. */
void
client_keepalive_on_datagram(struct client *c, struct bytes frame)
{
	struct client_keepalive *k = &c->keepalive;
	const struct msg_keepalive_reply *m;
	struct message message;
	mono_t sent;

	if (c->connection.state != CONNECTION_OPEN || wire_get_frame(frame, &message) != RC_OK ||
	    message.code != MSG_keepalive_reply)
		return;
	m = &message.keepalive_reply;
	if (m->rc != RC_OK || m->epoch != c->session.epoch || m->sequence <= k->datagram_before ||
	    m->sequence > k->datagram_sequence ||
	    k->datagram_sequence - m->sequence >= DATAGRAMS_KEPT)
		return;
	sent = k->datagram_sent[m->sequence % DATAGRAMS_KEPT];
	k->datagrams++;
	k->datagram_answered = mono_max(k->datagram_answered, sent);
	k->lease = span_ms(m->lease_ms);
	k->lease_end = mono_max(k->lease_end, lease_from(c, sent, m->lease_ms));
	CLIENT_TRACE(c, "datagram %llu is answered after %lld ms: the lease ends in %lld ms",
	             (unsigned long long)m->sequence, -client_ms_until(c, sent),
	             client_ms_until(c, k->lease_end));
	if (mono_before(c->now, k->lease_end))
		client_session_safe(c);
}

/* ---- deadlines ---- */

/* A master holds a KeepAlive for at most a third of the lease. After twice that time the connection
 * is given up as failed, while there is still time to find another before the lease ends; later if
 * datagrams are answered meanwhile, for TCP will go on by itself, but after two leases at most,
 * since requests wait for it. The first KeepAlive on a connection is answered at once, unless the
 * replica is no longer master and does not know it yet. */
static mono_t
silence_end(const struct client *c)
{
	const struct client_keepalive *k = &c->keepalive;
	span_t patience = parts_of_lease(c, SILENT_PARTS);

	if (!k->greeted && patience.ns > client_connection_patience(c).ns)
		patience = client_connection_patience(c);
	return mono_min(mono_add(heard(c), patience),
	                mono_add(k->sent, parts_of_lease(c, STALLED_PARTS)));
}

void
client_keepalive_tick(struct client *c)
{
	struct client_keepalive *k = &c->keepalive;

	if (c->connection.state != CONNECTION_OPEN)
		return;
	if (mono_reached(c->now, silence_end(c))) {
		CLIENT_TRACE(c, "replica %u has not answered keepalive %llu for %lld ms",
		             c->connection.replica, (unsigned long long)k->sequence,
		             -client_ms_until(c, k->sent));
		client_connection_failed(c);
	} else if (mono_reached(c->now, datagram_due(c))) {
		const struct message m =
		    MESSAGE(keepalive, .session = c->session.id, .epoch = c->session.epoch,
		            .sequence = ++k->datagram_sequence);

		k->datagram_sent[k->datagram_sequence % DATAGRAMS_KEPT] = c->now;
		CLIENT_TRACE(c, "keepalive %llu is late: sends datagram %llu",
		             (unsigned long long)k->sequence,
		             (unsigned long long)k->datagram_sequence);
		buffer_reset(&c->update->datagram);
		wire_put_frame(&c->update->datagram, &m);
	}
}

mono_t
client_keepalive_deadline(const struct client *c)
{
	if (c->connection.state != CONNECTION_OPEN)
		return MONO_NEVER;
	return mono_min(silence_end(c), datagram_due(c));
}

void
client_keepalive_image(struct client *c, struct image *i)
{
	IMAGE(i, c->keepalive.sequence);
	IMAGE(i, c->keepalive.datagram_sequence);
	IMAGE(i, c->keepalive.scarce);
	IMAGE_TIME(i, c->keepalive.lease);
	IMAGE_TIME(i, c->keepalive.lease_end);
}
