/* What happens, in words: who does what to which path, what the log decides, who leads, what fails.
 * For people who know what the system is for, and not its code. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "tests/sim/sim.h"
#include "tests/unit/wire_print.h"

enum { PATH_ROOM = 4 * NAME_ROOM, PATH_BUFFERS = 4, TEXT_MAX = 40 };

void
sim_trace(struct sim *s, const char *format, ...)
{
	va_list args;

	if (!s->options.trace)
		return;
	printf("%12.6f  ", (double)s->now / 1e9);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

void
trace_frame(struct sim *s, const char *way, uint64_t conn, struct bytes frame)
{
	struct buffer text = BUFFER(1 << 20);
	struct message m;

	if (!s->options.frames || wire_get_frame(frame, &m) != RC_OK)
		return;
	wire_print_message(&text, &m);
	sim_trace(s, "    %s %lu: %.*s", way, (unsigned long)conn, (int)text.len,
	          (char *)text.data);
	buffer_free(&text);
}

/* ---- names ---- */

const char *
trace_path(const struct sim *s, uint64_t node)
{
	static char buffers[PATH_BUFFERS][PATH_ROOM];
	static unsigned next;
	char *path = buffers[next++ % PATH_BUFFERS];
	const struct item *it = model_item((struct model *)&s->model, node);
	size_t at = PATH_ROOM - 1;

	path[at] = '\0';
	if (it == NULL) {
		snprintf(path, PATH_ROOM, "node %lu", (unsigned long)node);
		return path;
	}
	if (it->parent == 0)
		return "/";
	for (; it != NULL && it->parent != 0 && at > NAME_ROOM;
	     it = model_item((struct model *)&s->model, it->parent)) {
		size_t len = strlen(it->name);

		at -= len + 1;
		path[at] = '/';
		memcpy(path + at + 1, it->name, len);
	}
	return path + at;
}

static const char *
child_path(const struct sim *s, uint64_t parent, struct bytes name)
{
	static char buffers[2][2 * PATH_ROOM];
	static unsigned next;
	char *path = buffers[next++ % 2];
	const char *up = trace_path(s, parent);

	snprintf(path, sizeof buffers[0], "%s/%.*s", strcmp(up, "/") == 0 ? "" : up, (int)name.len,
	         (const char *)name.data);
	return path;
}

static const char *
mode_name(unsigned mode)
{
	return mode == LOCK_EXCLUSIVE ? "exclusive" : mode == LOCK_SHARED ? "shared" : "no";
}

static void
put_text(struct buffer *to, struct bytes text)
{
	buffer_printf(to, "\"%.*s\"%s", (int)(text.len < TEXT_MAX ? text.len : TEXT_MAX),
	              text.data ? (const char *)text.data : "", text.len > TEXT_MAX ? "..." : "");
}

/* ---- operations ---- */

static void
put_names(const struct sim *s, struct buffer *to, const struct op *op)
{
	switch (op->code) {
	case OP_create:
		buffer_printf(to, "create%s%s %s%s", op->create.exclusive ? " anew" : "",
		              op->create.ephemeral ? " ephemeral" : "",
		              child_path(s, op->create.parent, op->create.name),
		              op->create.kind == NODE_DIRECTORY ? "/" : "");
		return;
	case OP_rename:
		buffer_printf(to, "rename %s to %s%s",
		              child_path(s, op->rename.parent, op->rename.name),
		              child_path(s, op->rename.new_parent, op->rename.new_name),
		              op->rename.no_replace ? " if that is free" : "");
		return;
	case OP_delete:
		buffer_printf(to, "delete %s", child_path(s, op->delete.parent, op->delete.name));
		return;
	default:
		buffer_printf(to, "look up %s", child_path(s, op->lookup.parent, op->lookup.name));
		return;
	}
}

static void
put_members(struct buffer *to, const struct op_set_members *op)
{
	struct cursor rest = cursor_of(op->members.packed);
	struct member m;

	buffer_printf(to, "make the members");
	while (wire_next_member(&rest, &m))
		if (m.role != MEMBER_REMOVED)
			buffer_printf(to, " %u%s", m.id,
			              m.role == MEMBER_LEARNER ? " (learner)" : "");
	buffer_printf(to, " instead of those of log %lu", (unsigned long)op->version);
}

static void
put_op(const struct sim *s, struct buffer *to, const struct op *op)
{
	const struct acquire *a = &op->acquire.acquire;

	switch (op->code) {
	case OP_create:
	case OP_rename:
	case OP_delete:
	case OP_lookup:
		put_names(s, to, op);
		return;
	case OP_number:
		buffer_printf(to, "number%s a file %s", op->number.ephemeral ? " ephemeral" : "",
		              child_path(s, op->number.parent, op->number.prefix));
		return;
	case OP_set_contents:
		buffer_printf(to, "write ");
		put_text(to, op->set_contents.contents);
		buffer_printf(to, " to %s", trace_path(s, op->set_contents.node));
		if (op->set_contents.guarded)
			buffer_printf(to, " if its generation is %lu",
			              (unsigned long)op->set_contents.generation);
		return;
	case OP_append:
		buffer_printf(to, "append ");
		put_text(to, op->append.data);
		buffer_printf(to, " to %s", trace_path(s, op->append.node));
		return;
	case OP_grant:
		a = &op->grant.acquire;
		/* fall through */
	case OP_acquire:
		buffer_printf(to, "take the %s lock of %s%s for owner %lu (acquisition %lu)",
		              mode_name(a->mode), trace_path(s, a->node),
		              a->wait ? ", waiting if need be," : "", (unsigned long)a->owner,
		              (unsigned long)a->acquisition);
		return;
	case OP_end_session:
		buffer_printf(to, "end session %lu%s", (unsigned long)op->end_session.session,
		              op->end_session.cause == SESSION_EXPIRED ? " as expired" : "");
		return;
	case OP_finish_session:
		buffer_printf(to, "go on with the end of session %lu",
		              (unsigned long)op->finish_session.session);
		return;
	case OP_begin_epoch:
		buffer_printf(to, "begin the epoch of replica %u (ballot %lu.%u)",
		              op->begin_epoch.ballot.replica,
		              (unsigned long)op->begin_epoch.ballot.round,
		              op->begin_epoch.ballot.replica);
		return;
	case OP_create_session:
		buffer_printf(to, "create a session");
		return;
	case OP_set_members:
		put_members(to, &op->set_members);
		return;
	case OP_set_setting:
		buffer_printf(to, "set %s to %lu", setting_info(op->set_setting.setting)->name,
		              (unsigned long)op->set_setting.value);
		return;
	default:
		buffer_printf(to, "%s of %s", wire_op(op->code)->name,
		              trace_path(s, op->code == OP_delay_over ? op->delay_over.node
		                            : op->code == OP_expire   ? op->expire.node
		                                                      : wire_op_node(op)));
		return;
	}
}

static void
put_who(struct buffer *to, const struct record *r)
{
	buffer_printf(to, "client %d", r->machine + 1);
	if (r->process >= 0)
		buffer_printf(to, " process %d", r->process + 1);
	if (r->session != 0)
		buffer_printf(to, " (request %lu.%lu)", (unsigned long)r->session,
		              (unsigned long)r->number);
}

static void
put_outcome(struct buffer *to, const struct op *op, enum rc rc, const struct outcome *o)
{
	buffer_printf(to, "%s", rc == RC_OK ? "ok" : rc_name(rc));
	if (rc != RC_OK)
		return;
	if (o->generation != 0)
		buffer_printf(to, ", generation %lu", (unsigned long)o->generation);
	if (op->code == OP_transaction)
		buffer_printf(to, ", part %d, condition %u, step %u: %s", o->transaction.part,
		              o->transaction.condition, o->transaction.failed,
		              rc_name(o->transaction.rc));
	if (op->code == OP_acquire || op->code == OP_grant)
		buffer_printf(to, ", fencing token %lu", (unsigned long)o->fence);
}

static void
print(struct sim *s, struct buffer *text)
{
	sim_trace(s, "%.*s", (int)text->len, (char *)text->data);
	buffer_free(text);
}

/* ---- what happened ---- */

void
trace_asked(struct sim *s, const struct record *r)
{
	struct buffer text = BUFFER(1024);

	if (!s->options.trace)
		return;
	put_who(&text, r);
	buffer_printf(&text, " wants to ");
	put_op(s, &text, &r->op);
	print(s, &text);
}

void
trace_answered(struct sim *s, const struct record *r)
{
	struct buffer text = BUFFER(1024);

	if (!s->options.trace)
		return;
	put_who(&text, r);
	buffer_printf(&text, " is told about \"");
	put_op(s, &text, &r->op);
	buffer_printf(&text, "\": ");
	put_outcome(&text, &r->op, r->rc, &r->got);
	if (r->contents.len > 0) {
		buffer_printf(&text, ", reads ");
		put_text(&text, r->contents);
	}
	if (r->index != 0)
		buffer_printf(&text, " (as of log %lu)", (unsigned long)r->index);
	print(s, &text);
}

void
trace_command(struct sim *s, uint64_t index, const struct op *op, const struct record *r,
              const struct outcome *want)
{
	struct buffer text = BUFFER(1024);

	if (s->script != NULL)
		s->script->decided(s->script->user, index, op, r, want);
	if (!s->options.trace)
		return;
	buffer_printf(&text, "LOG %lu: ", (unsigned long)index);
	if (r != NULL)
		put_who(&text, r);
	else
		buffer_printf(&text, "the master");
	buffer_printf(&text, ": ");
	put_op(s, &text, op);
	if (op->code == OP_grant)
		buffer_printf(&text, " of session %lu", (unsigned long)op->grant.session);
	buffer_printf(&text, ": ");
	if (want == NULL)
		buffer_printf(&text, "again, or of a session that is over: nothing");
	else
		put_outcome(&text, op, want->rc, want);
	print(s, &text);
}

void
trace_call(struct sim *s, const struct machine *m, int p, const struct mount_event *event)
{
	static const char *const names[] = {
	    [MOUNT_LOOKUP] = "looks up",
	    [MOUNT_CREATE] = "opens or creates",
	    [MOUNT_UNLINK] = "unlinks",
	    [MOUNT_RENAME] = "renames",
	    [MOUNT_READ] = "reads",
	    [MOUNT_WRITE] = "writes",
	    [MOUNT_FLUSH] = "closes",
	    [MOUNT_RELEASE] = "releases",
	    [MOUNT_FSYNC] = "syncs",
	    [MOUNT_OPENDIR] = "opens the directory",
	    [MOUNT_RELEASEDIR] = "closes the directory",
	    [MOUNT_SETATTR] = "chmods",
	    [MOUNT_MKDIR] = "makes the directory",
	    [MOUNT_RMDIR] = "removes",
	    [MOUNT_GETXATTR] = "reads an attribute of",
	    [MOUNT_FLOCK] = "flocks",
	    [MOUNT_SETLK] = "fcntl-locks",
	    [MOUNT_GUARD] = "attaches a sequencer to",
	    [MOUNT_POISON] = "poisons",
	    [MOUNT_NUMBER] = "numbers a file in",
	    [MOUNT_WATCH_TREE] = "watches the tree of",
	    [MOUNT_GETLK] = "asks for the fcntl lock of",
	    [MOUNT_SETXATTR] = "sets an attribute of",
	    [MOUNT_REMOVEXATTR] = "removes an attribute of",
	};
	struct buffer text = BUFFER(1024);

	if (!s->options.trace)
		return;
	buffer_printf(&text, "client %d process %d on its mount %s ", m->id + 1, p + 1,
	              event->kind < sizeof names / sizeof *names && names[event->kind]
	                  ? names[event->kind]
	                  : "calls");
	if (event->kind == MOUNT_FLOCK || event->kind == MOUNT_SETLK)
		buffer_printf(&text, "(%s%s) ", mode_name(event->lock_mode),
		              event->wait ? ", waiting" : "");
	if (event->kind == MOUNT_GETXATTR || event->kind == MOUNT_SETXATTR ||
	    event->kind == MOUNT_REMOVEXATTR)
		buffer_printf(&text, "%s (%.*s)", trace_path(s, event->ino), (int)event->name.len,
		              (const char *)event->name.data);
	else
		buffer_printf(&text, "%s",
		              event->name.len > 0 ? child_path(s, event->ino, event->name)
		                                  : trace_path(s, event->ino));
	if (event->new_name.len > 0)
		buffer_printf(&text, " to %s", child_path(s, event->new_ino, event->new_name));
	if (event->kind == MOUNT_WRITE) {
		buffer_printf(&text, ": ");
		put_text(&text, event->data);
	}
	print(s, &text);
}

/* ---- the seed ---- */

void
trace_seed(struct sim *s)
{
	static const char *const clocks[] = {"exact", "drifting as far as allowed", "wild"};
	const struct swarm *w = &s->swarm;

	if (!s->options.trace)
		return;
	printf("Seed %lu: %d replicas, %d clients with %d processes each%s; session lease %.1f s,\n"
	       "grace %.1f s, lock-delay %d s; network up to %.1f ms%s, disks up to %.1f ms,\n"
	       "clocks %s, %d operators. Faults for %.1f s, in 10,000 chances every 0.1 s:",
	       (unsigned long)s->seed, s->hosts_n, s->machines_n, w->processes,
	       w->mounts ? " on mounts" : "", (double)w->session_lease_ms / 1e3,
	       (double)w->grace_ms / 1e3, w->lock_delay_s, (double)w->latency_us / 1e3,
	       w->datagrams ? ", no order between replicas" : "", (double)w->disk_us / 1e3,
	       clocks[w->clocks], w->operators, (double)w->chaos_ms / 1e3);
	for (int f = 0; f < FAULTS; f++)
		if (w->rates[f] > 0)
			printf(" %s %u,", fault_name((enum fault)f), w->rates[f]);
	printf("\nA request is named session.number; LOG n is when it takes effect.\n");
}
