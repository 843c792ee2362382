/* Rename of a file: one atomic step of the cell, in which the target keeps its identity and gets
 * the source's contents. The buffers of the source's handles are committed first, and the handles
 * are held until the rename is done: afterwards they are handles of the target. */
#include "fs/mount/internal.h"

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
rename_move(struct mount *m, struct inode *from, struct inode *to)
{
	struct handle *h, *more;

	from->refs++;
	to->refs += 2; /* one while `from` is remembered */
	from->moved_to = to->ino;
	kernel_cache_moved(from, to);
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
		mount_stale_inode(m, to->ino);
		from = inode_find(m, r->source);
		if (from)
			rename_move(m, from, to);
		inode_put(m, to);
	} else if (error == 0) {
		inode_prune(m, to);
	}
	rename_done(m, c, error);
}

static void
rename_ask(struct mount *m, struct call *c)
{
	struct op op = {.code = OP_rename};

	op.rename = (struct op_rename){.parent = c->event.ino,
	                               .name = c->event.name,
	                               .new_parent = c->event.new_ino,
	                               .new_name = c->event.new_name,
	                               .no_replace = (c->event.flags & FLAG_NOREPLACE) != 0};
	call_ask(m, c, &op, rename_heard);
}

static void rename_prepare(struct mount *m, struct call *c);

static void
rename_committed(struct mount *m, struct call *holder)
{
	struct call *c = holder->parent;

	if (c->error == 0)
		c->error = holder->error;
	TAILQ_INSERT_TAIL(&c->held, holder, waiting);
	c->event.fh = holder->handle->fh;
	c->waits = false;
	rename_prepare(m, c);
}

static void
rename_entered(struct mount *m, struct call *holder)
{
	commit(m, holder, rename_committed);
}

/* Enters the source's handles, one after the other; `event.fh` is the last one entered. */
static void
rename_prepare(struct mount *m, struct call *c)
{
	struct inode *i = inode_find(m, c->target);
	struct handle *h = i ? handle_after(i, c->event.fh) : NULL;
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
		rename_ask(m, c);
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
