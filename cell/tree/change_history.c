/* The changes of the last minutes. They are made of the notes of each entry, so what the master
 * tells as events and what can be read later is the same. */
#include <stdlib.h>
#include "cell/tree/internal.h"

KEYED_GENERATE(changes, change, in_order, number)
KEYED_TREE(deletions, change, in_deletions, node)

/* CHANGE_BYTES: of memory, about, that a change costs beyond its texts. */
enum { CHANGE_BYTES = 192, TRIM_MORE = 64 };

static size_t
cost(const struct change *c)
{
	return CHANGE_BYTES + c->path.len + c->acl_read.len;
}

void
change_add(struct tree *t, struct change *c)
{
	struct change_history *h = &t->history;

	must(RB_INSERT(changes, &h->by_number, c) == NULL);
	if (c->kind == CHANGE_DELETED)
		RB_INSERT(deletions, &h->deletions, c);
	h->last = c->number;
	h->bytes += cost(c);
}

struct change *
change_deletion(const struct tree *t, uint64_t node)
{
	return deletions_find(&t->history.deletions, node);
}

static void
change_free(struct tree *t, struct change *c)
{
	struct change_history *h = &t->history;

	RB_REMOVE(changes, &h->by_number, c);
	if (c->kind == CHANGE_DELETED)
		RB_REMOVE(deletions, &h->deletions, c);
	h->bytes -= cost(c);
	free((void *)c->path.data);
	free((void *)c->acl_read.data);
	free(c);
}

void
change_history_free(struct tree *t)
{
	struct change *c;

	while ((c = RB_ROOT(&t->history.by_number)) != NULL)
		change_free(t, c);
}

static void
forget_first(struct tree *t, struct change *c)
{
	t->history.compacted = c->index;
	dirty_change_gone(t, c->number);
	change_free(t, c);
}

void
change_history_clear(struct tree *t)
{
	struct change *c;

	while ((c = RB_MIN(changes, &t->history.by_number)) != NULL)
		forget_first(t, c);
	t->history.compacted = t->position.applied;
}

static enum change_kind
kind_of(const struct tree_note *note)
{
	switch (note->kind) {
	case TREE_NODE_CREATED:
		return CHANGE_CREATED;
	case TREE_NODE_CHANGED:
		return note->generation != 0 ? CHANGE_CONTENTS : CHANGE_ATTRIBUTES;
	case TREE_NODE_DELETED:
		return CHANGE_DELETED;
	case TREE_LOCK_TAKEN:
		return CHANGE_LOCK;
	default:
		return CHANGE_NONE;
	}
}

/* An entry that adds little takes little away, so that a setting which is lowered costs no long
 * step. */
void
change_history_note(struct execution *x)
{
	struct tree *t = x->tree;
	const uint64_t most_bytes = tree_setting(t, SETTING_history_bytes);
	const int64_t kept_s = (int64_t)tree_setting(t, SETTING_history_seconds);
	size_t most = TRIM_MORE;
	struct change *c;

	for (size_t i = 0; i < x->out->notes_n; i++) {
		const struct tree_note *note = &x->out->notes[i];

		if (kind_of(note) == CHANGE_NONE)
			continue;
		c = memory_zero(1, sizeof *c);
		*c = (struct change){
		    .number = t->history.last + 1,
		    .index = x->index,
		    .stamp_ns = x->stamp_ns,
		    .kind = kind_of(note),
		    .node = note->node,
		    .generation =
		        note->kind == TREE_LOCK_TAKEN ? note->lock_generation : note->generation,
		    .parent = note->kind == TREE_NODE_DELETED ? note->parent : 0,
		    .path = bytes_copy(note->path),
		    .acl_read = bytes_copy(note->acl_read),
		};
		change_add(t, c);
		dirty_change(t, c);
		most += 2;
	}
	while (most-- > 0 && (c = RB_MIN(changes, &t->history.by_number)) != NULL &&
	       c->index < x->index &&
	       (t->history.bytes > most_bytes ||
	        x->stamp_ns / 1000000000 - c->stamp_ns / 1000000000 > kept_s))
		forget_first(t, c);
}

/* ---- reading ---- */

static bool
may_read(const struct tree *t, const struct subject *who, uint64_t node)
{
	const struct node *n = node_find(t, node);
	const struct change *gone = n != NULL ? NULL : change_deletion(t, node);

	if (n != NULL)
		return (acl_rights(t, n, who) & RIGHT_READ) != 0;
	return gone != NULL && acl_gives(t, gone->acl_read, who);
}

bool
tree_may_read(const struct tree *t, const struct requester *requester, uint64_t node)
{
	const struct subject who = session_subject_of(t, requester);

	return may_read(t, &who, node);
}

bool
tree_name_at(const struct tree *t, uint64_t node, uint64_t index, uint64_t *parent,
             struct bytes *name)
{
	const struct node *n = node_find(t, node);
	const struct change *gone = n != NULL ? NULL : change_deletion(t, node);
	size_t slash;

	if (n != NULL ? n->parent == NULL : gone == NULL || gone->index <= index)
		return false;
	*parent = n != NULL ? n->parent->number : gone->parent;
	*name = n != NULL ? n->name : gone->path;
	for (slash = n != NULL ? 0 : name->len; slash > 0 && name->data[slash - 1] != '/';)
		slash--;
	name->data += slash;
	name->len -= slash;
	return true;
}

/* Appends the change, if the subject may read its node. */
static bool
show(const struct tree *t, const struct subject *who, const struct change *c, struct buffer *list)
{
	const struct node *n = node_find(t, c->node);
	const struct change *gone = n != NULL ? NULL : change_deletion(t, c->node);
	struct buffer path = BUFFER(2 * LIMIT_PATH);
	const bool may = may_read(t, who, c->node);

	must(n != NULL || gone != NULL);
	if (may && n != NULL)
		must(tree_path(t, n->number, &path));
	if (may)
		wire_put_past_change(list, &(struct past_change){
		                               .index = c->index,
		                               .time_ns = c->stamp_ns,
		                               .kind = c->kind,
		                               .node = c->node,
		                               .generation = c->generation,
		                               .path = n != NULL ? buffer_view(&path) : gone->path,
		                           });
	buffer_free(&path);
	return may;
}

/* The first change of entries above the index; NULL: there is none. */
static const struct change *
first_above(const struct tree *t, uint64_t index)
{
	const struct change *c = RB_ROOT(&t->history.by_number), *first = NULL;

	while (c != NULL)
		if (c->index > index) {
			first = c;
			c = RB_LEFT(c, in_order);
		} else {
			c = RB_RIGHT(c, in_order);
		}
	return first;
}

/* A page ends with the last change of an entry. */
void
change_history_read(const struct tree *t, const struct subject *who, uint64_t since,
                    struct result_changes *r, struct buffer *list)
{
	const struct change *c;
	size_t looked_at = 0;

	if (since < t->history.compacted)
		r->compacted = since = t->history.compacted;
	r->upto = since;
	c = first_above(t, since);
	for (; c != NULL; c = RB_NEXT(changes, NULL, (struct change *)c)) {
		if (c->index != r->upto &&
		    (list->len > LIMIT_PAGE || looked_at > LIMIT_LOOKED_AT)) {
			r->more = 1;
			break;
		}
		r->upto = c->index;
		looked_at++;
		r->changes.count += show(t, who, c, list);
	}
	must(!list->failed);
	if (!r->more && r->upto < t->position.applied)
		r->upto = t->position.applied;
	r->changes.packed = buffer_view(list);
}

uint64_t
tree_compacted(const struct tree *t)
{
	return t->history.compacted;
}

uint64_t
tree_change_number(const struct tree *t, uint64_t index)
{
	const struct change *first = first_above(t, index);

	return first == NULL ? t->history.last : first->number - 1;
}

bool
tree_change_after(const struct tree *t, uint64_t *number, struct past_change *c)
{
	const struct change *found = changes_after(&t->history.by_number, *number);

	if (found == NULL)
		return false;
	*number = found->number;
	*c = (struct past_change){.index = found->index,
	                          .time_ns = found->stamp_ns,
	                          .kind = found->kind,
	                          .node = found->node,
	                          .generation = found->generation};
	return true;
}

/* The directories of a node that is gone are gone later, so the way up from it has an end. */
static bool
has_directory(const struct tree *t, const struct change *deletion)
{
	const struct node *n = node_find(t, deletion->parent);
	const struct change *gone = change_deletion(t, deletion->parent);

	return n != NULL ? n->kind == NODE_DIRECTORY
	                 : gone != NULL && gone->number > deletion->number;
}

const char *
change_history_check(const struct tree *t)
{
	const struct change_history *h = &t->history;
	struct change *c, *before = NULL;
	uint64_t bytes = 0;

	RB_FOREACH(c, changes, (struct changes *)&h->by_number) {
		if (before != NULL && (c->number != before->number + 1 || c->index < before->index))
			return "changes follow each other";
		if (c->index > t->position.applied || c->index < h->compacted)
			return "a change was made by an entry that is not compacted";
		if ((c->path.len > 0) != (c->kind == CHANGE_DELETED))
			return "a deletion, and nothing else, has a path";
		if ((c->parent != 0) != (c->kind == CHANGE_DELETED))
			return "a deletion, and nothing else, has a directory";
		if (c->kind == CHANGE_DELETED && !has_directory(t, c))
			return "the directory of what was deleted is there, or was deleted later";
		if ((node_find(t, c->node) == NULL) != (change_deletion(t, c->node) != NULL))
			return "a changed node is there, or its deletion is";
		bytes += cost(c);
		before = c;
	}
	if (before != NULL && before->number != h->last)
		return "changes are numbered";
	return bytes != h->bytes || h->compacted > t->position.applied ? "the history is as counted"
	                                                               : NULL;
}
