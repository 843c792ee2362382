/* Open and create. Access is checked here, against the rights in the node's attributes. An open for
 * reading fetches the contents, too: the file may be deleted elsewhere before the first read. */
#include <fcntl.h>
#include <sys/stat.h>
#include "fs/mount/internal.h"

static int
open_denied(const struct attr *a, int flags)
{
	int access = flags & O_ACCMODE;

	if (a->kind == NODE_DIRECTORY)
		return EISDIR;
	if (flags & FLAG_EXEC)
		return EACCES;
	if (access != O_WRONLY && !(a->rights & RIGHT_READ))
		return EACCES;
	if ((access != O_RDONLY || (flags & O_TRUNC)) && !(a->rights & RIGHT_WRITE))
		return EACCES;
	return 0;
}

static bool
open_reads(int flags)
{
	return (flags & O_ACCMODE) != O_WRONLY && !(flags & (O_TRUNC | FLAG_EXEC));
}

/* The truncation stays in the buffer until data is written or the file is closed. */
static void
open_truncate(struct mount *m, struct handle *h, const struct mount_event *e)
{
	kernel_cache_drop(m, h->inode);
	h->unconditional = true;
	h->edit = EDIT_WHOLE;
	h->truncation = true;
	h->descriptors_before = e->descriptors > 0 ? e->descriptors : 0;
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
		open_truncate(m, h, &c->event);
	call_opened(m, c, h->fh);
}

static void
open_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	int error = call_path_errno(m, c, a);

	if (error == 0)
		error = c->op == OP_get_contents ? snapshot_learn(m, c, a)
		                                 : call_learn(m, c, &a->result.attr.attr, a->index);
	if (error == 0) {
		const struct attr seen = call_sees(c, c->inode);

		error = open_denied(&seen, c->event.flags);
	}
	if (error || c->answered) {
		call_status(m, c, error);
		return;
	}
	handle_refer(c, handle_new(m, c->inode, c));
	c->handle->opened = a->opens;
	if (c->version)
		snapshot_opened(m, c->handle, version_ref(c->version));
	ephemeral_open(m, c, open_done);
}

void
handle_open(struct mount *m, struct call *c)
{
	struct op op = {.code = OP_get_attr};

	call_refer(c, inode_get(m, inode_where(m, c->event.ino)));
	op.get_attr.node = c->inode->ino;
	if (open_reads(c->event.flags))
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
		open_truncate(m, h, &c->event);
	h->unconditional = (c->event.flags & O_TRUNC) != 0;
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

/* A new file is empty: there is nothing to fetch or to truncate. */
static void
create_fresh(struct mount *m, struct call *c, const struct attr *attr)
{
	struct handle *h = c->handle;

	snapshot_set(m, h, version_get(m, attr->node, attr->content_generation, (struct bytes){0}));
	h->inode->maker = c->event.pid;
	create_opened(m, c, attr);
	create_done(m, c);
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
	call_refer(c, i);
	handle_refer(c, handle_new(m, i, c));
	c->handle->opened = a->opens;
	c->error = open_denied(attr, c->event.flags);
	if (a->result.created.fresh)
		create_fresh(m, c, attr);
	else
		create_open(m, c, attr);
}

void
handle_create(struct mount *m, struct call *c)
{
	struct op op = {.code = OP_create};
	int error = name_error(c->event.ino, c->event.name);

	if (error) {
		call_status(m, c, error);
		return;
	}
	op.create = (struct op_create){.parent = c->event.ino,
	                               .name = c->event.name,
	                               .kind = NODE_FILE,
	                               .ephemeral = (c->event.mode & S_ISVTX) != 0,
	                               .exclusive = (c->event.flags & O_EXCL) != 0};
	call_ask(m, c, &op, create_heard);
}
