/* The attributes user.ls.*, in one table. All names outside of `user.` are refused without asking
 * the cell, and never with ENOSYS: the kernel would then send no more calls for attributes. */
#include <linux/limits.h>
#include <sys/xattr.h>
#include <string.h>
#include "fs/mount/internal.h"

struct attribute {
	const char *name;
	enum op_code from; /* the read operation that returns it */
	/* Prints the value; prints nothing if there is none now. */
	void (*show)(const struct mount *m, const struct result *r, struct buffer *to);
	/* Sets the value; NULL: read-only. */
	void (*set)(struct mount *m, struct call *c, struct bytes value);
	void (*remove)(struct mount *m, struct call *c);
};

static bool
is_file(const struct result *r)
{
	return r->attr.attr.kind == NODE_FILE;
}

/* A number, which there is on a condition. */
#define SHOW_NUMBER(name, condition, number)                                                      \
	static void show_##name(const struct mount *m, const struct result *r, struct buffer *to) \
	{                                                                                         \
		(void)m;                                                                          \
		if (condition)                                                                    \
			buffer_printf(to, "%llu", (unsigned long long)(number));                  \
	}

#define SHOW_TEXT(name, text)                                                                     \
	static void show_##name(const struct mount *m, const struct result *r, struct buffer *to) \
	{                                                                                         \
		(void)m;                                                                          \
		buffer_put_bytes(to, text);                                                       \
	}

/* ---- showing: attributes of the node ---- */

SHOW_NUMBER(instance, true, r->attr.attr.node)
SHOW_NUMBER(content_generation, is_file(r), r->attr.attr.content_generation)
SHOW_NUMBER(acl_generation, true, r->attr.attr.acl_generation)

static void
show_checksum(const struct mount *m, const struct result *r, struct buffer *to)
{
	(void)m;
	if (is_file(r) && (r->attr.attr.rights & RIGHT_READ))
		buffer_printf(to, "%016llx", (unsigned long long)r->attr.attr.checksum);
}

SHOW_NUMBER(ephemeral, true, r->attr.attr.ephemeral != 0)
SHOW_TEXT(acl_read, r->attr.attr.acl_read)
SHOW_TEXT(acl_write, r->attr.attr.acl_write)
SHOW_TEXT(acl_change, r->attr.attr.acl_change)

static void
show_lock_delay(const struct mount *m, const struct result *r, struct buffer *to)
{
	int64_t own = r->attr.attr.lock_delay_s;

	buffer_printf(to, "%lld", own < 0 ? (long long)m->config.lock_delay_s : (long long)own);
}

SHOW_NUMBER(lock_slots, true, r->attr.attr.lock_slots)
SHOW_NUMBER(ttl, r->attr.attr.ttl_s > 0, r->attr.attr.ttl_s)

/* ---- showing: what the master alone knows ---- */

SHOW_NUMBER(quota_nodes, r->usage.budget_nodes > 0, r->usage.budget_nodes)
SHOW_NUMBER(quota_bytes, r->usage.budget_bytes > 0, r->usage.budget_bytes)
SHOW_NUMBER(usage_nodes, r->usage.directory, r->usage.below_nodes)
SHOW_NUMBER(usage_bytes, r->usage.directory, r->usage.below_bytes)
SHOW_NUMBER(usage_index, r->usage.directory, r->usage.index)
SHOW_NUMBER(ttl_left, r->lock.ttl_left_s > 0, r->lock.ttl_left_s)
SHOW_NUMBER(lock_generation, true, r->lock.lock_generation)

static void
show_lock(const struct mount *m, const struct result *r, struct buffer *to)
{
	(void)m;
	lock_text_state(to, r->lock.state, r->lock.holders.count, r->lock.delay_left_s);
}

static void
show_lock_since(const struct mount *m, const struct result *r, struct buffer *to)
{
	struct cursor from = cursor_of(r->lock.holders.packed);
	struct lock_holder holder;

	(void)m;
	if (wire_next_lock_holder(&from, &holder))
		buffer_printf(to, "%lld", (long long)holder.since_ns);
}

enum { LINE = 512 }; /* more than the line of a holder or waiter */

/* Prints as many holders as fit into the largest value of an attribute. */
static void
show_lock_holders(const struct mount *m, const struct result *r, struct buffer *to)
{
	struct cursor from = cursor_of(r->lock.holders.packed);
	struct lock_holder holder;

	(void)m;
	while (to->len + LINE < XATTR_SIZE_MAX && wire_next_lock_holder(&from, &holder)) {
		buffer_printf(to, "%s", to->len ? "\n" : "");
		lock_text_holder(to, &holder, r->lock.now_ns);
	}
}

static void
show_lock_waiters(const struct mount *m, const struct result *r, struct buffer *to)
{
	struct cursor from = cursor_of(r->queue.waiters.packed);
	struct lock_waiter waiter;

	(void)m;
	while (to->len + LINE < XATTR_SIZE_MAX && wire_next_lock_waiter(&from, &waiter)) {
		buffer_printf(to, "%s", to->len ? "\n" : "");
		lock_text_waiter(to, &waiter, r->queue.now_ns);
	}
}

SHOW_TEXT(sequencer, r->sequencer.sequencer)
SHOW_NUMBER(fence, true, r->sequencer.fence)
SHOW_NUMBER(lock_slot, r->sequencer.slot >= 0, r->sequencer.slot)

/* ---- setting ---- */

static void
set_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	int error = call_learn(m, c, a, call_path_errno(m, c, a));

	call_status(m, c, error);
}

static void
set_acl(struct mount *m, struct call *c, enum acl_name which, struct bytes value)
{
	struct op op = {.code = OP_set_acl};

	if (value.len == 0 || value.len > LIMIT_NAME || memchr(value.data, 0, value.len)) {
		call_status(m, c, EINVAL);
		return;
	}
	op.set_acl.node = c->inode->ino;
	op.set_acl.which = which;
	op.set_acl.name = value;
	call_ask(m, c, &op, set_heard);
}

#define SET_ACL(name, which)                                                            \
	static void set_acl_##name(struct mount *m, struct call *c, struct bytes value) \
	{                                                                               \
		set_acl(m, c, which, value);                                            \
	}

SET_ACL(read, ACL_READ)
SET_ACL(write, ACL_WRITE)
SET_ACL(change, ACL_CHANGE)

/* `op` has its code, and what else it needs but node and number. */
static void
ask_number(struct mount *m, struct call *c, struct op op, int64_t number)
{
	const uint64_t node = c->inode->ino;

	if (op.code == OP_set_lock_delay)
		op.set_lock_delay = (struct op_set_lock_delay){node, number};
	else if (op.code == OP_set_lock_slots)
		op.set_lock_slots = (struct op_set_lock_slots){node, (uint32_t)number};
	else if (op.code == OP_set_ttl)
		op.set_ttl = (struct op_set_ttl){node, (uint32_t)number};
	else
		op.set_quota = (struct op_set_quota){node, op.set_quota.which, (uint64_t)number};
	call_ask(m, c, &op, set_heard);
}

static void
set_number(struct mount *m, struct call *c, struct op op, struct bytes value, int64_t most)
{
	int64_t number;

	if (!bytes_number(value, &number))
		call_status(m, c, EINVAL);
	else if (number < 0 || number > most)
		call_status(m, c, ERANGE);
	else
		ask_number(m, c, op, number);
}

/* `none`: the number that stands for a removed attribute. */
#define SET_NUMBER(name, most, none, ...)                                           \
	static void set_##name(struct mount *m, struct call *c, struct bytes value) \
	{                                                                           \
		set_number(m, c, (struct op){__VA_ARGS__}, value, most);            \
	}                                                                           \
                                                                                    \
	static void remove_##name(struct mount *m, struct call *c)                  \
	{                                                                           \
		ask_number(m, c, (struct op){__VA_ARGS__}, none);                   \
	}

SET_NUMBER(lock_delay, LIMIT_LOCK_DELAY_S, -1, .code = OP_set_lock_delay)
SET_NUMBER(lock_slots, LIMIT_SLOTS, 0, .code = OP_set_lock_slots)
SET_NUMBER(ttl, LIMIT_TTL_S, 0, .code = OP_set_ttl)
/* The greatest is the cell's to know. */
SET_NUMBER(quota_nodes, INT64_MAX, 0, .code = OP_set_quota, .set_quota.which = QUOTA_NODES)
SET_NUMBER(quota_bytes, INT64_MAX, 0, .code = OP_set_quota, .set_quota.which = QUOTA_BYTES)

static void
set_lock(struct mount *m, struct call *c, struct bytes value)
{
	if (bytes_equal(value, bytes_of("exclusive")))
		attribute_lock_set(m, c, LOCK_EXCLUSIVE);
	else if (bytes_equal(value, bytes_of("shared")))
		attribute_lock_set(m, c, LOCK_SHARED);
	else if (bytes_equal(value, bytes_of("free")))
		attribute_lock_set(m, c, LOCK_NONE);
	else
		call_status(m, c, EINVAL);
}

static void
remove_lock(struct mount *m, struct call *c)
{
	attribute_lock_set(m, c, LOCK_NONE);
}

/* If the last handle was closed meanwhile, this session's open ends at once. */
static void
ephemeral_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	if (a->rc == RC_OK && !mount_session_lost(m, c->session))
		ephemeral_opened(m, inode_get(m, inode_where(m, c->inode->ino)), c->inode->ino);
	set_heard(m, c, a);
}

/* Only a file that is open here can become ephemeral: otherwise no close would end this session's
 * open. An ephemeral file can't become permanent; setting 0 is refused like a read-only attribute,
 * for tools that copy attributes. */
static void
set_ephemeral(struct mount *m, struct call *c, struct bytes value)
{
	struct op op = {.code = OP_make_ephemeral};

	if (bytes_equal(value, bytes_of("0"))) {
		call_status(m, c, EOPNOTSUPP);
		return;
	}
	if (!bytes_equal(value, bytes_of("1")) || c->inode->attr.kind == NODE_DIRECTORY) {
		call_status(m, c, EINVAL);
		return;
	}
	if (ephemeral_holder(c->inode) == NULL) {
		call_status(m, c, EBADF);
		return;
	}
	op.make_ephemeral.node = c->inode->ino;
	call_ask(m, c, &op, ephemeral_heard);
}

/* ---- the table ---- */

static const struct attribute attributes[] = {
    {"user.ls.instance", OP_get_attr, show_instance, NULL, NULL},
    {"user.ls.content_generation", OP_get_attr, show_content_generation, NULL, NULL},
    {"user.ls.acl_generation", OP_get_attr, show_acl_generation, NULL, NULL},
    {"user.ls.checksum", OP_get_attr, show_checksum, NULL, NULL},
    {"user.ls.ephemeral", OP_get_attr, show_ephemeral, set_ephemeral, NULL},
    {"user.ls.acl.read", OP_get_attr, show_acl_read, set_acl_read, NULL},
    {"user.ls.acl.write", OP_get_attr, show_acl_write, set_acl_write, NULL},
    {"user.ls.acl.change", OP_get_attr, show_acl_change, set_acl_change, NULL},
    {"user.ls.lock_delay", OP_get_attr, show_lock_delay, set_lock_delay, remove_lock_delay},
    {"user.ls.lock_slots", OP_get_attr, show_lock_slots, set_lock_slots, remove_lock_slots},
    {"user.ls.ttl", OP_get_attr, show_ttl, set_ttl, remove_ttl},
    {"user.ls.ttl_left", OP_get_lock, show_ttl_left, NULL, NULL},
    {"user.ls.quota.nodes", OP_get_usage, show_quota_nodes, set_quota_nodes, remove_quota_nodes},
    {"user.ls.quota.bytes", OP_get_usage, show_quota_bytes, set_quota_bytes, remove_quota_bytes},
    {"user.ls.usage.nodes", OP_get_usage, show_usage_nodes, NULL, NULL},
    {"user.ls.usage.bytes", OP_get_usage, show_usage_bytes, NULL, NULL},
    {"user.ls.usage.index", OP_get_usage, show_usage_index, NULL, NULL},
    {"user.ls.lock_generation", OP_get_lock, show_lock_generation, NULL, NULL},
    {"user.ls.lock", OP_get_lock, show_lock, set_lock, remove_lock},
    {"user.ls.lock_holders", OP_get_lock, show_lock_holders, NULL, NULL},
    {"user.ls.lock_since", OP_get_lock, show_lock_since, NULL, NULL},
    {"user.ls.lock_waiters", OP_get_queue, show_lock_waiters, NULL, NULL},
    {"user.ls.sequencer", OP_get_sequencer, show_sequencer, NULL, NULL},
    {"user.ls.fence", OP_get_sequencer, show_fence, NULL, NULL},
    {"user.ls.lock_slot", OP_get_sequencer, show_lock_slot, NULL, NULL},
};

enum { ATTRIBUTES = sizeof attributes / sizeof attributes[0] };

static const struct attribute *
attribute_find(struct bytes name)
{
	for (size_t n = 0; n < ATTRIBUTES; n++)
		if (bytes_equal(name, bytes_of(attributes[n].name)))
			return &attributes[n];
	return NULL;
}

bool
xattr_is_of_holder(struct bytes name)
{
	const struct attribute *a = attribute_find(name);

	return a != NULL && a->from == OP_get_sequencer;
}

bool
xattr_is_status(struct bytes name)
{
	return bytes_equal(name, bytes_of("user.ls.status"));
}

static bool
is_user(struct bytes name)
{
	return name.len >= 5 && memcmp(name.data, "user.", 5) == 0;
}

static void
ask_node(struct mount *m, struct call *c, enum op_code code, call_then *then)
{
	struct op op = {.code = code};

	if (code == OP_get_attr)
		op.get_attr.node = c->inode->ino;
	else if (code == OP_get_usage)
		op.get_usage.node = c->inode->ino;
	else if (code == OP_get_lock)
		op.get_lock.node = c->inode->ino;
	else if (code == OP_get_queue)
		op.get_queue.node = c->inode->ino;
	else
		op.get_sequencer = (struct op_get_sequencer){c->inode->ino, (uint32_t)c->event.pid};
	call_ask(m, c, &op, then);
}

/* True for a deleted file that is open here, which has no attributes any more. Those of its lock
 * are ESTALE, as its lock is, and so are all of a file that a path has led to before it was
 * deleted. */
static bool
lives_on(struct mount *m, uint64_t ino)
{
	const struct inode *i = inode_find(m, inode_where(m, ino));

	return i != NULL && inode_lives_on(i) && !TAILQ_EMPTY(&i->handles);
}

static void
refer_node(struct mount *m, struct call *c)
{
	call_refer(c, inode_get(m, inode_where(m, c->event.ino)));
}

/* ---- the calls ---- */

static void
get_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	struct buffer value = BUFFER(XATTR_SIZE_MAX);
	int error = call_path_errno(m, c, a);

	if (error == 0)
		attribute_find(c->event.name)->show(m, &a->result, &value);
	if (error == EACCES || (error == 0 && (value.len == 0 || value.failed)))
		error = ENODATA; /* EACCES: a sequencer, which only those have that may write */
	if (error)
		call_status(m, c, error);
	else
		call_data(m, c, buffer_view(&value));
	buffer_free(&value);
}

void
xattr_get(struct mount *m, struct call *c)
{
	const struct attribute *a = attribute_find(c->event.name);
	struct buffer text = BUFFER(XATTR_SIZE_MAX);

	/* The text of .cell/status can be had from any descriptor of the mount, whatever has become
	 * of its node: a program that has one file of the cell and nothing else sees the session
	 * that its lock needs. */
	if (xattr_is_status(c->event.name)) {
		virtual_status_text(m, &text);
		call_data(m, c, buffer_view(&text));
		buffer_free(&text);
	} else if (!is_user(c->event.name)) {
		call_status(m, c, EOPNOTSUPP);
	} else if (a == NULL || inode_is_virtual(c->event.ino) ||
	           (a->from == OP_get_attr && lives_on(m, c->event.ino))) {
		call_status(m, c, ENODATA);
	} else {
		refer_node(m, c);
		ask_node(m, c, a->from, get_heard);
	}
}

/* The process that made the node is copying attributes to it: mv and cp -a do not count EOPNOTSUPP
 * as a failure. */
static int
read_only_errno(struct mount *m, const struct call *c)
{
	const struct inode *i = inode_find(m, c->event.ino);

	return i && process_is(i->maker, c->event.pid) ? EOPNOTSUPP : EPERM;
}

static void
set_conditionally(struct mount *m, struct call *c, const struct client_answer *a)
{
	const struct attribute *attribute = attribute_find(c->event.name);
	struct buffer value = BUFFER(XATTR_SIZE_MAX);
	int error = call_path_errno(m, c, a);

	if (error == 0)
		attribute->show(m, &a->result, &value);
	if (error == 0 && (value.len > 0) != ((c->event.flags & XATTR_REPLACE) != 0))
		error = value.len > 0 ? EEXIST : ENODATA;
	buffer_free(&value);
	if (error)
		call_status(m, c, error);
	else
		attribute->set(m, c, c->event.data);
}

void
xattr_set(struct mount *m, struct call *c)
{
	const struct attribute *a = attribute_find(c->event.name);

	if (a == NULL) {
		call_status(m, c, EOPNOTSUPP);
	} else if (a->set == NULL) {
		call_status(m, c, read_only_errno(m, c));
	} else if (inode_is_virtual(c->event.ino)) {
		call_status(m, c, EPERM);
	} else {
		refer_node(m, c);
		if ((c->event.flags & (XATTR_CREATE | XATTR_REPLACE)) && a->set != set_lock)
			ask_node(m, c, a->from, set_conditionally);
		else
			a->set(m, c, c->event.data);
	}
}

void
xattr_remove(struct mount *m, struct call *c)
{
	const struct attribute *a = attribute_find(c->event.name);

	if (a == NULL) {
		call_status(m, c, is_user(c->event.name) ? ENODATA : EOPNOTSUPP);
	} else if (a->remove == NULL || inode_is_virtual(c->event.ino)) {
		call_status(m, c, EPERM);
	} else {
		refer_node(m, c);
		a->remove(m, c);
	}
}

/* ---- list ---- */

/* True if this mount's session holds the lock. *own becomes a value for each attribute that its
 * acquisition has. */
static bool
is_holder(const struct mount *m, const struct result_lock *lock, struct result *own)
{
	struct cursor from = cursor_of(lock->holders.packed);
	struct lock_holder holder;

	while (wire_next_lock_holder(&from, &holder))
		if (holder.session == m->session.id) {
			own->sequencer =
			    (struct result_sequencer){lock->holders.packed, 0, holder.slot};
			return true;
		}
	return false;
}

/* Appends the names of the attributes with this source that have a value in the answer `r`, or, if
 * it is NULL, of all of them. */
static void
list_some(struct mount *m, struct call *c, enum op_code from, const struct result *r)
{
	struct buffer names = BUFFER(XATTR_LIST_MAX), value = BUFFER(XATTR_SIZE_MAX);

	buffer_put_bytes(&names, c->text);
	free((void *)c->text.data);
	for (size_t n = 0; n < ATTRIBUTES; n++) {
		if (attributes[n].from != from)
			continue;
		buffer_reset(&value);
		if (r != NULL)
			attributes[n].show(m, r, &value);
		if (r == NULL || value.len)
			buffer_put(&names, attributes[n].name, strlen(attributes[n].name) + 1);
	}
	buffer_free(&value);
	c->text = buffer_take(&names);
}

static void
list_lock_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	const bool may_write = (call_sees(c, c->inode).rights & RIGHT_WRITE) != 0;
	int error = call_path_errno(m, c, a);
	struct result own;

	if (error) {
		call_status(m, c, error);
		return;
	}
	list_some(m, c, OP_get_lock, &a->result);
	if (a->result.lock.waiters > 0)
		list_some(m, c, OP_get_queue, NULL);
	if (may_write && is_holder(m, &a->result.lock, &own))
		list_some(m, c, OP_get_sequencer, &own);
	call_data(m, c, c->text);
}

static void
list_usage_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	int error = call_path_errno(m, c, a);

	if (error || c->answered) {
		call_status(m, c, error);
		return;
	}
	list_some(m, c, OP_get_usage, &a->result);
	ask_node(m, c, OP_get_lock, list_lock_heard);
}

static void
list_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	int error = call_path_errno(m, c, a);

	if (error || c->answered) {
		call_status(m, c, error);
		return;
	}
	list_some(m, c, OP_get_attr, &a->result);
	if (is_file(&a->result))
		ask_node(m, c, OP_get_lock, list_lock_heard);
	else
		ask_node(m, c, OP_get_usage, list_usage_heard);
}

void
xattr_list(struct mount *m, struct call *c)
{
	if (inode_is_virtual(c->event.ino) || lives_on(m, c->event.ino)) {
		call_data(m, c, (struct bytes){0});
		return;
	}
	refer_node(m, c);
	ask_node(m, c, OP_get_attr, list_heard);
}
