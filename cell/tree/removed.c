/* The names that were removed last, of all directories. A long listing is read in pages, and shows
 * the names that there were at its first page: what was created since has a greater number than any
 * node had then, and what was removed since is kept here. In memory only; how far it reaches back
 * is known. */
#include <stdlib.h>
#include "cell/tree/internal.h"

static int
compare(const struct removed *a, const struct removed *b)
{
	int by = bytes_compare(a->name, b->name);

	return by != 0 ? by : (a->number > b->number) - (a->number < b->number);
}

RB_GENERATE(removed_names, removed, in_directory, compare)

static void
forget(struct tree *t, struct removed *r)
{
	struct removed_from *from = r->from;

	RB_REMOVE(removed_names, &from->names, r);
	if (from->gone && RB_EMPTY(&from->names))
		free(from);
	TAILQ_REMOVE(&t->removed, r, in_order);
	t->removed_n--;
	free((void *)r->name.data);
	free(r);
}

void
removed_add(struct tree *t, const struct node *n)
{
	struct removed *r = memory_zero(1, sizeof *r);
	struct node *directory = n->parent;

	if (t->removed_n == LIMIT_REMOVED) {
		t->removed_upto = TAILQ_FIRST(&t->removed)->index;
		forget(t, TAILQ_FIRST(&t->removed));
	}
	if (directory->removed == NULL)
		directory->removed = memory_zero(1, sizeof *directory->removed);
	r->from = directory->removed;
	r->name = bytes_copy(n->name);
	r->number = n->number;
	r->kind = n->kind;
	r->index = t->applied;
	must(RB_INSERT(removed_names, &r->from->names, r) == NULL);
	TAILQ_INSERT_TAIL(&t->removed, r, in_order);
	t->removed_n++;
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
	while (!TAILQ_EMPTY(&t->removed))
		forget(t, TAILQ_FIRST(&t->removed));
}

struct removed *
removed_after(const struct node *directory, struct bytes name)
{
	struct removed key = {.name = name, .number = UINT64_MAX};

	if (directory->removed == NULL)
		return NULL;
	return RB_NFIND(removed_names, &directory->removed->names, &key);
}
