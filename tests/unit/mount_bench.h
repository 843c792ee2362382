/* A mount under test: its requests are answered by a real tree, at once or when the test says so,
 * and its session is as the test sets it. */
#ifndef LSFS_TESTS_MOUNT_BENCH_H
#define LSFS_TESTS_MOUNT_BENCH_H

#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include "fs/mount/mount.h"
#include "tests/unit/tree_fixture.h"

/* The threads of process 100 are 100 to 199, and so on; its lock owner is its pid + 1. */
enum { SHELL = 100, THREADS = 100 };

struct client {
	struct client_status status;
	mono_t leave_end; /* of the leave to cache, which is for all nodes */
	struct client_counts counts;
};

struct pending {
	uint64_t token;
	bool ordered;
	bool too_large; /* the client refuses it: a text that has a NUL or is over its limit */
	struct bytes packed;
	struct op op;
	struct client_rights opened;
	struct guard guard;
	struct result lost; /* the answer that it had, at this index; 0: none */
	uint64_t lost_at;
};

struct bench_waiter {
	uint64_t session;
	struct acquire acquire;
	enum lock_mode kept; /* through a conversion */
};

struct bench {
	struct client client;
	struct mount *mount;
	struct mount_update update;
	struct fixture *cell;
	uint64_t session, other; /* this mount's, and one of another machine */
	mono_t now;
	uint64_t calls;
	uint8_t digits; /* the first of the check digits in the cell's answers */
	bool hold;      /* requests wait for bench_answer */
	span_t late;    /* replies that the kernel keeps are written so late */
	struct pending *pending;
	size_t pending_n, pending_room;
	struct bench_waiter *waiters;
	size_t waiters_n, waiters_room;
	struct mount_reply *replies; /* by call number; kind of those not answered: -1 */
	size_t replies_room;
	/* Called after each step with its update, and for each answer of the cell; may be NULL. */
	void (*stepped)(void *user, const struct mount_update *u);
	void (*heard)(void *user, const struct op *op, enum rc rc);
	void *user;
};

/* A new bench, owned by the caller. */
struct bench *bench_new(const struct mount_config *config);
void bench_free(struct bench *b);

/* One event; its requests are answered unless b->hold. Returns the call's number. Its pid is the
 * calling thread: the mount learns the process only where it asks for it. */
uint64_t bench_start(struct bench *b, struct mount_event event);
bool bench_answered(struct bench *b, uint64_t call);
/* The answer, which must have been given. */
struct mount_reply *bench_reply(struct bench *b, uint64_t call);
/* The facts that the mount asks for before this event, with the process known. */
unsigned bench_wants(struct bench *b, struct mount_event event);
uint64_t bench_lock_owner(pid_t thread);
/* The kernel forgets lookups of an inode; there is no answer. */
void bench_forget(struct bench *b, uint64_t ino, uint64_t count);
/* Lets the cell answer the first request that waits, or with this code instead. */
void bench_answer(struct bench *b);
void bench_answer_with(struct bench *b, enum rc rc);
/* The same for the last request: the cell answers a read before the commands that came earlier. */
void bench_answer_newest(struct bench *b);
/* The first request, a create or a rename, takes effect; its answer is lost, so it comes again. */
void bench_lose_answer(struct bench *b);
/* The answer is about the node `node`, of a kind that there is not and of that size. */
void bench_answer_nonsense(struct bench *b, uint64_t node, uint8_t kind, uint64_t size);
void bench_answer_all(struct bench *b);
/* A signal to the caller: one that it handles, none (it was frozen), or one that kills it. */
void bench_interrupt(struct bench *b, uint64_t call);
void bench_freeze(struct bench *b, uint64_t call);
void bench_kill(struct bench *b, uint64_t call);
void bench_wait(struct bench *b, int64_t ms);
/* The client drops a node from its cache; 0: everything. */
void bench_dropped(struct bench *b, uint64_t node);
/* The client tells of an event, at this time of day. */
void bench_watched(struct bench *b, const struct client_watched *w, int64_t wall_ns);
/* The session has ended and another one was opened. */
void bench_new_session(struct bench *b);
void bench_state(struct bench *b, enum client_state state);

/* The other machine's session, whose locks have one owner, frees its lock, or deletes a file:
 * acquires that wait are told. */
enum { BENCH_OTHER_OWNER = 7 };
void bench_other_unlocks(struct bench *b, uint64_t node);
void bench_other_deletes(struct bench *b, const char *name);

/* The mount is told of one of its acquisitions. */
void bench_granted(struct bench *b, const struct client_grant *g);

#endif
