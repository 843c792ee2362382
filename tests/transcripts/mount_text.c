/* The decisions of the mount, its requests to the cell and its answers, as text. */
#include <poll.h>
#include <string.h>
#include "cell/base/memory.h"
#include "tests/transcripts/mount_player.h"

enum { TEXT_SHOWN = 48 };

const char *const text_modes[] = {"free", "shared", "exclusive", "delayed"};

/* A text with the escapes of C; a long one without blanks by its length. */
const char *
text_shown(struct bytes text)
{
	static char to[8 * TEXT_SHOWN];
	size_t n = 0;

	if (text.len > TEXT_SHOWN && !memchr(text.data, ' ', text.len) &&
	    !memchr(text.data, '\0', text.len)) {
		snprintf(to, sizeof to, "<%zu bytes>", text.len);
		return to;
	}
	to[n++] = '"';
	for (size_t i = 0; i < text.len && n < sizeof to - 4; i++) {
		const char c = (char)text.data[i];

		if (c == '\n' || c == '\0')
			to[n++] = '\\';
		to[n++] = c == '\n' ? 'n' : c == '\0' ? '0' : c;
	}
	to[n++] = '"';
	to[n] = '\0';
	return to;
}

/* The fields of an operation beside its name and node. */
static void
print_op(struct buffer *t, const struct op *op)
{
	const struct acquire *a = &op->acquire.acquire;

	switch (op->code) {
	case OP_lookup:
		buffer_printf(t, " %s", text_shown(op->lookup.name));
		break;
	case OP_create:
		buffer_printf(t, " %s%s%s%s", text_shown(op->create.name),
		              op->create.kind == NODE_DIRECTORY ? ", directory" : "",
		              op->create.ephemeral ? ", ephemeral" : "",
		              op->create.exclusive ? ", exclusive" : "");
		break;
	case OP_delete:
		buffer_printf(t, " %s%s", text_shown(op->delete.name),
		              op->delete.kind == NODE_DIRECTORY ? ", directory" : "");
		break;
	case OP_rename:
		buffer_printf(t, " %s", text_shown(op->rename.name));
		buffer_printf(t, " to %s%s", text_shown(op->rename.new_name),
		              op->rename.no_replace ? ", no replacement" : "");
		break;
	case OP_get_contents:
		if (op->get_contents.generation)
			buffer_printf(t, " unless generation %d", (int)op->get_contents.generation);
		break;
	case OP_get_listing:
		buffer_printf(t, " after %s", text_shown(op->get_listing.after));
		break;
	case OP_set_contents:
		if (op->set_contents.guarded)
			buffer_printf(t, " if generation %d", (int)op->set_contents.generation);
		buffer_printf(t, " to %s", text_shown(op->set_contents.contents));
		break;
	case OP_append:
		buffer_printf(t, " %s", text_shown(op->append.data));
		break;
	case OP_set_acl:
		buffer_printf(t, " %d to %s", op->set_acl.which, text_shown(op->set_acl.name));
		break;
	case OP_set_mtime:
		buffer_printf(t, op->set_mtime.now ? " now" : " %lld",
		              (long long)op->set_mtime.mtime_ns);
		break;
	case OP_set_lock_slots:
		buffer_printf(t, " %u", op->set_lock_slots.slots);
		break;
	case OP_set_lock_delay:
		buffer_printf(t, " %lld", (long long)op->set_lock_delay.seconds);
		break;
	case OP_set_quota:
		buffer_printf(t, " %s %llu", op->set_quota.which == QUOTA_NODES ? "nodes" : "bytes",
		              (unsigned long long)op->set_quota.most);
		break;
	case OP_acquire:
		buffer_printf(t, " %s%s, owner %d, acquisition %d%s", text_modes[a->mode],
		              a->wait ? ", waiting" : "", (int)a->owner, (int)a->acquisition,
		              a->default_delay_s == 15 ? "" : ", lock-delay");
		break;
	case OP_release:
		buffer_printf(t, ", acquisition %d", (int)op->release.acquisition);
		break;
	case OP_cancel:
		buffer_printf(t, ", acquisition %d", (int)op->cancel.acquisition);
		break;
	default:
		break;
	}
}

static void
say_request(struct player *p, const struct client_call *r)
{
	const uint64_t node = r->given_up ? 0 : wire_op_node(&r->op);
	struct buffer t = BUFFER(4096);

	if (r->given_up) {
		say(p, "what comes later waits for it");
		return;
	}
	buffer_printf(&t, "%s %s", r->ordered ? "=>" : "->", wire_op(r->op.code)->name);
	if (node > NODE_ROOT)
		buffer_printf(&t, " %llu", (unsigned long long)node);
	print_op(&t, &r->op);
	if (r->opened.node && !(r->opened.rights & RIGHT_READ && r->opened.rights & RIGHT_WRITE))
		buffer_printf(&t, ", opened with rights %u", r->opened.rights);
	if (r->guard.node)
		buffer_printf(&t, ", while lock %llu is held by fence %llu",
		              (unsigned long long)r->guard.node,
		              (unsigned long long)r->guard.fence);
	say_message(p, "%.*s", (int)t.len, (char *)t.data);
	buffer_free(&t);
}

static void
print_stat(struct buffer *t, const struct mount_reply *r)
{
	const struct mount_stat *s = &r->stat;

	buffer_printf(t, "%s %llu, %o, %llu links", S_ISDIR(s->mode) ? "directory" : "file",
	              (unsigned long long)(s->ino & ~MOUNT_INO_VIRTUAL), s->mode & 07777,
	              (unsigned long long)s->nlink);
	if (!(s->ino & MOUNT_INO_VIRTUAL)) /* whose texts name the version */
		buffer_printf(t, ", %llu bytes", (unsigned long long)s->size);
	if (s->mtime_ns < SECOND_NS)
		buffer_printf(t, ", mtime %lld", (long long)s->mtime_ns);
}

/* How long the kernel keeps what it is answered. */
static void
print_kept(struct buffer *t, const struct mount_reply *r)
{
	if (r->entry_timeout.ns)
		buffer_printf(t, "%sname kept %lld ms", t->len > 2 ? ", " : "",
		              (long long)span_to_ms(r->entry_timeout));
	if (r->attr_timeout.ns)
		buffer_printf(t, ", kept %lld ms", (long long)span_to_ms(r->attr_timeout));
}

/* The result in an answer, as text; empty for one that only tells success. */
static void
print_reply(struct player *p, struct buffer *t, const struct mount_reply *r)
{
	switch (r->error ? MOUNT_STATUS : r->kind) {
	case MOUNT_STATUS:
		if (r->error)
			buffer_printf(t, "%s", rc_errno_name(r->error));
		break;
	case MOUNT_ENTRY:
	case MOUNT_ATTR:
		print_stat(t, r);
		print_kept(t, r);
		break;
	case MOUNT_CREATED:
		print_kept(t, r);
		break;
	case MOUNT_DATA:
		buffer_printf(t, "%s%s", text_shown(r->data),
		              p->view && p->view == r->data.data ? ", the same memory" : "");
		p->view = NULL;
		break;
	case MOUNT_LISTING:
		for (size_t n = 0; n < r->children_n; n++)
			buffer_printf(t, "%s%.*s", n ? " " : "", (int)r->children[n].name.len,
			              (const char *)r->children[n].name.data);
		break;
	case MOUNT_STATS:
		buffer_printf(t, "%llu bytes of %llu, %llu nodes of %llu",
		              (unsigned long long)r->bytes, (unsigned long long)r->bytes_quota,
		              (unsigned long long)r->nodes, (unsigned long long)r->nodes_quota);
		break;
	case MOUNT_POLLED:
		buffer_printf(t, "%s%s%s%s", r->revents & POLLIN ? "in" : "nothing",
		              r->revents & POLLOUT ? " out" : "",
		              r->revents & POLLPRI ? " pri" : "",
		              r->revents & POLLHUP ? " hup err" : "");
		break;
	case MOUNT_LOCK:
		buffer_printf(t, "%s, process %d", text_modes[r->lock_mode], (int)r->lock_pid);
		break;
	default:
		break;
	}
}

static void
say_reply(struct player *p, const struct mount_reply *r)
{
	struct buffer t = BUFFER(LIMIT_FRAME);
	size_t before;

	if (r->call != p->call)
		buffer_printf(&t, "call %llu ", (unsigned long long)r->call);
	buffer_printf(&t, "= ");
	before = t.len;
	print_reply(p, &t, r);
	if (t.len == before && r->call != p->call)
		buffer_printf(&t, "0");
	if (t.len > before || r->kind == MOUNT_LISTING)
		say_message(p, "%.*s", (int)t.len, (char *)t.data);
	buffer_free(&t);
}

/* The descriptor that this call opens is open. */
static void
take_descriptor(struct player *p, const struct mount_reply *r)
{
	for (size_t n = 0; n < NAMES; n++) {
		struct named *d = &p->descriptors[n];

		if (d->opening != r->call || r->error)
			continue;
		d->opening = 0;
		d->fh = r->fh;
		if (r->kind == MOUNT_CREATED)
			d->ino = r->stat.ino;
	}
}

static void
say_verdicts(struct player *p)
{
	enum trace_kind kind;
	const char *line;

	while ((line = trace_take(&p->trace, &kind)))
		if (kind != TRACE_MESSAGE) {
			say(p, "%s", line);
			p->told |= strstr(line, " waits ") != NULL;
		}
}

void
text_of_step(void *user, const struct mount_update *u)
{
	struct player *p = user;

	say_verdicts(p);
	for (size_t n = 0; n < u->stale_inodes_n; n++)
		say_message(p, "drop %llu", (unsigned long long)u->stale_inodes[n]);
	for (size_t n = 0; n < u->woken_n; n++)
		say_message(p, "wake handle %llu", (unsigned long long)u->woken[n]);
	for (size_t n = 0; n < u->requests_n; n++)
		say_request(p, &u->requests[n]);
	for (size_t n = 0; n < u->replies_n; n++) {
		take_descriptor(p, &u->replies[n]);
		say_reply(p, &u->replies[n]);
	}
}

void
text_of_answer(void *user, const struct op *op, enum rc rc)
{
	struct player *p = user;

	(void)op;
	if (rc != RC_OK)
		say_message(p, "<- %s", rc_name(rc));
}
