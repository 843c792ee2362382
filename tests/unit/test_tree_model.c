/* A tree that is written to rows and loaded again, over and over, behaves as one that never was:
 * the same answers, notes, digests, reads and rows, through thousands of random commands. And a
 * tree that is fed rubbish stays sound. A failure prints its seed. */
#include <stdio.h>
#include "tests/unit/row_store.h"
#include "tests/unit/tree_fixture.h"
#include "tests/unit/tree_random.h"

enum { SEEDS = 80, ENTRIES = 1500, ENDING = 2 };

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
		assert_int_equal(x->index, y->index);
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

/* A tree that was loaded may say that a directory has changed later than it has, never earlier. */
static void
take_index(struct buffer *from_loaded, struct bytes whole)
{
	struct result loaded, other;

	assert_int_equal(wire_get_result(RESULT_usage, buffer_view(from_loaded), &loaded), RC_OK);
	assert_int_equal(wire_get_result(RESULT_usage, whole, &other), RC_OK);
	assert_true(loaded.usage.index >= other.usage.index);
	loaded.usage.index = other.usage.index;
	from_loaded->len = 0;
	wire_put_result(from_loaded, &loaded);
}

static void
assert_same_read(struct rng *rng, const struct side *a, const struct side *b)
{
	struct buffer from_a = BUFFER(LIMIT_FRAME), from_b = BUFFER(LIMIT_FRAME);
	const struct requester who = {.session = random_session(rng, a->tree)};
	struct op op;
	enum rc rc;

	random_read(rng, a->tree, &op);
	rc = tree_read_encoded(a->tree, &who, 1, &op, &from_a);
	assert_int_equal(tree_read_encoded(b->tree, &who, 1, &op, &from_b), rc);
	if (rc == RC_OK && op.code == OP_get_usage)
		take_index(&from_b, buffer_view(&from_a));
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

static bool
declares(const struct command *c, uint64_t node)
{
	struct cursor at = cursor_of(c->keys.packed);
	struct node_key key;

	while (wire_next_node_key(&at, &key))
		if (key.node == node)
			return true;
	return false;
}

/* Nodes from `created` on were made by the command: nobody knows them. */
static void
assert_note_declared(const struct command *c, const struct tree_note *n, uint64_t created)
{
	if (n->kind == TREE_NODE_CHANGED || n->kind == TREE_NODE_DELETED)
		assert_true(n->node >= created || declares(c, n->node));
	if (n->kind == TREE_NODE_CREATED || n->kind == TREE_NODE_DELETED)
		assert_true(n->parent >= created || declares(c, n->parent));
}

/* A command that declares what it changes has changed nothing else but a node that it has made. */
static void
assert_declared(struct bytes payload, const struct tree_outcome *out)
{
	uint64_t created = UINT64_MAX;
	struct command c;
	struct cursor at;
	struct entry e;

	if (out->answers_n != 1)
		return;
	assert_int_equal(wire_get_entry(payload, &e), RC_OK);
	at = cursor_of(e.commands.packed);
	assert_true(wire_next_command(&at, &c));
	for (size_t i = 0; c.bounded && i < out->notes_n; i++) {
		assert_int_not_equal(out->answers[0].rc, RC_AGAIN);
		if (out->notes[i].kind == TREE_NODE_CREATED && out->notes[i].node < created)
			created = out->notes[i].node;
		assert_note_declared(&c, &out->notes[i], created);
	}
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
	assert_declared(payload, &a->out);
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
one_run(uint64_t seed, unsigned *decided, unsigned *again)
{
	struct rng rng = rng_seeded(seed);
	struct side steady = {.tree = tree_new("local")}, reloaded = {.tree = tree_new("local")};
	struct buffer payload = BUFFER(LIMIT_ENTRY);

	tree_set_ending(steady.tree, ENDING);
	tree_set_ending(reloaded.tree, ENDING);
	for (int i = 0; i < ENTRIES; i++) {
		buffer_reset(&payload);
		random_declaring_entry(&rng, steady.tree, &payload);
		if (rng_chance(&rng, 20))
			random_damage(&rng, &payload);
		apply_to_both(&steady, &reloaded, buffer_view(&payload));
		assert_sound(steady.tree, seed);
		assert_same_read(&rng, &steady, &reloaded);
		for (size_t k = 0; k < steady.out.answers_n; k++) {
			decided[steady.out.answers[k].op] += steady.out.answers[k].rc == RC_OK;
			*again += steady.out.answers[k].rc == RC_AGAIN;
		}
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

TEST(test_reloaded_trees_go_on_as_before)
{
	unsigned decided[256] = {0}, again = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		one_run(seed, decided, &again);
	assert_true(again > 50);
	/* Every command that changes anything succeeded often enough to mean something. */
#define X(code, name, class, slot, result, node)                     \
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
TEST(test_damaged_entries)
{
	struct rng rng = rng_seeded(77);
	struct fixture *f = fixture_new();
	struct buffer payload = BUFFER(LIMIT_ENTRY);
	unsigned refused = 0, applied = 0;

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

TEST(test_random_bytes)
{
	struct rng rng = rng_seeded(78);
	struct fixture *f = fixture_new();
	uint8_t bytes[200];

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

TEST(test_damaged_rows)
{
	struct rng rng = rng_seeded(79);
	struct side s = {.tree = tree_new("local")};
	struct buffer payload = BUFFER(LIMIT_ENTRY);
	unsigned refused = 0, taken = 0;
	char why[200];

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
