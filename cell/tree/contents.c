/* Contents are written whole, appended to, or compared and swapped; and they have a time stamp. */
#include <stdlib.h>
#include <string.h>
#include "cell/tree/internal.h"

static enum rc
file_of(const struct execution *x, uint64_t number, struct node **n)
{
	*n = node_find(x->tree, number);
	if (*n == NULL)
		return RC_STALE;
	return (*n)->kind == NODE_FILE ? RC_OK : RC_ISDIR;
}

static const uint64_t day_ns = 86400ull * 1000000000;

/* The time of a change is that of the master's clock, but later than that of the change before, so
 * that each version has its own. A time that is far in the future was set by a client, and ends
 * with the contents that it was set for. */
static int64_t
later_mtime(const struct node *n, int64_t stamp_ns)
{
	uint64_t ahead = (uint64_t)n->mtime_ns - (uint64_t)stamp_ns;

	if (stamp_ns > n->mtime_ns || ahead > day_ns)
		return stamp_ns;
	return n->mtime_ns + 1;
}

static void
commit(struct execution *x, struct node *n, struct bytes contents, struct result_attr *r)
{
	n->mtime_ns = later_mtime(n, x->stamp_ns);
	node_set_contents(x->tree, n, contents);
	apply_note_node(x, TREE_NODE_CHANGED, n)->generation = n->content_generation;
	node_attr(x->tree, n, &x->who, &r->attr);
}

enum rc
apply_set_contents(struct execution *x, const struct op_set_contents *o, struct result_attr *r)
{
	struct node *n;
	enum rc rc = file_of(x, o->node, &n);

	if (rc != RC_OK)
		return rc;
	if (o->guarded && o->generation != n->content_generation)
		return RC_CANCELED;
	if (o->contents.len > LIMIT_CONTENTS)
		return RC_FBIG;
	if (!acl_allows_contents(x->tree, n, o->contents))
		return RC_INVAL;
	if (o->contents.len > n->contents.len &&
	    !quota_allows_bytes(x->tree, o->contents.len - n->contents.len))
		return RC_NOSPC;
	commit(x, n, bytes_copy(o->contents), r);
	return RC_OK;
}

static struct bytes
joined(struct bytes a, struct bytes b)
{
	size_t len = a.len + b.len;
	uint8_t *data = memory_grow(NULL, len, 1);

	if (a.len > 0)
		memcpy(data, a.data, a.len);
	if (b.len > 0)
		memcpy(data + a.len, b.data, b.len);
	return (struct bytes){data, len};
}

enum rc
apply_append(struct execution *x, const struct op_append *o, struct result_attr *r)
{
	struct bytes all;
	struct node *n;
	enum rc rc = file_of(x, o->node, &n);

	if (rc != RC_OK)
		return rc;
	if (o->data.len > LIMIT_CONTENTS - n->contents.len)
		return RC_FBIG;
	if (!quota_allows_bytes(x->tree, o->data.len))
		return RC_NOSPC;
	all = joined(n->contents, o->data);
	if (!acl_allows_contents(x->tree, n, all)) {
		free((void *)all.data);
		return RC_INVAL;
	}
	commit(x, n, all, r);
	return RC_OK;
}

/* A directory's time is constant: touching it is allowed and changes nothing. */
enum rc
apply_set_mtime(struct execution *x, const struct op_set_mtime *o, struct result_attr *r)
{
	struct node *n = node_find(x->tree, o->node);

	if (n == NULL)
		return RC_STALE;
	if (n->kind == NODE_FILE) {
		n->mtime_ns = o->now ? x->stamp_ns : o->mtime_ns;
		dirty_node(x->tree, n);
		apply_note_node(x, TREE_NODE_CHANGED, n);
	}
	node_attr(x->tree, n, &x->who, &r->attr);
	return RC_OK;
}
