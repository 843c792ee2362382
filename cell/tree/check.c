/* The invariants of a tree, at every index. Tests, the simulator and the loader check them. */
#include "cell/base/checksum.h"
#include "cell/tree/internal.h"

#define HOLDS(condition, text)       \
	do {                         \
		if (!(condition))    \
			return text; \
	} while (0)

static const char *
check_ephemeral(const struct tree *t, const struct node *n)
{
	struct opener *o;
	size_t openers_n = 0;

	HOLDS(n->kind == NODE_DIRECTORY || n->ephemeral == !RB_EMPTY(&n->openers),
	      "ephemeral files, and only they, have openers");
	RB_FOREACH(o, node_openers, (struct node_openers *)&n->openers) {
		openers_n++;
		HOLDS(o->node == n && session_find(t, o->session->id) == o->session,
		      "an opener's session is live");
		HOLDS(opener_find(o->session, o->opened) == o,
		      "a session has opened nothing twice by one number");
		HOLDS(o->opened == n->number ||
		          (o->opened < t->nodes.next_number && node_find(t, o->opened) == NULL),
		      "an opener has opened its node, or one that was renamed to it");
	}
	HOLDS(openers_n == n->openers_n && openers_n <= LIMIT_OPENERS, "openers are as counted");
	if (n->kind == NODE_FILE || !n->ephemeral)
		HOLDS(n->creator == NULL, "only ephemeral directories have a creator");
	else
		HOLDS((n->creator == NULL) == (n->children_n > 0),
		      "an ephemeral directory has either children or a creator");
	HOLDS(n->creator == NULL || session_find(t, n->creator->id) == n->creator,
	      "a creator's session is live");
	return NULL;
}

static const char *
check_contents(const struct node *n)
{
	size_t most = n->kind == NODE_FILE ? LIMIT_CONTENTS : 0;

	HOLDS(n->contents.len <= most, "contents are within their limit");
	HOLDS(n->checksum == (n->kind == NODE_FILE ? checksum(n->contents) : 0),
	      "a checksum is that of its contents");
	HOLDS(n->content_generation > 0 || n->kind != NODE_FILE, "files have a content generation");
	HOLDS(n->children_n == 0 || n->kind == NODE_DIRECTORY, "only directories have children");
	HOLDS(n->ttl_s == 0 || n->kind == NODE_FILE, "only files have a time to live");
	HOLDS((n->ttl_s > 0) == (n->ttl_began > 0), "a time to live has begun");
	HOLDS(n->acl_generation > 0, "an ACL generation is positive");
	for (int i = 0; i < ACL_NAMES; i++)
		HOLDS(name_valid(n->acl[i]), "ACL names are names");
	return NULL;
}

static const char *
check_place(const struct tree *t, const struct node *n)
{
	HOLDS(n->number < t->nodes.next_number, "a node's number was given out");
	HOLDS(n->freed_epoch <= t->epochs.current, "a lock was freed in an epoch that has begun");
	HOLDS(n->children_n <= LIMIT_LISTING, "a listing is within its limit");
	if (n->number == NODE_ROOT) {
		HOLDS(n->parent == NULL && n->parent_number == 0 && n->kind == NODE_DIRECTORY &&
		          !n->ephemeral,
		      "the root is a permanent directory without a parent");
		return NULL;
	}
	HOLDS(n->parent != NULL && n->parent->number == n->parent_number &&
	          node_find(t, n->parent_number) == n->parent &&
	          node_child(n->parent, n->name) == n,
	      "a node is its parent's child");
	HOLDS(name_valid(n->name), "names are valid");
	HOLDS(name_path_length(n) <= LIMIT_PATH,
	      "every node is below the root, within the path limit");
	return NULL;
}

static const char *
check_below(const struct node *n)
{
	uint64_t nodes_n = 0, bytes = 0;
	struct node *child;

	RB_FOREACH(child, children, (struct children *)&n->children) {
		nodes_n += 1 + child->below[QUOTA_NODES];
		bytes += QUOTA_NODE_BYTES + child->contents.len + child->below[QUOTA_BYTES];
	}
	HOLDS(nodes_n == n->below[QUOTA_NODES] && bytes == n->below[QUOTA_BYTES],
	      "what is below a directory is as counted");
	HOLDS(n->kind == NODE_DIRECTORY || (n->budget[QUOTA_NODES] | n->budget[QUOTA_BYTES]) == 0,
	      "only directories have budgets");
	return NULL;
}

static const char *
check_nodes(const struct tree *t)
{
	uint64_t nodes_n = 0, children_n = 0, bytes = 0, mortal_n = 0, scarce_n = 0;
	struct node *n;
	const char *broken;

	RB_FOREACH(n, nodes, (struct nodes *)&t->nodes.by_number) {
		if ((broken = check_place(t, n)) != NULL || (broken = check_contents(n)) != NULL ||
		    (broken = check_ephemeral(t, n)) != NULL || (broken = check_below(n)) != NULL)
			return broken;
		nodes_n++;
		mortal_n += n->ttl_s > 0;
		scarce_n += quota_is_scarce(n);
		children_n += n->children_n;
		bytes += QUOTA_NODE_BYTES + n->contents.len;
	}
	RB_FOREACH(n, mortal_nodes, (struct mortal_nodes *)&t->mortal.by_number) {
		HOLDS(node_find(t, n->number) == n && n->ttl_s > 0, "a mortal node is in the tree");
		mortal_n--;
	}
	HOLDS(mortal_n == 0, "a node with a time to live is found among them");
	HOLDS(scarce_n == t->counts.scarce_n, "scarce budgets are as counted");
	HOLDS(nodes_n == t->counts.nodes && bytes == t->counts.bytes,
	      "nodes and bytes are as counted");
	HOLDS(nodes_n == 0 || children_n == nodes_n - 1, "all nodes but the root are children");
	HOLDS((nodes_n == 0) == (t->epochs.current == 0), "the first epoch makes the root");
	HOLDS(t->epochs.first_number <= t->nodes.next_number,
	      "an epoch begins with a number to be given out");
	HOLDS(t->epochs.settled <= t->epochs.current, "an epoch that is settled has begun");
	HOLDS(nodes_n == 0 || node_find(t, NODE_ROOT) != NULL, "there is a root");
	return NULL;
}

static const char *
check_holder(const struct tree *t, const struct lock *l, const struct holder *h)
{
	const struct holder *next = TAILQ_NEXT(h, in_order);

	HOLDS(h->lock == l && session_find(t, h->session->id) == h->session,
	      "a holder's session is live");
	HOLDS(h->mode == LOCK_SHARED || h->mode == LOCK_EXCLUSIVE, "a holder has a mode");
	HOLDS(h->mode == LOCK_SHARED || l->holders_n == 1, "an exclusive holder is alone");
	HOLDS(h->delay_s >= 0 && h->delay_s <= LIMIT_LOCK_DELAY_S, "a delay is within its limit");
	HOLDS(l->delays[h->delay_s] > 0, "holders are counted by their delays");
	HOLDS(next == NULL || next->place > h->place, "holders have their places");
	HOLDS(next == NULL || next->fence > h->fence, "each holder has a fence of its own");
	HOLDS(h->fence > 0 && h->fence <= l->fence, "a lock has the last fence of its holders");
	HOLDS(h->generation > 0 && h->generation <= l->node->lock_generation,
	      "a holder's lock generation was given out");
	HOLDS(h->mode == LOCK_SHARED ||
	          (h->generation == l->node->lock_generation && h->fence == l->fence),
	      "an exclusive holder has the newest generation and fence");
	HOLDS(h->earlier_generation <= h->generation && h->earlier_fence <= h->fence,
	      "the state before a conversion is older");
	return NULL;
}

static const char *
check_delay(const struct tree *t, const struct lock *l)
{
	struct delayed_locks *delayed = (struct delayed_locks *)&t->delays.by_node;
	const struct lock_delay *d = &l->delay;

	HOLDS(d->mode <= LOCK_EXCLUSIVE, "a delay has a mode");
	HOLDS(d->mode != LOCK_NONE || l->holders_n > 0, "a lock with a record is held or delayed");
	HOLDS((d->mode != LOCK_NONE) == (RB_FIND(delayed_locks, delayed, (struct lock *)l) == l),
	      "a delayed lock is found among them");
	HOLDS((d->slots & l->slots) == 0, "a delayed slot is nobody's");
	if (d->mode == LOCK_NONE) {
		HOLDS(d->slots == 0, "without a delay no slot is delayed");
		return NULL;
	}
	HOLDS(d->mode == LOCK_SHARED || l->holders_n == 0, "an exclusive delay stands alone");
	HOLDS(l->holders_n == 0 || lock_mode_of(l) == LOCK_SHARED,
	      "no exclusive holder stands beside a delay");
	HOLDS(d->began <= t->position.applied && d->generation <= l->node->lock_generation,
	      "a delay has begun");
	HOLDS(d->seconds > 0 && d->seconds <= LIMIT_LOCK_DELAY_S, "a delay is within its limit");
	return NULL;
}

static const char *
check_lock(const struct tree *t, const struct lock *l)
{
	const struct holder *h;
	const char *broken;
	size_t holders_n = 0, delays_n = 0;
	uint64_t slots = 0;

	HOLDS(node_find(t, l->node->number) == l->node && l->node->lock == l,
	      "a lock is its node's");
	HOLDS(l->fence <= t->locks.last_fence, "a fence is not above the last one given");
	HOLDS(l->node->lock_generation > 0, "a lock held or delayed has a generation");
	TAILQ_FOREACH(h, &l->in_order, in_order) {
		if ((broken = check_holder(t, l, h)) != NULL)
			return broken;
		holders_n++;
		if (h->slot < 0)
			continue;
		HOLDS((slots >> h->slot & 1) == 0, "no two holders have one slot");
		slots |= UINT64_C(1) << h->slot;
	}
	HOLDS(slots == l->slots, "a lock has the slots of its holders");
	HOLDS(holders_n == l->holders_n && holders_n <= LIMIT_HOLDERS, "holders are as counted");
	for (size_t i = 0; i <= LIMIT_LOCK_DELAY_S; i++)
		delays_n += l->delays[i];
	HOLDS(delays_n == holders_n, "each holder is counted by its delay");
	return check_delay(t, l);
}

static const char *
check_locks(const struct tree *t)
{
	struct lock *l;
	const char *broken;
	size_t held = 0;

	RB_FOREACH(l, locks, (struct locks *)&t->locks.by_node) {
		if ((broken = check_lock(t, l)) != NULL)
			return broken;
		held += l->holders_n > 0;
	}
	HOLDS(held == t->locks.held_n, "held locks are as counted");
	return NULL;
}

static const char *
check_sessions(const struct tree *t)
{
	struct principal_sessions *by_principal =
	    (struct principal_sessions *)&t->sessions.by_principal;
	struct session *s;
	struct opener *o;
	struct holder *h;
	struct cached_reply *k;
	size_t sessions_n = 0;

	RB_FOREACH(s, sessions, (struct sessions *)&t->sessions.by_id) {
		size_t kept_n = 0, openers_n = 0, holders_n = 0;

		HOLDS(s->id > 0 && s->id < t->nodes.next_number && node_find(t, s->id) == NULL,
		      "a session's number was given out, to it alone");
		HOLDS((session_by_nonce(t, s->nonce) == s) == (s->ending == 0),
		      "a session is found by its nonce until it ends");
		HOLDS((RB_FIND(principal_sessions, by_principal, s) == s) == (s->ending == 0),
		      "a session is found by its principal until it ends");
		HOLDS(s->principal_generation <= t->position.applied,
		      "a session's principal was added by an entry");
		RB_FOREACH(o, session_openers, &s->openers)
			openers_n++;
		HOLDS(openers_n == s->openers_n, "a session's opens are as counted");
		RB_FOREACH(h, session_holders, &s->holders)
			holders_n++;
		HOLDS(holders_n == s->holders_n, "a session's locks are as counted");
		RB_FOREACH(k, session_replies, (struct session_replies *)&s->replies) {
			HOLDS(k->number >= s->below, "results that have arrived are forgotten");
			HOLDS(k->index <= t->position.applied, "a kept result is of an entry");
			kept_n++;
		}
		HOLDS(kept_n == s->replies_n && kept_n <= LIMIT_NUMBERS,
		      "kept results are as counted");
		sessions_n++;
	}
	HOLDS(sessions_n == t->sessions.n, "sessions are as counted");
	return NULL;
}

static const char *
check_member_row(const struct tree *t, const struct member_row *s)
{
	const struct member_row *other;

	HOLDS(member_table_sound(&s->member), "a member has an id, a role and a key");
	HOLDS(s->since <= t->position.applied, "a member's role was given");
	for (other = s + 1; other < t->members.rows + t->members.n; other++) {
		HOLDS(s->member.id < other->member.id, "members are in order");
		HOLDS(s->member.key.len == 0 || !bytes_equal(s->member.key, other->member.key),
		      "no two members have the same key");
	}
	return NULL;
}

static const char *
check_members(const struct tree *t)
{
	size_t active = 0, voters = 0;
	const char *broken;

	for (size_t i = 0; i < t->members.n; i++) {
		if ((broken = check_member_row(t, &t->members.rows[i])) != NULL)
			return broken;
		active += t->members.rows[i].member.role != MEMBER_REMOVED;
		voters += t->members.rows[i].member.role == MEMBER_VOTER;
	}
	HOLDS(t->members.n <= LIMIT_MEMBERS && active <= LIMIT_REPLICAS,
	      "members are within their limits");
	HOLDS(t->members.n == 0 || (voters > 0 && t->epochs.current > 0),
	      "a list of members has a voter");
	HOLDS(t->members.version <= t->position.applied &&
	          (t->members.n > 0 || t->members.version == 0),
	      "the version of the members is that of their list");
	return NULL;
}

static const char *
check_settings(const struct tree *t)
{
	char why[LIMIT_WHY];

	HOLDS(!settings_wrong(&t->settings.in_force, why, sizeof why),
	      "settings are within their limits");
	for (uint8_t code = 1; code < SETTING_CODES; code++) {
		const struct lowered *l = &t->settings.lowered[code];

		HOLDS(l->since <= t->position.applied, "a setting was lowered by an entry");
		HOLDS(l->since == 0 ? l->longest == t->settings.in_force.value[code]
		                    : l->longest > t->settings.in_force.value[code],
		      "only a lowered promise may be longer");
		HOLDS(l->since == 0 || t->settings.in_force.value[code] != 0,
		      "a setting was lowered to a value");
	}
	return NULL;
}

static const char *
check_principals(const struct tree *t)
{
	struct tree_principal p = {0};
	size_t n = 0;

	for (; tree_principal_after(t, p.name, &p); n++) {
		const struct principal *found = principal_find(t, p.generation);

		HOLDS(p.generation <= t->position.applied, "a principal was added by an entry");
		HOLDS(found != NULL && bytes_equal(found->name, p.name),
		      "a principal is found by its generation");
		HOLDS(principal_sound(p.name, p.key), "a principal has a name and a key");
		HOLDS(p.key.len == 0 || principal_of_key(t, p.key) == found,
		      "a principal is found by its key");
	}
	HOLDS(t->signing.since <= t->position.applied, "the signing key was rotated by an entry");
	HOLDS(n == t->principals.n && n <= LIMIT_PRINCIPALS, "principals are as counted");
	return NULL;
}

const char *
tree_check(const struct tree *t)
{
	const char *broken;

	if ((broken = check_nodes(t)) != NULL || (broken = check_locks(t)) != NULL ||
	    (broken = check_members(t)) != NULL || (broken = check_settings(t)) != NULL ||
	    (broken = check_principals(t)) != NULL || (broken = change_history_check(t)) != NULL)
		return broken;
	return check_sessions(t);
}
