/* Open directories. A listing is one consistent snapshot; rewinding renews it. */
#include <sys/stat.h>
#include "fs/mount/internal.h"

static void
listing_take(struct handle *h, const struct result_listing *r)
{
	struct cursor from;
	struct child child;
	size_t n = 0;

	free((void *)h->listing.data);
	free(h->children);
	h->listing = bytes_copy(r->entries.packed);
	h->children = memory_zero((size_t)r->entries.count + 2, sizeof *h->children);
	h->children[n++] = (struct mount_child){h->inode->ino, S_IFDIR, bytes_of(".")};
	h->children[n++] = (struct mount_child){r->attr.parent ? r->attr.parent : NODE_ROOT,
	                                        S_IFDIR, bytes_of("..")};
	from = cursor_of(h->listing);
	while (n < (size_t)r->entries.count + 2 && wire_next_child(&from, &child))
		h->children[n++] = (struct mount_child){
		    child.node, child.kind == NODE_DIRECTORY ? S_IFDIR : S_IFREG, child.name};
	h->children_n = n;
	h->renew = false;
}

static int
listing_sound(const struct client_answer *a, uint64_t ino)
{
	const struct result_listing *r = &a->result.listing;

	if (r->attr.node != ino || r->attr.kind != NODE_DIRECTORY ||
	    r->entries.count > LIMIT_LISTING)
		return EIO;
	return 0;
}

static void
open_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	int error = call_path_errno(m, c, a);
	struct handle *h;

	if (error == 0)
		error = listing_sound(a, c->inode->ino);
	if (error || c->answered) {
		call_status(m, c, error);
		return;
	}
	inode_learn(m, &a->result.listing.attr, a->index);
	h = handle_new(m, c->inode, c);
	listing_take(h, &a->result.listing);
	call_opened(m, c, h->fh);
}

void
listing_open(struct mount *m, struct call *c)
{
	struct op op = {.code = OP_get_listing};

	call_refer(c, inode_get(m, c->event.ino));
	op.get_listing.node = c->event.ino;
	call_ask(m, c, &op, open_heard);
}

static void
listing_serve(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;
	size_t from = (size_t)c->event.offset;
	struct mount_reply *r = call_reply(m, c, MOUNT_LISTING);

	if (r && from < h->children_n) {
		r->children = h->children + from;
		r->children_n = h->children_n - from;
	}
	h->renew = true;
	call_end(m, c);
}

/* A deleted directory shows what it had. */
static void
read_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	int error = call_errno(m, c, a);

	if (error == 0)
		error = listing_sound(a, c->node);
	if (error == 0) {
		inode_learn(m, &a->result.listing.attr, a->index);
		listing_take(c->handle, &a->result.listing);
	}
	if (error && (c->handle->dead || !c->handle->inode->dead))
		call_status(m, c, error);
	else
		listing_serve(m, c);
}

static void
read_entered(struct mount *m, struct call *c)
{
	struct op op = {.code = OP_get_listing};

	if (c->event.offset == 0 && c->handle->renew && !c->handle->inode->dead) {
		op.get_listing.node = c->handle->inode->ino;
		call_ask(m, c, &op, read_heard);
	} else {
		listing_serve(m, c);
	}
}

void
listing_read(struct mount *m, struct call *c)
{
	if (!handle_of_call(m, c))
		return;
	if (c->handle->kind != HANDLE_DIRECTORY)
		call_status(m, c, ENOTDIR);
	else if (c->event.offset < 0)
		call_status(m, c, EINVAL);
	else
		handle_enter(m, c, read_entered);
}
