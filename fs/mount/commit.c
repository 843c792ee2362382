/* When and how a buffer is committed: when a process that wrote closes a descriptor, at fsync,
 * before and after locking, before a rename, and otherwise at the release. Uncommitted writes are
 * not visible to other processes, and every error is reported to a writer, except an error at the
 * release. If the caller of the call that commits is no writer, or has been answered, the error is
 * owed to the writers. */
#include "fs/mount/internal.h"

/* ---- the error that is owed ---- */

/* The handle owes one error: an error that no call has returned takes the place of one that a close
 * has returned, and is not displaced by such a one. Of two errors that no call has returned the
 * first is kept, and any caller is owed it. Returns true if the new error is kept. */
static bool
owe(struct handle *h, int error, bool heard)
{
	const bool first = h->owed == 0 || h->heard;

	if (!first && heard)
		return false;
	h->creditors_n = 0;
	h->others_told = false;
	if (!first)
		return false;
	h->owed = error;
	h->heard = heard;
	return true;
}

void
commit_owe(struct handle *h, int error, bool heard)
{
	if (!owe(h, error, heard))
		return;
	for (; h->creditors_n < h->writers_n; h->creditors_n++) {
		ARRAY_ROOM(h->creditors, h->creditors_n, h->creditors_room);
		h->creditors[h->creditors_n] = h->writers[h->creditors_n];
	}
}

/* An error that no call has returned stays until each writer was told. A dead handle keeps its
 * error: no call succeeds on it any more. */
static int
take_owed(struct handle *h, const struct mount_event *e)
{
	int owed = h->owed;

	buffer_forget_creditor(h, e);
	if (!h->dead && (h->heard || h->creditors_n == 0))
		h->owed = 0;
	return owed;
}

/* The child of a writer closes the copies of its descriptors, and ignores the errors. */
static bool
is_owed_to(const struct handle *h, const struct mount_event *e)
{
	return h->dead || buffer_lost_by(h, e->lock_owner, e->pid);
}

/* Another process that asks is told once, too, and the writers all the same. */
static int
tell_owed(struct handle *h, const struct mount_event *e)
{
	if (h->heard || is_owed_to(h, e))
		return take_owed(h, e);
	if (h->others_told)
		return 0;
	h->others_told = h->owed != 0;
	return h->owed;
}

int
commit_unheard(struct handle *h, const struct mount_event *e)
{
	return !h->heard && is_owed_to(h, e) ? take_owed(h, e) : 0;
}

void
commit_read_again(struct handle *h)
{
	h->lost = 0;
	if (h->heard)
		h->owed = 0;
}

/* ---- the commit ---- */

static struct op
commit_op(const struct handle *h)
{
	struct op op = {.code = OP_set_contents};

	if (h->edit == EDIT_APPEND) {
		op.code = OP_append;
		op.append.node = h->inode->ino;
		op.append.data = buffer_view(&h->edited);
		return op;
	}
	op.set_contents = (struct op_set_contents){.node = h->inode->ino,
	                                           .guarded = !h->unconditional,
	                                           .contents = buffer_view(&h->edited)};
	if (op.set_contents.guarded)
		op.set_contents.generation = h->generation;
	return op;
}

/* Puts the appended bytes after the version that the handle has read. */
static void
join_tail(struct handle *h)
{
	struct bytes tail = buffer_take(&h->edited);

	buffer_put_bytes(&h->edited, h->base->data);
	buffer_put_bytes(&h->edited, tail);
	free((void *)tail.data);
}

/* The committed buffer has become the version `generation`, and becomes the handle's snapshot; but
 * appended bytes only if no other commit has come between them and the version that was read. */
static void
commit_took(struct mount *m, struct handle *h, uint64_t generation)
{
	bool next = h->base && generation == h->generation + 1;

	if (h->edit == EDIT_APPEND && next)
		join_tail(h);
	if ((h->edit == EDIT_APPEND && !next) || h->edited.failed)
		snapshot_drop(m, h);
	else
		snapshot_set(m, h, version_take(m, h->inode, generation, &h->edited));
	h->seen = generation;
	h->edit = EDIT_NONE;
	buffer_drop(m, h);
}

/* Makes the next version of a deleted file, which exists only in memory, for the handles that are
 * open here. If nobody who has it open could read it, appended bytes are all that there is. */
static int
commit_in_memory(struct mount *m, struct handle *h)
{
	struct inode *i = h->inode;

	if (h->edit == EDIT_APPEND) {
		if (i->last != NULL) {
			snapshot_set(m, h, version_ref(i->last));
			join_tail(h);
		}
		h->edit = EDIT_WHOLE;
	} else if (!h->unconditional && h->generation != i->attr.content_generation) {
		return ECANCELED;
	}
	if (h->edited.failed)
		return EFBIG;
	MOUNT_TRACE(m, "handle %llu: %zu bytes become the contents of deleted node %llu",
	            (unsigned long long)h->fh, h->edited.len, (unsigned long long)i->ino);
	i->attr.size = h->edited.len;
	i->attr.mtime_ns = h->dated ? h->mtime_ns : i->attr.mtime_ns;
	commit_took(m, h, ++i->attr.content_generation);
	version_set(m, &i->last, version_ref(h->base));
	return 0;
}

/* The call that commits returns the error. The other writers have not heard it then, nor has any if
 * the call was answered before: they are owed it. A close, whose error shells ignore, is owed it
 * again, and tells nobody else. The process that has truncated the file counts as a writer. */
static void
commit_failed(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;
	const struct mount_event *e = &c->event;
	bool unheard;

	MOUNT_TRACE(m, "handle %llu: the buffer of %zu bytes is dropped: %s",
	            (unsigned long long)h->fh, h->edited.len, rc_errno_name(c->error));
	if (h->truncation && !h->opener_gone)
		buffer_note_writer(h, &(struct mount_event){.pid = h->opener});
	unheard = c->answered || buffer_written_by_others(h, e->lock_owner, e->pid);
	if (unheard && !c->answered)
		buffer_forget_writer(h, e);
	if (unheard || e->kind == MOUNT_FLUSH)
		commit_owe(h, c->error, !unheard);
	h->others_told = !c->answered && e->kind != MOUNT_FLUSH;
	buffer_lose(m, h, c->error);
}

static struct op
date_op(const struct handle *h)
{
	struct op op = {.code = OP_set_mtime};

	op.set_mtime.node = h->inode->ino;
	op.set_mtime.mtime_ns = h->mtime_ns;
	return op;
}

static void
date_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	c->error = call_learn(m, c, a, call_errno(m, c, a));
	c->next(m, c);
}

static void
commit_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	struct handle *h = c->handle;
	const struct attr *attr = &a->result.attr.attr;
	struct op date = date_op(h);
	bool dated = h->dated;

	c->error = call_learn(m, c, a, call_errno(m, c, a));
	h->committing = false;
	if (call_handle_moved(c)) {
		commit(m, c, c->next);
		return;
	}
	if (c->error) {
		commit_failed(m, c);
	} else if (h->edit != EDIT_NONE) {
		MESSAGE_TRACE(m->config.trace,
		              "handle %llu: its buffer of %zu bytes is generation %llu",
		              (unsigned long long)h->fh, h->edited.len,
		              (unsigned long long)attr->content_generation);
		commit_took(m, h, attr->content_generation);
	}
	if (c->error == 0 && dated)
		call_ask(m, c, &date, date_heard);
	else
		c->next(m, c);
}

/* True if there is something to commit. A call that commits or reads drops what a killed writer has
 * left; only a write goes on with it. */
static bool
is_pending(struct mount *m, struct handle *h)
{
	if (buffer_is_orphaned(h))
		buffer_abandon(m, h);
	return h->edit != EDIT_NONE;
}

void
commit(struct mount *m, struct call *c, call_next *next)
{
	struct handle *h = c->handle;
	struct op op;

	must(h->active == c);
	c->next = next;
	c->error = 0;
	if (!is_pending(m, h)) {
		next(m, c);
	} else if (h->refused || h->inode->dead) {
		c->error = h->refused ? h->refused : ESTALE;
		if (!h->refused && inode_lives_on(h->inode))
			c->error = commit_in_memory(m, h);
		if (c->error)
			commit_failed(m, c);
		next(m, c);
	} else {
		op = commit_op(h);
		h->committing = true;
		call_ask(m, c, &op, commit_heard);
	}
}

void
commit_or_owed(struct mount *m, struct call *c, bool again, call_next *next)
{
	struct handle *h = c->handle;

	if (is_pending(m, h)) {
		commit(m, c, next);
		return;
	}
	c->error = again || !h->heard ? tell_owed(h, &c->event) : 0;
	next(m, c);
}

/* The buffer of a commit in the background is gone, with the names of its writers: so any caller is
 * owed the error. A write that has come meanwhile, or is under way, may have taken the contents
 * from before the commit as its base, so it must not be committed either. */
static void
behind_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	struct handle *h = c->handle;
	const int error = call_errno(m, c, a);

	if (error == 0)
		h->seen = a->result.attr.attr.content_generation;
	else
		owe(h, error, false);
	if (error != 0 && c->op != OP_set_mtime) {
		h->unconditional |= c->unconditional;
		if (h->edit != EDIT_NONE ||
		    (h->active != NULL && (h->active->event.kind == MOUNT_WRITE ||
		                           h->active->event.kind == MOUNT_SETATTR)))
			h->refused = error;
		else
			h->lost = error;
	}
	call_end(m, c);
}

void
commit_behind(struct mount *m, struct handle *h)
{
	struct call *c;
	struct op op;
	int error = 0;

	if (h->committing || !is_pending(m, h))
		return;
	if (h->refused || (h->inode->dead && !inode_lives_on(h->inode))) {
		error = h->refused ? h->refused : ESTALE;
	} else if (h->inode->dead) {
		error = commit_in_memory(m, h);
	} else {
		op = commit_op(h);
		c = call_behind(m, h->inode, h);
		c->unconditional = h->unconditional;
		call_ask(m, c, &op, behind_heard);
		op = date_op(h);
		if (h->dated)
			call_ask(m, call_behind(m, h->inode, h), &op, behind_heard);
	}
	snapshot_drop(m, h);
	if (error) {
		commit_owe(h, error, false);
		buffer_lose(m, h, error);
	} else {
		buffer_drop(m, h);
	}
}

/* ---- fsync ---- */

static void
fsync_committed(struct mount *m, struct call *c)
{
	call_status(m, c, c->error);
}

static void
fsync_entered(struct mount *m, struct call *c)
{
	commit_or_owed(m, c, true, fsync_committed);
}

void
commit_fsync(struct mount *m, struct call *c)
{
	if (!handle_of_call(m, c))
		return;
	if (c->handle->kind != HANDLE_FILE)
		call_status(m, c, 0);
	else
		handle_enter(m, c, fsync_entered);
}

/* ---- flush: a process closes a descriptor ---- */

/* A truncation without data is not committed at the first close, because the data usually follows:
 * with `>` a shell closes one descriptor while it still has another. It is committed when its
 * opener has none left through which it could write: or else at the release. */
static bool
is_opener(const struct handle *h, pid_t pid)
{
	return process_is(pid, h->opener) || h->opener_gone;
}

/* The reason why a close commits nothing; NULL if it commits the buffer. */
static const char *
flush_obstacle(const struct handle *h, const struct mount_event *e)
{
	if (h->edit == EDIT_NONE)
		return "nothing is written";
	if (e->fate == FATE_KILLED)
		return "a killed process commits nothing";
	if (buffer_is_orphaned(h))
		return "its writer was killed";
	if (h->truncation && !is_opener(h, e->pid))
		return "another process has truncated it";
	if (h->truncation && e->has_other)
		return "its opener has another descriptor";
	if (!h->truncation && !buffer_written_by(h, e->lock_owner, e->pid))
		return "another process has written it";
	return NULL;
}

static bool
flush_commits(const struct handle *h, const struct mount_event *e)
{
	return flush_obstacle(h, e) == NULL;
}

/* The record lock of the process that closes a descriptor; NULL if it has none on the file. */
static struct mount_lock *
record_lock(struct handle *h, const struct mount_event *e)
{
	return TAILQ_EMPTY(&h->inode->locks) ? NULL : record_lock_of(h, e->lock_owner);
}

unsigned
commit_wants(struct handle *h, const struct mount_event *e)
{
	unsigned wants = 0;

	if ((h->edit != EDIT_NONE || h->owed != 0) && !buffer_knows_process(h, e))
		wants |= WANTS_PROCESS;
	if (e->kind != MOUNT_FLUSH)
		return wants;
	if (h->edit != EDIT_NONE)
		wants |= WANTS_FATE;
	if (record_lock(h, e))
		wants |= WANTS_FATE;
	if (h->truncation)
		wants |= WANTS_DESCRIPTORS;
	return wants;
}

/* True if the process was killed, and has changed the buffer. */
static bool
killed_writer(const struct handle *h, const struct mount_event *e)
{
	if (e->fate != FATE_KILLED || h->edit == EDIT_NONE || h->committing)
		return false;
	return buffer_written_by(h, e->lock_owner, e->pid) ||
	       (h->truncation && process_is(e->pid, h->opener));
}

/* When the caller was answered before, another process may have its number as an owner, and another
 * acquisition. */
static void
flush_done(struct mount *m, struct call *c)
{
	struct mount_lock *l = record_lock(c->handle, &c->event);

	if (l && (!c->answered || l->acquisition == c->acquisition)) {
		handle_leave(m, c);
		record_lock_free(m, c, l);
	} else {
		call_status(m, c, c->error);
	}
}

/* It may be the writer's last call, which must not succeed when an earlier write is lost. */
static void
flush_committed(struct mount *m, struct call *c)
{
	if (c->error == 0 && !c->answered)
		c->error = commit_unheard(c->handle, &c->event);
	flush_done(m, c);
}

static void
flush_nothing(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;

	if (h->edit != EDIT_NONE && flush_obstacle(h, &c->event) != NULL)
		MOUNT_TRACE(m, "handle %llu: %zu bytes are not committed: %s",
		            (unsigned long long)h->fh, h->edited.len, flush_obstacle(h, &c->event));
	if (is_owed_to(h, &c->event))
		c->error = take_owed(h, &c->event);
	flush_done(m, c);
}

static void
flush_entered(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;

	if (flush_commits(h, &c->event))
		commit(m, c, flush_committed);
	else
		flush_nothing(m, c);
}

/* True if the flush has something to do on its handle, or may have and need not wait for that: then
 * it is decided once, after the entry. */
static bool
flush_enters(const struct handle *h, const struct mount_event *e)
{
	const bool idle = h->active == NULL && TAILQ_EMPTY(&h->queue);

	return h->edit != EDIT_NONE && (idle || flush_commits(h, e));
}

/* A flush with nothing to commit and no lock of its owner sends nothing to the cell and does not
 * wait. */
void
commit_flush(struct mount *m, struct call *c)
{
	struct mount_lock *l;
	struct handle *h;

	if (!handle_of_call(m, c))
		return;
	h = c->handle;
	if (!TAILQ_EMPTY(&h->inode->locks))
		flock_flushed(m, h);
	if (process_is(c->event.pid, h->opener) &&
	    (c->event.fate == FATE_EXITING || c->event.fate == FATE_KILLED))
		h->opener_gone = true;
	if (killed_writer(h, &c->event)) {
		h->tainted = true;
		buffer_forget_writer(h, &c->event);
	}
	l = record_lock(h, &c->event);
	c->acquisition = l ? l->acquisition : 0;
	/* The owner's number is used again as soon as the close is answered. */
	if (l && c->event.fate == FATE_KILLED)
		lock_drop(m, l);
	if (flush_enters(h, &c->event))
		handle_enter(m, c, flush_entered);
	else
		flush_nothing(m, c);
}
