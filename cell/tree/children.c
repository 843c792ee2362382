/* Listings are read in pages. All pages of a listing show the names that there were at its first
 * page, so that it is one consistent snapshot, however long it takes to read. */
#include <stdlib.h>

#include "cell/base/keyed.h"
#include "cell/tree/internal.h"

struct listing {
	uint64_t index, next_node; /* as they were at the first page */
	struct node *child;        /* this and `removed` are the next ones; NULL: no more */
	struct removed *removed;
};

/* The next name of the listing. A name has had one node at a time, so of a child and a removed one
 * with the same name only one was there at the first page: no name is listed twice. */
static bool
next(struct listing *l, struct child *to)
{
	/* Passes over names that were not there yet, or not any more. */
	while (l->child != NULL && l->child->number >= l->next_node)
		l->child = RB_NEXT(children, , l->child);
	while (l->removed != NULL &&
	       (l->removed->number >= l->next_node || l->removed->index <= l->index))
		l->removed = RB_NEXT(removed_by_name, , l->removed);

	if (l->child == NULL && l->removed == NULL)
		return false;
	if (l->removed == NULL ||
	    (l->child != NULL && bytes_compare(l->child->name, l->removed->name) < 0)) {
		*to = (struct child){l->child->number, l->child->kind, l->child->name};
		l->child = RB_NEXT(children, , l->child);
	} else {
		*to = (struct child){l->removed->number, l->removed->kind, l->removed->name};
		l->removed = RB_NEXT(removed_by_name, , l->removed);
	}
	return true;
}

/* The first removed name of the directory after all of this name; NULL when there is none. */
static struct removed *
removed_after(const struct node *directory, struct bytes name)
{
	struct removed key = {.name = name, .number = UINT64_MAX};

	if (directory->removed == NULL)
		return NULL;
	return RB_NFIND(removed_by_name, &directory->removed->names, &key);
}

enum rc
children_list(const struct tree *t, const struct node *n, const struct op_get_listing *o,
              const struct subject *who, struct result_listing *r, struct buffer *packed)
{
	size_t most = o->most > 0 && o->most < LIMIT_PAGE ? o->most : LIMIT_PAGE;
	struct listing l = {.index = t->position.applied, .next_node = t->nodes.next_number};
	struct child child;

	if (n->kind != NODE_DIRECTORY)
		return RC_NOTDIR;
	if (o->index != 0 && (o->index < t->removed.forgotten || o->index > t->position.applied))
		return RC_CANCELED;
	if (o->index != 0) {
		l.index = o->index;
		l.next_node = o->next_node;
	}
	l.child = children_after(&n->children, o->after);
	l.removed = removed_after(n, o->after);
	node_attr(t, n, who, &r->attr);
	r->index = l.index;
	r->next_node = l.next_node;
	while (next(&l, &child)) {
		r->more = r->entries.count > 0 && packed->len + child.name.len >= most;
		if (r->more)
			break;
		wire_put_child(packed, &child);
		r->entries.count++;
	}
	must(!packed->failed);
	r->entries.packed = buffer_view(packed);
	return RC_OK;
}

/* ---- removed ---- */

static int
compare(const struct removed *a, const struct removed *b)
{
	return bytes_compare(a->name, b->name) ?: keyed_order(a->number, b->number);
}

RB_GENERATE(removed_by_name, removed, in_directory, compare)

void
removed_begin(struct tree *t)
{
	t->removed.forgotten = t->position.applied;
}

static void
forget(struct tree *t, struct removed *r)
{
	struct removed_from *from = r->from;

	RB_REMOVE(removed_by_name, &from->names, r);
	if (from->gone && RB_EMPTY(&from->names))
		free(from);
	TAILQ_REMOVE(&t->removed.in_order, r, in_order);
	t->removed.n--;
	free((void *)r->name.data);
	free(r);
}

void
removed_add(struct tree *t, const struct node *n)
{
	struct removed *r = memory_zero(1, sizeof *r);
	struct node *directory = n->parent;

	if (t->removed.n == LIMIT_REMOVED) {
		t->removed.forgotten = TAILQ_FIRST(&t->removed.in_order)->index;
		forget(t, TAILQ_FIRST(&t->removed.in_order));
	}
	if (directory->removed == NULL)
		directory->removed = memory_zero(1, sizeof *directory->removed);
	r->from = directory->removed;
	r->name = bytes_copy(n->name);
	r->number = n->number;
	r->kind = n->kind;
	r->index = t->position.applied;
	must(RB_INSERT(removed_by_name, &r->from->names, r) == NULL);
	TAILQ_INSERT_TAIL(&t->removed.in_order, r, in_order);
	t->removed.n++;
}

void
removed_forget_directory(struct node *directory)
{
	struct removed_from *from = directory->removed;

	directory->removed = NULL;
	if (from != NULL && RB_EMPTY(&from->names))
		free(from);
	else if (from != NULL)
		from->gone = true;
}

void
removed_forget_all(struct tree *t)
{
	while (!TAILQ_EMPTY(&t->removed.in_order))
		forget(t, TAILQ_FIRST(&t->removed.in_order));
}
