/* The right that each operation needs, on the node itself: directories above it play no part. It is
 * decided when a command is applied. A node that is missing is no matter of rights: the operation
 * itself refuses it. */
#include "cell/tree/internal.h"

static const struct result_refused NOTHING;

/* The rights of which one is needed on the operation's node; 0: none. */
static unsigned
needed(enum op_code code)
{
	switch (code) {
	case OP_get_contents:
	case OP_get_listing:
		return RIGHT_READ;
	case OP_number:
	case OP_set_contents:
	case OP_append:
	case OP_set_mtime:
	case OP_set_lock_delay:
	case OP_set_lock_slots:
	case OP_set_ttl:
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

/* The first of these rights on the node, if the subject has none of them. */
static struct result_refused
lack(const struct tree *t, const struct node *n, const struct subject *who, unsigned rights)
{
	unsigned which = ACL_READ;

	if (n == NULL || rights == 0 || (acl_rights(t, n, who) & rights) != 0)
		return NOTHING;
	while (!(rights & 1u << which))
		which++;
	return (struct result_refused){n->number, (uint8_t)(1u << which), n->acl[which]};
}

/* A create of a file that exists opens it. */
static struct result_refused
missing_to_create(const struct tree *t, const struct subject *who, const struct op_create *o)
{
	const struct node *parent = node_find(t, o->parent), *n;

	if (parent == NULL || parent->kind != NODE_DIRECTORY)
		return NOTHING;
	n = node_child(parent, o->name);
	if (n == NULL)
		return lack(t, parent, who, RIGHT_WRITE);
	return o->exclusive ? NOTHING : lack(t, n, who, needed(OP_open_ephemeral));
}

/* True if the contents would be shown to others than may read them now: a target that there is
 * keeps its ACL, a new one gets the source's. */
static bool
shows_contents(const struct node *source, const struct node *target)
{
	return target != NULL && !bytes_equal(source->acl[ACL_READ], target->acl[ACL_READ]);
}

static struct result_refused
missing_to_rename(const struct tree *t, const struct subject *who, const struct op_rename *o)
{
	const struct node *parent = node_find(t, o->new_parent), *target;
	struct result_refused missing;
	struct node *source;

	if (name_look_up(t, o->parent, o->name, &source) != RC_OK)
		return NOTHING;
	if (parent == NULL || parent->kind != NODE_DIRECTORY)
		return NOTHING;
	target = node_child(parent, o->new_name);
	if (target != NULL && o->no_replace)
		return NOTHING;
	missing = lack(t, source, who, RIGHT_WRITE);
	if (missing.node == 0 && shows_contents(source, target))
		missing = lack(t, source, who, RIGHT_READ);
	return missing.node != 0 ? missing
	                         : lack(t, target != NULL ? target : parent, who, RIGHT_WRITE);
}

struct result_refused
permission_missing(const struct tree *t, const struct requester *requester,
                   const struct subject *who, const struct op *op)
{
	const struct acquire *a = &op->acquire.acquire;
	struct result_acquired had;
	struct node *n;

	if (requester->session == 0)
		return NOTHING;
	switch (op->code) {
	case OP_create:
		return missing_to_create(t, who, &op->create);
	case OP_delete:
		return name_look_up(t, op->delete.parent, op->delete.name, &n) != RC_OK
		           ? NOTHING
		           : lack(t, n, who, RIGHT_WRITE);
	case OP_rename:
		return missing_to_rename(t, who, &op->rename);
	case OP_set_quota:
		/* Rights in a directory do not raise its budget: that is for those who give out
		 * the place. */
		n = node_find(t, op->set_quota.node);
		if (n == NULL || acl_is_operator(t, who))
			return NOTHING;
		return lack(t, n->parent != NULL ? n->parent : n, who, RIGHT_CHANGE);
	case OP_acquire:
		/* One that was granted before gets the same answer again. */
		if (tree_lock_held_by(t, requester->session, a->owner, a->acquisition, a->node,
		                      &had))
			return NOTHING;
		break;
	default:
		if (needed(op->code) == 0 || handle_allows(requester, who, op))
			return NOTHING;
	}
	return lack(t, node_find(t, wire_op_node(op)), who, needed(op->code));
}

struct result_refused
tree_missing(const struct tree *t, const struct requester *requester, const struct op *op)
{
	const struct subject who = session_subject_of(t, requester);

	return permission_missing(t, requester, &who, op);
}

bool
tree_permits(const struct tree *t, const struct requester *requester, const struct op *op)
{
	return tree_missing(t, requester, op).node == 0;
}
