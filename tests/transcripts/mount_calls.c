/* The calls of the kernel, as commands. */
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "cell/base/memory.h"
#include "tests/transcripts/mount_player.h"

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

/* The next word as text, with its escapes undone; valid during the command. */
struct bytes
call_text(struct player *p)
{
	char *w = (char *)script_needed(p->s), *to = w, *from = w;

	for (; *from; from++, to++) {
		if (*from == '\\')
			from++;
		*to = from > w && from[-1] == '\\' ? (*from == 'n' ? '\n' : *from) : *from;
	}
	return (struct bytes){(uint8_t *)w, (size_t)(to - w)};
}

bool
call_option(struct player *p, const char *name)
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
uint64_t
call_inode(struct player *p, const char *name)
{
	if (*name == '/')
		return NODE_ROOT;
	if (!strcmp(name, ".cell"))
		return MOUNT_INO_CELL;
	if (!strcmp(name, ".cell/status"))
		return MOUNT_INO_STATUS;
	if (!strcmp(name, ".cell/locks"))
		return MOUNT_INO_LOCKS;
	if (!strcmp(name, ".cell/events"))
		return MOUNT_INO_EVENTS;
	if (!strcmp(name, ".cell/metrics"))
		return MOUNT_INO_METRICS;
	if (!strcmp(name, ".cell/changes"))
		return MOUNT_INO_CHANGES;
	if (!strcmp(name, ".cell/txn"))
		return MOUNT_INO_TXN;
	if (!strcmp(name, ".cell/check"))
		return MOUNT_INO_CHECK;
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
    {"O_NONBLOCK", O_NONBLOCK},
    {"EXEC", 0x20},
    {"R_OK", R_OK},
    {"W_OK", W_OK},
    {"X_OK", X_OK},
    {"XATTR_CREATE", XATTR_CREATE},
    {"XATTR_REPLACE", XATTR_REPLACE},
    {"RENAME_NOREPLACE", 1},
    {"RENAME_EXCHANGE", 2},
};
enum { FLAGS = sizeof open_flags / sizeof *open_flags };

int
call_flags(struct player *p, const char *list)
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

enum lock_mode
call_mode(struct player *p, const char *w)
{
	if (!strcmp(w, "unlock"))
		return LOCK_NONE;
	if (!strcmp(w, "shared"))
		return LOCK_SHARED;
	if (strcmp(w, "exclusive"))
		script_misuse(p->s, "no lock mode \"%s\"", w);
	return LOCK_EXCLUSIVE;
}

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

	e.name = call_text(p);
	if (e.kind == MOUNT_RENAME)
		e.new_name = call_text(p);
	e.flags = call_flags(p, script_value(p->s, "flags"));
	e.ino = in ? call_inode(p, in) : NODE_ROOT;
	e.new_ino = NODE_ROOT;
	e.mode = (mode_t)script_value_number(p->s, "mode", e.mode);
	start(p, e);
}

/* The kernel tells of the caller's table of open files with these. */
static uint64_t
lock_owner(const struct mount_event *e)
{
	return e->kind == MOUNT_WRITE || e->kind == MOUNT_FLUSH || e->kind == MOUNT_RELEASE ||
	               e->kind == MOUNT_SETLK || e->kind == MOUNT_GETLK
	           ? bench_lock_owner(e->pid)
	           : 0;
}

/* A call through a descriptor. */
static void
handle_call(struct player *p, struct mount_event e)
{
	const struct named *d = known(p, script_needed(p->s));
	const char *flags = script_value(p->s, "flags");

	e.pid = by(p);
	e.ino = d->ino;
	e.fh = d->fh;
	e.lock_owner = script_value_number(p->s, "owner", lock_owner(&e));
	e.offset = (int64_t)script_value_number(p->s, "at", 0);
	e.size = script_value_number(p->s, "size", 131072);
	e.for_page = call_option(p, "page");
	e.whole = !call_option(p, "part");
	if (e.kind == MOUNT_FLOCK || e.kind == MOUNT_SETLK || e.kind == MOUNT_GETLK)
		e.lock_mode = call_mode(p, script_needed(p->s));
	e.wait = e.kind == MOUNT_FLOCK ? !call_option(p, "nonblock") : call_option(p, "wait");
	if (e.kind == MOUNT_WRITE || e.kind == MOUNT_GUARD || e.kind == MOUNT_NUMBER)
		e.data = call_text(p);
	e.flags = flags ? call_flags(p, flags) : d->flags;
	start(p, e);
}

static void
flush_call(struct player *p, struct mount_event e)
{
	const char *fate = script_value(p->s, "process");

	e.fate = !fate ? FATE_ALIVE : !strcmp(fate, "killed") ? FATE_KILLED : FATE_EXITING;
	e.has_other = script_value(p->s, "other") != NULL;
	handle_call(p, e);
}

static void
inode_call(struct player *p, struct mount_event e)
{
	e.ino = call_inode(p, script_needed(p->s));
	e.flags = call_flags(p, script_value(p->s, "flags"));
	start(p, e);
}

/* Calls on attributes of an inode, one after the other. */
static void
attribute_calls(struct player *p, struct mount_event e)
{
	const char *name;

	e.ino = call_inode(p, script_needed(p->s));
	e.uid = (uid_t)script_value_number(p->s, "uid", 1000);
	e.flags = call_flags(p, script_value(p->s, "flags"));
	while ((name = script_word(p->s))) {
		e.name = bytes_of(name);
		e.data =
		    e.kind == MOUNT_SETXATTR ? bytes_of(script_needed(p->s)) : (struct bytes){0};
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
	        (mtime ? SET_MTIME : 0) | (call_option(p, "atime") ? SET_ATIME : 0);
	e.mode = S_IFREG | (mode_t)(mode ? strtoul(mode, NULL, 8) : 0);
	e.set_uid = owner ? (uid_t)atoi(owner) : 0;
	e.set_gid = group ? (gid_t)atoi(group) : 0;
	if (mtime && !strcmp(mtime, "now"))
		e.set |= SET_MTIME_NOW;
	else
		e.mtime_ns = mtime ? atoll(mtime) : 9;
	inode_call(p, e);
}

static void
seek_call(struct player *p, struct mount_event e)
{
	const struct named *at = known(p, script_needed(p->s));

	e.ino = at->ino;
	e.fh = at->fh;
	start(p, e);
}

/* ftruncate of a descriptor, truncate of @NAME. */
static void
truncate_call(struct player *p, struct mount_event e)
{
	const char *name = script_needed(p->s);
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

	if (!call_option(p, "same"))
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

	e.ino = script_value(p->s, "in") ? call_inode(p, script_value(p->s, "in")) : NODE_ROOT;
	e.name = bytes_of(script_needed(p->s));
	start(p, e);
	r = bench_answered(p->b, p->call) ? bench_reply(p->b, p->call) : NULL;
	if (r && r->error == 0)
		set_name(p, p->inodes, (const char *)e.name.data)->ino = r->stat.ino;
}

static void
open_as(struct player *p, const char *name, int flags, struct mount_event e)
{
	const char *as = script_value(p->s, "as");
	struct named *d = set_name(p, p->descriptors, as ? as : name + (*name == '@'));

	e.flags = d->flags = flags;
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
void
call_open(struct player *p, const char *name, int flags)
{
	struct mount_event e = {.kind = MOUNT_OPEN};

	e.ino = *name == '@' || *name == '.' ? call_inode(p, name) : look_up(p, name);
	if (e.ino == 0)
		e = (struct mount_event){.kind = MOUNT_CREATE, .ino = NODE_ROOT};
	open_as(p, name, flags, e);
}

static void
open_call(struct player *p, struct mount_event e)
{
	const char *name = script_needed(p->s), *in = script_value(p->s, "in");
	const int flags = call_flags(p, script_needed(p->s));

	e.ino = in ? call_inode(p, in) : NODE_ROOT;
	if (e.kind == MOUNT_CREATE)
		open_as(p, name, flags, e);
	else
		call_open(p, name, flags);
}

static void
opendir_call(struct player *p, struct mount_event e)
{
	struct named *d = set_name(p, p->descriptors, "d");

	d->opening = p->b->calls + 1;
	d->ino = NODE_ROOT;
	inode_call(p, e);
}

PUBLIC_COMMAND(call_close)
{
	const char *name = script_needed(p->s);
	const struct named *d = known(p, name);
	struct mount_event e = {.kind = MOUNT_FLUSH,
	                        .ino = d->ino,
	                        .fh = d->fh,
	                        .fate = FATE_ALIVE,
	                        .lock_owner = bench_lock_owner(by(p))};

	start(p, e);
	e.kind = MOUNT_RELEASE;
	start(p, e);
}

PUBLIC_COMMAND(call_forget)
{
	const uint64_t ino = call_inode(p, script_needed(p->s));

	bench_forget(p->b, ino, script_number(s));
}

/* Each call of the kernel: what makes it of the arguments, and what it begins with. */
static const struct call {
	const char *name;
	void (*make)(struct player *p, struct mount_event e);
	enum mount_event_kind kind;
	mode_t mode;
	const char *usage;
} calls[] = {
    {"lookup", lookup_call, MOUNT_LOOKUP, 0, "NAME [in=DIRECTORY]"},
    {"open", open_call, MOUNT_OPEN, 0, "NAME|@NAME FLAGS [as=DESCRIPTOR] [by=THREAD]"},
    {"create", open_call, MOUNT_CREATE, 0,
     "NAME FLAGS [mode=OCTAL] [as=DESCRIPTOR] [in=@DIRECTORY]"},
    {"mkdir", name_call, MOUNT_MKDIR, 0755, "NAME [mode=OCTAL] [in=DIRECTORY]"},
    {"mknod", name_call, MOUNT_MKNOD, S_IFREG | 0644, "NAME [mode=OCTAL]"},
    {"link", name_call, MOUNT_REFUSED, 0, "NAME"},
    {"unlink", name_call, MOUNT_UNLINK, 0, "NAME"},
    {"rmdir", name_call, MOUNT_RMDIR, 0, "NAME [in=DIRECTORY]"},
    {"rename", name_call, MOUNT_RENAME, 0, "NAME NAME [flags=FLAGS]"},
    {"read", read_call, MOUNT_READ, 0, "DESCRIPTOR [at=OFFSET] [page=yes] [same=yes]"},
    {"write", handle_call, MOUNT_WRITE, 0, "DESCRIPTOR TEXT [at=OFFSET] [flags=FLAGS]"},
    {"flush", flush_call, MOUNT_FLUSH, 0, "DESCRIPTOR [other=yes] [process=killed|exiting]"},
    {"release", handle_call, MOUNT_RELEASE, 0, "DESCRIPTOR"},
    {"fsync", handle_call, MOUNT_FSYNC, 0, "DESCRIPTOR"},
    {"flock", handle_call, MOUNT_FLOCK, 0, "DESCRIPTOR shared|exclusive|unlock [nonblock=yes]"},
    {"setlk", handle_call, MOUNT_SETLK, 0, "DESCRIPTOR MODE [wait=yes] [part=yes] [owner=N]"},
    {"getlk", handle_call, MOUNT_GETLK, 0, "DESCRIPTOR MODE [part=yes]"},
    {"attach", handle_call, MOUNT_GUARD, 0, "DESCRIPTOR SEQUENCER"},
    {"poison", handle_call, MOUNT_POISON, 0, "DESCRIPTOR"},
    {"poll", handle_call, MOUNT_POLL, 0, "DESCRIPTOR [wait=yes]"},
    {"stat", inode_call, MOUNT_GETATTR, 0, "INODE"},
    {"seek", seek_call, MOUNT_GETATTR, 0, "DESCRIPTOR: to the end"},
    {"access", inode_call, MOUNT_ACCESS, 0, "INODE flags=FLAGS"},
    {"statfs", inode_call, MOUNT_STATFS, 0, "INODE"},
    {"truncate", truncate_call, MOUNT_SETATTR, 0, "DESCRIPTOR|@NAME SIZE"},
    {"setattr", setattr_call, MOUNT_SETATTR, 0,
     "INODE [mode=OCTAL] [owner=UID] [mtime=NS|now] ..."},
    {"getxattr", attribute_calls, MOUNT_GETXATTR, 0, "INODE NAME..."},
    {"setxattr", attribute_calls, MOUNT_SETXATTR, 0, "INODE [NAME VALUE]... [flags=FLAGS]"},
    {"listxattr", inode_call, MOUNT_LISTXATTR, 0, "INODE"},
    {"removexattr", attribute_calls, MOUNT_REMOVEXATTR, 0, "INODE NAME... [uid=UID]"},
    {"opendir", opendir_call, MOUNT_OPENDIR, 0, "INODE: the descriptor d"},
    {"readdir", handle_call, MOUNT_READDIR, 0, "DESCRIPTOR [at=OFFSET]"},
    {"number", handle_call, MOUNT_NUMBER, S_ISVTX, "DESCRIPTOR PREFIX"},
    {"releasedir", handle_call, MOUNT_RELEASEDIR, 0, "DESCRIPTOR"},
};

static const struct call *
find_call(struct player *p, const char *name)
{
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		if (!strcmp(calls[i].name, name))
			return &calls[i];
	script_misuse(p->s, "neither a command nor a call: \"%s\"", name);
}

PUBLIC_COMMAND(call_any)
{
	const struct call *call = find_call(p, script_name(s));

	call->make(p, (struct mount_event){.kind = call->kind, .mode = call->mode});
}

/* Prints the facts that a call would need about its caller. */
PUBLIC_COMMAND(call_wants)
{
	const struct call *call = find_call(p, script_needed(s));
	const struct named *d = known(p, script_needed(s));
	struct mount_event e = {.kind = call->kind, .ino = d->ino, .fh = d->fh, .pid = by(p)};
	unsigned wants;

	e.flags = call_flags(p, script_word(s));
	e.lock_owner = lock_owner(&e);
	wants = bench_wants(p->b, e);
	say(p, "%s%s%s%s", wants ? "its" : "nothing", wants & WANTS_PROCESS ? " process" : "",
	    wants & WANTS_FATE ? " fate" : "", wants & WANTS_DESCRIPTORS ? " descriptors" : "");
}
