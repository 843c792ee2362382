/* Open files and directories: the order of calls on a handle, and the end of a handle.
 *
 * A call that needs the contents or commits them enters the handle and has it alone until it leaves
 * it; other calls on the same handle wait behind it, in order. Calls on different handles never
 * wait for each other. */
#include <fcntl.h>
#include "fs/mount/internal.h"

static int
handle_order(const struct handle *a, const struct handle *b)
{
	return (a->fh > b->fh) - (a->fh < b->fh);
}

RB_GENERATE(handle_numbers, handle, by_number, handle_order)

void
handles_begin(struct handles *handles)
{
	TAILQ_INIT(&handles->all);
	RB_INIT(&handles->by_number);
	TAILQ_INIT(&handles->ready);
}

struct handle *
handle_new(struct mount *m, struct inode *inode, const struct call *c)
{
	struct handle *h = memory_zero(1, sizeof *h);

	h->fh = ++m->handles.next_fh;
	h->flags = c->event.flags;
	h->opener = c->event.pid;
	h->user = bytes_copy(c->event.user);
	h->edited = BUFFER(LIMIT_CONTENTS);
	h->sequencer = BUFFER(LIMIT_SEQUENCER + 1);
	h->pages = BUFFER((size_t)LIMIT_LISTING * (LIMIT_NAME + 32));
	TAILQ_INIT(&h->queue);
	must(RB_INSERT(handle_numbers, &m->handles.by_number, h) == NULL);
	TAILQ_INSERT_TAIL(&m->handles.all, h, of_mount);
	if (inode == NULL) {
		h->kind = HANDLE_VIRTUAL;
		return h;
	}
	h->kind = inode->attr.kind == NODE_DIRECTORY ? HANDLE_DIRECTORY : HANDLE_FILE;
	m->handles.files += h->kind == HANDLE_FILE;
	h->inode = inode;
	inode->refs++;
	TAILQ_INSERT_TAIL(&inode->handles, h, of_inode);
	event_watch_follow(m, inode);
	return h;
}

void
handle_discard(struct mount *m, struct handle *h)
{
	TAILQ_REMOVE(&m->handles.all, h, of_mount);
	event_stream_free(m, h);
	version_put(m, h->base);
	version_put(m, h->mapped);
	buffer_free(&h->edited);
	buffer_free(&h->sequencer);
	buffer_free(&h->pages);
	free((void *)h->user.data);
	free(h->writers);
	free((void *)h->listing.data);
	free(h->children);
	free(h);
}

static void
handle_free(struct mount *m, struct handle *h)
{
	must(h->released && h->refs == 0 && h->active == NULL && TAILQ_EMPTY(&h->queue));
	if (h->ready)
		TAILQ_REMOVE(&m->handles.ready, h, ready_entry);
	if (h->inode)
		inode_put(m, h->inode);
	handle_discard(m, h);
}

struct handle *
handle_find(struct mount *m, uint64_t fh)
{
	struct handle key = {.fh = fh};

	return RB_FIND(handle_numbers, &m->handles.by_number, &key);
}

struct handle *
handle_after(struct inode *i, uint64_t after)
{
	struct handle *h, *next = NULL;

	TAILQ_FOREACH(h, &i->handles, of_inode)
		if (h->kind == HANDLE_FILE && h->fh > after && (next == NULL || h->fh < next->fh))
			next = h;
	return next;
}

bool
handle_appends(const struct handle *h)
{
	return (h->flags & O_APPEND) != 0;
}

bool
handle_writable(const struct handle *h)
{
	return (h->flags & O_ACCMODE) != O_RDONLY;
}

bool
handle_readable(const struct handle *h)
{
	return (h->flags & O_ACCMODE) != O_WRONLY;
}

void
handle_refer(struct call *c, struct handle *h)
{
	must(c->handle == NULL);
	c->handle = h;
	h->refs++;
}

void
handle_put(struct mount *m, struct handle *h)
{
	must(h->refs > 0);
	if (--h->refs == 0 && h->released)
		handle_free(m, h);
}

bool
handle_of_call(struct mount *m, struct call *c)
{
	struct handle *h = handle_find(m, c->event.fh);

	if (h == NULL || h->inode == NULL) {
		call_status(m, c, EBADF);
		return false;
	}
	handle_refer(c, h);
	call_refer(c, h->inode);
	return true;
}

/* ---- entering and leaving ---- */

/* A flush or a rename is run on a dead handle, too: it decides itself what is left to do. */
static void
handle_run(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;

	h->active = c;
	if (h->dead && !c->answered && c->event.kind != MOUNT_FLUSH &&
	    c->event.kind != MOUNT_UNLINK)
		call_status(m, c, ESTALE);
	else
		c->next(m, c);
}

void
handle_enter(struct mount *m, struct call *c, call_next *next)
{
	struct handle *h = c->handle;

	must(h->active != c && c->token == 0 && c->queue == NULL);
	c->next = next;
	if (h->active == NULL && TAILQ_EMPTY(&h->queue)) {
		handle_run(m, c);
		return;
	}
	MOUNT_TRACE(m, "call %llu waits for handle %llu, which call %llu has",
	            (unsigned long long)c->event.call, (unsigned long long)h->fh,
	            h->active ? (unsigned long long)h->active->event.call : 0);
	c->queue = &h->queue;
	TAILQ_INSERT_TAIL(&h->queue, c, waiting);
}

/* The next call runs at the end of the step, not inside of the call that leaves. */
static void
handle_wake(struct mount *m, struct handle *h)
{
	if (h->active || h->ready || TAILQ_EMPTY(&h->queue))
		return;
	h->ready = true;
	TAILQ_INSERT_TAIL(&m->handles.ready, h, ready_entry);
}

void
handle_leave(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;

	if (h->active != c)
		return;
	h->active = NULL;
	handle_wake(m, h);
}

void
handle_give_up(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;

	handle_leave(m, c);
	c->handle = NULL;
	handle_put(m, h);
}

void
handle_run_ready(struct mount *m)
{
	struct handle *h;
	struct call *c;

	while ((h = TAILQ_FIRST(&m->handles.ready))) {
		TAILQ_REMOVE(&m->handles.ready, h, ready_entry);
		h->ready = false;
		c = TAILQ_FIRST(&h->queue);
		if (h->active || c == NULL)
			continue;
		TAILQ_REMOVE(&h->queue, c, waiting);
		c->queue = NULL;
		h->refs++;
		handle_run(m, c);
		handle_wake(m, h);
		handle_put(m, h);
	}
}

/* ---- the end ---- */

void
handle_die(struct mount *m, struct handle *h)
{
	MOUNT_TRACE(m, "handle %llu is dead: its buffer of %zu bytes is lost",
	            (unsigned long long)h->fh, h->edited.len);
	h->dead = true;
	event_watch_wake(m, h);
	if (h->edit != EDIT_NONE && !h->owed)
		h->owed = ESTALE;
	buffer_drop(m, h);
}

/* Answers the calls that still wait for the handle. The kernel does not release a file that is in
 * use, unless the calls that use it were answered. */
static void
refuse_queue(struct mount *m, struct handle *h)
{
	struct call *c, *more;

	TAILQ_FOREACH_SAFE(c, &h->queue, waiting, more)
		if (!c->answered && c->event.kind != MOUNT_UNLINK)
			call_status(m, c, EBADF);
}

/* All that is left to do is sent at once, in order, before all later requests: the commit, the
 * unlocks, the close of an ephemeral file. So a later call of any process finds it done. */
void
handle_close(struct mount *m, struct handle *h)
{
	must(!h->released);
	h->refs++;
	RB_REMOVE(handle_numbers, &m->handles.by_number, h);
	refuse_queue(m, h);
	h->released = true;
	if (h->inode) {
		m->handles.files -= h->kind == HANDLE_FILE;
		if (h->tainted)
			buffer_drop(m, h);
		commit_behind(m, h);
		flock_released(m, h);
		record_lock_released(m, h);
		TAILQ_REMOVE(&h->inode->handles, h, of_inode);
		if (TAILQ_EMPTY(&h->inode->handles))
			version_set(m, &h->inode->last, NULL);
		event_watch_follow(m, h->inode);
		ephemeral_closed(m, h->inode);
	}
	if (h->stream)
		event_stream_close(m, h);
	handle_put(m, h);
}

void
handle_release(struct mount *m, struct call *c)
{
	struct handle *h = handle_find(m, c->event.fh);

	if (h)
		handle_close(m, h);
	call_status(m, c, 0);
}

/* ---- the guard ---- */

/* A text that is no sequencer of this cell names no acquisition. */
static void
guard_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	const struct result_checked *r = &a->result.checked;
	int error = call_errno(m, c, a);

	if (error == 0 && r->guard.node == 0)
		error = EINVAL;
	else if (error == 0 && r->why.len > 0)
		error = ESTALE;
	if (error == 0)
		c->handle->guard = r->guard;
	call_status(m, c, error);
}

static void
guard_entered(struct mount *m, struct call *c)
{
	struct op op = {.code = OP_check_sequencer};

	op.check_sequencer.sequencer = c->event.data;
	call_ask(m, c, &op, guard_heard);
}

void
handle_guard(struct mount *m, struct call *c)
{
	if (c->event.data.len == 0 || c->event.data.len > LIMIT_SEQUENCER)
		call_status(m, c, EINVAL);
	else if (handle_of_call(m, c))
		handle_enter(m, c, guard_entered);
}
