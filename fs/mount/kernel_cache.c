#include "fs/mount/kernel_cache.h"
#include "fs/mount/internal.h"

enum {
	JIFFY_MS = 10, /* the kernel counts in jiffies of at most so long, and rounds up */
	READ_MS = 100, /* it counts from the moment in which the caller's thread reads the reply */
};

/* Only half of what is left: the reply may be written late, and be read late. */
span_t
kernel_cache_timeout(span_t left)
{
	const int64_t most = span_ms(CLIENT_PASSED_ON_MS).ns, half = left.ns / 2;

	if (half < span_ms(JIFFY_MS).ns)
		return (span_t){0};
	return (span_t){half < most ? half : most};
}

static span_t
leave(const struct mount *m, const struct inode *i)
{
	return client_leave(m->client, i->ino, i->index, m->now);
}

/* ---- replies ---- */

static span_t
reply_timeout(struct mount *m, const struct inode *i, bool attributes)
{
	const span_t t = i->dead ? (span_t){0} : kernel_cache_timeout(leave(m, i));
	struct kernel_cache *k = &m->kernel_cache;

	if (t.ns == 0)
		return t;
	ARRAY_ROOM(k->replies, k->replies_n, k->replies_room);
	k->replies[k->replies_n++] = (struct kernel_reply){i->ino, t, attributes};
	m->update->kept = true;
	return t;
}

static void
note_name(struct mount *m, struct inode *i, span_t timeout)
{
	const span_t t = {timeout.ns + span_ms(READ_MS).ns};

	if (i->gone_here)
		return;
	i->named_until = mono_max(i->named_until, mono_add(m->now, t));
}

/* A node keeps its name as long as it lives, so a name is as true as the node is alive. */
span_t
kernel_cache_name(struct mount *m, struct inode *i)
{
	const span_t t = reply_timeout(m, i, false);

	if (t.ns > 0)
		note_name(m, i, t);
	return t;
}

static bool
is_edited(const struct inode *i)
{
	const struct handle *h;

	TAILQ_FOREACH(h, &i->handles, of_inode)
		if (h->edit != EDIT_NONE)
			return true;
	return false;
}

static bool
is_mapped_older(const struct inode *i)
{
	const struct handle *h;

	TAILQ_FOREACH(h, &i->handles, of_inode)
		if (h->mapped && h->mapped->generation != i->attr.content_generation)
			return true;
	return false;
}

/* Not while writes are buffered: the process that wrote is answered another size than the others.
 * Nor while a mapping shows an older version: the kernel takes the end of what it reads for the
 * file's.
 * Nor for a renamed file: the kernel knows it by another number than the one that would be
 * invalidated. Nor where several users may use the mount: their rights differ. */
span_t
kernel_cache_attributes(struct mount *m, const struct call *c)
{
	struct inode *i = c->inode;
	span_t t;

	if (m->config.others || c->answered || i->ino != c->event.ino || is_edited(i) ||
	    is_mapped_older(i))
		return (span_t){0};
	t = reply_timeout(m, i, true);
	i->kept |= t.ns > 0;
	return t;
}

/* If the process was paused before it wrote, the kernel would keep a reply beyond the leave.
 * Attributes are invalidated. Names are not, nor need they be: a call by a name asks the mount. */
void
kernel_cache_written(struct mount *m)
{
	struct kernel_cache *k = &m->kernel_cache;

	for (size_t n = 0; n < k->replies_n; n++) {
		const struct kernel_reply *r = &k->replies[n];
		struct inode *i = inode_find(m, r->ino);

		if (i != NULL && !r->attributes)
			note_name(m, i, r->timeout);
		else if (i != NULL && leave(m, i).ns < r->timeout.ns + span_ms(JIFFY_MS).ns)
			kernel_cache_drop(m, i);
	}
	k->replies_n = 0;
}

/* ---- names of nodes that were deleted ---- */

bool
kernel_cache_named(const struct mount *m, const struct inode *i)
{
	return mono_before(m->now, i->named_until);
}

/* An answer that was EINTR told the kernel nothing but to look the name up again, which may have
 * been before the name was gone. */
void
kernel_cache_unnamed(struct inode *i, const struct call *c)
{
	if (!c->answered)
		i->named_until = (mono_t){0};
}

void
kernel_cache_moved(const struct inode *from, struct inode *to)
{
	to->named_until = mono_max(to->named_until, from->named_until);
}

/* ---- attributes that are invalidated ---- */

void
kernel_cache_drop(struct mount *m, struct inode *i)
{
	if (i->kept)
		mount_stale_inode(m, i->ino);
	i->kept = false;
}

void
kernel_cache_dropped(struct mount *m, const struct mount_event *e)
{
	struct inode *i;

	for (size_t n = 0; n < e->nodes_n; n++)
		if ((i = inode_find(m, e->nodes[n])))
			kernel_cache_drop(m, i);
	if (!e->everything)
		return;
	RB_FOREACH(i, inode_numbers, &m->inodes)
		kernel_cache_drop(m, i);
}
