#include <stdlib.h>
#include <string.h>
#include "cell/tree/internal.h"

/* A list as it is received: views into the command. */
struct members {
	struct member member[LIMIT_MEMBERS];
	size_t n;
};

/* ---- members ---- */

struct member_row *
member_row_find(const struct tree *t, uint8_t id)
{
	for (size_t i = 0; i < t->members.n; i++) {
		if (t->members.rows[i].member.id == id)
			return &t->members.rows[i];
	}
	return NULL;
}

void
member_row_add(struct tree *t, const struct member *m, uint64_t since)
{
	size_t at = 0;

	while (at < t->members.n && t->members.rows[at].member.id < m->id)
		at++;
	ARRAY_ROOM(t->members.rows, t->members.n, t->members.room);
	memmove(&t->members.rows[at + 1], &t->members.rows[at],
	        (t->members.n - at) * sizeof *t->members.rows);
	t->members.n++;
	t->members.rows[at] = (struct member_row){.member = *m, .since = since};
	t->members.rows[at].member.address = bytes_copy(m->address);
	t->members.rows[at].member.key = bytes_copy(m->key);
	DIRTY_ROW(t, members, .key = {m->id});
}

static void
member_row_remove(struct tree *t, struct member_row *s)
{
	size_t at = (size_t)(s - t->members.rows);

	DIRTY_ROW(t, members, .key = {s->member.id});
	free((void *)s->member.address.data);
	free((void *)s->member.key.data);
	t->members.n--;
	memmove(s, s + 1, (t->members.n - at) * sizeof *s);
}

void
member_table_clear(struct tree *t)
{
	while (t->members.n > 0)
		member_row_remove(t, &t->members.rows[t->members.n - 1]);
	t->members.version = 0;
}

void
member_table_free(struct tree *t)
{
	member_table_clear(t);
	free(t->members.rows);
}

/* ---- the rules ---- */

bool
member_table_sound(const struct member *m)
{
	return m->id > 0 && m->role >= MEMBER_VOTER && m->role <= MEMBER_REMOVED &&
	       m->address.len <= LIMIT_ADDRESS &&
	       (m->key.len == 0 || m->key.len == PUBLIC_KEY_BYTES);
}

/* A cell in one process has neither addresses nor keys. */
static bool
same_text(struct bytes a, struct bytes b)
{
	return a.len > 0 && bytes_equal(a, b);
}

static bool
collide(const struct member *a, const struct member *b)
{
	if (a->id == b->id || same_text(a->key, b->key))
		return true;
	return a->role != MEMBER_REMOVED && b->role != MEMBER_REMOVED &&
	       same_text(a->address, b->address);
}

static bool
unpack(struct wire_list list, struct members *to)
{
	struct cursor from = cursor_of(list.packed);
	size_t active = 0, voters = 0;

	to->n = 0;
	while (to->n < LIMIT_MEMBERS && wire_next_member(&from, &to->member[to->n])) {
		const struct member *m = &to->member[to->n];

		if (!member_table_sound(m))
			return false;
		for (size_t i = 0; i < to->n; i++) {
			if (collide(m, &to->member[i]))
				return false;
		}
		active += m->role != MEMBER_REMOVED;
		voters += m->role == MEMBER_VOTER;
		to->n++;
	}
	return to->n == list.count && active <= LIMIT_REPLICAS && voters > 0;
}

static const struct member *
listed(const struct members *list, uint8_t id)
{
	for (size_t i = 0; i < list->n; i++) {
		if (list->member[i].id == id)
			return &list->member[i];
	}
	return NULL;
}

static bool
key_taken(const struct tree *t, const struct member *m)
{
	for (size_t i = 0; i < t->members.n; i++) {
		if (t->members.rows[i].member.id != m->id &&
		    same_text(t->members.rows[i].member.key, m->key))
			return true;
	}
	return false;
}

/* An id is never used again, the key of a member never changes, and a removed member stays so. */
static bool
may_follow(const struct tree *t, const struct member *m)
{
	const struct member_row *old = member_row_find(t, m->id);

	if (key_taken(t, m))
		return false;
	if (old == NULL)
		return m->role != MEMBER_REMOVED &&
		       (t->members.n == 0 || m->id > t->members.rows[t->members.n - 1].member.id);
	return bytes_equal(m->key, old->member.key) &&
	       (old->member.role != MEMBER_REMOVED || m->role == MEMBER_REMOVED);
}

/* The number of members that get a vote or lose it. */
static size_t
voters_changed(const struct tree *t, const struct members *list)
{
	size_t changed = 0;

	for (size_t i = 0; i < t->members.n; i++) {
		const struct member *old = &t->members.rows[i].member, *new = listed(list, old->id);

		changed += old->role == MEMBER_VOTER && (new == NULL || new->role != MEMBER_VOTER);
	}
	for (size_t i = 0; i < list->n; i++) {
		const struct member *new = &list->member[i];
		const struct member_row *old = member_row_find(t, new->id);

		changed +=
		    new->role == MEMBER_VOTER && (old == NULL || old->member.role != MEMBER_VOTER);
	}
	return changed;
}

/* The first list replaces none, so any number of its members may be voters. */
static bool
may_replace(const struct tree *t, const struct members *list)
{
	for (size_t i = 0; i < list->n; i++) {
		if (!may_follow(t, &list->member[i]))
			return false;
	}
	return t->members.n == 0 || voters_changed(t, list) <= 1;
}

/* ---- the new list ---- */

static void
set_role(struct tree *t, struct member_row *s, uint8_t role, uint64_t index)
{
	if (s->member.role == role)
		return;
	s->member.role = role;
	s->since = index;
	DIRTY_ROW(t, members, .key = {s->member.id});
}

/* The member that was removed first; never that of the greatest id, which shows that the next id is
 * new. */
static struct member_row *
longest_removed(const struct tree *t)
{
	struct member_row *found = NULL;

	for (size_t i = 0; i + 1 < t->members.n; i++) {
		struct member_row *s = &t->members.rows[i];

		if (s->member.role == MEMBER_REMOVED && (found == NULL || s->since < found->since))
			found = s;
	}
	return found;
}

static void
replace(struct execution *x, const struct members *list, uint64_t version)
{
	struct tree *t = x->tree;

	for (size_t i = 0; i < t->members.n; i++) {
		if (listed(list, t->members.rows[i].member.id) == NULL)
			set_role(t, &t->members.rows[i], MEMBER_REMOVED, x->index);
	}
	for (size_t i = 0; i < list->n; i++) {
		const struct member *m = &list->member[i];
		struct member_row *s = member_row_find(t, m->id);

		if (s == NULL) {
			member_row_add(t, m, x->index);
			continue;
		}
		set_role(t, s, m->role, x->index);
		if (!bytes_equal(s->member.address, m->address)) {
			bytes_set(&s->member.address, m->address);
			DIRTY_ROW(t, members, .key = {m->id});
		}
	}
	while (t->members.n > LIMIT_MEMBERS)
		member_row_remove(t, longest_removed(t));
	t->members.version = version;
	apply_note(x, TREE_MEMBERS_CHANGED, 0)->index = version;
}

enum rc
member_table_begin(struct execution *x, struct wire_list list)
{
	struct members first;

	if (!unpack(list, &first) || !may_replace(x->tree, &first))
		return RC_INVAL;
	replace(x, &first, 0);
	return RC_OK;
}

static enum rc
check(const struct tree *t, const struct op_set_members *o, struct members *list)
{
	if (t->members.n == 0 || o->version != t->members.version)
		return RC_CANCELED;
	return unpack(o->members, list) && may_replace(t, list) ? RC_OK : RC_INVAL;
}

enum rc
apply_set_members(struct execution *x, const struct op_set_members *o)
{
	struct members list;
	enum rc rc = check(x->tree, o, &list);

	if (rc == RC_OK && !x->alone)
		rc = RC_INVAL;
	if (rc == RC_OK)
		replace(x, &list, x->index);
	return rc;
}

/* ---- reads ---- */

struct wire_list
tree_members(const struct tree *t, struct buffer *packed)
{
	for (size_t i = 0; i < t->members.n; i++)
		wire_put_member(packed, &t->members.rows[i].member);
	return (struct wire_list){buffer_view(packed), (uint32_t)t->members.n};
}

enum rc
tree_check_members(const struct tree *t, const struct op_set_members *o)
{
	struct members list;

	return check(t, o, &list);
}

bool
tree_members_go_on(const struct tree *t, struct wire_list list)
{
	struct members later;

	if (!unpack(list, &later))
		return false;
	for (size_t i = 0; i < later.n; i++) {
		if (key_taken(t, &later.member[i]))
			return false;
	}
	for (size_t i = 0; i < t->members.n; i++) {
		const struct member *old = &t->members.rows[i].member,
		                    *new = listed(&later, old->id);

		if (new == NULL && later.n < LIMIT_MEMBERS)
			return false;
		if (new != NULL && (!bytes_equal(new->key, old->key) ||
		                    (old->role == MEMBER_REMOVED && new->role != MEMBER_REMOVED)))
			return false;
	}
	return true;
}

bool
tree_member_after(const struct tree *t, uint8_t id, struct member *member)
{
	for (size_t i = 0; i < t->members.n; i++) {
		if (t->members.rows[i].member.id > id) {
			*member = t->members.rows[i].member;
			return true;
		}
	}
	return false;
}

bool
tree_has_member_key(const struct tree *t, struct bytes key)
{
	for (size_t i = 0; i < t->members.n; i++) {
		const struct member *m = &t->members.rows[i].member;

		if (m->role != MEMBER_REMOVED && bytes_equal(m->key, key))
			return true;
	}
	return false;
}

uint64_t
tree_members_version(const struct tree *t)
{
	return t->members.version;
}
