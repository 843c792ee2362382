#include "cell/base/checksum.h"
#include "cell/tree/internal.h"

static uint64_t
add_row(uint64_t digest, const struct tree *t, enum row_table table, const uint64_t *key)
{
	struct row row;
	uint8_t sum[8];

	if (!dirty_rows_show(t, table, key, &row))
		return digest;
	for (uint64_t i = 0, left = row_checksum(&row); i < sizeof sum; i++, left >>= 8)
		sum[i] = (uint8_t)left;
	return checksum_chain(digest, (struct bytes){sum, sizeof sum});
}

static uint64_t
add_node(uint64_t digest, const struct tree *t, const struct node *n)
{
	uint64_t key[3] = {n->number};
	struct opener *o;
	const struct holder *h;

	digest = add_row(digest, t, ROWS_nodes, key);
	RB_FOREACH(o, node_openers, (struct node_openers *)&n->openers)
		digest = add_row(digest, t, ROWS_openers, (uint64_t[3]){o->session->id, o->opened});
	if (n->lock == NULL)
		return digest;
	digest = add_row(digest, t, ROWS_locks, key);
	TAILQ_FOREACH(h, &n->lock->in_order, in_order) {
		key[1] = h->session->id;
		key[2] = h->owner;
		digest = add_row(digest, t, ROWS_holders, key);
	}
	return digest;
}

/* The first node after number `after`; after the last node it is the first one again. */
static const struct node *
next_node(const struct tree *t, uint64_t after)
{
	struct nodes *nodes = (struct nodes *)&t->nodes.by_number;
	const struct node *n = nodes_after(nodes, after);

	return n != NULL ? n : RB_MIN(nodes, nodes);
}

uint64_t
tree_slice_digest(const struct tree *t)
{
	static const uint64_t meta[3] = {0};
	uint64_t digest = add_row(0, t, ROWS_meta, meta), at = t->slices.behind;

	for (uint64_t code = 1; code < SETTING_CODES; code++)
		digest = add_row(digest, t, ROWS_settings, (uint64_t[3]){code});
	for (uint64_t i = 0; i < TREE_SLICE && i < t->counts.nodes; i++) {
		const struct node *n = next_node(t, at);

		digest = add_node(digest, t, n);
		at = n->number;
	}
	return digest;
}

enum rc
apply_check_digest(struct execution *x, const struct op_check_digest *o)
{
	struct tree_note *note = apply_note(x, TREE_DIGEST_CHECKED, 0);

	note->index = o->index;
	note->digest = o->digest;
	for (uint64_t i = 0; i < TREE_SLICE && i < x->tree->counts.nodes; i++)
		x->tree->slices.behind = next_node(x->tree, x->tree->slices.behind)->number;
	return RC_OK;
}
