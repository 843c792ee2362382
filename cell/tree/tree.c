/* The beginning and the end of a tree, its position in the log, and its epochs. The first epoch of
 * all makes the nodes of a new cell. */
#include <stdlib.h>
#include "cell/tree/internal.h"

struct tree *
tree_new(const char *cell)
{
	struct tree *t = memory_zero(1, sizeof *t);

	t->cell = bytes_to_text(bytes_of(cell));
	node_skip_numbers(t, NODE_ROOT);
	session_table_init(t);
	TAILQ_INIT(&t->removed.in_order);
	settings_begin(t, &(struct settings){0});
	dirty_rows_forget(t);
	return t;
}

void
tree_free(struct tree *t)
{
	if (t == NULL)
		return;
	lock_table_free(t);
	removed_forget_all(t);
	nodes_free(t);
	session_table_free(t);
	member_table_free(t);
	principal_table_free(t);
	change_history_free(t);
	dirty_rows_forget(t);
	free(t->commands.list);
	buffer_free(&t->done);
	row_list_free(&t->loading.rows);
	free(t->cell);
	free(t);
}

uint64_t
tree_applied(const struct tree *t)
{
	return t->position.applied;
}

uint64_t
tree_epoch(const struct tree *t)
{
	return t->epochs.current;
}

uint64_t
tree_digest(const struct tree *t)
{
	return t->position.digest;
}

struct ballot
tree_origin(const struct tree *t)
{
	return t->position.origin;
}

/* ---- epochs ---- */

void
tree_skip_epochs(struct tree *t, uint64_t epochs)
{
	t->epochs.current += epochs;
}

static void
set_acls(struct node *n, const char *read, const char *write)
{
	node_set_acl(n, ACL_READ, bytes_of(read));
	node_set_acl(n, ACL_WRITE, bytes_of(write));
	node_set_acl(n, ACL_CHANGE, bytes_of("admin"));
}

/* An ACL file holds principals, one per line; "*" is every principal that is authenticated. */
static struct node *
make_acl_file(struct execution *x, struct node *acl, const char *name, const char *text)
{
	struct node *n = node_add(x->tree, acl, bytes_of(name), NODE_FILE, x->stamp_ns);

	set_acls(n, "everyone", "admin");
	node_set_contents(x->tree, n, bytes_copy(bytes_of(text)), x->stamp_ns);
	return n;
}

static void
make_cell(struct execution *x, bool closed)
{
	const char *all = closed ? "admin" : "everyone";
	struct node *root, *acl;

	root = node_add(x->tree, NULL, (struct bytes){0}, NODE_DIRECTORY, x->stamp_ns);
	must(root->number == NODE_ROOT);
	set_acls(root, all, all);
	acl = node_add(x->tree, root, bytes_of("acl"), NODE_DIRECTORY, x->stamp_ns);
	must(acl->number == NODE_ACL);
	set_acls(acl, "everyone", "admin");
	must(acl_is_admin_file(make_acl_file(x, acl, "admin", "admin\n")));
	make_acl_file(x, acl, "everyone", "*\n");
}

/* The waiters of earlier masters have returned to this one, or have lost their places. */
enum rc
apply_settle_epoch(struct execution *x, const struct op_settle_epoch *o)
{
	if (o->epoch != x->tree->epochs.current)
		return RC_OLD_EPOCH;
	x->tree->epochs.settled = o->epoch;
	return RC_OK;
}

/* An epoch is not the round of the ballot: two masters may have had the same round. */
enum rc
apply_begin_epoch(struct execution *x, const struct op_begin_epoch *o)
{
	struct settings first;
	struct tree_note *began;

	if (settings_read(o->settings, &first) != RC_OK)
		return RC_INVAL;
	/* A cell that is new or restored has the members and the administrator of its cell file. */
	if (x->tree->members.n == 0) {
		if (!principal_table_may_begin(x->tree, o->admin_key) ||
		    (o->members.count > 0 && member_table_begin(x, o->members) != RC_OK))
			return RC_INVAL;
		principal_table_begin(x, o->admin_key);
	}
	if (x->tree->epochs.current == 0) {
		settings_begin(x->tree, &first);
		make_cell(x, o->closed != 0);
	}
	x->tree->epochs.current++;
	x->tree->epochs.first_number = x->tree->nodes.next_number;
	began = apply_note(x, TREE_EPOCH_BEGAN, 0);
	began->epoch = x->tree->epochs.current;
	began->ballot = o->ballot;
	began->former = o->former;
	began->name = bytes_copy(o->why);
	return RC_OK;
}
