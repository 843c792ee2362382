#include <stdlib.h>
#include <string.h>
#include "cell/base/keyed.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/client/cache.h"
#include "cell/client/cache_rights.h"

/* A name that was looked up in a directory. */
struct cache_name {
	RB_ENTRY(cache_name) entry;
	uint64_t node; /* 0 if there is none of this name */
	uint64_t index;
	struct bytes name; /* owned */
};
RB_HEAD(cache_names, cache_name);

struct cache_entry {
	RB_ENTRY(cache_entry) entry;
	TAILQ_ENTRY(cache_entry) use;
	uint64_t node;
	struct bytes attr, listing, contents; /* owned; the first two are encoded results */
	bool has_contents;
	uint64_t index; /* of the reply with the attributes */
	uint64_t content_generation;
	struct cache_names names;
	struct cache_rights rights;
	size_t bytes;
};

/* A node that was dropped, while replies from before that may still arrive. */
struct cache_dropped {
	RB_ENTRY(cache_dropped) entry;
	TAILQ_ENTRY(cache_dropped) by_age; /* when settled */
	uint64_t node;
	size_t commands; /* that drop it, and are not answered */
	uint64_t below;  /* nothing is kept from replies to requests with lower numbers, */
	uint64_t index;  /* unless their index is at least this one */
};

KEYED_TREE(cache_entries, cache_entry, entry, node)
BYTES_TREE(cache_names, cache_name, entry, name)
KEYED_TREE(cache_drops, cache_dropped, entry, node)

void
cache_begin(struct cache *c, size_t room)
{
	*c = (struct cache){.room = room};
	RB_INIT(&c->entries);
	TAILQ_INIT(&c->uses);
	RB_INIT(&c->dropped);
	TAILQ_INIT(&c->settled);
}

/* ---- entries ---- */

static struct cache_entry *
entry_find(const struct cache *c, uint64_t node)
{
	return cache_entries_find(&c->entries, node);
}

static void
entry_grow(struct cache *c, struct cache_entry *e, size_t bytes)
{
	e->bytes += bytes;
	c->bytes += bytes;
}

static void
entry_use(struct cache *c, struct cache_entry *e)
{
	TAILQ_REMOVE(&c->uses, e, use);
	TAILQ_INSERT_TAIL(&c->uses, e, use);
}

static struct cache_entry *
entry_get(struct cache *c, uint64_t node)
{
	struct cache_entry *e = entry_find(c, node);

	if (e != NULL) {
		entry_use(c, e);
		return e;
	}
	e = memory_zero(1, sizeof *e);
	e->node = node;
	RB_INIT(&e->names);
	RB_INSERT(cache_entries, &c->entries, e);
	TAILQ_INSERT_TAIL(&c->uses, e, use);
	c->entries_n++;
	entry_grow(c, e, sizeof *e);
	return e;
}

static void
entry_free(struct cache *c, struct cache_entry *e)
{
	struct cache_name *n;

	while ((n = RB_ROOT(&e->names)) != NULL) {
		RB_REMOVE(cache_names, &e->names, n);
		free((void *)n->name.data);
		free(n);
	}
	cache_rights_free(&e->rights);
	RB_REMOVE(cache_entries, &c->entries, e);
	TAILQ_REMOVE(&c->uses, e, use);
	c->entries_n--;
	c->bytes -= e->bytes;
	free((void *)e->attr.data);
	free((void *)e->contents.data);
	free((void *)e->listing.data);
	free(e);
}

static void
entry_drop(struct cache *c, uint64_t node)
{
	struct cache_entry *e = entry_find(c, node);

	if (e != NULL)
		entry_free(c, e);
}

/* Replaces bytes of the entry by these, which it owns from now on. */
static void
entry_set(struct cache *c, struct cache_entry *e, struct bytes *at, struct bytes own)
{
	entry_grow(c, e, own.len - at->len);
	free((void *)at->data);
	*at = own;
}

static struct cache_name *
entry_name(const struct cache_entry *e, struct bytes name)
{
	return cache_names_find(&e->names, name);
}

/* ---- what was dropped ---- */

static struct cache_dropped *
dropped_find(const struct cache *c, uint64_t node)
{
	return cache_drops_find(&c->dropped, node);
}

static void
dropped_free(struct cache *c, struct cache_dropped *d)
{
	if (d->commands == 0) {
		TAILQ_REMOVE(&c->settled, d, by_age);
		c->settled_n--;
	}
	RB_REMOVE(cache_drops, &c->dropped, d);
	free(d);
}

/* Of the node; the caller settles it, or not. */
static struct cache_dropped *
dropped_get(struct cache *c, uint64_t node)
{
	struct cache_dropped *d = dropped_find(c, node);

	if (d == NULL) {
		d = memory_zero(1, sizeof *d);
		d->node = node;
		RB_INSERT(cache_drops, &c->dropped, d);
	} else if (d->commands == 0) {
		TAILQ_REMOVE(&c->settled, d, by_age);
		c->settled_n--;
	}
	return d;
}

/* `next` never falls, so they are settled in the order of `below`. */
static void
dropped_settle(struct cache *c, struct cache_dropped *d, uint64_t next)
{
	d->below = next;
	TAILQ_INSERT_TAIL(&c->settled, d, by_age);
	c->settled_n++;
}

static void
dropped_settle_all(struct cache *c, uint64_t next)
{
	c->all_below = next;
	while (!TAILQ_EMPTY(&c->settled))
		dropped_free(c, TAILQ_FIRST(&c->settled));
}

static bool
may_keep(const struct cache *c, uint64_t node, uint64_t number, uint64_t index)
{
	const struct cache_dropped *d = dropped_find(c, node);

	if (number < c->all_below)
		return false;
	return d == NULL || (d->commands == 0 && (number >= d->below || index >= d->index));
}

void
cache_settle(struct cache *c, uint64_t oldest)
{
	struct cache_dropped *d;

	while ((d = TAILQ_FIRST(&c->settled)) != NULL && d->below <= oldest)
		dropped_free(c, d);
}

/* ---- drops ---- */

void
cache_drop(struct cache *c, uint64_t node, uint64_t next)
{
	struct cache_dropped *d = dropped_get(c, node);

	entry_drop(c, node);
	d->index = UINT64_MAX;
	if (d->commands == 0)
		dropped_settle(c, d, next);
	if (c->settled_n > LIMIT_CACHE_DROPPED)
		dropped_settle_all(c, next);
}

void
cache_drop_all(struct cache *c, uint64_t next)
{
	while (!TAILQ_EMPTY(&c->uses))
		entry_free(c, TAILQ_FIRST(&c->uses));
	dropped_settle_all(c, next);
}

void
cache_end(struct cache *c)
{
	struct cache_dropped *d;

	cache_drop_all(c, 0);
	while ((d = RB_ROOT(&c->dropped)) != NULL)
		dropped_free(c, d);
}

/* The node of this name in the directory, as far as it is known; else 0. */
static uint64_t
child_of(const struct cache *c, uint64_t directory, struct bytes name)
{
	const struct cache_entry *e = entry_find(c, directory);
	const struct cache_name *n = e == NULL ? NULL : entry_name(e, name);

	return n == NULL ? 0 : n->node;
}

/* Adds the node, if it is one and not there yet; returns how many there are. */
static size_t
add_sorted(uint64_t *nodes, size_t n, uint64_t node)
{
	size_t at = n;

	while (at > 0 && nodes[at - 1] > node)
		at--;
	if (node == 0 || (at > 0 && nodes[at - 1] == node))
		return n;
	memmove(nodes + at + 1, nodes + at, (n - at) * sizeof *nodes);
	nodes[at] = node;
	return n + 1;
}

size_t
cache_own(const struct cache *c, const struct op *op, uint64_t node, uint64_t nodes[CACHE_OWN])
{
	uint64_t all[CACHE_OWN] = {0};
	size_t n = 0;

	switch (op->code) {
	case OP_create:
		all[0] = op->create.parent;
		all[1] = child_of(c, op->create.parent, op->create.name);
		break;
	case OP_delete:
		all[0] = op->delete.parent;
		all[1] = child_of(c, op->delete.parent, op->delete.name);
		break;
	case OP_rename:
		all[0] = op->rename.parent;
		all[1] = child_of(c, op->rename.parent, op->rename.name);
		all[2] = op->rename.new_parent;
		all[3] = child_of(c, op->rename.new_parent, op->rename.new_name);
		break;
	case OP_number:
	case OP_close_ephemeral:
		all[0] = node;
		break;
	default:
		if (!wire_op_changes_node(op->code))
			return 0; /* reads, and locks, of which nothing is cached */
		all[0] = node;
	}
	for (size_t i = 0; i < CACHE_OWN; i++)
		n = add_sorted(nodes, n, all[i]);
	return n;
}

void
cache_submitted(struct cache *c, const uint64_t *nodes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		entry_drop(c, nodes[i]);
		dropped_get(c, nodes[i])->commands++;
	}
}

/* A node that was also invalidated meanwhile keeps the stricter rule of that. */
void
cache_answered(struct cache *c, const uint64_t *nodes, size_t n, uint64_t index, uint64_t next)
{
	for (size_t i = 0; i < n; i++) {
		struct cache_dropped *d = dropped_find(c, nodes[i]);

		if (d == NULL)
			continue;
		must(d->commands > 0);
		if (d->index < index)
			d->index = index;
		if (--d->commands == 0)
			dropped_settle(c, d, next);
	}
}

/* ---- replies ---- */

static struct bytes
encoded_attr(const struct attr *attr, const struct cache_reply *reply)
{
	struct buffer encoded = BUFFER(LIMIT_FRAME);

	if (reply->result->kind == RESULT_attr)
		return bytes_copy(reply->encoded);
	wire_put_result(&encoded, &(struct result){RESULT_attr, .attr.attr = *attr});
	must(!encoded.failed);
	return buffer_take(&encoded);
}

/* Keeps the attributes if it may, and returns the entry then. Each node that is cached has one. */
static struct cache_entry *
keep_attr(struct cache *c, const struct attr *attr, const struct cache_reply *reply)
{
	struct cache_entry *e;

	if (attr->node == 0)
		return NULL;
	e = entry_get(c, attr->node);
	if (!may_keep(c, attr->node, reply->number, reply->index))
		return NULL;
	entry_set(c, e, &e->attr, encoded_attr(attr, reply));
	cache_rights_put(&e->rights, reply->user, attr->rights, reply->check);
	e->index = reply->index;
	return e;
}

/* Keeps what the name stands for in the directory: the node, or 0. */
static void
keep_name(struct cache *c, uint64_t directory, struct bytes name, uint64_t node,
          const struct cache_reply *reply)
{
	struct cache_entry *e = entry_get(c, directory);
	struct cache_name *n;

	if (!may_keep(c, directory, reply->number, reply->index))
		return;
	if ((n = entry_name(e, name)) == NULL) {
		n = memory_zero(1, sizeof *n);
		n->name = bytes_copy(name);
		RB_INSERT(cache_names, &e->names, n);
		entry_grow(c, e, sizeof *n + n->name.len);
	}
	n->node = node;
	n->index = reply->index;
}

static void
keep_contents(struct cache *c, const struct attr *attr, struct bytes contents,
              const struct cache_reply *reply)
{
	struct cache_entry *e = keep_attr(c, attr, reply);

	if (e == NULL)
		return;
	entry_set(c, e, &e->contents, bytes_copy(contents));
	e->has_contents = true;
	e->content_generation = attr->content_generation;
}

/* A listing is kept only if it is whole. */
static void
keep_result(struct cache *c, const struct op *op, const struct cache_reply *reply)
{
	const struct result *result = reply->result;
	const struct attr *attr = wire_result_attr(result);
	struct cache_entry *e;

	switch (op->code) {
	case OP_lookup:
		keep_attr(c, attr, reply);
		keep_name(c, op->lookup.parent, op->lookup.name, attr->node, reply);
		break;
	case OP_create:
		/* Digits that prove more than the attributes show are the maker's alone. */
		if (wire_result_rights(result) == attr->rights)
			keep_attr(c, attr, reply);
		keep_name(c, op->create.parent, op->create.name, attr->node, reply);
		break;
	case OP_delete:
		keep_name(c, op->delete.parent, op->delete.name, 0, reply);
		break;
	case OP_get_contents:
		if (result->contents.same)
			keep_attr(c, attr, reply);
		else
			keep_contents(c, attr, result->contents.contents, reply);
		break;
	case OP_get_listing:
		e = keep_attr(c, &result->listing.attr, reply);
		if (e != NULL && op->get_listing.after.len == 0 && op->get_listing.index == 0 &&
		    !result->listing.more)
			entry_set(c, e, &e->listing, bytes_copy(reply->encoded));
		break;
	case OP_set_contents:
		keep_contents(c, attr, op->set_contents.contents, reply);
		break;
	default:
		if (attr != NULL)
			keep_attr(c, attr, reply);
	}
}

bool
cache_keep(struct cache *c, const struct op *op, const struct cache_reply *reply)
{
	if (reply->rc == RC_OK)
		keep_result(c, op, reply);
	else if (reply->rc == RC_NOENT && op->code == OP_lookup)
		keep_name(c, op->lookup.parent, op->lookup.name, 0, reply);
	return c->entries_n > c->room || c->bytes > LIMIT_CACHE;
}

/* ---- answers ---- */

/* False if the subject is not known to have the right that is needed: then the cell decides. */
static bool
answer_attr(struct cache *c, struct cache_entry *e, struct bytes user, unsigned needed,
            struct cache_answer *a, struct attr *attr)
{
	uint8_t rights;
	struct result r;

	if (e == NULL || e->attr.len == 0 ||
	    !cache_rights_allow(&e->rights, user, needed, &rights, &a->check))
		return false;
	must(wire_get_result(RESULT_attr, e->attr, &r) == RC_OK);
	if (!cache_rights_show(&r.attr.attr, rights, attr))
		return false;
	entry_use(c, e);
	a->index = e->index;
	return true;
}

static bool
answer_name(struct cache *c, const struct op_lookup *o, struct bytes user, struct cache_answer *a)
{
	struct cache_entry *directory = entry_find(c, o->parent);
	const struct cache_name *n = directory == NULL ? NULL : entry_name(directory, o->name);

	if (n == NULL)
		return false;
	entry_use(c, directory);
	if (n->node != 0)
		return answer_attr(c, entry_find(c, n->node), user, 0, a, &a->result.attr.attr);
	a->rc = RC_NOENT;
	a->result.kind = RESULT_none;
	a->index = n->index;
	return true;
}

static bool
answer_contents(struct cache *c, const struct op_get_contents *o, struct bytes user,
                unsigned handle_rights, struct cache_answer *a)
{
	struct cache_entry *e = entry_find(c, o->node);
	struct attr attr;

	if (!answer_attr(c, e, user, RIGHT_READ & ~handle_rights, a, &attr) || !e->has_contents ||
	    e->content_generation != attr.content_generation)
		return false;
	a->result.contents.attr = attr;
	a->result.contents.same = o->generation == attr.content_generation;
	if (!a->result.contents.same)
		a->result.contents.contents = e->contents;
	return true;
}

/* The first page is the whole listing. */
static bool
answer_listing(struct cache *c, const struct op_get_listing *o, struct bytes user,
               struct cache_answer *a)
{
	struct cache_entry *e = entry_find(c, o->node);
	struct attr attr;

	if (!answer_attr(c, e, user, RIGHT_READ, a, &attr) || e->listing.len == 0 ||
	    o->after.len > 0 || o->index != 0)
		return false;
	must(wire_get_result(RESULT_listing, e->listing, &a->result) == RC_OK);
	a->result.listing.attr = attr;
	return o->most == 0 || a->result.listing.entries.packed.len <= o->most;
}

bool
cache_knows(const struct cache *c, uint64_t node, uint64_t index)
{
	const struct cache_entry *e = entry_find(c, node);

	return e != NULL && e->attr.len > 0 && e->index <= index;
}

bool
cache_has(const struct cache *c, uint64_t node)
{
	const struct cache_entry *e = entry_find(c, node);

	return e != NULL && (e->attr.len > 0 || !RB_EMPTY(&e->names));
}

bool
cache_answer(struct cache *c, const struct op *op, struct bytes user, unsigned handle_rights,
             struct cache_answer *a)
{
	*a = (struct cache_answer){.rc = RC_OK, .result.kind = wire_op(op->code)->result};
	switch (op->code) {
	case OP_lookup:
		return answer_name(c, &op->lookup, user, a);
	case OP_get_attr:
		return answer_attr(c, entry_find(c, op->get_attr.node), user, 0, a,
		                   &a->result.attr.attr);
	case OP_get_contents:
		return answer_contents(c, &op->get_contents, user, handle_rights, a);
	case OP_get_listing:
		return answer_listing(c, &op->get_listing, user, a);
	default:
		return false;
	}
}

/* ---- limits ---- */

void
cache_shrink(struct cache *c, struct cache_nodes *nodes)
{
	while (c->entries_n > c->room - c->room / 8 || c->bytes > LIMIT_CACHE / 8 * 7) {
		struct cache_entry *e = TAILQ_FIRST(&c->uses);

		ARRAY_ROOM(nodes->node, nodes->n, nodes->room);
		nodes->node[nodes->n++] = e->node;
		entry_free(c, e);
	}
}
