/* The users for whom the requests of a mount act: the caller of a path, the opener of a file. */
#include <string.h>
#include "tests/unit/mount_bench.h"

static const struct mount_config config = {.cell = "local", .uid = 1000, .gid = 1000};

static uint64_t
call(struct bench *b, const char *user, struct mount_event e)
{
	e.pid = SHELL;
	e.user = bytes_of(user);
	return bench_start(b, e);
}

/* The last request acts for this user. */
static void
expect(struct bench *b, enum op_code code, const char *user)
{
	const struct client_call *r = &b->update.requests[b->update.requests_n - 1];

	assert_true(b->update.requests_n > 0);
	assert_int_equal(r->op.code, code);
	assert_int_equal(r->user.len, strlen(user));
	assert_true(bytes_equal(r->user, bytes_of(user)));
}

TEST(test_the_caller_of_a_path)
{
	struct bench *b = bench_new(&config);
	const uint64_t f = new_file(b->cell, NODE_ROOT, "f");

	b->hold = true;
	call(b, "bob", (struct mount_event){.kind = MOUNT_GETATTR, .ino = f});
	expect(b, OP_get_attr, "bob");
	call(b, "", (struct mount_event){.kind = MOUNT_GETATTR, .ino = f});
	expect(b, OP_get_attr, "");
	call(b, "ann",
	     (struct mount_event){.kind = MOUNT_SETXATTR,
	                          .ino = f,
	                          .name = bytes_of("user.ls.lock"),
	                          .data = bytes_of("exclusive")});
	expect(b, OP_acquire, "ann");
	bench_answer_all(b);
	bench_free(b);
}

TEST(test_the_opener_of_a_file)
{
	struct bench *b = bench_new(&config);
	const uint64_t f = new_file(b->cell, NODE_ROOT, "f");
	struct mount_event e = {.ino = f,
	                        .flags = O_RDWR,
	                        .data = bytes_of("x"),
	                        .fate = FATE_ALIVE};

	e.kind = MOUNT_OPEN;
	e.lock_owner = bench_lock_owner(SHELL);
	e.fh = bench_reply(b, call(b, "bob", e))->fh;
	b->hold = true;
	e.kind = MOUNT_FLOCK;
	e.lock_mode = LOCK_EXCLUSIVE;
	call(b, "ann", e);
	expect(b, OP_acquire, "bob");
	bench_answer_all(b);
	e.kind = MOUNT_WRITE;
	call(b, "ann", e);
	expect(b, OP_get_contents, "bob"); /* the lock's holder sees what the last one wrote */
	bench_answer_all(b);
	e.kind = MOUNT_FSYNC;
	call(b, "ann", e);
	expect(b, OP_set_contents, "bob");
	bench_answer_all(b);
	e.kind = MOUNT_RELEASE;
	call(b, "", e);
	bench_answer_all(b);
	bench_free(b);
}

/* A write through the handle, and its commit; returns the digits of that request. */
static uint8_t
digits_of_a_commit(struct bench *b, struct mount_event e)
{
	uint8_t digits;

	b->hold = true;
	e.kind = MOUNT_WRITE;
	call(b, "", e);
	bench_answer_all(b);
	e.kind = MOUNT_FSYNC;
	call(b, "", e);
	expect(b, OP_set_contents, "");
	digits = b->update.requests[b->update.requests_n - 1].opened.check[0];
	bench_answer_all(b);
	b->hold = false;
	return digits;
}

/* A handle has the rights of its open, and the newest digits that prove all of them. */
TEST(test_the_check_digits_of_a_handle)
{
	struct bench *b = bench_new(&config);
	const uint64_t f = new_file(b->cell, NODE_ROOT, "f");
	struct mount_event e = {.ino = f,
	                        .flags = O_RDWR,
	                        .data = bytes_of("x"),
	                        .fate = FATE_ALIVE};

	b->digits = 1;
	e.kind = MOUNT_OPEN;
	e.fh = bench_reply(b, call(b, "", e))->fh;
	assert_int_equal(digits_of_a_commit(b, e), 1);
	b->digits = 2;
	assert_int_equal(digits_of_a_commit(b, e), 1);
	b->digits = 3;
	assert_int_equal(digits_of_a_commit(b, e), 2);
	new_file(b->cell, lookup(b->cell, NODE_ROOT, "acl"), "none");
	assert_int_equal(run(b->cell, b->other,
	                     OP(set_acl, .node = f, .which = ACL_WRITE, .name = bytes_of("none"))),
	                 RC_OK);
	b->digits = 4;
	assert_int_equal(digits_of_a_commit(b, e), 3);
	assert_int_equal(digits_of_a_commit(b, e), 3);
	e.kind = MOUNT_RELEASE;
	call(b, "", e);
	bench_free(b);
}

/* The node is watched for this user by the last step. */
static void
expect_watch(struct bench *b, const char *user)
{
	assert_int_equal(b->update.watches_n, 1);
	assert_int_not_equal(b->update.watches[0].mask, 0);
	assert_true(bytes_equal(b->update.watches[0].user, bytes_of(user)));
}

/* A node that several users have open is watched for one who may read it, as long as there is one:
 * its events are for all of them. */
TEST(test_the_watcher_of_a_file)
{
	struct bench *b = bench_new(&config);
	const uint64_t f = new_file(b->cell, NODE_ROOT, "f");
	struct mount_event bobs = {.ino = f, .flags = O_WRONLY}, anns = bobs, eves = bobs;
	const struct op hide = {.code = OP_set_acl, .set_acl = {f, ACL_READ, bytes_of("none")}};
	const struct op show = {.code = OP_set_acl, .set_acl = {f, ACL_READ, bytes_of("everyone")}};

	new_file(b->cell, lookup(b->cell, NODE_ROOT, "acl"), "none");
	assert_int_equal(run(b->cell, b->other, &hide), RC_OK);
	bobs.kind = anns.kind = eves.kind = MOUNT_OPEN;
	bobs.fh = bench_reply(b, call(b, "bob", bobs))->fh;
	assert_int_equal(run(b->cell, b->other, &show), RC_OK);
	anns.fh = bench_reply(b, call(b, "ann", anns))->fh;
	eves.fh = bench_reply(b, call(b, "eve", eves))->fh;
	bobs.kind = anns.kind = eves.kind = MOUNT_POLL;
	call(b, "bob", bobs);
	expect_watch(b, "bob");
	call(b, "ann", anns);
	expect_watch(b, "ann");
	call(b, "eve", eves);
	assert_int_equal(b->update.watches_n, 0);
	bobs.kind = anns.kind = eves.kind = MOUNT_RELEASE;
	call(b, "ann", anns);
	expect_watch(b, "eve");
	call(b, "eve", eves);
	expect_watch(b, "bob");
	bench_watched(b, &(struct client_watched){.kind = EVENT_GAP, .node = f}, 0);
	call(b, "bob", bobs);
	assert_int_equal(b->update.watches_n, 0); /* it was refused */
	bench_free(b);
}

static struct mount_event
opened_by(struct bench *b, const char *user, uint64_t node)
{
	struct mount_event e = {.kind = MOUNT_OPEN, .ino = node, .flags = O_WRONLY};

	e.fh = bench_reply(b, call(b, user, e))->fh;
	e.kind = MOUNT_POLL;
	return e;
}

/* A watch that is refused to one user is asked for another one at once: the first may have lost the
 * right to read that he had at his open. When none gets it, all try again after a second. */
TEST(test_a_watcher_who_may_not_read_any_more)
{
	struct bench *b = bench_new(&config);
	const uint64_t f = new_file(b->cell, NODE_ROOT, "f");
	const struct client_watched refused = {.kind = EVENT_GAP, .node = f};
	struct mount_event anns = opened_by(b, "ann", f), eves = opened_by(b, "eve", f);

	call(b, "ann", anns);
	expect_watch(b, "ann");
	call(b, "eve", eves);
	assert_int_equal(b->update.watches_n, 0);
	bench_watched(b, &refused, 0);
	expect_watch(b, "eve");
	call(b, "ann", anns);
	assert_int_equal(b->update.watches_n, 0);
	bench_watched(b, &refused, 0);
	assert_int_equal(b->update.watches_n, 0);
	bench_wait(b, 1000);
	call(b, "eve", eves);
	expect_watch(b, "ann");
	bench_watched(b, &refused, 0);
	expect_watch(b, "eve");
	eves.kind = MOUNT_RELEASE;
	call(b, "eve", eves);
	expect_watch(b, "ann");
	bench_free(b);
}
