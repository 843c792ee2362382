/* An ephemeral file exists as long as a session has it open. The cell counts sessions, not handles:
 * the first handle of the mount makes the session an opener, and the close of the last one ends
 * that. The close carries the number by which the file was opened, even after renames, and is sent
 * even if the cell does not know the node any more: the file may have been renamed elsewhere. */
#include "fs/mount/internal.h"

static void
behind_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	(void)a; /* on every answer the session is not an opener any more */
	call_end(m, c);
}

static void
close_number(struct mount *m, struct inode *i, uint64_t number)
{
	call_ask(m, call_behind(m, i, NULL),
	         &(struct op){.code = OP_close_ephemeral, .close_ephemeral = {number}},
	         behind_heard);
}

/* A handle of a session that has ended keeps nothing open. */
struct handle *
ephemeral_holder(const struct inode *i)
{
	struct handle *h;

	TAILQ_FOREACH(h, &i->handles, of_inode)
		if (!h->outlived)
			return h;
	return NULL;
}

static bool
is_held(const struct inode *i)
{
	return i->keepers > 0 || ephemeral_holder(i) != NULL;
}

/* One number is enough: when the cell renames the file, the opener moves with it. */
void
ephemeral_opened(struct mount *m, struct inode *i, uint64_t number)
{
	MOUNT_TRACE(m, "node %llu is ephemeral, and open by number %llu",
	            (unsigned long long)i->ino,
	            (unsigned long long)(i->opened ? i->opened : number));
	if (i->opened == 0) {
		i->opened = number;
		i->opening = false;
	} else if (i->opened != number)
		close_number(m, i, number);
	ephemeral_closed(m, i);
}

void
ephemeral_made(struct mount *m, struct handle *directory, struct inode *i)
{
	if (directory->released || directory->dead) {
		ephemeral_opened(m, i, i->ino);
		return;
	}
	i->opened = i->ino;
	handle_keep(m, directory, i);
}

void
ephemeral_closed(struct mount *m, struct inode *i)
{
	uint64_t number = i->opened;

	if (number == 0 || is_held(i))
		return;
	i->opened = 0;
	close_number(m, i, number);
}

/* The inode of that number may be gone: the number is that of a handle, wherever renames have
 * brought its file since. */
static bool
is_open_by(struct mount *m, uint64_t number)
{
	struct handle *h;

	RB_FOREACH(h, handle_numbers, &m->handles.by_number)
		if (h->inode != NULL && h->inode->opened == number)
			return true;
	return false;
}

/* If the file was renamed meanwhile, the handle belongs to its new node. After an error the session
 * may be an opener all the same, by a create that found the file; it no longer is, unless another
 * handle was opened by this number, perhaps of a file that has been renamed since. */
static void
open_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	const uint64_t number = c->inode->ino;
	struct inode *i = c->handle->inode;

	c->error = call_path_errno(m, c, a);
	if (!c->handle->dead && c->error == 0)
		ephemeral_opened(m, i, number);
	else if (!c->handle->dead && !is_open_by(m, number))
		close_number(m, i, number);
	c->next(m, c);
}

/* The new handle is already in the inode's list, so a concurrent close of another handle does not
 * end this open. */
void
ephemeral_open(struct mount *m, struct call *c, call_next *next)
{
	struct op op = {.code = OP_open_ephemeral};

	c->next = next;
	if (!c->inode->attr.ephemeral || c->inode->opened != 0) {
		next(m, c);
		return;
	}
	op.open_ephemeral.node = c->inode->ino;
	call_ask(m, c, &op, open_heard);
}

static void
again_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	(void)a; /* if the node is gone, so is what could be closed */
	c->inode->opening = false;
	call_end(m, c);
}

/* The user of one that has the file open, or keeps it. */
static struct bytes
user_of(struct mount *m, const struct inode *i)
{
	const struct handle *holder = ephemeral_holder(i);
	struct handle *h;

	RB_FOREACH(h, handle_numbers, &m->handles.by_number)
		if (holder == NULL && h->made == i)
			holder = h;
	must(holder != NULL);
	return holder->user;
}

static void
open_again(struct mount *m, struct inode *i)
{
	const struct op op = OPERATION(open_ephemeral, i->ino);
	struct call *c = call_behind(m, i, NULL);

	i->opened = i->ino;
	i->opening = true;
	c->event.user = bytes_copy(user_of(m, i));
	call_ask(m, c, &op, again_heard);
}

/* The directories that keep the source keep the target from now on. */
static void
keepers_moved(struct mount *m, struct inode *from, struct inode *to)
{
	struct handle *h;

	RB_FOREACH(h, handle_numbers, &m->handles.by_number) {
		if (h->made != from)
			continue;
		h->made = to;
		to->refs++;
		to->keepers++;
		from->keepers--;
		inode_put(m, from);
	}
}

/* The session is an opener of the target by the source's number, unless the source was permanent.
 * While `from` keeps a dead handle, that number stays with `from`. An open by the source's number
 * that the cell has not confirmed may come too late, after this rename: the target is opened by
 * its own. */
void
ephemeral_moved(struct mount *m, struct inode *from, struct inode *to)
{
	uint64_t number = from->opened;

	if (!to->attr.ephemeral)
		return;
	if (from->keepers > 0)
		keepers_moved(m, from, to);
	if (number != 0 && ephemeral_holder(from) == NULL) {
		from->opened = 0;
		if (from->opening && to->opened == 0 && is_held(to))
			open_again(m, to);
		ephemeral_opened(m, to, number);
	} else if (to->opened == 0 && is_held(to)) {
		open_again(m, to);
	}
}
