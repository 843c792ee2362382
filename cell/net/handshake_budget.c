#include "cell/net/handshake_budget.h"

#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"

struct handshake_key {
	RB_ENTRY(handshake_key) link;
	uint8_t key[NOISE_KEY];
	mono_t paid_until; /* one that was made is paid for in HANDSHAKE_MS */
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

static void
forget_paid(struct handshake_budget *b, mono_t now)
{
	struct handshake_key *k, *next;

	RB_FOREACH_SAFE(k, handshake_keys, &b->keys, next)
		if (mono_reached(now, k->paid_until))
			forget(b, k);
}

static struct handshake_key *
entry(struct handshake_budget *b, const uint8_t key[NOISE_KEY], mono_t now)
{
	struct handshake_key like = {.paid_until = now}, *k;

	if (key != NULL)
		memcpy(like.key, key, sizeof like.key);
	k = RB_FIND(handshake_keys, &b->keys, &like);
	if (k != NULL)
		return k;
	forget_paid(b, now);
	k = memory_zero(1, sizeof *k);
	*k = like;
	must(RB_INSERT(handshake_keys, &b->keys, k) == NULL);
	b->n++;
	return k;
}

bool
handshake_budget_take(struct handshake_budget *b, const uint8_t key[NOISE_KEY], mono_t now,
                      mono_t *again)
{
	struct handshake_key *k = entry(b, key, now);

	*again = (mono_t){k->paid_until.ns - span_ms(HANDSHAKES_AHEAD * HANDSHAKE_MS).ns};
	if (mono_before(now, *again))
		return false;
	k->paid_until = mono_add(mono_max(k->paid_until, now), span_ms(HANDSHAKE_MS));
	return true;
}
