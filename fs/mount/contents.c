/* What a handle reads: one version of the contents at a time.
 *
 * The snapshot is renewed by a read at offset 0, after a lock was acquired through the handle, and
 * by the second read in a row at or past the end: so who reads to the end never mixes two
 * versions, and `tail -f` follows. A handle with uncommitted writes never renews. */
#include "fs/mount/internal.h"

void
contents_drop(struct handle *h)
{
	buffer_reset(&h->contents);
	h->fetched = false;
	h->generation = 0;
	h->at_end = false;
}

size_t
contents_size(const struct handle *h)
{
	if (h->edit == EDIT_WHOLE)
		return h->contents.len;
	if (h->edit == EDIT_APPEND)
		return (h->fetched ? h->contents.len : h->inode->attr.size) + h->tail.len;
	return h->fetched ? h->contents.len : h->inode->attr.size;
}

/* ---- fetching ---- */

static void
fetch_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	const struct result_contents *r = &a->result.contents;
	struct handle *h = c->handle;

	c->error = call_errno(m, c, a);
	if (c->error == 0 && r->contents.len > LIMIT_CONTENTS)
		c->error = EIO;
	if (c->error == 0)
		c->error = call_learn(m, c, &r->attr, a->index);
	if (c->error == 0 && h->edit != EDIT_WHOLE) {
		buffer_reset(&h->contents);
		buffer_put_bytes(&h->contents, r->contents);
		h->fetched = true;
		h->generation = r->attr.content_generation;
		h->renew = false;
	}
	c->next(m, c);
}

void
contents_fetch(struct mount *m, struct call *c, call_next *next)
{
	struct op op = {.code = OP_get_contents};

	must(c->handle->worker == c);
	c->next = next;
	op.get_contents.node = c->handle->inode->ino;
	call_ask(m, c, &op, fetch_heard);
}

/* ---- reading ---- */

static void
read_serve(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;
	struct buffer all = BUFFER(2 * LIMIT_CONTENTS);
	size_t offset = (size_t)c->event.offset, size = c->event.size;

	buffer_put_bytes(&all, buffer_view(&h->contents));
	if (h->edit == EDIT_APPEND)
		buffer_put_bytes(&all, buffer_view(&h->tail));
	h->at_end = offset >= all.len;
	if (h->at_end)
		size = offset = 0;
	else if (size > all.len - offset)
		size = all.len - offset;
	call_data(m, c, size ? (struct bytes){all.data + offset, size} : (struct bytes){0});
	buffer_free(&all);
}

/* A deleted node has no newer version: the handle goes on with what it had. */
static void
read_fetched(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;

	if (c->error == 0 || (c->error == ESTALE && h->fetched && h->inode->dead && !h->dead))
		read_serve(m, c);
	else
		call_status(m, c, c->error);
}

static bool
read_renews(const struct handle *h, int64_t offset)
{
	if (!h->fetched)
		return true;
	if (h->edit != EDIT_NONE || h->inode->dead)
		return false;
	return h->renew || offset == 0 || (h->at_end && (uint64_t)offset >= h->contents.len);
}

static void
read_look(struct mount *m, struct call *c)
{
	if (c->error)
		call_status(m, c, c->error);
	else if (read_renews(c->handle, c->event.offset))
		contents_fetch(m, c, read_fetched);
	else
		read_serve(m, c);
}

/* Who reads through the handle that truncated must see what all others see. */
static void
read_entered(struct mount *m, struct call *c)
{
	if (c->handle->truncation)
		commit(m, c, read_look);
	else
		read_look(m, c);
}

void
contents_read(struct mount *m, struct call *c)
{
	if (!handle_of_call(m, c))
		return;
	if (c->event.offset < 0 || c->handle->kind != HANDLE_FILE)
		call_status(m, c, EINVAL);
	else if (!handle_readable(c->handle))
		call_status(m, c, EBADF);
	else
		handle_enter(m, c, read_entered);
}
