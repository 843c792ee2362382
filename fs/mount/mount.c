/* Making and freeing a mount, and the table of the functions that handle each kind of call. */
#include <string.h>
#include "fs/mount/internal.h"

struct mount *
mount_new(const struct mount_config *config, const struct client *client)
{
	struct mount *m = memory_zero(1, sizeof *m);

	m->config = *config;
	m->client = client;
	calls_begin(&m->calls);
	handles_begin(&m->handles);
	locks_begin(&m->locks);
	TAILQ_INIT(&m->streams);
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
	kernel_cache_free(m);
	versions_free(m);
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

static void
refused_call(struct mount *m, struct call *c)
{
	call_status(m, c, EPERM);
}

enum { VIRTUAL_TOO = 1 }; /* the handler accepts inodes of /.cell */

static const struct {
	call_next *handler;
	int flags;
} handlers[] = {
    [MOUNT_LOOKUP] = {name_lookup, VIRTUAL_TOO},
    [MOUNT_GETATTR] = {inode_getattr, 0},
    [MOUNT_SETATTR] = {setattr_call, 0},
    [MOUNT_ACCESS] = {inode_access, 0},
    [MOUNT_MKDIR] = {name_mkdir, VIRTUAL_TOO},
    [MOUNT_MKNOD] = {name_mknod, VIRTUAL_TOO},
    [MOUNT_UNLINK] = {name_delete, VIRTUAL_TOO},
    [MOUNT_RMDIR] = {name_delete, VIRTUAL_TOO},
    [MOUNT_RENAME] = {rename_call, VIRTUAL_TOO},
    [MOUNT_REFUSED] = {refused_call, VIRTUAL_TOO},
    [MOUNT_OPEN] = {handle_open, 0},
    [MOUNT_CREATE] = {handle_create, VIRTUAL_TOO},
    [MOUNT_READ] = {snapshot_read, 0},
    [MOUNT_WRITE] = {buffer_write, 0},
    [MOUNT_FLUSH] = {commit_flush, 0},
    [MOUNT_FSYNC] = {commit_fsync, 0},
    [MOUNT_RELEASE] = {handle_release, VIRTUAL_TOO},
    [MOUNT_OPENDIR] = {listing_open, 0},
    [MOUNT_READDIR] = {listing_read, 0},
    [MOUNT_RELEASEDIR] = {handle_release, VIRTUAL_TOO},
    [MOUNT_STATFS] = {statfs_call, VIRTUAL_TOO},
    [MOUNT_GETXATTR] = {xattr_get, VIRTUAL_TOO},
    [MOUNT_SETXATTR] = {xattr_set, VIRTUAL_TOO},
    [MOUNT_LISTXATTR] = {xattr_list, VIRTUAL_TOO},
    [MOUNT_REMOVEXATTR] = {xattr_remove, VIRTUAL_TOO},
    [MOUNT_FLOCK] = {flock_call, 0},
    [MOUNT_SETLK] = {record_lock_call, 0},
    [MOUNT_GUARD] = {handle_guard, 0},
    [MOUNT_GETLK] = {record_lock_get, 0},
    [MOUNT_POLL] = {event_watch_poll, VIRTUAL_TOO},
};

static void
kernel_call(struct mount *m, const struct mount_event *e)
{
	struct call *c = call_new(m, e);

	if (MOUNT_TRACES(m))
		mount_trace_call(m, e);
	if (mono_before(m->now, m->stale.until))
		stale_called(m, e);
	if (inode_is_virtual(e->ino) && !(handlers[e->kind].flags & VIRTUAL_TOO))
		virtual_call(m, c);
	else
		handlers[e->kind].handler(m, c);
}

static void
mount_dispatch(struct mount *m, const struct mount_event *e)
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
	case MOUNT_OPENS:
		m->update->open = ephemeral_is_open(m, e->node);
		break;
	case MOUNT_REGISTERED:
		for (size_t n = 0; n < e->nodes_n; n++)
			ephemeral_registered(m, e->nodes[n]);
		break;
	case MOUNT_WRITTEN:
		kernel_cache_written(m);
		break;
	case MOUNT_SESSION:
		mount_session_follow(m);
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
	update->kept = update->open = false;
	free_blocks(m);
	if (m->versions.viewed_n > 0)
		version_views_end(m);
	m->update = update;
	m->now = event->now;
	if (!TAILQ_EMPTY(&m->locks.kept))
		lock_timeout(m);
	if (!RB_EMPTY(&m->calls.interrupted))
		call_timeout(m);
	mount_dispatch(m, event);
	if (!TAILQ_EMPTY(&m->handles.ready))
		handle_run_ready(m);
	update->deadline = mount_deadline(m);
	for (size_t n = 0; MOUNT_TRACES(m) && n < update->replies_n; n++)
		mount_trace_reply(m, &update->replies[n]);
	m->update = NULL;
}
