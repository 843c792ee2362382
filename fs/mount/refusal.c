/* Refusals for want of a right, told by the log: the cell's answer says what is missing, or the
 * attributes do by which the mount has decided. */
#include "fs/mount/internal.h"

void
refusal_note(struct call *c, const struct result_refused *missing)
{
	free((void *)c->missing.acl.data);
	c->missing = *missing;
	c->missing.acl = bytes_copy(missing->acl);
}

int
refusal_by(struct call *c, const struct attr *attr, unsigned needed)
{
	const struct bytes acl[] = {attr->acl_read, attr->acl_write, attr->acl_change};
	const unsigned missing = needed & ~attr->rights;

	for (unsigned which = ACL_READ; which < ACL_NAMES; which++)
		if (missing & 1u << which) {
			refusal_note(c, &(struct result_refused){attr->node, (uint8_t)(1u << which),
			                                         acl[which]});
			return EACCES;
		}
	return 0;
}

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
right_name(unsigned right)
{
	if (right == RIGHT_READ)
		return "read";
	return right == RIGHT_WRITE ? "write" : "change";
}

void
refusal_log(struct mount *m, const struct call *c, enum mount_event_kind kind)
{
	const struct result_refused *missing = &c->missing;
	const struct bytes user = call_user(c);
	struct refusals *r = &m->refusals;
	struct buffer line = BUFFER(LIMIT_FRAME), path = BUFFER(LIMIT_FRAME);

	if (missing->node == 0 || m->config.trace == NULL || !has_turn(m))
		return;
	if (inode_path(m, missing->node, &path))
		buffer_printf(&line, "/ls/%s%.*s", m->config.cell, (int)path.len,
		              (const char *)path.data);
	else
		buffer_printf(&line, "node %llu", (unsigned long long)missing->node);
	buffer_printf(&line, ": %s is refused: ", mount_call_name(kind));
	if (missing->acl.len > 0)
		buffer_printf(&line, "the ACL %.*s gives ", (int)missing->acl.len,
		              (const char *)missing->acl.data);
	buffer_printf(&line, "%s", client_status(m->client).principal);
	if (user.len > 0)
		buffer_printf(&line, "/%.*s", (int)user.len, (const char *)user.data);
	buffer_printf(&line, "%s no right to %s", missing->acl.len > 0 ? "" : " has",
	              right_name(missing->right));
	if (r->untold > 0)
		buffer_printf(&line, " (%llu refusals before this one are not logged)",
		              (unsigned long long)r->untold);
	r->untold = 0;
	NOTICE(m->config.trace, "%.*s", (int)line.len, (const char *)line.data);
	buffer_free(&path);
	buffer_free(&line);
}
