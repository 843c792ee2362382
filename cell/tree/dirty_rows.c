#include <stdlib.h>
#include "cell/tree/internal.h"

static int
compare_change(const struct dirty_row *a, const struct dirty_row *b)
{
	if (a->table != b->table)
		return a->table > b->table ? 1 : -1;
	for (int i = 0; i < 3; i++) {
		if (a->key[i] != b->key[i])
			return a->key[i] > b->key[i] ? 1 : -1;
	}
	return 0;
}

RB_GENERATE_INTERNAL(dirty_rows, dirty_row, in_tree, compare_change, __attribute__((unused)) static)

void
dirty_rows_add(struct tree *t, const struct dirty_row *change)
{
	struct dirty_row *row = RB_FIND(dirty_rows, &t->dirty.rows, (struct dirty_row *)change);

	if (row != NULL) {
		row->object = change->object;
		row->gone = change->gone;
		return;
	}
	row = memory_zero(1, sizeof *row);
	*row = *change;
	RB_INSERT(dirty_rows, &t->dirty.rows, row);
	t->dirty.n++;
}

void
dirty_node(struct tree *t, const struct node *n)
{
	DIRTY_ROW(t, nodes, .key = {n->number}, .object = n);
}

void
dirty_session(struct tree *t, const struct session *s)
{
	DIRTY_ROW(t, sessions, .key = {s->id}, .object = s);
}

void
dirty_rows_forget(struct tree *t)
{
	struct dirty_row *c;

	while ((c = RB_MIN(dirty_rows, &t->dirty.rows)) != NULL) {
		RB_REMOVE(dirty_rows, &t->dirty.rows, c);
		free(c);
	}
	t->dirty.n = 0;
}

/* ---- one row of each table: false when the object is gone ---- */

#define SHOW_i(place) (v++)->number = (int64_t)(place);
#define SHOW_b(place) (v++)->bytes = (place);
#define SHOW_t(place) SHOW_b(place)
#define SHOW(kind, column, place, load) SHOW_##kind(place)
#define SHOW_ROW(table)                            \
	do {                                       \
		struct row_value *v = row->values; \
                                                   \
		ROWS_##table(SHOW)                 \
	} while (0)

static bool
row_of_meta(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	SHOW_ROW(meta);
	return true;
}

static bool
row_of_nodes(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	const struct node *n = of->object != NULL ? of->object : node_find(t, of->key[0]);

	if (n == NULL)
		return false;
	SHOW_ROW(nodes);
	return true;
}

static bool
row_of_openers(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	const struct session *s = session_find(t, of->key[0]);
	const struct opener *o = s == NULL ? NULL : opener_find(s, of->key[1]);

	if (o == NULL)
		return false;
	SHOW_ROW(openers);
	return true;
}

static bool
row_of_locks(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	const struct node *n = node_find(t, of->key[0]);
	const struct lock *l = n == NULL ? NULL : n->lock;
	struct lock_delay delay = {0};

	if (l == NULL)
		return false;
	if (l->delay.mode != LOCK_NONE)
		delay = l->delay;
	SHOW_ROW(locks);
	return true;
}

static bool
row_of_holders(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	const struct node *n = node_find(t, of->key[0]);
	const struct holder *h = n == NULL ? NULL : holder_find(n->lock, of->key[1], of->key[2]);

	if (h == NULL)
		return false;
	SHOW_ROW(holders);
	return true;
}

static bool
row_of_sessions(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	const struct session *s = of->object != NULL ? of->object : session_find(t, of->key[0]);

	if (s == NULL)
		return false;
	SHOW_ROW(sessions);
	return true;
}

static bool
row_of_results(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	const struct cached_reply *k = of->object;
	const struct session *s = k != NULL ? NULL : session_find(t, of->key[0]);

	if (s != NULL)
		k = reply_cache_find(s, of->key[1]);
	if (k == NULL)
		return false;
	SHOW_ROW(results);
	return true;
}

static bool
row_of_members(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	const struct member_row *s = member_row_find(t, (uint8_t)of->key[0]);

	if (s == NULL)
		return false;
	SHOW_ROW(members);
	return true;
}

static bool
row_of_settings(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	const uint64_t code = of->key[0];
	const struct setting_info *info = setting_info(code);

	if (info == NULL || tree_setting_longest(t, code) == 0)
		return false;
	SHOW_ROW(settings);
	return true;
}

static bool
row_of_principals(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	const struct principal *p = principal_find(t, of->key[0]);

	if (p == NULL)
		return false;
	SHOW_ROW(principals);
	return true;
}

static bool
row_of_signing_keys(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	const struct bytes keys = tree_signing_keys(t);
	struct bytes newest, former;

	if (keys.len == 0)
		return false;
	newest = (struct bytes){keys.data, SIGNING_KEY};
	former = (struct bytes){keys.data + SIGNING_KEY, SIGNING_KEY};
	SHOW_ROW(signing_keys);
	return true;
}

static bool
row_of_changes(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	struct change found, *c = &found;

	if (!change_at(t, of->key[0], c))
		return false;
	SHOW_ROW(changes);
	return true;
}

static bool (*const row_of[ROW_TABLES])(const struct tree *, const struct dirty_row *,
                                        struct row *) = {
#define X(name, keys) row_of_##name,
    ROWS_TABLES(X)
#undef X
};

static bool
show(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	*row = (struct row){.table = of->table};
	return !of->gone && row_of[of->table](t, of, row);
}

bool
dirty_rows_show(const struct tree *t, enum row_table table, const uint64_t key[3], struct row *row)
{
	const struct dirty_row of = {.table = table, .key = {key[0], key[1], key[2]}};

	return show(t, &of, row);
}

static const int keys_of[ROW_TABLES] = {
#define X(name, keys) keys,
    ROWS_TABLES(X)
#undef X
};

void
tree_dirty_rows(struct tree *t, struct row_list *to)
{
	const size_t first = to->n;
	struct dirty_row *c;

	if (t->dirty.saved == t->position.applied)
		return;
	DIRTY_ROW(t, meta, .key = {0});
	RB_FOREACH(c, dirty_rows, &t->dirty.rows) {
		/* The row, as a view of the state. */
		struct row *row;

		ARRAY_ROOM(to->rows, to->n, to->room);
		row = &to->rows[to->n++];
		row->deleted = !show(t, c, row);
		for (int i = 0; row->deleted && i < keys_of[c->table]; i++)
			row->values[i].number = (int64_t)c->key[i];
	}
	dirty_rows_forget(t);
	t->dirty.saved = t->position.applied;
	row_list_own(to, first);
}
