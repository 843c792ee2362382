/* Requests of the kernel, byte for byte, through libfuse, the driver and the mount, to a cell that
 * is a real tree: the first byte chooses whether it answers at once. The rest is a sequence of
 * steps: a byte for the kind of step, one for an inode or an open file, one with the length of the
 * body, and the body, which is what a request has after its header. The kernel is trusted: what it
 * never sends (a name without an end, a length beyond the request, a handle that is not open) is
 * put right first. Each request is answered once, and nothing that the cell or other machines do
 * meanwhile ends the process. */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "fs/fuse/device.h"
#include "tests/unit/mount_bench.h"

enum { STEPS_MAX = 96, OPEN_MAX = 8, CALLS_MAX = 1024, ROOM = 1 << 17, ENDED_PID = 0 };

/* In place of the engine that runs the mount: the bench. */
struct engine {
	struct bench *bench;
	struct device device;
	struct called {
		uint64_t call; /* the device's number of it */
		enum mount_event_kind kind;
		uint64_t ino;
	} called[CALLS_MAX]; /* by the bench's number */
	struct {
		uint64_t ino, fh;
		bool directory;
	} open[OPEN_MAX];
	size_t open_n, opening; /* and requests that open one, without an answer */
	uint64_t unique;
	int interrupts; /* libfuse keeps one without its request until the next request */
};

static uv_loop_t loop; /* for timers that never expire */

/* ---- the engine ---- */

static uint64_t
bench_call(const struct engine *e, uint64_t call)
{
	for (uint64_t n = 1; n <= e->bench->calls; n++)
		if (e->called[n].call == call)
			return n;
	must(!"the call is known");
	return 0;
}

unsigned
engine_wants(const struct engine *e, const struct mount_event *event)
{
	(void)e;
	(void)event;
	return 0; /* nobody is in /proc: the bench makes that up */
}

uint64_t
engine_shown(const struct engine *e, uint64_t ino)
{
	(void)e;
	return ino;
}

static bool
opens_file(enum mount_event_kind kind)
{
	return kind == MOUNT_OPEN || kind == MOUNT_CREATE || kind == MOUNT_OPENDIR;
}

void
engine_call(struct engine *e, struct mount_event *event)
{
	struct bench *b = e->bench;

	if (event->kind == MOUNT_FORGET) {
		bench_forget(b, event->ino, event->count);
	} else if (event->kind == MOUNT_INTERRUPT) {
		const uint64_t call = bench_call(e, event->call);

		if (!bench_answered(b, call))
			bench_interrupt(b, call);
	} else {
		e->opening += opens_file(event->kind);
		e->called[b->calls + 1] = (struct called){event->call, event->kind, event->ino};
		bench_start(b, *event);
	}
}

static void
note_open(struct engine *e, const struct called *call, const struct mount_reply *r)
{
	if (!opens_file(call->kind))
		return;
	e->opening--;
	if (r->error != 0)
		return;
	must(e->open_n < OPEN_MAX);
	e->open[e->open_n].ino = r->kind == MOUNT_CREATED ? r->stat.ino : call->ino;
	e->open[e->open_n].fh = r->fh;
	e->open[e->open_n++].directory = call->kind == MOUNT_OPENDIR;
}

static void
on_step(void *user, const struct mount_update *u)
{
	struct engine *e = user;

	for (size_t i = 0; i < u->stale_inodes_n; i++)
		device_stale_inode(&e->device, u->stale_inodes[i]);
	for (size_t i = 0; i < u->replies_n; i++) {
		struct mount_reply r = u->replies[i];
		const struct called *call = &e->called[r.call];

		note_open(e, call, &r);
		r.call = call->call;
		device_reply(&e->device, &r);
	}
	for (size_t i = 0; i < u->woken_n; i++)
		device_wake(&e->device, u->woken[i]);
}

/* ---- the kernel ---- */

/* What a request has after its header. */
static const struct request {
	uint32_t opcode;
	int fh;        /* the place of a handle; -1: none */
	size_t size;   /* of its struct */
	int directory; /* 1: the handle is of a directory, 0: of a file */
} requests[] = {
    {FUSE_LOOKUP, -1, 0, 0},
    {FUSE_GETATTR, 8, sizeof(struct fuse_getattr_in), 0},
    {FUSE_SETATTR, 8, sizeof(struct fuse_setattr_in), 0},
    {FUSE_MKNOD, -1, sizeof(struct fuse_mknod_in), 0},
    {FUSE_MKDIR, -1, sizeof(struct fuse_mkdir_in), 0},
    {FUSE_UNLINK, -1, 0, 0},
    {FUSE_RMDIR, -1, 0, 0},
    {FUSE_RENAME, -1, sizeof(struct fuse_rename_in), 0},
    {FUSE_RENAME2, -1, sizeof(struct fuse_rename2_in), 0},
    {FUSE_LINK, -1, sizeof(struct fuse_link_in), 0},
    {FUSE_SYMLINK, -1, 0, 0},
    {FUSE_OPEN, -1, sizeof(struct fuse_open_in), 0},
    {FUSE_CREATE, -1, sizeof(struct fuse_create_in), 0},
    {FUSE_READ, 0, sizeof(struct fuse_read_in), 0},
    {FUSE_WRITE, 0, sizeof(struct fuse_write_in), 0},
    {FUSE_STATFS, -1, 0, 0},
    {FUSE_RELEASE, 0, sizeof(struct fuse_release_in), 0},
    {FUSE_FSYNC, 0, sizeof(struct fuse_fsync_in), 0},
    {FUSE_FLUSH, 0, sizeof(struct fuse_flush_in), 0},
    {FUSE_SETXATTR, -1, 8, 0},
    {FUSE_GETXATTR, -1, sizeof(struct fuse_getxattr_in), 0},
    {FUSE_LISTXATTR, -1, sizeof(struct fuse_getxattr_in), 0},
    {FUSE_REMOVEXATTR, -1, 0, 0},
    {FUSE_OPENDIR, -1, sizeof(struct fuse_open_in), 0},
    {FUSE_READDIR, 0, sizeof(struct fuse_read_in), 1},
    {FUSE_RELEASEDIR, 0, sizeof(struct fuse_release_in), 1},
    {FUSE_FSYNCDIR, 0, sizeof(struct fuse_fsync_in), 1},
    {FUSE_GETLK, 0, sizeof(struct fuse_lk_in), 0},
    {FUSE_SETLK, 0, sizeof(struct fuse_lk_in), 0},
    {FUSE_SETLKW, 0, sizeof(struct fuse_lk_in), 0},
    {FUSE_ACCESS, -1, sizeof(struct fuse_access_in), 0},
    {FUSE_INTERRUPT, -1, sizeof(struct fuse_interrupt_in), 0},
    {FUSE_POLL, 0, sizeof(struct fuse_poll_in), 0},
    {FUSE_IOCTL, 0, sizeof(struct fuse_ioctl_in), 0},
    {FUSE_FALLOCATE, 0, sizeof(struct fuse_fallocate_in), 0},
    {FUSE_FORGET, -1, sizeof(struct fuse_forget_in), 0},
    {FUSE_BATCH_FORGET, -1, sizeof(struct fuse_batch_forget_in), 0},
};
enum { REQUESTS = sizeof requests / sizeof *requests };

static uint8_t sent[ROOM]; /* the request that is handled; zeros after it */

static void
hand_in(struct engine *e, uint32_t opcode, uint64_t ino, size_t len)
{
	const size_t size = sizeof(struct fuse_in_header) + len;
	const struct fuse_in_header header = {.len = (uint32_t)size,
	                                      .opcode = opcode,
	                                      .unique = e->unique += 2,
	                                      .nodeid = ino,
	                                      .uid = 1000,
	                                      .gid = 1000,
	                                      .pid = ENDED_PID};
	const struct fuse_buf request = {.mem = sent, .size = size};

	memcpy(sent, &header, sizeof header);
	fuse_session_process_buf(e->device.fuse, &request);
	interrupts_hand_in(&e->device.interrupts);
	memset(sent, 0, size);
}

static uint8_t *
body(void)
{
	return sent + sizeof(struct fuse_in_header);
}

static void
at_most(void *number, uint32_t most)
{
	uint32_t n;

	memcpy(&n, number, sizeof n);
	n = n < most ? n : most;
	memcpy(number, &n, sizeof n);
}

/* Lengths are those of what follows, and of buffers that the kernel has. */
static void
put_right(struct engine *e, uint32_t opcode, size_t len)
{
	const uint32_t rest = (uint32_t)len;

	if (opcode == FUSE_WRITE)
		at_most(body() + offsetof(struct fuse_write_in, size),
		        rest - (uint32_t)sizeof(struct fuse_write_in));
	else if (opcode == FUSE_READ || opcode == FUSE_READDIR)
		at_most(body() + offsetof(struct fuse_read_in, size), 1 << 20);
	else if (opcode == FUSE_SETXATTR)
		at_most(body(), rest - 8);
	else if (opcode == FUSE_GETXATTR || opcode == FUSE_LISTXATTR)
		at_most(body(), 1 << 16);
	else if (opcode == FUSE_BATCH_FORGET)
		at_most(body(), (rest - 8) / (uint32_t)sizeof(struct fuse_forget_one));
	else if (opcode == FUSE_IOCTL)
		at_most(body() + offsetof(struct fuse_ioctl_in, in_size),
		        rest - (uint32_t)sizeof(struct fuse_ioctl_in));
	else if (opcode == FUSE_INTERRUPT)
		((struct fuse_interrupt_in *)body())->unique = e->unique - 2 * (body()[0] % 8);
	if (opcode == FUSE_IOCTL)
		at_most(body() + offsetof(struct fuse_ioctl_in, out_size), 1 << 16);
}

/* The n-th open file, or directory; false when there is none. */
static bool
pick_open(const struct engine *e, uint8_t n, int directory, size_t *at)
{
	for (size_t i = 0; i < e->open_n; i++) {
		*at = (n + i) % e->open_n;
		if (e->open[*at].directory == directory)
			return true;
	}
	return false;
}

static uint64_t
pick_ino(uint8_t n)
{
	return n >= 240 ? MOUNT_INO_VIRTUAL | (n - 240) : n == 0 ? NODE_ROOT : n;
}

static void
request(struct engine *e, const struct request *r, uint8_t which, const uint8_t *data, size_t n)
{
	const bool opens =
	    r->opcode == FUSE_OPEN || r->opcode == FUSE_CREATE || r->opcode == FUSE_OPENDIR;
	const size_t len = (n > r->size ? n : r->size) + 2; /* two names, each with its end */
	uint64_t ino = pick_ino(which);
	size_t at = 0;
	bool found;

	if (opens && e->open_n + e->opening >= OPEN_MAX)
		return;
	if (n > 0)
		memcpy(body(), data, n);
	found = r->fh >= 0 && pick_open(e, which, r->directory, &at);
	if (r->fh == 0 && !found) {
		memset(body(), 0, n);
		return;
	}
	if (found) {
		ino = e->open[at].ino;
		memcpy(body() + r->fh, &e->open[at].fh, sizeof e->open[at].fh);
	} else if (r->fh > 0) { /* by name, then */
		memset(body() + r->fh, 0, 8);
		body()[0] &= (uint8_t) ~(r->opcode == FUSE_GETATTR ? FUSE_GETATTR_FH : FATTR_FH);
	}
	if (r->opcode == FUSE_RELEASE || r->opcode == FUSE_RELEASEDIR)
		e->open[at] = e->open[--e->open_n];
	e->interrupts += r->opcode == FUSE_INTERRUPT;
	put_right(e, r->opcode, len - 2);
	hand_in(e, r->opcode, ino, len);
}

static void
init(struct engine *e)
{
	struct fuse_init_in in = {.major = 7, .minor = 38, .max_readahead = 131072, .flags = ~0u};

	in.flags &= ~(uint32_t)FUSE_INIT_EXT;
	memcpy(body(), &in, sizeof in);
	hand_in(e, FUSE_INIT, 0, sizeof in);
}

/* ---- what happens meanwhile ---- */

enum { ANSWER, REFUSE, WAIT, DROPPED, UNLOCKED, WRITTEN, LEAVE, ANEW, EVENTS };

static void
answer_with(struct bench *b, uint8_t n)
{
	static const enum rc codes[] = {RC_STALE,       RC_NOENT,  RC_IO,        RC_CANCELED,
	                                RC_NO_SESSION,  RC_QUEUED, RC_BUSY_LOCK, RC_FULL,
	                                RC_BAD_MESSAGE, RC_ACCES};

	if (b->pending_n > 0)
		bench_answer_with(b, codes[n % (sizeof codes / sizeof *codes)]);
}

static void
meanwhile(struct bench *b, int kind, uint8_t n)
{
	const uint64_t a = lookup(b->cell, NODE_ROOT, "a");

	if (kind == ANSWER && b->pending_n > 0)
		bench_answer(b);
	else if (kind == REFUSE)
		answer_with(b, n);
	else if (kind == WAIT)
		bench_wait(b, 10 * n);
	else if (kind == DROPPED)
		bench_dropped(b, n);
	else if (kind == UNLOCKED && a != 0)
		bench_other_unlocks(b, a);
	else if (kind == WRITTEN && a != 0)
		write_file(b->cell, a, "elsewhere");
	else if (kind == LEAVE)
		b->client.leave_end = mono_add(b->now, span_ms(100 * n));
	else if (kind == ANEW)
		bench_new_session(b);
}

/* ---- life ---- */

static void
on_ready(void *user)
{
	(void)user;
}

static void
on_ended(void *user, bool broken)
{
	(void)user;
	(void)broken;
}

static void
begin(struct engine *e, bool hold)
{
	const struct device_config config = {.uid = 1000,
	                                     .gid = 1000,
	                                     .ready = on_ready,
	                                     .ended = on_ended};

	if (loop.data == NULL)
		must(uv_loop_init(&loop) == 0);
	loop.data = &loop;
	e->bench = bench_new(&(struct mount_config){.cell = "fuzz", .uid = 1000, .gid = 1000});
	e->bench->hold = hold;
	e->bench->stepped = on_step;
	e->bench->user = e;
	must(device_init(&e->device, &config) == 0);
	must(device_attach(&e->device, open("/dev/null", O_RDWR | O_CLOEXEC)) == 0);
	must(interrupts_start(&e->device.interrupts, &loop, &e->device.replies, e) == 0);
	e->device.engine = e;
	init(e);
}

/* Every open file is closed, and every call that waits for a lock ends with the session. */
static void
end(struct engine *e)
{
	while (e->open_n > 0) {
		const bool directory = e->open[0].directory;

		request(e, &requests[directory ? 25 : 16], 0, NULL, 0);
	}
	while (e->interrupts-- > 0)
		hand_in(e, FUSE_STATFS, NODE_ROOT, 0);
	bench_answer_all(e->bench);
	bench_state(e->bench, CLIENT_EXPIRED);
	bench_answer_all(e->bench);
	interrupts_stop(&e->device.interrupts);
	uv_run(&loop, UV_RUN_NOWAIT);
	device_fini(&e->device);
	bench_free(e->bench);
	free(e);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct engine *e;

	if (len == 0)
		return 0;
	e = memory_zero(1, sizeof *e);
	begin(e, data[0] & 1);
	data++, len--;
	for (int i = 0; i < STEPS_MAX && len >= 3; i++) {
		const int kind = data[0] % (REQUESTS + EVENTS);
		const size_t most = len - 3, n = data[2] < most ? data[2] : most;

		if (kind < REQUESTS)
			request(e, &requests[kind], data[1], data + 3, n);
		else
			meanwhile(e->bench, kind - REQUESTS, data[1]);
		data += 3 + n;
		len -= 3 + n;
	}
	end(e);
	return 0;
}
