/* The members of the cell, digests through the log, and who is an administrator. */
#include <stdio.h>
#include "tests/unit/row_store.h"
#include "tests/unit/tree_fixture.h"

/* ---- lists ---- */

/* A list of members as it is written here: "1 voter a:1, 2 learner b:1". The key is the id. */
struct list {
	struct buffer packed;
	uint32_t count;
};

static uint8_t
role_of(const char *name)
{
	return name[0] == 'v' ? MEMBER_VOTER : name[0] == 'l' ? MEMBER_LEARNER : MEMBER_REMOVED;
}

static void
list_add(struct list *l, uint8_t id, uint8_t role, const char *address, uint8_t first_of_key)
{
	uint8_t key[32] = {first_of_key};
	struct member m = {.id = id,
	                   .role = role,
	                   .address = bytes_of(address),
	                   .key = {key, sizeof key}};

	wire_put_member(&l->packed, &m);
	l->count++;
}

static struct list
list_of(const char *text)
{
	struct list l = {.packed = BUFFER(LIMIT_FRAME)};
	char role[16], address[16];
	unsigned id;
	int len;

	while (sscanf(text, "%u %15s %15[^,]%n", &id, role, address, &len) == 3) {
		list_add(&l, (uint8_t)id, role_of(role), address, (uint8_t)id);
		text += len + (text[len] == ',');
	}
	return l;
}

static struct wire_list
view(const struct list *l)
{
	return (struct wire_list){buffer_view(&l->packed), l->count};
}

static void
assert_members(const struct fixture *f, const char *want)
{
	static const char *const roles[] = {"", "voter", "learner", "removed"};
	struct buffer told = BUFFER(LIMIT_FRAME);
	struct member m = {0};

	while (tree_member_after(f->tree, m.id, &m))
		buffer_printf(&told, "%s%u %s %.*s", told.len > 0 ? ", " : "", m.id, roles[m.role],
		              (int)m.address.len, (const char *)m.address.data);
	buffer_put_u8(&told, 0);
	assert_string_equal((char *)told.data, want);
	buffer_free(&told);
}

static enum rc
begin_with(struct fixture *f, const char *text)
{
	struct list l = list_of(text);
	enum rc rc = run(f, 0, OP(begin_epoch, .ballot = {1, 1}, .members = view(&l)));

	buffer_free(&l.packed);
	return rc;
}

static enum rc
set_list(struct fixture *f, uint64_t version, struct list *l)
{
	const struct op *op = OP(set_members, .version = version, .members = view(l));
	enum rc foreseen = tree_check_members(f->tree, &op->set_members), rc = run(f, 0, op);

	assert_int_equal(rc, foreseen);
	buffer_free(&l->packed);
	return rc;
}

static enum rc
set(struct fixture *f, const char *text)
{
	struct list l = list_of(text);

	return set_list(f, tree_members_version(f->tree), &l);
}

static int
cell_of_three(void **state)
{
	struct fixture *f = fixture_empty();

	assert_int_equal(begin_with(f, "1 voter a:1, 2 voter b:1, 3 voter c:1"), RC_OK);
	assert_int_equal(new_session(f, "reader"), READER);
	*state = f;
	return 0;
}

#define CELL_TEST(test) TEST_WITH(test, cell_of_three, tree_teardown)

/* ---- the first list ---- */

TEST(test_the_first_epoch_brings_the_first_list)
{
	struct fixture *f = fixture_empty();
	struct member m;

	assert_false(tree_member_after(f->tree, 0, &m));
	assert_int_equal(begin_with(f, "1 voter a:1, 2 voter b:1, 3 voter c:1"), RC_OK);
	assert_members(f, "1 voter a:1, 2 voter b:1, 3 voter c:1");
	assert_int_equal(tree_members_version(f->tree), 0);
	assert_int_equal(noted(f, TREE_MEMBERS_CHANGED)->index, 0);
	assert_true(tree_member_after(f->tree, 1, &m));
	assert_int_equal(m.id, 2);
	assert_int_equal(m.key.len, 32);
	assert_int_equal(m.key.data[0], 2);
	assert_int_equal(begin_with(f, "7 voter z:1"), RC_OK);
	assert_null(noted(f, TREE_MEMBERS_CHANGED));
	assert_members(f, "1 voter a:1, 2 voter b:1, 3 voter c:1");
	fixture_free(f);
}

TEST(test_a_first_list_may_come_later)
{
	struct fixture *f = fixture_new();

	assert_members(f, "");
	assert_int_equal(set(f, "1 voter a:1"), RC_CANCELED);
	assert_int_equal(begin_with(f, "1 voter a:1"), RC_OK);
	assert_members(f, "1 voter a:1");
	fixture_free(f);
}

TEST(test_an_epoch_whose_list_is_none_does_not_begin)
{
	static const char *const bad[] = {"1 learner a:1", "1 voter a:1, 1 voter b:1",
	                                  "1 voter a:1, 2 voter a:1", "1 voter a:1, 2 removed b:1"};
	struct fixture *f = fixture_empty();

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(begin_with(f, bad[i]), RC_INVAL);
		assert_int_equal(tree_epoch(f->tree), 0);
		assert_members(f, "");
	}
	fixture_free(f);
}

TEST(test_a_cell_in_one_process_has_no_addresses)
{
	struct fixture *f = fixture_empty();
	struct buffer packed = BUFFER(LIMIT_FRAME);
	struct member m = {.id = 1, .role = MEMBER_VOTER};

	wire_put_member(&packed, &m);
	assert_int_equal(run(f, 0, OP(begin_epoch, .members = {buffer_view(&packed), 1})), RC_OK);
	assert_members(f, "1 voter ");
	buffer_free(&packed);
	fixture_free(f);
}

/* ---- the next ones ---- */

CELL_TEST(test_a_list_replaces_the_one_it_names)
{
	struct fixture *f = *state;
	struct list stale = list_of("1 voter a:1, 2 voter b:1");
	uint64_t version;

	assert_int_equal(set(f, "1 voter a:1, 2 voter b:1, 3 voter c:1, 4 learner d:1"), RC_OK);
	version = tree_members_version(f->tree);
	assert_int_equal(version, tree_applied(f->tree));
	assert_int_equal(noted(f, TREE_MEMBERS_CHANGED)->index, version);
	assert_int_equal(set_list(f, 0, &stale), RC_CANCELED);
	assert_null(noted(f, TREE_MEMBERS_CHANGED));
	assert_int_equal(tree_members_version(f->tree), version);
	assert_members(f, "1 voter a:1, 2 voter b:1, 3 voter c:1, 4 learner d:1");
	assert_int_equal(set(f, "1 voter a:1, 2 voter b:1, 3 voter c:1, 4 voter d:1"), RC_OK);
	assert_int_equal(set(f, "2 voter b:1, 3 voter c:2, 4 voter d:1"), RC_OK);
	assert_members(f, "1 removed a:1, 2 voter b:1, 3 voter c:2, 4 voter d:1");
}

/* Paxos, which reads it in the log, looks for it alone in its entry. */
CELL_TEST(test_a_change_stands_alone)
{
	struct fixture *f = *state;
	struct list l = list_of("1 voter a:1, 2 voter b:1, 3 voter c:1, 4 learner d:1");
	struct command c = {.stamp_ns = 1};

	entry_add(f, &c, OP(set_members, .members = view(&l)));
	entry_add(f, &c, OP(check_digest, .index = 1));
	assert_int_equal(entry_apply(f), RC_OK);
	assert_int_equal(f->out.answers_n, 2);
	assert_int_equal(f->out.answers[0].rc, RC_INVAL);
	assert_members(f, "1 voter a:1, 2 voter b:1, 3 voter c:1");
	assert_int_equal(set_list(f, 0, &l), RC_OK);
}

static bool
goes_on(const struct fixture *f, const char *text)
{
	struct list l = list_of(text);
	bool on = tree_members_go_on(f->tree, view(&l));

	buffer_free(&l.packed);
	return on;
}

/* What others tell that they have applied may be many changes later, but of the same cell. */
CELL_TEST(test_a_later_list)
{
	struct fixture *f = *state;
	struct list other = {.packed = BUFFER(LIMIT_FRAME)};

	assert_int_equal(set(f, "2 voter b:1, 3 voter c:1"), RC_OK);
	assert_true(goes_on(f, "1 removed a:1, 2 voter b:1, 3 voter c:1"));
	assert_true(goes_on(f, "1 removed a:1, 2 removed b:1, 3 removed c:1, 4 removed d:1, "
	                       "5 voter b:1, 6 learner c:1, 7 voter e:1"));
	assert_false(goes_on(f, "1 removed a:1, 3 voter c:1")); /* where is 2? */
	assert_false(goes_on(f, "1 voter a:1, 2 voter b:1, 3 voter c:1"));
	assert_false(goes_on(f, "1 removed a:1, 2 learner b:1, 3 learner c:1"));
	assert_false(goes_on(f, "1 removed a:1, 2 voter b:1, 3 voter c:1, 3 voter d:1"));
	assert_false(goes_on(f, ""));
	list_add(&other, 1, MEMBER_REMOVED, "a:1", 1);
	list_add(&other, 2, MEMBER_VOTER, "b:1", 9); /* another key */
	list_add(&other, 3, MEMBER_VOTER, "c:1", 3);
	assert_false(tree_members_go_on(f->tree, view(&other)));
	buffer_free(&other.packed);
}

/* Of many removed ones the list keeps the last: some that we know may be forgotten there. */
CELL_TEST(test_a_later_list_that_is_full)
{
	struct fixture *f = *state;
	struct list l = {.packed = BUFFER(LIMIT_FRAME)};

	for (int id = 0; id < LIMIT_MEMBERS - 1; id++)
		list_add(&l, (uint8_t)(100 + id), MEMBER_REMOVED, "x:1", (uint8_t)(100 + id));
	assert_false(tree_members_go_on(f->tree, view(&l))); /* nobody votes */
	list_add(&l, 200, MEMBER_VOTER, "y:1", 200);
	assert_true(tree_members_go_on(f->tree, view(&l)));
	buffer_free(&l.packed);
}

CELL_TEST(test_only_a_master_changes_members)
{
	struct fixture *f = *state;
	struct list l = list_of("1 voter a:1, 2 voter b:1");

	assert_int_equal(run(f, READER, OP(set_members, .members = view(&l))), RC_PERM);
	buffer_free(&l.packed);
}

CELL_TEST(test_at_most_one_voter_comes_or_goes)
{
	struct fixture *f = *state;

	assert_int_equal(set(f, "1 voter a:1"), RC_INVAL);
	assert_int_equal(set(f, "1 voter a:1, 2 voter b:1, 3 learner c:1, 4 voter d:1"), RC_INVAL);
	assert_int_equal(set(f, "1 voter a:1, 2 voter b:1, 3 voter c:1, 4 voter d:1, 5 voter e:1"),
	                 RC_INVAL);
	assert_int_equal(set(f,
	                     "1 voter a:1, 2 voter b:1, 3 voter c:1, 4 learner d:1, 5 learner e:1"),
	                 RC_OK);
	assert_int_equal(set(f, "1 voter a:1, 2 voter b:1, 4 learner d:1, 5 learner e:1"), RC_OK);
	assert_int_equal(set(f, "1 voter a:1"), RC_OK); /* learners may go together */
	assert_int_equal(set(f, "1 learner a:1"), RC_INVAL);
	assert_int_equal(set(f, ""), RC_INVAL);
}

CELL_TEST(test_an_id_is_never_used_again)
{
	struct fixture *f = *state;

	assert_int_equal(set(f, "1 voter a:1, 2 voter b:1, 3 voter c:1, 9 learner d:1"), RC_OK);
	assert_int_equal(set(f, "1 voter a:1, 2 voter b:1, 3 removed c:1"), RC_OK);
	assert_members(f, "1 voter a:1, 2 voter b:1, 3 removed c:1, 9 removed d:1");
	assert_int_equal(set(f, "1 voter a:1, 2 voter b:1, 3 learner c:1"), RC_INVAL);
	assert_int_equal(set(f, "1 voter a:1, 2 voter b:1, 8 learner e:1"), RC_INVAL);
	assert_int_equal(set(f, "1 voter a:1, 2 voter b:1, 9 learner d:1"), RC_INVAL);
	assert_int_equal(set(f, "1 voter a:1, 2 voter b:1, 10 removed e:1"), RC_INVAL);
	assert_int_equal(set(f, "1 voter a:1, 2 voter b:1, 10 learner d:1"), RC_OK);
	assert_members(f, "1 voter a:1, 2 voter b:1, 3 removed c:1, 9 removed d:1, 10 learner d:1");
}

CELL_TEST(test_a_key_belongs_to_one_member)
{
	struct fixture *f = *state;
	struct list l = list_of("1 voter a:1, 2 voter b:1, 3 voter c:1");

	list_add(&l, 4, MEMBER_LEARNER, "d:1", 3);
	assert_int_equal(set_list(f, 0, &l), RC_INVAL);
	l = list_of("1 voter a:1, 2 voter b:1");
	list_add(&l, 3, MEMBER_VOTER, "c:1", 33);
	assert_int_equal(set_list(f, 0, &l), RC_INVAL);
	l = list_of("1 voter a:1, 2 voter b:1");
	list_add(&l, 4, MEMBER_LEARNER, "d:1", 3); /* 3 would be removed, but remembered */
	assert_int_equal(set_list(f, 0, &l), RC_INVAL);
}

CELL_TEST(test_members_have_a_limit)
{
	struct fixture *f = *state;
	struct list l = list_of("1 voter a:1, 2 voter b:1, 3 voter c:1");
	char address[16];

	for (uint8_t id = 4; id <= LIMIT_REPLICAS + 1; id++) {
		snprintf(address, sizeof address, "d:%u", id);
		list_add(&l, id, MEMBER_LEARNER, address, id);
	}
	assert_int_equal(set_list(f, 0, &l), RC_INVAL);
}

CELL_TEST(test_the_first_removed_is_forgotten_first)
{
	struct fixture *f = *state;
	struct member m = {0};
	char text[80];
	size_t n = 0;

	/* 3 goes last, so it must be remembered though its id is small. */
	for (unsigned id = 4; id <= LIMIT_MEMBERS + 10; id++) {
		snprintf(text, sizeof text, "1 voter a:1, 2 voter b:1, %s%u learner d:%u",
		         id < LIMIT_MEMBERS + 10 ? "3 voter c:1, " : "", id, id);
		assert_int_equal(set(f, text), RC_OK);
	}
	for (; tree_member_after(f->tree, m.id, &m); n++)
		assert_true(m.id <= 3 || m.id > 13);
	assert_int_equal(n, LIMIT_MEMBERS);
	assert_true(tree_member_after(f->tree, 2, &m));
	assert_int_equal(m.id, 3);
	assert_int_equal(m.role, MEMBER_REMOVED);
}

CELL_TEST(test_the_greatest_id_is_not_forgotten)
{
	struct fixture *f = *state;
	struct list l = list_of("1 voter a:1, 2 voter b:1, 3 voter c:1");
	struct member m;

	for (unsigned id = 4; id < LIMIT_MEMBERS + 5; id++) {
		char text[80];

		snprintf(text, sizeof text,
		         "1 voter a:1, 2 voter b:1, 3 voter c:1, %u learner d:%u", id, id);
		assert_int_equal(set(f, text), RC_OK);
	}
	assert_int_equal(set_list(f, tree_members_version(f->tree), &l), RC_OK);
	assert_true(tree_member_after(f->tree, LIMIT_MEMBERS + 3, &m));
	assert_int_equal(m.id, LIMIT_MEMBERS + 4);
}

CELL_TEST(test_the_list_is_in_the_rows)
{
	struct fixture *f = *state;
	struct row_store store = {0};
	uint64_t version;
	char why[200];

	assert_int_equal(set(f, "1 voter a:1, 2 voter b:1"), RC_OK);
	version = tree_members_version(f->tree);
	row_store_save(&store, f->tree);
	tree_free(f->tree);
	f->tree = row_store_load(&store, why, sizeof why);
	assert_non_null(f->tree);
	assert_members(f, "1 voter a:1, 2 voter b:1, 3 removed c:1");
	assert_int_equal(tree_members_version(f->tree), version);
	assert_int_equal(tree_origin(f->tree).round, 1);
	assert_int_equal(tree_origin(f->tree).replica, 1);
	assert_int_equal(set(f, "1 voter a:1, 2 voter b:1, 3 voter c:1"), RC_INVAL);
	row_store_free(&store);
}

/* ---- digests ---- */

CELL_TEST(test_a_digest_is_told)
{
	struct fixture *f = *state;
	const struct tree_note *told;

	assert_int_equal(run(f, 0, OP(check_digest, .index = 2, .digest = 99)), RC_OK);
	told = noted(f, TREE_DIGEST_CHECKED);
	assert_int_equal(told->index, 2);
	assert_int_equal(told->digest, 99);
	assert_int_equal(run(f, READER, OP(check_digest, .index = 2)), RC_PERM);
}

/* A tree with one row changed behind its back. */
static struct tree *
flipped(const struct row_store *store, size_t row, int column)
{
	struct row_store copy;
	struct row_value *v;
	struct tree *t;
	char why[200];

	row_store_copy(&copy, store);
	v = &copy.rows.rows[row].values[column];
	v->number += 1;
	t = row_store_load(&copy, why, sizeof why);
	if (t == NULL)
		fail_msg("%s", why);
	row_store_free(&copy);
	return t;
}

static size_t
node_row(const struct row_store *store, uint64_t number)
{
	for (size_t i = 0; i < store->rows.n; i++) {
		if (store->rows.rows[i].table == ROWS_nodes &&
		    store->rows.rows[i].values[COL_nodes_node].number == (int64_t)number)
			return i;
	}
	fail_msg("no row of node %llu", (unsigned long long)number);
	return 0;
}

/* How many check_digest it takes until two trees that differ are found out. */
static int
rounds_until_found(struct tree *a, struct tree *b, int most)
{
	struct fixture fa = {.tree = a, .packed = BUFFER(LIMIT_ENTRY)}, fb = fa;
	int n = 0;

	fb.tree = b;
	while (n < most && tree_slice_digest(a) == tree_slice_digest(b)) {
		assert_int_equal(run(&fa, 0, OP(check_digest, .index = 1)), RC_OK);
		assert_int_equal(run(&fb, 0, OP(check_digest, .index = 1)), RC_OK);
		n++;
	}
	tree_outcome_free(&fa.out);
	tree_outcome_free(&fb.out);
	buffer_free(&fa.packed);
	buffer_free(&fb.packed);
	return n;
}

/* Whatever node it is, one round through all of them finds it. */
CELL_TEST(test_slices_go_through_all_nodes)
{
	enum { FILES = 500, ROUND = FILES / TREE_SLICE + 1 };
	struct fixture *f = *state;
	struct row_store store = {0};
	uint64_t files[FILES];
	char name[16], why[200];

	for (int i = 0; i < FILES; i++) {
		snprintf(name, sizeof name, "f%d", i);
		files[i] = new_file(f, NODE_ROOT, name);
	}
	/* Numbers far apart, as they are in a restored cell. */
	assert_int_equal(run(f, 0, OP(restore, .jump = 1ull << 40)), RC_OK);
	row_store_save(&store, f->tree);
	for (int i = 0; i < FILES; i += 7) {
		struct tree *sound = row_store_load(&store, why, sizeof why);
		struct tree *bad = flipped(&store, node_row(&store, files[i]), COL_nodes_mtime_ns);

		assert_int_equal(tree_digest(sound), tree_digest(bad));
		assert_in_range(rounds_until_found(sound, bad, 2 * ROUND), 0, ROUND);
		tree_free(sound);
		tree_free(bad);
	}
	row_store_free(&store);
}

CELL_TEST(test_slices_cover_locks_and_counters)
{
	struct fixture *f = *state;
	uint64_t file = new_file(f, NODE_ROOT, "f");
	struct row_store store = {0};

	assert_int_equal(acquire(f, READER, 1, 1, file, LOCK_SHARED), RC_OK);
	row_store_save(&store, f->tree);
	for (size_t i = 0; i < store.rows.n; i++) {
		enum row_table table = store.rows.rows[i].table;
		int column = table == ROWS_holders ? COL_holders_pid
		             : table == ROWS_meta  ? COL_meta_last_fence
		                                   : -1;
		struct tree *t;

		if (column < 0)
			continue;
		t = flipped(&store, i, column);
		assert_int_not_equal(tree_slice_digest(t), tree_slice_digest(f->tree));
		tree_free(t);
	}
	row_store_free(&store);
}
