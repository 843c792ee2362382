/* Entries of arbitrary bytes are applied to a cell that has a session and a file: the tree stays
 * sound, and its rows make the same tree again. Before each entry stand two bytes with its length.
 */
#include "tests/fuzz/fuzz.h"

#include "cell/tree/tree.h"
#include "tests/fuzz/entry.h"

static void
apply(struct tree *t, struct bytes payload)
{
	struct tree_outcome out = {0};

	tree_apply(t, tree_applied(t) + 1, (struct ballot){1, 1}, payload, &out);
	tree_outcome_free(&out);
}

static void
apply_op(struct tree *t, uint64_t session, const struct op *op)
{
	struct buffer payload = BUFFER(LIMIT_ENTRY);

	fuzz_put_entry(&payload, session, op);
	apply(t, buffer_view(&payload));
	buffer_free(&payload);
}

/* Session 5 has the file 6. */
static struct tree *
new_cell(void)
{
	const struct op begin = {.code = OP_begin_epoch, .begin_epoch.ballot = {1, 1}};
	const struct op session = {.code = OP_create_session,
	                           .create_session = {.nonce = bytes_of("nonce"),
	                                              .principal = bytes_of("admin"),
	                                              .principal_generation = 1}};
	const struct op create = {.code = OP_create,
	                          .create = {.parent = NODE_ROOT,
	                                     .name = bytes_of("f"),
	                                     .kind = NODE_FILE}};
	struct tree *t = tree_new("fuzz");

	apply_op(t, 0, &begin);
	apply_op(t, 0, &session);
	apply_op(t, 5, &create);
	must(tree_sessions(t) == 1 && tree_check(t) == NULL);
	return t;
}

static void
load_again(struct tree *t)
{
	struct row_list rows = {0};
	struct tree *again = tree_new("fuzz");
	char why[LIMIT_WHY] = "";

	tree_dirty_rows(t, &rows);
	for (size_t i = 0; i < rows.n; i++)
		if (!rows.rows[i].deleted)
			must(tree_load_row(again, &rows.rows[i]) == RC_OK);
	must(tree_load_done(again, why, sizeof why) == RC_OK);
	must(tree_slice_digest(again) == tree_slice_digest(t));
	row_list_free(&rows);
	tree_free(again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct tree *t = new_cell();
	const char *broken = NULL;

	while (len >= 2 && broken == NULL) {
		const size_t said = (size_t)(data[0] << 8 | data[1]), most = len - 2;
		const size_t n = said < most ? said : most;

		apply(t, (struct bytes){data + 2, n});
		broken = tree_check(t);
		data += 2 + n;
		len -= 2 + n;
	}
	must(broken == NULL);
	load_again(t);
	tree_free(t);
	return 0;
}
