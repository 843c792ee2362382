/* The right that each operation needs, on the node itself: directories above it play no part. It is
 * decided when a command is applied. A node that is missing is no matter of rights: the operation
 * itself refuses it. */
#include "cell/tree/internal.h"

/* The rights of which one is needed on the operation's node; 0: none. */
static unsigned
needed(enum op_code code)
{
	switch (code) {
	case OP_get_contents:
	case OP_get_listing:
		return RIGHT_READ;
	case OP_set_contents:
	case OP_append:
	case OP_set_mtime:
	case OP_set_lock_delay:
	case OP_make_ephemeral:
	case OP_acquire:
	case OP_get_sequencer:
		return RIGHT_WRITE;
	case OP_open_ephemeral:
		return RIGHT_READ | RIGHT_WRITE;
	case OP_set_acl:
		return RIGHT_CHANGE;
	default:
		return 0; /* attributes and locks are shown to everyone; what is held can be given
		           * back */
	}
}

/* Access to contents is checked at the open of a handle, which keeps its rights for as long as the
 * principal is one. */
static bool
handle_allows(const struct requester *requester, const struct subject *who, const struct op *op)
{
	return (op->code == OP_get_contents || op->code == OP_set_contents ||
	        op->code == OP_append) &&
	       (requester->handle_rights & needed(op->code)) != 0 && who->principal.len > 0;
}

static bool
has(const struct tree *t, const struct node *n, const struct subject *who, unsigned rights)
{
	return n == NULL || rights == 0 || (acl_rights(t, n, who) & rights) != 0;
}

/* A create of a file that exists opens it. */
static bool
may_create(const struct tree *t, const struct subject *who, const struct op_create *o)
{
	const struct node *parent = node_find(t, o->parent), *n;

	if (parent == NULL || parent->kind != NODE_DIRECTORY)
		return true;
	n = node_child(parent, o->name);
	if (n == NULL)
		return has(t, parent, who, RIGHT_WRITE);
	return o->exclusive || has(t, n, who, needed(OP_open_ephemeral));
}

static bool
may_delete(const struct tree *t, const struct subject *who, const struct op_delete *o)
{
	struct node *n;

	return name_look_up(t, o->parent, o->name, &n) != RC_OK || has(t, n, who, RIGHT_WRITE);
}

/* True if the contents would be shown to others than may read them now: a target that there is
 * keeps its ACL, a new one gets the source's. */
static bool
shows_contents(const struct node *source, const struct node *target)
{
	return target != NULL && !bytes_equal(source->acl[ACL_READ], target->acl[ACL_READ]);
}

static bool
may_rename(const struct tree *t, const struct subject *who, const struct op_rename *o)
{
	const struct node *parent = node_find(t, o->new_parent), *target;
	struct node *source;

	if (name_look_up(t, o->parent, o->name, &source) != RC_OK)
		return true;
	if (parent == NULL || parent->kind != NODE_DIRECTORY)
		return true;
	target = node_child(parent, o->new_name);
	if (target != NULL && o->no_replace)
		return true;
	return has(t, source, who, RIGHT_WRITE) &&
	       (!shows_contents(source, target) || has(t, source, who, RIGHT_READ)) &&
	       has(t, target != NULL ? target : parent, who, RIGHT_WRITE);
}

/* An acquire that was granted before gets the same answer again. */
static bool
may_acquire(const struct tree *t, uint64_t session, const struct subject *who,
            const struct acquire *a)
{
	struct result_acquired had;

	return tree_lock_held_by(t, session, a->owner, a->acquisition, a->node, &had) ||
	       has(t, node_find(t, a->node), who, needed(OP_acquire));
}

bool
permission_given(const struct tree *t, const struct requester *requester, const struct subject *who,
                 const struct op *op)
{
	if (requester->session == 0)
		return true;
	switch (op->code) {
	case OP_create:
		return may_create(t, who, &op->create);
	case OP_delete:
		return may_delete(t, who, &op->delete);
	case OP_rename:
		return may_rename(t, who, &op->rename);
	case OP_acquire:
		return may_acquire(t, requester->session, who, &op->acquire.acquire);
	default:
		return needed(op->code) == 0 || handle_allows(requester, who, op) ||
		       has(t, node_find(t, wire_op_node(op)), who, needed(op->code));
	}
}

bool
tree_permits(const struct tree *t, const struct requester *requester, const struct op *op)
{
	const struct subject who = session_subject_of(t, requester);

	return permission_given(t, requester, &who, op);
}
