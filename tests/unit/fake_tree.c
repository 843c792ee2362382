#include "tests/unit/fake_tree.h"

#include <stdlib.h>

#include "cell/base/memory.h"

struct tree {
	struct row_list rows;
};

struct tree *
tree_new(const char *cell)
{
	(void)cell;
	return memory_zero(1, sizeof(struct tree));
}

void
tree_free(struct tree *t)
{
	row_list_free(&t->rows);
	free(t);
}

enum rc
tree_load_row(struct tree *t, const struct row *row)
{
	row_list_add(&t->rows, row);
	return RC_OK;
}

enum rc
tree_load_done(struct tree *t, char *why, size_t why_size)
{
	(void)t, (void)why, (void)why_size;
	return RC_OK;
}

uint64_t
tree_applied(const struct tree *t)
{
	const struct row *meta = fake_tree_find(t, ROWS_meta, 0);

	return meta != NULL ? (uint64_t)meta->values[COL_meta_applied].number : 0;
}

struct ballot
tree_origin(const struct tree *t)
{
	const struct row *meta = fake_tree_find(t, ROWS_meta, 0);

	if (meta == NULL)
		return (struct ballot){0};
	return (struct ballot){.round = (uint64_t)meta->values[COL_meta_origin_round].number,
	                       .replica = (uint8_t)meta->values[COL_meta_origin_replica].number};
}

bool
tree_member_after(const struct tree *t, uint8_t id, struct member *member)
{
	for (size_t i = 0; i < t->rows.n; i++) {
		const struct row *row = &t->rows.rows[i];

		if (row->table != ROWS_members || row->values[COL_members_id].number <= id)
			continue;
		*member = (struct member){.id = (uint8_t)row->values[COL_members_id].number,
		                          .role = (uint8_t)row->values[COL_members_role].number};
		return true;
	}
	return false;
}

const struct row_list *
fake_tree_rows(const struct tree *t)
{
	return &t->rows;
}

const struct row *
fake_tree_find(const struct tree *t, enum row_table table, int64_t key)
{
	for (size_t i = 0; i < t->rows.n; i++) {
		if (t->rows.rows[i].table == table && t->rows.rows[i].values[0].number == key)
			return &t->rows.rows[i];
	}
	return NULL;
}

struct row
fake_meta(uint64_t applied)
{
	struct row row = {.table = ROWS_meta};

	row.values[COL_meta_applied].number = (int64_t)applied;
	row.values[COL_meta_digest].number = -(int64_t)applied;
	row.values[COL_meta_origin_round].number = 2;
	row.values[COL_meta_origin_replica].number = 1;
	return row;
}

struct row
fake_node(int64_t node, const char *name, struct bytes contents)
{
	struct row row = {.table = ROWS_nodes};

	row.values[COL_nodes_node].number = node;
	row.values[COL_nodes_parent].number = node / 2;
	row.values[COL_nodes_name].bytes = bytes_of(name);
	row.values[COL_nodes_checksum].number = -1000003 * node;
	row.values[COL_nodes_acl_read].bytes = bytes_of("everyone");
	row.values[COL_nodes_lock_delay_s].number = -1;
	row.values[COL_nodes_contents].bytes = contents;
	return row;
}
