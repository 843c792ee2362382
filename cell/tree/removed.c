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
	RB_REMOVE(removed_names, &r->directory->removed, r);
	TAILQ_REMOVE(&t->removed, r, in_order);
	t->removed_n--;
	free((void *)r->name.data);
	free(r);
}

void
removed_add(struct tree *t, const struct node *n)
{
	struct removed *r = memory_zero(1, sizeof *r);

	if (t->removed_n == LIMIT_REMOVED) {
		t->removed_upto = TAILQ_FIRST(&t->removed)->index;
		forget(t, TAILQ_FIRST(&t->removed));
	}
	r->directory = n->parent;
	r->name = bytes_copy(n->name);
	r->number = n->number;
	r->kind = n->kind;
	r->index = t->applied;
	must(RB_INSERT(removed_names, &n->parent->removed, r) == NULL);
	TAILQ_INSERT_TAIL(&t->removed, r, in_order);
	t->removed_n++;
}

void
removed_forget_directory(struct tree *t, struct node *directory)
{
	struct removed *r;

	while ((r = RB_ROOT(&directory->removed)) != NULL)
		forget(t, r);
}

struct removed *
removed_after(const struct node *directory, struct bytes name)
{
	struct removed key = {.name = name, .number = UINT64_MAX};

	return RB_NFIND(removed_names, (struct removed_names *)&directory->removed, &key);
}
