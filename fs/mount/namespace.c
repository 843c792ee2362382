/* Names: lookup, mkdir, unlink, rmdir. The names are kept by the cell; the mount caches none. */
#include <sys/stat.h>
#include "fs/mount/internal.h"

static bool
is_reserved(uint64_t parent, struct bytes name)
{
	return parent == NODE_ROOT && bytes_equal(name, bytes_of(".cell"));
}

/* The errno with which making or removing a node of this name is refused; 0 if it is allowed. */
int
name_error(uint64_t parent, struct bytes name)
{
	if (inode_is_virtual(parent) || is_reserved(parent, name))
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
	i->refs++;
	call_entry(m, c, i);
	inode_put(m, i);
}

/* ---- lookup ---- */

static void
lookup_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	int error = call_path_errno(m, c, a);

	if (error)
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

void
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

static void
make_node(struct mount *m, struct call *c, enum node_kind kind, bool ephemeral)
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
	                               .exclusive = 1,
	                               .ephemeral = ephemeral};
	call_ask(m, c, &op, made_heard);
}

void
name_mkdir(struct mount *m, struct call *c)
{
	make_node(m, c, NODE_DIRECTORY, (c->event.mode & S_ISVTX) != 0);
}

/* An ephemeral file exists as long as it is open, and mknod opens nothing. */
void
name_mknod(struct mount *m, struct call *c)
{
	if (c->event.mode & S_ISVTX)
		call_status(m, c, EPERM);
	else
		make_node(m, c, NODE_FILE, false);
}

/* ---- unlink, rmdir ---- */

/* A commit of this mount that was under way may have made a later version than the one that was
 * read. */
static void
delete_keep(struct mount *m, struct inode *i)
{
	if (i->last && i->newest && i->newest->generation > i->last->generation)
		version_set(m, &i->last, version_ref(i->newest));
}

static void
delete_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	int error = call_path_errno(m, c, a);
	uint64_t deleted = error ? 0 : a->result.deleted.node;
	struct inode *i = inode_find(m, deleted);

	if (i) {
		delete_keep(m, i);
		inode_die(m, i, true);
	}
	if (c->inode && c->inode->ino != deleted)
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
	if (call_errno(m, c, a) == 0 && snapshot_learn(m, c, a) == 0)
		version_set(m, &c->inode->last, version_ref(c->version));
	if (c->answered)
		call_end(m, c);
	else
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
