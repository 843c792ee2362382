/* A create makes a file or a directory, permanent or ephemeral (Chubby, section 2.3). */
#include <stdlib.h>
#include <string.h>

#include "cell/tree/internal.h"

static struct node *
add(struct execution *x, struct node *parent, struct bytes name, enum node_kind kind)
{
	struct node *n = node_add(x->tree, parent, name, kind, x->stamp_ns);

	if (x->journal != NULL)
		journal_created(x->journal, n);
	return n;
}

/* A session that opens an ephemeral file by creating it again is an opener like its creator. */
static enum rc
found(struct execution *x, const struct op_create *o, struct node *n, struct result_created *r)
{
	if (o->exclusive)
		return RC_EXIST;
	if (n->kind != o->kind)
		return n->kind == NODE_DIRECTORY ? RC_ISDIR : RC_NOTDIR;
	if (n->kind == NODE_FILE && n->ephemeral && x->session != NULL &&
	    !opener_allowed(n, x->session))
		return RC_FULL;
	if (n->kind == NODE_FILE && n->ephemeral && x->session != NULL)
		opener_add(x->tree, n, x->session);
	node_attr(x->tree, n, &x->who, &r->attr);
	return RC_OK;
}

/* RC_OK: the directory may have one more child. */
static enum rc
room_for_child(const struct tree *t, const struct node *directory)
{
	return directory->children_n < LIMIT_LISTING ? quota_check(t, directory, 1, 0) : RC_FULL;
}

enum rc
apply_create(struct execution *x, const struct op_create *o, struct result_created *r)
{
	struct node *parent = node_find(x->tree, o->parent), *n;
	enum rc rc;

	if (o->kind != NODE_FILE && o->kind != NODE_DIRECTORY)
		return RC_INVAL;
	if (parent == NULL)
		return RC_STALE;
	if (parent->kind != NODE_DIRECTORY)
		return RC_NOTDIR;
	n = node_child(parent, o->name);
	if (n != NULL)
		return found(x, o, n, r);
	if ((rc = name_check(parent, o->name)) != RC_OK)
		return rc;
	if (o->ephemeral && x->session == NULL)
		return RC_NO_SESSION;
	if (o->ephemeral && o->kind == NODE_FILE && !opener_allowed(NULL, x->session))
		return RC_FULL;
	if ((rc = room_for_child(x->tree, parent)) != RC_OK)
		return rc;

	n = add(x, parent, o->name, o->kind);
	for (int i = 0; i < ACL_NAMES; i++)
		node_set_acl(n, i, parent->acl[i]);
	if (o->ephemeral) {
		n->ephemeral = true;
		if (n->kind == NODE_FILE)
			opener_add(x->tree, n, x->session);
		else
			creator_set(x->tree, n, x->session);
	}
	apply_note_node(x, TREE_NODE_CREATED, n);
	r->fresh = 1;
	node_attr(x->tree, n, &x->who, &r->attr);
	return RC_OK;
}

/* Numbers are given in order and never again, also after a deletion. A number whose name exists is
 * left out; where no file can be made none is looked for, as many names may exist. */
enum rc
apply_number(struct execution *x, const struct op_number *o, struct result_numbered *r)
{
	struct op_create create = {.parent = o->parent,
	                           .kind = NODE_FILE,
	                           .ephemeral = o->ephemeral,
	                           .exclusive = 1};
	struct node *parent = node_find(x->tree, o->parent);
	struct buffer name = BUFFER(LIMIT_PATH);
	struct result_created created = {0};
	enum rc rc;

	if (parent == NULL)
		return RC_STALE;
	if (parent->kind != NODE_DIRECTORY)
		return RC_NOTDIR;
	if ((rc = room_for_child(x->tree, parent)) != RC_OK)
		return rc;
	if (o->ephemeral && x->session != NULL && !opener_allowed(NULL, x->session))
		return RC_FULL;
	r->number = parent->content_generation;
	do {
		buffer_reset(&name);
		buffer_printf(&name, NUMBERED_NAME, (int)o->prefix.len,
		              (const char *)o->prefix.data, (unsigned long long)r->number);
		must(!name.failed);
		create.name = buffer_view(&name);
		rc = apply_create(x, &create, &created);
	} while (rc == RC_EXIST && ++r->number > 0);
	buffer_free(&name);
	if (rc != RC_OK)
		return rc;
	parent->content_generation = r->number + 1;
	dirty_node(x->tree, parent);
	r->attr = created.attr;
	return RC_OK;
}

/* ---- contents ----
 *
 * Contents are written whole, appended to, or compared and swapped; and they have a time stamp. */

/* Each version has a time of its own. One that is far in the future was set by a client, and ends
 * with the contents that it was set for. */
void
contents_replace(struct execution *x, struct node *n, struct bytes contents)
{
	n->mtime_ns = node_later(n->mtime_ns, x->stamp_ns);
	node_set_contents(x->tree, n, contents, x->stamp_ns);
	ttl_renew(x, n);
	apply_note_node(x, TREE_NODE_CHANGED, n)->generation = n->content_generation;
}

enum rc
apply_set_contents(struct execution *x, struct node *n, const struct op_set_contents *o)
{
	enum rc rc;

	if (o->guarded && o->generation != n->content_generation)
		return RC_CANCELED;
	if (o->contents.len > LIMIT_CONTENTS)
		return RC_FBIG;
	if (!acl_allows_contents(x->tree, n, o->contents))
		return RC_INVAL;
	if (o->contents.len > n->contents.len &&
	    (rc = quota_check(x->tree, n->parent, 0, o->contents.len - n->contents.len)) != RC_OK)
		return rc;
	contents_replace(x, n, bytes_copy(o->contents));
	return RC_OK;
}

enum rc
apply_append(struct execution *x, struct node *n, const struct op_append *o)
{
	struct bytes all;
	enum rc rc;
	size_t len;
	uint8_t *data;

	if (o->data.len > LIMIT_CONTENTS - n->contents.len)
		return RC_FBIG;
	if ((rc = quota_check(x->tree, n->parent, 0, o->data.len)) != RC_OK)
		return rc;

	len = n->contents.len + o->data.len;
	data = memory_grow(NULL, len, 1);
	if (n->contents.len > 0)
		memcpy(data, n->contents.data, n->contents.len);
	if (o->data.len > 0)
		memcpy(data + n->contents.len, o->data.data, o->data.len);
	all = (struct bytes){data, len};

	if (!acl_allows_contents(x->tree, n, all)) {
		free((void *)all.data);
		return RC_INVAL;
	}
	contents_replace(x, n, all);
	return RC_OK;
}

/* A directory's time is constant: touching it is allowed and changes nothing. */
enum rc
apply_set_mtime(struct execution *x, struct node *n, const struct op_set_mtime *o)
{
	if (n->kind == NODE_FILE) {
		n->mtime_ns = o->now ? x->stamp_ns : o->mtime_ns;
		node_changed(x->tree, n, x->stamp_ns);
		ttl_renew(x, n);
		apply_note_node(x, TREE_NODE_CHANGED, n);
	}
	return RC_OK;
}

/* ---- rename ----
 *
 * Rename of a file, in one step: the target keeps its identity and gets the source's contents as
 * its next content generation; the source is deleted. So a session that has the target open or
 * locked goes on with it, however an editor saves a file. */

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
	return acl_is_needed(x->tree, e->source) ? RC_BUSY : RC_OK;
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
		if (e->target != e->source && e->target->ephemeral &&
		    e->target->openers_n + e->source->openers_n > LIMIT_OPENERS)
			return RC_FULL;
		return RC_OK;
	}
	/* The target would be an ACL file with a time to live. */
	if (e->parent->number == NODE_ACL && e->source->ttl_s > 0)
		return RC_BUSY;
	if ((rc = name_check(e->parent, o->new_name)) != RC_OK)
		return rc;
	if (e->parent->children_n >= LIMIT_LISTING && e->parent != e->source->parent)
		return RC_FULL;
	return RC_OK;
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
	if (e.target != e.source &&
	    lock_keeps_node(x->tree, e.source, x->requester.session, &x->who))
		return RC_BUSY;
	if (!budget_allows_rename(e.source, e.parent, e.target))
		return RC_DQUOT;
	if (e.target != e.source) {
		const uint32_t ttl_s = (e.target == NULL ? e.source : e.target)->ttl_s;

		if (e.target == NULL) {
			/* The target gets all that the source had but its number. The cell's quota
			 * does not stand against it: the source is deleted. */
			struct node *source = e.source, *n;

			n = add(x, e.parent, o->new_name, NODE_FILE);
			n->mtime_ns = source->mtime_ns;
			n->ctime_ns = source->ctime_ns;
			for (int i = 0; i < ACL_NAMES; i++)
				node_set_acl(n, i, source->acl[i]);
			n->lock_delay_s = source->lock_delay_s;
			n->lock_slots = source->lock_slots;
			n->ephemeral = source->ephemeral;
			apply_note_node(x, TREE_NODE_CREATED, n);
			e.target = n;
		} else {
			e.target->mtime_ns = replaced_mtime(e.source, e.target);
		}
		node_set_contents(x->tree, e.target, bytes_copy(e.source->contents), x->stamp_ns);
		if (ttl_s > 0)
			ttl_set(x, e.target, ttl_s);
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

/* ---- delete ----
 *
 * A delete removes a file or an empty directory, and ephemeral directories that are empty then. */

void
end_deleted(struct tree *t, struct node *n)
{
	struct opener *o;

	lock_end_node(t, n);
	while ((o = RB_MIN(node_openers, &n->openers)) != NULL)
		opener_remove(t, o);
	if (n->creator != NULL)
		creator_clear(t, n);
	node_free_deleted(t, n);
}

void
delete_node(struct execution *x, struct node *n)
{
	do {
		struct buffer path = BUFFER(2 * LIMIT_PATH);
		struct node *parent = n->parent;
		struct tree_note *note;

		x->ended += 1 + (n->lock == NULL ? 0 : n->lock->holders_n);
		apply_note(x, TREE_LOCK_GONE, n->number);
		must(tree_path(x->tree, n->number, &path));
		note = apply_note_node(x, TREE_NODE_DELETED, n);
		note->path = bytes_copy(buffer_view(&path));
		note->acl_read = bytes_copy(n->acl[ACL_READ]);
		buffer_free(&path);
		node_detach(x->tree, n);
		if (x->journal != NULL)
			journal_deleted(x->journal, n);
		else
			end_deleted(x->tree, n);
		n = parent;
	} while (n->ephemeral && n->children_n == 0);
}

enum rc
apply_delete(struct execution *x, const struct op_delete *o, struct result_deleted *r)
{
	struct node *n;
	enum rc rc = name_look_up(x->tree, o->parent, o->name, &n);

	if (rc != RC_OK)
		return rc;
	if (n->kind != o->kind)
		return n->kind == NODE_DIRECTORY ? RC_ISDIR : RC_NOTDIR;
	if (acl_is_needed(x->tree, n))
		return RC_BUSY;
	if (n->children_n > 0)
		return RC_NOTEMPTY;
	if (lock_keeps_node(x->tree, n, x->requester.session, &x->who))
		return RC_BUSY;
	r->node = n->number;
	delete_node(x, n);
	return RC_OK;
}
