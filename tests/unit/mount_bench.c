#include <inttypes.h>
#include <stdio.h>

#include "tests/unit/mount_bench.h"
#include "cell/base/memory.h"

struct client_status
client_status(const struct client *c)
{
	return c->status;
}

span_t
client_leave(const struct client *c, uint64_t node, uint64_t index, mono_t now)
{
	assert_true(node != 0 && index != 0);
	return mono_before(now, c->leave_end) ? mono_since(c->leave_end, now) : (span_t){0};
}

struct client_counts
client_counts(const struct client *c)
{
	return c->counts;
}

/* ---- life ---- */

struct bench *
bench_new(const struct mount_config *config)
{
	struct bench *b = memory_zero(1, sizeof *b);

	b->cell = fixture_new();
	b->session = new_session(b->cell, "mount");
	b->other = new_session(b->cell, "other");
	b->client.status = (struct client_status){.state = CLIENT_SAFE,
	                                          .session = b->session,
	                                          .epoch = 1,
	                                          .master = 1,
	                                          .principal = "ann"};
	b->now = (mono_t){SECOND_NS};
	b->client.status.lease_end = mono_add(b->now, span_s(12));
	b->mount = mount_new(config, &b->client);
	bench_state(b, CLIENT_SAFE);
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
	fixture_free(b->cell);
	free(b);
}

/* ---- replies ---- */

static void
take_reply(struct bench *b, const struct mount_reply *r)
{
	struct mount_reply *kept = &b->replies[r->call];

	assert_true(r->call > 0 && r->call <= b->calls);
	assert_int_equal((int)kept->kind, -1); /* answered once */
	*kept = *r;
}

static void
take_request(struct bench *b, const struct client_call *r)
{
	struct buffer packed = BUFFER(LIMIT_ENTRY);
	struct pending *p;

	if (r->given_up)
		return;
	wire_put_op(&packed, &r->op);
	ARRAY_ROOM(b->pending, b->pending_n, b->pending_room);
	p = &b->pending[b->pending_n++];
	*p = (struct pending){
	    .token = r->token,
	    .ordered = r->ordered,
	    .opened = r->opened,
	    .guard = r->guard,
	    .too_large = packed.failed,
	};
	p->op.code = r->op.code;
	if (packed.failed)
		buffer_reset(&packed);
	p->packed = buffer_take(&packed);
	if (!p->too_large)
		assert_int_equal(wire_get_op(p->packed, &p->op), RC_OK);
}

static void step(struct bench *b, struct mount_event *event);

/* The replies of the step are written, perhaps late. */
static void
bench_written(struct bench *b)
{
	b->now = mono_add(b->now, b->late);
	step(b, &(struct mount_event){.kind = MOUNT_WRITTEN});
}

static void
step(struct bench *b, struct mount_event *event)
{
	event->now = b->now;
	mount_step(b->mount, event, &b->update);
	for (size_t n = 0; n < b->update.replies_n; n++)
		take_reply(b, &b->update.replies[n]);
	if (b->stepped)
		b->stepped(b->user, &b->update);
	for (size_t n = 0; n < b->update.requests_n; n++)
		take_request(b, &b->update.requests[n]);
	if (b->update.kept)
		bench_written(b);
}

/* ---- the cell ---- */

/* As a master does after a lock was freed: the first acquire of the queue gets it, if it can. One
 * without the right is told so. */
static void
serve_waiters(struct bench *b)
{
	struct bench_waiter w;
	struct client_grant g;
	struct mount_event event = {.kind = MOUNT_GRANT, .grant = &g};
	enum rc rc;

	for (size_t n = 0; n < b->waiters_n; n++) {
		w = b->waiters[n];
		rc = run(b->cell, 0, OP(grant, .session = w.session, .acquire = w.acquire));
		if (rc != RC_OK && rc != RC_ACCES)
			continue;
		g = (struct client_grant){.node = w.acquire.node,
		                          .owner = w.acquire.owner,
		                          .acquisition = w.acquire.acquisition,
		                          .rc = rc};
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

/* As a master does, but that here nobody signs: a sequencer is the text that the tree gives. */
static enum rc
check_sequencer(struct bench *b, struct bytes sequencer)
{
	struct guard g = {0};
	char mode[10] = "", *text = bytes_to_text(sequencer);
	const char *why = NULL;

	if (sscanf(text, "%*[^:]:%" SCNu64 ":%9[^:]:%" SCNu64 ":%" SCNu64, &g.lock_generation, mode,
	           &g.node, &g.fence) == 4) {
		g.mode = strcmp(mode, "shared") ? LOCK_EXCLUSIVE : LOCK_SHARED;
		why = tree_guard_stale(b->cell->tree, &g);
	}
	free(text);
	b->cell->answer = (struct result){.kind = RESULT_checked,
	                                  .checked = {.guard = g, .why = bytes_of(why ? why : "")}};
	return RC_OK;
}

/* As a master does: what is held is kept while its conversion waits, but of two that wait for each
 * other's share the second one loses its own. */
static enum lock_mode
kept_while_waiting(struct bench *b, const struct acquire *a)
{
	enum lock_mode held;
	uint64_t acquisition;

	tree_lock_probe(b->cell->tree, b->session, a, &held);
	for (size_t n = 0; n < b->waiters_n && held != LOCK_NONE; n++) {
		if (b->waiters[n].kept == LOCK_NONE || b->waiters[n].acquire.node != a->node)
			continue;
		tree_lock_holders(b->cell->tree, b->session, a->owner, a->node, &acquisition);
		assert_int_equal(run(b->cell, b->session,
		                     OP(release, .node = a->node, .owner = a->owner,
		                        .acquisition = acquisition)),
		                 RC_OK);
		held = LOCK_NONE;
	}
	return held;
}

static enum rc
cell_decides(struct bench *b, const struct op *op)
{
	enum rc rc;

	if (op->code == OP_check_sequencer)
		return check_sequencer(b, op->check_sequencer.sequencer);
	if (wire_op(op->code)->class == OP_CLASS_READ)
		return look(b->cell, b->session, op);
	rc = run(b->cell, b->session, op);
	if (op->code == OP_acquire && rc == RC_BUSY_LOCK && op->acquire.acquire.wait) {
		const enum lock_mode kept = kept_while_waiting(b, &op->acquire.acquire);

		ARRAY_ROOM(b->waiters, b->waiters_n, b->waiters_room);
		b->waiters[b->waiters_n++] =
		    (struct bench_waiter){b->session, op->acquire.acquire, kept};
		b->cell->answer =
		    (struct result){.kind = RESULT_acquired, .acquired = {.kept = kept}};
		return RC_QUEUED;
	}
	if (op->code == OP_cancel)
		forget_waiter(b, op->cancel.acquisition);
	return rc;
}

/* The cell knows the rights again that its answers have shown. */
static enum rc
cell_answers(struct bench *b, const struct pending *p)
{
	enum rc rc;

	if (p->guard.node != 0 && tree_guard_stale(b->cell->tree, &p->guard) != NULL) {
		b->cell->answer = (struct result){0};
		return RC_GUARD;
	}
	if (p->lost_at != 0) {
		b->cell->answer = p->lost;
		return RC_OK;
	}
	b->cell->handle_rights = p->opened.rights;
	rc = cell_decides(b, &p->op);
	b->cell->handle_rights = 0;
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
	const uint64_t now = tree_applied(b->cell->tree);
	struct client_answer a = {.token = p->token,
	                          .rc = rc,
	                          .index = p->lost_at != 0 ? p->lost_at : now};
	struct mount_event event = {.kind = MOUNT_ANSWER, .answer = &a};
	const struct attr *attr = rc == RC_OK ? wire_result_attr(&b->cell->answer) : NULL;

	if (wire_answer_kind(p->op.code, rc) == b->cell->answer.kind)
		a.result = b->cell->answer;
	if (attr)
		a.opens = (struct client_rights){.node = attr->node,
		                                 .rights = wire_result_rights(&b->cell->answer),
		                                 .check = {b->digits}};
	if (b->heard)
		b->heard(b->user, &p->op, rc);
	step(b, &event);
	free((void *)p->packed.data);
	if (p->op.code == OP_release || p->op.code == OP_cancel)
		serve_waiters(b);
}

void
bench_answer(struct bench *b)
{
	struct pending p = next_pending(b);

	tell_answer(b, &p, p.too_large ? RC_INVAL : cell_answers(b, &p));
}

void
bench_answer_with(struct bench *b, enum rc rc)
{
	struct pending p = next_pending(b);

	assert_int_not_equal(rc, RC_OK);
	b->cell->answer = (struct result){.kind = RESULT_none};
	if (rc == RC_ACCES)
		b->cell->answer =
		    (struct result){.kind = RESULT_refused,
		                    .refused = {wire_op_node(&p.op), RIGHT_READ, bytes_of("none")}};
	tell_answer(b, &p, rc);
}

void
bench_lose_answer(struct bench *b)
{
	struct pending *p = &b->pending[0];

	assert_true(b->pending_n > 0);
	assert_true(p->op.code == OP_create || p->op.code == OP_rename); /* without views */
	assert_int_equal(cell_answers(b, p), RC_OK);
	p->lost = b->cell->answer;
	p->lost_at = tree_applied(b->cell->tree);
}

static struct attr *
result_attr(struct result *r)
{
	return r->kind == RESULT_listing ? &r->listing.attr : (struct attr *)wire_result_attr(r);
}

void
bench_answer_nonsense(struct bench *b, uint64_t node, uint8_t kind, uint64_t size)
{
	struct pending p = next_pending(b);
	enum rc rc = p.too_large ? RC_INVAL : cell_answers(b, &p);
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

void
bench_answer_newest(struct bench *b)
{
	struct pending newest;

	assert_true(b->pending_n > 0);
	newest = b->pending[--b->pending_n];
	tell_answer(b, &newest, newest.too_large ? RC_INVAL : cell_answers(b, &newest));
}

/* ---- events ---- */

static pid_t
process_of(pid_t thread)
{
	return thread - thread % THREADS;
}

uint64_t
bench_lock_owner(pid_t thread)
{
	return (uint64_t)process_of(thread) + 1;
}

/* Facts about the caller are looked up as the FUSE driver does: only those that the mount wants. */
static void
learn_caller(struct bench *b, struct mount_event *event)
{
	event->thread = event->pid ? event->pid : SHELL;
	event->pid = 0;
	if (mount_wants(b->mount, event) & WANTS_PROCESS)
		event->pid = process_of(event->thread);
}

unsigned
bench_wants(struct bench *b, struct mount_event event)
{
	event.thread = event.pid ? event.pid : SHELL;
	event.pid = 0;
	return mount_wants(b->mount, &event);
}

void
bench_forget(struct bench *b, uint64_t ino, uint64_t count)
{
	step(b, &(struct mount_event){.kind = MOUNT_FORGET, .ino = ino, .count = count});
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
	b->replies[b->calls].kind = (enum mount_reply_kind) - 1;
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
bench_freeze(struct bench *b, uint64_t call)
{
	signal_call(b, call, FATE_UNDISTURBED);
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
bench_dropped(struct bench *b, uint64_t node)
{
	step(b, &(struct mount_event){.kind = MOUNT_DROPPED,
	                              .nodes = &node,
	                              .nodes_n = node != 0,
	                              .everything = node == 0});
}

void
bench_watched(struct bench *b, const struct client_watched *w, int64_t wall_ns)
{
	step(b, &(struct mount_event){.kind = MOUNT_WATCHED, .watched = w, .wall_ns = wall_ns});
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

/* ---- the other machine ---- */

void
bench_other_deletes(struct bench *b, const char *name)
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
bench_granted(struct bench *b, const struct client_grant *g)
{
	step(b, &(struct mount_event){.kind = MOUNT_GRANT, .grant = g});
	if (!b->hold)
		bench_answer_all(b);
}

void
bench_other_unlocks(struct bench *b, uint64_t node)
{
	assert_int_equal(release(b->cell, b->other, BENCH_OTHER_OWNER, 1, node), RC_OK);
	serve_waiters(b);
	if (!b->hold)
		bench_answer_all(b);
}
