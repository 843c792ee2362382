/* Row lists, checksums of rows, and what the tree writes: each changed row once. */
#include <stdio.h>
#include "tests/unit/row_store.h"
#include "tests/unit/tree_fixture.h"

TEST(test_tables_are_described)
{
	const struct row_table_info *nodes = row_table_info(ROWS_nodes);

	assert_string_equal(nodes->name, "nodes");
	assert_int_equal(nodes->keys, 1);
	assert_int_equal(nodes->columns, COLS_nodes);
	assert_string_equal(nodes->column[COL_nodes_contents].name, "contents");
	assert_int_equal(nodes->column[COL_nodes_contents].kind, 'b');
	assert_int_equal(nodes->column[COL_nodes_name].kind, 't');
	assert_int_equal(nodes->column[COL_nodes_mtime_ns].kind, 'i');
	for (enum row_table t = 0; t < ROW_TABLES; t++) {
		const struct row_table_info *info = row_table_info(t);

		assert_in_range(info->keys, 1, 3);
		assert_in_range(info->columns, info->keys, ROW_COLUMNS_MAX);
		for (int i = 0; i < info->keys; i++)
			assert_int_equal(info->column[i].kind, 'i');
	}
}

static struct row
result_row(const char *result)
{
	struct row row = {.table = ROWS_results};

	row.values[COL_results_session].number = 7;
	row.values[COL_results_number].number = 1;
	row.values[COL_results_result].bytes = bytes_of(result);
	return row;
}

TEST(test_a_list_owns_its_bytes)
{
	struct row_list list = {0};
	char text[] = "abc";
	struct row row = result_row(text);

	row_list_add(&list, &row);
	row.deleted = true;
	row_list_add(&list, &row);
	text[0] = 'x';
	assert_int_equal(list.n, 2);
	assert_true(bytes_equal(list.rows[0].values[COL_results_result].bytes, bytes_of("abc")));
	assert_int_equal(list.rows[1].values[COL_results_number].number, 1);
	assert_int_equal(list.rows[1].values[COL_results_result].bytes.len, 0);
	row_list_free(&list);
	assert_int_equal(list.n, 0);
}

TEST(test_checksum_covers_every_column)
{
	struct row row = result_row("abc"), other;
	uint64_t sum = row_checksum(&row);

	for (int i = 0; i < COLS_results; i++) {
		other = row;
		other.values[i].number ^= 1ll << 40;
		other.values[i].bytes.len -= other.values[i].bytes.len > 0;
		assert_int_not_equal(row_checksum(&other), sum);
	}
	other = result_row("abd");
	assert_int_not_equal(row_checksum(&other), sum);
	other = result_row("abc");
	assert_int_equal(row_checksum(&other), sum);
}

/* Bytes that move from one column to its neighbour must not leave the sum as it was. */
TEST(test_checksum_knows_where_columns_end)
{
	struct row a = {.table = ROWS_sessions}, b = {.table = ROWS_sessions};

	a.values[COL_sessions_principal].bytes = bytes_of("ab");
	a.values[COL_sessions_host].bytes = bytes_of("c");
	b.values[COL_sessions_principal].bytes = bytes_of("a");
	b.values[COL_sessions_host].bytes = bytes_of("bc");
	assert_int_not_equal(row_checksum(&a), row_checksum(&b));
}

/* ---- what the tree writes ---- */

static size_t
rows_of(const struct row_list *list, enum row_table table, bool deleted)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++)
		n += list->rows[i].table == table && list->rows[i].deleted == deleted;
	return n;
}

static void
forget_changes(struct fixture *f)
{
	struct row_list list = {0};

	tree_dirty_rows(f->tree, &list);
	row_list_free(&list);
}

TREE_TEST(test_each_row_is_written_once)
{
	struct fixture *f = *state;
	uint64_t file = new_file(f, NODE_ROOT, "f");
	struct row_list list = {0};
	const struct row *meta;

	forget_changes(f);
	for (int i = 0; i < 100; i++)
		append_file(f, file, "x");
	tree_dirty_rows(f->tree, &list);
	assert_int_equal(list.n, 2 + 100);
	assert_int_equal(rows_of(&list, ROWS_nodes, false), 1);
	assert_int_equal(rows_of(&list, ROWS_changes, false), 100); /* each is one of its own */
	meta = list.rows[0].table == ROWS_meta ? &list.rows[0] : &list.rows[1];
	assert_int_equal(meta->values[COL_meta_applied].number, tree_applied(f->tree));
	row_list_free(&list);
	tree_dirty_rows(f->tree, &list);
	assert_int_equal(list.n, 0);
}

TREE_TEST(test_deletions_are_written)
{
	struct fixture *f = *state;
	uint64_t s = new_session(f, "s");
	struct row_list list = {0};
	uint64_t file;

	assert_int_equal(create(f, s, NODE_ROOT, "e", NODE_FILE, true), RC_OK);
	file = f->answer.created.attr.node;
	assert_int_equal(acquire(f, s, 1, 1, file, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(run_numbered(f, s, 1, 1, OP(release, .node = file)), RC_OK);
	forget_changes(f);
	assert_int_equal(end_session(f, s, SESSION_CLOSED), RC_OK);
	tree_dirty_rows(f->tree, &list);
	assert_int_equal(rows_of(&list, ROWS_meta, false), 1);
	assert_int_equal(rows_of(&list, ROWS_changes, false), 1);
	assert_int_equal(list.n, 8);
	for (enum row_table t = ROWS_nodes; t <= ROWS_results; t++)
		assert_int_equal(rows_of(&list, t, true), 1);
	row_list_free(&list);
}

TEST(test_an_empty_store_is_an_empty_tree)
{
	struct row_store store = {0};
	char why[100];
	struct tree *t = row_store_load(&store, why, sizeof why);

	assert_non_null(t);
	assert_int_equal(tree_applied(t), 0);
	tree_free(t);
}

/* ---- stored rows that are damaged ---- */

static struct row_store
stored(struct fixture *f)
{
	struct row_store store = {0};
	uint64_t d = new_directory(f, NODE_ROOT, "d");

	write_file(f, new_file(f, d, "f"), "text");
	acquire(f, READER, 1, 1, d, LOCK_SHARED);
	row_store_save(&store, f->tree);
	return store;
}

static struct row *
row_of_node(struct row_store *store, uint64_t node)
{
	struct row *row = row_store_find(store, ROWS_nodes, 0);

	while (row->values[COL_nodes_node].number != (int64_t)node)
		row++;
	return row;
}

static void
assert_refused(struct row_store *store, const char *part)
{
	char why[200];

	assert_null(row_store_load(store, why, sizeof why));
	if (strstr(why, part) == NULL)
		fail_msg("\"%s\" does not tell of \"%s\"", why, part);
	row_store_free(store);
}

TREE_TEST(test_damage_is_told)
{
	struct fixture *f = *state;
	struct row_store whole = stored(f), store;
	uint64_t d = lookup(f, NODE_ROOT, "d"), file = lookup(f, d, "f");

	row_store_copy(&store, &whole);
	row_store_find(&store, ROWS_meta, 0)->values[COL_meta_bytes].number++;
	assert_refused(&store, "meta counts");

	row_store_copy(&store, &whole);
	row_of_node(&store, file)->values[COL_nodes_parent].number = 999;
	assert_refused(&store, "has no parent directory");

	row_store_copy(&store, &whole);
	row_of_node(&store, d)->values[COL_nodes_parent].number = (int64_t)d;
	assert_refused(&store, "below the root");

	row_store_copy(&store, &whole);
	row_of_node(&store, file)->values[COL_nodes_parent].number = NODE_ROOT;
	row_of_node(&store, file)->values[COL_nodes_name].bytes.len = 1;
	((uint8_t *)row_of_node(&store, file)->values[COL_nodes_name].bytes.data)[0] = 'd';
	assert_refused(&store, "a name twice");

	row_store_copy(&store, &whole);
	row_of_node(&store, file)->values[COL_nodes_checksum].number ^= 1;
	assert_refused(&store, "");

	row_store_copy(&store, &whole);
	row_store_find(&store, ROWS_holders, 0)->values[COL_holders_session].number = 999;
	assert_refused(&store, "holders");

	row_store_copy(&store, &whole);
	row_store_find(&store, ROWS_meta, 0)->values[COL_meta_next_node].number = 6;
	assert_refused(&store, "was given out");
	row_store_free(&whole);
}

/* ---- settings ---- */

/* A setting that a later program adds must not be in the state of a cell before it is set: replicas
 * of both programs have one state, and each reads the other's file. */
TREE_TEST(test_a_setting_that_is_0_has_no_row)
{
	struct fixture *f = *state;
	struct row_store store = {0};
	int given = 0;

	row_store_save(&store, f->tree);
	for (size_t i = 0; i < store.rows.n; i++) {
		const struct row *row = &store.rows.rows[i];

		if (row->table != ROWS_settings)
			continue;
		assert_int_not_equal(row->values[COL_settings_value].number, 0);
		given++;
	}
	assert_int_equal(tree_setting(f->tree, SETTING_minor_version), 0);
	assert_true(given > 0);
	row_store_free(&store);
}

/* ---- quotas ---- */

static void
set_row(struct row_store *store, enum setting which, int64_t value)
{
	struct row *row = row_store_find(store, ROWS_settings, 0);

	while (row->table != ROWS_settings || row->values[0].number != which)
		row++;
	row->values[COL_settings_value].number = row->values[COL_settings_longest].number = value;
}

static void
set_quota(struct fixture *f, struct row_store *store, int64_t nodes, int64_t bytes)
{
	char why[100];

	row_store_save(store, f->tree);
	set_row(store, SETTING_quota_nodes, nodes);
	set_row(store, SETTING_quota_bytes, bytes);
	tree_free(f->tree);
	f->tree = row_store_load(store, why, sizeof why);
	assert_non_null(f->tree);
}

TREE_TEST(test_quota_of_nodes)
{
	struct fixture *f = *state;
	struct row_store store = {0};

	set_quota(f, &store, 5, 1 << 20);
	new_file(f, NODE_ROOT, "f");
	assert_int_equal(create(f, READER, NODE_ROOT, "g", NODE_FILE, false), RC_NOSPC);
	assert_int_equal(rename_file(f, READER, NODE_ROOT, "f", NODE_ROOT, "g"), RC_OK);
	assert_int_equal(delete_name(f, NODE_ROOT, "g", NODE_FILE), RC_OK);
	new_file(f, NODE_ROOT, "h");
	row_store_free(&store);
}

TREE_TEST(test_quota_of_bytes)
{
	struct fixture *f = *state;
	struct row_store store = {0};
	int64_t used;
	uint64_t file;

	assert_int_equal(look(f, READER, OP(get_usage)), RC_OK);
	used = (int64_t)f->answer.usage.bytes;
	set_quota(f, &store, 100, used + 256 + 4);
	file = new_file(f, NODE_ROOT, "f");
	assert_int_equal(create(f, READER, NODE_ROOT, "g", NODE_FILE, false), RC_NOSPC);
	assert_int_equal(write_file(f, file, "12345"), RC_NOSPC);
	assert_int_equal(write_file(f, file, "1234"), RC_OK);
	assert_int_equal(append_file(f, file, "5"), RC_NOSPC);
	assert_int_equal(append_file(f, file, ""), RC_OK);
	assert_int_equal(rename_file(f, READER, NODE_ROOT, "f", NODE_ROOT, "g"), RC_OK);
	file = f->answer.renamed.attr.node;
	set_quota(f, &store, 1, 1);
	assert_int_equal(write_file(f, file, "4321"), RC_OK);
	assert_int_equal(write_file(f, file, "1"), RC_OK);
	assert_int_equal(write_file(f, file, "12"), RC_NOSPC);
	assert_int_equal(delete_name(f, NODE_ROOT, "g", NODE_FILE), RC_OK);
	row_store_free(&store);
}
