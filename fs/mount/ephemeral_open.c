/* Ephemeral files live as long as some session has them open. The cell counts sessions, not
 * handles: the first handle here makes the session an opener, the last one's close ends that. A
 * close is owed for each open, by the same number, even if the cell does not know the node any
 * more: it may have been renamed. */
#include "fs/mount/internal.h"

/* Whatever the answer, a create that found the file may have opened it. The handle may be that of
 * the node's new number by now. */
static void
open_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	c->error = call_path_errno(m, c, a);
	if (!c->handle->dead) {
		c->inode->opener = true;
		ephemeral_closed(m, c->inode);
	}
	c->next(m, c);
}

/* The new handle is counted already, so a close that overlaps does not undo this. */
void
ephemeral_open(struct mount *m, struct call *c, call_next *next)
{
	struct op op = {.code = OP_open_ephemeral};

	c->next = next;
	if (!c->inode->attr.ephemeral || c->inode->opener) {
		next(m, c);
		return;
	}
	op.open_ephemeral.node = c->inode->ino;
	call_ask(m, c, &op, open_heard);
}

static void
behind_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	(void)a; /* it is gone one way or the other */
	call_end(m, c);
}

void
ephemeral_closed(struct mount *m, struct inode *i)
{
	struct op op = {.code = OP_close_ephemeral};

	if (!i->opener || !TAILQ_EMPTY(&i->handles))
		return;
	i->opener = false;
	op.close_ephemeral.node = i->ino;
	call_ask(m, call_behind(m, i, NULL), &op, behind_heard);
}

/* First the file is open by its new number, then it is not by the old one any more. */
void
ephemeral_moved(struct mount *m, struct inode *from, struct inode *to)
{
	struct op op = {.code = OP_open_ephemeral};

	if (to->attr.ephemeral && !to->opener && !TAILQ_EMPTY(&to->handles)) {
		to->opener = true;
		op.open_ephemeral.node = to->ino;
		call_ask(m, call_behind(m, to, NULL), &op, behind_heard);
	}
	ephemeral_closed(m, from);
}
