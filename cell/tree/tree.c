/* The beginning and the end of a tree, and its position in the log. */
#include <stdlib.h>
#include "cell/tree/internal.h"

struct tree *
tree_new(const char *cell)
{
	struct tree *t = memory_zero(1, sizeof *t);

	t->cell = bytes_to_text(bytes_of(cell));
	node_skip_numbers(t, NODE_ROOT);
	session_table_init(t);
	TAILQ_INIT(&t->removed.in_order);
	settings_begin(t, &(struct settings){0});
	dirty_rows_forget(t);
	return t;
}

void
tree_free(struct tree *t)
{
	if (t == NULL)
		return;
	lock_table_free(t);
	removed_forget_all(t);
	nodes_free(t);
	session_table_free(t);
	member_table_free(t);
	principal_table_free(t);
	change_history_free(t);
	dirty_rows_forget(t);
	free(t->commands.list);
	buffer_free(&t->done);
	row_list_free(&t->loading.rows);
	free(t->cell);
	free(t);
}

uint64_t
tree_applied(const struct tree *t)
{
	return t->position.applied;
}

uint64_t
tree_epoch(const struct tree *t)
{
	return t->epochs.current;
}

uint64_t
tree_digest(const struct tree *t)
{
	return t->position.digest;
}

struct ballot
tree_origin(const struct tree *t)
{
	return t->position.origin;
}
