#include <sys/stat.h>
#include "fs/mount/internal.h"

/* ---- the usage ---- */

static void
reply_usage(struct mount *m, struct call *c, const struct result_usage *u)
{
	struct mount_reply *r = call_reply(m, c, MOUNT_STATS);

	if (r == NULL)
		return;
	r->nodes = u->nodes;
	r->nodes_quota = u->quota_nodes;
	r->bytes = u->bytes;
	r->bytes_quota = u->quota_bytes;
}

static void
statfs_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	const struct result_usage *u = &a->result.usage;
	const int error = call_path_errno(m, c, a);

	if (error) {
		call_status(m, c, error);
		return;
	}
	if (u->budgets == 0)
		m->summary.usage = *u;
	reply_usage(m, c, u);
	call_end(m, c);
}

void
summary_statfs(struct mount *m, struct call *c)
{
	const struct inode *i = inode_find(m, c->event.ino);
	struct op op = {.code = OP_get_usage};

	if (summary_instead(m, c))
		return;
	if (i != NULL && !i->dead && !inode_is_virtual(i->ino))
		op.get_usage.node = i->ino;
	call_ask(m, c, &op, statfs_heard);
	summary_soon(m, c);
}

/* ---- without the cell ---- */

/* Before there was a session nothing is known. */
static bool
is_summary(const struct mount *m, const struct call *c)
{
	const bool root = c->event.kind == MOUNT_GETATTR && c->event.ino == NODE_ROOT;

	return m->session.id != 0 && (root || c->event.kind == MOUNT_STATFS);
}

static void
reply_root(struct mount *m, struct call *c)
{
	struct mount_reply *r = call_reply(m, c, MOUNT_ATTR);

	if (r == NULL)
		return;
	r->stat = inode_stat(m, c, c->inode);
	if (c->inode->attr.node == 0)
		r->stat = (struct mount_stat){.ino = NODE_ROOT, .nlink = 2, .mode = S_IFDIR | 0555};
}

bool
summary_answer(struct mount *m, struct call *c)
{
	if (!is_summary(m, c))
		return false;
	MOUNT_TRACE(m, "call %llu is answered as it was known last",
	            (unsigned long long)c->event.call);
	if (c->event.kind == MOUNT_STATFS)
		reply_usage(m, c, &m->summary.usage);
	else
		reply_root(m, c);
	return true;
}

bool
summary_instead(struct mount *m, struct call *c)
{
	if (call_cell_answers(m) || !summary_answer(m, c))
		return false;
	call_end(m, c);
	return true;
}

void
summary_soon(struct mount *m, struct call *c)
{
	if (is_summary(m, c))
		call_be_patient(m, c);
}
