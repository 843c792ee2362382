/* Reads are answered from the applied tree. */
#include <string.h>
#include "cell/tree/internal.h"

/* One read while it is answered. */
struct reading {
	const struct tree *tree;
	const struct requester *requester;
	struct subject who;
	int64_t now_ns;
};

/* No content generation is 0. */
static enum rc
read_contents(const struct reading *g, const struct node *n, uint64_t generation, struct result *r)
{
	if (n->kind != NODE_FILE)
		return RC_ISDIR;
	node_attr(g->tree, n, &g->who, &r->contents.attr);
	if (generation == n->content_generation)
		r->contents.same = 1;
	else
		r->contents.contents = n->contents;
	return RC_OK;
}

static enum lock_state
lock_state(const struct lock *l)
{
	switch (lock_mode_of(l)) {
	case LOCK_EXCLUSIVE:
		return LOCK_STATE_EXCLUSIVE;
	case LOCK_SHARED:
		return LOCK_STATE_SHARED;
	default:
		return l == NULL ? LOCK_STATE_FREE : LOCK_STATE_DELAYED;
	}
}

/* Slots mean nothing where their number is not limited. */
static int
shown_slot(const struct holder *h)
{
	return h->lock->node->lock_slots > 0 ? h->slot : -1;
}

/* The tree has no clock, and does not know of waiters: the result has the whole length of a delay
 * and of a time to live, and the master corrects all three. */
static enum rc
read_lock(const struct node *n, int64_t now_ns, struct result *r, struct buffer *list)
{
	const struct lock *l = n->lock;
	const struct holder *h;

	r->lock.lock_generation = n->lock_generation;
	r->lock.state = lock_state(l);
	r->lock.now_ns = now_ns;
	r->lock.ttl_left_s = n->ttl_s;
	if (l == NULL)
		return RC_OK;
	if (l->delay.mode != LOCK_NONE)
		r->lock.delay_left_s = l->delay.seconds;
	TAILQ_FOREACH(h, &l->in_order, in_order) {
		wire_put_lock_holder(list,
		                     &(struct lock_holder){.session = h->session->id,
		                                           .owner = h->owner,
		                                           .acquisition = h->acquisition,
		                                           .mode = h->mode,
		                                           .fence = h->fence,
		                                           .since_ns = h->since_ns,
		                                           .pid = h->pid,
		                                           .host = h->session->host,
		                                           .slot = shown_slot(h),
		                                           .principal = h->session->principal});
	}
	must(!list->failed);
	r->lock.holders = (struct wire_list){buffer_view(list), l->holders_n};
	return RC_OK;
}

/* The same for `queue`, with the path before the holders in the list. The path is shown to subjects
 * that may list it. */
static enum rc
read_queue(const struct reading *g, const struct node *n, struct result *r, struct buffer *list)
{
	struct result lock = {.kind = RESULT_lock};
	const struct node *directory = n->parent != NULL ? n->parent : n;
	struct bytes path, holders;

	if ((acl_rights(g->tree, directory, &g->who) & RIGHT_READ) != 0)
		must(tree_path(g->tree, n->number, list));
	path.len = list->len;
	read_lock(n, g->now_ns, &lock, list);
	path.data = list->data;
	holders = (struct bytes){list->data + path.len, list->len - path.len};
	r->queue = (struct result_queue){
	    .node = n->number,
	    .path = path,
	    .lock_generation = lock.lock.lock_generation,
	    .state = lock.lock.state,
	    .delay_left_s = lock.lock.delay_left_s,
	    .now_ns = g->now_ns,
	    .holders = {holders, lock.lock.holders.count},
	};
	return RC_OK;
}

/* Several owners of the session may share the lock: the newest of the process that asks, or else of
 * all, is most likely meant. */
static const struct holder *
newest_of_session(const struct lock *l, uint64_t session, uint32_t pid)
{
	struct session of = {.id = session};
	struct holder key = {.session = &of}, *h;
	const struct holder *newest = NULL;

	if (l == NULL)
		return NULL;
	h = RB_NFIND(lock_holders, (struct lock_holders *)&l->holders, &key);
	for (; h != NULL && h->session->id == session; h = RB_NEXT(lock_holders, NULL, h))
		if (newest == NULL || (h->pid == pid) > (newest->pid == pid) ||
		    ((h->pid == pid) == (newest->pid == pid) && newest->fence < h->fence))
			newest = h;
	return newest;
}

/* "/ls/CELL/PATH:LOCKGEN:MODE:INSTANCE:FENCE" (Chubby, section 2.4). */
static enum rc
read_sequencer(const struct tree *t, uint64_t session, const struct node *n, uint32_t pid,
               struct result *r, struct buffer *text)
{
	const struct holder *h = newest_of_session(n->lock, session, pid);

	if (h == NULL)
		return RC_NODATA;
	buffer_printf(text, "/ls/%s", t->cell);
	must(tree_path(t, n->number, text));
	buffer_printf(text, ":%llu:%s:%llu:%llu", (unsigned long long)h->generation,
	              h->mode == LOCK_EXCLUSIVE ? "exclusive" : "shared",
	              (unsigned long long)n->number, (unsigned long long)h->fence);
	must(!text->failed);
	r->sequencer.sequencer = buffer_view(text);
	r->sequencer.fence = h->fence;
	r->sequencer.slot = shown_slot(h);
	return RC_OK;
}

/* The result has views into `scratch`. */
static enum rc
read_one(const struct reading *g, const struct op *op, struct result *r, struct buffer *scratch)
{
	const struct tree *t = g->tree;
	struct result_refused missing;
	const struct lock *l;
	struct node *n;
	enum rc rc;

	if (op->code == OP_lookup) {
		rc = name_look_up(t, op->lookup.parent, op->lookup.name, &n);
		if (rc == RC_OK)
			node_attr(t, n, &g->who, &r->attr.attr);
		return rc;
	}
	if (op->code == OP_get_usage)
		return quota_usage(t, op->get_usage.node, &r->usage);
	if (op->code == OP_get_changes) {
		change_history_read(t, &g->who, op->get_changes.since, &r->changes, scratch);
		return RC_OK;
	}
	if (wire_op(op->code)->class != OP_CLASS_READ || op->code == OP_check_sequencer)
		return RC_INVAL;
	if (op->code == OP_get_queue && op->get_queue.next) {
		l = locks_after(&t->locks.by_node, op->get_queue.node);
		return l == NULL ? RC_OK : read_queue(g, l->node, r, scratch);
	}
	if ((n = node_find(t, wire_op_node(op))) == NULL)
		return RC_STALE;
	missing = permission_missing(t, g->requester, &g->who, op);
	if (missing.node != 0) {
		*r = (struct result){.kind = RESULT_refused, .refused = missing};
		return RC_ACCES;
	}
	switch (op->code) {
	case OP_get_attr:
		node_attr(g->tree, n, &g->who, &r->attr.attr);
		return RC_OK;
	case OP_get_contents:
		return read_contents(g, n, op->get_contents.generation, r);
	case OP_get_listing:
		return children_list(t, n, &op->get_listing, &g->who, &r->listing, scratch);
	case OP_get_lock:
		return read_lock(n, g->now_ns, r, scratch);
	case OP_get_queue:
		return read_queue(g, n, r, scratch);
	case OP_get_sequencer:
		return read_sequencer(t, g->requester->session, n, op->get_sequencer.pid, r,
		                      scratch);
	default:
		return RC_INVAL;
	}
}

enum rc
tree_read(const struct tree *t, const struct requester *who, int64_t now_ns, const struct op *op,
          struct result *r, struct buffer *scratch)
{
	const struct reading g = {t, who, session_subject_of(t, who), now_ns};

	memset(r, 0, sizeof *r);
	r->kind = wire_op(op->code)->result;
	return session_live(t, who->session) == NULL ? RC_NO_SESSION : read_one(&g, op, r, scratch);
}

enum rc
tree_read_queue(const struct tree *t, const struct subject *who, uint64_t node, int64_t now_ns,
                struct result *r, struct buffer *scratch)
{
	const struct reading g = {.tree = t, .who = *who, .now_ns = now_ns};
	const struct node *n = node_find(t, node);

	*r = (struct result){.kind = RESULT_queue};
	return n == NULL ? RC_STALE : read_queue(&g, n, r, scratch);
}
