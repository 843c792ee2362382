/* Random calls, signals, answers and grants, with sessions and nodes that end, in any order: every
 * call is answered exactly once, nothing leaks, no guarantee breaks, whatever the cell answers. */
#include <stdio.h>
#include <stdlib.h>
#include "cell/base/rng.h"
#include "fs/mount/internal.h"
#include "tests/unit/mount_bench.h"

enum { STEPS = 3000, HANDLES = 5, OPEN_CALLS = 24, NAMES = 4, PIDS = 3, UNDER_WAY = 12 };

struct file {
	uint64_t ino, fh;
};

struct fuzz {
	struct bench *b;
	struct rng rng;
	bool lies; /* the cell answers with codes and attributes that make no sense */
	struct file files[HANDLES];
	uint64_t calls[OPEN_CALLS]; /* not answered when last seen */
	struct mount_event events[OPEN_CALLS];
	uint64_t opening[HANDLES]; /* the call whose answer brings files[n] */
	size_t calls_n;
};

static uint64_t
pick(struct fuzz *f, uint64_t n)
{
	return rng_below(&f->rng, n);
}

static struct bytes
some_name(struct fuzz *f)
{
	static const char *const names[NAMES] = {"a", "b", "c", ".cell"};

	return bytes_of(names[pick(f, NAMES)]);
}

/* ---- calls ---- */

static uint64_t
fuzz_start(struct fuzz *f, struct mount_event e)
{
	uint64_t call = bench_start(f->b, e);

	for (size_t n = 0; n < f->calls_n; n++)
		if (bench_answered(f->b, f->calls[n])) {
			f->calls[n] = f->calls[--f->calls_n];
			f->events[n] = f->events[f->calls_n];
		}
	if (!bench_answered(f->b, call) && f->calls_n < OPEN_CALLS) {
		f->events[f->calls_n] = e;
		f->calls[f->calls_n++] = call;
	}
	return call;
}

static struct mount_event
handle_event(struct fuzz *f, enum mount_event_kind kind)
{
	struct file *file = &f->files[pick(f, HANDLES)];
	pid_t pid = (pid_t)(100 + 100 * pick(f, PIDS));

	return (struct mount_event){.kind = kind,
	                            .ino = file->ino,
	                            .fh = file->fh,
	                            .pid = pid,
	                            .lock_owner = (uint64_t)pid + 1};
}

static void
fuzz_open(struct fuzz *f)
{
	static const int flags[] = {O_RDONLY,
	                            O_RDWR,
	                            O_WRONLY | O_TRUNC,
	                            O_WRONLY | O_APPEND,
	                            O_RDWR | O_APPEND | O_TRUNC,
	                            O_RDWR | O_SYNC};
	size_t n = 0;

	while (n < HANDLES && (f->files[n].fh || f->opening[n]))
		n++;
	if (n == HANDLES)
		return;
	f->files[n].ino = 1 + pick(f, 40);
	f->opening[n] =
	    fuzz_start(f, (struct mount_event){.kind = pick(f, 8) ? MOUNT_CREATE : MOUNT_OPEN,
	                                       .name = some_name(f),
	                                       .ino = pick(f, 8) ? NODE_ROOT : f->files[n].ino,
	                                       .flags = O_CREAT | flags[pick(f, 6)],
	                                       .mode = pick(f, 3) ? 0644 : S_ISVTX | 0644});
}

/* Takes over the handles of opens that were answered meanwhile. */
static void
fuzz_opened(struct fuzz *f)
{
	struct mount_reply *r;

	for (size_t n = 0; n < HANDLES; n++) {
		if (!f->opening[n] || !bench_answered(f->b, f->opening[n]))
			continue;
		r = bench_reply(f->b, f->opening[n]);
		f->opening[n] = 0;
		if (r->error == 0)
			f->files[n].fh = r->fh;
		if (r->error == 0 && r->kind == MOUNT_CREATED)
			f->files[n].ino = r->stat.ino;
	}
}

static void
release_file(struct bench *b, struct file *file)
{
	const uint64_t call = bench_start(b, (struct mount_event){.kind = MOUNT_RELEASE,
	                                                          .ino = file->ino,
	                                                          .fh = file->fh});

	assert_int_equal(bench_reply(b, call)->error, 0);
	file->fh = 0;
}

static void
fuzz_release(struct fuzz *f)
{
	struct file *file = &f->files[pick(f, HANDLES)];

	if (file->fh == 0)
		return;
	release_file(f->b, file);
}

static void
fuzz_contents(struct fuzz *f)
{
	static char text[LIMIT_CONTENTS];
	struct mount_event e = handle_event(f, MOUNT_WRITE);

	switch (pick(f, 6)) {
	case 0:
		e.kind = MOUNT_READ;
		e.offset = (int64_t)pick(f, 20);
		e.size = pick(f, 30);
		e.for_page = pick(f, 3) == 0;
		break;
	case 1:
		e.kind = MOUNT_SETATTR;
		e.set = SET_SIZE | (unsigned)pick(f, 128);
		e.set_size = pick(f, 50);
		if (pick(f, 2))
			e.fh = 0;
		break;
	case 2:
		e.kind = MOUNT_FSYNC;
		break;
	case 3:
		e.kind = MOUNT_FLUSH;
		e.fate = (enum mount_fate)pick(f, 5);
		e.has_other = pick(f, 3) == 0;
		break;
	default:
		e.flags = pick(f, 3) ? 0 : O_APPEND; /* as F_SETFL may change them */
		e.offset = (int64_t)pick(f, 30);
		e.data = (struct bytes){(uint8_t *)text, pick(f, 50) ? pick(f, 20) : sizeof text};
		break;
	}
	fuzz_start(f, e);
}

static void
fuzz_lock(struct fuzz *f)
{
	static const enum mount_event_kind kinds[] = {MOUNT_FLOCK, MOUNT_SETLK, MOUNT_GETLK};
	struct mount_event e = handle_event(f, kinds[pick(f, 3)]);

	e.lock_mode = (enum lock_mode)pick(f, 3);
	e.wait = pick(f, 2);
	e.whole = pick(f, 8) != 0;
	fuzz_start(f, e);
}

static void
fuzz_attribute(struct fuzz *f)
{
	static const char *const names[] = {"user.ls.lock",      "user.ls.ephemeral",
	                                    "user.ls.instance",  "user.ls.lock_delay",
	                                    "user.ls.sequencer", "user.x"};
	static const char *const values[] = {"exclusive", "shared", "free", "1", "30", ""};
	enum mount_event_kind kind = (enum mount_event_kind)(MOUNT_GETXATTR + pick(f, 4));
	struct mount_event e = handle_event(f, kind);

	e.name = bytes_of(names[pick(f, 6)]);
	e.data = bytes_of(values[pick(f, 6)]);
	fuzz_start(f, e);
}

static void
fuzz_path(struct fuzz *f)
{
	static const enum mount_event_kind kinds[] = {MOUNT_LOOKUP,  MOUNT_GETATTR,
	                                              MOUNT_ACCESS,  MOUNT_MKDIR,
	                                              MOUNT_MKNOD,   MOUNT_UNLINK,
	                                              MOUNT_RMDIR,   MOUNT_RENAME,
	                                              MOUNT_RENAME,  MOUNT_UNLINK,
	                                              MOUNT_STATFS,  MOUNT_OPENDIR,
	                                              MOUNT_READDIR, MOUNT_RELEASEDIR,
	                                              MOUNT_REFUSED, MOUNT_SETATTR};
	struct mount_event e = handle_event(f, kinds[pick(f, sizeof kinds / sizeof kinds[0])]);

	e.name = some_name(f);
	e.new_name = some_name(f);
	e.new_ino = NODE_ROOT;
	e.set = (unsigned)pick(f, 128) & ~(unsigned)SET_SIZE;
	if (e.kind == MOUNT_READDIR || e.kind == MOUNT_RELEASEDIR)
		e.fh = pick(f, 50);
	else if (pick(f, 2))
		e.ino = pick(f, 3) ? NODE_ROOT : MOUNT_INO_STATUS;
	if (e.kind == MOUNT_RELEASEDIR) /* not a file's, which only release_file releases */
		for (size_t n = 0; n < HANDLES; n++)
			if (f->files[n].fh == e.fh)
				return;
	fuzz_start(f, e);
}

static void
fuzz_interrupt(struct fuzz *f)
{
	struct mount_event e;
	size_t n;

	if (f->calls_n == 0)
		return;
	n = pick(f, f->calls_n);
	e = f->events[n];
	if (pick(f, 2)) {
		bench_kill(f->b, f->calls[n]);
		assert_true(bench_answered(f->b, f->calls[n]));
	} else if (pick(f, 3) == 0) {
		bench_freeze(f->b, f->calls[n]);
	} else {
		bench_interrupt(f->b, f->calls[n]);
		if (pick(f, 4) == 0) {
			bench_wait(f->b, 1000);
			assert_true(bench_answered(f->b, f->calls[n]) || e.for_page);
		}
	}
	if (bench_answered(f->b, f->calls[n]) && pick(f, 2)) /* SA_RESTART */
		fuzz_start(f, e);
}

/* ---- the other side ---- */

static void
fuzz_answer(struct fuzz *f)
{
	static const enum rc codes[] = {RC_STALE,       RC_NOENT,  RC_IO,        RC_CANCELED,
	                                RC_NO_SESSION,  RC_QUEUED, RC_BUSY_LOCK, RC_FULL,
	                                RC_BAD_MESSAGE, RC_ACCES};

	if (f->b->pending_n == 0)
		return;
	if (!f->lies || pick(f, 4)) {
		bench_answer(f->b);
		return;
	}
	if (pick(f, 3) == 0)
		bench_answer_nonsense(f->b, pick(f, 3) ? pick(f, 40) : MOUNT_INO_CELL,
		                      (uint8_t)pick(f, 4), pick(f, 2 * LIMIT_CONTENTS));
	else
		bench_answer_with(f->b, codes[pick(f, sizeof codes / sizeof codes[0])]);
}

static void
fuzz_other(struct fuzz *f)
{
	struct bench *b = f->b;
	uint64_t node = lookup(b->cell, NODE_ROOT, "a");

	switch (pick(f, 6)) {
	case 0:
		if (node && pick(f, 4) == 0)
			delete_name(b->cell, NODE_ROOT, "a", NODE_FILE);
		break;
	case 1:
		if (node)
			acquire(b->cell, b->other, BENCH_OTHER_OWNER, 1, node,
			        (enum lock_mode)(1 + pick(f, 2)));
		break;
	case 2:
		if (node)
			bench_other_unlocks(b, node);
		break;
	case 3:
		if (node)
			write_file(b->cell, node, "from elsewhere");
		break;
	case 4:
		if (pick(f, 32) == 0)
			bench_new_session(b);
		break;
	default:
		bench_wait(b, (int64_t)pick(f, 120));
		break;
	}
}

/* The client's cache: its leave comes and goes, and nodes are dropped from it. */
static void
fuzz_cache(struct fuzz *f)
{
	struct bench *b = f->b;

	if (pick(f, 3) == 0)
		b->client.leave_end = mono_add(b->now, span_ms((int64_t)pick(f, 5000)));
	else
		bench_dropped(b, pick(f, 40));
}

/* The kernel keeps an answer for a second at most, and no attributes of a file with uncommitted
 * writes. */
static void
check_kept(void *user, const struct mount_update *u)
{
	const struct fuzz *f = user;
	const struct handle *h;
	const struct inode *i;

	for (size_t n = 0; n < u->replies_n; n++) {
		const struct mount_reply *r = &u->replies[n];
		const int64_t left = mono_since(f->b->client.leave_end, f->b->now).ns;

		assert_true(r->attr_timeout.ns <= SECOND_NS && r->entry_timeout.ns <= SECOND_NS);
		if (r->attr_timeout.ns == 0 && r->entry_timeout.ns == 0)
			continue;
		assert_true(r->attr_timeout.ns <= left / 2 && r->entry_timeout.ns <= left / 2);
		assert_true((r->attr_timeout.ns > 0) == (r->kind == MOUNT_ATTR));
		if (r->attr_timeout.ns > 0 && (i = inode_find(f->b->mount, r->stat.ino)))
			TAILQ_FOREACH(h, &i->handles, of_inode)
				assert_int_equal((int)h->edit, EDIT_NONE);
	}
}

/* One random event; answers are about as frequent as calls. */
static void
fuzz_step(struct fuzz *f)
{
	switch (pick(f, 16)) {
	case 0:
		if (pick(f, 4) == 0)
			fuzz_release(f);
		else
			fuzz_cache(f);
		break;
	case 1:
		fuzz_interrupt(f);
		break;
	case 2:
	case 3:
		fuzz_contents(f);
		break;
	case 4:
	case 5:
		fuzz_lock(f);
		break;
	case 6:
		fuzz_attribute(f);
		break;
	case 7:
		fuzz_path(f);
		break;
	case 8:
		fuzz_contents(f);
		break;
	case 9:
		fuzz_other(f);
		break;
	default:
		fuzz_answer(f);
		break;
	}
	while (f->b->pending_n > UNDER_WAY)
		fuzz_answer(f);
	fuzz_opened(f);
	fuzz_open(f);
}

/* When the kernel refers to no inode any more the mount keeps nothing. */
static void
fuzz_forget(struct bench *b)
{
	const struct mount *m = b->mount;
	uint64_t fhs = m->handles.next_fh;
	const struct inode *last;

	for (uint64_t fh = 1; fh <= fhs; fh++)
		bench_start(b, (struct mount_event){.kind = MOUNT_RELEASE, .fh = fh});
	for (uint64_t ino = 1; ino <= 4 * b->calls; ino++)
		bench_forget(b, ino, UINT64_MAX);
	assert_true(TAILQ_EMPTY(&m->calls.all) && TAILQ_EMPTY(&m->handles.all));
	last = RB_ROOT(&m->inodes);
	assert_int_equal(last->ino, NODE_ROOT);
	assert_true(RB_LEFT(last, by_number) == NULL && RB_RIGHT(last, by_number) == NULL);
	assert_int_equal(mount_versions(m), 0);
	assert_int_equal(m->handles.files, 0);
}

/* When all files are closed and all requests answered no call may be left. */
static void
fuzz_end(struct fuzz *f)
{
	struct bench *b = f->b;

	for (size_t n = 0; n < HANDLES; n++) {
		if (f->files[n].fh)
			release_file(b, &f->files[n]);
	}
	bench_answer_all(b);
	bench_other_unlocks(b, NODE_ROOT);
	fuzz_opened(f);
	bench_state(b, CLIENT_EXPIRED); /* calls that still wait for a lock end */
	bench_answer_all(b);
	for (uint64_t call = 1; call <= b->calls; call++)
		assert_true(bench_answered(b, call));
	assert_true(mono_is_never(mount_deadline(b->mount)));
	fuzz_forget(b);
}

static void
fuzz_run(uint64_t seed, bool lies)
{
	struct fuzz f = {.rng = rng_seeded(seed), .lies = lies};

	f.b = bench_new(&(struct mount_config){.cell = "local",
	                                       .uid = 1000,
	                                       .gid = 1000,
	                                       .lock_delay_s = 1,
	                                       .commit_at_write = seed % 4 == 3});
	f.b->hold = true;
	f.b->late = span_ms(seed % 3 == 0 ? 700 : 0);
	f.b->stepped = check_kept;
	f.b->user = &f;
	for (int n = 0; n < STEPS; n++)
		fuzz_step(&f);
	fuzz_end(&f);
	bench_free(f.b);
}

/* SEED in the environment repeats one run. */
TEST(test_any_order)
{
	const char *seed = getenv("SEED");

	for (uint64_t n = 1; n <= 24 && seed == NULL; n++) {
		print_message("SEED=%llu\n", (unsigned long long)n);
		fuzz_run(n, n % 2 == 0);
	}
	if (seed)
		fuzz_run(strtoull(seed, NULL, 10), strtoull(seed, NULL, 10) % 2 == 0);
}
