/* The client's life, and the dispatch of each event to its parts. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/client/internal.h"

/* ---- replies ---- */

/* Replies and grants as they arrive, encoded. Chubby, section 2.8: in jeopardy no request is
 * answered, so that no program acts on a lock or a value while the session may be over; so they are
 * kept until the session is safe again. */

enum { KEEP = 1024 * 1024 }; /* bytes of the buffer that stay allocated between steps */

/* Takes an encoded reply or grant: it is handled now, or kept until the session is SAFE again. It
 * is decoded when it is handled; a malformed one ends the connection then. */
static void
reply_on_frame(struct client *c, struct bytes frame)
{
	c->replies.held = c->session.state != CLIENT_SAFE;
	buffer_put_bytes(&c->replies.kept, frame);
	if (c->replies.kept.failed) {
		c->replies.spent = true;
		client_connection_drop(c);
		return;
	}
	if (c->session.state == CLIENT_SAFE)
		client_reply_flush(c);
	else
		CLIENT_TRACE(c, "a reply is held back until the session is safe");
}

void
client_reply_flush(struct client *c)
{
	struct bytes rest = buffer_view(&c->replies.kept);
	struct message m;

	c->replies.spent = true;
	while (rest.len > 0 && c->session.state == CLIENT_SAFE &&
	       c->connection.state == CONNECTION_OPEN) {
		long len = wire_frame_length(rest);

		must(len > 0 && (size_t)len <= rest.len);
		if (wire_get_frame((struct bytes){rest.data, (size_t)len}, &m) != RC_OK) {
			CLIENT_TRACE(c, "a reply is malformed");
			client_connection_drop(c);
			return;
		}
		if (m.code == MSG_reply)
			client_request_on_reply(c, &m.reply);
		else
			client_lock_waits_on_granted(c, &m.granted);
		rest.data += len;
		rest.len -= (size_t)len;
	}
}

void
client_reply_forget(struct client *c)
{
	if (!c->replies.spent)
		buffer_reset(&c->replies.kept);
}

/* ---- steps ---- */

static mono_t
deadline(const struct client *c)
{
	mono_t session = client_session_deadline(c), request = client_request_deadline(c);
	mono_t keepalive = client_keepalive_deadline(c);
	mono_t connection = client_connection_deadline(c), standby = client_standby_deadline(c);
	mono_t caching = client_caching_deadline(c);

	if (c->session.state == CLIENT_CLOSED)
		return MONO_NEVER;
	return mono_min(mono_min(mono_min(session, request), keepalive),
	                mono_min(mono_min(connection, standby), caching));
}

struct client *
client_new(const struct client_config *config, mono_t now)
{
	struct client *c = memory_zero(1, sizeof *c);

	c->config = *config;
	c->host = bytes_to_text(bytes_of(config->host));
	c->config.host = c->host;
	c->rng = rng_seeded(config->seed);
	c->now = now;
	client_session_begin(c);
	client_connection_begin(c);
	client_keepalive_begin(c);
	client_request_begin(c);
	c->replies.kept = BUFFER(4 * (size_t)LIMIT_FRAME);
	TAILQ_INIT(&c->waits.list);
	client_caching_begin(c);
	c->deadline = deadline(c);
	return c;
}

/* ---- the image ---- */

bool
client_is_still(const struct client *c)
{
	return c->session.state == CLIENT_SAFE && !c->session.closing && client_request_idle(c) &&
	       client_caching_shown(c) && TAILQ_EMPTY(&c->caching.debts) &&
	       (c->replies.spent || c->replies.kept.len == 0);
}

/* The same for writing and for reading. */
static void
client_image(struct client *c, struct image *i)
{
	client_session_image(c, i);
	client_connection_image(c, i);
	client_keepalive_image(c, i);
	client_request_image(c, i);
	client_caching_image(c, i);
	client_lock_waits_image(c, i);
	client_watches_image(c, i);
}

void
client_save(const struct client *c, struct image *to)
{
	must(client_is_still(c));
	client_image((struct client *)c, to); /* which sets nothing */
}

struct client *
client_load(const struct client_config *config, struct image *from, mono_t now)
{
	struct client *c = client_new(config, now);

	client_image(c, from);
	if (!from->from.failed) {
		c->deadline = deadline(c);
		return c;
	}
	client_free(c);
	return NULL;
}

void
client_free(struct client *c)
{
	struct client_update last = {0};

	if (c == NULL)
		return;
	c->update = &last;
	client_request_fail_all(c);
	client_lock_waits_forget(c);
	client_watches_forget(c);
	client_caching_end(c);
	client_update_free(&last);
	buffer_free(&c->replies.kept);
	free(c->host);
	free(c);
}

static void
update_clear(struct client_update *u)
{
	u->connect = u->listen = false;
	u->replica = u->listen_to = 0;
	u->state_changed = u->opened = u->members_changed = false;
	u->answers_n = u->grants_n = u->invalid_n = 0;
	client_watches_update_clear(u);
	u->invalidation = 0;
	u->invalid_all = false;
	if (u->frames.limit == 0)
		u->frames = u->datagram = BUFFER(SIZE_MAX);
	buffer_reset(&u->frames);
	buffer_reset(&u->datagram);
}

void
client_update_free(struct client_update *u)
{
	buffer_free(&u->frames);
	buffer_free(&u->datagram);
	client_watches_update_clear(u);
	free(u->watched);
	free(u->answers);
	free(u->grants);
	free(u->invalid);
	*u = (struct client_update){0};
}

static void
refuse_frame(struct client *c, const char *why)
{
	CLIENT_TRACE(c, "a message of replica %u is refused: %s", c->connection.replica, why);
	client_connection_drop(c);
}

/* A reply or message that a replica should not send here means that client and replica disagree
 * about the state of the connection; a new one starts from what both know for certain. But the word
 * that a session is over overtakes what the master had sent to it before: that is ignored until the
 * next session is open on the connection, since opening that shows the master that the client knows
 * of the end. */
static void
on_message(struct client *c, const struct message *m)
{
	const enum connection_state connection = c->connection.state;
	const bool ended = connection == CONNECTION_OPENING && c->session.id == 0;

	if (m->code == MSG_redirect)
		client_connection_elsewhere(c, &m->redirect);
	else if (m->code == MSG_members)
		client_replica_list_received(c, &m->members);
	else if (m->code == MSG_session_opened && connection == CONNECTION_OPENING)
		client_session_on_opened(c, &m->session_opened);
	else if (m->code == MSG_keepalive_reply && connection == CONNECTION_OPEN)
		client_keepalive_on_reply(c, &m->keepalive_reply);
	else if (m->code == MSG_invalidation && connection == CONNECTION_OPEN)
		client_caching_on_invalidation(c, &m->invalidation);
	else if (m->code == MSG_watching && connection == CONNECTION_OPEN)
		client_watches_on_watching(c, &m->watching);
	else if (ended &&
	         (m->code == MSG_reply || m->code == MSG_granted || m->code == MSG_watching ||
	          m->code == MSG_invalidation || m->code == MSG_events))
		CLIENT_TRACE(c, "a message for the former session is ignored");
	else if (m->code != MSG_events || connection != CONNECTION_OPEN)
		refuse_frame(c, connection == CONNECTION_OPEN ? "not for a client"
		                                              : "no session is open here");
	else if (!client_watches_on_events(c, &m->events))
		refuse_frame(c, "events are missing before it");
}

/* Returns what on_event returns. */
static bool
on_frame(struct client *c, struct bytes frame)
{
	const enum connection_state connection = c->connection.state;
	const unsigned code = wire_frame_code(frame);
	struct message m;

	if (connection == CONNECTION_NONE || connection == CONNECTION_CONNECTING) {
		/* The connection was given up, and stays open until the next one is made. */
		if (wire_get_frame(frame, &m) != RC_OK)
			return true;
		if (m.code == MSG_redirect)
			client_connection_announced(c, &m.redirect);
		else if (m.code == MSG_members)
			client_replica_list_received(c, &m.members);
	} else if (connection == CONNECTION_OPEN && (code == MSG_reply || code == MSG_granted) &&
	           wire_frame_length(frame) == (long)frame.len) {
		reply_on_frame(c, frame);
		return false;
	} else if (wire_get_frame(frame, &m) == RC_OK) {
		on_message(c, &m);
	} else {
		refuse_frame(c, "malformed");
	}
	return true;
}

/* False: the event moves no deadline of a client that is steady before and after it. Those of a
 * steady client move only with KeepAlives and with the second connection. */
static bool
on_event(struct client *c, const struct client_event *event)
{
	switch (event->kind) {
	case CLIENT_CONNECTED:
		client_connection_on_connected(c);
		return true;
	case CLIENT_DISCONNECTED:
		if (event->standby)
			client_standby_on_disconnected(c);
		else
			client_connection_on_disconnected(c);
		if (event->denied && !event->standby)
			client_session_denied(c);
		return true;
	case CLIENT_FRAME:
		if (!event->standby)
			return on_frame(c, event->frame);
		client_standby_on_frame(c, event->frame);
		return true;
	case CLIENT_DATAGRAM:
		client_keepalive_on_datagram(c, event->frame);
		return true;
	case CLIENT_REQUEST:
		client_request_submit(c, event->request);
		return false;
	case CLIENT_WATCH:
		client_watches_submit(c,
		                      &(struct watch){.node = event->node,
		                                      .mask = event->mask,
		                                      .user = event->user},
		                      event->generation);
		return false;
	case CLIENT_INVALIDATED:
		client_caching_on_invalidated(c, event->invalidation);
		return true;
	case CLIENT_TIMEOUT:
		return true;
	case CLIENT_CLOSE:
		client_session_close(c, event->as_expired ? SESSION_EXPIRED : SESSION_CLOSED);
		return true;
	}
	return true;
}

/* True while requests are sent and answered. */
static bool
is_steady(const struct client *c)
{
	return c->session.state == CLIENT_SAFE && !c->session.closing &&
	       c->connection.state == CONNECTION_OPEN;
}

/* The parts act on the time only where a deadline is reached; the end of a session also waits for
 * the last answer. */
static void
tick(struct client *c)
{
	if (c->session.state == CLIENT_CLOSED ||
	    !(c->session.closing || mono_reached(c->now, c->deadline)))
		return;
	client_session_tick(c);
	client_caching_tick(c);
	client_request_tick(c);
	client_keepalive_tick(c);
	client_connection_tick(c);
	client_standby_tick(c);
	c->deadline = deadline(c);
}

long long
client_ms_until(const struct client *c, mono_t until)
{
	return span_to_ms(mono_since(until, c->now));
}

/* Deadlines are handled first, so that no request is answered under a lease that has run out, and
 * last, so that what became due by the event is done. */
void
client_step(struct client *c, const struct client_event *event, struct client_update *update)
{
	bool moved;

	must(!mono_before(event->now, c->now));
	update_clear(update);
	c->now = event->now;
	c->update = update;
	if (c->replies.spent) { /* no answer of an update refers to them any more */
		c->replies.spent = false;
		if (c->replies.kept.room > KEEP)
			buffer_free(&c->replies.kept);
		buffer_reset(&c->replies.kept);
	}
	tick(c);
	moved = !is_steady(c);
	if (c->session.state != CLIENT_CLOSED || event->kind == CLIENT_REQUEST)
		moved |= on_event(c, event);
	if (c->connection.state == CONNECTION_OPEN) {
		/* Each part is called only if it has something to send. */
		if (c->waits.present_n > 0)
			client_lock_waits_present(c);
		if (c->keepalive.greeted && !c->keepalive.returned && client_caching_shown(c))
			client_keepalive_tell_returned(c);
		if (!TAILQ_EMPTY(&c->requests.queue))
			client_request_pump(c);
	}
	if (event->kind == CLIENT_REQUEST && !TAILQ_EMPTY(&c->requests.queue))
		client_request_trace_queue(c, event->request);
	if (moved || !is_steady(c))
		c->deadline = deadline(c);
	tick(c);
	must(!update->frames.failed && !update->datagram.failed);
	update->deadline = c->deadline;
	c->update = NULL;
}

mono_t
client_deadline(const struct client *c)
{
	return c->deadline;
}

struct client_status
client_status(const struct client *c)
{
	struct client_status s = {
	    .state = c->session.state,
	    .session = c->session.id,
	    .lasting = c->config.lasting,
	    .left_open = c->session.left_open,
	    .epoch = c->session.epoch,
	    .master = c->session.master,
	    .lease_end = c->keepalive.lease_end,
	    .leave_end = client_caching_deadline(c),
	    .grace_end = c->session.grace_end,
	    .nonce = c->session.nonce,
	    .scarce = c->keepalive.scarce,
	    .in_flight = client_request_in_flight(c),
	    .queued = client_request_queued(c),
	    .requests = c->requests.next_number - 1,
	};

	memcpy(s.principal, c->session.principal, sizeof s.principal);
	return s;
}

struct client_counts
client_counts(const struct client *c)
{
	return (struct client_counts){
	    .connected = c->connection.state == CONNECTION_OPEN,
	    .cached_nodes = c->caching.cache.entries_n,
	    .cached_bytes = c->caching.cache.bytes,
	    .watches = c->watches.n,
	    .hits = c->caching.hits,
	    .misses = c->caching.misses,
	    .invalidations = c->caching.invalidations,
	    .drops = c->caching.drops,
	    .sessions = c->session.sessions,
	    .connections = c->session.connections,
	    .fail_overs = c->session.fail_overs,
	    .jeopardies = c->session.jeopardies,
	    .datagrams = c->keepalive.datagrams,
	};
}
