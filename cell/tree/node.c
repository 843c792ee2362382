#include <stdlib.h>
#include <string.h>

#include "cell/base/keyed.h"
#include "cell/base/checksum.h"
#include "cell/tree/internal.h"

KEYED_GENERATE(nodes, node, in_tree, number)
BYTES_GENERATE(children, node, in_parent, name)
KEYED_GENERATE(session_directories, node, in_creator, number)

struct node *
node_find(const struct tree *t, uint64_t number)
{
	return nodes_find(&t->nodes.by_number, number);
}

struct node *
node_child(const struct node *directory, struct bytes name)
{
	return children_find(&directory->children, name);
}

uint64_t
node_take_number(struct tree *t)
{
	return t->nodes.next_number++;
}

void
node_skip_numbers(struct tree *t, uint64_t numbers)
{
	t->nodes.next_number += numbers;
}

bool
node_link(struct tree *t, struct node *n)
{
	if (RB_INSERT(nodes, &t->nodes.by_number, n) != NULL)
		return false;
	ttl_link(t, n);
	quota_add(t, n);
	return true;
}

void
node_attach(struct tree *t, struct node *n)
{
	must(node_link(t, n));
	if (n->parent != NULL) {
		must(RB_INSERT(children, &n->parent->children, n) == NULL);
		n->parent->children_n++;
	}
	dirty_node(t, n);
}

void
node_detach(struct tree *t, struct node *n)
{
	must(n->children_n == 0 && n->parent != NULL);
	RB_REMOVE(children, &n->parent->children, n);
	n->parent->children_n--;
	RB_REMOVE(nodes, &t->nodes.by_number, n);
	ttl_unlink(t, n);
	quota_remove(t, n);
}

struct node *
node_add(struct tree *t, struct node *parent, struct bytes name, enum node_kind kind,
         int64_t stamp_ns)
{
	struct node *n = memory_zero(1, sizeof *n);

	n->number = node_take_number(t);
	n->name = bytes_copy(name);
	n->kind = kind;
	n->mtime_ns = n->ctime_ns = stamp_ns;
	n->content_generation = kind == NODE_FILE;
	n->acl_generation = 1;
	n->checksum = kind == NODE_FILE ? checksum(n->contents) : 0;
	n->lock_delay_s = -1;
	if (parent != NULL) {
		n->parent = parent;
		n->parent_number = parent->number;
		if (parent->creator != NULL)
			creator_clear(t, parent);
	}
	node_attach(t, n);
	return n;
}

void
node_free(struct node *n)
{
	free((void *)n->name.data);
	free((void *)n->contents.data);
	acl_forget_lines(n);
	for (int i = 0; i < ACL_NAMES; i++)
		free((void *)n->acl[i].data);
	free(n);
}

void
nodes_free(struct tree *t)
{
	struct node *n;
	struct opener *o;

	while ((n = RB_MIN(nodes, &t->nodes.by_number)) != NULL) {
		RB_REMOVE(nodes, &t->nodes.by_number, n);
		removed_forget_directory(n);
		while ((o = RB_ROOT(&n->openers)) != NULL) {
			RB_REMOVE(node_openers, &n->openers, o);
			free(o);
		}
		node_free(n);
	}
}

void
node_free_deleted(struct tree *t, struct node *n)
{
	must(n->lock == NULL && RB_EMPTY(&n->openers) && n->creator == NULL);
	removed_add(t, n);
	removed_forget_directory(n);
	DIRTY_ROW(t, nodes, .key = {n->number}, .gone = true);
	node_free(n);
}

void
node_set_acl(struct node *n, enum acl_name which, struct bytes name)
{
	bytes_set(&n->acl[which], name);
}

static const uint64_t day_ns = 86400ull * 1000000000;

int64_t
node_later(int64_t before_ns, int64_t stamp_ns)
{
	uint64_t ahead = (uint64_t)before_ns - (uint64_t)stamp_ns;

	if (stamp_ns > before_ns || ahead > day_ns)
		return stamp_ns;
	return before_ns + 1;
}

void
node_changed(struct tree *t, struct node *n, int64_t stamp_ns)
{
	n->ctime_ns = node_later(n->ctime_ns, stamp_ns);
	dirty_node(t, n);
	for (; n != NULL; n = n->parent)
		n->changed = t->position.applied;
}

void
node_set_contents(struct tree *t, struct node *n, struct bytes contents, int64_t stamp_ns)
{
	must(n->kind == NODE_FILE && contents.len <= LIMIT_CONTENTS);
	quota_resize(t, n, contents.len);
	free((void *)n->contents.data);
	if (n->acl_lines != NULL)
		acl_forget_lines(n);
	n->contents = contents;
	n->checksum = checksum(contents);
	n->content_generation++;
	node_changed(t, n, stamp_ns);
}

/* Children, openers and holders have been put back by then, each by its own undo: all but these and
 * the links is as it was. */
void
node_put_back(struct tree *t, struct node *n, struct node *former)
{
	struct session *creator = former->creator;
	struct node now;

	quota_resize(t, n, former->contents.len);
	quota_set_budget(t, n, QUOTA_NODES, former->budget[QUOTA_NODES]);
	quota_set_budget(t, n, QUOTA_BYTES, former->budget[QUOTA_BYTES]);
	acl_forget_lines(n);
	ttl_unlink(t, n);
	free((void *)n->contents.data);
	for (int a = 0; a < ACL_NAMES; a++)
		free((void *)n->acl[a].data);

	now = *n;
	*n = *former;
	n->in_tree = now.in_tree;
	n->in_parent = now.in_parent;
	n->in_creator = now.in_creator;
	n->creator = now.creator;
	n->children = now.children;
	n->children_n = now.children_n;
	n->openers = now.openers;
	n->openers_n = now.openers_n;
	n->lock = now.lock;
	n->removed = now.removed;
	n->acl_lines = now.acl_lines;
	memcpy(n->below, now.below, sizeof n->below);
	n->changed = now.changed;
	if (creator != NULL && n->creator == NULL)
		creator_set(t, n, creator);
	ttl_link(t, n);
	dirty_node(t, n);
}

void
node_attr(const struct tree *t, const struct node *n, const struct subject *who, struct attr *attr)
{
	const uint8_t rights = acl_rights(t, n, who);

	*attr = (struct attr){
	    .node = n->number,
	    .parent = n->parent_number,
	    .kind = n->kind,
	    .ephemeral = n->ephemeral,
	    .size = n->contents.len,
	    .children = n->children_n,
	    .mtime_ns = n->mtime_ns,
	    .ctime_ns = n->ctime_ns,
	    .content_generation = n->kind == NODE_FILE ? n->content_generation : 0,
	    .acl_generation = n->acl_generation,
	    .checksum = (rights & RIGHT_READ) != 0 ? n->checksum : 0,
	    .acl_read = n->acl[ACL_READ],
	    .acl_write = n->acl[ACL_WRITE],
	    .acl_change = n->acl[ACL_CHANGE],
	    .rights = rights,
	    .lock_delay_s = n->lock_delay_s,
	    .lock_slots = n->lock_slots,
	    .ttl_s = n->ttl_s,
	};
}

uint64_t
tree_content_generation(const struct tree *t, uint64_t node)
{
	const struct node *n = node_find(t, node);

	return n == NULL || n->kind != NODE_FILE ? 0 : n->content_generation;
}

bool
tree_has_node(const struct tree *t, uint64_t node)
{
	return node_find(t, node) != NULL;
}

bool
tree_path(const struct tree *t, uint64_t node, struct buffer *path)
{
	const struct node *n = node_find(t, node);
	const struct node *up[LIMIT_PATH / 2 + 1];
	size_t depth = 0;

	if (n == NULL)
		return false;

	for (; n->parent != NULL; n = n->parent) {
		must(depth < sizeof up / sizeof *up);
		up[depth++] = n;
	}
	if (depth == 0)
		buffer_put_u8(path, '/');
	while (depth > 0) {
		buffer_put_u8(path, '/');
		buffer_put_bytes(path, up[--depth]->name);
	}
	return true;
}

/* ---- name ----
 *
 * The rules for names, and the look-up of a name. */

size_t
name_path_length(const struct node *n)
{
	size_t len = 0;

	for (; n->parent != NULL && len <= LIMIT_PATH; n = n->parent)
		len += 1 + n->name.len;
	return len;
}

static enum rc
check_length(const struct node *directory, struct bytes name)
{
	if (name.len > LIMIT_NAME || name_path_length(directory) + 1 + name.len > LIMIT_PATH)
		return RC_NAMETOOLONG;
	return RC_OK;
}

bool
name_valid(struct bytes name)
{
	if (name.len == 0 || name.len > LIMIT_NAME)
		return false;
	if (bytes_equal(name, bytes_of(".")) || bytes_equal(name, bytes_of("..")))
		return false;
	for (size_t i = 0; i < name.len; i++) {
		if (name.data[i] < 0x20 || name.data[i] == 0x7f || name.data[i] == '/')
			return false;
	}
	return true;
}

enum rc
name_check(const struct node *directory, struct bytes name)
{
	enum rc rc = check_length(directory, name);

	if (rc != RC_OK)
		return rc;
	if (!name_valid(name))
		return RC_INVAL;
	/* The mount shows its own virtual directory there. */
	if (directory->number == NODE_ROOT && bytes_equal(name, bytes_of(".cell")))
		return RC_PERM;
	return RC_OK;
}

enum rc
name_look_up(const struct tree *t, uint64_t directory, struct bytes name, struct node **n)
{
	const struct node *parent = node_find(t, directory);
	enum rc rc;

	*n = NULL;
	if (parent == NULL)
		return RC_STALE;
	if (parent->kind != NODE_DIRECTORY)
		return RC_NOTDIR;
	if ((rc = check_length(parent, name)) != RC_OK)
		return rc;
	*n = node_child(parent, name);
	return *n == NULL ? RC_NOENT : RC_OK;
}
