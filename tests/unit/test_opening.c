/* Sessions that are opened twice: their client has asked on two connections, and the log has both
 * requests before either takes effect. */
#include "tests/sim/host.h"
#include "tests/unit/bare_world.h"
#include "tests/unit/unit.h"

/* The slow disk writes what it was given first. */
static void
persist_one(struct bare_world *w)
{
	struct heap *heap = &w->s->heap;
	const int64_t stuck_until = w->host->disk.stuck_until;
	struct event *first = NULL;

	for (size_t i = 0; i < heap->n; i++) {
		struct event *e = &heap->events[i];

		if (e->at == stuck_until && (first == NULL || e->sequence < first->sequence))
			first = e;
	}
	assert_non_null(first);
	w->host->disk.stuck_until = first->at = w->s->now;
	heap_sort(heap);
	sim_run_until(w->s, w->s->now);
	w->host->disk.stuck_until = stuck_until;
}

static void
destroy(struct bare_world *w, uint64_t session)
{
	struct bare_client operator= {.world = w};
	const struct message m = {
	    .code = MSG_operate,
	    .operate = {.what = OPERATION_DESTROY_SESSION, .id = session},
	};

	bare_connect_anew(&operator);
	bare_send(&operator, & m);
}

/* An operator ends the session between the two: it is not opened again, though it is still there.
 */
TEST(test_end_between_the_two)
{
	struct bare_world *w = world_new(1);
	struct bare_client first = {.world = w}, second = {.world = w};
	const struct message *m;
	struct tree_session t;

	bare_connect_anew(&first);
	bare_connect_anew(&second);
	world_slow_disk(w, true);
	bare_send_open(&first);
	bare_send_open(&second);
	persist_one(w);
	bare_expect_opened(&first);
	destroy(w, first.session);
	world_slow_disk(w, false);
	world_persist(w);
	m = bare_take(&second, MSG_session_opened);
	assert_non_null(m);
	assert_true(tree_session(world_tree(w), first.session, &t));
	assert_int_equal(m->session_opened.rc, RC_NO_SESSION);
	world_free(w);
}
