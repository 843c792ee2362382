/* The changes of the last minutes. They are made of the notes of each entry, so what the master
 * tells as events and what can be read later is the same. */
#include <stdlib.h>
#include <string.h>
#include "cell/tree/internal.h"

/* CHANGE_BYTES: about, in memory and in state.db, that a change costs beyond its texts. */
enum { CHANGE_BYTES = 192, TRIM_MORE = 64, CHUNK = 1024 };

struct kept_change {
	uint64_t index;
	int64_t stamp_ns;
	uint64_t node;
	uint64_t generation;
	enum change_kind kind;
};

KEYED_TREE(deletions, deletion, link, node)

static size_t
cost(const struct change *c)
{
	return CHANGE_BYTES + c->path.len + c->acl_read.len;
}

static struct kept_change *
kept(const struct change_history *h, size_t place)
{
	place += h->forgotten;
	return &h->chunks[place / CHUNK][place % CHUNK];
}

const struct deletion *
change_deletion(const struct tree *t, uint64_t node)
{
	return deletions_find(&t->history.deletions, node);
}

bool
change_at(const struct tree *t, uint64_t number, struct change *c)
{
	const struct change_history *h = &t->history;
	const struct kept_change *k;
	const struct deletion *gone;

	if (number < h->first || number - h->first >= h->n)
		return false;
	k = kept(h, number - h->first);
	*c = (struct change){
	    .number = number,
	    .index = k->index,
	    .stamp_ns = k->stamp_ns,
	    .kind = k->kind,
	    .node = k->node,
	    .generation = k->generation,
	};
	if (k->kind == CHANGE_DELETED) {
		gone = change_deletion(t, k->node);
		c->parent = gone->parent;
		c->path = gone->path;
		c->acl_read = gone->acl_read;
	}
	return true;
}

void
change_add(struct tree *t, const struct change *c)
{
	struct change_history *h = &t->history;
	struct deletion *gone;

	if (h->n == 0)
		h->first = c->number;
	if (h->forgotten + h->n == h->chunks_n * CHUNK) {
		ARRAY_ROOM(h->chunks, h->chunks_n, h->chunks_room);
		h->chunks[h->chunks_n++] = memory_zero(CHUNK, sizeof **h->chunks);
	}
	*kept(h, h->n++) =
	    (struct kept_change){c->index, c->stamp_ns, c->node, c->generation, c->kind};
	if (c->kind == CHANGE_DELETED) {
		gone = memory_zero(1, sizeof *gone);
		gone->node = c->node;
		gone->number = c->number;
		gone->index = c->index;
		gone->parent = c->parent;
		gone->path = c->path;
		gone->acl_read = c->acl_read;
		RB_INSERT(deletions, &h->deletions, gone);
	}
	h->last = c->number;
	h->bytes += cost(c);
}

static void
deletion_free(struct change_history *h, struct deletion *gone)
{
	RB_REMOVE(deletions, &h->deletions, gone);
	free((void *)gone->path.data);
	free((void *)gone->acl_read.data);
	free(gone);
}

void
change_history_free(struct tree *t)
{
	struct change_history *h = &t->history;
	struct deletion *gone;

	while ((gone = RB_ROOT(&h->deletions)) != NULL)
		deletion_free(h, gone);
	for (size_t i = 0; i < h->chunks_n; i++)
		free(h->chunks[i]);
	free(h->chunks);
}

static void
forget_first(struct tree *t)
{
	struct change_history *h = &t->history;
	struct change c;

	must(change_at(t, h->first, &c));
	h->compacted = c.index;
	h->bytes -= cost(&c);
	DIRTY_ROW(t, changes, .key = {c.number}, .gone = true);
	if (c.kind == CHANGE_DELETED)
		deletion_free(h, deletions_find(&h->deletions, c.node));
	h->first++;
	h->n--;
	if (++h->forgotten < CHUNK)
		return;
	free(h->chunks[0]);
	h->chunks_n--;
	memmove(h->chunks, h->chunks + 1, h->chunks_n * sizeof(struct kept_change *));
	h->forgotten = 0;
}

void
change_history_clear(struct tree *t)
{
	while (t->history.n > 0)
		forget_first(t);
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
	const struct kept_change *oldest;
	size_t most = TRIM_MORE;
	struct change c;

	for (size_t i = 0; i < x->out->notes_n; i++) {
		const struct tree_note *note = &x->out->notes[i];

		if (kind_of(note) == CHANGE_NONE)
			continue;
		c = (struct change){
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
		change_add(t, &c);
		DIRTY_ROW(t, changes, .key = {c.number});
		most += 2;
	}
	while (most-- > 0 && t->history.n > 0 &&
	       (oldest = kept(&t->history, 0))->index < x->index &&
	       (t->history.bytes > most_bytes ||
	        x->stamp_ns / 1000000000 - oldest->stamp_ns / 1000000000 > kept_s))
		forget_first(t);
}

/* ---- reading ---- */

struct bytes
tree_acl_read(const struct tree *t, uint64_t node)
{
	const struct node *n = node_find(t, node);
	const struct deletion *gone = n != NULL ? NULL : change_deletion(t, node);

	if (n != NULL)
		return n->acl[ACL_READ];
	return gone != NULL ? gone->acl_read : (struct bytes){NULL, 0};
}

static bool
may_read(const struct tree *t, const struct subject *who, uint64_t node)
{
	return acl_gives(t, tree_acl_read(t, node), who);
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
	const struct deletion *gone = n != NULL ? NULL : change_deletion(t, node);
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
	const struct deletion *gone = n != NULL ? NULL : change_deletion(t, c->node);
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

/* The number of the first change of entries above the index, or that of the next change to come. */
static uint64_t
first_above(const struct change_history *h, uint64_t index)
{
	size_t low = 0, high = h->n;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (kept(h, middle)->index > index)
			high = middle;
		else
			low = middle + 1;
	}
	return h->first + low;
}

/* A page ends with the last change of an entry. An index that is not applied yet may be of
 * the cell from which this one was restored, whose later changes are not known here. A cell that
 * was restored has forgotten some. */
void
change_history_read(const struct tree *t, const struct subject *who, uint64_t since,
                    struct result_changes *r, struct buffer *list)
{
	struct change c;
	size_t looked_at = 0;

	if (since < t->history.compacted ||
	    (since > t->position.applied && t->history.compacted > 0))
		r->compacted = since = t->history.compacted;
	r->upto = since;
	for (uint64_t n = first_above(&t->history, since); change_at(t, n, &c); n++) {
		if (c.index != r->upto && (list->len > LIMIT_PAGE || looked_at > LIMIT_LOOKED_AT)) {
			r->more = 1;
			break;
		}
		r->upto = c.index;
		looked_at++;
		r->changes.count += show(t, who, &c, list);
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
	const struct change_history *h = &t->history;

	return h->n == 0 ? h->last : first_above(h, index) - 1;
}

bool
tree_change_after(const struct tree *t, uint64_t *number, struct past_change *c)
{
	const uint64_t first = t->history.first;
	struct change found;

	if (!change_at(t, *number < first ? first : *number + 1, &found))
		return false;
	*number = found.number;
	*c = (struct past_change){.index = found.index,
	                          .time_ns = found.stamp_ns,
	                          .kind = found.kind,
	                          .node = found.node,
	                          .generation = found.generation};
	return true;
}

/* The directories of a node that is gone are gone later, so the way up from it has an end. */
static bool
has_directory(const struct tree *t, const struct change *deletion)
{
	const struct node *n = node_find(t, deletion->parent);
	const struct deletion *gone = change_deletion(t, deletion->parent);

	return n != NULL ? n->kind == NODE_DIRECTORY
	                 : gone != NULL && gone->number > deletion->number;
}

const char *
change_history_check(const struct tree *t)
{
	const struct change_history *h = &t->history;
	uint64_t bytes = 0, before = h->compacted;
	struct change c;

	for (uint64_t n = h->first; change_at(t, n, &c); n++) {
		if (c.index < before)
			return "changes follow each other, after the entries that are compacted";
		if (c.index > t->position.applied)
			return "a change was made by an entry";
		if ((c.path.len > 0) != (c.kind == CHANGE_DELETED))
			return "a deletion, and nothing else, has a path";
		if ((c.parent != 0) != (c.kind == CHANGE_DELETED))
			return "a deletion, and nothing else, has a directory";
		if (c.kind == CHANGE_DELETED && !has_directory(t, &c))
			return "the directory of what was deleted is there, or was deleted later";
		if ((node_find(t, c.node) == NULL) != (change_deletion(t, c.node) != NULL))
			return "a changed node is there, or its deletion is";
		bytes += cost(&c);
		before = c.index;
	}
	if (h->n > 0 && h->first + h->n - 1 != h->last)
		return "changes are numbered";
	return bytes != h->bytes || h->compacted > t->position.applied ? "the history is as counted"
	                                                               : NULL;
}
