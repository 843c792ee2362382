/* Locks: modes, conversions, cancel, generations and fences, lock-delay. */
#include "tests/unit/tree_fixture.h"

enum { A = READER }; /* the session that the fixture has made */

struct place {
	struct fixture *f;
	uint64_t b, file;
};

static struct place
place_of(void **state)
{
	struct place p = {.f = *state};

	p.b = new_session(p.f, "b");
	p.file = new_file(p.f, NODE_ROOT, "lock");
	return p;
}

static void
test_exclusive_and_shared(void **state)
{
	struct place p = place_of(state);

	assert_int_equal(acquire(p.f, A, 1, 1, p.file, LOCK_SHARED), RC_OK);
	assert_int_equal(acquire(p.f, A, 2, 2, p.file, LOCK_SHARED), RC_OK);
	assert_int_equal(acquire(p.f, p.b, 1, 1, p.file, LOCK_SHARED), RC_OK);
	assert_int_equal(lock_of_node(p.f, p.file).state, LOCK_STATE_SHARED);
	assert_int_equal(acquire(p.f, p.b, 2, 2, p.file, LOCK_EXCLUSIVE), RC_BUSY_LOCK);
	assert_int_equal(release(p.f, A, 1, 1, p.file), RC_OK);
	assert_int_equal(release(p.f, A, 2, 2, p.file), RC_OK);
	assert_int_equal(acquire(p.f, p.b, 2, 2, p.file, LOCK_EXCLUSIVE), RC_BUSY_LOCK);
	assert_int_equal(release(p.f, p.b, 1, 1, p.file), RC_OK);
	assert_int_equal(noted(p.f, TREE_LOCK_CHANGED)->node, p.file);
	assert_int_equal(acquire(p.f, p.b, 2, 2, p.file, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(acquire(p.f, A, 1, 3, p.file, LOCK_SHARED), RC_BUSY_LOCK);
	assert_int_equal(acquire(p.f, p.b, 3, 3, p.file, LOCK_EXCLUSIVE), RC_BUSY_LOCK);
	assert_int_equal(lock_of_node(p.f, p.file).state, LOCK_STATE_EXCLUSIVE);
}

static void
test_acquire_refusals(void **state)
{
	struct place p = place_of(state);
	struct acquire a = {.node = p.file, .owner = 1, .acquisition = 1, .mode = LOCK_SHARED};

	assert_int_equal(acquire(p.f, 0, 1, 1, p.file, LOCK_SHARED), RC_NO_SESSION);
	assert_int_equal(acquire(p.f, A, 1, 1, 999, LOCK_SHARED), RC_STALE);
	assert_int_equal(acquire(p.f, A, 1, 1, p.file, LOCK_NONE), RC_INVAL);
	assert_int_equal(acquire(p.f, A, 1, 1, p.file, 3), RC_INVAL);
	a.delay_s = LIMIT_LOCK_DELAY_S + 1;
	assert_int_equal(run(p.f, A, OP(acquire, .acquire = a)), RC_RANGE);
	a.delay_s = -2;
	assert_int_equal(run(p.f, A, OP(acquire, .acquire = a)), RC_RANGE);
	a.delay_s = 0;
	a.default_delay_s = -1;
	assert_int_equal(run(p.f, A, OP(acquire, .acquire = a)), RC_RANGE);
	assert_int_equal(lock_of_node(p.f, p.file).state, LOCK_STATE_FREE);
	assert_int_equal(acquire(p.f, A, 1, 1, NODE_ROOT, LOCK_EXCLUSIVE), RC_OK);
}

static void
test_holders_are_told_in_order(void **state)
{
	struct place p = place_of(state);
	struct result_lock lock;
	struct lock_holder h;
	struct cursor from;

	assert_int_equal(acquire(p.f, p.b, 9, 1, p.file, LOCK_SHARED), RC_OK);
	assert_int_equal(acquire(p.f, A, 5, 1, p.file, LOCK_SHARED), RC_OK);
	assert_int_equal(acquire(p.f, A, 3, 2, p.file, LOCK_SHARED), RC_OK);
	lock = lock_of_node(p.f, p.file);
	assert_int_equal(lock.now_ns, 77);
	assert_int_equal(lock.holders.count, 3);
	from = cursor_of(lock.holders.packed);
	assert_true(wire_next_lock_holder(&from, &h));
	assert_int_equal(h.session, p.b);
	assert_int_equal(h.owner, 9);
	assert_int_equal(h.pid, 42);
	assert_true(bytes_equal(h.host, bytes_of("here")));
	assert_true(bytes_equal(h.principal, bytes_of("admin")));
	assert_true(h.since_ns > 0 && h.fence > 0);
	assert_true(wire_next_lock_holder(&from, &h));
	assert_int_equal(h.owner, 5);
	assert_true(wire_next_lock_holder(&from, &h));
	assert_int_equal(h.owner, 3);
}

static void
test_generation_and_fence(void **state)
{
	struct place p = place_of(state);
	struct result_acquired first, joined, again;

	assert_int_equal(acquire(p.f, A, 1, 1, p.file, LOCK_SHARED), RC_OK);
	first = p.f->answer.acquired;
	assert_int_equal(first.lock_generation, 1);
	assert_int_equal(first.fence, tree_applied(p.f->tree));
	assert_int_equal(acquire(p.f, p.b, 1, 1, p.file, LOCK_SHARED), RC_OK);
	joined = p.f->answer.acquired;
	assert_int_equal(joined.lock_generation, 1);
	assert_true(joined.fence > first.fence);
	assert_true(tree_lock_held_by(p.f->tree, A, 1, 1, p.file, &again));
	assert_int_equal(again.fence, first.fence);
	release(p.f, A, 1, 1, p.file);
	release(p.f, p.b, 1, 1, p.file);
	assert_int_equal(acquire(p.f, A, 1, 2, p.file, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(p.f->answer.acquired.lock_generation, 2);
	assert_true(p.f->answer.acquired.fence > joined.fence);
}

static struct op
acquire_op(uint64_t node, uint64_t acquisition)
{
	return (struct op){.code = OP_acquire,
	                   .acquire.acquire = {.node = node,
	                                       .owner = 1,
	                                       .mode = LOCK_EXCLUSIVE,
	                                       .acquisition = acquisition}};
}

/* Two holders one after the other in one entry: the second fence must be greater all the same. */
static void
test_fences_grow_within_an_entry(void **state)
{
	struct place p = place_of(state);
	struct command of_a = {.session = A}, of_b = {.session = p.b};
	struct op take = acquire_op(p.file, 1);
	struct result_acquired second;

	entry_add(p.f, &of_a, &take);
	entry_add(p.f, &of_a, OP(release, .node = p.file, .owner = 1, .acquisition = 1));
	entry_add(p.f, &of_b, &take);
	assert_int_equal(entry_apply(p.f), RC_OK);
	assert_true(tree_lock_held_by(p.f->tree, p.b, 1, 1, p.file, &second));
	assert_int_equal(wire_get_result(RESULT_acquired, p.f->out.answers[0].result, &p.f->answer),
	                 RC_OK);
	assert_true(second.fence > p.f->answer.acquired.fence);
	assert_int_equal(release(p.f, p.b, 1, 1, p.file), RC_OK);
	assert_int_equal(acquire(p.f, A, 1, 2, p.file, LOCK_SHARED), RC_OK);
	assert_true(p.f->answer.acquired.fence > second.fence);
}

static void
test_the_same_acquisition_again(void **state)
{
	struct place p = place_of(state);
	struct result_acquired first, again;

	assert_int_equal(acquire(p.f, A, 1, 7, p.file, LOCK_EXCLUSIVE), RC_OK);
	first = p.f->answer.acquired;
	assert_int_equal(acquire(p.f, A, 1, 7, p.file, LOCK_EXCLUSIVE), RC_OK);
	again = p.f->answer.acquired;
	assert_int_equal(again.fence, first.fence);
	assert_int_equal(again.lock_generation, first.lock_generation);
	assert_false(tree_lock_held_by(p.f->tree, A, 1, 6, p.file, &again));
	assert_false(tree_lock_held_by(p.f->tree, A, 2, 7, p.file, &again));
	assert_true(tree_lock_held_by(p.f->tree, A, 1, 7, p.file, &again));
	assert_int_equal(again.fence, first.fence);
}

static void
test_release_is_idempotent_and_exact(void **state)
{
	struct place p = place_of(state);

	assert_int_equal(acquire(p.f, A, 1, 7, p.file, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(release(p.f, A, 1, 6, p.file), RC_OK);
	assert_int_equal(release(p.f, A, 2, 7, p.file), RC_OK);
	assert_int_equal(release(p.f, p.b, 1, 7, p.file), RC_OK);
	assert_int_equal(p.f->out.notes_n, 0);
	assert_int_equal(lock_of_node(p.f, p.file).state, LOCK_STATE_EXCLUSIVE);
	assert_int_equal(release(p.f, A, 1, 7, p.file), RC_OK);
	assert_int_equal(lock_of_node(p.f, p.file).state, LOCK_STATE_FREE);
	assert_int_equal(release(p.f, A, 1, 7, p.file), RC_OK);
	assert_int_equal(p.f->out.notes_n, 0);
	assert_int_equal(release(p.f, A, 1, 7, 999), RC_OK);
}

static void
test_conversions(void **state)
{
	struct place p = place_of(state);
	uint64_t fence;

	assert_int_equal(acquire(p.f, A, 1, 1, p.file, LOCK_SHARED), RC_OK);
	fence = p.f->answer.acquired.fence;
	assert_int_equal(acquire(p.f, A, 1, 2, p.file, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(p.f->answer.acquired.lock_generation, 2);
	assert_true(p.f->answer.acquired.fence > fence);
	fence = p.f->answer.acquired.fence;
	assert_int_equal(release(p.f, A, 1, 1, p.file), RC_OK); /* of the earlier acquisition */
	assert_int_equal(lock_of_node(p.f, p.file).state, LOCK_STATE_EXCLUSIVE);
	assert_int_equal(acquire(p.f, A, 1, 3, p.file, LOCK_EXCLUSIVE), RC_OK); /* as it is */
	assert_int_equal(p.f->answer.acquired.fence, fence);
	assert_int_equal(acquire(p.f, A, 1, 4, p.file, LOCK_SHARED), RC_OK);
	assert_int_equal(noted(p.f, TREE_LOCK_CHANGED)->node, p.file);
	assert_int_equal(p.f->answer.acquired.lock_generation, 2);
	assert_int_equal(p.f->answer.acquired.fence, fence);
	assert_int_equal(acquire(p.f, p.b, 1, 1, p.file, LOCK_SHARED), RC_OK);
}

static void
test_a_failed_conversion_keeps_what_was_held(void **state)
{
	struct place p = place_of(state);
	struct result_acquired g;

	assert_int_equal(acquire(p.f, A, 1, 1, p.file, LOCK_SHARED), RC_OK);
	assert_int_equal(acquire(p.f, p.b, 1, 1, p.file, LOCK_SHARED), RC_OK);
	assert_int_equal(acquire(p.f, A, 1, 2, p.file, LOCK_EXCLUSIVE), RC_BUSY_LOCK);
	assert_true(tree_lock_held_by(p.f->tree, A, 1, 1, p.file, &g));
	assert_int_equal(lock_of_node(p.f, p.file).holders.count, 2);
}

/* Over two conversions an exclusive lock goes from one owner to the other without ever being free:
 * what the first one signed with it is not what the second one has. */
static void
test_two_exclusive_holders_never_share_a_generation(void **state)
{
	struct place p = place_of(state);
	struct buffer first = BUFFER(LIMIT_SEQUENCER);
	struct result_acquired before;

	assert_int_equal(acquire(p.f, p.b, 1, 1, p.file, LOCK_EXCLUSIVE), RC_OK);
	before = p.f->answer.acquired;
	assert_int_equal(look(p.f, p.b, OP(get_sequencer, .node = p.file)), RC_OK);
	buffer_put_bytes(&first, p.f->answer.sequencer.sequencer);
	assert_int_equal(acquire(p.f, p.b, 1, 2, p.file, LOCK_SHARED), RC_OK);
	assert_int_equal(acquire(p.f, A, 1, 1, p.file, LOCK_SHARED), RC_OK);
	assert_int_equal(release(p.f, p.b, 1, 2, p.file), RC_OK);
	assert_int_equal(acquire(p.f, A, 1, 2, p.file, LOCK_EXCLUSIVE), RC_OK);
	assert_true(p.f->answer.acquired.lock_generation > before.lock_generation);
	assert_true(p.f->answer.acquired.fence > before.fence);
	assert_int_equal(look(p.f, A, OP(get_sequencer, .node = p.file)), RC_OK);
	assert_false(bytes_equal(p.f->answer.sequencer.sequencer, buffer_view(&first)));
	buffer_free(&first);
}

static void
test_a_session_is_shown_its_newest_fence(void **state)
{
	struct place p = place_of(state);
	struct result_acquired second;

	assert_int_equal(acquire(p.f, A, 9, 1, p.file, LOCK_SHARED), RC_OK);
	assert_int_equal(acquire(p.f, A, 3, 2, p.file, LOCK_SHARED), RC_OK);
	second = p.f->answer.acquired;
	assert_int_equal(acquire(p.f, p.b, 1, 1, p.file, LOCK_SHARED), RC_OK);
	assert_int_equal(look(p.f, A, OP(get_sequencer, .node = p.file)), RC_OK);
	assert_int_equal(p.f->answer.sequencer.fence, second.fence);
}

/* ---- cancel ---- */

static struct result_acquired
held(struct place p, uint64_t session, uint64_t acquisition)
{
	struct result_acquired g;

	assert_true(tree_lock_held_by(p.f->tree, session, 1, acquisition, p.file, &g));
	return g;
}

static void
test_a_cancelled_conversion_leaves_generation_and_fence(void **state)
{
	struct place p = place_of(state);
	struct result_acquired before, converted;

	assert_int_equal(acquire(p.f, A, 1, 1, p.file, LOCK_SHARED), RC_OK);
	before = p.f->answer.acquired;
	assert_int_equal(acquire(p.f, A, 1, 2, p.file, LOCK_EXCLUSIVE), RC_OK);
	converted = p.f->answer.acquired;
	assert_int_equal(cancel(p.f, A, 1, 2, p.file), RC_OK);
	assert_int_equal(held(p, A, 1).fence, before.fence);
	assert_int_equal(held(p, A, 1).lock_generation, before.lock_generation);
	assert_int_equal(acquire(p.f, p.b, 1, 1, p.file, LOCK_SHARED), RC_OK);
	assert_true(p.f->answer.acquired.fence > converted.fence);
	assert_int_equal(release(p.f, p.b, 1, 1, p.file), RC_OK);
	assert_int_equal(acquire(p.f, A, 1, 3, p.file, LOCK_EXCLUSIVE), RC_OK);
	assert_true(p.f->answer.acquired.lock_generation > converted.lock_generation);
}

static void
test_back_to_exclusive(void **state)
{
	struct place p = place_of(state);
	struct result_acquired before, joined;

	assert_int_equal(acquire(p.f, A, 1, 1, p.file, LOCK_EXCLUSIVE), RC_OK);
	before = p.f->answer.acquired;
	assert_int_equal(acquire(p.f, A, 1, 2, p.file, LOCK_SHARED), RC_OK);
	assert_int_equal(cancel(p.f, A, 1, 2, p.file), RC_OK);
	assert_int_equal(held(p, A, 1).fence, before.fence);
	assert_int_equal(held(p, A, 1).lock_generation, before.lock_generation);

	/* Somebody else has had it meanwhile, with a greater fence. */
	assert_int_equal(acquire(p.f, A, 1, 3, p.file, LOCK_SHARED), RC_OK);
	assert_int_equal(acquire(p.f, p.b, 1, 1, p.file, LOCK_SHARED), RC_OK);
	joined = p.f->answer.acquired;
	assert_int_equal(release(p.f, p.b, 1, 1, p.file), RC_OK);
	assert_int_equal(cancel(p.f, A, 1, 3, p.file), RC_OK);
	assert_int_equal(lock_of_node(p.f, p.file).state, LOCK_STATE_EXCLUSIVE);
	assert_true(held(p, A, 1).fence > joined.fence);
	assert_true(held(p, A, 1).lock_generation > joined.lock_generation);
}

static void
test_cancel(void **state)
{
	struct place p = place_of(state);
	struct result_acquired g;

	assert_int_equal(cancel(p.f, A, 1, 1, p.file), RC_OK); /* nothing to cancel */
	assert_int_equal(acquire(p.f, A, 1, 1, p.file, LOCK_SHARED), RC_OK);
	assert_int_equal(acquire(p.f, A, 1, 2, p.file, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(cancel(p.f, A, 1, 1, p.file), RC_OK); /* not what it holds it by */
	assert_int_equal(lock_of_node(p.f, p.file).state, LOCK_STATE_EXCLUSIVE);
	assert_int_equal(cancel(p.f, A, 1, 2, p.file), RC_OK);
	assert_int_equal(lock_of_node(p.f, p.file).state, LOCK_STATE_SHARED);
	assert_true(tree_lock_held_by(p.f->tree, A, 1, 1, p.file, &g));
	assert_int_equal(cancel(p.f, A, 1, 2, p.file), RC_OK); /* again: nothing */
	assert_true(tree_lock_held_by(p.f->tree, A, 1, 1, p.file, &g));
	assert_int_equal(cancel(p.f, A, 1, 1, p.file), RC_OK);
	assert_int_equal(lock_of_node(p.f, p.file).state, LOCK_STATE_FREE);
}

static void
test_cancel_takes_nobodys_lock_away(void **state)
{
	struct place p = place_of(state);
	struct result_acquired g;

	assert_int_equal(acquire(p.f, A, 1, 1, p.file, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(acquire(p.f, A, 1, 2, p.file, LOCK_SHARED), RC_OK);
	assert_int_equal(acquire(p.f, p.b, 1, 1, p.file, LOCK_SHARED), RC_OK);
	assert_int_equal(cancel(p.f, A, 1, 2, p.file), RC_OK);
	assert_int_equal(lock_of_node(p.f, p.file).state, LOCK_STATE_SHARED);
	assert_true(tree_lock_held_by(p.f->tree, A, 1, 1, p.file, &g));
	assert_true(tree_lock_held_by(p.f->tree, p.b, 1, 1, p.file, &g));
}

static enum rc
grant(struct fixture *f, uint64_t session, uint64_t owner, uint64_t acquisition, uint64_t node)
{
	return run(f, 0,
	           OP(grant, .session = session,
	              .acquire = {.node = node,
	                          .owner = owner,
	                          .acquisition = acquisition,
	                          .mode = LOCK_EXCLUSIVE,
	                          .wait = 1,
	                          .delay_s = -1}));
}

static void
test_grant(void **state)
{
	struct place p = place_of(state);
	const struct tree_note *n;
	uint64_t fence;

	assert_int_equal(acquire(p.f, A, 1, 1, p.file, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(grant(p.f, p.b, 4, 5, p.file), RC_BUSY_LOCK);
	assert_null(noted(p.f, TREE_GRANTED));
	assert_int_equal(release(p.f, A, 1, 1, p.file), RC_OK);
	assert_int_equal(grant(p.f, p.b, 4, 5, p.file), RC_OK);
	n = noted(p.f, TREE_GRANTED);
	assert_int_equal(n->node, p.file);
	assert_int_equal(n->session, p.b);
	assert_int_equal(n->owner, 4);
	assert_int_equal(n->acquisition, 5);
	assert_int_equal(n->lock_generation, 2);
	fence = n->fence;
	assert_int_equal(fence, tree_applied(p.f->tree));
	assert_int_equal(grant(p.f, p.b, 4, 5, p.file), RC_OK);
	assert_int_equal(p.f->answer.acquired.fence, fence);
	assert_null(noted(p.f, TREE_GRANTED));
	end_session(p.f, p.b, SESSION_CLOSED);
	assert_int_equal(grant(p.f, p.b, 4, 6, p.file), RC_NO_SESSION);
	assert_int_equal(lock_of_node(p.f, p.file).state, LOCK_STATE_FREE);
}

static void
test_probe(void **state)
{
	struct place p = place_of(state);
	struct acquire a = {.node = p.file, .owner = 1, .acquisition = 2, .mode = LOCK_EXCLUSIVE};
	enum lock_mode held;

	assert_int_equal(acquire(p.f, A, 1, 1, p.file, LOCK_SHARED), RC_OK);
	assert_int_equal(tree_lock_probe(p.f->tree, A, &a, &held), RC_OK);
	assert_int_equal(held, LOCK_SHARED);
	assert_int_equal(tree_lock_probe(p.f->tree, p.b, &a, &held), RC_BUSY_LOCK);
	assert_int_equal(held, LOCK_NONE);
	a.node = 999;
	assert_int_equal(tree_lock_probe(p.f->tree, A, &a, &held), RC_STALE);
}

static void
test_deleting_a_node_ends_its_lock(void **state)
{
	struct place p = place_of(state);
	struct result_acquired g;
	struct tree_note delay;

	assert_int_equal(acquire(p.f, A, 1, 1, p.file, LOCK_SHARED), RC_OK);
	assert_int_equal(acquire(p.f, p.b, 1, 1, p.file, LOCK_SHARED), RC_OK);
	end_session(p.f, p.b, SESSION_EXPIRED);
	assert_int_equal(delete_name(p.f, NODE_ROOT, "lock", NODE_FILE), RC_OK);
	assert_int_equal(noted(p.f, TREE_LOCK_GONE)->node, p.file);
	assert_false(tree_lock_held_by(p.f->tree, A, 1, 1, p.file, &g));
	assert_false(tree_delay_after(p.f->tree, 0, &delay));
	assert_int_equal(release(p.f, A, 1, 1, p.file), RC_OK);
	assert_int_equal(look(p.f, A, OP(get_lock, .node = p.file)), RC_STALE);
}

/* ---- lock-delay ---- */

static enum rc
delay_over(struct fixture *f, const struct tree_note *delay)
{
	return run(f, 0,
	           OP(delay_over, .node = delay->node, .began = delay->index,
	              .lock_generation = delay->lock_generation));
}

static void
test_delay_after_expiry(void **state)
{
	struct place p = place_of(state);
	struct tree_note delay, found, wrong;

	assert_int_equal(acquire(p.f, p.b, 1, 1, p.file, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(end_session(p.f, p.b, SESSION_EXPIRED), RC_OK);
	delay = *noted(p.f, TREE_DELAY_BEGAN);
	assert_int_equal(delay.node, p.file);
	assert_int_equal(delay.seconds, 15);
	assert_int_equal(delay.index, tree_applied(p.f->tree));
	assert_int_equal(delay.lock_generation, 1);
	assert_int_equal(lock_of_node(p.f, p.file).state, LOCK_STATE_DELAYED);
	assert_int_equal(lock_of_node(p.f, p.file).delay_left_s, 15);
	assert_int_equal(acquire(p.f, A, 1, 1, p.file, LOCK_SHARED), RC_BUSY_LOCK);
	assert_int_equal(acquire(p.f, A, 1, 1, p.file, LOCK_EXCLUSIVE), RC_BUSY_LOCK);

	assert_true(tree_delay_after(p.f->tree, 0, &found));
	assert_memory_equal(&found, &delay, sizeof found);
	assert_false(tree_delay_after(p.f->tree, p.file, &found));
	wrong = delay;
	wrong.index--;
	assert_int_equal(delay_over(p.f, &wrong), RC_OK);
	wrong = delay;
	wrong.lock_generation++;
	assert_int_equal(delay_over(p.f, &wrong), RC_OK);
	assert_int_equal(lock_of_node(p.f, p.file).state, LOCK_STATE_DELAYED);
	assert_int_equal(delay_over(p.f, &delay), RC_OK);
	assert_int_equal(noted(p.f, TREE_LOCK_CHANGED)->node, p.file);
	assert_int_equal(lock_of_node(p.f, p.file).state, LOCK_STATE_FREE);
	assert_int_equal(delay_over(p.f, &delay), RC_OK);
	assert_int_equal(p.f->out.notes_n, 0);
	assert_int_equal(acquire(p.f, A, 1, 1, p.file, LOCK_SHARED), RC_OK);
	assert_int_equal(p.f->answer.acquired.lock_generation, 2);
}

static void
test_no_delay_without_expiry(void **state)
{
	struct place p = place_of(state);
	uint64_t c = new_session(p.f, "c"), d = new_session(p.f, "d");

	assert_int_equal(acquire(p.f, p.b, 1, 1, p.file, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(end_session(p.f, p.b, SESSION_CLOSED), RC_OK);
	assert_int_equal(acquire(p.f, c, 1, 1, p.file, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(end_session(p.f, c, SESSION_DESTROYED), RC_OK);
	assert_int_equal(run(p.f, d,
	                     OP(acquire, .acquire = {.node = p.file,
	                                             .mode = LOCK_EXCLUSIVE,
	                                             .owner = 1,
	                                             .acquisition = 1,
	                                             .delay_s = 0,
	                                             .default_delay_s = 9})),
	                 RC_OK);
	assert_int_equal(end_session(p.f, d, SESSION_EXPIRED), RC_OK);
	assert_null(noted(p.f, TREE_DELAY_BEGAN));
	assert_int_equal(notes_of(p.f, TREE_LOCK_CHANGED), 1);
	assert_int_equal(lock_of_node(p.f, p.file).state, LOCK_STATE_FREE);
}

static void
test_where_the_delay_comes_from(void **state)
{
	struct place p = place_of(state);
	struct acquire a = {.node = p.file,
	                    .owner = 1,
	                    .acquisition = 1,
	                    .mode = LOCK_EXCLUSIVE,
	                    .delay_s = -1,
	                    .default_delay_s = 30};

	assert_int_equal(run(p.f, A, OP(set_lock_delay, .node = p.file, .seconds = 7)), RC_OK);
	assert_int_equal(p.f->answer.attr.attr.lock_delay_s, 7);
	assert_int_equal(run(p.f, A, OP(set_lock_delay, .node = p.file, .seconds = 61)), RC_RANGE);
	assert_int_equal(run(p.f, A, OP(set_lock_delay, .node = p.file, .seconds = -2)), RC_RANGE);
	assert_int_equal(run(p.f, A, OP(set_lock_delay, .node = 999, .seconds = 1)), RC_STALE);
	assert_int_equal(run(p.f, p.b, OP(acquire, .acquire = a)), RC_OK);
	/* Fixed when it was acquired: what is set now is for later acquisitions. */
	assert_int_equal(run(p.f, A, OP(set_lock_delay, .node = p.file, .seconds = -1)), RC_OK);
	end_session(p.f, p.b, SESSION_EXPIRED);
	assert_int_equal(noted(p.f, TREE_DELAY_BEGAN)->seconds, 7);
	assert_int_equal(delay_over(p.f, noted(p.f, TREE_DELAY_BEGAN)), RC_OK);

	p.b = new_session(p.f, "b again");
	assert_int_equal(run(p.f, p.b, OP(acquire, .acquire = a)), RC_OK);
	end_session(p.f, p.b, SESSION_EXPIRED);
	assert_int_equal(noted(p.f, TREE_DELAY_BEGAN)->seconds, 30);
	assert_int_equal(delay_over(p.f, noted(p.f, TREE_DELAY_BEGAN)), RC_OK);

	p.b = new_session(p.f, "b once more");
	a.delay_s = 3;
	assert_int_equal(run(p.f, p.b, OP(acquire, .acquire = a)), RC_OK);
	end_session(p.f, p.b, SESSION_EXPIRED);
	assert_int_equal(noted(p.f, TREE_DELAY_BEGAN)->seconds, 3);
}

static enum rc
share(struct fixture *f, uint64_t session, uint64_t owner, uint64_t node, int64_t delay_s)
{
	return run(f, session,
	           OP(acquire, .acquire = {.node = node,
	                                   .owner = owner,
	                                   .acquisition = 1,
	                                   .mode = LOCK_SHARED,
	                                   .delay_s = delay_s}));
}

static void
test_a_shared_holders_delay(void **state)
{
	struct place p = place_of(state);
	uint64_t c = new_session(p.f, "c");
	struct tree_note first, second;

	assert_int_equal(share(p.f, p.b, 1, p.file, 10), RC_OK);
	assert_int_equal(share(p.f, c, 1, p.file, 20), RC_OK);
	assert_int_equal(share(p.f, A, 1, p.file, 5), RC_OK);
	end_session(p.f, c, SESSION_EXPIRED);
	first = *noted(p.f, TREE_DELAY_BEGAN);
	assert_int_equal(first.seconds, 20);
	end_session(p.f, p.b, SESSION_EXPIRED);
	second = *noted(p.f, TREE_DELAY_BEGAN);
	assert_int_equal(second.seconds, 20); /* never shorter than the one that stands */
	assert_true(second.index > first.index);

	/* It stands against exclusive holders, conversions among them, not against shared ones. */
	assert_int_equal(lock_of_node(p.f, p.file).state, LOCK_STATE_SHARED);
	assert_int_equal(acquire(p.f, A, 1, 2, p.file, LOCK_EXCLUSIVE), RC_BUSY_LOCK);
	assert_int_equal(share(p.f, A, 2, p.file, 0), RC_OK);
	assert_int_equal(release(p.f, A, 1, 1, p.file), RC_OK);
	assert_int_equal(release(p.f, A, 2, 1, p.file), RC_OK);
	assert_int_equal(lock_of_node(p.f, p.file).state, LOCK_STATE_DELAYED);
	assert_int_equal(acquire(p.f, A, 1, 3, p.file, LOCK_EXCLUSIVE), RC_BUSY_LOCK);
	assert_int_equal(share(p.f, A, 1, p.file, 0), RC_OK);
	assert_int_equal(p.f->answer.acquired.lock_generation, 2);

	assert_int_equal(delay_over(p.f, &first), RC_OK);
	assert_int_equal(acquire(p.f, A, 1, 4, p.file, LOCK_EXCLUSIVE), RC_BUSY_LOCK);
	assert_int_equal(delay_over(p.f, &second), RC_OK);
	assert_int_equal(acquire(p.f, A, 1, 4, p.file, LOCK_EXCLUSIVE), RC_OK);
}

static void
test_a_conversion_does_not_shorten_the_delay(void **state)
{
	struct place p = place_of(state);

	assert_int_equal(share(p.f, p.b, 1, p.file, 20), RC_OK);
	assert_int_equal(run(p.f, p.b,
	                     OP(acquire, .acquire = {.node = p.file,
	                                             .owner = 1,
	                                             .acquisition = 2,
	                                             .delay_s = 1,
	                                             .mode = LOCK_EXCLUSIVE})),
	                 RC_OK);
	end_session(p.f, p.b, SESSION_EXPIRED);
	assert_int_equal(noted(p.f, TREE_DELAY_BEGAN)->seconds, 20);
}

static void
test_expiry_of_a_session_with_several_holders(void **state)
{
	struct place p = place_of(state);
	uint64_t other = new_file(p.f, NODE_ROOT, "other");
	struct tree_note delay;

	assert_int_equal(share(p.f, p.b, 1, p.file, 10), RC_OK);
	assert_int_equal(share(p.f, p.b, 2, p.file, 20), RC_OK);
	assert_int_equal(acquire(p.f, p.b, 3, 1, other, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(end_session(p.f, p.b, SESSION_EXPIRED), RC_OK);
	assert_int_equal(lock_of_node(p.f, p.file).state, LOCK_STATE_DELAYED);
	assert_int_equal(lock_of_node(p.f, p.file).delay_left_s, 20);
	assert_int_equal(lock_of_node(p.f, other).state, LOCK_STATE_DELAYED);
	assert_true(tree_delay_after(p.f->tree, 0, &delay));
	assert_int_equal(delay.node, p.file);
	assert_true(tree_delay_after(p.f->tree, p.file, &delay));
	assert_int_equal(delay.node, other);
	assert_false(tree_delay_after(p.f->tree, other, &delay));
	assert_false(tree_delay_after(p.f->tree, UINT64_MAX, &delay));
}

static void
test_lock_outlives_a_rename_onto_the_node(void **state)
{
	struct place p = place_of(state);
	struct result_acquired g;
	uint64_t source = new_file(p.f, NODE_ROOT, "source");

	assert_int_equal(acquire(p.f, A, 1, 1, p.file, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(acquire(p.f, A, 1, 1, source, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(rename_file(p.f, A, NODE_ROOT, "source", NODE_ROOT, "lock"), RC_OK);
	assert_int_equal(noted(p.f, TREE_LOCK_GONE)->node, source);
	assert_true(tree_lock_held_by(p.f->tree, A, 1, 1, p.file, &g));
	assert_false(tree_lock_held_by(p.f->tree, A, 1, 1, source, &g));
}

#define TREE_TEST(f) cmocka_unit_test_setup_teardown(f, tree_setup, tree_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TREE_TEST(test_exclusive_and_shared),
	    TREE_TEST(test_acquire_refusals),
	    TREE_TEST(test_holders_are_told_in_order),
	    TREE_TEST(test_generation_and_fence),
	    TREE_TEST(test_fences_grow_within_an_entry),
	    TREE_TEST(test_the_same_acquisition_again),
	    TREE_TEST(test_release_is_idempotent_and_exact),
	    TREE_TEST(test_conversions),
	    TREE_TEST(test_a_failed_conversion_keeps_what_was_held),
	    TREE_TEST(test_two_exclusive_holders_never_share_a_generation),
	    TREE_TEST(test_a_session_is_shown_its_newest_fence),
	    TREE_TEST(test_a_cancelled_conversion_leaves_generation_and_fence),
	    TREE_TEST(test_back_to_exclusive),
	    TREE_TEST(test_cancel),
	    TREE_TEST(test_cancel_takes_nobodys_lock_away),
	    TREE_TEST(test_grant),
	    TREE_TEST(test_probe),
	    TREE_TEST(test_deleting_a_node_ends_its_lock),
	    TREE_TEST(test_delay_after_expiry),
	    TREE_TEST(test_no_delay_without_expiry),
	    TREE_TEST(test_where_the_delay_comes_from),
	    TREE_TEST(test_a_shared_holders_delay),
	    TREE_TEST(test_a_conversion_does_not_shorten_the_delay),
	    TREE_TEST(test_expiry_of_a_session_with_several_holders),
	    TREE_TEST(test_lock_outlives_a_rename_onto_the_node),
	};

	return cmocka_run_group_tests_name("locks", tests, NULL, NULL);
}
