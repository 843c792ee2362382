/* Ephemeral nodes (Chubby, section 2.3): a file goes when no session has it open any more, a
 * directory when its last child goes or, if it never had one, when its creator's session ends. */
#include <stdlib.h>
#include "cell/tree/internal.h"

static int
compare_session(const struct opener *a, const struct opener *b)
{
	return (a->session->id > b->session->id) - (a->session->id < b->session->id);
}

static int
compare_node(const struct opener *a, const struct opener *b)
{
	return (a->node->number > b->node->number) - (a->node->number < b->node->number);
}

RB_GENERATE(node_openers, opener, in_node, compare_session)
RB_GENERATE(session_openers, opener, in_session, compare_node)

struct opener *
opener_find(const struct node *n, uint64_t session)
{
	struct session of = {.id = session};
	struct opener key = {.session = &of};

	return RB_FIND(node_openers, (struct node_openers *)&n->openers, &key);
}

void
opener_add(struct tree *t, struct node *n, struct session *s)
{
	struct opener *o;

	must(n->kind == NODE_FILE && n->ephemeral);
	if (opener_find(n, s->id) != NULL)
		return;
	o = memory_zero(1, sizeof *o);
	o->node = n;
	o->session = s;
	RB_INSERT(node_openers, &n->openers, o);
	RB_INSERT(session_openers, &s->openers, o);
	dirty_opener(t, n->number, s->id);
}

void
opener_remove(struct tree *t, struct opener *o)
{
	dirty_opener(t, o->node->number, o->session->id);
	RB_REMOVE(node_openers, &o->node->openers, o);
	RB_REMOVE(session_openers, &o->session->openers, o);
	free(o);
}

void
creator_set(struct tree *t, struct node *directory, struct session *creator)
{
	must(directory->kind == NODE_DIRECTORY && directory->ephemeral);
	must(directory->children_n == 0 && directory->creator == NULL);
	directory->creator = creator;
	RB_INSERT(session_directories, &creator->directories, directory);
	dirty_node(t, directory->number);
}

void
creator_clear(struct tree *t, struct node *directory)
{
	RB_REMOVE(session_directories, &directory->creator->directories, directory);
	directory->creator = NULL;
	dirty_node(t, directory->number);
}

static void
close_one(struct turn *w, struct opener *o)
{
	struct node *n = o->node;

	w->ended++;
	opener_remove(w->tree, o);
	if (RB_EMPTY(&n->openers))
		delete_node(w, n);
}

void
ephemeral_end_session(struct turn *w, struct session *s, size_t most)
{
	struct opener *o;
	struct node *directory;

	while (w->ended < most && (o = RB_MIN(session_openers, &s->openers)) != NULL)
		close_one(w, o);
	while (w->ended < most &&
	       (directory = RB_MIN(session_directories, &s->directories)) != NULL)
		delete_node(w, directory);
}

enum rc
apply_make_ephemeral(struct turn *w, const struct op_make_ephemeral *o, struct result_attr *r)
{
	struct node *n = node_find(w->tree, o->node);

	if (w->session == NULL)
		return RC_NO_SESSION;
	if (n == NULL)
		return RC_STALE;
	if (n->kind != NODE_FILE)
		return RC_ISDIR;
	n->ephemeral = true;
	opener_add(w->tree, n, w->session);
	dirty_node(w->tree, n->number);
	apply_note(w, TREE_NODE_CHANGED, n->number);
	node_attr(n, &r->attr);
	return RC_OK;
}

/* Opens of permanent nodes are not the tree's business: the answer is the same, nothing is
 * noted. */
enum rc
apply_open_ephemeral(struct turn *w, const struct op_open_ephemeral *o, struct result_attr *r)
{
	struct node *n = node_find(w->tree, o->node);

	if (w->session == NULL)
		return RC_NO_SESSION;
	if (n == NULL)
		return RC_STALE;
	if (n->kind == NODE_FILE && n->ephemeral)
		opener_add(w->tree, n, w->session);
	node_attr(n, &r->attr);
	return RC_OK;
}

enum rc
apply_close_ephemeral(struct turn *w, const struct op_close_ephemeral *o)
{
	struct node *n = node_find(w->tree, o->node);
	struct opener *opener;

	if (w->session == NULL)
		return RC_NO_SESSION;
	if (n != NULL && (opener = opener_find(n, w->session->id)) != NULL)
		close_one(w, opener);
	return RC_OK;
}
