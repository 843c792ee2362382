/* The lists of sessions and locks, by the answers of a master that may be faulty. */
#include "cell/view/cell_lists.h"
#include "cell/wire/codec.h"
#include "tests/unit/unit.h"

static const struct cell_file cell_file = {.name = "dc1"};

/* What the master answers: in each message a row, `step` after the one before, up to the last one.
 * 0: the same again. */
static uint64_t step, last;
static int asked;

static struct bytes
lock_row(struct buffer *to, uint64_t node)
{
	struct buffer queue = BUFFER(1024);
	const struct result result = {
	    .kind = RESULT_queue,
	    .queue = {.node = node,
	              .path = bytes_of("/f"),
	              .state = LOCK_STATE_SHARED,
	              .delay_left_s = (int64_t)node - 1},
	};

	wire_put_result(&queue, &result);
	wire_put_lock_row(to, &(struct lock_row){.queue = buffer_view(&queue)});
	buffer_free(&queue);
	return buffer_view(to);
}

static struct bytes
session_row(struct buffer *to, uint64_t session)
{
	const struct session_row row = {
	    .session = session,
	    .principal = bytes_of("ann"),
	    .host = bytes_of("h"),
	};

	wire_put_session_row(to, &row);
	return buffer_view(to);
}

static bool
ask(const struct cell_file *cell, const struct noise_pair *key, const struct message *question,
    enum message_code code, void (*take)(void *user, const struct message *reply), void *user)
{
	struct buffer row = BUFFER(1024);
	struct message reply = {.code = code};
	uint64_t at;

	(void)cell;
	(void)key;
	assert_true(++asked < 10000);
	if (code == MSG_locks) {
		at = step == 0 ? 1 : question->locks_request.after + step;
		reply.locks.more = at < last;
		reply.locks.locks = (struct wire_list){lock_row(&row, at), 1};
	} else {
		at = step == 0 ? 1 : question->sessions_request.after + step;
		reply.sessions.more = at < last;
		reply.sessions.sessions = (struct wire_list){session_row(&row, at), 1};
	}
	take(user, &reply);
	buffer_free(&row);
	return true;
}

/* The number of rows of the list, and of questions; -1: it is none. */
static void
expect(uint64_t each, uint64_t end, int rows, int questions)
{
	const struct asker asker = {ask, &cell_file, NULL};
	json_t *all;

	for (int locks = 0; locks < 2; locks++) {
		step = each;
		last = end;
		asked = 0;
		all = locks ? cell_locks(&asker) : cell_sessions(&asker);
		assert_int_equal(all == NULL ? -1 : (int)json_array_size(all), rows);
		assert_int_equal(asked, questions);
		json_decref(all);
	}
}

TEST(test_from_answer_to_answer)
{
	expect(1, 3, 3, 3);
}

TEST(test_the_same_again_and_again)
{
	expect(0, 3, -1, 2);
}

TEST(test_without_end)
{
	expect(1, UINT64_MAX, -1, 4096);
}

/* The delay of one holder of a shared lock stands while there are others. */
TEST(test_the_delay_of_a_shared_lock)
{
	const struct asker asker = {ask, &cell_file, NULL};
	json_t *all;

	step = 1;
	last = 2;
	asked = 0;
	all = cell_locks(&asker);
	assert_null(json_object_get(json_array_get(all, 0), "delay_left"));
	assert_int_equal(json_integer_value(json_object_get(json_array_get(all, 1), "delay_left")),
	                 1);
	json_decref(all);
}
