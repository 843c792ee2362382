/* Locks: who owns them, what interrupts and closes do to them, and what is committed around
 * them. */
#include <sys/xattr.h>
#include "tests/unit/mount_bench.h"

static struct file
open_file(struct bench *b, const char *name)
{
	return k_open(b, name, O_RDWR | O_CREAT, SHELL);
}

/* ---- flock ---- */

static void
test_flock_of_two_opens(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f"), g = open_file(b, "f");

	assert_int_equal(k_flock(b, f, LOCK_NONE, false), 0); /* nothing held: no request */
	buffer_reset(&b->trace);
	assert_int_equal(k_flock(b, f, LOCK_EXCLUSIVE, true), 0);
	bench_asked(b, "acquire exclusive wait");
	assert_int_equal(k_flock(b, g, LOCK_SHARED, false), EAGAIN);
	assert_lock(b, f.ino, LOCK_STATE_EXCLUSIVE);
	buffer_reset(&b->trace);
	assert_int_equal(k_flock(b, f, LOCK_NONE, false), 0);
	bench_asked(b, "release");
	assert_int_equal(k_flock(b, g, LOCK_SHARED, false), 0);
	k_close(b, g, SHELL);
	assert_lock(b, f.ino, LOCK_STATE_FREE);
	k_close(b, f, SHELL);
}

static void
test_flock_waits_for_its_grant(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");
	uint64_t call;

	other_locks(b, f.ino, LOCK_EXCLUSIVE);
	call = k_flock_start(b, f, LOCK_EXCLUSIVE);
	assert_false(bench_answered(b, call));
	other_unlocks(b, f.ino);
	assert_int_equal(bench_reply(b, call)->error, 0);
	assert_lock(b, f.ino, LOCK_STATE_EXCLUSIVE);
	k_close(b, f, SHELL);
}

static void
test_failed_conversion_keeps_the_lock(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");

	other_locks(b, f.ino, LOCK_SHARED);
	assert_int_equal(k_flock(b, f, LOCK_SHARED, false), 0);
	assert_int_equal(k_flock(b, f, LOCK_EXCLUSIVE, false), EAGAIN);
	other_unlocks(b, f.ino);
	assert_lock(b, f.ino, LOCK_STATE_SHARED);
	assert_int_equal(k_flock(b, f, LOCK_NONE, false), 0);
	assert_lock(b, f.ino, LOCK_STATE_FREE);
	k_close(b, f, SHELL);
}

/* ---- interrupts ---- */

/* SA_RESTART: the same call comes again at once and goes on waiting in the same place. */
static void
test_interrupted_wait_comes_again(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");
	uint64_t call;

	other_locks(b, f.ino, LOCK_EXCLUSIVE);
	call = k_flock_start(b, f, LOCK_EXCLUSIVE);
	bench_interrupt(b, call);
	assert_int_equal(bench_reply(b, call)->error, EINTR);
	assert_true(mount_deadline(b->mount).ns == b->now.ns + span_ms(100).ns);
	bench_wait(b, 50);
	buffer_reset(&b->trace);
	call = k_flock_start(b, f, LOCK_EXCLUSIVE);
	assert_false(bench_answered(b, call));
	bench_wait(b, 500);
	bench_asked(b, "");
	other_unlocks(b, f.ino);
	assert_int_equal(bench_reply(b, call)->error, 0);
	k_close(b, f, SHELL);
	assert_lock(b, f.ino, LOCK_STATE_FREE);
}

/* A grant that comes between the signal and the second call is waiting for it. */
static void
test_grant_between_two_waits(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");
	uint64_t call;

	other_locks(b, f.ino, LOCK_EXCLUSIVE);
	call = k_flock_start(b, f, LOCK_SHARED);
	bench_interrupt(b, call);
	other_unlocks(b, f.ino);
	buffer_reset(&b->trace);
	assert_int_equal(bench_reply(b, k_flock_start(b, f, LOCK_SHARED))->error, 0);
	bench_asked(b, "");
	assert_lock(b, f.ino, LOCK_STATE_SHARED);
	k_close(b, f, SHELL);
}

static void
test_interrupted_wait_is_given_back(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");
	uint64_t call;

	other_locks(b, f.ino, LOCK_EXCLUSIVE);
	call = k_flock_start(b, f, LOCK_EXCLUSIVE);
	bench_interrupt(b, call);
	buffer_reset(&b->trace);
	bench_wait(b, 99);
	bench_asked(b, "");
	bench_wait(b, 1);
	bench_asked(b, "&cancel");
	other_unlocks(b, f.ino);
	assert_lock(b, f.ino, LOCK_STATE_FREE);
	k_close(b, f, SHELL);
}

/* A grant that overtook the signal, and nobody comes: what was held before is held again. */
static void
test_late_grant_of_a_conversion(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");
	uint64_t call;

	other_locks(b, f.ino, LOCK_SHARED);
	assert_int_equal(k_flock(b, f, LOCK_SHARED, false), 0);
	call = k_flock_start(b, f, LOCK_EXCLUSIVE);
	bench_interrupt(b, call);
	other_unlocks(b, f.ino);
	assert_lock(b, f.ino, LOCK_STATE_EXCLUSIVE);
	bench_wait(b, 100);
	assert_lock(b, f.ino, LOCK_STATE_SHARED);
	assert_int_equal(k_flock(b, f, LOCK_NONE, false), 0);
	assert_lock(b, f.ino, LOCK_STATE_FREE);
	k_close(b, f, SHELL);
}

static void
test_other_lock_call_ends_the_wait(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");
	uint64_t call;

	other_locks(b, f.ino, LOCK_SHARED);
	call = k_flock_start(b, f, LOCK_EXCLUSIVE);
	bench_interrupt(b, call);
	buffer_reset(&b->trace);
	b->hold = true;
	call = k_flock_start(b, f, LOCK_SHARED);
	bench_asked(b, "&cancel"); /* the debt first */
	bench_answer(b);
	bench_asked(b, "acquire shared wait");
	bench_answer(b);
	assert_int_equal(bench_reply(b, call)->error, 0);
	b->hold = false;
	k_close(b, f, SHELL);
}

static void
test_unlock_pays_the_debt(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");
	uint64_t call;

	other_locks(b, f.ino, LOCK_SHARED);
	assert_int_equal(k_flock(b, f, LOCK_SHARED, false), 0);
	call = k_flock_start(b, f, LOCK_EXCLUSIVE);
	bench_interrupt(b, call);
	buffer_reset(&b->trace);
	assert_int_equal(k_flock(b, f, LOCK_NONE, false), 0);
	bench_asked(b, "&cancel | release");
	other_unlocks(b, f.ino);
	assert_lock(b, f.ino, LOCK_STATE_FREE);
	k_close(b, f, SHELL);
}

/* A signal before it is known that the lock has to wait: the wait ends when that is known. */
static void
test_interrupted_before_it_waits(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");
	uint64_t call;

	b->hold = true;
	call = k_flock_start(b, f, LOCK_EXCLUSIVE);
	bench_interrupt(b, call);
	assert_false(bench_answered(b, call));
	bench_answer(b);
	assert_int_equal(bench_reply(b, call)->error, 0);
	b->hold = false;
	assert_int_equal(k_flock(b, f, LOCK_NONE, false), 0);
	other_locks(b, f.ino, LOCK_EXCLUSIVE);
	b->hold = true;
	call = k_flock_start(b, f, LOCK_EXCLUSIVE);
	bench_interrupt(b, call);
	bench_answer(b);
	assert_int_equal(bench_reply(b, call)->error, EINTR);
	call = k_flock_start(b, f, LOCK_SHARED);
	bench_interrupt(b, call);
	bench_wait(b, 99);
	assert_false(bench_answered(b, call)); /* it may still be free */
	bench_wait(b, 1);
	assert_int_equal(bench_reply(b, call)->error, EINTR);
	bench_answer_all(b);
}

/* SIGKILL while waiting: interrupt, flush, release. */
static void
test_killed_waiter_leaves_nothing(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");
	uint64_t call;

	other_locks(b, f.ino, LOCK_EXCLUSIVE);
	b->hold = true;
	call = k_flock_start(b, f, LOCK_EXCLUSIVE);
	bench_interrupt(b, call);
	assert_int_equal(k_flush_killed(b, f, SHELL), 0);
	k_release(b, f);
	bench_answer_all(b);
	other_unlocks(b, f.ino);
	assert_lock(b, f.ino, LOCK_STATE_FREE);
	assert_true(mono_is_never(mount_deadline(b->mount)));
}

static uint64_t
attempt(struct bench *b, struct file f)
{
	return bench_start(b, (struct mount_event){.kind = MOUNT_FLOCK, .ino = f.ino, .fh = f.fh,
	                                           .lock_mode = LOCK_EXCLUSIVE, .whole = true});
}

/* An attempt that would not wait, given up before its answer: what it got is given back. */
static void
test_interrupted_attempt(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");
	uint64_t call;

	b->hold = true;
	call = attempt(b, f);
	bench_kill(b, call);
	assert_int_equal(bench_reply(b, call)->error, EINTR);
	bench_answer_all(b);
	assert_lock(b, f.ino, LOCK_STATE_EXCLUSIVE);
	bench_wait(b, 100);
	bench_answer_all(b);
	assert_lock(b, f.ino, LOCK_STATE_FREE);
}

/* SA_RESTART while the cell does not answer: the same attempt joins the one under way. */
static void
test_attempt_comes_again(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");
	uint64_t call;

	b->hold = true;
	call = attempt(b, f);
	bench_state(b, CLIENT_JEOPARDY);
	buffer_reset(&b->trace);
	for (int i = 0; i < 5; i++) {
		bench_interrupt(b, call);
		assert_int_equal(bench_reply(b, call)->error, EINTR);
		call = attempt(b, f);
		bench_wait(b, 1);
	}
	bench_asked(b, "");
	bench_state(b, CLIENT_SAFE);
	bench_answer(b);
	assert_int_equal(bench_reply(b, call)->error, 0);
	assert_lock(b, f.ino, LOCK_STATE_EXCLUSIVE);
	b->hold = false;
	bench_wait(b, 1000);
	assert_lock(b, f.ino, LOCK_STATE_EXCLUSIVE);
	k_close(b, f, SHELL);
}

/* While the cell answers, no signal makes a call fail. */
static void
test_signal_and_answer(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");
	struct mount_event create = {.kind = MOUNT_CREATE, .ino = NODE_ROOT,
	                             .name = bytes_of("new"), .mode = 0644,
	                             .flags = O_CREAT | O_EXCL | O_RDWR};
	uint64_t call;

	b->hold = true;
	call = bench_start(b, create);
	bench_interrupt(b, call);
	bench_wait(b, 999);
	bench_interrupt(b, call); /* does not begin anew */
	assert_false(bench_answered(b, call));
	bench_answer_all(b);
	assert_int_equal(bench_reply(b, call)->error, 0);
	call = attempt(b, f);
	bench_interrupt(b, call);
	bench_answer(b);
	assert_int_equal(bench_reply(b, call)->error, 0);
	call = bench_start(b, (struct mount_event){.kind = MOUNT_FLOCK, .ino = f.ino, .fh = f.fh,
	                                           .lock_mode = LOCK_NONE, .whole = true});
	bench_interrupt(b, call);
	assert_false(bench_answered(b, call));
	bench_answer(b);
	assert_int_equal(bench_reply(b, call)->error, 0);
	assert_true(mono_is_never(mount_deadline(b->mount)));
	assert_lock(b, f.ino, LOCK_STATE_FREE);
}

/* A caller that dies waits for nothing, nobody waits for longer than a second, and in jeopardy
 * nobody waits. */
static void
test_signal_without_answer(void **state)
{
	struct bench *b = *state;
	struct mount_event mkdir = {.kind = MOUNT_MKDIR, .ino = NODE_ROOT,
	                            .name = bytes_of("d"), .mode = 0755};
	uint64_t call, other;

	b->hold = true;
	call = bench_start(b, mkdir);
	bench_kill(b, call);
	assert_int_equal(bench_reply(b, call)->error, EINTR);
	call = bench_start(b, mkdir);
	bench_interrupt(b, call);
	assert_true(mount_deadline(b->mount).ns == b->now.ns + span_ms(1000).ns);
	bench_wait(b, 1000);
	assert_int_equal(bench_reply(b, call)->error, EINTR);
	call = bench_start(b, mkdir);
	other = bench_start(b, mkdir);
	bench_interrupt(b, call);
	bench_state(b, CLIENT_JEOPARDY);
	assert_int_equal(bench_reply(b, call)->error, EINTR);
	assert_false(bench_answered(b, other));
	bench_interrupt(b, other);
	assert_int_equal(bench_reply(b, other)->error, EINTR);
	bench_answer_all(b);
}

static void
test_two_threads_one_descriptor(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");
	uint64_t first, second;

	other_locks(b, f.ino, LOCK_EXCLUSIVE);
	first = k_flock_start(b, f, LOCK_SHARED);
	assert_int_equal(k_flock(b, f, LOCK_SHARED, false), EAGAIN);
	second = k_flock_start(b, f, LOCK_EXCLUSIVE);
	assert_int_equal(k_flock(b, f, LOCK_NONE, false), 0);
	assert_false(bench_answered(b, second));
	other_unlocks(b, f.ino);
	assert_int_equal(bench_reply(b, first)->error, 0);
	assert_int_equal(bench_reply(b, second)->error, 0);
	assert_lock(b, f.ino, LOCK_STATE_EXCLUSIVE);
	k_close(b, f, SHELL);
}

/* Waiting for a lock holds up nothing else on the handle. */
static void
test_read_while_waiting(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");

	other_locks(b, f.ino, LOCK_EXCLUSIVE);
	k_flock_start(b, f, LOCK_EXCLUSIVE);
	k_read(b, f, 0, "");
	other_unlocks(b, f.ino);
	k_close(b, f, SHELL);
}

/* ---- commits around locks ---- */

static void
test_commit_before_unlock(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");

	assert_int_equal(k_flock(b, f, LOCK_EXCLUSIVE, true), 0);
	assert_int_equal(k_write(b, f, SHELL, "x"), 0);
	buffer_reset(&b->trace);
	assert_int_equal(k_flock(b, f, LOCK_NONE, true), 0);
	bench_asked(b, "set_contents =1 \"x\" | release");
	k_close(b, f, SHELL);
}

static void
test_unlock_tells_the_commits_error(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");

	assert_int_equal(k_flock(b, f, LOCK_EXCLUSIVE, true), 0);
	k_read(b, f, 0, "");
	assert_int_equal(k_write(b, f, SHELL, "x"), 0);
	other_writes(b, "f", "y");
	assert_int_equal(k_flock(b, f, LOCK_NONE, true), ECANCELED);
	assert_lock(b, f.ino, LOCK_STATE_FREE);
	k_close(b, f, SHELL);
}

static void
test_commit_before_lock(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");

	assert_int_equal(k_write(b, f, SHELL, "x"), 0);
	buffer_reset(&b->trace);
	assert_int_equal(k_flock(b, f, LOCK_EXCLUSIVE, true), 0);
	bench_asked(b, "set_contents =1 \"x\" | acquire exclusive wait");
	k_close(b, f, SHELL);
}

/* exec 9<>f; flock 9; read x <&9 sees what the last holder wrote. */
static void
test_lock_renews_the_snapshot(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");

	k_read(b, f, 0, "");
	other_writes(b, "f", "12");
	assert_int_equal(k_flock(b, f, LOCK_EXCLUSIVE, true), 0);
	k_read(b, f, 1, "2");
	assert_int_equal(k_write_at(b, f, SHELL, 2, "3"), 0);
	k_close(b, f, SHELL);
	assert_file(b, "f", "123");
}

/* ---- fcntl ---- */

static void
test_record_lock_freed_by_any_close(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f"), g = open_file(b, "f");

	assert_int_equal(k_setlk(b, f, SHELL, LOCK_EXCLUSIVE), 0);
	assert_int_equal(k_setlk(b, g, CHILD, LOCK_SHARED), EAGAIN);
	assert_int_equal(k_flush(b, g, CHILD, 0), 0); /* another process */
	assert_lock(b, f.ino, LOCK_STATE_EXCLUSIVE);
	assert_int_equal(bench_flush_wants(b, g, SHELL), WANTS_FATE);
	assert_int_equal(k_flush(b, g, SHELL, 0), 0); /* another descriptor of the owner */
	assert_lock(b, f.ino, LOCK_STATE_FREE);
	k_release(b, g);
	k_close(b, f, SHELL);
}

/* What was written through the descriptor that holds it is committed although another one
 * closes. */
static void
test_record_lock_commits_before_it_goes(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f"), g = open_file(b, "f");

	assert_int_equal(k_setlk(b, f, SHELL, LOCK_EXCLUSIVE), 0);
	assert_int_equal(k_write(b, f, SHELL, "x"), 0);
	buffer_reset(&b->trace);
	k_close(b, g, SHELL);
	bench_asked(b, "&set_contents =1 \"x\" | release");
	k_close(b, f, SHELL);
}

/* An open file description's lock: no close of a process owns it, only the last release. */
static void
test_record_lock_freed_by_release(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");

	assert_int_equal(bench_error(b, (struct mount_event){
		.kind = MOUNT_SETLK, .fh = f.fh, .lock_owner = 999, .lock_mode = LOCK_EXCLUSIVE,
		.whole = true}), 0);
	assert_int_equal(k_flush(b, f, SHELL, 0), 0);
	assert_lock(b, f.ino, LOCK_STATE_EXCLUSIVE);
	k_release(b, f);
	assert_lock(b, f.ino, LOCK_STATE_FREE);
}

static void
test_byte_ranges(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");
	struct mount_event part = {.kind = MOUNT_SETLK, .fh = f.fh, .lock_owner = SHELL + 1,
	                           .lock_mode = LOCK_EXCLUSIVE};

	assert_int_equal(bench_error(b, part), ENOLCK);
	part.lock_mode = LOCK_NONE;
	assert_int_equal(bench_error(b, part), 0);
	assert_int_equal(k_setlk(b, f, SHELL, LOCK_EXCLUSIVE), 0);
	assert_int_equal(bench_error(b, part), ENOLCK);
	part.kind = MOUNT_GETLK;
	assert_int_equal(bench_error(b, part), ENOLCK);
	assert_int_equal(k_setlk(b, f, SHELL, LOCK_NONE), 0);
	assert_lock(b, f.ino, LOCK_STATE_FREE);
	k_close(b, f, SHELL);
}

static void
test_getlk(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");
	struct mount_event ask = {.kind = MOUNT_GETLK, .fh = f.fh, .lock_owner = CHILD + 1,
	                          .lock_mode = LOCK_EXCLUSIVE, .whole = true};

	assert_int_equal(k_setlk(b, f, SHELL, LOCK_SHARED), 0);
	assert_int_equal(bench_call(b, ask)->lock_mode, LOCK_SHARED);
	assert_int_equal(bench_call(b, ask)->lock_pid, SHELL);
	ask.lock_mode = LOCK_SHARED;
	assert_int_equal(bench_call(b, ask)->lock_mode, LOCK_NONE);
	ask.lock_mode = LOCK_EXCLUSIVE;
	ask.lock_owner = SHELL + 1;
	assert_int_equal(bench_call(b, ask)->lock_mode, LOCK_NONE);
	k_close(b, f, SHELL);
}

static void
test_both_kinds_through_one_descriptor(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");

	assert_int_equal(k_flock(b, f, LOCK_EXCLUSIVE, true), 0);
	assert_int_equal(k_setlk(b, f, SHELL, LOCK_EXCLUSIVE), EDEADLK);
	assert_int_equal(k_flock(b, f, LOCK_NONE, true), 0);
	assert_int_equal(k_setlk(b, f, SHELL, LOCK_EXCLUSIVE), 0);
	assert_int_equal(k_flock(b, f, LOCK_EXCLUSIVE, true), EDEADLK);
	k_close(b, f, SHELL);
}

/* The kernel's owner is an address that comes again: a killed owner's lock goes before the next. */
static void
test_recycled_lock_owner(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");
	uint64_t call;

	assert_int_equal(k_setlk(b, f, SHELL, LOCK_EXCLUSIVE), 0);
	b->hold = true;
	buffer_reset(&b->trace);
	assert_int_equal(k_flush_killed(b, f, SHELL), 0); /* does not wait for the cell */
	bench_asked(b, "&release");
	call = bench_start(b, (struct mount_event){.kind = MOUNT_SETLK, .fh = f.fh,
	                                           .lock_owner = SHELL + 1, .whole = true,
	                                           .lock_mode = LOCK_EXCLUSIVE});
	bench_answer_all(b);
	assert_int_equal(bench_reply(b, call)->error, 0);
	assert_lock(b, f.ino, LOCK_STATE_EXCLUSIVE);
}

/* ---- the attribute ---- */

static void
test_attribute_lock(void **state)
{
	struct bench *b = *state;
	uint64_t d = new_directory(b->cell, NODE_ROOT, "d");
	struct mount_event free_it = {.kind = MOUNT_REMOVEXATTR, .ino = d,
	                              .name = bytes_of("user.ls.lock")};

	assert_int_equal(k_setxattr(b, d, "user.ls.lock", "free"), 0);
	assert_int_equal(k_setxattr(b, d, "user.ls.lock", "exclusive"), 0);
	assert_int_equal(k_getxattr(b, d, "user.ls.lock", "exclusive"), 0);
	free_it.uid = 1001; /* another user's is another lock */
	assert_int_equal(bench_error(b, free_it), 0);
	assert_lock(b, d, LOCK_STATE_EXCLUSIVE);
	free_it.uid = 0;
	assert_int_equal(bench_error(b, free_it), 0);
	assert_int_equal(k_getxattr(b, d, "user.ls.lock", "free"), 0);
	other_locks(b, d, LOCK_SHARED);
	assert_int_equal(k_setxattr(b, d, "user.ls.lock", "exclusive"), EAGAIN);
	assert_int_equal(k_setxattr(b, d, "user.ls.lock", "shared"), 0);
	assert_int_equal(k_getxattr(b, d, "user.ls.lock", "shared 2"), 0);
	assert_int_equal(k_setxattr(b, d, "user.ls.lock", "mine"), EINVAL);
}

/* ---- deaths ---- */

static void
test_deleted_node_ends_waits(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f"), g = open_file(b, "f");
	uint64_t call;

	assert_int_equal(k_flock(b, f, LOCK_EXCLUSIVE, true), 0);
	call = k_flock_start(b, g, LOCK_EXCLUSIVE);
	assert_int_equal(k_unlink(b, "f"), 0);
	assert_int_equal(bench_reply(b, call)->error, ESTALE);
	assert_int_equal(k_flock(b, g, LOCK_SHARED, false), ESTALE);
	assert_int_equal(k_flock(b, f, LOCK_NONE, false), ESTALE); /* it was lost */
	assert_int_equal(k_setlk(b, g, SHELL, LOCK_NONE), ESTALE);
	assert_int_equal(k_write(b, g, SHELL, "x"), 0); /* in memory */
	buffer_reset(&b->trace);
	k_close(b, f, SHELL);
	k_close(b, g, SHELL);
	bench_asked(b, "");
}

static void
test_node_deleted_elsewhere_ends_waits(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");
	uint64_t call;

	other_locks(b, f.ino, LOCK_EXCLUSIVE);
	call = k_flock_start(b, f, LOCK_EXCLUSIVE);
	other_deletes(b, "f");
	assert_int_equal(bench_reply(b, call)->error, ESTALE);
	assert_int_equal(k_stat(b, f.ino, SHELL).nlink, 0);
	k_close(b, f, SHELL);
}

static void
test_session_death_ends_all_locks(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f"), g = open_file(b, "f"), h;
	uint64_t call;

	assert_int_equal(k_flock(b, f, LOCK_EXCLUSIVE, true), 0);
	call = k_flock_start(b, g, LOCK_EXCLUSIVE);
	bench_new_session(b);
	assert_int_equal(bench_reply(b, call)->error, ESTALE);
	assert_int_equal(k_flock(b, f, LOCK_NONE, true), ESTALE);
	assert_int_equal(k_flock(b, g, LOCK_SHARED, false), ESTALE);
	h = k_open(b, "f", O_RDONLY, SHELL);
	buffer_reset(&b->trace);
	k_close(b, f, SHELL);
	k_close(b, g, SHELL);
	bench_asked(b, ""); /* nothing of the old session is released in the new one */
	assert_int_equal(k_flock(b, h, LOCK_SHARED, false), EAGAIN); /* its delay */
	k_close(b, h, SHELL);
}

/* A handle that holds a lock on the source of a rename cannot keep it. */
static void
test_rename_of_a_locked_file(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f"), g = open_file(b, "f");

	assert_int_equal(k_flock(b, f, LOCK_EXCLUSIVE, true), 0);
	assert_int_equal(k_rename(b, "f", "t"), 0);
	assert_int_equal(k_flock(b, f, LOCK_NONE, true), ESTALE);
	assert_int_equal(k_write(b, f, SHELL, "x"), ESTALE);
	assert_int_equal(k_flock(b, g, LOCK_EXCLUSIVE, true), 0);
	assert_lock(b, lookup(b->cell, NODE_ROOT, "t"), LOCK_STATE_EXCLUSIVE);
	k_release(b, f);
	k_close(b, g, SHELL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)

static uint64_t
create_lock(struct bench *b, struct file f, const char *value, pid_t pid)
{
	return bench_start(b, (struct mount_event){
		.kind = MOUNT_SETXATTR, .ino = f.ino, .pid = pid,
		.name = bytes_of("user.ls.lock"), .data = bytes_of(value), .flags = XATTR_CREATE});
}

/* Processes of one user exclude each other: the first has it, also of two at the same time. */
static void
test_attribute_lock_of_the_first(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");
	uint64_t first, second;

	assert_int_equal(k_setxattr(b, f.ino, "user.ls.lock", "shared"), 0);
	assert_int_equal(bench_reply(b, create_lock(b, f, "exclusive", SHELL))->error, EEXIST);
	assert_lock(b, f.ino, LOCK_STATE_SHARED);
	assert_int_equal(k_setxattr(b, f.ino, "user.ls.lock", "free"), 0);
	b->hold = true;
	first = create_lock(b, f, "exclusive", SHELL);
	second = create_lock(b, f, "exclusive", OTHER);
	bench_answer_all(b);
	assert_int_equal(bench_reply(b, first)->error, 0);
	assert_int_equal(bench_reply(b, second)->error, EEXIST);
	b->hold = false;
	assert_int_equal(k_setxattr(b, f.ino, "user.ls.lock", "free"), 0);
	other_locks(b, f.ino, LOCK_EXCLUSIVE);
	assert_int_equal(bench_reply(b, create_lock(b, f, "shared", SHELL))->error, EAGAIN);
	k_close(b, f, SHELL);
}

/* Does an end of the session leave processes behind that believe in their locks? */
static void
test_file_locks_are_told(void **state)
{
	struct bench *b = *state;
	struct file f = open_file(b, "f");

	assert_int_equal(k_setxattr(b, f.ino, "user.ls.lock", "exclusive"), 0);
	assert_false(mount_has_file_locks(b->mount));
	assert_int_equal(k_setxattr(b, f.ino, "user.ls.lock", "free"), 0);
	assert_int_equal(k_flock(b, f, LOCK_SHARED, false), 0);
	assert_true(mount_has_file_locks(b->mount));
	k_close(b, f, SHELL);
	assert_false(mount_has_file_locks(b->mount));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_flock_of_two_opens),
		TEST(test_flock_waits_for_its_grant),
		TEST(test_failed_conversion_keeps_the_lock),
		TEST(test_interrupted_wait_comes_again),
		TEST(test_grant_between_two_waits),
		TEST(test_interrupted_wait_is_given_back),
		TEST(test_late_grant_of_a_conversion),
		TEST(test_other_lock_call_ends_the_wait),
		TEST(test_unlock_pays_the_debt),
		TEST(test_killed_waiter_leaves_nothing),
		TEST(test_interrupted_before_it_waits),
		TEST(test_interrupted_attempt),
		TEST(test_attempt_comes_again),
		TEST(test_signal_and_answer),
		TEST(test_signal_without_answer),
		TEST(test_attribute_lock_of_the_first),
		TEST(test_file_locks_are_told),
		TEST(test_two_threads_one_descriptor),
		TEST(test_read_while_waiting),
		TEST(test_commit_before_unlock),
		TEST(test_unlock_tells_the_commits_error),
		TEST(test_commit_before_lock),
		TEST(test_lock_renews_the_snapshot),
		TEST(test_record_lock_freed_by_any_close),
		TEST(test_record_lock_commits_before_it_goes),
		TEST(test_record_lock_freed_by_release),
		TEST(test_byte_ranges),
		TEST(test_getlk),
		TEST(test_both_kinds_through_one_descriptor),
		TEST(test_recycled_lock_owner),
		TEST(test_attribute_lock),
		TEST(test_deleted_node_ends_waits),
		TEST(test_node_deleted_elsewhere_ends_waits),
		TEST(test_session_death_ends_all_locks),
		TEST(test_rename_of_a_locked_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
