/* Handshakes of accepted connections. The first message claims a key: the handshake is answered
 * when the budget of that key allows it, and until then waits behind the others of the same budget,
 * while its socket is not read. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/net/stream.h"
#include "cell/sys/clock.h"

/* The key whose budget pays for the handshake; NULL: that of all unknown keys together. */
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

/* ---- the budgets of keys ---- */

struct handshake_key {
	RB_ENTRY(handshake_key) link;
	uint8_t key[NOISE_KEY];
	mono_t paid_until; /* HANDSHAKE_MS further with each handshake */
};

static int
by_key(const struct handshake_key *a, const struct handshake_key *b)
{
	return memcmp(a->key, b->key, sizeof a->key);
}

RB_GENERATE_INTERNAL(handshake_keys, handshake_key, link, by_key, __attribute__((unused)) static)

void
handshake_budget_init(struct handshake_budget *b)
{
	RB_INIT(&b->keys);
	b->n = 0;
}

static void
forget(struct handshake_budget *b, struct handshake_key *k)
{
	RB_REMOVE(handshake_keys, &b->keys, k);
	b->n--;
	free(k);
}

void
handshake_budget_free(struct handshake_budget *b)
{
	while (!RB_EMPTY(&b->keys))
		forget(b, RB_ROOT(&b->keys));
}

bool
handshake_budget_take(struct handshake_budget *b, const uint8_t key[NOISE_KEY], mono_t now,
                      mono_t *again)
{
	struct handshake_key like = {.paid_until = now}, *k, *old, *next;

	if (key != NULL)
		memcpy(like.key, key, sizeof like.key);
	k = RB_FIND(handshake_keys, &b->keys, &like);
	if (k == NULL) {
		RB_FOREACH_SAFE(old, handshake_keys, &b->keys, next)
			if (mono_reached(now, old->paid_until))
				forget(b, old);
		k = memory_zero(1, sizeof *k);
		*k = like;
		must(RB_INSERT(handshake_keys, &b->keys, k) == NULL);
		b->n++;
	}
	*again = (mono_t){k->paid_until.ns - span_ms(HANDSHAKES_AHEAD * HANDSHAKE_MS).ns};
	if (mono_before(now, *again))
		return false;
	k->paid_until = mono_add(mono_max(k->paid_until, now), span_ms(HANDSHAKE_MS));
	return true;
}

/* ---- the addresses of strangers ---- */

/* Only TRANSPORT_UNPROVED_MAX accepted connections without a proved key are kept, and those from
 * one address do not take the place of the others. */

enum { IP6_NETWORK = 8 }; /* bytes of an address that tell whose it is */

struct origin {
	RB_ENTRY(origin) link;
	uint8_t address[IP6_NETWORK];
	int family;
	int n; /* of its connections; at least one */
};

static int
by_address(const struct origin *a, const struct origin *b)
{
	return a->family != b->family ? a->family - b->family
	                              : memcmp(a->address, b->address, sizeof a->address);
}

RB_GENERATE_INTERNAL(origins, origin, link, by_address, __attribute__((unused)) static)

/* The address of the peer; one of IPv4 is the same over a socket of IPv6. */
static struct origin
origin_of(const struct stream *s)
{
	struct sockaddr_storage from = {0};
	const struct in6_addr *six = &((const struct sockaddr_in6 *)&from)->sin6_addr;
	const void *four = &((const struct sockaddr_in *)&from)->sin_addr;
	struct origin origin = {.family = AF_INET};
	int len = sizeof from;

	if (uv_tcp_getpeername(&s->tcp, (struct sockaddr *)&from, &len) < 0)
		return origin;
	if (from.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(six))
		four = six->s6_addr + sizeof *six - sizeof(struct in_addr);
	else
		origin.family = from.ss_family;
	if (origin.family == AF_INET6)
		memcpy(origin.address, six, IP6_NETWORK);
	else
		memcpy(origin.address, four, sizeof(struct in_addr));
	return origin;
}

void
origins_join(struct stream *s)
{
	struct transport *n = s->transport;
	struct origin like = origin_of(s), *found = RB_FIND(origins, &n->origins, &like);

	if (found == NULL) {
		found = memory_zero(1, sizeof *found);
		*found = like;
		must(RB_INSERT(origins, &n->origins, found) == NULL);
	}
	found->n++;
	s->origin = found;
}

void
origins_leave(struct stream *s)
{
	struct origin *origin = s->origin;

	s->origin = NULL;
	if (origin == NULL || --origin->n > 0)
		return;
	RB_REMOVE(origins, &s->transport->origins, origin);
	free(origin);
}

/* A connection by lot, not the oldest, because that is the next to be answered: if a thousand
 * clients connected together, each would be closed just before its turn. */
struct stream *
origins_surplus(struct transport *n)
{
	const struct origin *most = NULL;
	struct stream *s, *surplus = NULL;
	uint32_t left;

	TAILQ_FOREACH(s, &n->timed, timed)
		if (s->origin != NULL && (most == NULL || s->origin->n > most->n))
			most = s->origin;
	if (most == NULL)
		return NULL;
	random_fill(&left, sizeof left);
	left %= (uint32_t)most->n;
	TAILQ_FOREACH(s, &n->timed, timed) {
		if (s->origin != most)
			continue;
		surplus = s;
		if (left-- == 0)
			break;
	}
	return surplus;
}
