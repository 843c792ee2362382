/* Stored rows in which one column has another value: either the loader refuses the tree, or the
 * column may have that value, says the list below. All rows are tried of trees that random commands
 * made, each column with every value. */
#include <stdio.h>
#include "tests/unit/row_store.h"
#include "tests/unit/tree_fixture.h"
#include "tests/unit/tree_random.h"

enum { ENTRIES = 600, BETWEEN = 100, LONGEST = LIMIT_HOST + 1, VALUES_TEXT = 200 };

static const struct {
	const char *name;
	size_t len;
} texts[] = {
    {"empty", 0},
    {"short", 1},
    {"nonce", LIMIT_NONCE},
    {"nonce+1", LIMIT_NONCE + 1},
    {"principal", LIMIT_PRINCIPAL},
    {"principal+1", LIMIT_PRINCIPAL + 1},
    {"name", LIMIT_NAME},
    {"name+1", LIMIT_NAME + 1},
};

/* The last ones are those of the tree. */
static struct {
	const char *name;
	int64_t value;
} numbers[] = {
    {"0", 0},
    {"1", 1},
    {"2", 2},
    {"3", 3},
    {"4", 4},
    {"delay", LIMIT_LOCK_DELAY_S},
    {"delay+1", LIMIT_LOCK_DELAY_S + 1},
    {"id", LIMIT_REPLICA_ID},
    {"id+1", LIMIT_REPLICA_ID + 1},
    {"32bit", UINT32_MAX},
    {"33bit", INT64_C(1) + UINT32_MAX},
    {"most", INT64_MAX},
    {"-1", -1},
    {"-2", -2},
    {"applied", 0},
    {"applied+1", 0},
    {"epoch", 0},
    {"epoch+1", 0},
    {"node", 0},
    {"node+1", 0},
    {"fence", 0},
    {"fence+1", 0},
};

enum {
	NUMBERS = sizeof numbers / sizeof numbers[0],
	TEXTS = sizeof texts / sizeof texts[0],
	OF_THE_TREE = 14
};

/* What a column may have instead, in some row. A column that is not here has one sound value. */
static const struct {
	const char *column, *values;
} sound[] = {
    {"meta.applied",
     "id id+1 32bit 33bit most -1 -2 applied+1 epoch epoch+1 node node+1 fence fence+1"},
    {"meta.origin_round", "0 2 3 4 delay delay+1 id id+1 32bit 33bit most -1 -2 applied applied+1 "
                          "epoch epoch+1 node node+1 fence fence+1"},
    {"meta.origin_replica",
     "0 2 3 4 delay delay+1 id applied applied+1 epoch epoch+1 node node+1 fence fence+1"},
    {"meta.epoch", "2 3 4 delay delay+1 id id+1 32bit 33bit most -1 -2 applied applied+1 epoch+1 "
                   "node node+1 fence fence+1"},
    {"meta.settled_epoch", "0 1 2 3 4 delay delay+1 id id+1 applied applied+1 epoch"},
    {"meta.next_node",
     "delay delay+1 id id+1 32bit 33bit most -1 -2 applied applied+1 fence fence+1"},
    {"meta.epoch_node",
     "0 1 2 3 4 delay delay+1 id id+1 applied applied+1 epoch epoch+1 node node+1"},
    {"meta.last_fence", "id id+1 32bit 33bit most -1 -2 applied applied+1 fence+1"},
    {"meta.digest", "any"},
    {"meta.members_version",
     "0 1 2 3 4 delay delay+1 id id+1 applied epoch epoch+1 node node+1 fence fence+1"},
    {"meta.slice", "any"},
    {"meta.compacted", "0 1 2 3 4 delay delay+1 id id+1 epoch epoch+1"},
    {"nodes.node", "delay delay+1 id id+1 applied applied+1 epoch epoch+1"},
    {"nodes.parent", "1 2 epoch epoch+1"},
    {"nodes.name", "short nonce nonce+1 principal principal+1 name"},
    {"nodes.ephemeral", "0 1 epoch"},
    {"nodes.mtime_ns", "any"},
    {"nodes.ctime_ns", "any"},
    {"nodes.content_generation", "any"},
    {"nodes.lock_generation", "any"},
    {"nodes.acl_generation", "1 2 3 4 delay delay+1 id id+1 32bit 33bit most -1 -2 applied "
                             "applied+1 epoch epoch+1 node node+1 fence fence+1"},
    {"nodes.acl_read", "short nonce nonce+1 principal principal+1 name"},
    {"nodes.acl_write", "short nonce nonce+1 principal principal+1 name"},
    {"nodes.acl_change", "short nonce nonce+1 principal principal+1 name"},
    {"nodes.lock_delay_s", "0 1 2 3 4 delay -1 epoch epoch+1 node node+1"},
    {"nodes.lock_slots", "0 1 2 3 4 delay delay+1 epoch epoch+1 node node+1"},
    {"nodes.freed_epoch", "0 1 2 3 4 delay delay+1 id id+1 applied applied+1 epoch"},
    {"nodes.quota_nodes", "0 1 2 3 4 delay delay+1 id id+1 32bit 33bit applied applied+1 epoch "
                          "epoch+1 node node+1 fence fence+1"},
    {"nodes.quota_bytes", "0 1 2 3 4 delay delay+1 id id+1 32bit 33bit applied applied+1 epoch "
                          "epoch+1 node node+1 fence fence+1"},
    {"nodes.creator", "node"},

    {"openers.opened", "0 delay delay+1 id id+1 applied applied+1 epoch epoch+1 node"},
    {"openers.session", "node"},

    {"locks.fence",
     "0 1 2 3 4 delay delay+1 id id+1 applied applied+1 epoch epoch+1 node node+1 fence"},
    {"locks.delay_began", "any"},
    {"locks.delay_generation", "any"},
    {"locks.delay_s", "1 2 3 4 delay delay+1 id id+1 32bit 33bit most -1 -2 applied applied+1 "
                      "epoch epoch+1 node node+1 fence fence+1"},
    {"locks.delay_mode", "1 2"},
    {"locks.delay_slots", "any"},
    {"locks.node", "1"},

    {"holders.owner", "any"},
    {"holders.acquisition", "any"},
    {"holders.mode", "1 2 epoch epoch+1"},
    {"holders.fence", "1 2 3 4 delay delay+1 id id+1 applied applied+1 epoch epoch+1 node node+1"},
    {"holders.delay_s", "0 1 2 3 4 delay epoch epoch+1 node node+1"},
    {"holders.earlier_acquisition", "1 2 3 4 delay delay+1 id id+1 32bit 33bit most -1 -2 applied "
                                    "applied+1 epoch epoch+1 node node+1 fence fence+1"},
    {"holders.earlier_mode", "0 1 2 epoch epoch+1"},
    {"holders.earlier_generation",
     "0 1 2 3 4 delay delay+1 id id+1 applied applied+1 epoch epoch+1"},
    {"holders.earlier_fence",
     "0 1 2 3 4 delay delay+1 id id+1 applied applied+1 epoch epoch+1 node node+1 fence"},
    {"holders.since_ns", "any"},
    {"holders.pid", "0 1 2 3 4 delay delay+1 id id+1 32bit applied applied+1 epoch epoch+1 node "
                    "node+1 fence fence+1"},
    {"holders.place", "0 2 3 4 delay delay+1 id id+1 32bit 33bit most -1 -2 applied applied+1 "
                      "epoch epoch+1 node node+1 fence fence+1"},
    {"holders.slot", "1 2 3 4 delay delay+1 -1 epoch epoch+1 node node+1"},
    {"holders.lock_generation", "1 2 3 4 delay delay+1 id id+1 applied applied+1 epoch"},
    {"holders.session", "node"},

    {"sessions.nonce", "short nonce"},
    {"sessions.principal", "empty short nonce nonce+1 principal"},
    {"sessions.host", "empty short nonce nonce+1 principal principal+1 name"},
    {"sessions.awaited", "0 1 epoch"},
    {"sessions.lasting", "1 epoch"},
    {"sessions.below", "0 1 2 3 4 delay delay+1 epoch epoch+1 node node+1"},
    {"sessions.ending", "1 2 3 epoch epoch+1"},
    {"sessions.principal_generation",
     "0 2 3 4 delay delay+1 id id+1 applied epoch epoch+1 node node+1 fence fence+1"},

    {"results.number", "1 2 3 4 delay delay+1 id id+1 32bit 33bit most -1 -2 applied applied+1 "
                       "epoch epoch+1 node node+1 fence fence+1"},
    {"results.op", "1 2 3 4 epoch epoch+1 node node+1 fence"},
    {"results.rc",
     "0 1 2 3 4 delay delay+1 id applied applied+1 epoch epoch+1 node node+1 fence fence+1"},
    {"results.session", "node"},
    {"results.log_index",
     "0 1 2 3 4 delay delay+1 id id+1 applied epoch epoch+1 node node+1 fence fence+1"},

    {"members.id", "4 delay delay+1 id applied applied+1 epoch epoch+1 node node+1 fence fence+1"},
    {"members.role", "1 2 3 epoch"},
    {"members.address", "any"},
    {"members.public_key", "empty"},
    {"members.since",
     "0 1 2 3 4 delay delay+1 id id+1 applied epoch epoch+1 node node+1 fence fence+1"},

    {"principals.generation",
     "2 3 4 delay delay+1 id id+1 applied epoch epoch+1 node node+1 fence fence+1"},
    {"principals.name", "short nonce nonce+1 principal"},
    {"principals.public_key", "empty"},

    {"signing_keys.since",
     "1 2 3 4 delay delay+1 id id+1 applied epoch epoch+1 node node+1 fence fence+1"},

    {"changes.log_index",
     "0 1 2 3 4 delay delay+1 id id+1 applied epoch epoch+1 node node+1 fence fence+1"},
    {"changes.stamp_ns", "any"},
    {"changes.kind", "1 2 3 epoch epoch+1"},
    {"changes.node", "any"},
    {"changes.generation", "any"},
    {"changes.path", "short nonce nonce+1 principal principal+1 name name+1"},
    {"changes.acl_read", "short nonce nonce+1 principal principal+1 name"},
    {"changes.parent", "1 2 node"},
};

static uint32_t found[ROW_TABLES][ROW_COLUMNS_MAX]; /* bits of the values above */

static void
set_numbers_of_the_tree(struct row_store *store)
{
	const struct row *meta = row_store_find(store, ROWS_meta, 0);
	const int64_t last[] = {
	    meta->values[COL_meta_applied].number,
	    meta->values[COL_meta_epoch].number,
	    meta->values[COL_meta_next_node].number - 1,
	    meta->values[COL_meta_last_fence].number,
	};

	for (size_t i = 0; i < sizeof last / sizeof last[0]; i++) {
		numbers[OF_THE_TREE + 2 * i].value = last[i];
		numbers[OF_THE_TREE + 2 * i + 1].value = last[i] + 1;
	}
}

static bool
loads(const struct row_store *store)
{
	char why[LIMIT_WHY];
	struct tree *t = row_store_load(store, why, sizeof why);

	if (t != NULL)
		tree_free(t);
	return t != NULL;
}

static void
try_numbers(const struct row_store *store, struct row *row, int column)
{
	const int64_t whole = row->values[column].number;

	for (size_t i = 0; i < NUMBERS; i++) {
		row->values[column].number = numbers[i].value;
		if (numbers[i].value != whole && loads(store))
			found[row->table][column] |= UINT32_C(1) << i;
	}
	row->values[column].number = whole;
}

static void
try_texts(const struct row_store *store, struct row *row, int column)
{
	const struct bytes whole = row->values[column].bytes;
	uint8_t letters[LONGEST];

	memset(letters, 'x', sizeof letters);
	for (size_t i = 0; i < TEXTS; i++) {
		row->values[column].bytes = (struct bytes){letters, texts[i].len};
		if (texts[i].len != whole.len && loads(store))
			found[row->table][column] |= UINT32_C(1) << i;
	}
	row->values[column].bytes = whole;
}

static void
try_all(struct row_store *store)
{
	set_numbers_of_the_tree(store);
	for (size_t i = 0; i < store->rows.n; i++) {
		struct row *row = &store->rows.rows[i];
		const struct row_table_info *info = row_table_info(row->table);

		for (int k = 0; k < info->columns; k++) {
			if (info->column[k].kind == 'i')
				try_numbers(store, row, k);
			else
				try_texts(store, row, k);
		}
	}
}

static const char *
expected(const char *column)
{
	for (size_t i = 0; i < sizeof sound / sizeof sound[0]; i++) {
		if (strcmp(sound[i].column, column) == 0)
			return sound[i].values;
	}
	return "";
}

/* False, and a line for the list above, when other values were found sound. */
static bool
is_as_expected(enum row_table table, int column)
{
	const struct row_table_info *info = row_table_info(table);
	const bool number = info->column[column].kind == 'i';
	const uint32_t all = (UINT32_C(1) << (number ? NUMBERS : TEXTS)) - 1;
	char name[64], values[VALUES_TEXT] = "";

	snprintf(name, sizeof name, "%s.%s", info->name, info->column[column].name);
	for (int i = 0; i < (number ? NUMBERS : TEXTS); i++) {
		const size_t len = strlen(values);

		if (found[table][column] & UINT32_C(1) << i)
			snprintf(values + len, sizeof values - len, "%s%s", len > 0 ? " " : "",
			         number ? numbers[i].name : texts[i].name);
	}
	if (found[table][column] == all)
		snprintf(values, sizeof values, "any");
	if (strcmp(values, expected(name)) == 0)
		return true;
	print_message("\t{\"%s\", \"%s\"},\n", name, values);
	return false;
}

TEST(test_what_makes_no_sense_is_refused)
{
	struct rng rng = rng_seeded(52);
	struct fixture *f = fixture_new();
	struct buffer payload = BUFFER(LIMIT_ENTRY);
	struct row_store store = {0};
	unsigned differ = 0;

	for (int i = 1; i <= ENTRIES; i++) {
		buffer_reset(&payload);
		random_entry(&rng, f->tree, &payload);
		tree_apply(f->tree, tree_applied(f->tree) + 1, (struct ballot){1, 1},
		           buffer_view(&payload), &f->out);
		row_store_save(&store, f->tree);
		if (i % BETWEEN == 0)
			try_all(&store);
	}
	for (enum row_table t = 0; t < ROW_TABLES; t++) {
		for (int k = 0; k < row_table_info(t)->columns; k++)
			differ += !is_as_expected(t, k);
	}
	assert_int_equal(differ, 0);
	row_store_free(&store);
	buffer_free(&payload);
	fixture_free(f);
}
