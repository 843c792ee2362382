#include "cell/tree/signing.h"

#include <string.h>
#include "cell/tree/internal.h"

struct bytes
tree_signing_keys(const struct tree *t)
{
	return (struct bytes){t->signing.keys, t->signing.since > 0 ? sizeof t->signing.keys : 0};
}

uint64_t
tree_signing_since(const struct tree *t)
{
	return t->signing.since;
}

enum { NEWEST, FORMER };

static bool
is_in_force(const struct tree *t, int place, struct bytes key)
{
	return t->signing.since > 0 &&
	       bytes_equal(key, (struct bytes){t->signing.keys + place * SIGNING_KEY, SIGNING_KEY});
}

enum rc
apply_rotate_key(struct execution *x, const struct op_rotate_key *o)
{
	struct tree_signing *s = &x->tree->signing;
	const struct tree *t = x->tree;

	if (o->key.len != SIGNING_KEY || o->former.len != SIGNING_KEY ||
	    bytes_equal(o->key, o->former))
		return RC_INVAL;
	if (is_in_force(t, NEWEST, o->key))
		return RC_OK;
	/* The command was made for the keys in force: with the newest one lost, the one before
	 * stays. */
	if (o->lost.len > 0 ? !is_in_force(t, NEWEST, o->lost) || !is_in_force(t, FORMER, o->former)
	                    : s->since != 0 && !is_in_force(t, NEWEST, o->former))
		return RC_CANCELED;
	memcpy(s->keys, o->key.data, SIGNING_KEY);
	memcpy(s->keys + SIGNING_KEY, o->former.data, SIGNING_KEY);
	s->since = x->index;
	DIRTY_ROW(x->tree, signing_keys, .key = {0});
	return RC_OK;
}

void
signing_clear(struct tree *t)
{
	t->signing = (struct tree_signing){0};
	DIRTY_ROW(t, signing_keys, .key = {0});
}

bool
signing_load(struct tree *t, uint64_t since, struct bytes newest, struct bytes former)
{
	if (t->signing.since > 0 || since == 0 || newest.len != SIGNING_KEY ||
	    former.len != SIGNING_KEY || bytes_equal(newest, former))
		return false;
	memcpy(t->signing.keys, newest.data, SIGNING_KEY);
	memcpy(t->signing.keys + SIGNING_KEY, former.data, SIGNING_KEY);
	t->signing.since = since;
	return true;
}
