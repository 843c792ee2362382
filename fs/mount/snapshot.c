/* The snapshot of a handle: the one version of the contents that it reads.
 *
 * The snapshot is fetched by the open, so that the handle can be read even if its file is deleted.
 * It is renewed by the first read, by a read at offset 0, by the first read after a lock was
 * acquired through the handle, and by the second read in a row at or past the end: so a process
 * that reads to the end never mixes two versions, and `tail -f` sees new ones. While the handle has
 * uncommitted writes it is renewed only by the first read and the first one after a lock. Contents
 * that are in memory already are not sent again.
 *
 * The kernel's pages are different: all mappings of a node share them, through whichever handle
 * they were requested. They show one committed version as long as a handle is open through which
 * pages were requested, and where others are open, until an open that comes after the last request,
 * at which the kernel drops them. */
#include <fcntl.h>
#include <string.h>
#include "fs/mount/internal.h"

/* ---- versions ---- */

/* One version of a node's contents, whole. It never changes, so all its readers share it: handles,
 * mappings, and replies to the kernel. It is freed with the last of them. */

struct version *
version_new(struct mount *m, struct inode *i, uint64_t node, uint64_t generation, struct bytes own)
{
	struct version *v = memory_zero(1, sizeof *v);

	v->refs = 1;
	v->node = node;
	v->generation = generation;
	v->data = own;
	if (i)
		i->newest = v;
	m->versions.n++;
	return v;
}

/* The latest version in memory if it has this generation, with one more reference; else NULL. */
static struct version *
version_known(struct inode *i, uint64_t generation)
{
	if (i == NULL || i->newest == NULL || i->newest->generation != generation)
		return NULL;
	i->newest->refs++;
	return i->newest;
}

struct version *
version_get(struct mount *m, uint64_t node, uint64_t generation, struct bytes data)
{
	struct inode *i = inode_find(m, node);
	struct version *v = version_known(i, generation);

	return v ? v : version_new(m, i, node, generation, bytes_copy(data));
}

struct version *
version_take(struct mount *m, struct inode *i, uint64_t generation, struct buffer *data)
{
	struct version *v = version_known(i, generation);

	if (v)
		buffer_free(data);
	return v ? v : version_new(m, i, i->ino, generation, buffer_take(data));
}

struct version *
version_ref(struct version *v)
{
	if (v)
		v->refs++;
	return v;
}

void
version_put(struct mount *m, struct version *v)
{
	struct inode *i;

	if (v == NULL || --v->refs)
		return;
	i = inode_find(m, v->node);
	if (i && i->newest == v)
		i->newest = NULL;
	free((void *)v->data.data);
	free(v);
	m->versions.n--;
}

void
version_set(struct mount *m, struct version **at, struct version *v)
{
	struct version *old = *at;

	*at = v;
	version_put(m, old);
}

/* ---- views ---- */

/* `size` bytes at `offset`, or as many as there are. */
struct bytes
bytes_slice(struct bytes b, int64_t offset, size_t size)
{
	if (offset < 0 || (uint64_t)offset >= b.len)
		return (struct bytes){0};
	b.data += offset;
	b.len -= (size_t)offset;
	if (b.len > size)
		b.len = size;
	return b;
}

/* Answers a READ from `v`, without a copy. */
static void
version_answer(struct mount *m, struct call *c, struct version *v)
{
	struct mount_reply *r = call_reply(m, c, MOUNT_DATA);

	if (r) {
		r->data = bytes_slice(v->data, c->event.offset, c->event.size);
		ARRAY_ROOM(m->versions.viewed, m->versions.viewed_n, m->versions.viewed_room);
		m->versions.viewed[m->versions.viewed_n++] = version_ref(v);
	}
	call_end(m, c);
}

void
version_views_end(struct mount *m)
{
	while (m->versions.viewed_n)
		version_put(m, m->versions.viewed[--m->versions.viewed_n]);
}

size_t
mount_versions(const struct mount *m)
{
	return m->versions.n;
}

/* ---- snapshots ---- */

void
snapshot_drop(struct mount *m, struct handle *h)
{
	version_set(m, &h->base, NULL);
	h->generation = 0;
	h->at_end = false;
}

void
snapshot_set(struct mount *m, struct handle *h, struct version *v)
{
	version_set(m, &h->base, v);
	h->generation = h->seen = v->generation;
	h->renew = false;
}

void
snapshot_opened(struct mount *m, struct handle *h, struct version *v)
{
	snapshot_set(m, h, v);
	h->renew = true;
}

/* Appended bytes follow the contents as they are in the cell, not those that the handle has
 * read. */
size_t
snapshot_size(const struct handle *h)
{
	if (h->edit == EDIT_WHOLE)
		return h->edited.len;
	return h->inode->attr.size + (h->edit == EDIT_APPEND ? h->edited.len : 0);
}

/* ---- fetching ---- */

/* The call holds a reference to the version, because the answer may only say that it is current. */
void
snapshot_ask(struct mount *m, struct call *c, const struct inode *i, call_then *then)
{
	struct op op = {.code = OP_get_contents};

	version_set(m, &c->version, version_ref(i->newest));
	op.get_contents.node = i->ino;
	op.get_contents.generation = c->version ? c->version->generation : 0;
	call_ask(m, c, &op, then);
}

int
snapshot_learn(struct mount *m, struct call *c, const struct client_answer *a)
{
	const struct result_contents *r = &a->result.contents;
	uint64_t generation = r->attr.content_generation;

	if (r->contents.len > LIMIT_CONTENTS || call_learn(m, c, a, 0))
		return EIO;
	if (!r->same)
		version_set(m, &c->version, version_get(m, c->node, generation, r->contents));
	return c->version && c->version->generation == generation ? 0 : EIO;
}

static void
fetch_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	struct handle *h = c->handle;

	c->error = call_errno(m, c, a);
	if (call_handle_moved(c)) {
		snapshot_fetch(m, c, c->next);
		return;
	}
	if (c->error == 0)
		c->error = snapshot_learn(m, c, a);
	if (c->error == 0 && h->edit != EDIT_WHOLE) {
		snapshot_set(m, h, version_ref(c->version));
		/* A write is based on this version now, unless it is never committed: then the
		 * truncation before it is still owed. */
		h->unconditional &= h->refused != 0;
	}
	c->next(m, c);
}

void
snapshot_fetch(struct mount *m, struct call *c, call_next *next)
{
	struct inode *i = c->handle->inode;

	must(c->handle->active == c);
	c->next = next;
	if (i->dead) {
		c->error = i->last ? 0 : ESTALE;
		if (i->last)
			snapshot_set(m, c->handle, version_ref(i->last));
		next(m, c);
		return;
	}
	snapshot_ask(m, c, i, fetch_heard);
}

/* ---- reading ---- */

/* Answers with the end of the version that the handle has read and the bytes appended here. */
static void
read_appended(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;
	struct buffer text = BUFFER(2 * LIMIT_CONTENTS);
	int64_t base = (int64_t)h->base->data.len, offset = c->event.offset;

	buffer_put_bytes(&text, bytes_slice(h->base->data, offset, c->event.size));
	offset = offset > base ? offset - base : 0;
	buffer_put_bytes(&text,
	                 bytes_slice(buffer_view(&h->edited), offset, c->event.size - text.len));
	call_data(m, c, buffer_view(&text));
	buffer_free(&text);
}

static void
read_serve(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;
	size_t base = h->edit == EDIT_WHOLE ? 0 : h->base->data.len;

	if (c->event.offset == 0)
		commit_read_again(h);
	h->at_end = (uint64_t)c->event.offset >= base + h->edited.len;
	if (h->edit == EDIT_WHOLE)
		call_data(m, c,
		          bytes_slice(buffer_view(&h->edited), c->event.offset, c->event.size));
	else if (h->edit == EDIT_APPEND)
		read_appended(m, c);
	else
		version_answer(m, c, h->base);
}

/* If the node was deleted there is no newer version: the handle goes on with its snapshot. */
static void
read_fetched(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;

	if (c->error == 0 || (c->error == ESTALE && h->base && h->inode->dead && !h->dead))
		read_serve(m, c);
	else
		call_status(m, c, c->error);
}

static bool
read_renews(const struct handle *h, int64_t offset)
{
	if (h->edit == EDIT_WHOLE)
		return false;
	if (h->base == NULL || h->renew)
		return true;
	if (h->edit != EDIT_NONE)
		return false;
	return offset == 0 || (h->at_end && (uint64_t)offset >= h->base->data.len);
}

static void
read_look(struct mount *m, struct call *c)
{
	if (c->event.offset == 0)
		event_watch_seen(c->handle);
	if (c->error)
		call_status(m, c, c->error);
	else if (read_renews(c->handle, c->event.offset))
		snapshot_fetch(m, c, read_fetched);
	else
		read_serve(m, c);
}

/* A truncation must be committed before a read through its handle: the reader must see the same
 * contents as all others. */
static void
read_entered(struct mount *m, struct call *c)
{
	if (c->handle->truncation || buffer_is_orphaned(c->handle))
		commit(m, c, read_look);
	else
		read_look(m, c);
}

/* ---- the kernel's pages ---- */

static struct version *
page_version(const struct handle *asked, uint64_t ino)
{
	const struct handle *h;

	if (asked->mapped && asked->mapped_ino == ino)
		return asked->mapped;
	TAILQ_FOREACH(h, &asked->inode->handles, of_inode)
		if (h->mapped && h->mapped_ino == ino)
			return h->mapped;
	return NULL;
}

void
snapshot_pages_stay(const struct handle *h)
{
	struct handle *other, *heir = NULL;

	if (!h->pages_in)
		return;
	TAILQ_FOREACH(other, &h->inode->handles, of_inode) {
		if (other->mapped && other->mapped_ino == h->mapped_ino) {
			other->pages_in = true;
			return;
		}
		if (other->mapped == NULL && (other->flags & O_ACCMODE) != O_WRONLY)
			heir = other;
	}
	if (heir == NULL)
		return;
	heir->mapped = version_ref(h->mapped);
	heir->mapped_ino = h->mapped_ino;
	heir->mapped_before = heir->pages_in = true;
}

void
snapshot_pages_go(struct mount *m, struct inode *i, uint64_t ino)
{
	struct handle *h;

	TAILQ_FOREACH(h, &i->handles, of_inode) {
		if (h->mapped == NULL || h->mapped_ino != ino)
			continue;
		h->pages_in = false;
		if (h->mapped_before)
			version_set(m, &h->mapped, NULL);
	}
}

static void
page_answer(struct mount *m, struct call *c, struct version *v)
{
	version_set(m, &c->handle->mapped, version_ref(v));
	c->handle->mapped_ino = c->event.ino;
	c->handle->mapped_before = false;
	c->handle->pages_in = true;
	version_answer(m, c, v);
}

static void
page_dead(struct mount *m, struct call *c)
{
	struct version *v = c->inode->last ? c->inode->last : c->handle->base;

	if (v && !c->handle->poisoned)
		page_answer(m, c, v);
	else
		call_status(m, c, ESTALE);
}

static void
page_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	struct version *v = page_version(c->handle, c->event.ino);
	int error = call_errno(m, c, a);

	if (error == 0)
		error = snapshot_learn(m, c, a);
	if (v)
		page_answer(m, c, v);
	else if (error == ESTALE && (c->handle->dead || c->inode->dead))
		page_dead(m, c);
	else if (error)
		call_status(m, c, error);
	else
		page_answer(m, c, c->version);
}

static void
page_read(struct mount *m, struct call *c)
{
	struct version *v = page_version(c->handle, c->event.ino);

	if (v)
		page_answer(m, c, v);
	else if (c->handle->dead || c->inode->dead)
		page_dead(m, c);
	else
		snapshot_ask(m, c, c->inode, page_heard);
}

void
snapshot_read(struct mount *m, struct call *c)
{
	if (!handle_of_call(m, c))
		return;
	if (c->event.offset < 0 || c->handle->kind != HANDLE_FILE)
		call_status(m, c, EINVAL);
	else if ((c->handle->flags & O_ACCMODE) == O_WRONLY)
		call_status(m, c, EBADF);
	else if (c->event.for_page)
		page_read(m, c);
	else
		handle_enter(m, c, read_entered);
}
