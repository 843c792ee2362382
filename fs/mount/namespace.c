/* Names: lookup, mkdir, unlink, rmdir. The names are kept by the cell; the mount caches none. */
#include <string.h>
#include <sys/stat.h>
#include "fs/mount/internal.h"

static bool
is_reserved(uint64_t parent, struct bytes name)
{
	return parent == NODE_ROOT && bytes_equal(name, bytes_of(".cell"));
}

/* The errno with which making or removing a node of this name is refused; 0 if it is allowed. */
static int
name_error(uint64_t parent, struct bytes name)
{
	if (inode_is_virtual(parent) || is_reserved(parent, name) || virtual_beside(name) != 0)
		return EPERM;
	return name.len > LIMIT_NAME ? ENAMETOOLONG : 0;
}

static void
name_entry(struct mount *m, struct call *c, const struct attr *attr, uint64_t index, pid_t maker)
{
	struct inode *i = inode_learn(m, attr, index);

	if (i == NULL) {
		call_status(m, c, EIO);
		return;
	}
	if (maker)
		i->maker = maker;
	inode_named(i, c->event.ino, c->event.name);
	i->refs++;
	call_entry(m, c, i);
	inode_put(m, i);
}

/* ---- lookup ---- */

static void lookup_next(struct mount *m, struct call *c, uint64_t directory);

/* The kernel has one name for a directory. It would move it below the dead one, or fail with ESTALE
 * where it cannot do so at once. So a dead node stands in for a directory: a call that makes a node
 * finds that the name is taken, any other call comes to a dead node. */
static void
next_entry(struct mount *m, struct call *c, struct attr attr, uint64_t index)
{
	struct inode *i;

	if (attr.kind == NODE_DIRECTORY)
		attr.node = MOUNT_INO_STAND_IN | ++m->stand_ins;
	if (attr.kind == NODE_DIRECTORY && (i = inode_learn(m, &attr, index))) {
		i->dead = true;
		i->named_until = c->inode->named_until;
	}
	name_entry(m, c, &attr, index, 0);
}

static void
next_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	const int error = call_errno(m, c, a);

	if (error == 0 && !c->answered && c->walked < c->text.len)
		lookup_next(m, c, a->result.attr.attr.node);
	else if (error == 0)
		next_entry(m, c, a->result.attr.attr, a->index);
	else
		call_status(m, c, error == ESTALE ? ENOENT : error);
}

/* Looks up the next name of the path in c->text. */
static void
lookup_next(struct mount *m, struct call *c, uint64_t directory)
{
	const struct bytes rest = {c->text.data + c->walked + 1, c->text.len - c->walked - 1};
	const uint8_t *end = memchr(rest.data, '/', rest.len);
	struct op op = {.code = OP_lookup, .lookup.parent = directory};

	op.lookup.name = (struct bytes){rest.data, end ? (size_t)(end - rest.data) : rest.len};
	c->walked += 1 + op.lookup.name.len;
	call_ask(m, c, &op, next_heard);
}

/* The directory is dead, and its path may lead to another directory. ESTALE would make the kernel
 * look the path up, but not in the calls that make a node: mkdir(2), mknod(2), symlink(2) and
 * link(2) pass it on. So the path is looked up here, and what is at its end is the answer. If the
 * kernel has forgotten the name of the directory, the caller works in it, or came to it while it
 * was still there. */
static void
lookup_anew(struct mount *m, struct call *c)
{
	struct buffer path = BUFFER(LIMIT_FRAME);
	struct inode *i = inode_find(m, c->event.ino);

	if (c->answered || i == NULL || !kernel_cache_named(m, i) ||
	    !inode_path(m, c->event.ino, &path)) {
		buffer_free(&path);
		call_status(m, c, ENOENT);
		return;
	}
	buffer_put_u8(&path, '/');
	buffer_put_bytes(&path, c->event.name);
	must(!path.failed);
	c->text = buffer_take(&path);
	c->inode = i;
	i->refs++;
	lookup_next(m, c, NODE_ROOT);
}

static void
lookup_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	const int error = call_errno(m, c, a);

	if (error == ESTALE)
		lookup_anew(m, c);
	else if (error)
		call_status(m, c, error);
	else
		name_entry(m, c, &a->result.attr.attr, a->index, 0);
}

static void
lookup_virtual(struct mount *m, struct call *c, uint64_t ino)
{
	struct mount_reply *r = call_reply(m, c, MOUNT_ENTRY);

	r->stat = virtual_stat(m, ino);
	call_end(m, c);
}

void
name_lookup(struct mount *m, struct call *c)
{
	struct op op = {.code = OP_lookup};
	uint64_t parent = c->event.ino;

	if (is_reserved(parent, c->event.name)) {
		lookup_virtual(m, c, MOUNT_INO_CELL);
	} else if (parent == MOUNT_INO_CELL && virtual_named(c->event.name) != 0) {
		lookup_virtual(m, c, virtual_named(c->event.name));
	} else if (inode_is_virtual(parent)) {
		call_status(m, c, ENOENT);
	} else if (virtual_beside(c->event.name) != 0) {
		lookup_virtual(m, c, virtual_beside(c->event.name));
	} else if (c->event.name.len > LIMIT_NAME) {
		call_status(m, c, ENAMETOOLONG);
	} else {
		op.lookup.parent = parent;
		op.lookup.name = c->event.name;
		call_ask(m, c, &op, lookup_heard);
	}
}

/* ---- the node of a name, for the handles that are open on it ---- */

static void
target_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	int error = call_path_errno(m, c, a);

	if (error) {
		call_status(m, c, error);
		return;
	}
	c->target = a->result.attr.attr.node;
	c->next(m, c);
}

/* Looks up the node that the call's name leads to: its number goes into c->target, then c->next
 * runs. While no file is open here the cell is not asked, and the number is 0. */
static void
name_target(struct mount *m, struct call *c, call_next *next)
{
	struct op op = {.code = OP_lookup};

	c->event.fh = 0;
	c->next = next;
	if (m->handles.files == 0) {
		next(m, c);
		return;
	}
	op.lookup.parent = c->event.ino;
	op.lookup.name = c->event.name;
	call_ask(m, c, &op, target_heard);
}

/* ---- mkdir, mknod ---- */

static void
made_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	int error = call_path_errno(m, c, a);

	if (error)
		call_status(m, c, error);
	else
		name_entry(m, c, &a->result.created.attr, a->index, c->event.pid);
}

void
name_create(struct mount *m, struct call *c, enum node_kind kind, bool exclusive, call_then *then)
{
	struct op op = {.code = OP_create};
	int error = name_error(c->event.ino, c->event.name);

	if (error) {
		call_status(m, c, error);
		return;
	}
	op.create = (struct op_create){.parent = c->event.ino,
	                               .name = c->event.name,
	                               .kind = kind,
	                               .exclusive = exclusive,
	                               .ephemeral = (c->event.mode & S_ISVTX) != 0};
	call_ask(m, c, &op, then);
}

void
name_mkdir(struct mount *m, struct call *c)
{
	name_create(m, c, NODE_DIRECTORY, true, made_heard);
}

/* An ephemeral file exists as long as it is open, and mknod opens nothing. */
void
name_mknod(struct mount *m, struct call *c)
{
	if (c->event.mode & S_ISVTX)
		call_status(m, c, EPERM);
	else
		name_create(m, c, NODE_FILE, true, made_heard);
}

/* ---- numbered files ---- */

static void
numbered_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	const struct result_numbered *r = &a->result.numbered;
	struct buffer name = BUFFER(LIMIT_PATH);
	struct inode *i = NULL;
	int error = call_errno(m, c, a);

	if (error == 0 && (i = inode_learn(m, &r->attr, a->index)) == NULL)
		error = EIO;
	if (error != 0) {
		call_status(m, c, error);
		return;
	}
	buffer_printf(&name, NUMBERED_NAME, (int)c->event.data.len,
	              (const char *)c->event.data.data, (unsigned long long)r->number);
	must(!name.failed);
	i->refs++;
	inode_named(i, c->event.ino, buffer_view(&name));
	if (r->attr.ephemeral && !mount_session_lost(m, c->session))
		ephemeral_made(m, c->handle, i);
	inode_put(m, i);
	call_data(m, c, buffer_view(&name));
	buffer_free(&name);
}

void
name_number(struct mount *m, struct call *c)
{
	struct op op = {.code = OP_number};

	if (!handle_of_call(m, c))
		return;
	if (c->handle->dead) {
		call_status(m, c, ESTALE);
	} else if (c->event.data.len > LIMIT_NAME) {
		call_status(m, c, ENAMETOOLONG);
	} else {
		op.number =
		    (struct op_number){c->event.ino, c->event.data, (c->event.mode & S_ISVTX) != 0};
		call_ask(m, c, &op, numbered_heard);
	}
}

/* ---- unlink, rmdir ---- */

/* A commit of this mount that was under way may have made a later version than the one that was
 * read, or an open that was, the first. */
void
name_deleted(struct mount *m, struct inode *i)
{
	if (i->newest && !TAILQ_EMPTY(&i->handles) &&
	    (i->last == NULL || i->newest->generation > i->last->generation))
		version_set(m, &i->last, version_ref(i->newest));
	inode_die(m, i, true);
}

static void
delete_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	int error = call_path_errno(m, c, a);
	uint64_t deleted = error ? 0 : a->result.deleted.node;
	struct inode *i = inode_find(m, deleted);

	if (i) {
		kernel_cache_unnamed(i, c);
		name_deleted(m, i);
	}
	if (c->inode && c->inode->ino != deleted && !c->inode->dead)
		version_set(m, &c->inode->last, NULL);
	call_status(m, c, error);
}

static void
delete_ask(struct mount *m, struct call *c)
{
	struct op op = {.code = OP_delete};

	op.delete.parent = c->event.ino;
	op.delete.name = c->event.name;
	op.delete.kind = c->event.kind == MOUNT_RMDIR ? NODE_DIRECTORY : NODE_FILE;
	call_ask(m, c, &op, delete_heard);
}

/* Goes on with the deletion even if the contents could not be read: whether the name is deleted is
 * decided by the cell. */
static void
delete_fetched(struct mount *m, struct call *c, const struct client_answer *a)
{
	const int error = call_errno(m, c, a);

	if (c->answered) {
		call_end(m, c);
		return;
	}
	if (error == 0 && snapshot_learn(m, c, a) == 0)
		version_set(m, &c->inode->last, version_ref(c->version));
	delete_ask(m, c);
}

/* A deleted file lives on in memory as long as it is open here, so its contents are read first. */
static void
delete_prepare(struct mount *m, struct call *c)
{
	struct inode *i = inode_find(m, c->target);

	if (c->answered) {
		call_end(m, c);
	} else if (i && !i->dead && handle_after(i, 0)) {
		call_refer(c, i);
		snapshot_ask(m, c, i, delete_fetched);
	} else {
		delete_ask(m, c);
	}
}

void
name_delete(struct mount *m, struct call *c)
{
	int error = name_error(c->event.ino, c->event.name);

	if (error)
		call_status(m, c, error);
	else if (c->event.kind == MOUNT_UNLINK)
		name_target(m, c, delete_prepare);
	else
		delete_ask(m, c);
}

/* ---- rename ---- */

/* Rename of a file: one atomic step of the cell, in which the target keeps its identity and gets
 * the source's contents. The buffers of the source's handles are committed first, and the handles
 * are held until the rename is done: afterwards they are handles of the target. */

enum { FLAG_NOREPLACE = 1 }; /* RENAME_NOREPLACE of the system call */

/* True if the handle holds or awaits a lock on the source: the lock can't move to the target, so
 * the handle becomes invalid. */
static bool
handle_locks(const struct handle *h)
{
	const struct mount_lock *l = lock_find(h->inode, LOCK_FLOCK, h->fh);

	return (l && lock_active(l)) || record_lock_through(h);
}

static void
handle_move(struct mount *m, struct handle *h, struct inode *to)
{
	struct inode *from = h->inode;

	TAILQ_REMOVE(&from->handles, h, of_inode);
	TAILQ_INSERT_TAIL(&to->handles, h, of_inode);
	h->inode = to;
	h->generation = 0; /* the generations of the target are other numbers */
	to->refs++;
	inode_put(m, from);
}

static void
rename_move(struct mount *m, const struct call *c, struct inode *from, struct inode *to)
{
	struct handle *h, *more;

	from->refs++;
	to->refs += 2; /* one while `from` is remembered */
	from->moved_to = to->ino;
	kernel_cache_moved(from, to);
	kernel_cache_unnamed(from, c);
	TAILQ_FOREACH_SAFE(h, &from->handles, of_inode, more) {
		if (handle_locks(h))
			handle_die(m, h);
		else
			handle_move(m, h, to);
	}
	inode_die(m, from, true);
	ephemeral_moved(m, from, to);
	event_watch_follow(m, from);
	event_watch_follow(m, to);
	inode_put(m, from);
	inode_put(m, to);
}

/* Lets other calls enter the source's handles again, and answers the rename. */
static void
rename_done(struct mount *m, struct call *c, int error)
{
	struct call *holder;

	while ((holder = TAILQ_FIRST(&c->held))) {
		TAILQ_REMOVE(&c->held, holder, waiting);
		call_end(m, holder);
	}
	call_status(m, c, error);
}

static void
rename_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	const struct result_renamed *r = &a->result.renamed;
	int error = call_path_errno(m, c, a);
	struct inode *from, *to;

	if (error == 0 && (to = inode_learn(m, &r->attr, a->index)) == NULL)
		error = EIO;
	if (error == 0 && r->source != to->ino) {
		to->refs++;
		inode_named(to, c->event.new_ino, c->event.new_name);
		mount_stale_inode(m, to->ino);
		from = inode_find(m, r->source);
		if (from)
			rename_move(m, c, from, to);
		inode_put(m, to);
	} else if (error == 0) {
		inode_prune(m, to);
	}
	rename_done(m, c, error);
}

static void rename_prepare(struct mount *m, struct call *c);

/* A rename after which the target lacks what was written fails, once, whoever asks for it; its
 * writers are told all the same. Not with ESTALE, at which the kernel would call again, and find
 * nothing to commit. */
static void
rename_committed(struct mount *m, struct call *holder)
{
	struct call *c = holder->parent;

	if (!c->answered)
		holder->handle->others_told |= holder->error != 0;
	if (holder->error == ESTALE)
		holder->error = holder->handle->inode->dead ? ENOENT : EIO;
	if (c->error == 0)
		c->error = holder->error;
	TAILQ_INSERT_TAIL(&c->held, holder, waiting);
	c->waits = false;
	rename_prepare(m, c);
}

static void
rename_entered(struct mount *m, struct call *holder)
{
	struct handle *h = holder->handle;

	if (!h->heard && !h->others_told)
		holder->error = h->owed;
	if (holder->error)
		rename_committed(m, holder);
	else
		commit(m, holder, rename_committed);
}

/* Enters the source's handles, one after the other. */
static void
rename_prepare(struct mount *m, struct call *c)
{
	struct inode *i = inode_find(m, c->target);
	const struct call *last = TAILQ_LAST(&c->held, call_list);
	struct handle *h = i ? handle_after(i, last ? last->handle->fh : 0) : NULL;
	struct op op = {.code = OP_rename};
	struct call *holder;

	if (c->answered || c->error) {
		rename_done(m, c, c->error);
	} else if (h) {
		holder = call_behind(m, NULL, h);
		holder->ordered = false;
		holder->parent = c;
		c->waits = true;
		handle_enter(m, holder, rename_entered);
	} else {
		op.rename =
		    (struct op_rename){.parent = c->event.ino,
		                       .name = c->event.name,
		                       .new_parent = c->event.new_ino,
		                       .new_name = c->event.new_name,
		                       .no_replace = (c->event.flags & FLAG_NOREPLACE) != 0};
		call_ask(m, c, &op, rename_heard);
	}
}

void
rename_call(struct mount *m, struct call *c)
{
	int error = name_error(c->event.ino, c->event.name);

	if (error == 0)
		error = name_error(c->event.new_ino, c->event.new_name);
	if (error == 0 && (c->event.flags & ~FLAG_NOREPLACE))
		error = EINVAL;
	if (error)
		call_status(m, c, error);
	else
		name_target(m, c, rename_prepare);
}
