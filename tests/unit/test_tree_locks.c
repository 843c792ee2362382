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

TREE_TEST(test_acquire_refusals)
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

TREE_TEST(test_release_is_idempotent_and_exact)
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
	assert_int_equal(release(p.f, A, 1, 7, 999), RC_STALE);
}

TREE_TEST(test_a_session_is_shown_its_newest_fence)
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

TREE_TEST(test_back_to_exclusive)
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

/* Of the acquisition that was made last. */
static struct guard
guard_of(struct place p, enum lock_mode mode)
{
	struct result_acquired g = p.f->answer.acquired;

	return (struct guard){.node = p.file,
	                      .lock_generation = g.lock_generation,
	                      .mode = mode,
	                      .fence = g.fence};
}

static void
assert_stale(struct place p, struct guard g, const char *why)
{
	const char *stale = tree_guard_stale(p.f->tree, &g);

	assert_non_null(stale);
	assert_string_equal(stale, why);
}

TREE_TEST(test_a_guard_is_valid_while_its_acquisition_is_held)
{
	struct place p = place_of(state);
	struct guard shared, exclusive;

	assert_int_equal(acquire(p.f, A, 2, 1, p.file, LOCK_SHARED), RC_OK);
	assert_int_equal(acquire(p.f, A, 1, 1, p.file, LOCK_SHARED), RC_OK);
	shared = guard_of(p, LOCK_SHARED);
	assert_null(tree_guard_stale(p.f->tree, &shared));
	assert_int_equal(release(p.f, A, 2, 1, p.file), RC_OK);
	assert_null(tree_guard_stale(p.f->tree, &shared));

	assert_int_equal(acquire(p.f, A, 1, 2, p.file, LOCK_EXCLUSIVE), RC_OK);
	exclusive = guard_of(p, LOCK_EXCLUSIVE);
	assert_null(tree_guard_stale(p.f->tree, &exclusive));
	assert_stale(p, shared, "the lock was acquired again");
	assert_int_equal(cancel(p.f, A, 1, 2, p.file), RC_OK);
	assert_null(
	    tree_guard_stale(p.f->tree, &shared)); /* it is held again by this acquisition */
	assert_stale(p, exclusive, "the lock was released");

	assert_int_equal(acquire(p.f, A, 1, 3, p.file, LOCK_EXCLUSIVE), RC_OK);
	exclusive = guard_of(p, LOCK_EXCLUSIVE);
	assert_int_equal(acquire(p.f, A, 1, 4, p.file, LOCK_SHARED), RC_OK);
	assert_stale(p, exclusive, "the lock was converted");
	assert_int_equal(release(p.f, A, 1, 4, p.file), RC_OK);
	assert_stale(p, exclusive, "the lock is free");
	assert_int_equal(acquire(p.f, p.b, 1, 1, p.file, LOCK_EXCLUSIVE), RC_OK);
	assert_stale(p, exclusive, "the lock was acquired again");
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

TREE_TEST(test_grant)
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

TREE_TEST(test_probe)
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

/* ---- lock-delay ---- */

static enum rc
delay_over(struct fixture *f, const struct tree_note *delay)
{
	return run(f, 0,
	           OP(delay_over, .node = delay->node, .began = delay->index,
	              .lock_generation = delay->lock_generation));
}

TREE_TEST(test_no_delay_without_expiry)
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

TREE_TEST(test_where_the_delay_comes_from)
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

TREE_TEST(test_a_shared_holders_delay)
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

TREE_TEST(test_a_guard_ends_with_session_and_node)
{
	struct place p = place_of(state);
	struct guard g;

	assert_int_equal(share(p.f, A, 1, p.file, 20), RC_OK);
	g = guard_of(p, LOCK_SHARED);
	end_session(p.f, A, SESSION_EXPIRED);
	assert_stale(p, g, "the session of its holder has ended");
	g.node = 999;
	assert_stale(p, g, "the node was deleted");
}

/* Decided in apply: when the commands were proposed the guard was valid. */
TREE_TEST(test_a_guarded_command_behind_the_release_in_its_entry)
{
	struct place p = place_of(state);
	const struct op *release = OP(release, .node = p.file, .owner = 1, .acquisition = 1);
	const struct op *set = OP(append, .node = p.file, .data = bytes_of("x"));
	struct command c = {.session = A}, guarded = {.session = p.b};

	assert_int_equal(acquire(p.f, A, 1, 1, p.file, LOCK_EXCLUSIVE), RC_OK);
	guarded.guard = guard_of(p, LOCK_EXCLUSIVE);
	entry_add(p.f, &guarded, set);
	entry_add(p.f, &c, release);
	entry_add(p.f, &guarded, set);
	assert_int_equal(entry_apply(p.f), RC_OK);
	assert_int_equal(p.f->out.answers[0].rc, RC_OK);
	assert_int_equal(p.f->out.answers[1].rc, RC_OK);
	assert_int_equal(p.f->out.answers[2].rc, RC_GUARD);
	assert_contents(p.f, p.file, "x");
}

TREE_TEST(test_a_conversion_does_not_shorten_the_delay)
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

/* ---- the name of a locked node ---- */

/* Deletes the file or, with a new name, renames it away. */
static enum rc
take_away(struct place p, uint64_t session, const char *name, const char *to)
{
	if (to != NULL)
		return rename_file(p.f, session, NODE_ROOT, name, NODE_ROOT, to);
	return run(p.f, session,
	           OP(delete, .parent = NODE_ROOT, .name = bytes_of(name), .kind = NODE_FILE));
}

static struct footprint
changes_of_deletion(struct place p, uint64_t session)
{
	const struct requester who = {.session = session};
	struct footprint f = {0};

	tree_changes(p.f->tree, &who,
	             OP(delete, .parent = NODE_ROOT, .name = bytes_of("lock"), .kind = NODE_FILE),
	             NODE_ROOT, &f);
	return f;
}

TREE_TEST(test_a_lock_keeps_its_node)
{
	struct place p = place_of(state);
	uint64_t alice, bob, mode;

	add_principal(p.f, "user", 7);
	alice = session_of(p.f, "alice", "user");
	bob = session_of(p.f, "bob", "user");
	for (mode = LOCK_SHARED; mode <= LOCK_EXCLUSIVE; mode++) {
		assert_int_equal(acquire(p.f, alice, 1, mode, p.file, (enum lock_mode)mode), RC_OK);
		assert_int_equal(take_away(p, bob, "lock", NULL), RC_BUSY);
		assert_int_equal(take_away(p, bob, "lock", "other"), RC_BUSY);
	}
	assert_int_equal(take_away(p, bob, "lock", "lock"), RC_OK); /* it stays where it is */

	/* What is renamed onto it leaves it its lock. */
	new_file(p.f, NODE_ROOT, "new");
	assert_int_equal(take_away(p, bob, "new", "lock"), RC_OK);
	assert_int_equal(lock_of_node(p.f, p.file).state, LOCK_STATE_EXCLUSIVE);

	/* One holder of several is another session. */
	assert_int_equal(acquire(p.f, alice, 1, 3, p.file, LOCK_SHARED), RC_OK);
	assert_int_equal(acquire(p.f, bob, 1, 1, p.file, LOCK_SHARED), RC_OK);
	assert_int_equal(take_away(p, alice, "lock", NULL), RC_BUSY);
	assert_int_equal(take_away(p, bob, "lock", NULL), RC_BUSY);
	assert_int_equal(release(p.f, alice, 1, 3, p.file), RC_OK);
	assert_int_equal(take_away(p, bob, "lock", NULL), RC_OK);
}

TREE_TEST(test_a_lock_delay_keeps_its_node)
{
	struct place p = place_of(state);
	uint64_t alice, bob;

	add_principal(p.f, "user", 7);
	alice = session_of(p.f, "alice", "user");
	bob = session_of(p.f, "bob", "user");
	assert_int_equal(share(p.f, alice, 1, p.file, 3), RC_OK);
	assert_int_equal(end_session(p.f, alice, SESSION_EXPIRED), RC_OK);
	assert_int_equal(take_away(p, bob, "lock", NULL), RC_BUSY);
	assert_int_equal(take_away(p, bob, "lock", "other"), RC_BUSY);
	assert_int_equal(take_away(p, A, "lock", NULL), RC_OK); /* an operator */
}

TREE_TEST(test_a_refused_deletion_changes_nothing)
{
	struct place p = place_of(state);
	struct footprint none, both;
	uint64_t alice, bob;

	add_principal(p.f, "user", 7);
	alice = session_of(p.f, "alice", "user");
	bob = session_of(p.f, "bob", "user");
	assert_int_equal(acquire(p.f, alice, 1, 1, p.file, LOCK_EXCLUSIVE), RC_OK);
	none = changes_of_deletion(p, bob);
	both = changes_of_deletion(p, alice);
	assert_int_equal(none.n, 0);
	assert_int_equal(both.n, 2);
	footprint_free(&none);
	footprint_free(&both);
}

TREE_TEST(test_a_lock_keeps_no_ephemeral_file)
{
	struct place p = place_of(state);
	uint64_t alice, bob, file;

	add_principal(p.f, "user", 7);
	alice = session_of(p.f, "alice", "user");
	bob = session_of(p.f, "bob", "user");
	assert_int_equal(create(p.f, alice, NODE_ROOT, "e", NODE_FILE, true), RC_OK);
	file = p.f->answer.created.attr.node;
	assert_int_equal(acquire(p.f, bob, 1, 1, file, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(run(p.f, alice, OP(close_ephemeral, .node = file)), RC_OK);
	assert_false(exists(p.f, file));
	assert_int_equal(create(p.f, alice, NODE_ROOT, "e", NODE_FILE, true), RC_OK);
	file = p.f->answer.created.attr.node;
	assert_int_equal(acquire(p.f, bob, 1, 2, file, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(end_session(p.f, alice, SESSION_EXPIRED), RC_OK);
	assert_false(exists(p.f, file));
}
