/* The nodes that the kernel, an open handle, a lock or a call under way refers to, with the
 * attributes that the cell last sent. Kernel inode numbers are node numbers, which are never used
 * again. */
#include <sys/stat.h>
#include <unistd.h>
#include "cell/base/keyed.h"
#include "fs/mount/internal.h"

KEYED_GENERATE(inode_numbers, inode, by_number, ino)

bool
inode_is_virtual(uint64_t ino)
{
	return (ino & MOUNT_INO_VIRTUAL) != 0;
}

struct inode *
inode_find(struct mount *m, uint64_t ino)
{
	return inode_numbers_find(&m->inodes, ino);
}

struct inode *
inode_get(struct mount *m, uint64_t ino)
{
	struct inode *i = inode_find(m, ino);

	if (i)
		return i;
	i = memory_zero(1, sizeof *i);
	i->ino = ino;
	TAILQ_INIT(&i->handles);
	TAILQ_INIT(&i->locks);
	must(RB_INSERT(inode_numbers, &m->inodes, i) == NULL);
	return i;
}

static void
inode_free(struct inode *i)
{
	free((void *)i->name.data);
	free((void *)i->watcher.data);
	free(i);
}

void
inode_prune(struct mount *m, struct inode *i)
{
	struct inode *target;

	while (i && i->refs == 0 && i->nlookup == 0) {
		must(TAILQ_EMPTY(&i->handles) && TAILQ_EMPTY(&i->locks));
		target = i->moved_to ? inode_find(m, i->moved_to) : NULL;
		version_set(m, &i->last, NULL);
		RB_REMOVE(inode_numbers, &m->inodes, i);
		inode_free(i);
		if (target)
			target->refs--;
		i = target;
	}
}

void
inode_put(struct mount *m, struct inode *i)
{
	must(i->refs > 0);
	i->refs--;
	inode_prune(m, i);
}

void
inode_forget(struct mount *m, uint64_t ino, uint64_t count)
{
	struct inode *i = inode_find(m, ino);

	if (i == NULL)
		return;
	i->nlookup -= count < i->nlookup ? count : i->nlookup;
	inode_prune(m, i);
}

/* True if a node can have these attributes. */
static bool
attr_sound(const struct attr *attr)
{
	return attr->node != 0 && !inode_is_virtual(attr->node) && attr->size <= LIMIT_CONTENTS &&
	       (attr->kind == NODE_FILE || attr->kind == NODE_DIRECTORY);
}

struct inode *
inode_learn(struct mount *m, const struct attr *attr, uint64_t index)
{
	struct inode *i;

	if (!attr_sound(attr))
		return NULL;
	i = inode_get(m, attr->node);
	if (i->attr.node && index < i->index)
		return i;
	i->attr = *attr;
	i->attr.acl_read = i->attr.acl_write = i->attr.acl_change = (struct bytes){0};
	i->index = index;
	return i;
}

/* Marks the node as deleted, and its locks as lost. Its handles go on reading the contents that
 * they have. */
void
inode_die(struct mount *m, struct inode *i, bool here)
{
	struct mount_lock *l, *more;

	MOUNT_TRACE(m, "node %llu is gone: %s", (unsigned long long)i->ino,
	            i->moved_to ? "renamed"
	            : here      ? "deleted here"
	                        : "deleted elsewhere");
	i->dead = true;
	i->gone_here |= here;
	mount_stale_inode(m, i->ino);
	event_watch_pend(m, i);
	i->refs++;
	TAILQ_FOREACH_SAFE(l, &i->locks, of_inode, more)
		lock_die(m, l);
	inode_put(m, i);
}

void
inode_named(struct inode *i, uint64_t parent, struct bytes name)
{
	if (i->parent == 0)
		i->name = bytes_copy(name);
	i->parent = parent;
}

/* The kernel forgets no directory before it has forgotten what is in it. */
bool
inode_path(struct mount *m, uint64_t ino, struct buffer *path)
{
	const struct inode *i = inode_find(m, ino);

	if (ino == NODE_ROOT)
		return true;
	if (i == NULL || i->parent == 0 || !inode_path(m, i->parent, path))
		return false;
	buffer_put_u8(path, '/');
	buffer_put_bytes(path, i->name);
	return true;
}

bool
inode_lives_on(const struct inode *i)
{
	return i->dead && i->gone_here && i->moved_to == 0;
}

uint64_t
inode_where(struct mount *m, uint64_t ino)
{
	struct inode *i = inode_find(m, ino);

	while (i && i->dead && i->moved_to) {
		ino = i->moved_to;
		i = inode_find(m, ino);
	}
	return ino;
}

static mode_t
inode_mode(const struct attr *a)
{
	mode_t mode = a->kind == NODE_DIRECTORY ? S_IFDIR | 0111 : S_IFREG;

	if (a->rights & RIGHT_READ)
		mode |= 0444;
	if (a->rights & RIGHT_WRITE)
		mode |= 0200;
	if (a->ephemeral)
		mode |= S_ISVTX;
	return mode;
}

struct mount_stat
inode_stat(const struct mount *m, const struct call *c, const struct inode *i)
{
	const struct attr seen = call_sees(c, i);
	struct mount_stat s = {.ino = i->ino,
	                       .mode = inode_mode(&seen) & ~m->config.umask,
	                       .size = i->attr.size,
	                       .mtime_ns = i->attr.mtime_ns,
	                       .ctime_ns = i->attr.ctime_ns,
	                       .nlink = 1};

	if (i->attr.kind == NODE_DIRECTORY) {
		s.size = i->attr.children;
		s.nlink = 2;
	}
	if (i->dead)
		s.nlink = 0;
	return s;
}

/* ---- getattr ---- */

/* The kernel may call by a name that it does not know to be wrong by now: the answer makes it look
 * the name up again. The handles of the dead node see its last attributes. The kernel passes on the
 * handle for lseek(2), but not for fstat(2). */
static void
getattr_dead(struct mount *m, struct call *c)
{
	const struct inode *i = c->inode;
	const bool seen = i->attr.node != 0 && (!TAILQ_EMPTY(&i->handles) || i->gone_here);
	const bool named = c->event.fh == 0 && kernel_cache_named(m, i);
	struct mount_reply *r;

	if (!seen || named) {
		call_status(m, c, stale_path(m, c));
		return;
	}
	if ((r = call_reply(m, c, MOUNT_ATTR)))
		r->stat = inode_stat(m, c, i);
	call_end(m, c);
}

static void
getattr_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	struct mount_stat s;
	int error = call_errno(m, c, a);

	if (error == ESTALE && c->inode->dead) {
		getattr_dead(m, c);
		return;
	}
	error = call_learn(m, c, a, error);
	if (error) {
		call_status(m, c, error);
		return;
	}
	if (buffer_of_process(c->inode, c->event.fh, c->event.pid)) {
		setattr_answer(m, c);
		return;
	}
	s = inode_stat(m, c, c->inode);
	call_attr(m, c, &s, kernel_cache_attributes(m, c));
}

/* The process sees its own buffer. Appends of others come before its own. */
void
inode_getattr(struct mount *m, struct call *c)
{
	struct op op = {.code = OP_get_attr};
	struct inode *i = inode_get(m, inode_where(m, c->event.ino));
	const struct handle *h = buffer_of_process(i, c->event.fh, c->event.pid);

	call_refer(c, i);
	if (h != NULL && (inode_lives_on(i) || (!i->dead && h->edit == EDIT_WHOLE))) {
		setattr_answer(m, c);
	} else if (i->dead) {
		getattr_dead(m, c);
	} else if (!summary_instead(m, c)) {
		op.get_attr.node = i->ino;
		call_ask(m, c, &op, getattr_heard);
		summary_soon(m, c);
	}
}

/* ---- access ---- */

static int
access_denied(const struct attr *a, int wanted)
{
	if ((wanted & R_OK) && !(a->rights & RIGHT_READ))
		return EACCES;
	if ((wanted & W_OK) && !(a->rights & RIGHT_WRITE))
		return EACCES;
	if ((wanted & X_OK) && a->kind != NODE_DIRECTORY)
		return EACCES;
	return 0;
}

static void
access_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	int error = call_path_errno(m, c, a);

	call_status(m, c, error ? error : access_denied(&a->result.attr.attr, c->event.flags));
}

void
inode_access(struct mount *m, struct call *c)
{
	struct op op = {.code = OP_get_attr};
	struct attr attr;

	call_refer(c, inode_get(m, inode_where(m, c->event.ino)));
	attr = c->inode->attr;
	attr.rights = (uint8_t)handle_rights_deleted(c->inode, c->event.user);
	if (attr.rights) {
		call_status(m, c, access_denied(&attr, c->event.flags));
		return;
	}
	op.get_attr.node = c->inode->ino;
	call_ask(m, c, &op, access_heard);
}

void
inodes_free(struct mount *m)
{
	struct mount_lock *l;
	struct inode *i;

	while ((i = RB_MIN(inode_numbers, &m->inodes))) {
		RB_REMOVE(inode_numbers, &m->inodes, i);
		version_put(m, i->last);
		while ((l = TAILQ_FIRST(&i->locks))) {
			TAILQ_REMOVE(&i->locks, l, of_inode);
			free(l->handles);
			free(l);
		}
		inode_free(i);
	}
}
