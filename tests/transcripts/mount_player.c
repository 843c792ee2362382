/* Plays the transcripts of the mount: a command is a call of the kernel, a signal, the time, or
 * what another machine does; below it stands what the mount decides, asks the cell and answers (see
 * docs/testing.md). Processes are 100, 200 and 300, each with the threads behind its number. */
#include <stdarg.h>
#include <stdlib.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "cell/base/memory.h"
#include "tests/transcripts/script.h"
#include "tests/unit/mount_bench.h"

enum { NAMES = 16, NAME_LEN = 24, TEXT_SHOWN = 48, LINE_SHOWN = 96 };

/* A descriptor of a process, or a name of the kernel's cache with the inode that it led to. */
struct named {
	char name[NAME_LEN];
	uint64_t ino, fh;
	int flags;
	uint64_t opening; /* the call that opens it; 0: it is open, or none */
};

struct player {
	struct bench *b;
	struct script *s; /* of the command that runs */
	struct trace trace;
	struct named descriptors[NAMES], inodes[NAMES];
	uint64_t call;       /* of the command that runs; 0: none */
	struct buffer line;  /* the messages that are said in one line */
	bool mute;           /* nothing is said: a lookup on the way to an open */
	bool told;           /* that the call of the command waits, and for what */
	const uint8_t *view; /* of the last read */
};

/* ---- what is said ---- */

static void
say_line(struct player *p)
{
	if (p->line.len > 0)
		script_say(p->s, "%.*s", (int)p->line.len, (char *)p->line.data);
	buffer_reset(&p->line);
}

/* Says a line of its own. */
#define say(p, ...)                                      \
	do {                                             \
		say_line(p);                             \
		if (!(p)->mute)                          \
			script_say((p)->s, __VA_ARGS__); \
	} while (0)

/* Adds a message to the line of messages. */
static void
say_message(struct player *p, const char *format, ...)
{
	char text[4096];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (p->line.len + strlen(text) >= LINE_SHOWN)
		say_line(p);
	if (!p->mute)
		buffer_printf(&p->line, "%s%s", p->line.len ? " " : "", text);
}

/* A text with the escapes of C; a long one without blanks by its length. */
static const char *
shown(struct bytes text)
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

static const char *const modes[] = {"free", "shared", "exclusive", "delayed"};

/* The fields of an operation beside its name and node. */
static void
print_op(struct buffer *t, const struct op *op)
{
	const struct acquire *a = &op->acquire.acquire;

	switch (op->code) {
	case OP_lookup:
		buffer_printf(t, " %s", shown(op->lookup.name));
		break;
	case OP_create:
		buffer_printf(t, " %s%s%s%s", shown(op->create.name),
		              op->create.kind == NODE_DIRECTORY ? ", directory" : "",
		              op->create.ephemeral ? ", ephemeral" : "",
		              op->create.exclusive ? ", exclusive" : "");
		break;
	case OP_delete:
		buffer_printf(t, " %s%s", shown(op->delete.name),
		              op->delete.kind == NODE_DIRECTORY ? ", directory" : "");
		break;
	case OP_rename:
		buffer_printf(t, " %s", shown(op->rename.name));
		buffer_printf(t, " to %s%s", shown(op->rename.new_name),
		              op->rename.no_replace ? ", no replacement" : "");
		break;
	case OP_get_contents:
		if (op->get_contents.generation)
			buffer_printf(t, " unless generation %d", (int)op->get_contents.generation);
		break;
	case OP_get_listing:
		buffer_printf(t, " after %s", shown(op->get_listing.after));
		break;
	case OP_set_contents:
		if (op->set_contents.guarded)
			buffer_printf(t, " if generation %d", (int)op->set_contents.generation);
		buffer_printf(t, " to %s", shown(op->set_contents.contents));
		break;
	case OP_append:
		buffer_printf(t, " %s", shown(op->append.data));
		break;
	case OP_set_acl:
		buffer_printf(t, " %d to %s", op->set_acl.which, shown(op->set_acl.name));
		break;
	case OP_set_mtime:
		buffer_printf(t, op->set_mtime.now ? " now" : " %lld",
		              (long long)op->set_mtime.mtime_ns);
		break;
	case OP_set_lock_delay:
		buffer_printf(t, " %lld", (long long)op->set_lock_delay.seconds);
		break;
	case OP_acquire:
		buffer_printf(t, " %s%s, owner %d, acquisition %d%s", modes[a->mode],
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
say_request(struct player *p, const struct mount_request *r)
{
	const uint64_t node = wire_op_node(&r->op);
	struct buffer t = BUFFER(4096);

	buffer_printf(&t, "%s %s", r->ordered ? "=>" : "->", wire_op_name(r->op.code));
	if (node > NODE_ROOT)
		buffer_printf(&t, " %llu", (unsigned long long)node);
	print_op(&t, &r->op);
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
	if (r->attr_timeout.ns || r->entry_timeout.ns)
		buffer_printf(t, ", cached");
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
		break;
	case MOUNT_DATA:
		buffer_printf(t, "%s%s", shown(r->data),
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
	case MOUNT_LOCK:
		buffer_printf(t, "%s, process %d", modes[r->lock_mode], (int)r->lock_pid);
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

static void
say_step(void *user, const struct mount_update *u)
{
	struct player *p = user;

	say_verdicts(p);
	if (u->forget_names)
		say(p, "the kernel forgets all names");
	for (size_t n = 0; n < u->stale_inodes_n; n++)
		say_message(p, "drop %llu", (unsigned long long)u->stale_inodes[n]);
	for (size_t n = 0; n < u->requests_n; n++)
		say_request(p, &u->requests[n]);
	for (size_t n = 0; n < u->replies_n; n++) {
		take_descriptor(p, &u->replies[n]);
		say_reply(p, &u->replies[n]);
	}
}

static void
say_answer(void *user, const struct op *op, enum rc rc)
{
	(void)op;
	if (rc != RC_OK)
		say_message(user, "<- %s", rc_name(rc));
}

/* ---- arguments ---- */

static struct named *
find_name(struct named *table, const char *name)
{
	for (size_t n = 0; n < NAMES; n++)
		if (!strcmp(table[n].name, name))
			return &table[n];
	return NULL;
}

static struct named *
set_name(struct player *p, struct named *table, const char *name)
{
	struct named *at = find_name(table, name);

	if (at == NULL)
		at = find_name(table, "");
	if (at == NULL || strlen(name) >= NAME_LEN)
		script_misuse(p->s, "no room for the name \"%s\"", name);
	*at = (struct named){0};
	strcpy(at->name, name);
	return at;
}

static uint64_t look_up(struct player *p, const char *name);

/* A descriptor; @f: the inode that f led to when it was last looked up, or leads to now. */
static struct named *
known(struct player *p, const char *name)
{
	struct named *at =
	    *name == '@' ? find_name(p->inodes, name + 1) : find_name(p->descriptors, name);

	if (at == NULL && *name == '@' && look_up(p, name + 1) != 0)
		at = find_name(p->inodes, name + 1);
	if (at == NULL)
		script_misuse(p->s, "\"%s\" is not known", name);
	return at;
}

static const char *
word(struct player *p)
{
	const char *w = script_word(p->s);

	if (w == NULL)
		script_misuse(p->s, "an argument is missing");
	return w;
}

/* The next word as text, with its escapes undone; valid during the command. */
static struct bytes
text(struct player *p)
{
	char *w = (char *)word(p), *to = w, *from = w;

	for (; *from; from++, to++) {
		if (*from == '\\')
			from++;
		*to = from > w && from[-1] == '\\' ? (*from == 'n' ? '\n' : *from) : *from;
	}
	return (struct bytes){(uint8_t *)w, (size_t)(to - w)};
}

static bool
option(struct player *p, const char *name)
{
	const char *w = script_value(p->s, name);

	return w && !strcmp(w, "yes");
}

static pid_t
by(struct player *p)
{
	return (pid_t)script_value_number(p->s, "by", SHELL);
}

/* A descriptor's inode; @f: the one that the name f led to when it was last looked up. */
static uint64_t
inode_named(struct player *p, const char *name)
{
	if (*name == '/')
		return NODE_ROOT;
	if (!strcmp(name, ".cell"))
		return MOUNT_INO_CELL;
	if (!strcmp(name, ".cell/status"))
		return MOUNT_INO_STATUS;
	return *name >= '0' && *name <= '9' ? strtoull(name, NULL, 10) : known(p, name)->ino;
}

static const struct {
	const char *name;
	int flag;
} open_flags[] = {
    {"O_RDONLY", O_RDONLY},
    {"O_WRONLY", O_WRONLY},
    {"O_RDWR", O_RDWR},
    {"O_CREAT", O_CREAT},
    {"O_EXCL", O_EXCL},
    {"O_TRUNC", O_TRUNC},
    {"O_APPEND", O_APPEND},
    {"O_DSYNC", O_DSYNC},
    {"EXEC", 0x20},
    {"R_OK", R_OK},
    {"W_OK", W_OK},
    {"X_OK", X_OK},
    {"XATTR_CREATE", XATTR_CREATE},
    {"RENAME_NOREPLACE", 1},
    {"RENAME_EXCHANGE", 2},
};
enum { FLAGS = sizeof open_flags / sizeof *open_flags };

static int
flags_of(struct player *p, const char *list)
{
	char *copy = strdup(list ? list : ""), *rest = copy, *one;
	int flags = 0;

	while ((one = strsep(&rest, "|"))) {
		size_t n = 0;

		while (n < FLAGS && strcmp(open_flags[n].name, one))
			n++;
		if (*one && n == FLAGS)
			script_misuse(p->s, "no flag \"%s\"", list);
		flags |= *one ? open_flags[n].flag : 0;
	}
	free(copy);
	return flags;
}

static enum lock_mode
mode_named(struct player *p, const char *w)
{
	if (!strcmp(w, "unlock"))
		return LOCK_NONE;
	if (!strcmp(w, "shared"))
		return LOCK_SHARED;
	if (strcmp(w, "exclusive"))
		script_misuse(p->s, "no lock mode \"%s\"", w);
	return LOCK_EXCLUSIVE;
}

/* A command, which says its last messages at its end. */
#define COMMAND(name)                                                   \
	static void name##_command(struct script *s, struct player *p); \
	static void run_##name(struct script *s, void *world)           \
	{                                                               \
		name##_command(s, world);                               \
		say_line(world);                                        \
	}                                                               \
	static void name##_command(struct script *s __attribute__((unused)), struct player *p)

/* ---- the kernel's calls ---- */

static uint64_t
start(struct player *p, struct mount_event e)
{
	if (e.pid == 0)
		e.pid = by(p);
	p->call = p->b->calls + 1;
	p->told = false;
	bench_start(p->b, e);
	if (!bench_answered(p->b, p->call) && !p->told)
		say(p, "call %llu waits", (unsigned long long)p->call);
	return p->call;
}

/* A call on a name, in the root directory unless in= names another one. */
static void
name_call(struct player *p, struct mount_event e)
{
	const char *in = script_value(p->s, "in");

	e.name = text(p);
	if (e.kind == MOUNT_RENAME)
		e.new_name = text(p);
	e.flags = flags_of(p, script_value(p->s, "flags"));
	e.ino = in ? inode_named(p, in) : NODE_ROOT;
	e.new_ino = NODE_ROOT;
	e.mode = (mode_t)script_value_number(p->s, "mode", e.mode);
	start(p, e);
}

/* A call through a descriptor. */
static void
handle_call(struct player *p, struct mount_event e)
{
	const struct named *d = known(p, word(p));
	const char *flags = script_value(p->s, "flags");

	e.pid = by(p);
	e.ino = d->ino;
	e.fh = d->fh;
	e.lock_owner = script_value_number(p->s, "owner", bench_lock_owner(e.pid));
	e.offset = (int64_t)script_value_number(p->s, "at", 0);
	e.size = script_value_number(p->s, "size", 131072);
	e.for_page = option(p, "page");
	e.whole = !option(p, "part");
	if (e.kind == MOUNT_FLOCK || e.kind == MOUNT_SETLK || e.kind == MOUNT_GETLK)
		e.lock_mode = mode_named(p, word(p));
	e.wait = e.kind == MOUNT_FLOCK ? !option(p, "nonblock") : option(p, "wait");
	if (e.kind == MOUNT_WRITE)
		e.data = text(p);
	e.flags = flags ? flags_of(p, flags) : d->flags;
	start(p, e);
}

static void
flush_call(struct player *p, struct mount_event e)
{
	const char *others = script_value(p->s, "others"), *fate = script_value(p->s, "process");

	e.fate = !fate ? FATE_ALIVE : !strcmp(fate, "killed") ? FATE_KILLED : FATE_EXITING;
	e.descriptors = !others ? 0 : !strcmp(others, "unknown") ? -1 : atoi(others);
	handle_call(p, e);
}

static void
inode_call(struct player *p, struct mount_event e)
{
	e.ino = inode_named(p, word(p));
	e.flags = flags_of(p, script_value(p->s, "flags"));
	start(p, e);
}

/* Calls on attributes of an inode, one after the other. */
static void
attribute_calls(struct player *p, struct mount_event e)
{
	const char *name;

	e.ino = inode_named(p, word(p));
	e.uid = (uid_t)script_value_number(p->s, "uid", 1000);
	e.flags = flags_of(p, script_value(p->s, "flags"));
	while ((name = script_word(p->s))) {
		e.name = bytes_of(name);
		e.data = e.kind == MOUNT_SETXATTR ? bytes_of(word(p)) : (struct bytes){0};
		start(p, e);
	}
}

/* chmod, chown, utimens. */
static void
setattr_call(struct player *p, struct mount_event e)
{
	const char *mode = script_value(p->s, "mode"), *mtime = script_value(p->s, "mtime");
	const char *owner = script_value(p->s, "owner"), *group = script_value(p->s, "group");

	e.set = (mode ? SET_MODE : 0) | (owner ? SET_UID : 0) | (group ? SET_GID : 0) |
	        (mtime ? SET_MTIME : 0) | (option(p, "atime") ? SET_ATIME : 0);
	e.mode = S_IFREG | (mode_t)(mode ? strtoul(mode, NULL, 8) : 0);
	e.set_uid = owner ? (uid_t)atoi(owner) : 0;
	e.set_gid = group ? (gid_t)atoi(group) : 0;
	if (mtime && !strcmp(mtime, "now"))
		e.set |= SET_MTIME_NOW;
	else
		e.mtime_ns = mtime ? atoll(mtime) : 9;
	inode_call(p, e);
}

/* ftruncate of a descriptor, truncate of @NAME. */
static void
truncate_call(struct player *p, struct mount_event e)
{
	const char *name = word(p);
	const struct named *at = known(p, name);

	e.ino = at->ino;
	e.fh = at->fh;
	e.set = SET_SIZE | (*name == '@' ? SET_MTIME | SET_MTIME_NOW : 0);
	e.set_size = script_number(p->s);
	start(p, e);
}

/* With same=yes the line tells whether the answer is in the memory of the last one. */
static void
read_call(struct player *p, struct mount_event e)
{
	const struct mount_reply *r;

	if (!option(p, "same"))
		p->view = NULL;
	handle_call(p, e);
	if (!bench_answered(p->b, p->call))
		return;
	r = bench_reply(p->b, p->call);
	p->view = r->error ? NULL : r->data.data;
}

static void
lookup_call(struct player *p, struct mount_event e)
{
	const struct mount_reply *r;

	e.ino = script_value(p->s, "in") ? inode_named(p, script_value(p->s, "in")) : NODE_ROOT;
	e.name = bytes_of(word(p));
	start(p, e);
	r = bench_answered(p->b, p->call) ? bench_reply(p->b, p->call) : NULL;
	if (r && r->error == 0)
		set_name(p, p->inodes, (const char *)e.name.data)->ino = r->stat.ino;
}

static void
open_as(struct player *p, const char *name, int flags, struct mount_event e)
{
	const char *as = script_value(p->s, "as"), *others = script_value(p->s, "others");
	struct named *d = set_name(p, p->descriptors, as ? as : name + (*name == '@'));

	e.flags = d->flags = flags;
	e.descriptors = others ? atoi(others) : 0;
	e.name = bytes_of(e.kind == MOUNT_CREATE ? name : "");
	e.mode = (mode_t)script_value_number(p->s, "mode", 0644);
	d->ino = e.ino;
	d->opening = p->b->calls + 1;
	start(p, e);
}

/* The node that a name leads to, 0 if there is none; nothing is said. */
static uint64_t
look_up(struct player *p, const char *name)
{
	const bool was = p->mute, held = p->b->hold;
	const struct mount_reply *r;

	if (p->b->pending_n > 0)
		script_misuse(p->s, "look \"%s\" up before", name);
	p->mute = true;
	p->b->hold = false;
	r = bench_reply(p->b, start(p, (struct mount_event){.kind = MOUNT_LOOKUP,
	                                                    .ino = NODE_ROOT,
	                                                    .name = bytes_of(name)}));
	p->mute = was;
	p->b->hold = held;
	if (r->error == 0)
		set_name(p, p->inodes, name)->ino = r->stat.ino;
	return r->error ? 0 : r->stat.ino;
}

/* The kernel looks the name up first, unless it is @NAME; what it does not lead to is created. */
static void
open_name(struct player *p, const char *name, int flags)
{
	struct mount_event e = {.kind = MOUNT_OPEN};

	e.ino = *name == '@' || *name == '.' ? inode_named(p, name) : look_up(p, name);
	if (e.ino == 0)
		e = (struct mount_event){.kind = MOUNT_CREATE, .ino = NODE_ROOT};
	open_as(p, name, flags, e);
}

static void
open_call(struct player *p, struct mount_event e)
{
	const char *name = word(p);
	const int flags = flags_of(p, word(p));

	e.ino = NODE_ROOT;
	if (e.kind == MOUNT_CREATE)
		open_as(p, name, flags, e);
	else
		open_name(p, name, flags);
}

static void
opendir_call(struct player *p, struct mount_event e)
{
	struct named *d = set_name(p, p->descriptors, "d");

	d->opening = p->b->calls + 1;
	d->ino = NODE_ROOT;
	inode_call(p, e);
}

/* Each call of the kernel: its command, its arguments, and what it begins with. */
#define CALLS(X)                                                                                  \
	X(lookup, lookup_call, LOOKUP, 0, "NAME [in=DIRECTORY]")                                  \
	X(open, open_call, OPEN, 0, "NAME|@NAME FLAGS [as=DESCRIPTOR] [by=THREAD] [others=N]")    \
	X(create, open_call, CREATE, 0, "NAME FLAGS [mode=OCTAL] [as=DESCRIPTOR]")                \
	X(mkdir, name_call, MKDIR, 0755, "NAME [mode=OCTAL] [in=DIRECTORY]")                      \
	X(mknod, name_call, MKNOD, S_IFREG | 0644, "NAME [mode=OCTAL]")                           \
	X(link, name_call, REFUSED, 0, "NAME")                                                    \
	X(unlink, name_call, UNLINK, 0, "NAME")                                                   \
	X(rmdir, name_call, RMDIR, 0, "NAME [in=DIRECTORY]")                                      \
	X(rename, name_call, RENAME, 0, "NAME NAME [flags=FLAGS]")                                \
	X(read, read_call, READ, 0, "DESCRIPTOR [at=OFFSET] [page=yes] [same=yes]")               \
	X(write, handle_call, WRITE, 0, "DESCRIPTOR TEXT [at=OFFSET] [flags=FLAGS]")              \
	X(flush, flush_call, FLUSH, 0, "DESCRIPTOR [others=N|unknown] [process=killed|exiting]")  \
	X(release, handle_call, RELEASE, 0, "DESCRIPTOR")                                         \
	X(fsync, handle_call, FSYNC, 0, "DESCRIPTOR")                                             \
	X(flock, handle_call, FLOCK, 0, "DESCRIPTOR shared|exclusive|unlock [nonblock=yes]")      \
	X(setlk, handle_call, SETLK, 0, "DESCRIPTOR MODE [wait=yes] [part=yes] [owner=N]")        \
	X(getlk, handle_call, GETLK, 0, "DESCRIPTOR MODE [part=yes]")                             \
	X(stat, inode_call, GETATTR, 0, "INODE")                                                  \
	X(access, inode_call, ACCESS, 0, "INODE flags=FLAGS")                                     \
	X(statfs, inode_call, STATFS, 0, "INODE")                                                 \
	X(truncate, truncate_call, SETATTR, 0, "DESCRIPTOR|@NAME SIZE")                           \
	X(setattr, setattr_call, SETATTR, 0, "INODE [mode=OCTAL] [owner=UID] [mtime=NS|now] ...") \
	X(getxattr, attribute_calls, GETXATTR, 0, "INODE NAME...")                                \
	X(setxattr, attribute_calls, SETXATTR, 0, "INODE [NAME VALUE]... [flags=FLAGS]")          \
	X(listxattr, inode_call, LISTXATTR, 0, "INODE")                                           \
	X(removexattr, attribute_calls, REMOVEXATTR, 0, "INODE NAME... [uid=UID]")                \
	X(opendir, opendir_call, OPENDIR, 0, "INODE: the descriptor d")                           \
	X(readdir, handle_call, READDIR, 0, "DESCRIPTOR [at=OFFSET]")                             \
	X(releasedir, handle_call, RELEASEDIR, 0, "DESCRIPTOR")

#define X(command, function, kind_, mode_, usage)                                          \
	COMMAND(command)                                                                   \
	{                                                                                  \
		function(p, (struct mount_event){.kind = MOUNT_##kind_, .mode = (mode_)}); \
	}
CALLS(X)
#undef X

COMMAND(close)
{
	const char *name = word(p);
	const struct named *d = known(p, name);
	struct mount_event e = {.kind = MOUNT_FLUSH,
	                        .ino = d->ino,
	                        .fh = d->fh,
	                        .fate = FATE_ALIVE,
	                        .lock_owner = bench_lock_owner(by(p))};

	(void)s;
	start(p, e);
	e.kind = MOUNT_RELEASE;
	start(p, e);
}

COMMAND(forget)
{
	const uint64_t ino = inode_named(p, word(p));

	bench_forget(p->b, ino, script_number(s));
}

/* Prints the facts that a call would need about its caller. */
COMMAND(wants)
{
#define X(command, function, kind_, mode_, usage) {#command, MOUNT_##kind_},
	static const struct {
		const char *name;
		enum mount_event_kind kind;
	} calls[] = {CALLS(X)};
#undef X
	const char *name = word(p);
	const struct named *d = known(p, word(p));
	struct mount_event e = {.ino = d->ino, .fh = d->fh, .pid = by(p)};
	unsigned wants;

	for (size_t n = 0; n < sizeof calls / sizeof *calls; n++)
		if (!strcmp(calls[n].name, name))
			e.kind = calls[n].kind;
	e.flags = flags_of(p, script_word(s));
	e.lock_owner = bench_lock_owner(e.pid);
	wants = bench_wants(p->b, e);
	say(p, "%s%s%s", wants ? "its process" : "nothing", wants & WANTS_FATE ? ", its fate" : "",
	    wants & WANTS_DESCRIPTORS ? ", its descriptors" : "");
}

/* ---- signals, time, the session ---- */

static uint64_t
waiting_call(struct player *p)
{
	const char *number = script_word(p->s);
	uint64_t call = number ? strtoull(number, NULL, 10) : p->b->calls;

	while (!number && call && bench_answered(p->b, call))
		call--;
	return call;
}

COMMAND(signal)
{
	bench_interrupt(p->b, waiting_call(p));
}

COMMAND(kill)
{
	bench_kill(p->b, waiting_call(p));
}

COMMAND(wait)
{
	p->call = 0;
	bench_wait(p->b, (int64_t)script_number(s));
}

COMMAND(session)
{
	const char *state = word(p);

	p->call = 0;
	p->b->client.status.grace_end =
	    mono_add(p->b->now, span_ms((int64_t)script_value_number(s, "grace", 45000)));
	if (!strcmp(state, "new"))
		bench_new_session(p->b);
	else
		bench_state(p->b, !strcmp(state, "safe")       ? CLIENT_SAFE
		                  : !strcmp(state, "jeopardy") ? CLIENT_JEOPARDY
		                                               : CLIENT_EXPIRED);
}

/* ---- the cell and the other machine ---- */

COMMAND(hold)
{
	p->b->hold = true;
}

COMMAND(resume)
{
	p->call = 0;
	bench_answer_all(p->b);
	p->b->hold = false;
}

COMMAND(answer)
{
	const char *as = script_value(s, "as");
	const uint64_t known = script_value_number(s, "knows", 0);

	p->call = 0;
	if (p->b->pending_n == 0)
		script_misuse(s, "no request waits for an answer");
	if (known)
		p->b->pending[0].op.get_contents.generation = known;
	if (!as) {
		bench_answer(p->b);
		return;
	}
	for (int rc = 0; rc < 64; rc++)
		if (!strcmp(rc_name((enum rc)rc), as))
			bench_answer_with(p->b, (enum rc)rc);
}

static uint64_t
node_of(struct player *p, const char *name)
{
	return lookup(p->b->cell, NODE_ROOT, name);
}

static void
write_elsewhere(struct player *p, const char *name, struct bytes contents)
{
	uint64_t node = node_of(p, name);
	char *copy = bytes_to_text(contents);

	if (node == 0)
		node = new_file(p->b->cell, NODE_ROOT, name);
	assert_int_equal(write_file(p->b->cell, node, copy), RC_OK);
	free(copy);
}

static enum rc
other_does(struct player *p, const char *what, const char *name, const char *to)
{
	struct bench *b = p->b;
	const uint64_t node = node_of(p, name);

	if (!strcmp(what, "locks"))
		return acquire(b->cell, b->other, BENCH_OTHER_OWNER, 1, node, mode_named(p, to));
	if (!strcmp(what, "renames"))
		return rename_file(b->cell, b->other, NODE_ROOT, name, NODE_ROOT, to);
	if (!strcmp(what, "creates"))
		return create(b->cell, b->other, NODE_ROOT, name, NODE_FILE, true);
	if (!strcmp(what, "closes"))
		return run(b->cell, b->other,
		           OP(close_ephemeral, .node = script_value_number(p->s, "number", node)));
	if (!strcmp(what, "ends"))
		return end_session(b->cell, b->other, SESSION_CLOSED);
	script_misuse(p->s, "another machine does nothing that is called \"%s\"", what);
}

COMMAND(other)
{
	const char *what = word(p), *name = word(p);
	enum rc rc = RC_OK;

	p->call = 0;
	if (!strcmp(what, "writes"))
		write_elsewhere(p, name, text(p));
	else if (!strcmp(what, "deletes"))
		bench_other_deletes(p->b, name);
	else if (!strcmp(what, "unlocks"))
		bench_other_unlocks(p->b, node_of(p, name));
	else
		rc = other_does(p, what, name, script_word(s));
	if (rc != RC_OK)
		script_say(s, "<- %s", rc_name(rc));
}

/* The node of a name as the cell has it. */
COMMAND(cell)
{
	const char *name = word(p);
	struct fixture *f = p->b->cell;
	const uint64_t node = node_of(p, name);
	struct result_lock lock;

	if (node == 0) {
		script_say(s, "no %s", name);
		return;
	}
	lock = lock_of_node(f, node);
	assert_int_equal(look(f, READER, OP(get_contents, .node = node)), RC_OK);
	script_say(s, "%llu: %s%s%s%s", (unsigned long long)node,
	           shown(f->answer.contents.contents),
	           f->answer.contents.attr.ephemeral ? ", ephemeral" : "",
	           lock.state ? ", locked " : "", lock.state ? modes[lock.state] : "");
	if (f->answer.contents.attr.mtime_ns < SECOND_NS)
		script_say(s, "mtime %lld", (long long)f->answer.contents.attr.mtime_ns);
}

/* The mount's memory and its next deadline. */
COMMAND(memory)
{
	const struct mount *m = p->b->mount;
	const mono_t deadline = mount_deadline(m);

	script_say(s, "%zu versions, %s", mount_versions(m),
	           mount_has_file_locks(m) ? "file locks" : "no file locks");
	if (!mono_is_never(deadline))
		script_say(s, "deadline in %lld ms",
		           (long long)span_to_ms(mono_since(deadline, p->b->now)));
}

/* ---- worlds ---- */

static void
player_clear(struct player *p)
{
	if (p->b)
		bench_free(p->b);
	trace_free(&p->trace);
	buffer_free(&p->line);
	*p = (struct player){.trace = {.on = true}, .line = BUFFER(LIMIT_FRAME)};
}

/* A new mount of a new cell, with files of these names and contents. */
COMMAND(mount)
{
	const char *commit = script_value(s, "commit"), *flags = script_value(s, "open");
	const char *locked = script_value(s, "locked"), *name;
	struct mount_config config = {.cell = "local",
	                              .uid = 1000,
	                              .gid = 1000,
	                              .lock_delay_s = 15,
	                              .trace = &p->trace};

	player_clear(p);
	p->s = s;
	config.commit_at_write = commit && !strcmp(commit, "write");
	config.quiet = option(p, "quiet");
	config.listing_page = (uint32_t)script_value_number(s, "page", 0);
	p->b = bench_new(&config);
	bench_state(p->b, CLIENT_SAFE);
	trace_free(&p->trace);
	p->b->stepped = say_step;
	p->b->heard = say_answer;
	p->b->user = p;
	while ((name = script_word(s))) {
		const struct bytes contents = text(p);

		if (!bytes_equal(contents, bytes_of("-")))
			write_elsewhere(p, name, contents);
		p->mute = true;
		if (flags)
			open_name(p, name, flags_of(p, flags));
		p->mute = false;
		if (locked)
			assert_int_equal(other_does(p, "locks", name, locked), RC_OK);
	}
}

static void *
begin(void)
{
	return memory_zero(1, sizeof(struct player));
}

static void
end(void *world)
{
	player_clear(world);
	free(world);
}

static const struct script_command commands[] = {
    {"mount", "[NAME CONTENTS|-]... [open=FLAGS] [locked=MODE] [commit=write] [quiet=yes] ...",
     run_mount},
#define X(command, function, kind, mode, usage) {#command, usage, run_##command},
    CALLS(X)
#undef X
        {"close", "DESCRIPTOR [by=THREAD]: flush, release", run_close},
    {"forget", "INODE COUNT", run_forget},
    {"wants", "CALL DESCRIPTOR|@NAME [FLAGS] [by=THREAD]", run_wants},
    {"signal", "[CALL]: one that its caller handles; without a number the last that waits",
     run_signal},
    {"kill", "[CALL]: a signal that ends its process", run_kill},
    {"wait", "MILLISECONDS", run_wait},
    {"session", "safe|jeopardy|expired|new [grace=MS]", run_session},
    {"hold", ": the cell does not answer until answer or resume", run_hold},
    {"answer", "[as=CODE] [knows=GENERATION]: of the oldest request", run_answer},
    {"resume", ": the cell answers everything, from now on at once", run_resume},
    {"other", "writes|deletes|locks|unlocks|renames|creates|closes|ends NAME ...", run_other},
    {"cell", "NAME: as the cell has it", run_cell},
    {"memory", ": versions, locks and the next deadline", run_memory},
    {0},
};

int
main(int argc, char **argv)
{
	static const struct script_player player = {.folder = "mount",
	                                            .commands = commands,
	                                            .begin = begin,
	                                            .end = end};

	return script_main(argc, argv, &player);
}
