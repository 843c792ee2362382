#include "tests/unit/mount_bench.h"
#include "cell/base/memory.h"

enum { OTHER_OWNER = 7 };

struct client_status
client_status(const struct client *c)
{
	return c->status;
}

/* ---- life ---- */

struct bench *
bench_new(const struct mount_config *config)
{
	struct bench *b = memory_zero(1, sizeof *b);

	b->cell = fixture_new();
	b->session = new_session(b->cell, "mount");
	b->other = new_session(b->cell, "other");
	b->client.status = (struct client_status){.state = CLIENT_SAFE, .session = b->session,
	                                          .epoch = 1, .master = 1};
	b->now = (mono_t){SECOND_NS};
	b->client.status.lease_end = mono_add(b->now, span_s(12));
	b->data = BUFFER(LIMIT_FRAME);
	b->names = BUFFER(LIMIT_FRAME);
	b->trace = BUFFER(LIMIT_FRAME);
	b->mount = mount_new(config, &b->client);
	return b;
}

void
bench_free(struct bench *b)
{
	mount_free(b->mount);
	mount_update_free(&b->update);
	for (size_t n = 0; n < b->pending_n; n++)
		free((void *)b->pending[n].packed.data);
	free(b->pending);
	free(b->waiters);
	free(b->replies);
	buffer_free(&b->data);
	buffer_free(&b->names);
	buffer_free(&b->trace);
	fixture_free(b->cell);
	free(b);
}

int
bench_setup(void **state)
{
	*state = bench_new(&(struct mount_config){
		.cell = "local", .uid = 1000, .gid = 1000, .lock_delay_s = 15});
	return 0;
}

int
bench_teardown(void **state)
{
	bench_free(*state);
	return 0;
}

/* ---- the trace ---- */

static void
trace_text(struct bench *b, struct bytes text)
{
	buffer_printf(&b->trace, " \"%.*s\"", (int)(text.len < 40 ? text.len : 40),
	              (const char *)text.data);
}

static void
trace_request(struct bench *b, const struct mount_request *r)
{
	const struct op *op = &r->op;

	buffer_printf(&b->trace, "%s%s%s", b->trace.len ? " | " : "", r->ordered ? "&" : "",
	              wire_op_name(op->code));
	switch (op->code) {
	case OP_lookup:
		trace_text(b, op->lookup.name);
		break;
	case OP_create:
		trace_text(b, op->create.name);
		break;
	case OP_delete:
		trace_text(b, op->delete.name);
		break;
	case OP_rename:
		trace_text(b, op->rename.name);
		trace_text(b, op->rename.new_name);
		break;
	case OP_append:
		trace_text(b, op->append.data);
		break;
	case OP_get_contents:
		if (op->get_contents.generation)
			buffer_printf(&b->trace, " but %u",
			              (unsigned)op->get_contents.generation);
		break;
	case OP_set_contents:
		if (op->set_contents.guarded)
			buffer_printf(&b->trace, " =%u", (unsigned)op->set_contents.generation);
		else
			buffer_printf(&b->trace, " any");
		trace_text(b, op->set_contents.contents);
		break;
	case OP_acquire:
		buffer_printf(&b->trace, " %s%s",
		              op->acquire.acquire.mode == LOCK_SHARED ? "shared" : "exclusive",
		              op->acquire.acquire.wait ? " wait" : "");
		break;
	default:
		break;
	}
}

void
bench_asked(struct bench *b, const char *expected)
{
	buffer_put_u8(&b->trace, 0);
	assert_string_equal((char *)b->trace.data, expected);
	buffer_reset(&b->trace);
}

/* ---- replies ---- */

static void
take_reply(struct bench *b, const struct mount_reply *r)
{
	struct mount_reply *kept = &b->replies[r->call];

	assert_true(r->call > 0 && r->call <= b->calls);
	assert_int_equal((int)kept->kind, -1); /* answered once */
	*kept = *r;
	if (r->kind == MOUNT_DATA && r->error == 0) {
		buffer_reset(&b->data);
		buffer_put_bytes(&b->data, r->data);
	}
	if (r->kind == MOUNT_LISTING && r->error == 0) {
		buffer_reset(&b->names);
		for (size_t n = 0; n < r->children_n; n++)
			buffer_printf(&b->names, " %.*s", (int)r->children[n].name.len,
			              (const char *)r->children[n].name.data);
	}
}

static void
take_request(struct bench *b, const struct mount_request *r)
{
	struct buffer packed = BUFFER(LIMIT_ENTRY);
	struct pending *p;

	trace_request(b, r);
	wire_put_op(&packed, &r->op);
	assert_false(packed.failed);
	ARRAY_ROOM(b->pending, b->pending_n, b->pending_room);
	p = &b->pending[b->pending_n++];
	p->token = r->token;
	p->ordered = r->ordered;
	p->packed = buffer_take(&packed);
	assert_int_equal(wire_get_op(p->packed, &p->op), RC_OK);
}

static void
step(struct bench *b, struct mount_event *event)
{
	event->now = b->now;
	mount_step(b->mount, event, &b->update);
	b->stale_inodes += b->update.stale_inodes_n;
	b->forget_names |= b->update.forget_names;
	for (size_t n = 0; n < b->update.replies_n; n++)
		take_reply(b, &b->update.replies[n]);
	for (size_t n = 0; n < b->update.requests_n; n++)
		take_request(b, &b->update.requests[n]);
}

/* ---- the cell ---- */

/* What a master does after a lock was freed: the queue's head gets it, if it can. */
static void
serve_waiters(struct bench *b)
{
	struct bench_waiter w;
	struct client_grant g;
	struct mount_event event = {.kind = MOUNT_GRANT, .grant = &g};

	for (size_t n = 0; n < b->waiters_n; n++) {
		w = b->waiters[n];
		if (run(b->cell, 0, OP(grant, .session = w.session, .acquire = w.acquire)) != RC_OK)
			continue;
		g = (struct client_grant){.node = w.acquire.node, .owner = w.acquire.owner,
		                          .acquisition = w.acquire.acquisition, .rc = RC_OK};
		memmove(&b->waiters[n], &b->waiters[n + 1], (--b->waiters_n - n) * sizeof w);
		n--;
		step(b, &event);
	}
}

static void
forget_waiter(struct bench *b, uint64_t acquisition)
{
	for (size_t n = 0; n < b->waiters_n; n++)
		if (b->waiters[n].acquire.acquisition == acquisition) {
			b->waiters_n--;
			memmove(&b->waiters[n], &b->waiters[n + 1],
			        (b->waiters_n - n) * sizeof *b->waiters);
			return;
		}
}

static enum rc
cell_decides(struct bench *b, const struct op *op)
{
	enum rc rc;

	if (wire_op_class(op->code) == OP_CLASS_READ)
		return look(b->cell, b->session, op);
	rc = run(b->cell, b->session, op);
	if (op->code == OP_acquire && rc == RC_BUSY_LOCK && op->acquire.acquire.wait) {
		ARRAY_ROOM(b->waiters, b->waiters_n, b->waiters_room);
		b->waiters[b->waiters_n++] = (struct bench_waiter){b->session, op->acquire.acquire};
		b->cell->answer = (struct result){.kind = RESULT_acquired};
		return RC_QUEUED;
	}
	if (op->code == OP_cancel)
		forget_waiter(b, op->cancel.acquisition);
	return rc;
}

static struct pending
next_pending(struct bench *b)
{
	struct pending p;

	assert_true(b->pending_n > 0);
	p = b->pending[0];
	memmove(b->pending, b->pending + 1, --b->pending_n * sizeof p);
	return p;
}

static void
tell_answer(struct bench *b, struct pending *p, enum rc rc)
{
	struct client_answer a = {.token = p->token, .rc = rc,
	                          .index = tree_applied(b->cell->tree)};
	struct mount_event event = {.kind = MOUNT_ANSWER, .answer = &a};

	if (rc == RC_OK || rc == RC_QUEUED)
		a.result = b->cell->answer;
	if (rc == RC_OK && a.result.kind == RESULT_contents)
		b->fetched += a.result.contents.contents.len;
	step(b, &event);
	free((void *)p->packed.data);
	if (p->op.code == OP_release || p->op.code == OP_cancel)
		serve_waiters(b);
}

void
bench_answer(struct bench *b)
{
	struct pending p = next_pending(b);

	tell_answer(b, &p, cell_decides(b, &p.op));
}

void
bench_answer_with(struct bench *b, enum rc rc)
{
	struct pending p = next_pending(b);

	assert_int_not_equal(rc, RC_OK);
	tell_answer(b, &p, rc);
}

static struct attr *
result_attr(struct result *r)
{
	switch (r->kind) {
	case RESULT_attr:
		return &r->attr.attr;
	case RESULT_created:
		return &r->created.attr;
	case RESULT_contents:
		return &r->contents.attr;
	case RESULT_listing:
		return &r->listing.attr;
	case RESULT_renamed:
		return &r->renamed.attr;
	default:
		return NULL;
	}
}

void
bench_answer_nonsense(struct bench *b, uint64_t node, uint8_t kind, uint64_t size)
{
	struct pending p = next_pending(b);
	enum rc rc = cell_decides(b, &p.op);
	struct attr *attr = rc == RC_OK ? result_attr(&b->cell->answer) : NULL;

	if (attr) {
		attr->node = node;
		attr->kind = kind;
		attr->size = size;
	}
	tell_answer(b, &p, rc);
}

void
bench_answer_all(struct bench *b)
{
	while (b->pending_n)
		bench_answer(b);
}

/* ---- events ---- */

static pid_t
process_of(pid_t thread)
{
	return thread - thread % THREADS;
}

static uint64_t
lock_owner_of(pid_t thread)
{
	return (uint64_t)process_of(thread) + 1;
}

/* As the driver does. */
static void
learn_caller(struct bench *b, struct mount_event *event)
{
	event->thread = event->pid ? event->pid : SHELL;
	event->pid = 0;
	if (mount_wants(b->mount, event) & WANTS_PROCESS)
		event->pid = process_of(event->thread);
}

unsigned
bench_flush_wants(struct bench *b, struct file f, pid_t pid)
{
	struct mount_event event = {.kind = MOUNT_FLUSH, .ino = f.ino, .fh = f.fh, .pid = pid,
	                            .lock_owner = lock_owner_of(pid)};

	learn_caller(b, &event);
	return mount_wants(b->mount, &event);
}

uint64_t
bench_start(struct bench *b, struct mount_event event)
{
	event.call = ++b->calls;
	learn_caller(b, &event);
	if (event.uid == 0)
		event.uid = 1000;
	while (b->calls >= b->replies_room) {
		b->replies_room = b->replies_room ? 2 * b->replies_room : 64;
		b->replies = memory_grow(b->replies, b->replies_room, sizeof *b->replies);
	}
	b->replies[b->calls].kind = (enum mount_reply_kind)-1;
	step(b, &event);
	if (!b->hold)
		bench_answer_all(b);
	return event.call;
}

bool
bench_answered(struct bench *b, uint64_t call)
{
	return (int)b->replies[call].kind != -1;
}

struct mount_reply *
bench_reply(struct bench *b, uint64_t call)
{
	assert_true(bench_answered(b, call));
	return &b->replies[call];
}

struct mount_reply *
bench_call(struct bench *b, struct mount_event event)
{
	return bench_reply(b, bench_start(b, event));
}

int
bench_error(struct bench *b, struct mount_event event)
{
	return bench_call(b, event)->error;
}

static void
signal_call(struct bench *b, uint64_t call, enum mount_fate fate)
{
	struct mount_event event = {.kind = MOUNT_INTERRUPT, .call = call};

	if (mount_wants(b->mount, &event) & WANTS_FATE)
		event.fate = fate;
	step(b, &event);
	if (!b->hold)
		bench_answer_all(b);
}

void
bench_interrupt(struct bench *b, uint64_t call)
{
	signal_call(b, call, FATE_ALIVE);
}

void
bench_kill(struct bench *b, uint64_t call)
{
	signal_call(b, call, FATE_KILLED);
}

void
bench_wait(struct bench *b, int64_t ms)
{
	b->now = mono_add(b->now, span_ms(ms));
	step(b, &(struct mount_event){.kind = MOUNT_TIMEOUT});
	if (!b->hold)
		bench_answer_all(b);
}

void
bench_state(struct bench *b, enum client_state state)
{
	b->client.status.state = state;
	step(b, &(struct mount_event){.kind = MOUNT_SESSION});
}

void
bench_new_session(struct bench *b)
{
	bench_state(b, CLIENT_EXPIRED);
	assert_int_equal(end_session(b->cell, b->session, SESSION_EXPIRED), RC_OK);
	b->session = new_session(b->cell, "mount again");
	b->client.status.session = b->session;
	bench_state(b, CLIENT_SAFE);
}

/* ---- system calls ---- */

uint64_t
k_lookup(struct bench *b, const char *name)
{
	struct mount_reply *r = bench_call(
	    b,
	    (struct mount_event){.kind = MOUNT_LOOKUP, .ino = NODE_ROOT, .name = bytes_of(name)});

	assert_true(r->error == 0 || r->error == ENOENT);
	return r->error ? 0 : r->stat.ino;
}

struct file
k_open(struct bench *b, const char *name, int flags, pid_t pid)
{
	struct file f = {.ino = k_lookup(b, name), .opener = pid, .flags = flags};
	struct mount_event e = {.kind = MOUNT_OPEN, .ino = f.ino, .pid = pid, .flags = flags};
	struct mount_reply *r;

	if (f.ino == 0)
		e = (struct mount_event){.kind = MOUNT_CREATE, .ino = NODE_ROOT, .pid = pid,
		                         .name = bytes_of(name), .flags = flags, .mode = 0644};
	r = bench_call(b, e);
	assert_int_equal(r->error, 0);
	if (f.ino == 0)
		f.ino = r->stat.ino;
	f.fh = r->fh;
	return f;
}

int
k_open_error(struct bench *b, const char *name, int flags)
{
	uint64_t ino = k_lookup(b, name);

	return bench_error(b, (struct mount_event){.kind = MOUNT_OPEN, .ino = ino, .flags = flags});
}

int
k_write_at(struct bench *b, struct file f, pid_t pid, int64_t offset, const char *text)
{
	struct mount_reply *r = bench_call(
	    b, (struct mount_event){.kind = MOUNT_WRITE, .ino = f.ino, .fh = f.fh, .pid = pid,
	                            .lock_owner = lock_owner_of(pid), .offset = offset,
	                            .flags = f.flags, .data = bytes_of(text)});

	if (r->error == 0)
		assert_int_equal(r->count, strlen(text));
	return r->error;
}

int
k_write(struct bench *b, struct file f, pid_t pid, const char *text)
{
	return k_write_at(b, f, pid, 0, text);
}

void
k_read(struct bench *b, struct file f, int64_t offset, const char *expected)
{
	struct mount_reply *r = bench_call(
	    b, (struct mount_event){.kind = MOUNT_READ, .ino = f.ino, .fh = f.fh, .offset = offset,
	                            .size = 131072});

	assert_int_equal(r->error, 0);
	assert_int_equal(b->data.len, strlen(expected));
	assert_memory_equal(b->data.data, expected, b->data.len);
}

int
k_flush(struct bench *b, struct file f, pid_t pid, int descriptors)
{
	return bench_error(b, (struct mount_event){.kind = MOUNT_FLUSH, .ino = f.ino, .fh = f.fh,
	                                           .pid = pid, .lock_owner = lock_owner_of(pid),
	                                           .fate = FATE_ALIVE, .descriptors = descriptors});
}

int
k_flush_killed(struct bench *b, struct file f, pid_t pid)
{
	return bench_error(b, (struct mount_event){.kind = MOUNT_FLUSH, .ino = f.ino, .fh = f.fh,
	                                           .pid = pid, .lock_owner = lock_owner_of(pid),
	                                           .fate = FATE_KILLED});
}

int
k_ftruncate(struct bench *b, struct file f, uint64_t size)
{
	return bench_error(b, (struct mount_event){.kind = MOUNT_SETATTR, .ino = f.ino, .fh = f.fh,
	                                           .set = SET_SIZE, .set_size = size});
}

void
k_release(struct bench *b, struct file f)
{
	assert_int_equal(bench_error(b, (struct mount_event){.kind = MOUNT_RELEASE, .ino = f.ino,
	                                                     .fh = f.fh}), 0);
}

void
k_close(struct bench *b, struct file f, pid_t pid)
{
	assert_int_equal(k_flush(b, f, pid, 0), 0);
	k_release(b, f);
}

uint64_t
k_flock_start(struct bench *b, struct file f, enum lock_mode mode)
{
	return bench_start(b, (struct mount_event){.kind = MOUNT_FLOCK, .ino = f.ino, .fh = f.fh,
	                                           .lock_mode = mode, .wait = true, .whole = true});
}

int
k_flock(struct bench *b, struct file f, enum lock_mode mode, bool wait)
{
	return bench_error(b, (struct mount_event){.kind = MOUNT_FLOCK, .ino = f.ino, .fh = f.fh,
	                                           .lock_mode = mode, .wait = wait, .whole = true});
}

int
k_setlk(struct bench *b, struct file f, pid_t pid, enum lock_mode mode)
{
	return bench_error(b, (struct mount_event){.kind = MOUNT_SETLK, .ino = f.ino, .fh = f.fh,
	                                           .pid = pid, .lock_owner = lock_owner_of(pid),
	                                           .lock_mode = mode, .whole = true});
}

struct mount_stat
k_stat(struct bench *b, uint64_t ino, pid_t pid)
{
	struct mount_reply *r =
	    bench_call(b, (struct mount_event){.kind = MOUNT_GETATTR, .ino = ino, .pid = pid});

	assert_int_equal(r->error, 0);
	assert_int_equal(r->kind, MOUNT_ATTR);
	return r->stat;
}

int
k_unlink(struct bench *b, const char *name)
{
	return bench_error(b, (struct mount_event){.kind = MOUNT_UNLINK, .ino = NODE_ROOT,
	                                           .name = bytes_of(name)});
}

int
k_rename(struct bench *b, const char *name, const char *new_name)
{
	return bench_error(b, (struct mount_event){.kind = MOUNT_RENAME, .ino = NODE_ROOT,
	                                           .name = bytes_of(name), .new_ino = NODE_ROOT,
	                                           .new_name = bytes_of(new_name)});
}

int
k_setxattr(struct bench *b, uint64_t ino, const char *name, const char *value)
{
	return bench_error(b, (struct mount_event){.kind = MOUNT_SETXATTR,
	                                           .ino = ino,
	                                           .name = bytes_of(name),
	                                           .data = bytes_of(value)});
}

int
k_getxattr(struct bench *b, uint64_t ino, const char *name, const char *expected)
{
	struct mount_reply *r = bench_call(
	    b, (struct mount_event){.kind = MOUNT_GETXATTR, .ino = ino, .name = bytes_of(name)});

	if (r->error == 0 && expected) {
		assert_int_equal(b->data.len, strlen(expected));
		assert_memory_equal(b->data.data, expected, b->data.len);
	}
	return r->error;
}

/* ---- others ---- */

void
other_writes(struct bench *b, const char *name, const char *contents)
{
	uint64_t node = lookup(b->cell, NODE_ROOT, name);

	if (node == 0)
		node = new_file(b->cell, NODE_ROOT, name);
	assert_int_equal(write_file(b->cell, node, contents), RC_OK);
}

/* Whoever waits for its lock is told that it will never come. */
void
other_deletes(struct bench *b, const char *name)
{
	uint64_t node = lookup(b->cell, NODE_ROOT, name);
	struct client_grant g = {.node = node, .rc = RC_STALE};
	struct mount_event event = {.kind = MOUNT_GRANT, .grant = &g};

	assert_int_equal(delete_name(b->cell, NODE_ROOT, name, NODE_FILE), RC_OK);
	for (size_t n = 0; n < b->waiters_n; n++) {
		if (b->waiters[n].acquire.node != node)
			continue;
		g.owner = b->waiters[n].acquire.owner;
		g.acquisition = b->waiters[n].acquire.acquisition;
		step(b, &event);
	}
}

void
other_locks(struct bench *b, uint64_t node, enum lock_mode mode)
{
	assert_int_equal(acquire(b->cell, b->other, OTHER_OWNER, 1, node, mode), RC_OK);
}

void
other_unlocks(struct bench *b, uint64_t node)
{
	assert_int_equal(release(b->cell, b->other, OTHER_OWNER, 1, node), RC_OK);
	serve_waiters(b);
	if (!b->hold)
		bench_answer_all(b);
}

void
assert_file(struct bench *b, const char *name, const char *contents)
{
	assert_contents(b->cell, lookup(b->cell, NODE_ROOT, name), contents);
}

void
assert_lock(struct bench *b, uint64_t node, enum lock_state state)
{
	assert_int_equal(lock_of_node(b->cell, node).state, state);
}
