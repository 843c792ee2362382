#include <stdlib.h>
#include "cell/base/keyed.h"
#include "cell/tree/internal.h"

KEYED_GENERATE(session_openers, opener, in_session, opened)

static int
compare_session(const struct opener *a, const struct opener *b)
{
	return keyed_order(a->session->id, b->session->id) ?: session_openers_order(a, b);
}

RB_GENERATE(node_openers, opener, in_node, compare_session)

struct opener *
opener_find(const struct session *s, uint64_t opened)
{
	return session_openers_find(&s->openers, opened);
}

void
opener_new(struct tree *t, struct node *n, struct session *s, uint64_t opened)
{
	struct opener *o = memory_zero(1, sizeof *o);

	must(n->kind == NODE_FILE && n->ephemeral);
	o->opened = opened;
	o->node = n;
	o->session = s;
	RB_INSERT(node_openers, &n->openers, o);
	n->openers_n++;
	must(RB_INSERT(session_openers, &s->openers, o) == NULL);
	s->openers_n++;
	DIRTY_ROW(t, openers, .key = {s->id, opened});
}

bool
opener_allowed(const struct node *n, const struct session *s)
{
	if (n != NULL && opener_find(s, n->number) != NULL)
		return true;
	return s->openers_n < LIMIT_SESSION_OPENS && (n == NULL || n->openers_n < LIMIT_OPENERS);
}

void
opener_add(struct tree *t, struct node *n, struct session *s)
{
	if (opener_find(s, n->number) == NULL)
		opener_new(t, n, s, n->number);
}

void
opener_remove(struct tree *t, struct opener *o)
{
	DIRTY_ROW(t, openers, .key = {o->session->id, o->opened});
	RB_REMOVE(node_openers, &o->node->openers, o);
	o->node->openers_n--;
	RB_REMOVE(session_openers, &o->session->openers, o);
	o->session->openers_n--;
	free(o);
}

void
opener_move_all(struct tree *t, struct node *from, struct node *to)
{
	struct opener *o;

	must(to->kind == NODE_FILE && to->ephemeral);
	while ((o = RB_MIN(node_openers, &from->openers)) != NULL) {
		RB_REMOVE(node_openers, &from->openers, o);
		o->node = to;
		RB_INSERT(node_openers, &to->openers, o);
		from->openers_n--;
		to->openers_n++;
		DIRTY_ROW(t, openers, .key = {o->session->id, o->opened});
	}
}

void
creator_set(struct tree *t, struct node *directory, struct session *creator)
{
	must(directory->kind == NODE_DIRECTORY && directory->ephemeral);
	must(directory->children_n == 0 && directory->creator == NULL);
	directory->creator = creator;
	RB_INSERT(session_directories, &creator->directories, directory);
	dirty_node(t, directory);
}

void
creator_clear(struct tree *t, struct node *directory)
{
	RB_REMOVE(session_directories, &directory->creator->directories, directory);
	directory->creator = NULL;
	dirty_node(t, directory);
}

static void
close_one(struct execution *x, struct opener *o)
{
	struct node *n = o->node;

	x->ended++;
	opener_remove(x->tree, o);
	if (RB_EMPTY(&n->openers))
		delete_node(x, n);
}

/* Nodes that the command has not declared stay for the next part. */
void
ephemeral_end_session(struct execution *x, struct session *s, size_t most)
{
	struct opener *o;
	struct node *directory;

	while (x->ended < most && (o = RB_MIN(session_openers, &s->openers)) != NULL &&
	       (o->node->openers_n > 1 || changes_allow_deletion(x, o->node)))
		close_one(x, o);
	while (x->ended < most &&
	       (directory = RB_MIN(session_directories, &s->directories)) != NULL &&
	       changes_allow_deletion(x, directory))
		delete_node(x, directory);
}

/* ---- commands ---- */

enum rc
apply_make_ephemeral(struct execution *x, struct node *n)
{
	if (!n->ephemeral && acl_is_file(n))
		return RC_BUSY;
	if (!opener_allowed(n, x->session))
		return RC_FULL;
	if (!n->ephemeral) {
		n->ephemeral = true;
		node_changed(x->tree, n, x->stamp_ns);
	}
	opener_add(x->tree, n, x->session);
	apply_note_node(x, TREE_NODE_CHANGED, n);
	return RC_OK;
}

/* Opens of permanent nodes are not the tree's business: the answer is the same, and nothing is
 * recorded. */
enum rc
apply_open_ephemeral(struct execution *x, struct node *n)
{
	if (n->kind != NODE_FILE || !n->ephemeral)
		return RC_OK;
	if (!opener_allowed(n, x->session))
		return RC_FULL;
	opener_add(x->tree, n, x->session);
	return RC_OK;
}

enum rc
apply_close_ephemeral(struct execution *x, const struct op_close_ephemeral *o)
{
	struct opener *opener = opener_find(x->session, o->node);

	if (opener != NULL)
		close_one(x, opener);
	return RC_OK;
}
