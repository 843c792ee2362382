/* Open directories. A listing is one consistent snapshot: it is fetched by the first read and by
 * each read that rewinds, in pages that belong together, and serves all reads in between. */
#include <sys/stat.h>
#include "fs/mount/internal.h"

/* ---- open ---- */

static void
open_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	const struct attr *attr = &a->result.attr.attr;
	int error = call_learn(m, c, a, call_path_errno(m, c, a));

	if (error == 0 && attr->kind != NODE_DIRECTORY)
		error = ENOTDIR;
	if (error == 0)
		error = refusal_by(c, attr, RIGHT_READ);
	if (error || c->answered)
		call_status(m, c, error);
	else
		call_opened(m, c, handle_new(m, c->inode, c, a->opens)->fh);
}

void
listing_open(struct mount *m, struct call *c)
{
	struct op op = {.code = OP_get_attr};

	call_refer(c, inode_get(m, c->event.ino));
	op.get_attr.node = c->event.ino;
	call_ask(m, c, &op, open_heard);
}

/* ---- fetching ---- */

static void
drop_pages(struct handle *h)
{
	buffer_free(&h->pages);
	h->pages_n = 0;
}

/* The fetched pages become the listing that is read. */
static void
listing_take(struct handle *h)
{
	uint64_t parent = h->inode->attr.parent;
	struct cursor from;
	struct child child;
	size_t n = 0;

	free((void *)h->listing.data);
	free(h->children);
	h->children = memory_zero(h->pages_n + 2, sizeof *h->children);
	h->listing = buffer_take(&h->pages);
	h->children[n++] = (struct mount_child){h->inode->ino, S_IFDIR, bytes_of(".")};
	h->children[n++] =
	    (struct mount_child){parent ? parent : NODE_ROOT, S_IFDIR, bytes_of("..")};
	from = cursor_of(h->listing);
	while (n < h->pages_n + 2 && wire_next_child(&from, &child))
		h->children[n++] =
		    (struct mount_child){child.node,
		                         child.kind == NODE_DIRECTORY ? S_IFDIR : S_IFREG,
		                         child.name};
	h->children_n = n;
	drop_pages(h);
}

static void
listing_serve(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;
	size_t from = (size_t)c->event.offset;
	struct mount_reply *r;

	if (h->released) { /* it goes with this call, and the names with it */
		call_status(m, c, EBADF);
		return;
	}
	r = call_reply(m, c, MOUNT_LISTING);
	if (r && from < h->children_n) {
		r->children = h->children + from;
		r->children_n = h->children_n - from;
	}
	call_end(m, c);
}

static void page_heard(struct mount *m, struct call *c, const struct client_answer *a);

static void
ask_page(struct mount *m, struct call *c, const struct result_listing *before)
{
	struct op op = {.code = OP_get_listing};
	struct child last = {0};
	struct cursor at;

	op.get_listing.node = c->handle->inode->ino;
	op.get_listing.most = m->config.listing_page;
	if (before == NULL) {
		drop_pages(c->handle);
	} else {
		at = cursor_of(before->entries.packed);
		while (wire_next_child(&at, &last))
			;
		op.get_listing.after = last.name;
		op.get_listing.index = before->index;
		op.get_listing.next_node = before->next_node;
	}
	call_ask(m, c, &op, page_heard);
}

static int
page_take(struct mount *m, struct call *c, const struct client_answer *a)
{
	const struct result_listing *r = &a->result.listing;
	struct handle *h = c->handle;

	if (r->attr.node != c->node || r->attr.kind != NODE_DIRECTORY ||
	    h->pages_n + r->entries.count > LIMIT_LISTING || (r->more && r->entries.count == 0))
		return EIO;
	inode_learn(m, &r->attr, a->index);
	buffer_put_bytes(&h->pages, r->entries.packed);
	h->pages_n += r->entries.count;
	return h->pages.failed ? EIO : 0;
}

/* When a page can't be fetched because the directory was deleted, its last listing is served. */
static void
page_failed(struct mount *m, struct call *c, int error)
{
	struct handle *h = c->handle;

	drop_pages(h);
	if (h->dead || !h->inode->dead || c->answered)
		call_status(m, c, error);
	else
		listing_serve(m, c);
}

static void
page_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	bool late = a->rc == RC_CANCELED; /* the listing's first page is too old */
	int error = late ? 0 : call_errno(m, c, a);

	if (error == 0 && !late)
		error = page_take(m, c, a);
	if (error || c->answered) {
		page_failed(m, c, error);
	} else if (late || a->result.listing.more) {
		ask_page(m, c, late ? NULL : &a->result.listing);
	} else {
		listing_take(c->handle);
		listing_serve(m, c);
	}
}

/* ---- read ---- */

static void
read_entered(struct mount *m, struct call *c)
{
	const struct handle *h = c->handle;

	if ((c->event.offset == 0 || h->children == NULL) && !h->inode->dead)
		ask_page(m, c, NULL);
	else
		listing_serve(m, c);
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
