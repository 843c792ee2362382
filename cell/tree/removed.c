#include <stdlib.h>
#include "cell/tree/internal.h"

static int
compare(const struct removed *a, const struct removed *b)
{
	int by = bytes_compare(a->name, b->name);

	return by != 0 ? by : (a->number > b->number) - (a->number < b->number);
}

RB_GENERATE(removed_by_name, removed, in_directory, compare)

void
removed_init(struct tree *t)
{
	TAILQ_INIT(&t->removed.in_order);
}

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

struct removed *
removed_after(const struct node *directory, struct bytes name)
{
	struct removed key = {.name = name, .number = UINT64_MAX};

	if (directory->removed == NULL)
		return NULL;
	return RB_NFIND(removed_by_name, &directory->removed->names, &key);
}
