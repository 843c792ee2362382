/* Refusals for want of a right, told by the log. The cell's answer does not say which right of
 * which node was missing: so the attributes of the nodes that the call may have needed are asked
 * for as the refused user, until the right to one is missing, and then its path for the mount's
 * principal, to whom the log belongs. */
#include <fcntl.h>
#include <string.h>
#include "fs/mount/internal.h"

/* A node that the call needs rights on. */
struct place {
	uint64_t node; /* or the directory of: */
	struct bytes name;
	unsigned needed;
};

enum { PLACES = 3 };

/* ---- the rights that a call needs ---- */

static unsigned
needed_to_open(int flags)
{
	unsigned needed = 0;

	if ((flags & O_ACCMODE) != O_WRONLY)
		needed |= RIGHT_READ;
	if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC))
		needed |= RIGHT_WRITE;
	return needed;
}

static unsigned
needed_for_attribute(struct bytes name)
{
	static const char prefix[] = "user.ls.acl.";
	const size_t len = sizeof prefix - 1;

	return name.len >= len && memcmp(name.data, prefix, len) == 0 ? RIGHT_CHANGE : RIGHT_WRITE;
}

/* The places of the call in the order in which they are looked at; their number. */
static size_t
places_of(struct mount *m, const struct mount_event *e, struct place p[PLACES])
{
	const uint64_t node = inode_where(m, e->ino);

	switch (e->kind) {
	case MOUNT_OPEN:
		p[0] = (struct place){node, {0}, needed_to_open(e->flags)};
		return 1;
	case MOUNT_OPENDIR:
	case MOUNT_READDIR:
	case MOUNT_READ:
		p[0] = (struct place){node, {0}, RIGHT_READ};
		return 1;
	case MOUNT_CREATE:
		p[0] = (struct place){node, e->name, needed_to_open(e->flags)};
		p[1] = (struct place){node, {0}, RIGHT_WRITE};
		return 2;
	case MOUNT_UNLINK:
	case MOUNT_RMDIR:
		p[0] = (struct place){node, e->name, RIGHT_WRITE};
		return 1;
	case MOUNT_RENAME:
		p[0] = (struct place){node, e->name, RIGHT_WRITE};
		p[1] = (struct place){e->new_ino, e->new_name, RIGHT_WRITE};
		p[2] = (struct place){e->new_ino, {0}, RIGHT_WRITE};
		return 3;
	case MOUNT_SETXATTR:
		p[0] = (struct place){node, {0}, needed_for_attribute(e->name)};
		return 1;
	default: /* a write into contents reads them before */
		p[0] = (struct place){node, {0}, RIGHT_WRITE};
		p[1] = (struct place){node, {0}, RIGHT_READ};
		return 2;
	}
}

/* ---- the line ---- */

/* True if one more line may be told now. */
static bool
has_turn(struct mount *m)
{
	struct refusals *r = &m->refusals;

	if (mono_reached(m->now, r->until)) {
		r->until = mono_add(m->now, span_s(REFUSAL_INTERVAL_S));
		r->lines = 0;
	}
	if (r->lines == REFUSAL_LINES) {
		r->untold++;
		return false;
	}
	r->lines++;
	return true;
}

static const char *
first_right(unsigned rights)
{
	if (rights & RIGHT_READ)
		return "read";
	return rights & RIGHT_WRITE ? "write" : "change";
}

static struct bytes
acl_of(const struct attr *attr, unsigned rights)
{
	if (rights & RIGHT_READ)
		return attr->acl_read;
	return rights & RIGHT_WRITE ? attr->acl_write : attr->acl_change;
}

/* The end of the line: the ACL, if it is known, the user and the right. */
static void
word(struct mount *m, struct call *b, struct bytes acl, const char *right)
{
	const struct bytes user = b->event.user;
	struct buffer to = BUFFER(LIMIT_FRAME);

	if (acl.len > 0)
		buffer_printf(&to, "the ACL %.*s gives ", (int)acl.len, (const char *)acl.data);
	buffer_printf(&to, "%s", client_status(m->client).principal);
	if (user.len > 0)
		buffer_printf(&to, "/%.*s", (int)user.len, (const char *)user.data);
	buffer_printf(&to, "%s no right to %s", acl.len > 0 ? "" : " had", right);
	b->text = buffer_take(&to);
}

static void
tell(struct mount *m, struct call *b, struct bytes path)
{
	struct refusals *r = &m->refusals;
	struct buffer line = BUFFER(LIMIT_FRAME);

	if (path.len > 0)
		buffer_printf(&line, "/ls/%s%.*s", m->config.cell, (int)path.len,
		              (const char *)path.data);
	else
		buffer_printf(&line, "node %llu", (unsigned long long)b->target);
	buffer_printf(&line, ": %s is refused: %.*s", mount_call_name(b->event.kind),
	              (int)b->text.len, (const char *)b->text.data);
	if (r->untold > 0)
		buffer_printf(&line, " (%llu refusals before this one are not logged)",
		              (unsigned long long)r->untold);
	r->untold = 0;
	NOTICE(m->config.trace, "%.*s", (int)line.len, (const char *)line.data);
	buffer_free(&line);
	call_end(m, b);
}

static void
path_heard(struct mount *m, struct call *b, const struct client_answer *a)
{
	tell(m, b, a->rc == RC_OK ? a->result.queue.path : (struct bytes){0});
}

static void
ask_path(struct mount *m, struct call *b)
{
	struct op op = {.code = OP_get_queue, .get_queue = {.node = b->target}};

	free((void *)b->event.user.data);
	b->event.user = (struct bytes){0};
	call_ask(m, b, &op, path_heard);
}

/* ---- the place ---- */

static void ask_place(struct mount *m, struct call *b);

static void
place_heard(struct mount *m, struct call *b, const struct client_answer *a)
{
	const struct attr *attr = &a->result.attr.attr;
	struct place p[PLACES];
	unsigned missing;

	places_of(m, &b->event, p);
	missing = a->rc == RC_OK ? p[b->tries].needed & ~attr->rights : 0;
	b->tries++;
	if (missing == 0) {
		ask_place(m, b);
		return;
	}
	b->target = attr->node;
	word(m, b, acl_of(attr, missing), first_right(missing));
	ask_path(m, b);
}

/* When no place is left, the right has been given since. */
static void
ask_place(struct mount *m, struct call *b)
{
	struct op op = {.code = OP_get_attr};
	struct place p[PLACES];

	if (b->tries == places_of(m, &b->event, p)) {
		b->target = p[0].node;
		word(m, b, (struct bytes){0}, first_right(p[0].needed));
		ask_path(m, b);
		return;
	}
	if (p[b->tries].name.len > 0) {
		op.code = OP_lookup;
		op.lookup.parent = p[b->tries].node;
		op.lookup.name = p[b->tries].name;
	} else {
		op.get_attr.node = p[b->tries].node;
	}
	call_ask(m, b, &op, place_heard);
}

static void
begin(struct mount *m, const struct call *c, const struct mount_event *what)
{
	struct call *b;

	if (m->config.trace == NULL || !has_turn(m))
		return;
	b = call_behind(m, NULL, NULL);
	b->ordered = false;
	b->event.kind = what->kind;
	b->event.ino = what->ino;
	b->event.new_ino = what->new_ino;
	b->event.flags = what->flags;
	b->event.name = bytes_copy(what->name);
	b->event.new_name = bytes_copy(what->new_name);
	call_act_for(b, c);
	ask_place(m, b);
}

/* An answer of access(2) is no refusal, and what is refused to everyone needs no right. */
static bool
misses_right(const struct mount_event *e)
{
	return e->kind != MOUNT_ACCESS && !inode_is_virtual(e->ino) &&
	       (e->kind != MOUNT_OPEN || !(e->flags & FLAG_EXEC));
}

void
refusal_of_call(struct mount *m, const struct call *c)
{
	if (misses_right(&c->event))
		begin(m, c, &c->event);
}

void
refusal_of_work(struct mount *m, const struct call *c)
{
	const struct mount_event e = {.kind = MOUNT_WRITE, .ino = c->node};

	if (c->op != OP_acquire) /* of which the call that waits for it tells */
		begin(m, c, &e);
}
