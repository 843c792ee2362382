/* The session: how it is opened, its states, how it is lost, and its end in good order. */
#include <string.h>
#include "cell/base/must.h"
#include "cell/base/setting.h"
#include "cell/client/internal.h"

#define A(state) (1u << CLIENT_##state)

/* The states that may follow each state. Each one waits for an event:
 *   NEW       for a session, then for its first lease; requests are sent as soon as there is one
 *   SAFE      for the end of its lease: the only state in which requests are answered with success
 *   JEOPARDY  for a renewed lease within the grace period (Chubby, section 2.8)
 *   EXPIRED   for another session */
static const unsigned allowed[] = {
    [CLIENT_NEW] = A(SAFE) | A(EXPIRED) | A(CLOSED),
    [CLIENT_SAFE] = A(JEOPARDY) | A(EXPIRED) | A(CLOSED),
    [CLIENT_JEOPARDY] = A(SAFE) | A(EXPIRED) | A(CLOSED),
    [CLIENT_EXPIRED] = A(NEW) | A(CLOSED),
    [CLIENT_CLOSED] = 0,
};

static const char *const names[] = {
    [CLIENT_NEW] = "new",         [CLIENT_SAFE] = "safe",     [CLIENT_JEOPARDY] = "in jeopardy",
    [CLIENT_EXPIRED] = "expired", [CLIENT_CLOSED] = "closed",
};

static void
session_move(struct client *c, enum client_state to)
{
	struct client_session *s = &c->session;

	must(allowed[s->state] & (1u << to));
	CLIENT_TRACE(c, "the session is %s, was %s", names[to], names[s->state]);
	s->state = to;
	s->jeopardies += to == CLIENT_JEOPARDY;
	c->update->state_changed = true;
	client_watches_state(c, to);
	must(to != CLIENT_SAFE || (s->id != 0 && mono_before(c->now, c->keepalive.lease_end)));
	must(to != CLIENT_EXPIRED || s->id == 0);
}

void
client_session_begin(struct client *c)
{
	const struct client_config *config = &c->config;
	struct client_session *s = &c->session;

	memcpy(s->nonce, config->nonce, LIMIT_NONCE);
	s->earlier = config->earlier_session;
	memcpy(s->earlier_nonce, config->earlier_nonce, LIMIT_NONCE);
	s->grace = config->grace;
	if (s->grace.ns == 0)
		s->grace = settings_span(&(struct settings){0}, SETTING_grace);
	s->grace_end = s->patience_end = mono_add(c->now, s->grace);
	s->close_end = MONO_NEVER;
}

/* The next session proves to the master that the client caches nothing of the last one. */
void
client_session_open(struct client *c)
{
	struct message m = {
	    .code = MSG_open_session,
	    .open_session =
	        {
	            .session = c->session.id,
	            .nonce = {c->session.nonce, LIMIT_NONCE},
	            .host = bytes_of(c->host),
	            .caching = client_caching_wanted(c),
	            .lasting = c->config.lasting,
	            .epoch = c->session.epoch,
	        },
	};

	c->session.unasked = c->session.id == 0 && !client_caching_shown(c);
	client_connection_opening(c);
	if (c->session.unasked)
		return;
	if (c->session.id == 0 && c->session.earlier != 0) {
		m.open_session.earlier = c->session.earlier;
		m.open_session.earlier_nonce.data = c->session.earlier_nonce;
		m.open_session.earlier_nonce.len = LIMIT_NONCE;
	}
	MESSAGE_TRACE(c->config.trace, "sends open_session: session %llu, earlier session %llu",
	              (unsigned long long)c->session.id, (unsigned long long)c->session.earlier);
	client_send(c, &m);
	c->session.asked_for = c->session.id == 0 && c->config.lasting;
}

void
client_session_invalidated(struct client *c)
{
	if (c->connection.state == CONNECTION_OPENING && c->session.unasked)
		client_session_open(c);
}

/* With a lasting session the client waits for the cell without limit. */
static mono_t
grace_end(const struct client *c)
{
	return c->config.lasting ? MONO_NEVER : mono_add(c->now, c->session.grace);
}

static void
session_opened(struct client *c, const struct msg_session_opened *m)
{
	c->session.connections++;
	c->session.fail_overs += c->session.epoch != 0 && m->epoch > c->session.epoch;
	CLIENT_TRACE(c, "session %llu is open at master %u of epoch %llu",
	             (unsigned long long)m->session, m->master, (unsigned long long)m->epoch);
	if (c->session.id == 0) {
		/* A new session takes over nothing from an earlier one. */
		c->session.id = m->session;
		c->session.asked_for = false;
		c->session.sessions++;
		c->session.earlier = 0;
		client_request_renumber(c);
		client_keepalive_renounce(c);
		c->session.grace_end = grace_end(c);
		if (c->session.state == CLIENT_EXPIRED)
			session_move(c, CLIENT_NEW);
		must(c->session.state == CLIENT_NEW);
		c->update->state_changed = true;
	}
	client_caching_drop(c, "the session is open on another connection");
	c->session.epoch = m->epoch;
	c->session.master = m->master;
	must(m->principal.len <= LIMIT_PRINCIPAL);
	if (m->principal.len > 0)
		memcpy(c->session.principal, m->principal.data, m->principal.len);
	c->session.principal[m->principal.len] = '\0';
	client_connection_opened(c);
	client_watches_opened(c);
	client_keepalive_start(c);
	client_request_send_again(c);
	client_lock_waits_reconnected(c);
	c->update->opened = true;
}

/* An answer for another session than the requested one, or from a master of an earlier epoch than a
 * known one, is ignored. */
static bool
opened_fits(const struct client *c, const struct msg_session_opened *m)
{
	if (c->session.id == 0)
		return m->session != 0;
	return m->session == c->session.id && m->epoch >= c->session.epoch;
}

void
client_session_on_opened(struct client *c, const struct msg_session_opened *m)
{
	must(c->connection.state == CONNECTION_OPENING);
	if (m->rc == RC_OK && opened_fits(c, m)) {
		session_opened(c, m);
	} else if (m->rc == RC_NO_SESSION && c->session.id != 0 && m->epoch >= c->session.epoch) {
		/* A master of an earlier epoch may not know the session: it can't have ended it. */
		client_session_lost(c, true);
	} else if (m->rc == RC_NOT_MASTER) {
		client_connection_elsewhere(c, &(struct msg_redirect){m->epoch, m->master});
	} else {
		CLIENT_TRACE(c, "open_session is not accepted: %s, session %llu, epoch %llu",
		             rc_name(m->rc), (unsigned long long)m->session,
		             (unsigned long long)m->epoch);
		client_connection_drop(c);
	}
}

void
client_session_learn_grace(struct client *c, uint32_t ms)
{
	if (c->config.grace.ns == 0 && ms > 0)
		c->session.grace = span_ms(ms);
}

void
client_session_safe(struct client *c)
{
	if (c->session.state != CLIENT_SAFE)
		session_move(c, CLIENT_SAFE);
	client_reply_flush(c);
}

void
client_session_lost(struct client *c, bool ended)
{
	must(c->session.id != 0);
	CLIENT_TRACE(c, "session %llu is lost: %s", (unsigned long long)c->session.id,
	             ended ? "the cell has ended it" : "it was not renewed in time");
	if (c->session.closing) {
		client_session_closed(c, ended);
		return;
	}
	c->session.earlier = ended ? 0 : c->session.id;
	memcpy(c->session.earlier_nonce, c->session.nonce, LIMIT_NONCE);
	for (size_t i = 0; i < LIMIT_NONCE; i++)
		c->session.nonce[i] = (uint8_t)rng_next(&c->rng);
	c->session.id = 0;
	c->session.patience_end = ended ? mono_add(c->now, c->session.grace) : c->now;
	session_move(c, CLIENT_EXPIRED);
	client_lock_waits_forget(c);
	client_watches_forget(c);
	client_caching_forget(c);
	client_request_carry_over(c);
	if (ended && c->connection.state != CONNECTION_NONE)
		client_session_open(c);
	else
		client_connection_drop(c);
}

/* The principal was removed, and its sessions end: no call waits for a session that will not come.
 * The client goes on trying, since the principal may be added again. */
void
client_session_denied(struct client *c)
{
	CLIENT_TRACE(c, "the cell does not know the client's key");
	c->session.asked_for = false;
	if (c->session.closing)
		client_session_closed(c, true);
	else if (c->session.id != 0)
		client_session_lost(c, false);
	else if (c->session.state == CLIENT_NEW)
		session_move(c, CLIENT_EXPIRED);
	c->session.patience_end = c->now;
}

/* Ends a session in good order: after the last request, and while the lease is valid. */
void
client_session_close(struct client *c, enum end_cause cause)
{
	if (c->session.closing)
		return;
	c->session.closing = true;
	c->session.closes_as = cause;
	c->session.close_end = c->now;
	if (c->session.state == CLIENT_SAFE)
		c->session.close_end = c->keepalive.lease_end;
	else if (c->session.state == CLIENT_NEW && c->session.id != 0)
		c->session.close_end = mono_add(c->now, c->keepalive.lease);
	CLIENT_TRACE(c, "session %llu ends after its requests (%zu), within %lld ms",
	             (unsigned long long)c->session.id,
	             client_request_in_flight(c) + client_request_queued(c),
	             client_ms_until(c, c->session.close_end));
	client_lock_waits_forget(c);
}

void
client_session_closed(struct client *c, bool ended)
{
	c->session.left_open =
	    !ended && (c->session.id != 0 || c->session.earlier != 0 || c->session.asked_for);
	c->session.id = 0;
	client_connection_end(c);
	session_move(c, CLIENT_CLOSED);
	client_request_fail_all(c);
	client_lock_waits_forget(c);
	client_watches_forget(c);
	client_caching_forget(c);
}

/* A lasting session whose locks others must not get soon is left to an operator. */
static void
session_part(struct client *c)
{
	const struct op op = {
	    .code = OP_end_session,
	    .end_session =
	        {
	            .session = c->session.id,
	            .cause = (uint8_t)c->session.closes_as,
	            .epoch = c->session.epoch,
	            .nonce = {c->session.nonce, LIMIT_NONCE},
	        },
	};

	if (c->config.lasting && c->session.closes_as == SESSION_EXPIRED)
		client_session_closed(c, false);
	else
		client_request_own(c, REQUEST_CLOSE, &op, (struct bytes){0});
}

static void
trace_lease_over(const struct client *c)
{
	const unsigned long long id = c->session.id;
	const long long since = -client_ms_until(c, c->keepalive.lease_end);

	if (c->config.lasting)
		CLIENT_TRACE(c, "the lease of session %llu is over since %lld ms; it lasts", id,
		             since);
	else
		CLIENT_TRACE(c, "the lease of session %llu is over since %lld ms; grace: %lld ms",
		             id, since, client_ms_until(c, c->session.grace_end));
}

void
client_session_tick(struct client *c)
{
	/* The grace period counts from the time when the end of the lease was noticed: a machine
	 * that slept through all of it can still ask the cell before it gives the session up. */
	if (c->session.state == CLIENT_SAFE && mono_reached(c->now, c->keepalive.lease_end)) {
		c->session.grace_end = grace_end(c);
		trace_lease_over(c);
		session_move(c, CLIENT_JEOPARDY);
		client_caching_drop(c, "the session is in jeopardy");
	}
	if (c->session.closing) {
		if (mono_reached(c->now, c->session.close_end))
			client_session_closed(c, false);
		else if (c->connection.state == CONNECTION_OPEN && client_request_idle(c))
			session_part(c);
	} else if ((c->session.state == CLIENT_NEW || c->session.state == CLIENT_JEOPARDY) &&
	           mono_reached(c->now, c->session.grace_end)) {
		if (c->session.id != 0)
			client_session_lost(c, false);
		else
			session_move(c, CLIENT_EXPIRED);
	}
}

mono_t
client_session_deadline(const struct client *c)
{
	if (c->session.closing)
		return c->session.close_end;
	switch (c->session.state) {
	case CLIENT_SAFE:
		return c->keepalive.lease_end;
	case CLIENT_NEW:
	case CLIENT_JEOPARDY:
		return c->session.grace_end;
	default:
		return MONO_NEVER;
	}
}

void
client_session_image(struct client *c, struct image *i)
{
	struct client_session *s = &c->session;

	IMAGE(i, s->id);
	IMAGE(i, s->epoch);
	IMAGE(i, s->master);
	image_array(i, s->principal, sizeof s->principal);
	image_array(i, s->nonce, sizeof s->nonce);
	IMAGE_TIME(i, s->grace);
	if (!image_reads(i))
		return;
	if (s->id == 0 || memchr(s->principal, '\0', sizeof s->principal) == NULL)
		image_refuse(i);
	s->state = CLIENT_SAFE;
	s->sessions = 1;
	s->earlier = 0;
}
