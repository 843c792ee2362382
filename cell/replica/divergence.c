#include "cell/replica/divergence.h"

#include <string.h>
#include "cell/base/must.h"

void
divergence_init(struct divergence *d, uint64_t every)
{
	must(every != 1);
	*d = (struct divergence){.every = every != 0 ? every : DIVERGENCE_EVERY};
}

bool
divergence_due(const struct divergence *d, uint64_t applied)
{
	return applied % d->every == 0;
}

/* The memory for this place; NULL: it is used for a newer one. */
static struct divergence_slot *
slot_of(struct divergence *d, uint64_t index)
{
	struct divergence_slot *p = &d->slots[index / d->every % DIVERGENCE_KEPT];

	if (index < p->index)
		return NULL;
	if (index > p->index)
		*p = (struct divergence_slot){.index = index};
	return p;
}

void
divergence_computed(struct divergence *d, uint64_t index, uint64_t digest)
{
	struct divergence_slot *p = slot_of(d, index);

	must(divergence_due(d, index));
	if (p == NULL)
		return;
	p->computed = true;
	p->own = digest;
}

void
divergence_reported(struct divergence *d, uint8_t replica, uint64_t index, uint64_t digest,
                    uint64_t chosen)
{
	struct divergence_slot *p;

	if (index == 0 || index > chosen || !divergence_due(d, index))
		return;
	p = slot_of(d, index);
	if (p == NULL)
		return;
	for (int i = 0; i < LIMIT_REPLICAS; i++) {
		struct divergence_vote *v = &p->votes[i];

		if (v->replica != 0 && v->replica != replica)
			continue;
		*v = (struct divergence_vote){replica, digest};
		return;
	}
}

static bool
slot_agreed(const struct divergence_slot *p, const struct px_members *members, uint64_t *digest)
{
	for (int i = 0; i < LIMIT_REPLICAS; i++) {
		int votes = 0;

		*digest = p->votes[i].digest;
		for (int other = 0; other < LIMIT_REPLICAS; other++)
			votes += p->votes[other].digest == *digest &&
			         px_is_voter(members, p->votes[other].replica);
		if (p->votes[i].replica != 0 && px_majority(members, votes))
			return true;
	}
	return false;
}

bool
divergence_agreed(struct divergence *d, const struct px_members *members, uint64_t *index,
                  uint64_t *digest)
{
	for (int i = 0; i < DIVERGENCE_KEPT; i++) {
		struct divergence_slot *p = &d->slots[i];

		if (p->index == 0 || p->logged || !slot_agreed(p, members, digest))
			continue;
		*index = p->index;
		p->logged = true;
		if (d->disputed <= p->index)
			d->disputed = 0;
		return true;
	}
	return false;
}

static bool
is_split(const struct divergence_slot *p, const struct px_members *members)
{
	const struct divergence_vote *first = NULL;
	uint64_t agreed;

	if (p->index == 0 || p->logged || slot_agreed(p, members, &agreed))
		return false;
	for (int i = 0; i < LIMIT_REPLICAS; i++) {
		const struct divergence_vote *v = &p->votes[i];

		if (v->replica == 0 || !px_is_voter(members, v->replica))
			continue;
		if (first != NULL && first->digest != v->digest)
			return true;
		first = v;
	}
	return false;
}

bool
divergence_disputed(struct divergence *d, const struct px_members *members, mono_t now)
{
	const uint64_t before = d->disputed;

	for (int i = 0; i < DIVERGENCE_KEPT; i++) {
		struct divergence_slot *p = &d->slots[i];

		if (!is_split(p, members))
			p->split = (mono_t){0};
		else if (p->split.ns == 0)
			p->split = now;
		else if (p->index > d->disputed &&
		         mono_reached(now, mono_add(p->split, span_s(DIVERGENCE_PATIENCE_S))))
			d->disputed = p->index;
	}
	return d->disputed != before;
}

void
divergence_forget(struct divergence *d)
{
	d->disputed = 0;
	for (int i = 0; i < DIVERGENCE_KEPT; i++) {
		memset(d->slots[i].votes, 0, sizeof d->slots[i].votes);
		d->slots[i].logged = false;
		d->slots[i].split = (mono_t){0};
	}
}

bool
divergence_differ(const struct divergence *d, uint64_t index, uint64_t digest)
{
	const struct divergence_slot *p = &d->slots[index / d->every % DIVERGENCE_KEPT];

	return p->index == index && p->computed && p->own != digest;
}

bool
divergence_own(const struct divergence *d, uint64_t index, uint64_t *digest)
{
	const struct divergence_slot *p = &d->slots[index / d->every % DIVERGENCE_KEPT];

	*digest = p->own;
	return p->index == index && p->computed;
}
