/* Handshakes of accepted connections: when the first message has shown whose one is, it is answered
 * as far as the budget of that key allows, and waits otherwise, behind those of the same budget.
 * Meanwhile its socket is not read. */
#include <string.h>

#include "cell/base/must.h"
#include "cell/net/stream.h"
#include "cell/sys/clock.h"

/* The key that has the budget; NULL: all keys that are not known, together. */
static const uint8_t *
budget_of(const struct stream *s)
{
	return s->stranger ? NULL : channel_peer(&s->channel);
}

static bool
may_answer(struct stream *s, mono_t now, mono_t *again)
{
	struct transport *n = s->transport;

	return n->config.callbacks.knows == NULL ||
	       handshake_budget_take(&n->handshakes, budget_of(s), now, again);
}

static bool
is_behind_another(const struct stream *s)
{
	const struct stream *other;

	TAILQ_FOREACH(other, &s->transport->waiting, waiting)
		if (other->stranger == s->stranger &&
		    (s->stranger || memcmp(budget_of(other), budget_of(s), NOISE_KEY) == 0))
			return true;
	return false;
}

static void on_timer(uv_timer_t *timer);

/* Sets the timer, unless it is set for an earlier time. */
static void
arm(struct transport *n, mono_t now, mono_t at)
{
	const uint64_t ms = (uint64_t)span_to_ms(mono_since(at, now)) + 1;

	uv_update_time(n->loop);
	if (uv_is_closing((uv_handle_t *)&n->admission) ||
	    (uv_is_active((uv_handle_t *)&n->admission) &&
	     uv_timer_get_due_in(&n->admission) <= ms))
		return;
	must(uv_timer_start(&n->admission, on_timer, ms, 0) == 0);
}

static void
on_timer(uv_timer_t *timer)
{
	struct transport *n = timer->data;
	const mono_t now = clock_now();
	struct stream *s, *next;
	mono_t again;

	TAILQ_FOREACH_SAFE(s, &n->waiting, waiting, next) {
		if (!may_answer(s, now, &again)) {
			arm(n, now, again);
			continue;
		}
		handshakes_leave(s);
		stream_answer(s);
		if (s->state == STREAM_SHAKING)
			stream_read(s);
	}
}

void
handshakes_claimed(struct stream *s)
{
	struct transport *n = s->transport;
	const struct transport_callbacks *callbacks = &n->config.callbacks;
	const mono_t now = clock_now();
	mono_t again;

	s->stranger = callbacks->knows != NULL &&
	              !callbacks->knows(callbacks->user, channel_peer(&s->channel));
	if (!is_behind_another(s)) {
		if (may_answer(s, now, &again)) {
			stream_answer(s);
			return;
		}
		arm(n, now, again);
	}
	uv_read_stop((uv_stream_t *)&s->tcp);
	s->waits = true;
	TAILQ_INSERT_TAIL(&n->waiting, s, waiting);
}

void
handshakes_leave(struct stream *s)
{
	if (s->waits)
		TAILQ_REMOVE(&s->transport->waiting, s, waiting);
	s->waits = false;
}
