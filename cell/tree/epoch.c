/* Epochs: each master begins one before it serves. The first of all makes a new cell's nodes. */
#include "cell/tree/internal.h"

static void
set_acls(struct node *n, const char *read, const char *write, const char *change)
{
	node_set_acl(n, ACL_READ, bytes_of(read));
	node_set_acl(n, ACL_WRITE, bytes_of(write));
	node_set_acl(n, ACL_CHANGE, bytes_of(change));
}

/* An ACL file holds principals, one per line; "*" is everyone who is authenticated. */
static void
make_acl_file(struct turn *w, struct node *acl, const char *name, const char *text)
{
	struct node *n = node_add(w->tree, acl, bytes_of(name), NODE_FILE, w->stamp_ns);

	set_acls(n, "everyone", "admin", "admin");
	node_set_contents(w->tree, n, bytes_copy(bytes_of(text)));
}

static void
make_cell(struct turn *w)
{
	struct node *root, *acl;

	root = node_add(w->tree, NULL, (struct bytes){0}, NODE_DIRECTORY, w->stamp_ns);
	must(root->number == NODE_ROOT);
	set_acls(root, "everyone", "everyone", "admin");
	acl = node_add(w->tree, root, bytes_of("acl"), NODE_DIRECTORY, w->stamp_ns);
	set_acls(acl, "everyone", "admin", "admin");
	make_acl_file(w, acl, "admin", "admin\n");
	make_acl_file(w, acl, "everyone", "*\n");
}

/* Whoever was queued under earlier masters has come to this one, or has lost its place. */
enum rc
apply_settle_epoch(struct turn *w, const struct op_settle_epoch *o)
{
	if (o->epoch != w->tree->epoch)
		return RC_OLD_EPOCH;
	w->tree->settled_epoch = o->epoch;
	return RC_OK;
}

/* Not the ballot's round counts the epochs: two masters may have had the same round. */
enum rc
apply_begin_epoch(struct turn *w, const struct op_begin_epoch *o)
{
	struct settings first;
	struct tree_note *began;

	if (settings_read(o->settings, &first) != RC_OK)
		return RC_INVAL;
	if (w->tree->member_rows_n == 0 && o->members.count > 0 &&
	    member_table_begin(w, o->members) != RC_OK)
		return RC_INVAL;
	if (w->tree->epoch == 0) {
		settings_begin(w->tree, &first);
		make_cell(w);
	}
	w->tree->epoch++;
	w->tree->epoch_node = w->tree->next_node;
	began = apply_note(w, TREE_EPOCH_BEGAN, 0);
	began->epoch = w->tree->epoch;
	began->ballot = o->ballot;
	return RC_OK;
}
