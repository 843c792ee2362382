/* Lists of rows, and the columns of the tables. */
#include <assert.h>
#include <stdlib.h>
#include "cell/base/checksum.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/tree/rows.h"

enum { KIND_i = 'i', KIND_b = 'b', KIND_t = 't' };

#define COLUMN(kind_, name_, ...) {KIND_##kind_, #name_},
#define TABLE(name_, keys_) {#name_, keys_, COLS_##name_, {ROWS_##name_(COLUMN)}},
static const struct row_table_info tables[ROW_TABLES] = {ROWS_TABLES(TABLE)};
#undef TABLE
#undef COLUMN

#define TABLE(name_, keys_) \
	static_assert((int)COLS_##name_ <= (int)ROW_COLUMNS_MAX, "a row of " #name_ " has room");
ROWS_TABLES(TABLE)
#undef TABLE

const struct row_table_info *
row_table_info(enum row_table table)
{
	must(table < ROW_TABLES);
	return &tables[table];
}

static bool
column_counts(const struct row_table_info *info, const struct row *row, int i)
{
	return i < info->columns && (!row->deleted || i < info->keys);
}

static void
row_own(struct row_list *list, struct row *row)
{
	const struct row_table_info *info = row_table_info(row->table);

	for (int i = 0; column_counts(info, row, i); i++)
		if (info->column[i].kind != KIND_i) {
			row->values[i].bytes = bytes_copy(row->values[i].bytes);
			list->bytes += row->values[i].bytes.len;
		}
}

void
row_list_own(struct row_list *list, size_t first)
{
	for (size_t i = first; i < list->n; i++)
		row_own(list, &list->rows[i]);
}

void
row_list_add(struct row_list *list, const struct row *row)
{
	const struct row_table_info *info = row_table_info(row->table);
	struct row *to;

	ARRAY_ROOM(list->rows, list->n, list->room);
	to = &list->rows[list->n++];
	*to = (struct row){.table = row->table, .deleted = row->deleted};
	for (int i = 0; column_counts(info, row, i); i++)
		to->values[i] = row->values[i];
	row_own(list, to);
}

void
row_list_free(struct row_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		for (int k = 0; k < ROW_COLUMNS_MAX; k++)
			free((void *)list->rows[i].values[k].bytes.data);
	}
	free(list->rows);
	*list = (struct row_list){0};
}

/* The checksum covers all numbers and lengths, then the blobs: no two rows give the same bytes. */
uint64_t
row_checksum(const struct row *row)
{
	const struct row_table_info *info = row_table_info(row->table);
	uint8_t head[(1 + ROW_COLUMNS_MAX) * 8];
	size_t len = 0, counted = 8;
	uint64_t sum;

	for (int i = -1; i < 0 || column_counts(info, row, i); i++) {
		uint64_t v = row->table;

		if (i >= 0 && info->column[i].kind == KIND_i)
			v = (uint64_t)row->values[i].number;
		else if (i >= 0)
			v = row->values[i].bytes.len;
		for (int k = 0; k < 8; k++)
			head[len++] = (uint8_t)(v >> (8 * k));
		if (v != 0)
			counted = len;
	}
	sum = checksum((struct bytes){head, counted});
	for (int i = 0; column_counts(info, row, i); i++) {
		if (info->column[i].kind != KIND_i)
			sum = checksum_chain(sum, row->values[i].bytes);
	}
	return sum;
}
