/* The lines of the trace that more than one file needs: what the kernel asks, what the mount asks
 * the cell, and how both are answered. They tell names and numbers, never contents. */
#include "fs/mount/internal.h"

static const char *const kinds[] = {
    [MOUNT_LOOKUP] = "lookup",
    [MOUNT_GETATTR] = "getattr",
    [MOUNT_SETATTR] = "setattr",
    [MOUNT_ACCESS] = "access",
    [MOUNT_MKDIR] = "mkdir",
    [MOUNT_MKNOD] = "mknod",
    [MOUNT_UNLINK] = "unlink",
    [MOUNT_RMDIR] = "rmdir",
    [MOUNT_RENAME] = "rename",
    [MOUNT_REFUSED] = "link",
    [MOUNT_OPEN] = "open",
    [MOUNT_CREATE] = "create",
    [MOUNT_READ] = "read",
    [MOUNT_WRITE] = "write",
    [MOUNT_FLUSH] = "flush",
    [MOUNT_FSYNC] = "fsync",
    [MOUNT_RELEASE] = "release",
    [MOUNT_OPENDIR] = "opendir",
    [MOUNT_READDIR] = "readdir",
    [MOUNT_RELEASEDIR] = "releasedir",
    [MOUNT_STATFS] = "statfs",
    [MOUNT_GETXATTR] = "getxattr",
    [MOUNT_SETXATTR] = "setxattr",
    [MOUNT_LISTXATTR] = "listxattr",
    [MOUNT_REMOVEXATTR] = "removexattr",
    [MOUNT_FLOCK] = "flock",
    [MOUNT_SETLK] = "setlk",
    [MOUNT_GUARD] = "guard",
    [MOUNT_GETLK] = "getlk",
    [MOUNT_POLL] = "poll",
};

const char *
mount_call_name(enum mount_event_kind kind)
{
	return kinds[kind];
}

void
mount_trace_call(struct mount *m, const struct mount_event *e)
{
	struct trace *t = m->config.trace;

	MESSAGE_TRACE(t, "call %llu of thread %d: %s %.*s in inode %llu, handle %llu",
	              (unsigned long long)e->call, (int)e->thread, kinds[e->kind], (int)e->name.len,
	              e->name.len ? (const char *)e->name.data : "", (unsigned long long)e->ino,
	              (unsigned long long)e->fh);
}

void
mount_trace_ask(struct mount *m, const struct call *c, const struct op *op)
{
	MESSAGE_TRACE(m->config.trace, "call %llu asks%s: %s of node %llu",
	              (unsigned long long)c->event.call, c->ordered ? " in order" : "",
	              wire_op_name(op->code), (unsigned long long)wire_op_node(op));
}

void
mount_trace_heard(struct mount *m, const struct call *c, const struct client_answer *a)
{
	MESSAGE_TRACE(m->config.trace, "call %llu: %s of node %llu is answered %s",
	              (unsigned long long)c->event.call, wire_op_name(c->op),
	              (unsigned long long)c->node, rc_name(a->rc));
}

void
mount_trace_reply(struct mount *m, const struct mount_reply *r)
{
	MESSAGE_TRACE(m->config.trace, "call %llu is answered: %s%s", (unsigned long long)r->call,
	              r->error ? "error " : "done", r->error ? rc_errno_name(r->error) : "");
}
