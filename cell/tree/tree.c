/* The life of a tree. */
#include <stdlib.h>
#include "cell/tree/internal.h"

struct tree *
tree_new(const char *cell)
{
	struct tree *t = memory_zero(1, sizeof *t);

	t->cell = bytes_to_text(bytes_of(cell));
	t->next_node = NODE_ROOT;
	t->ending_most = LIMIT_ENDING;
	TAILQ_INIT(&t->removed);
	settings_begin(t, &(struct settings){0});
	dirty_rows_forget(t);
	return t;
}

static void
free_locks(struct tree *t)
{
	struct lock *l;
	struct holder *h;

	while ((l = RB_MIN(locks, &t->locks)) != NULL) {
		RB_REMOVE(locks, &t->locks, l);
		while ((h = TAILQ_FIRST(&l->in_order)) != NULL) {
			TAILQ_REMOVE(&l->in_order, h, in_order);
			free(h);
		}
		free(l);
	}
}

static void
free_nodes(struct tree *t)
{
	struct node *n;
	struct opener *o;

	while ((n = RB_MIN(nodes, &t->nodes)) != NULL) {
		RB_REMOVE(nodes, &t->nodes, n);
		removed_forget_directory(n);
		while ((o = RB_ROOT(&n->openers)) != NULL) {
			RB_REMOVE(node_openers, &n->openers, o);
			free(o);
		}
		node_free(n);
	}
}

static void
free_sessions(struct tree *t)
{
	struct session *s;
	struct cached_reply *k;

	while ((s = RB_MIN(sessions, &t->sessions)) != NULL) {
		RB_REMOVE(sessions, &t->sessions, s);
		while ((k = RB_ROOT(&s->replies)) != NULL)
			reply_cache_drop(t, s, k);
		session_free(s);
	}
}

void
tree_free(struct tree *t)
{
	if (t == NULL)
		return;
	free_locks(t);
	removed_forget_all(t);
	free_nodes(t);
	free_sessions(t);
	member_table_clear(t);
	free(t->member_rows);
	dirty_rows_forget(t);
	free(t->commands.list);
	row_list_free(&t->loading);
	free(t->cell);
	free(t);
}

void
tree_set_ending(struct tree *t, size_t pieces)
{
	must(pieces > 0);
	t->ending_most = pieces;
}

uint64_t
tree_applied(const struct tree *t)
{
	return t->applied;
}

uint64_t
tree_epoch(const struct tree *t)
{
	return t->epoch;
}

uint64_t
tree_digest(const struct tree *t)
{
	return t->digest;
}

struct ballot
tree_origin(const struct tree *t)
{
	return t->origin;
}
