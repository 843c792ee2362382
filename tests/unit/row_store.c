#include <stdlib.h>
#include <string.h>
#include "cell/base/must.h"
#include "tests/unit/row_store.h"

static int
compare_rows(const struct row *a, const struct row *b)
{
	const struct row_table_info *info = row_table_info(a->table);

	if (a->table != b->table)
		return a->table > b->table ? 1 : -1;
	for (int i = 0; i < info->keys; i++) {
		if (a->values[i].number != b->values[i].number)
			return a->values[i].number > b->values[i].number ? 1 : -1;
	}
	return 0;
}

static void
row_clear(struct row *row)
{
	for (int i = 0; i < ROW_COLUMNS_MAX; i++)
		free((void *)row->values[i].bytes.data);
}

/* The position of the first row that is not less. */
static size_t
position(const struct row_store *store, const struct row *row)
{
	size_t low = 0, high = store->rows.n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (compare_rows(&store->rows.rows[middle], row) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void
take_out(struct row_store *store, const struct row *row)
{
	size_t at = position(store, row);
	struct row *rows = store->rows.rows;

	if (at == store->rows.n || compare_rows(&rows[at], row) != 0)
		return;
	row_clear(&rows[at]);
	memmove(&rows[at], &rows[at + 1], (store->rows.n - at - 1) * sizeof *rows);
	store->rows.n--;
}

static void
put_in(struct row_store *store, const struct row *row)
{
	size_t at = position(store, row);
	struct row added;

	row_list_add(&store->rows, row);
	added = store->rows.rows[store->rows.n - 1];
	memmove(&store->rows.rows[at + 1], &store->rows.rows[at],
	        (store->rows.n - at - 1) * sizeof added);
	store->rows.rows[at] = added;
}

void
row_store_put(struct row_store *store, const struct row_list *changes)
{
	for (size_t i = 0; i < changes->n; i++) {
		take_out(store, &changes->rows[i]);
		if (!changes->rows[i].deleted)
			put_in(store, &changes->rows[i]);
	}
}

void
row_store_save(struct row_store *store, struct tree *t)
{
	struct row_list changes = {0};

	tree_dirty_rows(t, &changes);
	row_store_put(store, &changes);
	row_list_free(&changes);
}

struct tree *
row_store_load(const struct row_store *store, char *why, size_t why_size)
{
	struct tree *t = tree_new("local");
	enum rc rc = RC_OK;

	why[0] = 0;
	for (size_t i = 0; i < store->rows.n && rc == RC_OK; i++)
		rc = tree_load_row(t, &store->rows.rows[i]);
	if (rc == RC_OK)
		rc = tree_load_done(t, why, why_size);
	if (rc == RC_OK)
		return t;
	must(rc == RC_CORRUPT);
	tree_free(t);
	return NULL;
}

bool
row_store_equal(const struct row_store *a, const struct row_store *b)
{
	if (a->rows.n != b->rows.n)
		return false;
	for (size_t i = 0; i < a->rows.n; i++) {
		if (row_checksum(&a->rows.rows[i]) != row_checksum(&b->rows.rows[i]))
			return false;
	}
	return true;
}

struct row *
row_store_find(struct row_store *store, enum row_table table, size_t from)
{
	for (size_t i = from; i < store->rows.n; i++) {
		if (store->rows.rows[i].table == table)
			return &store->rows.rows[i];
	}
	return NULL;
}

void
row_store_copy(struct row_store *to, const struct row_store *from)
{
	*to = (struct row_store){0};
	for (size_t i = 0; i < from->rows.n; i++)
		row_list_add(&to->rows, &from->rows.rows[i]);
}

void
row_store_free(struct row_store *store)
{
	row_list_free(&store->rows);
}
