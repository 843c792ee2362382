/* Events at the master: one change is one event for each session that watches, and a session that
 * acknowledges nothing costs bounded memory and is told of a gap. */
#include "cell/master/internal.h"
#include "tests/unit/bare_world.h"
#include "tests/unit/unit.h"

enum { CROWD = 200 };

static void
watch_since(struct bare_client *c, uint64_t node, bool all, uint64_t heard, uint64_t since)
{
	struct buffer packed = BUFFER(100);
	struct message m =
	    {.code = MSG_watch,
	     .watch = {.session = c->session, .epoch = c->epoch, .all = all, .heard = heard}};

	wire_put_watch(&packed, &(struct watch){.node = node,
	                                        .mask = 1u << EVENT_CONTENTS_MODIFIED |
	                                                1u << EVENT_HANDLE_INVALID,
	                                        .since = since});
	m.watch.watches = (struct wire_list){buffer_view(&packed), 1};
	bare_send(c, &m);
	buffer_free(&packed);
}

static void
watch(struct bare_client *c, uint64_t node, bool all, uint64_t heard)
{
	watch_since(c, node, all, heard, 0);
}

static struct watch_state
watched(struct bare_client *c)
{
	const struct message *m = bare_take(c, MSG_watching);
	struct watch_state s;
	struct cursor at;

	assert_non_null(m);
	at = cursor_of(m->watching.states.packed);
	assert_true(wire_next_watch_state(&at, &s));
	return s;
}

/* The generation from which on the watch stands. */
static uint64_t
watched_from(struct bare_client *c)
{
	const struct watch_state s = watched(c);

	assert_int_equal(s.rc, RC_OK);
	assert_true(bytes_equal(s.path, bytes_of("/f")));
	return s.generation;
}

static void
write_once(struct bare_client *c, uint64_t node)
{
	const struct op op = op_of_set(node, "x");

	assert_int_equal(bare_call(c, &op, NULL), RC_OK);
	c->below = c->number + 1;
}

/* Takes the events that have arrived; returns how many, and the last one with its number. */
static size_t
take_events(struct bare_client *c, struct watch_event *last, uint64_t *number)
{
	const struct message *m;
	struct cursor at;
	size_t n = 0;

	while ((m = bare_take(c, MSG_events)) != NULL) {
		*number = m->events.first - 1;
		at = cursor_of(m->events.events.packed);
		while (wire_next_watch_event(&at, last)) {
			(*number)++;
			n++;
		}
	}
	return n;
}

TEST(test_one_event_for_each_watcher)
{
	struct bare_world *w = world_new(1);
	struct bare_client writer = bare_open(w, 255), crowd[CROWD];
	const uint64_t node = bare_file(&writer, "f");
	struct watch_event last;
	uint64_t number;

	for (int i = 0; i < CROWD; i++) {
		crowd[i] = bare_open(w, (uint8_t)i);
		watch(&crowd[i], node, false, 0);
		assert_int_equal(watched_from(&crowd[i]), 1);
	}
	for (uint64_t generation = 2; generation <= 3; generation++) {
		write_once(&writer, node);
		for (int i = 0; i < CROWD; i++) {
			assert_int_equal(take_events(&crowd[i], &last, &number), 1);
			assert_int_equal(number, generation - 1);
			assert_int_equal(last.generation, generation);
		}
	}
	world_free(w);
}

TEST(test_gap)
{
	struct bare_world *w = world_new(1);
	struct bare_client writer = bare_open(w, 1), reader = bare_open(w, 2);
	const uint64_t node = bare_file(&writer, "f");
	struct watch_event last;
	uint64_t number = 0;

	watch(&reader, node, false, 0);
	assert_int_equal(watched_from(&reader), 1);
	for (int i = 0; i < LIMIT_EVENTS; i++)
		write_once(&writer, node);
	assert_int_equal(take_events(&reader, &last, &number), LIMIT_EVENTS);
	assert_int_equal(number, LIMIT_EVENTS);
	assert_int_equal(last.kind, EVENT_CONTENTS_MODIFIED);

	write_once(&writer, node);
	assert_int_equal(take_events(&reader, &last, &number), 1);
	assert_int_equal(number, LIMIT_EVENTS + 1);
	assert_int_equal(last.kind, EVENT_GAP);
	assert_int_equal(last.node, 0);

	/* The gap is kept until it is acknowledged, and the watch goes on after it. */
	bare_attach(&reader);
	watch(&reader, node, true, 5);
	assert_int_equal(watched_from(&reader), LIMIT_EVENTS + 2);
	assert_int_equal(take_events(&reader, &last, &number), 1);
	assert_int_equal(last.kind, EVENT_GAP);
	write_once(&writer, node);
	assert_int_equal(take_events(&reader, &last, &number), 1);
	assert_int_equal(number, LIMIT_EVENTS + 2);
	assert_int_equal(last.generation, LIMIT_EVENTS + 3);
	world_free(w);
}

/* However much was missed, there is no gap: what is new waits until it is told. */
TEST(test_missed_events_wait_for_acknowledgements)
{
	struct bare_world *w = world_new(1);
	struct bare_client writer = bare_open(w, 1), reader = bare_open(w, 2);
	const uint64_t node = bare_file(&writer, "f");
	struct watch_event last;
	uint64_t number = 0;
	size_t told = 0, n;

	for (int i = 0; i < 2 * LIMIT_EVENTS; i++)
		write_once(&writer, node);
	world_restart(w);
	bare_attach(&writer);
	bare_attach(&reader);
	watch_since(&reader, node, true, 0, 1);
	assert_int_equal(watched_from(&reader), 2 * LIMIT_EVENTS + 1);
	while ((n = take_events(&reader, &last, &number)) > 0) {
		assert_true(n <= LIMIT_EVENTS / 2);
		told += n;
		assert_int_equal(last.kind, EVENT_CONTENTS_MODIFIED);
		assert_int_equal(last.generation, told + 1);
		if (told < 2 * LIMIT_EVENTS)
			write_once(&writer, node);
		watch(&reader, node, false, number);
		watched_from(&reader);
	}
	assert_true(told > 2 * LIMIT_EVENTS);
	assert_int_equal(last.generation, tree_content_generation(world_tree(w), node));
	world_free(w);
}

TEST(test_acknowledged_events_are_not_kept)
{
	struct bare_world *w = world_new(1);
	struct bare_client writer = bare_open(w, 1), reader = bare_open(w, 2);
	const uint64_t node = bare_file(&writer, "f");
	struct watch_event last;
	uint64_t number = 0;

	watch(&reader, node, false, 0);
	for (int i = 0; i < LIMIT_EVENTS + 10; i++) {
		write_once(&writer, node);
		assert_int_equal(take_events(&reader, &last, &number), 1);
		assert_int_equal(last.kind, EVENT_CONTENTS_MODIFIED);
		watch(&reader, node, false, number);
	}
	assert_int_equal(number, LIMIT_EVENTS + 10);
	world_free(w);
}

enum { NESTED = 6, WRITES = 20 };

/* Directories in each other; returns the first one's number, and the lowest one's. */
static uint64_t
nest(struct bare_client *c, uint64_t *lowest)
{
	struct op create = op_of_create("d");
	struct result r;

	create.create.kind = NODE_DIRECTORY;
	for (int i = 0; i < NESTED; i++) {
		assert_int_equal(bare_call(c, &create, &r), RC_OK);
		create.create.parent = r.created.attr.node;
	}
	*lowest = r.created.attr.node;
	return *lowest + 1 - NESTED;
}

/* One message for the trees of them all. */
static void
watch_trees(struct bare_client *c, uint64_t first, uint64_t since)
{
	struct buffer packed = BUFFER(LIMIT_FRAME);
	struct message m = {.code = MSG_watch, .watch = {c->session, c->epoch, .all = true}};

	for (uint64_t node = first; node < first + NESTED; node++)
		wire_put_watch(&packed,
		               &(struct watch){.node = node,
		                               .mask = 1u << EVENT_CHILD_MODIFIED |
		                                       1u << EVENT_CHILD_REMOVED |
		                                       1u << EVENT_HANDLE_INVALID | WATCH_TREE,
		                               .since = since});
	m.watch.watches = (struct wire_list){buffer_view(&packed), NESTED};
	bare_send(c, &m);
	assert_non_null(bare_take(c, MSG_watching));
	buffer_free(&packed);
}

/* The steps of the master have time for the watchers of one node each: events come late, in order,
 * all of them, and those of an entry together; a watch that begins meanwhile is not told what was
 * before it. */
TEST(test_what_a_step_has_no_time_for_is_told_later)
{
	struct bare_world *w = world_new(1);
	struct bare_client writer, reader, late;
	struct op create = op_of_create("f"), op;
	uint64_t first, number, before = 0, file;
	struct watch_event e;
	const struct message *m;
	struct result r;
	size_t n = 0;

	w->s->swarm.limits.step = 1;
	world_restart(w);
	writer = bare_open(w, 1);
	reader = bare_open(w, 2);
	late = bare_open(w, 3);
	first = nest(&writer, &create.create.parent);
	assert_int_equal(bare_call(&writer, &create, &r), RC_OK);
	file = r.created.attr.node;
	watch_trees(&reader, first, 0);
	op = op_of_set(file, "x");
	world_slow_disk(w, true);
	for (int i = 0; i < WRITES; i++)
		bare_send_op(&writer, &op);
	op = (struct op){.code = OP_delete,
	                 .delete = {create.create.parent, bytes_of("f"), NODE_FILE}};
	bare_send_op(&writer, &op);
	world_slow_disk(w, false);
	world_persist(w);
	watch_trees(&late, first, 0);
	world_pass_ms(w, 1000);
	while ((m = bare_take(&reader, MSG_events)) != NULL) {
		struct cursor at = cursor_of(m->events.events.packed);

		assert_int_equal(m->events.events.count % NESTED, 0);
		assert_true(m->events.upto >= before);
		before = m->events.upto;
		for (; wire_next_watch_event(&at, &e); n++) {
			assert_int_equal(e.node, first + NESTED - 1 - n % NESTED);
			assert_int_equal(e.kind, n < (size_t)NESTED * WRITES ? EVENT_CHILD_MODIFIED
			                                                     : EVENT_CHILD_REMOVED);
		}
	}
	assert_int_equal(n, NESTED * (WRITES + 1));
	assert_true(before >= tree_applied(world_tree(w)) - 1);
	assert_int_equal(take_events(&late, &e, &number), 0);
	world_free(w);
}

/* The watch is shown again, or with another mask, when its node is gone and the event of that is
 * not made yet. */
TEST(test_the_end_of_a_watch_that_is_shown_again_is_told)
{
	struct bare_world *w = world_new(1);
	const struct op delete = op_of_delete("f");
	struct bare_client writer, readers[2];
	struct watch_event last;
	uint64_t node, number;
	struct op set;

	w->s->swarm.limits.step = 1;
	world_restart(w);
	writer = bare_open(w, 1);
	node = bare_file(&writer, "f");
	set = op_of_set(node, "x");
	for (size_t i = 0; i < 2; i++) {
		readers[i] = bare_open(w, (uint8_t)(2 + i));
		watch(&readers[i], node, false, 0);
		assert_int_equal(watched_from(&readers[i]), 1);
	}
	world_slow_disk(w, true);
	for (int i = 0; i < WRITES; i++)
		bare_send_op(&writer, &set);
	bare_send_op(&writer, &delete);
	world_slow_disk(w, false);
	w->s->swarm.cost_ns = 2 * MS; /* for a step: there is time between them */
	while (tree_has_node(world_tree(w), node))
		world_pass_ms(w, 1);
	for (size_t i = 0; i < 2; i++)
		watch(&readers[i], node, i == 0, 0);
	world_pass_ms(w, 1000);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(watched(&readers[i]).rc, RC_OK);
		assert_true(take_events(&readers[i], &last, &number) > WRITES);
		assert_int_equal(number, WRITES + 1);
		assert_int_equal(last.kind, EVENT_HANDLE_INVALID);
	}
	world_free(w);
}

/* The number of events that have come, and the index of the last message. */
static size_t
count_events(struct bare_client *c, uint64_t *upto)
{
	const struct message *m;
	size_t n = 0;

	while ((m = bare_take(c, MSG_events)) != NULL) {
		n += m->events.events.count;
		*upto = m->events.upto;
	}
	return n;
}

/* Steps tell parts of an entry, in the same epoch and of what was missed, and at some time in it
 * another master follows. */
TEST(test_no_event_comes_twice_after_a_fail_over)
{
	enum { CHANGES = 3, TIMES_MS = 60 };
	struct bare_world *w = world_new(1);
	struct buffer steps = BUFFER(LIMIT_ENTRY), set = BUFFER(LIMIT_ENTRY);
	struct op create = op_of_create("f"), op = op_of_set(0, "x");
	uint64_t first, upto = 0;
	struct bare_client writer, reader;
	struct result r;

	w->s->swarm.limits.step = SESSION_WORK + 1;
	world_restart(w);
	writer = bare_open(w, 1);
	reader = bare_open(w, 2);
	first = nest(&writer, &create.create.parent);
	assert_int_equal(bare_call(&writer, &create, &r), RC_OK);
	wire_put_op(&set, &op);
	for (int i = 0; i < CHANGES; i++)
		wire_put_step(&steps, &(struct step){STEP_DO, .path = bytes_of("/d/d/d/d/d/d/f"),
		                                     .op = buffer_view(&set)});
	op = (struct op){.code = OP_transaction};
	op.transaction.steps = (struct wire_list){buffer_view(&steps), CHANGES};
	watch_trees(&reader, first, 0);
	upto = tree_applied(world_tree(w));
	for (int ms = 0; ms < TIMES_MS; ms++) {
		size_t n = 0;

		w->s->swarm.cost_ns = 2 * MS; /* for a step: there is time between them */
		bare_send_op(&writer, &op);
		for (int masters = 0; masters < 2; masters++) {
			world_pass_ms(w, ms);
			w->s->swarm.cost_ns = 0;
			world_restart(w);
			n += count_events(&reader, &upto);
			bare_attach(&writer);
			bare_attach(&reader);
			w->s->swarm.cost_ns = masters == 0 ? 2 * MS : 0;
			watch_trees(&reader, first, upto);
		}
		world_pass_ms(w, 1000);
		n += count_events(&reader, &upto);
		assert_int_equal(n, CHANGES * NESTED);
	}
	buffer_free(&steps);
	buffer_free(&set);
	world_free(w);
}

static void
keep_changes(struct bare_world *w, uint64_t bytes)
{
	struct bare_client operator= {.world = w};
	const struct message m = {.code = MSG_operate,
	                          .operate = {.what = OPERATION_SET,
	                                      .name = bytes_of("history_bytes"),
	                                      .value = bytes}};
	const struct message *answer;

	bare_connect_anew(&operator);
	bare_send(&operator, & m);
	answer = bare_take(&operator, MSG_operated);
	assert_non_null(answer);
	assert_int_equal(answer->operated.rc, RC_OK);
}

/* One session brings about more events than steps tell, and the history loses changes before they
 * are told: what was not told is one gap, also for those that watch something else. An end that it
 * has taken the place of is in the answer when the watch is shown again. */
TEST(test_what_the_history_has_lost_is_one_gap)
{
	enum { KEPT = 20, MANY = 200 };
	struct bare_world *w = world_new(1);
	struct op create = op_of_create("f"), delete = op_of_delete("g"), set;
	struct bare_client writer, reader, other;
	const struct message *m;
	struct watch_event e;
	uint64_t first, node, gone;
	struct result r;
	size_t gaps = 0;

	w->s->swarm.limits.step = 1;
	world_restart(w);
	keep_changes(w, KEPT * 192);
	writer = bare_open(w, 1);
	reader = bare_open(w, 2);
	other = bare_open(w, 3);
	node = bare_file(&writer, "f");
	gone = bare_file(&writer, "g");
	first = nest(&writer, &create.create.parent);
	assert_int_equal(bare_call(&writer, &create, &r), RC_OK);
	watch_trees(&reader, first, 0);
	watch(&other, gone, false, 0);
	assert_int_equal(watched(&other).rc, RC_OK);
	watch(&other, node, false, 0);
	assert_int_equal(watched(&other).rc, RC_OK);
	set = op_of_set(r.created.attr.node, "x");
	world_slow_disk(w, true);
	for (int i = 0; i < MANY; i++)
		bare_send_op(&writer, i == MANY / 2 ? &delete : &set);
	world_slow_disk(w, false);
	world_persist(w);
	set = op_of_set(node, "x");
	bare_send_op(&writer, &set);
	world_pass_ms(w, 1000);
	while ((m = bare_take(&other, MSG_events)) != NULL) {
		struct cursor at = cursor_of(m->events.events.packed);

		while (wire_next_watch_event(&at, &e)) {
			assert_int_not_equal(e.node, gone);
			gaps += e.kind == EVENT_GAP;
		}
	}
	assert_in_range(gaps, 1, MANY / KEPT);
	assert_int_equal(e.kind, EVENT_CONTENTS_MODIFIED);
	watch(&other, gone, false, 0);
	assert_int_equal(watched(&other).rc, RC_STALE);
	world_free(w);
}
