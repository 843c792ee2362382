/* A tree that is written to rows and loaded again, over and over, behaves as one that never was:
 * the same answers, notes, digests, reads and rows, through thousands of random commands. And a
 * tree that is fed rubbish stays sound. A failure prints its seed. */
#include <stdio.h>
#include "tests/unit/row_store.h"
#include "tests/unit/tree_fixture.h"
#include "tests/unit/tree_random.h"

enum { SEEDS = 16, ENTRIES = 1500, ENDING = 2 };

struct side {
	struct tree *tree;
	struct tree_outcome out;
	struct row_store store;
};

static void
side_free(struct side *s)
{
	tree_free(s->tree);
	tree_outcome_free(&s->out);
	row_store_free(&s->store);
}

static void
assert_same_answers(const struct tree_outcome *a, const struct tree_outcome *b)
{
	assert_int_equal(a->answers_n, b->answers_n);
	for (size_t i = 0; i < a->answers_n; i++) {
		const struct tree_answer *x = &a->answers[i], *y = &b->answers[i];

		assert_int_equal(x->rc, y->rc);
		assert_int_equal(x->session, y->session);
		assert_int_equal(x->number, y->number);
		assert_int_equal(x->replayed, y->replayed);
		assert_int_equal(x->kept, y->kept);
		assert_true(bytes_equal(x->result, y->result));
	}
}

static void
assert_same_notes(const struct tree_outcome *a, const struct tree_outcome *b)
{
	assert_int_equal(a->notes_n, b->notes_n);
	for (size_t i = 0; i < a->notes_n; i++) {
		const struct tree_note *x = &a->notes[i], *y = &b->notes[i];

		assert_int_equal(x->kind, y->kind);
		assert_int_equal(x->node, y->node);
		assert_int_equal(x->parent, y->parent);
		assert_int_equal(x->session, y->session);
		assert_int_equal(x->fence, y->fence);
		assert_int_equal(x->lock_generation, y->lock_generation);
		assert_int_equal(x->seconds, y->seconds);
		assert_int_equal(x->index, y->index);
		assert_int_equal(x->digest, y->digest);
	}
}

static void
assert_same_read(struct rng *rng, const struct side *a, const struct side *b)
{
	struct buffer from_a = BUFFER(LIMIT_FRAME), from_b = BUFFER(LIMIT_FRAME);
	uint64_t session = random_session(rng, a->tree);
	struct op op;

	random_read(rng, a->tree, &op);
	assert_int_equal(tree_read(a->tree, session, 1, &op, &from_a),
	                 tree_read(b->tree, session, 1, &op, &from_b));
	assert_true(bytes_equal(buffer_view(&from_a), buffer_view(&from_b)));
	buffer_free(&from_a);
	buffer_free(&from_b);
}

static void
assert_sound(const struct tree *t, uint64_t seed)
{
	const char *broken = tree_check(t);

	if (broken != NULL)
		fail_msg("seed %llu, index %llu: %s", (unsigned long long)seed,
		         (unsigned long long)tree_applied(t), broken);
}

static void
apply_to_both(struct side *a, struct side *b, struct bytes payload)
{
	uint64_t index = tree_applied(a->tree) + 1;
	struct ballot origin = {1 + index / 100, (uint8_t)(1 + index % 3)};

	assert_int_equal(tree_origin(a->tree).round, tree_origin(b->tree).round);
	assert_int_equal(tree_origin(a->tree).replica, tree_origin(b->tree).replica);
	assert_int_equal(tree_apply(a->tree, index, origin, payload, &a->out),
	                 tree_apply(b->tree, index, origin, payload, &b->out));
	assert_same_answers(&a->out, &b->out);
	assert_same_notes(&a->out, &b->out);
	assert_int_equal(tree_digest(a->tree), tree_digest(b->tree));
	assert_int_equal(tree_slice_digest(a->tree), tree_slice_digest(b->tree));
}

static void
reload(struct side *s, uint64_t seed)
{
	char why[200];

	row_store_save(&s->store, s->tree);
	tree_free(s->tree);
	s->tree = row_store_load(&s->store, why, sizeof why);
	if (s->tree == NULL)
		fail_msg("seed %llu: %s", (unsigned long long)seed, why);
	tree_set_ending(s->tree, ENDING);
}

static void
one_run(uint64_t seed, unsigned *decided)
{
	struct rng rng = rng_seeded(seed);
	struct side steady = {.tree = tree_new("local")}, reloaded = {.tree = tree_new("local")};
	struct buffer payload = BUFFER(LIMIT_ENTRY);

	tree_set_ending(steady.tree, ENDING);
	tree_set_ending(reloaded.tree, ENDING);
	for (int i = 0; i < ENTRIES; i++) {
		buffer_reset(&payload);
		random_entry(&rng, steady.tree, &payload);
		if (rng_chance(&rng, 20))
			random_damage(&rng, &payload);
		apply_to_both(&steady, &reloaded, buffer_view(&payload));
		assert_sound(steady.tree, seed);
		assert_same_read(&rng, &steady, &reloaded);
		for (size_t k = 0; k < steady.out.answers_n; k++)
			decided[steady.out.answers[k].op] += steady.out.answers[k].rc == RC_OK;
		if (rng_chance(&rng, 100))
			row_store_save(&reloaded.store, reloaded.tree);
		if (rng_chance(&rng, 30))
			reload(&reloaded, seed);
	}
	row_store_save(&steady.store, steady.tree);
	row_store_save(&reloaded.store, reloaded.tree);
	assert_true(row_store_equal(&steady.store, &reloaded.store));
	side_free(&steady);
	side_free(&reloaded);
	buffer_free(&payload);
}

static void
test_reloaded_trees_go_on_as_before(void **state)
{
	unsigned decided[256] = {0};

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		one_run(seed, decided);
		/* Every command that changes anything succeeded often enough to mean something. */
#define X(code, name, class, urgency, result)                        \
	if (OP_CLASS_##class != OP_CLASS_READ && decided[code] < 50) \
		fail_msg("%s succeeded %u times only", #name, decided[code]);
	WIRE_OPS(X)
#undef X
}

static enum rc
apply_to(struct tree *t, struct bytes payload, struct tree_outcome *out)
{
	return tree_apply(t, tree_applied(t) + 1, (struct ballot){1, 1}, payload, out);
}

/* Nothing but damaged entries: whatever decodes is applied, the rest is refused, all stays sound.
 */
static void
test_damaged_entries(void **state)
{
	struct rng rng = rng_seeded(77);
	struct fixture *f = fixture_new();
	struct buffer payload = BUFFER(LIMIT_ENTRY);
	unsigned refused = 0, applied = 0;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		buffer_reset(&payload);
		random_entry(&rng, f->tree, &payload);
		for (uint64_t n = rng_below(&rng, 3); n > 0 && payload.len > 0; n--)
			random_damage(&rng, &payload);
		if (apply_to(f->tree, buffer_view(&payload), &f->out) == RC_OK)
			applied++;
		else
			refused++;
		assert_sound(f->tree, 77);
	}
	assert_true(refused > 1000 && applied > 1000);
	buffer_free(&payload);
	fixture_free(f);
}

static void
test_random_bytes(void **state)
{
	struct rng rng = rng_seeded(78);
	struct fixture *f = fixture_new();
	uint8_t bytes[200];

	(void)state;
	for (int i = 0; i < 20000; i++) {
		size_t len = rng_below(&rng, sizeof bytes + 1);

		for (size_t k = 0; k < len; k++)
			bytes[k] = (uint8_t)(rng_chance(&rng, 500) ? rng_next(&rng) : 0);
		apply_to(f->tree, (struct bytes){bytes, len}, &f->out);
	}
	assert_sound(f->tree, 78);
	fixture_free(f);
}

/* Rows with one column changed, a row missing or a row twice: refused, or else the tree is sound.
 */
static void
damage_row(struct rng *rng, struct row_store *store)
{
	size_t at = rng_below(rng, store->rows.n);
	struct row *row = &store->rows.rows[at], again = *row;
	const struct row_table_info *info = row_table_info(row->table);
	int column = (int)rng_below(rng, (uint64_t)info->columns);

	if (rng_chance(rng, 100)) {
		row_list_add(&store->rows, &again);
	} else if (info->column[column].kind == 'i') {
		row->values[column].number =
		    rng_chance(rng, 700) ? (int64_t)rng_below(rng, 12) : (int64_t)rng_next(rng);
	} else if (row->values[column].bytes.len > 0) {
		row->values[column].bytes.len = rng_below(rng, row->values[column].bytes.len);
	}
}

static void
test_damaged_rows(void **state)
{
	struct rng rng = rng_seeded(79);
	struct side s = {.tree = tree_new("local")};
	struct buffer payload = BUFFER(LIMIT_ENTRY);
	unsigned refused = 0, taken = 0;
	char why[200];

	(void)state;
	for (int i = 0; i < 4000; i++) {
		struct row_store copy;
		struct tree *t;

		buffer_reset(&payload);
		random_entry(&rng, s.tree, &payload);
		apply_to(s.tree, buffer_view(&payload), &s.out);
		row_store_save(&s.store, s.tree);
		row_store_copy(&copy, &s.store);
		damage_row(&rng, &copy);
		t = row_store_load(&copy, why, sizeof why);
		if (t != NULL)
			assert_sound(t, 79);
		*(t != NULL ? &taken : &refused) += 1;
		tree_free(t);
		row_store_free(&copy);
	}
	assert_true(refused > 1000 && taken > 100);
	buffer_free(&payload);
	side_free(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_reloaded_trees_go_on_as_before),
	    cmocka_unit_test(test_damaged_entries),
	    cmocka_unit_test(test_random_bytes),
	    cmocka_unit_test(test_damaged_rows),
	};

	return cmocka_run_group_tests_name("tree model", tests, NULL, NULL);
}
