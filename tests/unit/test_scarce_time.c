/* A master whose steps have time for one waiter each: nothing is forgotten. */
#include "cell/master/internal.h"
#include "tests/unit/bare_world.h"
#include "tests/unit/unit.h"

enum { WAITERS = 5 };

/* Its file goes, by its holder: each waiter is told, step by step. */
TEST(test_waiters_of_a_file_that_is_gone)
{
	struct bare_world *w = world_new(1);
	struct bare_client holder, c;
	struct op op = op_of_delete("one");
	const struct message *m;
	uint64_t node;

	w->s->swarm.limits.step = WAITER_WORK;
	world_restart(w);
	holder = bare_open(w, 1);
	c = bare_open(w, 2);
	node = bare_file(&holder, "one");
	assert_int_equal(bare_lock(&holder, node, 1, LOCK_EXCLUSIVE), RC_OK);
	for (uint64_t owner = 1; owner <= WAITERS; owner++)
		assert_int_equal(bare_lock(&c, node, owner, LOCK_EXCLUSIVE), RC_QUEUED);

	assert_int_equal(bare_call(&holder, &op, NULL), RC_OK);
	world_pass_ms(w, 1000);
	for (uint64_t owner = 1; owner <= WAITERS; owner++) {
		m = bare_take(&c, MSG_granted);
		assert_non_null(m);
		assert_int_equal(m->granted.rc, RC_STALE);
		assert_int_equal(m->granted.owner, owner);
	}
	world_free(w);
}
