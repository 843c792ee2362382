/* What was written through a handle and is not committed: either bytes to append, or the whole
 * edited contents, on the base of the version that the handle last read or committed. */
#include <fcntl.h>
#include <string.h>
#include "fs/mount/internal.h"

/* ---- who wrote ---- */

static bool
is_writer(const struct writer *w, uint64_t lock_owner, pid_t pid)
{
	return w->lock_owner ? w->lock_owner == lock_owner : w->pid == pid;
}

bool
buffer_written_by(const struct handle *h, uint64_t lock_owner, pid_t pid)
{
	for (size_t n = 0; n < h->writers_n; n++)
		if (is_writer(&h->writers[n], lock_owner, pid))
			return true;
	return false;
}

bool
buffer_written_by_others(const struct handle *h, uint64_t lock_owner, pid_t pid)
{
	for (size_t n = 0; n < h->writers_n; n++)
		if (!is_writer(&h->writers[n], lock_owner, pid))
			return true;
	return false;
}

void
buffer_add_writer(struct handle *h, const struct mount_event *e)
{
	size_t n = 0;

	while (n < h->writers_n &&
	       (h->writers[n].lock_owner != e->lock_owner || h->writers[n].pid != e->pid))
		n++;
	if (n == h->writers_n) {
		ARRAY_ROOM(h->writers, h->writers_n, h->writers_room);
		h->writers_n++;
	}
	h->writers[n] = (struct writer){e->lock_owner, e->pid, e->thread};
}

pid_t
buffer_knows_process(const struct handle *h, const struct mount_event *e)
{
	for (size_t n = 0; n < h->writers_n; n++)
		if (h->writers[n].thread == e->thread && h->writers[n].lock_owner == e->lock_owner)
			return h->writers[n].pid;
	return 0;
}

struct handle *
buffer_of_process(const struct inode *i, uint64_t fh, pid_t pid)
{
	struct handle *h;

	TAILQ_FOREACH(h, &i->handles, of_inode) {
		if (h->edit == EDIT_NONE)
			continue;
		if (h->fh == fh)
			return h;
		for (size_t n = 0; n < h->writers_n; n++)
			if (h->writers[n].pid == pid)
				return h;
	}
	return NULL;
}

void
buffer_drop(struct handle *h)
{
	if (h->edit == EDIT_WHOLE)
		contents_drop(h);
	buffer_reset(&h->tail);
	h->edit = EDIT_NONE;
	h->truncation = false;
	h->unconditional = false;
	h->tainted = false;
	h->dated = false;
	h->writers_n = 0;
}

/* ---- editing ---- */

/* Does an edit of the contents have to look at them first? */
static bool
lacks_base(const struct handle *h)
{
	if (h->edit == EDIT_WHOLE)
		return false;
	return !h->fetched || h->renew || (h->generation == 0 && !h->unconditional);
}

/* Makes the contents the buffer; bytes appended so far become part of them. */
static void
edit_whole(struct handle *h)
{
	if (h->edit == EDIT_APPEND) {
		buffer_put_bytes(&h->contents, buffer_view(&h->tail));
		buffer_reset(&h->tail);
	}
	h->edit = EDIT_WHOLE;
	h->truncation = false;
}

static void
set_length(struct buffer *b, size_t len)
{
	static const uint8_t zeros[4096];
	size_t more;

	if (len < b->len)
		b->len = len;
	while (b->len < len && !b->failed) {
		more = len - b->len;
		buffer_put(b, zeros, more < sizeof zeros ? more : sizeof zeros);
	}
}

static void
overwrite(struct buffer *b, size_t offset, struct bytes data)
{
	if (offset + data.len > b->len)
		set_length(b, offset + data.len);
	if (data.len)
		memcpy(b->data + offset, data.data, data.len);
}

/* ---- write ---- */

static void
write_committed(struct mount *m, struct call *c)
{
	if (c->error)
		call_status(m, c, c->error);
	else
		call_count(m, c, c->event.data.len);
}

static bool
write_appends(const struct handle *h)
{
	return handle_appends(h) && h->edit != EDIT_WHOLE && !h->unconditional;
}

static bool
write_too_big(const struct handle *h, const struct mount_event *e)
{
	if (handle_appends(h))
		return e->data.len > LIMIT_CONTENTS ||
		       contents_size(h) + e->data.len > LIMIT_CONTENTS;
	return (uint64_t)e->offset > LIMIT_CONTENTS ||
	       (uint64_t)e->offset + e->data.len > LIMIT_CONTENTS;
}

static void
write_take(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;
	struct mount_event *e = &c->event;

	if (write_appends(h)) {
		h->edit = EDIT_APPEND;
		buffer_put_bytes(&h->tail, e->data);
		must(!h->tail.failed);
	} else {
		edit_whole(h);
		overwrite(&h->contents, handle_appends(h) ? h->contents.len : (size_t)e->offset,
		          e->data);
		must(!h->contents.failed);
	}
	buffer_add_writer(h, e);
	if (m->config.commit_at_write || (h->flags & (O_SYNC | O_DSYNC)))
		commit(m, c, write_committed);
	else
		call_count(m, c, e->data.len);
}

/* With the base at hand, if one is needed. */
static void
write_based(struct mount *m, struct call *c)
{
	if (c->error == 0 && c->handle->dead)
		c->error = ESTALE;
	if (c->error == 0 && write_too_big(c->handle, &c->event))
		c->error = EFBIG;
	if (c->error || c->answered)
		call_status(m, c, c->error);
	else
		write_take(m, c);
}

static void
write_entered(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;

	if (h->inode->dead)
		call_status(m, c, ESTALE);
	else if (!write_appends(h) && lacks_base(h))
		contents_fetch(m, c, write_based);
	else
		write_based(m, c);
}

/* Which process it is may be known only now: whom we wait for may end the buffer that tells it. */
static void
write_start(struct mount *m, struct call *c)
{
	if (c->event.pid == 0)
		c->event.pid = buffer_knows_process(c->handle, &c->event);
	handle_enter(m, c, write_entered);
}

void
buffer_write(struct mount *m, struct call *c)
{
	if (!handle_of_call(m, c))
		return;
	if (c->event.offset < 0 || c->handle->kind != HANDLE_FILE)
		call_status(m, c, EINVAL);
	else if (!handle_writable(c->handle))
		call_status(m, c, EBADF);
	else if (write_too_big(c->handle, &c->event))
		call_status(m, c, EFBIG);
	else if (c->event.data.len == 0)
		call_count(m, c, 0);
	else
		write_start(m, c);
}

/* ---- ftruncate ---- */

static void
truncate_done(struct mount *m, struct call *c)
{
	if (c->error) {
		call_status(m, c, c->error);
		return;
	}
	handle_leave(m, c);
	setattr_answer(m, c);
}

static void
truncate_based(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;

	if (c->error == 0 && h->dead)
		c->error = ESTALE;
	if (c->error == 0 && h->edit == EDIT_APPEND &&
	    h->contents.len + h->tail.len > LIMIT_CONTENTS)
		c->error = EFBIG;
	if (c->error || c->answered) {
		call_status(m, c, c->error);
		return;
	}
	edit_whole(h);
	set_length(&h->contents, (size_t)c->event.set_size);
	buffer_add_writer(h, &c->event);
	if (m->config.commit_at_write)
		commit(m, c, truncate_done);
	else
		truncate_done(m, c);
}

static void
truncate_entered(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;

	if (h->inode->dead)
		call_status(m, c, ESTALE);
	else if (lacks_base(h))
		contents_fetch(m, c, truncate_based);
	else
		truncate_based(m, c);
}

void
buffer_truncate(struct mount *m, struct call *c)
{
	if (!handle_writable(c->handle))
		call_status(m, c, EINVAL);
	else if (c->event.set_size > LIMIT_CONTENTS)
		call_status(m, c, EFBIG);
	else
		handle_enter(m, c, truncate_entered);
}
