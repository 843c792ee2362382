/* FUSE requests against the whole of lsfs but its mount: what comes back, and when. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include "tests/fuse/kernel.h"

static struct fuse_init_out init;

static int
start(void **state)
{
	struct kernel *k = malloc(sizeof *k);

	kernel_start(k, &init);
	*state = k;
	return 0;
}

static int
stop(void **state)
{
	kernel_stop(*state);
	free(*state);
	return 0;
}

#define DAEMON_TEST(test) TEST_WITH(test, start, stop)

/* ---- shorthand ---- */

struct created {
	struct fuse_entry_out entry;
	struct fuse_open_out open;
};

static struct created
create(struct kernel *k, const char *name, uint32_t mode)
{
	struct fuse_create_in in = {.flags = O_RDWR | O_CREAT, .mode = S_IFREG | mode};
	struct created out;

	assert_int_equal(kernel_call(k, FUSE_CREATE, FUSE_ROOT_ID, &in, sizeof in, name, &out,
	                             sizeof out),
	                 sizeof out);
	return out;
}

static uint64_t
open_by(struct kernel *k, uint32_t opcode, uint64_t ino, uint32_t flags)
{
	struct fuse_open_in in = {.flags = flags};
	struct fuse_open_out out;

	assert_int_equal(kernel_call(k, opcode, ino, &in, sizeof in, NULL, &out, sizeof out),
	                 sizeof out);
	return out.fh;
}

static uint64_t
open_again(struct kernel *k, uint64_t ino, uint32_t flags)
{
	return open_by(k, FUSE_OPEN, ino, flags);
}

static int
write_at(struct kernel *k, uint64_t ino, uint64_t fh, uint64_t offset, const char *text)
{
	struct fuse_write_in in = {
	    .fh = fh,
	    .offset = offset,
	    .size = (uint32_t)strlen(text),
	    .lock_owner = 7,
	    .write_flags = FUSE_WRITE_LOCKOWNER,
	    .flags = O_RDWR,
	};
	struct fuse_write_out out = {0};
	char body[sizeof in + 256];
	int rc;

	memcpy(body, &in, sizeof in);
	memcpy(body + sizeof in, text, strlen(text));
	rc =
	    kernel_call(k, FUSE_WRITE, ino, body, sizeof in + strlen(text), NULL, &out, sizeof out);
	return rc < 0 ? rc : (int)out.size;
}

static int
flush(struct kernel *k, uint64_t ino, uint64_t fh)
{
	struct fuse_flush_in in = {.fh = fh, .lock_owner = 7};

	return kernel_call(k, FUSE_FLUSH, ino, &in, sizeof in, NULL, NULL, 0);
}

static void
release(struct kernel *k, uint64_t ino, uint64_t fh)
{
	struct fuse_release_in in = {.fh = fh, .lock_owner = 7};

	assert_int_equal(kernel_call(k, FUSE_RELEASE, ino, &in, sizeof in, NULL, NULL, 0), 0);
}

static int
read_at(struct kernel *k, uint64_t ino, uint64_t fh, uint64_t offset, char *to, size_t size)
{
	struct fuse_read_in in = {
	    .fh = fh,
	    .offset = offset,
	    .size = (uint32_t)size,
	    .read_flags = FUSE_READ_LOCKOWNER,
	    .lock_owner = 7,
	};

	return kernel_call(k, FUSE_READ, ino, &in, sizeof in, NULL, to, size);
}

static uint64_t
send_flock(struct kernel *k, uint64_t ino, uint64_t fh, uint32_t type, bool wait)
{
	struct fuse_lk_in in = {
	    .fh = fh,
	    .owner = fh,
	    .lk = {.type = type},
	    .lk_flags = FUSE_LK_FLOCK,
	};

	return kernel_send(k, wait ? FUSE_SETLKW : FUSE_SETLK, ino, &in, sizeof in, NULL);
}

static int
flock_now(struct kernel *k, uint64_t ino, uint64_t fh, uint32_t type)
{
	return kernel_wait(k, send_flock(k, ino, fh, type, false), NULL, 0);
}

static void
send_interrupt(struct kernel *k, uint64_t unique)
{
	struct fuse_interrupt_in in = {.unique = unique};

	kernel_send_raw(k, unique | 1, FUSE_INTERRUPT, 0, &in, sizeof in);
}

/* Something answered by the cell, sent after `unique`: when it comes, `unique` had its chance. */
static void
one_round(struct kernel *k)
{
	assert_int_equal(kernel_call(k, FUSE_LOOKUP, FUSE_ROOT_ID, NULL, 0, "nothing", NULL, 0),
	                 -ENOENT);
}

/* ---- tests ---- */

DAEMON_TEST(test_init)
{
	assert_true(init.flags & FUSE_PARALLEL_DIROPS);
	assert_true(init.flags & FUSE_FLOCK_LOCKS);
	assert_true(init.flags & FUSE_POSIX_LOCKS);
	assert_true(init.flags & FUSE_ATOMIC_O_TRUNC);
	assert_true(init.flags & FUSE_AUTO_INVAL_DATA);
	assert_false(init.flags & (FUSE_ASYNC_READ | FUSE_WRITEBACK_CACHE | FUSE_DO_READDIRPLUS |
	                           FUSE_SPLICE_READ | FUSE_SPLICE_WRITE | FUSE_DONT_MASK |
	                           FUSE_NO_OPEN_SUPPORT));
	assert_int_equal(init.max_background, 1024);
	assert_int_equal(init.congestion_threshold, 768);
}

DAEMON_TEST(test_missing_name)
{
	assert_int_equal(kernel_call(*state, FUSE_LOOKUP, FUSE_ROOT_ID, NULL, 0, "missing", NULL,
	                             0),
	                 -ENOENT);
}

DAEMON_TEST(test_write_and_read_back)
{
	struct kernel *k = *state;
	struct created f = create(k, "f", 0644);
	uint64_t ino = f.entry.nodeid, second;
	struct fuse_entry_out found;
	char text[16];

	assert_true(f.open.open_flags & FOPEN_DIRECT_IO);
	assert_int_equal(f.entry.attr_valid, 0);
	assert_int_equal(f.entry.attr_valid_nsec, 0);
	assert_int_equal(write_at(k, ino, f.open.fh, 0, "hello"), 5);
	second = open_again(k, ino, O_RDONLY);
	assert_int_equal(read_at(k, ino, second, 0, text, sizeof text), 0);
	assert_int_equal(flush(k, ino, f.open.fh), 0);
	assert_int_equal(read_at(k, ino, second, 0, text, sizeof text), 5);
	assert_memory_equal(text, "hello", 5);
	assert_int_equal(kernel_call(k, FUSE_LOOKUP, FUSE_ROOT_ID, NULL, 0, "f", &found,
	                             sizeof found),
	                 sizeof found);
	assert_int_equal(found.attr.size, 5);
	assert_int_equal(found.nodeid, ino);
	release(k, ino, f.open.fh);
	release(k, ino, second);
}

/* For how long the kernel may keep the attributes. */
static uint64_t
kept_ns(struct kernel *k, uint64_t ino)
{
	struct fuse_getattr_in in = {0};
	struct fuse_attr_out out;

	assert_int_equal(kernel_call(k, FUSE_GETATTR, ino, &in, sizeof in, NULL, &out, sizeof out),
	                 sizeof out);
	return out.attr_valid * 1000000000 + out.attr_valid_nsec;
}

/* Attributes are kept when there is leave to cache, but not in a reply that introduces the inode,
 * and not while writes are buffered. */
DAEMON_TEST(test_timeouts)
{
	struct kernel *k = *state;
	struct created f = create(k, "f", 0644);
	uint64_t ino = f.entry.nodeid, ns;
	struct fuse_entry_out found;

	for (int calls = 0; (ns = kept_ns(k, ino)) == 0; calls++)
		assert_true(calls < 1000000); /* leave comes with a KeepAlive */
	assert_true(ns <= 1000000000);
	assert_int_equal(kernel_call(k, FUSE_LOOKUP, FUSE_ROOT_ID, NULL, 0, "f", &found,
	                             sizeof found),
	                 sizeof found);
	assert_true(found.entry_valid + found.entry_valid_nsec > 0);
	assert_int_equal(found.attr_valid + found.attr_valid_nsec, 0);
	assert_int_equal(write_at(k, ino, f.open.fh, 0, "hello"), 5);
	assert_int_equal(kept_ns(k, ino), 0);
	assert_int_equal(flush(k, ino, f.open.fh), 0);
	assert_true(kept_ns(k, ino) > 0);
	release(k, ino, f.open.fh);
}

DAEMON_TEST(test_interrupted_lock)
{
	struct kernel *k = *state;
	struct created f = create(k, "l", 0644);
	uint64_t ino = f.entry.nodeid, second = open_again(k, ino, O_RDONLY), waiting;

	assert_int_equal(flock_now(k, ino, f.open.fh, F_WRLCK), 0);
	assert_int_equal(flock_now(k, ino, second, F_WRLCK), -EAGAIN);
	waiting = send_flock(k, ino, second, F_WRLCK, true);
	one_round(k);
	assert_false(kernel_answered(k, waiting));
	send_interrupt(k, waiting);
	assert_int_equal(kernel_wait(k, waiting, NULL, 0), -EINTR);
	assert_int_equal(flock_now(k, ino, f.open.fh, F_UNLCK), 0);
	assert_int_equal(kernel_wait(k, send_flock(k, ino, second, F_WRLCK, true), NULL, 0), 0);
	assert_int_equal(flock_now(k, ino, f.open.fh, F_RDLCK), -EAGAIN);
	release(k, ino, second);
	assert_int_equal(flock_now(k, ino, f.open.fh, F_RDLCK), 0);
	release(k, ino, f.open.fh);
}

/* libfuse then calls back from within the registration of the callback. */
DAEMON_TEST(test_interrupt_before_its_request)
{
	struct kernel *k = *state;
	struct created f = create(k, "l", 0644);
	uint64_t ino = f.entry.nodeid, second = open_again(k, ino, O_RDONLY), waiting;

	assert_int_equal(flock_now(k, ino, f.open.fh, F_WRLCK), 0);
	send_interrupt(k, k->last_unique + 2);
	waiting = send_flock(k, ino, second, F_WRLCK, true);
	assert_int_equal(kernel_wait(k, waiting, NULL, 0), -EINTR);
	release(k, ino, second);
	release(k, ino, f.open.fh);
}

/* kernel_stop then has to answer it, once. */
DAEMON_TEST(test_end_with_a_waiting_lock)
{
	struct kernel *k = *state;
	struct created f = create(k, "l", 0644);
	uint64_t ino = f.entry.nodeid, second = open_again(k, ino, O_RDONLY), waiting;

	assert_int_equal(flock_now(k, ino, f.open.fh, F_WRLCK), 0);
	waiting = send_flock(k, ino, second, F_WRLCK, true);
	one_round(k);
	assert_false(kernel_answered(k, waiting));
}

DAEMON_TEST(test_attribute_sizes)
{
	struct kernel *k = *state;
	struct created f = create(k, "x", 0644);
	uint64_t ino = f.entry.nodeid;
	struct fuse_getxattr_in in = {.size = 0};
	struct fuse_getxattr_out size;
	char value[64];

	assert_int_equal(kernel_call(k, FUSE_GETXATTR, ino, &in, sizeof in, "user.ls.checksum",
	                             &size, sizeof size),
	                 sizeof size);
	assert_int_equal(size.size, 16);
	in.size = 15;
	assert_int_equal(kernel_call(k, FUSE_GETXATTR, ino, &in, sizeof in, "user.ls.checksum",
	                             NULL, 0),
	                 -ERANGE);
	in.size = sizeof value;
	assert_int_equal(kernel_call(k, FUSE_GETXATTR, ino, &in, sizeof in, "user.ls.checksum",
	                             value, sizeof value),
	                 16);
	assert_int_equal(kernel_call(k, FUSE_GETXATTR, ino, &in, sizeof in, "security.selinux",
	                             value, sizeof value),
	                 -EOPNOTSUPP);
	release(k, ino, f.open.fh);
}

static int
set_attribute(struct kernel *k, uint64_t ino, const char *name, const char *value)
{
	struct {
		uint32_t size, flags;
		char text[128];
	} in = {.size = (uint32_t)strlen(value)};
	size_t n = strlen(name) + 1;

	memcpy(in.text, name, n);
	memcpy(in.text + n, value, strlen(value));
	return kernel_call(k, FUSE_SETXATTR, ino, &in, 8 + n + strlen(value), NULL, NULL, 0);
}

/* The kernel would make EOPNOTSUPP of EAGAIN. */
DAEMON_TEST(test_attribute_lock_busy)
{
	struct kernel *k = *state;
	struct created f = create(k, "x", 0644);
	uint64_t ino = f.entry.nodeid;

	assert_int_equal(flock_now(k, ino, f.open.fh, F_WRLCK), 0);
	assert_int_equal(set_attribute(k, ino, "user.ls.lock", "exclusive"), -EBUSY);
	assert_int_equal(flock_now(k, ino, f.open.fh, F_UNLCK), 0);
	assert_int_equal(set_attribute(k, ino, "user.ls.lock", "exclusive"), 0);
	assert_int_equal(flock_now(k, ino, f.open.fh, F_WRLCK), -EAGAIN);
	assert_int_equal(set_attribute(k, ino, "user.ls.lock", "free"), 0);
	assert_int_equal(flock_now(k, ino, f.open.fh, F_WRLCK), 0);
	release(k, ino, f.open.fh);
}

static bool
listing_has(const char *listing, size_t len, const char *name)
{
	for (size_t at = 0; at + sizeof(struct fuse_dirent) <= len;) {
		const struct fuse_dirent *d = (const void *)(listing + at);

		if (d->namelen == strlen(name) && !memcmp(d->name, name, d->namelen))
			return true;
		at += FUSE_DIRENT_SIZE(d);
	}
	return false;
}

/* Read in pieces that hold one or two names, the offset of the last name being where to go on. */
DAEMON_TEST(test_listing_in_pieces)
{
	struct kernel *k = *state;
	struct fuse_read_in in = {.fh = 0, .size = 72};
	char piece[128], all[4096];
	size_t used = 0;
	int n;

	for (const char *name = "abcdefgh"; *name; name++)
		create(k, (char[]){*name, '\0'}, 0644);
	in.fh = open_by(k, FUSE_OPENDIR, FUSE_ROOT_ID, O_RDONLY | O_DIRECTORY);
	while ((n = kernel_call(k, FUSE_READDIR, FUSE_ROOT_ID, &in, sizeof in, NULL, piece,
	                        sizeof piece)) > 0) {
		for (size_t at = 0; at + sizeof(struct fuse_dirent) <= (size_t)n;) {
			const struct fuse_dirent *d = (const void *)(piece + at);

			in.offset = d->off;
			at += FUSE_DIRENT_SIZE(d);
		}
		memcpy(all + used, piece, (size_t)n);
		used += (size_t)n;
	}
	assert_int_equal(n, 0);
	for (const char *name = "abcdefgh"; *name; name++)
		assert_true(listing_has(all, used, (char[]){*name, '\0'}));
}

/* Numbers that nobody gave out, opcodes that do not exist: an error, and the next request works. */
DAEMON_TEST(test_nonsense)
{
	static const uint32_t opcodes[] = {
	    FUSE_LOOKUP,     FUSE_GETATTR,   FUSE_SETATTR,     FUSE_OPEN,    FUSE_READ,
	    FUSE_RELEASE,    FUSE_FSYNC,     FUSE_FLUSH,       FUSE_OPENDIR, FUSE_READDIR,
	    FUSE_RELEASEDIR, FUSE_GETLK,     FUSE_SETLK,       FUSE_ACCESS,  FUSE_CREATE,
	    FUSE_MKDIR,      FUSE_UNLINK,    FUSE_RMDIR,       FUSE_STATFS,  FUSE_IOCTL,
	    FUSE_FALLOCATE,  FUSE_LISTXATTR, FUSE_REMOVEXATTR, 4000,
	};
	struct kernel *k = *state;
	uint32_t words[32];
	uint64_t unique;

	srand(1);
	for (int round = 0; round < 40; round++) {
		for (size_t i = 0; i < sizeof opcodes / sizeof opcodes[0]; i++) {
			for (size_t w = 0; w < 31; w++)
				words[w] = (uint32_t)rand() & 0xffff;
			words[31] = 0;
			unique = kernel_send(k, opcodes[i], (uint64_t)(rand() % 64), words,
			                     sizeof words, NULL);
			kernel_wait(k, unique, NULL, 0);
		}
	}
	one_round(k);
}

DAEMON_TEST(test_connection_lost)
{
	struct kernel *k = *state;

	shutdown(k->fd, SHUT_RDWR);
	while (!k->ended)
		uv_run(&k->loop, UV_RUN_ONCE);
	assert_true(k->broken);
}

int
main(void)
{
	signal(SIGPIPE, SIG_IGN);
	return unit_run(NULL, NULL);
}
