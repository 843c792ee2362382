#include "cell/digests.h"

#include <string.h>
#include "cell/base/must.h"

void
digests_init(struct digests *d, uint64_t every)
{
	must(every != 1);
	*d = (struct digests){.every = every != 0 ? every : DIGESTS_EVERY};
}

bool
digests_due(const struct digests *d, uint64_t applied)
{
	return applied % d->every == 0;
}

/* Where this place is kept; NULL: it is older than what is kept there. */
static struct digests_place *
place_of(struct digests *d, uint64_t index)
{
	struct digests_place *p = &d->places[index / d->every % DIGESTS_KEPT];

	if (index < p->index)
		return NULL;
	if (index > p->index)
		*p = (struct digests_place){.index = index};
	return p;
}

void
digests_computed(struct digests *d, uint64_t index, uint64_t digest)
{
	struct digests_place *p = place_of(d, index);

	must(digests_due(d, index));
	if (p == NULL)
		return;
	p->computed = true;
	p->own = digest;
}

void
digests_heard(struct digests *d, uint8_t replica, uint64_t index, uint64_t digest, uint64_t chosen)
{
	struct digests_place *p;

	if (index == 0 || index > chosen || !digests_due(d, index))
		return;
	p = place_of(d, index);
	if (p == NULL)
		return;
	for (int i = 0; i < LIMIT_REPLICAS; i++) {
		struct digests_vote *v = &p->votes[i];

		if (v->replica != 0 && v->replica != replica)
			continue;
		*v = (struct digests_vote){replica, digest};
		return;
	}
}

static bool
is_voter(const struct px_members *members, uint8_t replica)
{
	for (int i = 0; i < members->n; i++)
		if (members->list[i].id == replica)
			return members->list[i].voter;
	return false;
}

static int
voters(const struct px_members *members)
{
	int n = 0;

	for (int i = 0; i < members->n; i++)
		n += members->list[i].voter;
	return n;
}

static int
votes_for(const struct digests_place *p, const struct px_members *members, uint64_t digest)
{
	int n = 0;

	for (int i = 0; i < LIMIT_REPLICAS; i++)
		n += p->votes[i].digest == digest && is_voter(members, p->votes[i].replica);
	return n;
}

static bool
place_agreed(const struct digests_place *p, const struct px_members *members, uint64_t *digest)
{
	for (int i = 0; i < LIMIT_REPLICAS; i++) {
		*digest = p->votes[i].digest;
		if (p->votes[i].replica != 0 &&
		    votes_for(p, members, *digest) > voters(members) / 2)
			return true;
	}
	return false;
}

bool
digests_agreed(struct digests *d, const struct px_members *members, uint64_t *index,
               uint64_t *digest)
{
	for (int i = 0; i < DIGESTS_KEPT; i++) {
		struct digests_place *p = &d->places[i];

		if (p->index == 0 || p->told || !place_agreed(p, members, digest))
			continue;
		*index = p->index;
		p->told = true;
		if (d->disputed <= p->index)
			d->disputed = 0;
		return true;
	}
	return false;
}

static bool
is_split(const struct digests_place *p, const struct px_members *members)
{
	const struct digests_vote *first = NULL;
	uint64_t agreed;

	if (p->index == 0 || p->told || place_agreed(p, members, &agreed))
		return false;
	for (int i = 0; i < LIMIT_REPLICAS; i++) {
		const struct digests_vote *v = &p->votes[i];

		if (v->replica == 0 || !is_voter(members, v->replica))
			continue;
		if (first != NULL && first->digest != v->digest)
			return true;
		first = v;
	}
	return false;
}

bool
digests_disputed(struct digests *d, const struct px_members *members, mono_t now)
{
	const uint64_t before = d->disputed;

	for (int i = 0; i < DIGESTS_KEPT; i++) {
		struct digests_place *p = &d->places[i];

		if (!is_split(p, members))
			p->split = (mono_t){0};
		else if (p->split.ns == 0)
			p->split = now;
		else if (p->index > d->disputed &&
		         mono_reached(now, mono_add(p->split, span_s(DIGESTS_PATIENCE_S))))
			d->disputed = p->index;
	}
	return d->disputed != before;
}

void
digests_forget(struct digests *d)
{
	d->disputed = 0;
	for (int i = 0; i < DIGESTS_KEPT; i++) {
		memset(d->places[i].votes, 0, sizeof d->places[i].votes);
		d->places[i].told = false;
		d->places[i].split = (mono_t){0};
	}
}

bool
digests_differ(const struct digests *d, uint64_t index, uint64_t digest)
{
	const struct digests_place *p = &d->places[index / d->every % DIGESTS_KEPT];

	return p->index == index && p->computed && p->own != digest;
}

bool
digests_own(const struct digests *d, uint64_t index, uint64_t *digest)
{
	const struct digests_place *p = &d->places[index / d->every % DIGESTS_KEPT];

	*digest = p->own;
	return p->index == index && p->computed;
}
