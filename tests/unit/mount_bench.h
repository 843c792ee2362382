/* A mount under test: its requests are answered by a real tree, at once or when the test says so,
 * and its session is whatever the test says. The trace tells which requests went out:
 *
 *   lookup "f" | get_attr | get_contents | get_contents but 2 | set_contents any "x"
 * | set_contents =2 "x" | append "x" | create "f" | rename "a" "b" | delete "f"
 * | acquire exclusive wait | release | cancel ...
 *
 * with "&" in front of those that must stay in order before everything later. */
#ifndef LSFS_TESTS_MOUNT_BENCH_H
#define LSFS_TESTS_MOUNT_BENCH_H

#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include "fs/mount/mount.h"
#include "tests/unit/tree_fixture.h"

/* Processes; the lock_owner of each is pid + 1. Threads of SHELL: 100 to 199, and so on. */
enum { SHELL = 100, CHILD = 200, OTHER = 300, THREADS = 100 };

struct client {
	struct client_status status;
};

struct pending {
	uint64_t token;
	bool ordered;
	struct bytes packed;
	struct op op;
};

struct bench_waiter {
	uint64_t session;
	struct acquire acquire;
};

struct bench {
	struct client client;
	struct mount *mount;
	struct mount_update update;
	struct fixture *cell;
	uint64_t session, other; /* this mount's, and one of another machine */
	mono_t now;
	uint64_t calls;
	bool hold;               /* requests wait for bench_answer */
	struct pending *pending;
	size_t pending_n, pending_room;
	struct bench_waiter *waiters;
	size_t waiters_n, waiters_room;
	struct mount_reply *replies; /* by call number; kind of those not answered: -1 */
	size_t replies_room;
	size_t fetched;          /* bytes of contents that the cell has sent */
	struct buffer data;      /* of the last reply that had some */
	struct buffer names;     /* of the last listing, each behind a blank */
	struct buffer trace;
	uint64_t stale_inodes;   /* count */
	bool forget_names;
};

struct file {
	uint64_t ino, fh;
	pid_t opener;
	int flags; /* of its open, and so of its writes */
};

/* Around each test: a mount with a bench of its own in *state. */
int bench_setup(void **state);
int bench_teardown(void **state);
struct bench *bench_new(const struct mount_config *config);
void bench_free(struct bench *b);

/* One event; its requests are answered unless b->hold. Returns the call's number. Its pid is the
 * calling thread: of which process that is the mount is told only if it wants to know. */
uint64_t bench_start(struct bench *b, struct mount_event event);
bool bench_answered(struct bench *b, uint64_t call);
/* The answer, which must have been given. */
struct mount_reply *bench_reply(struct bench *b, uint64_t call);
/* Both; for calls that are answered at once. */
struct mount_reply *bench_call(struct bench *b, struct mount_event event);
int bench_error(struct bench *b, struct mount_event event);
/* Lets the cell answer the first request that waits, or with this code instead. */
void bench_answer(struct bench *b);
void bench_answer_with(struct bench *b, enum rc rc);
/* It answers, but about the node `node`, of a kind that there is not and of that size. */
void bench_answer_nonsense(struct bench *b, uint64_t node, uint8_t kind, uint64_t size);
void bench_answer_all(struct bench *b);
/* A signal to the caller: one that it handles, or one that kills it. */
void bench_interrupt(struct bench *b, uint64_t call);
void bench_kill(struct bench *b, uint64_t call);
void bench_wait(struct bench *b, int64_t ms);
/* The session has ended and another one was opened. */
void bench_new_session(struct bench *b);
void bench_state(struct bench *b, enum client_state state);

/* What has been asked since the last look, each in its own brackets. */
void bench_asked(struct bench *b, const char *expected);

/* What the mount wants to know at this FLUSH, with the process known. */
unsigned bench_flush_wants(struct bench *b, struct file f, pid_t pid);

/* The kernel's side of system calls; `pid` is the calling thread. */
struct file k_open(struct bench *b, const char *name, int flags, pid_t pid);
int k_open_error(struct bench *b, const char *name, int flags);
uint64_t k_lookup(struct bench *b, const char *name);
int k_write(struct bench *b, struct file f, pid_t pid, const char *text);
int k_write_at(struct bench *b, struct file f, pid_t pid, int64_t offset, const char *text);
void k_read(struct bench *b, struct file f, int64_t offset, const char *expected);
int k_flush(struct bench *b, struct file f, pid_t pid, int descriptors);
int k_flush_killed(struct bench *b, struct file f, pid_t pid);
int k_ftruncate(struct bench *b, struct file f, uint64_t size);
void k_release(struct bench *b, struct file f);
void k_close(struct bench *b, struct file f, pid_t pid); /* flush, release */
int k_flock(struct bench *b, struct file f, enum lock_mode mode, bool wait);
uint64_t k_flock_start(struct bench *b, struct file f, enum lock_mode mode);
int k_setlk(struct bench *b, struct file f, pid_t pid, enum lock_mode mode);
struct mount_stat k_stat(struct bench *b, uint64_t ino, pid_t pid);
int k_unlink(struct bench *b, const char *name);
int k_rename(struct bench *b, const char *name, const char *new_name);
int k_setxattr(struct bench *b, uint64_t ino, const char *name, const char *value);
int k_getxattr(struct bench *b, uint64_t ino, const char *name, const char *expected);

/* Somebody else's doing. */
void other_writes(struct bench *b, const char *name, const char *contents);
void other_deletes(struct bench *b, const char *name);
void other_locks(struct bench *b, uint64_t node, enum lock_mode mode);
void other_unlocks(struct bench *b, uint64_t node);
void assert_file(struct bench *b, const char *name, const char *contents);
void assert_lock(struct bench *b, uint64_t node, enum lock_state state);

#endif
