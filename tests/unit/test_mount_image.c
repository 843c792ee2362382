/* The image of a mount, by which another process goes on with it: the same mount is made of it, and
 * one that is damaged is refused, or is that of another mount; no damage ends the process. */
#include <poll.h>
#include <string.h>
#include "tests/unit/mount_bench.h"

static const struct mount_config config = {.cell = "local", .uid = 1000, .gid = 1000};

/* A mount with something of everything, of which a call waits for a lock and another for events. */
enum { WAITER = 6 }; /* for the lock */

static struct bench *
busy_bench(void)
{
	struct bench *b = bench_new(&config);
	const uint64_t f = new_file(b->cell, NODE_ROOT, "f");
	struct mount_event e = {.ino = f,
	                        .flags = O_RDWR,
	                        .lock_owner = bench_lock_owner(SHELL),
	                        .data = bytes_of("uncommitted"),
	                        .user = bytes_of("bob"),
	                        .fate = FATE_ALIVE,
	                        .size = 100,
	                        .wait = true,
	                        .whole = true};
	struct mount_event directory = {.kind = MOUNT_OPENDIR, .ino = NODE_ROOT};
	struct mount_event events = {.kind = MOUNT_OPEN, .ino = MOUNT_INO_EVENTS};

	bench_start(b, (struct mount_event){.kind = MOUNT_LOOKUP,
	                                    .ino = NODE_ROOT,
	                                    .name = bytes_of("f")});
	for (int n = 0; n < 2; n++) {
		e.kind = MOUNT_OPEN;
		e.fh = bench_reply(b, bench_start(b, e))->fh;
		e.kind = MOUNT_FLOCK;
		e.lock_mode = LOCK_EXCLUSIVE;
		bench_start(b, e); /* the second one waits */
		e.kind = MOUNT_WRITE;
		if (n == 0)
			bench_start(b, e);
	}
	e.kind = MOUNT_POLL;
	bench_start(b, e);
	directory.fh = bench_reply(b, bench_start(b, directory))->fh;
	directory.kind = MOUNT_READDIR;
	bench_start(b, directory);
	events.fh = bench_reply(b, bench_start(b, events))->fh;
	events.kind = MOUNT_READ;
	events.size = 100;
	bench_start(b, events);
	return b;
}

static struct bytes
image_of(struct mount *m, mono_t now)
{
	struct buffer bytes = BUFFER(SIZE_MAX);
	struct image to = image_to(&bytes);

	assert_true(mount_is_still(m));
	mount_save(m, now, &to);
	return buffer_take(&bytes);
}

TEST(test_the_same_mount)
{
	struct bench *b = busy_bench();
	const struct bytes image = image_of(b->mount, b->now);
	struct image from = image_from(image);
	struct mount *m = mount_load(&config, &b->client, &from);
	struct bytes again;

	assert_non_null(m);
	assert_true(image_done(&from));
	again = image_of(m, b->now);
	assert_true(bytes_equal(image, again));
	free((void *)again.data);
	free((void *)image.data);
	mount_free(m);
	bench_free(b);
}

TEST(test_a_call_under_way)
{
	struct bench *b = busy_bench();

	b->hold = true;
	bench_start(b, (struct mount_event){.kind = MOUNT_GETATTR, .ino = NODE_ROOT});
	assert_false(mount_is_still(b->mount));
	bench_answer_all(b);
	assert_true(mount_is_still(b->mount));
	bench_free(b);
}

/* False if it is refused. */
static bool
loads(struct bench *b, struct bytes image)
{
	struct image from = image_from(image);
	struct mount *m = mount_load(&config, &b->client, &from);
	const bool done = m != NULL && image_done(&from);

	if (m != NULL)
		mount_free(m);
	return done;
}

TEST(test_every_end)
{
	struct bench *b = busy_bench();
	const struct bytes image = image_of(b->mount, b->now);

	for (size_t n = 0; n < image.len; n++)
		assert_false(loads(b, (struct bytes){image.data, n}));
	free((void *)image.data);
	bench_free(b);
}

TEST(test_every_byte)
{
	struct bench *b = busy_bench();
	const struct bytes image = image_of(b->mount, b->now);

	for (size_t n = 0; n < image.len; n++)
		for (unsigned bit = 1; bit < 256; bit *= 2) {
			((uint8_t *)image.data)[n] ^= (uint8_t)bit;
			loads(b, image);
			((uint8_t *)image.data)[n] ^= (uint8_t)bit;
		}
	assert_true(loads(b, image));
	free((void *)image.data);
	bench_free(b);
}

/* Another process goes on with the mount. */
static void
replace_mount(struct bench *b)
{
	const struct bytes image = image_of(b->mount, b->now);
	struct image from = image_from(image);
	struct mount *old = b->mount;

	b->mount = mount_load(&config, &b->client, &from);
	assert_non_null(b->mount);
	mount_free(old);
	free((void *)image.data);
}

/* A transaction that is being written may be longer than a sequencer. */
TEST(test_a_long_transaction)
{
	struct bench *b = bench_new(&config);
	char text[4000] = "create /new\n";
	struct mount_event e = {.kind = MOUNT_OPEN, .ino = MOUNT_INO_TXN, .flags = O_RDWR};
	const struct mount_reply *r;

	memset(text + strlen(text), '\n', sizeof text - strlen(text) - 1);
	e.fh = bench_reply(b, bench_start(b, e))->fh;
	e.kind = MOUNT_WRITE;
	e.data = bytes_of(text);
	assert_int_equal(bench_reply(b, bench_start(b, e))->count, sizeof text - 1);
	replace_mount(b);
	e.kind = MOUNT_READ;
	e.size = sizeof text;
	r = bench_reply(b, bench_start(b, e));
	assert_int_equal(r->error, 0);
	assert_int_not_equal(lookup(b->cell, NODE_ROOT, "new"), 0);
	bench_free(b);
}

/* No inode is left of a numbered file, whose name the kernel has not looked up. */
TEST(test_a_numbered_file)
{
	struct bench *b = bench_new(&config);
	struct mount_event e = {.kind = MOUNT_OPENDIR, .ino = NODE_ROOT};

	e.fh = bench_reply(b, bench_start(b, e))->fh;
	e.kind = MOUNT_NUMBER;
	e.data = bytes_of("job-");
	assert_int_equal(bench_reply(b, bench_start(b, e))->error, 0);
	replace_mount(b);
	bench_free(b);
}

/* The error of a commit that a rename has made is its writer's, who is told by its close: not a
 * child's that closes before, and whose fsync is not told again. */
TEST(test_a_lost_write_is_its_writers)
{
	enum { CHILD = 200 };
	struct bench *b = bench_new(&config);
	struct mount_event e = {.flags = O_RDWR,
	                        .lock_owner = bench_lock_owner(SHELL),
	                        .data = bytes_of("lost"),
	                        .fate = FATE_ALIVE};

	e.ino = new_file(b->cell, NODE_ROOT, "f");
	e.kind = MOUNT_OPEN;
	e.fh = bench_reply(b, bench_start(b, e))->fh;
	e.kind = MOUNT_WRITE;
	bench_start(b, e);
	b->hold = true;
	bench_start(b, (struct mount_event){.kind = MOUNT_RENAME,
	                                    .pid = CHILD,
	                                    .ino = NODE_ROOT,
	                                    .name = bytes_of("f"),
	                                    .new_ino = NODE_ROOT,
	                                    .new_name = bytes_of("g")});
	bench_answer(b); /* the lookup */
	bench_answer_with(b, RC_CANCELED);
	b->hold = false;
	bench_answer_all(b);
	replace_mount(b);
	e.kind = MOUNT_FLUSH;
	e.pid = CHILD;
	e.lock_owner = bench_lock_owner(CHILD);
	assert_int_equal(bench_reply(b, bench_start(b, e))->error, 0);
	e.kind = MOUNT_FSYNC;
	assert_int_equal(bench_reply(b, bench_start(b, e))->error, 0);
	e.kind = MOUNT_FLUSH;
	e.pid = SHELL;
	e.lock_owner = bench_lock_owner(SHELL);
	assert_int_equal(bench_reply(b, bench_start(b, e))->error, ECANCELED);
	bench_free(b);
}

/* The call of busy_bench that waits for the lock. */
static struct mount_event
waiting_call(struct bench *b)
{
	return (struct mount_event){.kind = MOUNT_FLOCK,
	                            .ino = lookup(b->cell, NODE_ROOT, "f"),
	                            .fh = 2,
	                            .lock_mode = LOCK_EXCLUSIVE,
	                            .wait = true,
	                            .whole = true};
}

/* The one whose call waits for a lock is granted it when it has called again. */
TEST(test_a_waiter_goes_on)
{
	struct bench *b = busy_bench();
	uint64_t call;
	struct mount_event e = waiting_call(b);

	b->now = mono_add(b->now, span_s(60)); /* nothing has happened for a minute */
	replace_mount(b);
	bench_wait(b, 1000);
	e.again = true;
	call = bench_start(b, e);
	assert_false(bench_answered(b, call));
	assert_int_equal(b->waiters_n, 1); /* and in the place that it had */
	assert_int_equal(b->waiters[0].acquire.acquisition, 2);
	e.again = false;
	e.fh = 1;
	e.lock_mode = LOCK_NONE;
	assert_int_equal(bench_reply(b, bench_start(b, e))->error, 0);
	assert_int_equal(bench_reply(b, call)->error, 0);
	bench_free(b);
}

/* However many callers come to a deleted node at once, each is in its second walk when its name,
 * which led to another node meanwhile, leads to a dead one again. */
TEST(test_walks_to_dead_nodes_go_on)
{
	enum { CALLERS = 200 };
	struct bench *b = bench_new(&config);
	struct mount_event named = {.kind = MOUNT_LOOKUP, .ino = NODE_ROOT, .name = bytes_of("f")};
	struct mount_event e = {.kind = MOUNT_GETATTR};

	for (int walk = 1; walk <= 2; walk++) {
		new_file(b->cell, NODE_ROOT, "f");
		for (pid_t n = 0; n < CALLERS; n++) {
			named.pid = SHELL + n;
			e.ino = bench_reply(b, bench_start(b, named))->stat.ino;
		}
		bench_other_deletes(b, "f");
		for (pid_t n = 0; n < CALLERS; n++) {
			e.pid = SHELL + n;
			assert_int_equal(bench_reply(b, bench_start(b, e))->error,
			                 walk == 1 ? ESTALE : ENOENT);
		}
		replace_mount(b);
	}
	bench_free(b);
}

/* One that polls .cell/changes at the end is woken, to ask again. */
TEST(test_a_poll_of_changes_goes_on)
{
	struct bench *b = bench_new(&config);
	struct mount_event e = {.kind = MOUNT_OPEN,
	                        .ino = MOUNT_INO_CHANGES,
	                        .flags = O_NONBLOCK,
	                        .offset = 1000,
	                        .size = 100,
	                        .wait = true};

	e.fh = bench_reply(b, bench_start(b, e))->fh;
	e.kind = MOUNT_READ;
	assert_int_equal(bench_reply(b, bench_start(b, e))->error, EAGAIN);
	e.kind = MOUNT_POLL;
	assert_int_equal(bench_reply(b, bench_start(b, e))->revents, 0);
	replace_mount(b);
	bench_wait(b, 0);
	assert_int_equal(b->update.woken_n, 1);
	assert_int_not_equal(bench_reply(b, bench_start(b, e))->revents, 0);
	bench_free(b);
}

/* A call that waits for a lock has shown what was pending, and has committed, when it began to
 * wait. What has come since is not its own: an event, and half of what another thread writes. */
TEST(test_a_waiter_does_nothing_twice)
{
	enum { OTHER = 200 };
	struct bench *b = busy_bench();
	const uint64_t f = lookup(b->cell, NODE_ROOT, "f");
	struct mount_event e = {.ino = f, .fh = 2, .data = bytes_of("half"), .whole = true};
	struct mount_event stat = {.kind = MOUNT_GETATTR, .pid = OTHER, .ino = f};

	e.kind = MOUNT_POLL;
	bench_start(b, e);
	bench_watched(b, &(struct client_watched){.kind = EVENT_CONTENTS_MODIFIED, .node = f}, 0);
	e.kind = MOUNT_WRITE;
	bench_start(b, e);
	replace_mount(b);
	e.kind = MOUNT_FLOCK;
	e.lock_mode = LOCK_EXCLUSIVE;
	e.wait = e.again = true;
	assert_false(bench_answered(b, bench_start(b, e)));
	assert_int_equal(bench_reply(b, bench_start(b, stat))->stat.size, 0);
	e.kind = MOUNT_POLL;
	assert_true(bench_reply(b, bench_start(b, e))->revents & POLLPRI);
	bench_free(b);
}

/* The kernel repeats the call of a caller that a signal has interrupted, but nobody reads it until
 * the next process does. */
TEST(test_an_interrupted_waiter_goes_on)
{
	struct bench *b = busy_bench();
	struct mount_event e = waiting_call(b);

	bench_interrupt(b, WAITER);
	assert_int_equal(bench_reply(b, WAITER)->error, EINTR);
	bench_wait(b, 90);
	replace_mount(b);
	bench_wait(b, 90);
	assert_false(bench_answered(b, bench_start(b, e)));
	assert_int_equal(b->waiters_n, 1);
	assert_int_equal(b->waiters[0].acquire.acquisition, 2);
	bench_free(b);
}

/* Of several calls of one owner, the first need not be the one whose acquire is in the queue. */
TEST(test_waiters_of_one_owner)
{
	struct bench *b = busy_bench();
	struct mount_event e = waiting_call(b);

	for (int n = 0; n < 2; n++) {
		e.lock_mode = n == 0 ? LOCK_SHARED : LOCK_EXCLUSIVE;
		bench_start(b, e);
	}
	bench_interrupt(b, WAITER);
	assert_true(bench_answered(b, WAITER));
	replace_mount(b);
	e.again = true;
	for (int n = 0; n < 2; n++) {
		e.lock_mode = n == 0 ? LOCK_SHARED : LOCK_EXCLUSIVE;
		assert_false(bench_answered(b, bench_start(b, e)));
	}
	assert_int_equal(b->waiters_n, 1);
	assert_int_equal(b->waiters[0].acquire.acquisition, 2);
	bench_free(b);
}

static void
note_since(void *user, const struct op *op, enum rc rc)
{
	if (op->code == OP_get_changes && rc == RC_OK)
		*(uint64_t *)user = op->get_changes.since;
}

/* Several may wait for the next change, the second one behind the first. What they have waited
 * through is not looked at again: by now the cell may have forgotten the place where they began. */
TEST(test_readers_of_changes_go_on)
{
	struct bench *b = bench_new(&config);
	const uint64_t f = new_file(b->cell, NODE_ROOT, "f"), from = tree_applied(b->cell->tree);
	struct mount_event e = {.kind = MOUNT_OPEN,
	                        .ino = MOUNT_INO_CHANGES,
	                        .offset = (int64_t)from,
	                        .size = 1000};
	uint64_t since, calls[2];

	e.fh = bench_reply(b, bench_start(b, e))->fh;
	e.kind = MOUNT_READ;
	for (int n = 0; n < 2; n++)
		bench_start(b, e);
	release(b->cell, b->other, BENCH_OTHER_OWNER, 1, f); /* nothing */
	assert_true(tree_applied(b->cell->tree) > from);
	bench_wait(b, 1000);
	replace_mount(b);
	b->heard = note_since;
	b->user = &since;
	e.again = true;
	for (int n = 0; n < 2; n++) {
		calls[n] = bench_start(b, e);
		assert_false(bench_answered(b, calls[n]));
	}
	assert_int_equal(since, tree_applied(b->cell->tree));
	for (int n = 0; n < 2; n++) {
		new_file(b->cell, NODE_ROOT, n == 0 ? "g" : "h");
		bench_wait(b, 1000);
		assert_true(bench_reply(b, calls[n])->data.len > 0);
	}
	bench_free(b);
}

/* The kernel has an answer to a poll already, and refuses the one to the same poll made again: what
 * that finds wakes it. So it is when the watch was refused, and the file was changed meanwhile. */
TEST(test_a_poll_made_again_wakes)
{
	struct bench *b = bench_new(&config);
	const uint64_t f = new_file(b->cell, NODE_ROOT, "f");
	struct mount_event e = {.kind = MOUNT_OPEN, .ino = f, .size = 100, .wait = true};
	const struct client_watched gap = {.kind = EVENT_GAP, .node = f};

	e.fh = bench_reply(b, bench_start(b, e))->fh;
	e.kind = MOUNT_POLL;
	bench_start(b, e);
	bench_watched(b, &gap, 0);
	e.kind = MOUNT_READ;
	bench_start(b, e);
	e.kind = MOUNT_POLL;
	assert_false(bench_reply(b, bench_start(b, e))->revents & POLLPRI);
	run(b->cell, b->other, OP(set_contents, .node = f, .contents = bytes_of("new")));
	bench_start(b, (struct mount_event){.kind = MOUNT_GETATTR, .ino = f});
	replace_mount(b);
	e.again = true;
	bench_start(b, e);
	assert_int_equal(b->update.woken_n, 1);
	bench_free(b);
}
