/* The members of the cell: a list that one command replaces as a whole, by at most one voter at a
 * time, so that the majorities of a list and of the next one share a voter. Who was removed stays
 * in the list for a while, so that it can be told. */
#include <stdlib.h>
#include <string.h>
#include "cell/tree/internal.h"

enum { KEY_BYTES = 32 };

/* A list as it comes: views into the command. */
struct members {
	struct member member[LIMIT_MEMBERS];
	size_t n;
};

/* ---- seats ---- */

struct seat *
seat_find(const struct tree *t, uint8_t id)
{
	for (size_t i = 0; i < t->seats_n; i++) {
		if (t->seats[i].member.id == id)
			return &t->seats[i];
	}
	return NULL;
}

void
seat_add(struct tree *t, const struct member *m, uint64_t since)
{
	size_t at = 0;

	while (at < t->seats_n && t->seats[at].member.id < m->id)
		at++;
	ARRAY_ROOM(t->seats, t->seats_n, t->seats_room);
	memmove(&t->seats[at + 1], &t->seats[at], (t->seats_n - at) * sizeof *t->seats);
	t->seats_n++;
	t->seats[at] = (struct seat){.member = *m, .since = since};
	t->seats[at].member.address = bytes_copy(m->address);
	t->seats[at].member.key = bytes_copy(m->key);
	changed_member(t, m->id);
}

static void
seat_remove(struct tree *t, struct seat *s)
{
	size_t at = (size_t)(s - t->seats);

	changed_member(t, s->member.id);
	free((void *)s->member.address.data);
	free((void *)s->member.key.data);
	t->seats_n--;
	memmove(s, s + 1, (t->seats_n - at) * sizeof *s);
}

void
members_clear(struct tree *t)
{
	while (t->seats_n > 0)
		seat_remove(t, &t->seats[t->seats_n - 1]);
	t->members_version = 0;
}

/* ---- which lists are lists ---- */

bool
member_sound(const struct member *m)
{
	return m->id > 0 && m->role >= MEMBER_VOTER && m->role <= MEMBER_REMOVED &&
	       m->address.len <= LIMIT_ADDRESS && (m->key.len == 0 || m->key.len == KEY_BYTES);
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

		if (!member_sound(m))
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
	for (size_t i = 0; i < t->seats_n; i++) {
		if (t->seats[i].member.id != m->id && same_text(t->seats[i].member.key, m->key))
			return true;
	}
	return false;
}

static bool
may_follow(const struct tree *t, const struct member *m)
{
	const struct seat *old = seat_find(t, m->id);

	if (key_taken(t, m))
		return false;
	if (old == NULL)
		return m->role != MEMBER_REMOVED &&
		       (t->seats_n == 0 || m->id > t->seats[t->seats_n - 1].member.id);
	return bytes_equal(m->key, old->member.key) &&
	       (old->member.role != MEMBER_REMOVED || m->role == MEMBER_REMOVED);
}

/* How many voters come or go. */
static size_t
voters_changed(const struct tree *t, const struct members *list)
{
	size_t changed = 0;

	for (size_t i = 0; i < t->seats_n; i++) {
		const struct member *old = &t->seats[i].member, *new = listed(list, old->id);

		changed += old->role == MEMBER_VOTER && (new == NULL || new->role != MEMBER_VOTER);
	}
	for (size_t i = 0; i < list->n; i++) {
		const struct member *new = &list->member[i];
		const struct seat *old = seat_find(t, new->id);

		changed += new->role == MEMBER_VOTER &&
		           (old == NULL || old->member.role != MEMBER_VOTER);
	}
	return changed;
}

static bool
may_replace(const struct tree *t, const struct members *list)
{
	for (size_t i = 0; i < list->n; i++) {
		if (!may_follow(t, &list->member[i]))
			return false;
	}
	return t->seats_n == 0 || voters_changed(t, list) <= 1;
}

/* ---- the new list ---- */

static void
set_role(struct tree *t, struct seat *s, uint8_t role, uint64_t index)
{
	if (s->member.role == role)
		return;
	s->member.role = role;
	s->since = index;
	changed_member(t, s->member.id);
}

static void
update(struct tree *t, const struct member *m, uint64_t index)
{
	struct seat *s = seat_find(t, m->id);

	if (s == NULL) {
		seat_add(t, m, index);
		return;
	}
	set_role(t, s, m->role, index);
	if (!bytes_equal(s->member.address, m->address)) {
		bytes_set(&s->member.address, m->address);
		changed_member(t, m->id);
	}
}

/* Who was removed first; never the greatest id, by which the next one is known to be new. */
static struct seat *
longest_removed(const struct tree *t)
{
	struct seat *found = NULL;

	for (size_t i = 0; i + 1 < t->seats_n; i++) {
		struct seat *s = &t->seats[i];

		if (s->member.role == MEMBER_REMOVED &&
		    (found == NULL || s->since < found->since))
			found = s;
	}
	return found;
}

static void
replace(struct turn *w, const struct members *list, uint64_t version)
{
	struct tree *t = w->tree;

	for (size_t i = 0; i < t->seats_n; i++) {
		if (listed(list, t->seats[i].member.id) == NULL)
			set_role(t, &t->seats[i], MEMBER_REMOVED, w->index);
	}
	for (size_t i = 0; i < list->n; i++)
		update(t, &list->member[i], w->index);
	while (t->seats_n > LIMIT_MEMBERS)
		seat_remove(t, longest_removed(t));
	t->members_version = version;
	note(w, TREE_MEMBERS_CHANGED, 0)->index = version;
}

enum rc
members_begin(struct turn *w, struct wire_list list)
{
	struct members first;

	if (!unpack(list, &first) || !may_replace(w->tree, &first))
		return RC_INVAL;
	replace(w, &first, 0);
	return RC_OK;
}

static enum rc
check(const struct tree *t, const struct op_set_members *o, struct members *list)
{
	if (t->seats_n == 0 || o->version != t->members_version)
		return RC_CANCELED;
	return unpack(o->members, list) && may_replace(t, list) ? RC_OK : RC_INVAL;
}

enum rc
apply_set_members(struct turn *w, const struct op_set_members *o)
{
	struct members list;
	enum rc rc = check(w->tree, o, &list);

	if (rc == RC_OK && !w->alone)
		rc = RC_INVAL;
	if (rc == RC_OK)
		replace(w, &list, w->index);
	return rc;
}

/* ---- reads ---- */

struct wire_list
tree_members(const struct tree *t, struct buffer *packed)
{
	for (size_t i = 0; i < t->seats_n; i++)
		wire_put_member(packed, &t->seats[i].member);
	return (struct wire_list){buffer_view(packed), (uint32_t)t->seats_n};
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
	for (size_t i = 0; i < t->seats_n; i++) {
		const struct member *old = &t->seats[i].member, *new = listed(&later, old->id);

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
	for (size_t i = 0; i < t->seats_n; i++) {
		if (t->seats[i].member.id > id) {
			*member = t->seats[i].member;
			return true;
		}
	}
	return false;
}

uint64_t
tree_members_version(const struct tree *t)
{
	return t->members_version;
}
