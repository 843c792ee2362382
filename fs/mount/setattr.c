/* chmod, chown, utimens and truncate of a path. */
#include <string.h>
#include <sys/stat.h>
#include "fs/mount/internal.h"

enum { TRUNCATE_TRIES = 16 };

void
setattr_answer(struct mount *m, struct call *c)
{
	struct handle *h = buffer_of_process(c->inode, c->event.fh, c->event.pid);
	struct mount_stat s = inode_stat(m, c, c->inode);

	if (h)
		s.size = snapshot_size(h);
	if (h && h->dated)
		s.mtime_ns = h->mtime_ns;
	call_attr(m, c, &s, (span_t){0});
}

/* ---- mtime ---- */

static void
mtime_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	int error = call_learn(m, c, a, call_path_errno(m, c, a));

	if (error)
		call_status(m, c, error);
	else
		setattr_answer(m, c);
}

/* A time that is set by a process with uncommitted writes (cp -p) is for the version that it will
 * commit. But the present time is a sign of life, as any time is on a file with a time to live:
 * that can't wait for the commit. */
static void
set_mtime(struct mount *m, struct call *c)
{
	struct handle *h = buffer_of_process(c->inode, c->event.fh, c->event.pid);
	struct op op = {.code = OP_set_mtime};
	bool now = (c->event.set & SET_MTIME_NOW) != 0;

	if (inode_lives_on(c->inode)) {
		c->inode->attr.mtime_ns = now ? c->inode->attr.mtime_ns : c->event.mtime_ns;
		if (h)
			h->dated = false; /* before it was deleted */
		setattr_answer(m, c);
		return;
	}
	if (h) {
		h->dated = !now;
		h->mtime_ns = c->event.mtime_ns;
	}
	if (h && !now && c->inode->attr.ttl_s == 0) {
		setattr_answer(m, c);
		return;
	}
	op.set_mtime.node = c->inode->ino;
	op.set_mtime.now = now;
	op.set_mtime.mtime_ns = now ? 0 : c->event.mtime_ns;
	call_ask(m, c, &op, mtime_heard);
}

/* ---- mode, owner ---- */

/* The access rights of a node come from its ACLs; a mode that takes away rights which they grant
 * can't be honoured. But tools that copy (install, cp -a, rsync, tar) set the mode of the node that
 * they have made, some after closing it: so the process that made a node is not refused. */
static int
mode_refused(struct mount *m, const struct call *c)
{
	const struct mount_event *e = &c->event;
	mode_t shown = inode_stat(m, c, c->inode).mode & 0777;

	if (m->config.quiet)
		return 0;
	if ((e->set & SET_MODE) && (shown & ~e->mode) && !process_is(c->inode->maker, e->pid))
		return EPERM;
	if ((e->set & SET_UID) && e->set_uid != m->config.uid)
		return EPERM;
	if ((e->set & SET_GID) && e->set_gid != m->config.gid)
		return EPERM;
	return 0;
}

static void
setattr_known(struct mount *m, struct call *c)
{
	bool dates = (c->event.set & (SET_MTIME | SET_MTIME_NOW)) && !(c->event.set & SET_SIZE);
	bool directory = c->inode->attr.kind == NODE_DIRECTORY;
	int error = mode_refused(m, c);

	if (error)
		call_status(m, c, error);
	else if (dates && !directory && !c->answered) /* the mtime of a directory is constant */
		set_mtime(m, c);
	else
		setattr_answer(m, c);
}

static void
attr_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	int error = call_learn(m, c, a, call_path_errno(m, c, a));

	if (error)
		call_status(m, c, error);
	else
		setattr_known(m, c);
}

/* ---- truncate of a path: a commit of its own ---- */

static void truncate_read(struct mount *m, struct call *c);

static void
truncate_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	if (a->rc == RC_CANCELED && !c->answered && ++c->tries < TRUNCATE_TRIES)
		truncate_read(m, c);
	else
		attr_heard(m, c, a);
}

static void
truncate_set(struct mount *m, struct call *c, const struct version *base)
{
	struct op op = {.code = OP_set_contents};
	size_t size = (size_t)c->event.set_size;
	uint8_t *contents = memory_zero(size ? size : 1, 1);

	op.set_contents.node = c->inode->ino;
	op.set_contents.contents = (struct bytes){contents, size};
	if (base) {
		op.set_contents.guarded = 1;
		op.set_contents.generation = base->generation;
		if (base->data.len)
			memcpy(contents, base->data.data,
			       base->data.len < size ? base->data.len : size);
	}
	call_ask(m, c, &op, truncate_heard);
	free(contents);
}

static void
truncate_base(struct mount *m, struct call *c, const struct client_answer *a)
{
	int error = call_path_errno(m, c, a);

	if (error == 0)
		error = snapshot_learn(m, c, a);
	if (error || c->answered)
		call_status(m, c, error);
	else
		truncate_set(m, c, c->version);
}

static void
truncate_read(struct mount *m, struct call *c)
{
	snapshot_ask(m, c, c->inode, truncate_base);
}

static void
truncate_path(struct mount *m, struct call *c)
{
	if (c->event.set_size > LIMIT_CONTENTS)
		call_status(m, c, EFBIG);
	else if (c->event.set_size == 0)
		truncate_set(m, c, NULL);
	else
		truncate_read(m, c);
}

/* A truncation by name of a file on which the process has uncommitted writes is done in their
 * buffer: otherwise the truncation would make their commit fail. */
static bool
truncate_own(struct mount *m, struct call *c)
{
	struct handle *h = buffer_of_process(c->inode, 0, c->event.pid);

	if (h == NULL)
		return false;
	handle_refer(c, h);
	buffer_truncate(m, c);
	return true;
}

/* ---- the call ---- */

void
setattr_call(struct mount *m, struct call *c)
{
	struct op op = {.code = OP_get_attr};

	if ((c->event.set & SET_SIZE) && c->event.fh) {
		if (handle_of_call(m, c))
			buffer_truncate(m, c);
		return;
	}
	call_refer(c, inode_get(m, inode_where(m, c->event.ino)));
	if (c->event.set & SET_SIZE) {
		if (!truncate_own(m, c))
			truncate_path(m, c);
		return;
	}
	if (inode_lives_on(c->inode)) {
		setattr_known(m, c);
		return;
	}
	op.get_attr.node = c->inode->ino;
	call_ask(m, c, &op, attr_heard);
}
