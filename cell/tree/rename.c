/* Rename of a file, in one step: the target keeps its identity and gets the source's contents as
 * its next content generation; the source is deleted. So a session that has the target open or
 * locked goes on with it, however an editor saves a file. */
#include "cell/tree/internal.h"

struct ends {
	struct node *source, *parent, *target; /* target NULL: it is to be created */
};

static enum rc
find_source(const struct execution *x, const struct op_rename *o, struct ends *e)
{
	enum rc rc = name_look_up(x->tree, o->parent, o->name, &e->source);

	if (rc != RC_OK)
		return rc;
	if (e->source->kind != NODE_FILE)
		return RC_XDEV;
	return acl_is_admin_file(e->source) ? RC_BUSY : RC_OK;
}

static bool
openers_fit(const struct ends *e)
{
	return e->target == e->source || !e->target->ephemeral ||
	       e->target->openers_n + e->source->openers_n <= LIMIT_OPENERS;
}

static enum rc
find_target(const struct execution *x, const struct op_rename *o, struct ends *e)
{
	enum rc rc;

	if ((e->parent = node_find(x->tree, o->new_parent)) == NULL)
		return RC_STALE;
	if (e->parent->kind != NODE_DIRECTORY)
		return RC_NOTDIR;
	if ((e->target = node_child(e->parent, o->new_name)) != NULL) {
		if (o->no_replace)
			return RC_EXIST;
		if (e->target->kind != NODE_FILE)
			return RC_ISDIR;
		if (!acl_allows_contents(x->tree, e->target, e->source->contents))
			return RC_INVAL;
		return openers_fit(e) ? RC_OK : RC_FULL;
	}
	if ((rc = name_check(e->parent, o->new_name)) != RC_OK)
		return rc;
	if (e->parent->children_n >= LIMIT_LISTING && e->parent != e->source->parent)
		return RC_FULL;
	return RC_OK;
}

/* The target gets all that the source had but its number. No quota stands against it: the source is
 * deleted. */
static void
make_target(struct execution *x, const struct op_rename *o, struct ends *e)
{
	struct node *source = e->source, *n;

	n = node_add(x->tree, e->parent, o->new_name, NODE_FILE, source->mtime_ns);
	for (int i = 0; i < ACL_NAMES; i++)
		node_set_acl(n, i, source->acl[i]);
	n->lock_delay_s = source->lock_delay_s;
	n->ephemeral = source->ephemeral;
	apply_note_node(x, TREE_NODE_CREATED, n);
	e->target = n;
}

/* The target gets the source's time, as in other filesystems; but two versions that follow each
 * other never have the same. */
static int64_t
replaced_mtime(const struct node *source, const struct node *target)
{
	if (source->mtime_ns != target->mtime_ns)
		return source->mtime_ns;
	return source->mtime_ns < INT64_MAX ? source->mtime_ns + 1 : INT64_MAX - 1;
}

enum rc
apply_rename(struct execution *x, const struct op_rename *o, struct result_renamed *r)
{
	struct ends e = {0};
	enum rc rc;

	if ((rc = find_source(x, o, &e)) != RC_OK || (rc = find_target(x, o, &e)) != RC_OK)
		return rc;
	if (e.target != e.source) {
		if (e.target == NULL)
			make_target(x, o, &e);
		else
			e.target->mtime_ns = replaced_mtime(e.source, e.target);
		node_set_contents(x->tree, e.target, bytes_copy(e.source->contents));
		apply_note_node(x, TREE_NODE_CHANGED, e.target)->generation =
		    e.target->content_generation;
		if (e.target->ephemeral)
			opener_move_all(x->tree, e.source, e.target);
		r->source = e.source->number;
		delete_node(x, e.source);
	}
	node_attr(x->tree, e.target, &x->who, &r->attr);
	return RC_OK;
}
