/* The uncommitted writes of a handle: either bytes to append, or the whole edited contents, based
 * on the version that the handle last read or committed. */
#include <fcntl.h>
#include <string.h>
#include "fs/mount/internal.h"

/* ---- the writers of a buffer ---- */

bool
process_is(pid_t a, pid_t b)
{
	return a != 0 && a == b;
}

/* The owner of an OFD lock is no process. */
static bool
is_writer(const struct writer *w, uint64_t lock_owner, pid_t pid)
{
	return (lock_owner != 0 && w->lock_owner == lock_owner) || process_is(w->pid, pid);
}

static bool
is_among(const struct writer *writers, size_t writers_n, uint64_t lock_owner, pid_t pid)
{
	for (size_t n = 0; n < writers_n; n++)
		if (is_writer(&writers[n], lock_owner, pid))
			return true;
	return false;
}

bool
buffer_written_by(const struct handle *h, uint64_t lock_owner, pid_t pid)
{
	return is_among(h->writers, h->writers_n, lock_owner, pid);
}

bool
buffer_lost_by(const struct handle *h, uint64_t lock_owner, pid_t pid)
{
	return h->creditors_n == 0 || is_among(h->creditors, h->creditors_n, lock_owner, pid);
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
buffer_note_writer(struct handle *h, const struct mount_event *e)
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

/* Returns how many are left without the caller. */
static size_t
without(struct writer *writers, size_t writers_n, const struct mount_event *e)
{
	size_t kept = 0;

	for (size_t n = 0; n < writers_n; n++)
		if (!is_writer(&writers[n], e->lock_owner, e->pid))
			writers[kept++] = writers[n];
	return kept;
}

void
buffer_forget_writer(struct handle *h, const struct mount_event *e)
{
	h->writers_n = without(h->writers, h->writers_n, e);
}

void
buffer_forget_creditor(struct handle *h, const struct mount_event *e)
{
	h->creditors_n = without(h->creditors, h->creditors_n, e);
}

bool
buffer_is_orphaned(const struct handle *h)
{
	return h->tainted && h->writers_n == 0;
}

pid_t
buffer_knows_process(const struct handle *h, const struct mount_event *e)
{
	for (size_t n = 0; n < h->writers_n; n++)
		if (h->writers[n].thread == e->thread && h->writers[n].lock_owner == e->lock_owner)
			return h->writers[n].pid;
	return h->opener_thread == e->thread && !h->opener_gone ? h->opener : 0;
}

/* The process has written or truncated through the handle. */
static bool
is_changed_by(const struct handle *h, pid_t pid)
{
	return buffer_written_by(h, 0, pid) || (h->unconditional && process_is(h->opener, pid));
}

struct handle *
buffer_of_process(const struct inode *i, uint64_t fh, pid_t pid)
{
	struct handle *h, *found = NULL;

	TAILQ_FOREACH(h, &i->handles, of_inode) {
		if (h->edit == EDIT_NONE)
			continue;
		if (h->fh == fh)
			return h;
		if (found == NULL && is_changed_by(h, pid))
			found = h;
	}
	return found;
}

void
buffer_drop(struct mount *m, struct handle *h)
{
	if (h->edit == EDIT_WHOLE)
		snapshot_drop(m, h);
	buffer_free(&h->edited);
	h->edit = EDIT_NONE;
	h->refused = 0;
	h->truncation = false;
	h->unconditional = false;
	h->tainted = false;
	h->dated = false;
	h->lost = 0;
	h->writers_n = 0;
}

/* A write that follows in a file that was opened with O_TRUNC still starts from empty contents; but
 * the truncation alone is not committed any more. */
void
buffer_lose(struct mount *m, struct handle *h, int error)
{
	bool unconditional = h->unconditional;

	buffer_drop(m, h);
	h->unconditional = unconditional;
	h->lost = error;
}

void
buffer_abandon(struct mount *m, struct handle *h)
{
	MOUNT_TRACE(m, "handle %llu: the buffer of %zu bytes is dropped: its writer was killed",
	            (unsigned long long)h->fh, h->edited.len);
	buffer_lose(m, h, ECANCELED);
}

/* ---- editing ---- */

/* True if an edit of the contents must fetch the current version first. */
static bool
lacks_base(const struct handle *h)
{
	if (h->edit == EDIT_WHOLE || h->unconditional)
		return false;
	return h->base == NULL || h->renew || h->generation == 0;
}

/* Replaces the buffer by a copy of the whole contents, with the bytes that were appended so far as
 * a part of them. */
static void
edit_whole(struct mount *m, struct handle *h)
{
	struct bytes tail = {0};

	if (h->edit == EDIT_APPEND)
		tail = buffer_take(&h->edited);
	if (h->edit != EDIT_WHOLE && h->base)
		buffer_put_bytes(&h->edited, h->base->data);
	buffer_put_bytes(&h->edited, tail);
	must(!h->edited.failed);
	free((void *)tail.data);
	version_set(m, &h->base, NULL);
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

/* True if the contents would become too long once the appended bytes are edited in place. */
static bool
whole_too_big(const struct handle *h)
{
	return h->edit == EDIT_APPEND && h->base &&
	       h->base->data.len + h->edited.len > LIMIT_CONTENTS;
}

/* ---- the quota ---- */

/* The bytes by which the committed contents grow when the buffer has this length. */
static uint64_t
growth(const struct handle *h, uint64_t length)
{
	const uint64_t size = h->inode->attr.size;

	return length > size ? length - size : 0;
}

static void
room_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	const struct result_usage *u = &a->result.usage;

	c->error = call_errno(m, c, a);
	if (c->error == 0 && u->bytes + growth(c->handle, c->length) > u->quota_bytes)
		c->error = u->budgets & 1u << QUOTA_BYTES ? EDQUOT : ENOSPC;
	c->next(m, c);
}

/* Goes on with `next` once it is known whether the quota allows a buffer of this length, with the
 * errno in c->error. A write is refused that early because few programs see an error of close(2);
 * the cell decides about the commit all the same, since other clients may have been faster. */
static void
seek_room(struct mount *m, struct call *c, uint64_t length, call_next *next)
{
	const struct handle *h = c->handle;
	const bool grows = h->edit != EDIT_WHOLE || length > h->edited.len;

	c->next = next;
	c->length = length;
	if (c->error == 0 && !c->answered && !h->dead && !h->inode->dead && grows &&
	    growth(h, length) > 0 && client_status(m->client).scarce)
		call_ask(m, c, &(struct op){.code = OP_get_usage, .get_usage = {h->inode->ino}},
		         room_heard);
	else
		next(m, c);
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

/* True if the write goes to the end, by the flags of the call, not of the open: fcntl(F_SETFL) can
 * change O_APPEND while the file is open. */
static bool
write_at_end(const struct mount_event *e)
{
	return (e->flags & O_APPEND) != 0;
}

static bool
write_appends(const struct handle *h, const struct mount_event *e)
{
	return write_at_end(e) && h->edit != EDIT_WHOLE && !h->unconditional;
}

/* The least length of the contents after the write, as far as the mount knows their attributes. */
static uint64_t
write_end(const struct handle *h, const struct mount_event *e)
{
	uint64_t size = h->edit == EDIT_WHOLE ? h->edited.len : h->inode->attr.size;

	if (!write_at_end(e))
		return (uint64_t)e->offset + e->data.len;
	if (h->unconditional && h->edit == EDIT_NONE)
		size = 0;
	return size + (h->edit == EDIT_APPEND ? h->edited.len : 0) + e->data.len;
}

static void
write_take(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;
	struct mount_event *e = &c->event;
	size_t at;

	if (write_appends(h, e)) {
		h->edit = EDIT_APPEND;
		buffer_put_bytes(&h->edited, e->data);
	} else {
		edit_whole(m, h);
		at = write_at_end(e) ? h->edited.len : (size_t)e->offset;
		if (at + e->data.len > h->edited.len)
			set_length(&h->edited, at + e->data.len);
		if (e->data.len)
			memcpy(h->edited.data + at, e->data.data, e->data.len);
	}
	must(!h->edited.failed);
	kernel_cache_drop(m, h->inode);
	h->dated = false;
	h->lost = 0;
	buffer_note_writer(h, e);
	if (m->config.commit_at_write || (e->flags & (O_SYNC | O_DSYNC)))
		commit(m, c, write_committed);
	else
		call_count(m, c, e->data.len);
}

/* A buffer from which one write is missing must not be committed as if it were complete: every call
 * that would commit it returns the error of that write again, and commits nothing. */
static void
write_refuse(struct mount *m, struct call *c, int error)
{
	if ((error == EFBIG || error == ENOSPC || error == EDQUOT) &&
	    c->handle->edit != EDIT_NONE) {
		MOUNT_TRACE(m, "handle %llu: a write is missing: nothing is committed",
		            (unsigned long long)c->handle->fh);
		c->handle->refused = error;
	}
	call_status(m, c, error);
}

static void write_based(struct mount *m, struct call *c);

/* Another call of the process may have given its record lock back meanwhile: then the buffer was
 * committed, and its base is no longer there. */
static void
write_allowed(struct mount *m, struct call *c)
{
	if (c->error == 0 && c->handle->dead)
		c->error = ESTALE;
	if (c->error || c->answered)
		write_refuse(m, c, c->error);
	else if (!write_appends(c->handle, &c->event) && lacks_base(c->handle))
		snapshot_fetch(m, c, write_based);
	else
		write_take(m, c);
}

/* Commands that share a descriptor go on where the one before has ended: a write beyond the end of
 * the contents would put zeros in the place of what was lost. */
static bool
write_misses(const struct handle *h, const struct mount_event *e)
{
	return h->lost != 0 && !write_at_end(e) &&
	       (uint64_t)e->offset > (h->base ? h->base->data.len : 0);
}

/* The handle has the base of the write, if it needs one. */
static void
write_based(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;

	if (c->error == 0 && write_misses(h, &c->event))
		c->error = h->lost;
	if (c->error == 0 && (write_end(h, &c->event) > LIMIT_CONTENTS || whole_too_big(h)))
		c->error = EFBIG;
	seek_room(m, c, write_end(h, &c->event), write_allowed);
}

/* The size that the mount has may be outdated: another machine may have shortened the file. So the
 * cell is asked before the write is refused as too long. */
static void
write_sized(struct mount *m, struct call *c, const struct client_answer *a)
{
	c->error = call_learn(m, c, a, call_errno(m, c, a));
	write_based(m, c);
}

static void
write_entered(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;
	struct op op = {.code = OP_get_attr};
	int error = commit_unheard(h, &c->event);

	if (error == 0 && h->inode->dead && !inode_lives_on(h->inode))
		error = ESTALE;
	if (error) {
		call_status(m, c, error);
	} else if (!write_appends(h, &c->event) && lacks_base(h)) {
		snapshot_fetch(m, c, write_based);
	} else if (write_appends(h, &c->event) && !h->inode->dead &&
	           write_end(h, &c->event) > LIMIT_CONTENTS) {
		op.get_attr.node = h->inode->ino;
		call_ask(m, c, &op, write_sized);
	} else {
		write_based(m, c);
	}
}

void
buffer_write(struct mount *m, struct call *c)
{
	if (!handle_of_call(m, c))
		return;
	if (c->event.offset < 0 || c->handle->kind != HANDLE_FILE) {
		call_status(m, c, EINVAL);
	} else if (!handle_writable(c->handle)) {
		call_status(m, c, EBADF);
	} else if (c->event.data.len == 0) {
		call_count(m, c, 0);
	} else {
		handle_enter(m, c, write_entered);
	}
}

/* ---- ftruncate ---- */

/* At ESTALE the kernel would repeat truncate(2) of a path, and find nothing of the lost writes, a
 * part of which it was. */
static void
truncate_failed(struct mount *m, struct call *c, int error)
{
	if (error == ESTALE && c->event.fh == 0)
		error = c->handle->inode->dead ? stale_path(m, c) : EIO;
	call_status(m, c, error);
}

static void
truncate_done(struct mount *m, struct call *c)
{
	if (c->error) {
		truncate_failed(m, c, c->error);
		return;
	}
	handle_leave(m, c);
	setattr_answer(m, c);
}

static void truncate_based(struct mount *m, struct call *c);

static void
truncate_allowed(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;

	if (c->error == 0 && h->dead)
		c->error = ESTALE;
	if (c->error || c->answered) {
		truncate_failed(m, c, c->error);
		return;
	}
	if (lacks_base(h)) { /* as in write_allowed */
		snapshot_fetch(m, c, truncate_based);
		return;
	}
	edit_whole(m, h);
	set_length(&h->edited, (size_t)c->event.set_size);
	kernel_cache_drop(m, h->inode);
	if (c->event.set_size == 0)
		h->refused = 0; /* the missing write no longer matters */
	h->dated = false;
	h->lost = 0;
	buffer_note_writer(h, &c->event);
	if (m->config.commit_at_write || h->released) /* no close of the handle follows */
		commit(m, c, truncate_done);
	else
		truncate_done(m, c);
}

static void
truncate_based(struct mount *m, struct call *c)
{
	if (c->error == 0 && whole_too_big(c->handle))
		c->error = EFBIG;
	seek_room(m, c, c->event.set_size, truncate_allowed);
}

static void
truncate_entered(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;
	int error = commit_unheard(h, &c->event);

	if (error == 0 && (h->dead || (h->inode->dead && !inode_lives_on(h->inode))))
		error = ESTALE;
	if (error)
		truncate_failed(m, c, error);
	else if (lacks_base(h))
		snapshot_fetch(m, c, truncate_based);
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
