/* The life and steps of a mount, the end of its session, and the table of the kinds of calls. */
#include <fcntl.h>
#include <string.h>
#include "fs/mount/internal.h"

/* ---- the session ---- */

/* The end of a session. Every handle and every lock belongs to one session and ends with it; no
 * handle ever moves to a new session (Chubby, section 2.8). */

const char *
mount_session_state(enum client_state state)
{
	switch (state) {
	case CLIENT_NEW:
		return "connecting";
	case CLIENT_SAFE:
		return "safe";
	case CLIENT_JEOPARDY:
		return "jeopardy";
	case CLIENT_EXPIRED:
		return "expired";
	case CLIENT_CLOSED:
		return "closed";
	}
	return "unknown";
}

bool
mount_session_lost(const struct mount *m, uint64_t session)
{
	return m->session.over || (session != 0 && session != m->session.id);
}

static void
session_died(struct mount *m)
{
	struct handle *h;
	struct inode *i, *more_i;
	struct mount_lock *l, *more_l;
	struct call *c;

	MOUNT_TRACE(m, "session %llu is over: its handles and locks are void",
	            (unsigned long long)m->session.id);
	m->session.over = true;
	RB_FOREACH(h, handle_numbers, &m->handles.by_number)
		if (h->kind != HANDLE_VIRTUAL)
			handle_die(m, h);
	RB_FOREACH_SAFE(i, inode_numbers, &m->inodes, more_i) {
		i->opened = 0;
		i->newest = NULL; /* the next session may be with a cell restored from a backup */
		mount_stale_inode(m, i->ino);
		i->refs++;
		TAILQ_FOREACH_SAFE(l, &i->locks, of_inode, more_l)
			lock_die(m, l);
		inode_put(m, i);
	}
	RB_FOREACH(h, handle_numbers, &m->handles.by_number) {
		h->outlived = true;
		handle_keep(m, h, NULL);
	}
	event_watch_forget_all(m);
	RB_FOREACH(c, call_tokens, &m->calls.asked)
		if (c->outlasts)
			c->session = 0;
}

/* Detects that the session to which the handles and locks belong has ended, and begins with the
 * next one. */
static void
session_follow(struct mount *m)
{
	struct client_status s = client_status(m->client);
	bool alive = s.session && (s.state == CLIENT_SAFE || s.state == CLIENT_JEOPARDY);
	const uint64_t connections = client_counts(m->client).connections;
	struct call *c;

	if (m->session.id && !m->session.over && (!alive || s.session != m->session.id))
		session_died(m);
	if (connections != m->session.connections)
		lock_ask_again(m);
	m->session.connections = connections;
	if (!alive || s.session == m->session.id)
		return;
	MOUNT_TRACE(m, "session %llu begins", (unsigned long long)s.session);
	m->session.id = s.session;
	m->session.over = false;
	/* Requests that were made while there was no session belong to this one. */
	RB_FOREACH(c, call_tokens, &m->calls.asked)
		if (c->session == 0)
			c->session = s.session;
}

/* ---- the caller ---- */

/* The facts about its caller that a call needs. The kernel names only the thread. Uncommitted
 * writes, files being created and locks belong to a process, and looking up the process of a thread
 * costs as much as a small read: so the driver is asked for it only where the outcome depends on
 * it. */

/* True if the file has uncommitted writes: the process that made them must see them. */
static bool
is_being_written(struct mount *m, const struct mount_event *e)
{
	const struct inode *i = inode_find(m, inode_where(m, e->ino));
	const struct handle *h;
	bool edited = false;

	if (i == NULL)
		return false;
	TAILQ_FOREACH(h, &i->handles, of_inode)
		edited |= h->edit != EDIT_NONE;
	return edited;
}

static unsigned
handle_wants(struct mount *m, const struct mount_event *e)
{
	struct handle *h = handle_find(m, e->fh);

	if (h != NULL && e->ino == MOUNT_INO_TXN && e->kind == MOUNT_FLUSH)
		return transaction_wants(h);
	if (h == NULL || h->inode == NULL)
		return 0;
	if (e->kind == MOUNT_READ && !h->truncation)
		return 0;
	if (e->kind != MOUNT_WRITE)
		return commit_wants(h, e);
	return buffer_knows_process(h, e) ? 0 : WANTS_PROCESS;
}

unsigned
mount_wants(const struct mount *m, const struct mount_event *event)
{
	struct mount *own = (struct mount *)m; /* bsd/sys/tree.h is not const-correct */

	switch (event->kind) {
	case MOUNT_CREATE:
	case MOUNT_MKDIR:
	case MOUNT_MKNOD:
	case MOUNT_SETATTR:
	case MOUNT_SETXATTR: /* may take a lock; the process that made the node gets no EPERM */
		return WANTS_PROCESS;
	case MOUNT_OPEN:
		return event->flags & O_TRUNC ? WANTS_PROCESS : 0;
	case MOUNT_FLOCK:
	case MOUNT_SETLK:
		return event->lock_mode != LOCK_NONE ? WANTS_PROCESS : handle_wants(own, event);
	case MOUNT_GETATTR:
		return is_being_written(own, event) ? WANTS_PROCESS : 0;
	case MOUNT_GETXATTR: /* the cell may know of more holders than the mount */
		return xattr_is_of_holder(event->name) ? WANTS_PROCESS : 0;
	case MOUNT_READ:
	case MOUNT_WRITE:
	case MOUNT_FLUSH:
	case MOUNT_FSYNC:
		return handle_wants(own, event);
	case MOUNT_INTERRUPT:
		return call_wants_fate(own, event->call) ? WANTS_FATE : 0;
	default:
		return 0;
	}
}

uint64_t
mount_shown(const struct mount *m, uint64_t ino)
{
	return inode_where((struct mount *)m, ino);
}

/* ---- the kinds of calls ---- */

static void
refused_call(struct mount *m, struct call *c)
{
	call_status(m, c, EPERM);
}

enum { VIRTUAL_TOO = 1 }; /* the handler accepts inodes of /.cell */

static const struct {
	const char *name; /* for people */
	call_next *handler;
	int flags;
} kinds[] = {
    [MOUNT_LOOKUP] = {"lookup", name_lookup, VIRTUAL_TOO},
    [MOUNT_GETATTR] = {"getattr", inode_getattr, 0},
    [MOUNT_SETATTR] = {"setattr", setattr_call, 0},
    [MOUNT_ACCESS] = {"access", inode_access, 0},
    [MOUNT_MKDIR] = {"mkdir", name_mkdir, VIRTUAL_TOO},
    [MOUNT_MKNOD] = {"mknod", name_mknod, VIRTUAL_TOO},
    [MOUNT_UNLINK] = {"unlink", name_delete, VIRTUAL_TOO},
    [MOUNT_RMDIR] = {"rmdir", name_delete, VIRTUAL_TOO},
    [MOUNT_RENAME] = {"rename", rename_call, VIRTUAL_TOO},
    [MOUNT_REFUSED] = {"link", refused_call, VIRTUAL_TOO},
    [MOUNT_OPEN] = {"open", handle_open, 0},
    [MOUNT_CREATE] = {"create", handle_create, VIRTUAL_TOO},
    [MOUNT_READ] = {"read", snapshot_read, 0},
    [MOUNT_WRITE] = {"write", buffer_write, 0},
    [MOUNT_FLUSH] = {"flush", commit_flush, 0},
    [MOUNT_FSYNC] = {"fsync", commit_fsync, 0},
    [MOUNT_RELEASE] = {"release", handle_release, VIRTUAL_TOO},
    [MOUNT_OPENDIR] = {"opendir", listing_open, 0},
    [MOUNT_READDIR] = {"readdir", listing_read, 0},
    [MOUNT_RELEASEDIR] = {"releasedir", handle_release, VIRTUAL_TOO},
    [MOUNT_STATFS] = {"statfs", summary_statfs, VIRTUAL_TOO},
    [MOUNT_GETXATTR] = {"getxattr", xattr_get, VIRTUAL_TOO},
    [MOUNT_SETXATTR] = {"setxattr", xattr_set, VIRTUAL_TOO},
    [MOUNT_LISTXATTR] = {"listxattr", xattr_list, VIRTUAL_TOO},
    [MOUNT_REMOVEXATTR] = {"removexattr", xattr_remove, VIRTUAL_TOO},
    [MOUNT_FLOCK] = {"flock", flock_call, 0},
    [MOUNT_SETLK] = {"setlk", record_lock_call, 0},
    [MOUNT_GUARD] = {"guard", handle_guard, 0},
    [MOUNT_POISON] = {"poison", handle_poison, 0},
    [MOUNT_WATCH_TREE] = {"watch tree", event_watch_tree, 0},
    [MOUNT_NUMBER] = {"number", name_number, 0},
    [MOUNT_GETLK] = {"getlk", record_lock_get, 0},
    [MOUNT_POLL] = {"poll", event_watch_poll, VIRTUAL_TOO},
};

const char *
mount_call_name(enum mount_event_kind kind)
{
	return kinds[kind].name;
}

/* ---- steps ---- */

struct mount *
mount_new(const struct mount_config *config, const struct client *client)
{
	struct mount *m = memory_zero(1, sizeof *m);

	m->config = *config;
	m->client = client;
	TAILQ_INIT(&m->calls.all);
	TAILQ_INIT(&m->handles.all);
	TAILQ_INIT(&m->handles.ready);
	TAILQ_INIT(&m->locks.kept);
	inode_get(m, NODE_ROOT)
	    ->refs++; /* the kernel keeps its attributes, and never looks it up */
	TAILQ_INIT(&m->streams);
	TAILQ_INIT(&m->changes.readers);
	SLIST_INIT(&m->blocks);
	return m;
}

static void
free_blocks(struct mount *m)
{
	struct block *b;

	while ((b = SLIST_FIRST(&m->blocks))) {
		SLIST_REMOVE_HEAD(&m->blocks, entry);
		free(b);
	}
}

void
mount_free(struct mount *m)
{
	struct call *c;
	struct handle *h;

	while ((c = TAILQ_FIRST(&m->calls.all)))
		call_free(m, c);
	while ((h = TAILQ_FIRST(&m->handles.all)))
		handle_discard(m, h);
	version_views_end(m);
	inodes_free(m);
	free(m->kernel_cache.replies);
	free(m->versions.viewed);
	free(m->stale.walks);
	free_blocks(m);
	free(m);
}

struct bytes
mount_keep(struct mount *m, struct bytes b)
{
	struct block *block;

	if (b.len == 0)
		return (struct bytes){0};
	block = memory_zero(1, sizeof *block + b.len);
	memcpy(block->data, b.data, b.len);
	SLIST_INSERT_HEAD(&m->blocks, block, entry);
	return (struct bytes){block->data, b.len};
}

void
mount_stale_inode(struct mount *m, uint64_t ino)
{
	struct mount_update *u = m->update;

	ARRAY_ROOM(u->stale_inodes, u->stale_inodes_n, u->stale_inodes_room);
	u->stale_inodes[u->stale_inodes_n++] = ino;
}

mono_t
mount_deadline(const struct mount *m)
{
	struct mount *own = (struct mount *)m; /* bsd/sys/tree.h is not const-correct */
	const struct mount_lock *l = TAILQ_FIRST(&m->locks.kept);
	mono_t deadline = l ? l->kept_until : MONO_NEVER;

	if (m->changes.ask_at.ns != 0)
		deadline = mono_min(deadline, m->changes.ask_at);
	if (m->watch_again.ns != 0)
		deadline = mono_min(deadline, m->watch_again);
	if (RB_EMPTY(&own->calls.interrupted))
		return deadline;
	return mono_min(deadline, RB_MIN(call_patience, &own->calls.interrupted)->patient_until);
}

bool
mount_has_file_locks(const struct mount *m)
{
	struct mount *own = (struct mount *)m; /* bsd/sys/tree.h is not const-correct */
	struct inode *i;
	const struct mount_lock *l;

	RB_FOREACH(i, inode_numbers, &own->inodes)
		TAILQ_FOREACH(l, &i->locks, of_inode)
			if (l->kind != LOCK_ATTRIBUTE && lock_active(l))
				return true;
	return false;
}

void
mount_update_free(struct mount_update *u)
{
	free(u->replies);
	free(u->requests);
	free(u->stale_inodes);
	free(u->watches);
	free(u->woken);
	*u = (struct mount_update){0};
}

/* ---- dispatch ---- */

/* The name by which the kernel calls may be that of a file that was renamed or deleted since. The
 * attribute that says what has become of the session is that of the mount, not of the file. */
static void
kernel_call(struct mount *m, const struct mount_event *e)
{
	const struct inode *i = e->fh == 0 ? inode_find(m, e->ino) : NULL;
	struct call *c = call_new(m, e);

	MESSAGE_TRACE(m->config.trace, "call %llu of thread %d: %s %.*s in inode %llu, handle %llu",
	              (unsigned long long)e->call, (int)e->thread, kinds[e->kind].name,
	              (int)e->name.len, e->name.len ? (const char *)e->name.data : "",
	              (unsigned long long)e->ino, (unsigned long long)e->fh);
	stale_called(m, e);
	if (inode_is_virtual(e->ino) && !(kinds[e->kind].flags & VIRTUAL_TOO))
		virtual_call(m, c);
	else if (i != NULL && i->gone_here && i->attr.kind == NODE_FILE &&
	         kernel_cache_named(m, i) &&
	         !(e->kind == MOUNT_GETXATTR && xattr_is_status(e->name)))
		call_status(m, c, stale_path(m, c));
	else
		kinds[e->kind].handler(m, c);
}

static void
dispatch(struct mount *m, const struct mount_event *e)
{
	switch (e->kind) {
	case MOUNT_FORGET:
		inode_forget(m, e->ino, e->count);
		break;
	case MOUNT_INTERRUPT:
		call_interrupt(m, e->call, e->fate);
		break;
	case MOUNT_ANSWER:
		call_heard(m, e->answer);
		break;
	case MOUNT_GRANT:
		lock_grant(m, e->grant);
		break;
	case MOUNT_WATCHED:
		event_watch_told(m, e);
		break;
	case MOUNT_DROPPED:
		kernel_cache_dropped(m, e);
		break;
	case MOUNT_WRITTEN:
		kernel_cache_written(m);
		break;
	case MOUNT_SESSION:
		session_follow(m);
		break;
	case MOUNT_TIMEOUT:
		break; /* every step checks the time */
	default:
		kernel_call(m, e);
		break;
	}
}

void
mount_step(struct mount *m, const struct mount_event *event, struct mount_update *update)
{
	update->replies_n = 0;
	update->requests_n = 0;
	update->stale_inodes_n = 0;
	update->watches_n = 0;
	update->woken_n = 0;
	update->kept = false;
	free_blocks(m);
	if (m->versions.viewed_n > 0)
		version_views_end(m);
	m->update = update;
	m->now = event->now;
	if (!TAILQ_EMPTY(&m->locks.kept))
		lock_timeout(m);
	if (!RB_EMPTY(&m->calls.interrupted))
		call_timeout(m);
	event_watch_timeout(m);
	dispatch(m, event);
	if (m->changes.ask_at.ns != 0 && mono_reached(m->now, m->changes.ask_at))
		change_file_ask(m);
	if (!TAILQ_EMPTY(&m->handles.ready))
		handle_run_ready(m);
	update->deadline = mount_deadline(m);
	for (size_t n = 0; n < update->replies_n; n++) {
		const struct mount_reply *r = &update->replies[n];

		MESSAGE_TRACE(m->config.trace, "call %llu is answered: %s%s",
		              (unsigned long long)r->call, r->error ? "error " : "done",
		              r->error ? rc_errno_name(r->error) : "");
	}
	m->update = NULL;
}
