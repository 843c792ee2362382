/* The store: what was acknowledged is there again. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/checksum.h"
#include "cell/store/writer_thread.h"
#include "tests/unit/fake_tree.h"
#include "tests/unit/store_fixture.h"
#include "tests/unit/unit.h"

static struct fixture f;

#define STORE_TEST(test) TEST_ON(test, fixture_setup, fixture_teardown, &f)

static void
assert_entries(uint64_t first, uint64_t last)
{
	char text[32];

	assert_int_equal(f.recovered.entries_n, last + 1 - first);
	for (uint64_t slot = first; slot <= last; slot++) {
		const struct log_entry *e = &f.recovered.entries[slot - first];

		snprintf(text, sizeof text, "entry %d", (int)slot);
		assert_int_equal(e->slot, slot);
		assert_int_equal(e->ballot.round, 3);
		assert_int_equal(e->origin.round, 2);
		assert_true(bytes_equal(e->payload, bytes_of(text)));
		assert_int_equal(e->checksum, checksum(e->payload));
	}
}

STORE_TEST(test_new)
{
	assert_true(fixture_open(&f));
	assert_int_equal(f.recovered.incarnation, 1);
	assert_int_equal(f.recovered.entries_n, 0);
	assert_int_equal(f.recovered.promised.round, 0);
	assert_int_equal(tree_applied(f.tree), 0);
	fixture_close(&f); /* never started */
	fixture_open_started(&f);
	assert_int_equal(f.recovered.incarnation, 2);
	fixture_close(&f);
}

STORE_TEST(test_log_comes_back)
{
	struct px_record promise = {.kind = PX_RECORD_PROMISE,
	                            .ballot = {.round = 3, .replica = 1}};

	fixture_open_started(&f);
	store_log(f.store, 0, &promise, 1);
	fixture_log_slots(&f, 1, 500);
	fixture_wait_persisted(&f, 500);
	assert_true(f.in_order);
	fixture_close(&f);
	assert_true(fixture_open(&f));
	assert_entries(1, 500);
	assert_int_equal(f.recovered.promised.round, 3);
	assert_int_equal(f.recovered.chosen, 499);
	fixture_close(&f);
}

STORE_TEST(test_rows_come_back)
{
	struct row row;
	struct row_list rows = {0};
	const struct row *back;
	uint8_t blob[3000];

	for (size_t i = 0; i < sizeof blob; i++)
		blob[i] = (uint8_t)(i * 7);
	fixture_open_started(&f);
	fixture_log_slots(&f, 1, 2);
	row = fake_node(-5, "odd \xff\x01 name", (struct bytes){blob, sizeof blob});
	row_list_add(&rows, &row);
	row = fake_node(6, "", (struct bytes){0});
	row_list_add(&rows, &row);
	row = (struct row){.table = ROWS_results, .values = {{.number = 9}, {.number = 1}}};
	row_list_add(&rows, &row);
	row.values[1].number = 2;
	row_list_add(&rows, &row);
	row = fake_meta(1);
	row_list_add(&rows, &row);
	store_state(f.store, 1, &rows);
	row = (struct row){.table = ROWS_results,
	                   .deleted = true,
	                   .values = {{.number = 9}, {.number = 2}}};
	row_list_add(&rows, &row);
	row = fake_node(6, "six", bytes_of("6"));
	row_list_add(&rows, &row);
	row = fake_meta(2);
	row_list_add(&rows, &row);
	assert_true(store_state(f.store, 2, &rows) > sizeof blob);
	fixture_wait_saved(&f, 2);
	assert_int_equal(f.unsaved, 0);
	fixture_close(&f);

	assert_true(fixture_open(&f));
	assert_int_equal(fake_tree_rows(f.tree)->n, 4);
	assert_int_equal(tree_applied(f.tree), 2);
	assert_int_equal(f.recovered.applied, 2);
	back = fake_tree_find(f.tree, ROWS_nodes, -5);
	assert_true(bytes_equal(back->values[COL_nodes_name].bytes, bytes_of("odd \xff\x01 name")));
	assert_true(
	    bytes_equal(back->values[COL_nodes_contents].bytes, (struct bytes){blob, sizeof blob}));
	assert_int_equal(back->values[COL_nodes_checksum].number, 5000015);
	back = fake_tree_find(f.tree, ROWS_nodes, 6);
	assert_true(bytes_equal(back->values[COL_nodes_name].bytes, bytes_of("six")));
	assert_int_equal(fake_tree_find(f.tree, ROWS_results, 9)->values[1].number, 1);
	fixture_close(&f);
}

STORE_TEST(test_trim_goes_on_while_idle)
{
	struct px_record trim = {.kind = PX_RECORD_TRIM, .slot = 1000};

	fixture_open_started(&f);
	fixture_log_slots(&f, 1, 1000);
	fixture_save(&f, 1000, bytes_of("x"));
	fixture_wait_saved(&f, 1000);
	store_log(f.store, 1001, &trim, 1);
	fixture_wait_persisted(&f, 1001);
	/* The next transaction waits for the idle work before it. */
	fixture_log(&f, 1001, bytes_of("entry 1001"));
	fixture_log(&f, 1002, bytes_of("entry 1002"));
	fixture_wait_persisted(&f, 1002);
	fixture_log(&f, 1003, bytes_of("entry 1003"));
	fixture_wait_persisted(&f, 1003);
	fixture_log(&f, 1004, bytes_of("entry 1004"));
	fixture_wait_persisted(&f, 1004);
	fixture_close(&f);
	assert_true(fixture_open(&f));
	assert_int_equal(f.recovered.trimmed, 1000);
	assert_entries(1001, 1004);
	fixture_close(&f);
	assert_int_equal(fixture_number(&f, "log.db", "SELECT count(*) FROM entries"), 4);
}

/* A fetched state may leave the log far behind: the base jumps over slots that it never had. */
STORE_TEST(test_trim_jumps)
{
	struct px_record records[2] = {
	    {.kind = PX_RECORD_TRIM, .slot = 5000},
	    {.kind = PX_RECORD_ENTRY,
	     .slot = 5001,
	     .ballot = {3, 1},
	     .origin = {2, 1},
	     .payload = bytes_of("entry 5001"),
	     .checksum = checksum(bytes_of("entry 5001"))},
	};

	fixture_open_started(&f);
	fixture_log_slots(&f, 1, 1000);
	fixture_wait_persisted(&f, 1000);
	fixture_save(&f, 5000, bytes_of("x"));
	fixture_wait_saved(&f, 5000);
	store_log(f.store, 1001, records, 2);
	fixture_close(&f);
	for (int life = 0; life < 2; life++) { /* not all old rows are deleted at once */
		assert_true(fixture_open(&f));
		assert_int_equal(f.recovered.trimmed, 5000);
		assert_entries(5001, 5001);
		fixture_close(&f);
	}
	fixture_open_started(&f);
	for (uint64_t i = 5002; i < 5010; i++) {
		fixture_log(&f, i, bytes_of("x"));
		fixture_wait_persisted(&f, i);
	}
	fixture_close(&f);
	assert_int_equal(fixture_number(&f, "log.db", "SELECT count(*) FROM entries"), 9);
}

static void
put_mark(uint8_t replica, uint64_t incarnation, uint64_t slot)
{
	fixture_put(&f, &(struct px_record){.kind = PX_RECORD_MARK,
	                                    .mark = {.replica = replica,
	                                             .incarnation = incarnation,
	                                             .start = UINT64_MAX - replica,
	                                             .ballot = {9, replica},
	                                             .slot = slot}});
}

STORE_TEST(test_marks)
{
	fixture_open_started(&f);
	put_mark(2, 1, 10);
	put_mark(200, 7, UINT64_MAX);
	put_mark(2, 2, 11);
	fixture_close(&f);
	assert_true(fixture_open(&f));
	assert_int_equal(f.recovered.marks_n, 2);
	assert_int_equal(f.recovered.marks[0].replica, 2);
	assert_int_equal(f.recovered.marks[0].incarnation, 2);
	assert_int_equal(f.recovered.marks[0].slot, 11);
	assert_int_equal(f.recovered.marks[1].replica, 200);
	assert_true(f.recovered.marks[1].start == UINT64_MAX - 200);
	assert_int_equal(f.recovered.marks[1].ballot.round, 9);
	assert_int_equal(f.recovered.marks[1].ballot.replica, 200);
	assert_true(f.recovered.marks[1].slot == UINT64_MAX);
	fixture_close(&f);
}

STORE_TEST(test_leases)
{
	fixture_open_started(&f);
	fixture_put_lease(&f, 500);
	fixture_put_lease(&f, 2000);
	fixture_close(&f);
	fixture_open_started(&f); /* granted 2 s, then stopped: those may still stand */
	assert_int_equal(span_to_ms(f.recovered.wait), 2000);
	fixture_close(&f);
	fixture_open_started(&f); /* the start between says nothing about them */
	assert_int_equal(span_to_ms(f.recovered.wait), 2000);
	fixture_put_lease(&f, 0);
	fixture_close(&f);
	fixture_open_started(&f); /* the last one recorded that none stands */
	assert_int_equal(f.recovered.wait.ns, 0);
	fixture_close(&f);
	fixture_open_started(&f); /* which counts only for the next */
	assert_int_equal(span_to_ms(f.recovered.wait), 2000);
	for (int life = 0; life < 20; life++) {
		fixture_put_lease(&f, 100 + life);
		fixture_close(&f);
		fixture_open_started(&f);
	}
	fixture_close(&f);
	assert_true(fixture_number(&f, "log.db", "SELECT count(*) FROM leases") <= 3);
	assert_true(fixture_open(&f));
	assert_int_equal(span_to_ms(f.recovered.wait), 2000);
	fixture_close(&f);
}

/* ---- no thread can be made ---- */

/* The linker puts this one in the place of writer_thread_start. */
int __real_writer_thread_start(struct writer_thread *w);
int __wrap_writer_thread_start(struct writer_thread *w);

static int starts_left = INT_MAX;

int
__wrap_writer_thread_start(struct writer_thread *w)
{
	return starts_left-- > 0 ? __real_writer_thread_start(w) : -EAGAIN;
}

static void
on_closed_at_once(void *user)
{
	((struct fixture *)user)->closed = true;
}

STORE_TEST(test_start_without_threads)
{
	fixture_open_started(&f);
	fixture_log_slots(&f, 1, 3);
	fixture_close(&f);
	for (int threads = 0; threads < 2; threads++) {
		assert_true(fixture_open(&f));
		starts_left = threads;
		assert_int_equal(fixture_try_start(&f), -EAGAIN);
		starts_left = INT_MAX;
		store_close(f.store, on_closed_at_once, &f);
		assert_true(f.closed);
		tree_free(f.tree);
		store_recovered_free(&f.recovered);
	}
	fixture_open_started(&f);
	assert_int_equal(f.recovered.entries_n, 3);
	assert_false(f.failed);
	fixture_close(&f);
}
