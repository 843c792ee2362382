/* Open files and directories: the order of calls on a handle, and the end of a handle.
 *
 * A call that needs the contents or commits them enters the handle and has it alone until it leaves
 * it; other calls on the same handle wait behind it, in order. Calls on different handles never
 * wait for each other. */
#include <fcntl.h>
#include "cell/base/keyed.h"
#include "fs/mount/internal.h"

KEYED_GENERATE(handle_numbers, handle, by_number, fh)

struct handle *
handle_make(struct mount *m, struct inode *inode, uint64_t fh)
{
	struct handle *h = memory_zero(1, sizeof *h);

	h->fh = fh;
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
	return h;
}

struct handle *
handle_new(struct mount *m, struct inode *inode, const struct call *c, struct client_rights opened)
{
	struct handle *h = handle_make(m, inode, ++m->handles.next_fh);

	h->flags = c->event.flags;
	h->opener = c->event.pid;
	h->opener_thread = c->event.thread;
	h->user = bytes_copy(c->event.user);
	h->opened = opened;
	if (inode != NULL) {
		h->seen = inode->attr.content_generation;
		event_watch_follow(m, inode);
	}
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
	free(h->creditors);
	free((void *)h->listing.data);
	free(h->children);
	free(h);
}

struct handle *
handle_find(struct mount *m, uint64_t fh)
{
	return handle_numbers_find(&m->handles.by_number, fh);
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
handle_writable(const struct handle *h)
{
	return (h->flags & O_ACCMODE) != O_RDONLY;
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
	if (--h->refs > 0 || !h->released)
		return;
	must(h->active == NULL && TAILQ_EMPTY(&h->queue));
	if (h->ready)
		TAILQ_REMOVE(&m->handles.ready, h, ready_entry);
	if (h->inode)
		inode_put(m, h->inode);
	handle_discard(m, h);
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
	/* This is looked up before the call waits for the handle: the call that it waits for may
	 * end the buffer whose writers name the process. */
	if (c->event.pid == 0)
		c->event.pid = buffer_knows_process(h, &c->event);
	return true;
}

/* ---- entering and leaving ---- */

/* A flush, a rename or a truncation by name is run on a dead handle, too: it decides itself what is
 * left to do. */
static void
handle_run(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;

	h->active = c;
	if (h->dead && !c->answered && c->event.kind != MOUNT_FLUSH && c->event.fh != 0)
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
	if (h->inode != NULL && h->edit == EDIT_NONE && h->refused != 0) {
		/* A write was refused that would have lacked what was before it. */
		h->lost = h->refused;
		h->refused = 0;
	}
	handle_wake(m, h);
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
	if (h->edit != EDIT_NONE)
		commit_owe(h, ESTALE, false);
	buffer_drop(m, h);
}

void
handle_keep(struct mount *m, struct handle *h, struct inode *made)
{
	struct inode *before = h->made;

	h->made = made;
	if (made != NULL) {
		made->refs++;
		made->keepers++;
	}
	if (before == NULL)
		return;
	before->keepers--;
	ephemeral_closed(m, before);
	inode_put(m, before);
}

/* All that is left to do is sent at once, in order, before all later requests: the commit, the
 * unlocks, the close of an ephemeral file. So a later call of any process finds it done. */
static void
handle_close(struct mount *m, struct handle *h)
{
	struct call *c, *more;

	must(!h->released);
	h->refs++;
	RB_REMOVE(handle_numbers, &m->handles.by_number, h);
	/* The kernel does not release a file that is in use, unless the calls that use it were
	 * answered; but it does not know of a truncation by name. */
	TAILQ_FOREACH_SAFE(c, &h->queue, waiting, more)
		if (!c->answered && c->event.fh != 0)
			call_status(m, c, EBADF);
	h->released = true;
	if (h->inode) {
		m->handles.files -= h->kind == HANDLE_FILE;
		if (h->tainted)
			buffer_abandon(m, h);
		commit_behind(m, h);
		flock_released(m, h);
		record_lock_released(m, h);
		TAILQ_REMOVE(&h->inode->handles, h, of_inode);
		if (h->mapped)
			snapshot_pages_stay(h);
		if (TAILQ_EMPTY(&h->inode->handles))
			version_set(m, &h->inode->last, NULL);
		event_watch_follow(m, h->inode);
		ephemeral_closed(m, h->inode);
		handle_keep(m, h, NULL);
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
	if (c->event.data.len == 0) {
		c->handle->guard = (struct guard){0};
		call_status(m, c, 0);
	} else {
		call_ask(m, c, &op, guard_heard);
	}
}

void
handle_guard(struct mount *m, struct call *c)
{
	if (c->event.data.len > LIMIT_SEQUENCER) {
		call_status(m, c, EINVAL);
	} else if (handle_of_call(m, c)) {
		if (c->handle->poisoned)
			call_status(m, c, ECANCELED);
		else
			handle_enter(m, c, guard_entered);
	}
}

/* ---- poison ---- */

/* A request that was sent to the cell takes its answer, but that of a lock is given up. */
void
handle_poisoned(struct mount *m, struct handle *h)
{
	h->poisoned = true;
	handle_die(m, h);
	file_lock_poisoned(m, h);
}

void
handle_poison(struct mount *m, struct call *c)
{
	if (!handle_of_call(m, c))
		return;
	handle_poisoned(m, c->handle);
	call_status(m, c, 0);
}

/* ---- open and create ---- */

/* Open and create. Access is checked here, against the rights in the node's attributes. An open for
 * reading fetches the contents, too: the file may be deleted elsewhere before the first read. */

static int
open_denied(struct call *c, const struct attr *a)
{
	const int flags = c->event.flags, access = flags & O_ACCMODE;
	unsigned needed = 0;

	if (a->kind == NODE_DIRECTORY)
		return EISDIR;
	if (flags & FLAG_EXEC)
		return EACCES;
	if (access != O_WRONLY)
		needed |= RIGHT_READ;
	if (access != O_RDONLY || (flags & O_TRUNC))
		needed |= RIGHT_WRITE;
	return refusal_by(c, a, needed);
}

static bool
open_reads(int flags)
{
	return (flags & O_ACCMODE) != O_WRONLY && !(flags & (O_TRUNC | FLAG_EXEC));
}

/* The truncation stays in the buffer until data is written or the file is closed. */
static void
open_truncate(struct mount *m, struct handle *h)
{
	kernel_cache_drop(m, h->inode);
	h->unconditional = true;
	h->edit = EDIT_WHOLE;
	h->truncation = true;
}

static void
open_done(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;

	if (c->error || c->answered || h->dead) {
		handle_close(m, h);
		call_status(m, c, c->error ? c->error : ESTALE);
		return;
	}
	if (c->event.flags & O_TRUNC)
		open_truncate(m, h);
	snapshot_pages_go(m, h->inode, c->event.ino);
	call_opened(m, c, h->fh);
}

static void
open_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	const struct attr *attr = wire_result_attr(&a->result);
	int error = call_path_errno(m, c, a);

	if (error == 0)
		error = c->op == OP_get_contents ? snapshot_learn(m, c, a) : call_learn(m, c, a, 0);
	if (error == 0)
		error = open_denied(c, attr);
	if (error || c->answered) {
		call_status(m, c, error);
		return;
	}
	handle_refer(c, handle_new(m, c->inode, c, a->opens));
	if (c->version)
		snapshot_opened(m, c->handle, version_ref(c->version));
	ephemeral_open(m, c, open_done);
}

unsigned
handle_rights_deleted(const struct inode *i, struct bytes user)
{
	const struct handle *h;
	unsigned rights = 0;

	TAILQ_FOREACH(h, &i->handles, of_inode)
		if (inode_lives_on(i) && i->last && !h->dead && bytes_equal(h->user, user))
			rights |= h->opened.rights;
	return rights;
}

static void
open_deleted(struct mount *m, struct call *c, unsigned rights)
{
	const struct client_rights opened = {.rights = (uint8_t)rights};
	struct attr attr = c->inode->attr;
	int error;

	attr.rights = opened.rights;
	error = open_denied(c, &attr);
	if (error) {
		call_status(m, c, error);
		return;
	}
	handle_refer(c, handle_new(m, c->inode, c, opened));
	snapshot_opened(m, c->handle, version_ref(c->inode->last));
	open_done(m, c);
}

void
handle_open(struct mount *m, struct call *c)
{
	struct op op = {.code = OP_get_attr};
	unsigned rights;

	call_refer(c, inode_get(m, inode_where(m, c->event.ino)));
	rights = handle_rights_deleted(c->inode, c->event.user);
	op.get_attr.node = c->inode->ino;
	if (rights)
		open_deleted(m, c, rights);
	else if (open_reads(c->event.flags))
		snapshot_ask(m, c, c->inode, open_heard);
	else
		call_ask(m, c, &op, open_heard);
}

/* ---- create ---- */

static void
create_done(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;

	if (c->error || c->answered || h->dead) {
		handle_close(m, h);
		call_status(m, c, c->error ? c->error : ESTALE);
		return;
	}
	if ((c->event.flags & O_TRUNC) && h->base == NULL)
		open_truncate(m, h);
	h->unconditional = (c->event.flags & O_TRUNC) != 0;
	snapshot_pages_go(m, h->inode, h->inode->ino);
	call_created(m, c, h->inode, h->fh);
}

static void
create_read(struct mount *m, struct call *c, const struct client_answer *a)
{
	c->error = call_path_errno(m, c, a);
	if (c->error == 0)
		c->error = snapshot_learn(m, c, a);
	if (c->error == 0)
		snapshot_opened(m, c->handle, version_ref(c->version));
	create_done(m, c);
}

/* The file existed before: the call is an open. */
static void
create_found(struct mount *m, struct call *c)
{
	if (c->error || c->answered || c->handle->dead || !open_reads(c->event.flags))
		create_done(m, c);
	else
		snapshot_ask(m, c, c->inode, create_read);
}

/* The cell has made the session an opener of an ephemeral file. */
static void
create_opened(struct mount *m, struct call *c, const struct attr *attr)
{
	if (attr->ephemeral && !mount_session_lost(m, c->session))
		ephemeral_opened(m, c->inode, attr->node);
}

/* The file was there. A close of an earlier handle may have undone the open that the create
 * implies, so the file is opened again. When it is open by an earlier number already, or the open
 * is denied, the implied open is closed. */
static void
create_open(struct mount *m, struct call *c, const struct attr *attr)
{
	if (c->error || c->inode->opened != 0)
		create_opened(m, c, attr);
	if (c->error)
		create_done(m, c);
	else
		ephemeral_open(m, c, create_found);
}

static void
create_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	const struct attr *attr = &a->result.created.attr;
	int error = call_path_errno(m, c, a);
	struct inode *i = NULL;

	if (error == 0 && (i = inode_learn(m, attr, a->index)) == NULL)
		error = EIO;
	if (error) {
		call_status(m, c, error);
		return;
	}
	inode_named(i, c->event.ino, c->event.name);
	call_refer(c, i);
	handle_refer(c, handle_new(m, i, c, a->opens));
	if (!a->result.created.fresh) {
		c->error = open_denied(c, attr);
		create_open(m, c, attr);
		return;
	}
	/* A new file is empty: there is nothing to fetch or to truncate. */
	snapshot_set(m, c->handle,
	             version_get(m, attr->node, attr->content_generation, (struct bytes){0}));
	i->maker = c->event.pid;
	create_opened(m, c, attr);
	create_done(m, c);
}

void
handle_create(struct mount *m, struct call *c)
{
	name_create(m, c, NODE_FILE, (c->event.flags & O_EXCL) != 0, create_heard);
}
