/* Views, the growing writer and the latching reader; with them the checksum and the generator. */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cell/base/bytes.h"
#include "cell/base/checksum.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/base/rng.h"

#define assert_view(view, text)                                   \
	do {                                                      \
		struct bytes view_ = (view);                      \
		assert_int_equal(view_.len, strlen(text));        \
		assert_memory_equal(view_.data, text, view_.len); \
	} while (0)

TEST(test_equal)
{
	struct bytes none = {NULL, 0};

	assert_true(bytes_equal(none, bytes_of("")));
	assert_true(bytes_equal(bytes_of("ab"), bytes_of("ab")));
	assert_false(bytes_equal(bytes_of("ab"), bytes_of("abc")));
	assert_false(bytes_equal(bytes_of("ab"), bytes_of("ac")));
}

TEST(test_order)
{
	static const char *const rising[] = {"", "a", "a\x01", "aa", "ab", "b", "b\x80"};
	const int n = sizeof rising / sizeof rising[0];

	for (int i = 0; i < n; i++) {
		for (int j = 0; j < n; j++) {
			int order = bytes_compare(bytes_of(rising[i]), bytes_of(rising[j]));

			assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
		}
	}
}

TEST(test_copies)
{
	struct bytes none = bytes_copy((struct bytes){NULL, 0});
	struct bytes copy = bytes_copy(bytes_of("node"));
	char *text = bytes_to_text(bytes_of("node"));
	char *empty = bytes_to_text(none);

	assert_null(none.data);
	assert_int_equal(none.len, 0);
	assert_view(copy, "node");
	assert_string_equal(text, "node");
	assert_string_equal(empty, "");
	free((void *)copy.data);
	free(text);
	free(empty);
}

TEST(test_numbers_are_little_endian)
{
	static const uint8_t expected[] = {0x01, 0x03, 0x02, 0x07, 0x06, 0x05, 0x04, 0x0f,
	                                   0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x09, 0x08};
	struct buffer b = BUFFER(100);
	struct cursor c;

	buffer_put_u8(&b, 0x01);
	buffer_put_u16(&b, 0x0203);
	buffer_put_u32(&b, 0x04050607);
	buffer_put_u64(&b, 0x08090a0b0c0d0e0f);
	assert_int_equal(b.len, sizeof expected);
	assert_memory_equal(b.data, expected, sizeof expected);

	c = cursor_of(buffer_view(&b));
	assert_int_equal(cursor_u8(&c), 0x01);
	assert_int_equal(cursor_u8(&c), 0x03);
	assert_int_equal(cursor_u8(&c), 0x02);
	assert_int_equal(cursor_u32(&c), 0x04050607);
	assert_false(cursor_done(&c));
	assert_int_equal(cursor_u64(&c), 0x08090a0b0c0d0e0f);
	assert_true(cursor_done(&c));
	buffer_free(&b);
}

TEST(test_buffer_grows)
{
	struct buffer b = BUFFER(1 << 20);

	for (uint32_t i = 0; i < (1 << 18); i++)
		buffer_put_u32(&b, i);
	assert_false(b.failed);
	assert_int_equal(b.len, 1 << 20);

	struct cursor c = cursor_of(buffer_view(&b));
	for (uint32_t i = 0; i < (1 << 18); i++)
		assert_int_equal(cursor_u32(&c), i);
	assert_true(cursor_done(&c));
	buffer_free(&b);
}

TEST(test_buffer_keeps_its_limit)
{
	struct buffer b = BUFFER(5);

	buffer_put(&b, "abcd", 4);
	buffer_put_u16(&b, 0);
	assert_true(b.failed);
	assert_view(buffer_view(&b), "abcd");
	buffer_put_u8(&b, 'e'); /* it would fit; what failed stays failed */
	assert_view(buffer_view(&b), "abcd");

	buffer_reset(&b);
	assert_false(b.failed);
	buffer_put_bytes(&b, bytes_of("12345"));
	assert_false(b.failed);
	buffer_printf(&b, "%s", "");
	assert_false(b.failed);
	buffer_printf(&b, "%d", 6);
	assert_true(b.failed);
	assert_view(buffer_view(&b), "12345");
	buffer_free(&b);
}

TEST(test_buffer_of_nothing)
{
	struct buffer b = BUFFER(0);

	buffer_put(&b, NULL, 0);
	buffer_put_bytes(&b, (struct bytes){NULL, 0});
	assert_false(b.failed);
	assert_int_equal(b.len, 0);
	buffer_put_u8(&b, 1);
	assert_true(b.failed);
	buffer_patch_u32(&b, 0, 7); /* after a failure there may be nothing to patch */
	buffer_free(&b);
}

TEST(test_buffer_printf)
{
	struct buffer b = BUFFER(300);

	buffer_printf(&b, "%s=%d", "node", 7);
	assert_view(buffer_view(&b), "node=7");
	buffer_printf(&b, "%290d", 1);
	assert_false(b.failed);
	assert_int_equal(b.len, 296);
	buffer_free(&b);
}

TEST(test_buffer_patch)
{
	struct buffer b = BUFFER(16);

	buffer_put_u8(&b, '<');
	buffer_put_u32(&b, 0);
	buffer_put_u8(&b, '>');
	buffer_patch_u32(&b, 1, 0x64636261);
	assert_view(buffer_view(&b), "<abcd>");
	buffer_free(&b);
}

TEST(test_buffer_take)
{
	struct buffer b = BUFFER(16);
	struct bytes taken;

	buffer_put_bytes(&b, bytes_of("mine"));
	taken = buffer_take(&b);
	assert_view(taken, "mine");
	assert_int_equal(b.len, 0);
	assert_int_equal(b.limit, 16);
	buffer_put_bytes(&b, bytes_of("new"));
	assert_view(taken, "mine");
	free((void *)taken.data);
	buffer_free(&b);
}

TEST(test_cursor_latches)
{
	struct cursor c = cursor_of(bytes_of("abc"));

	assert_int_equal(cursor_u32(&c), 0);
	assert_true(c.failed);
	assert_int_equal(cursor_u8(&c), 0); /* there is one, but the position means nothing now */
	assert_int_equal(cursor_bytes(&c, 1).len, 0);
	assert_false(cursor_done(&c));
}

TEST(test_cursor_never_overruns)
{
	static const size_t lengths[] = {4, 5, SIZE_MAX - 1, SIZE_MAX};

	for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
		struct cursor c = cursor_of(bytes_of("abc"));

		assert_int_equal(cursor_bytes(&c, lengths[i]).len, 0);
		assert_true(c.failed);
	}
}

TEST(test_cursor_views)
{
	struct cursor c = cursor_of(bytes_of("abcdef"));
	struct cursor nothing = cursor_of((struct bytes){NULL, 0});

	assert_view(cursor_bytes(&c, 2), "ab");
	assert_int_equal(cursor_left(&c), 4);
	assert_view(cursor_bytes(&c, 4), "cdef");
	assert_view(cursor_bytes(&c, 0), "");
	assert_true(cursor_done(&c));
	assert_true(cursor_done(&nothing));
}

/* The published vectors of XXH64, as xxh64sum prints them. */
TEST(test_checksum)
{
	struct bytes a = bytes_of("a"), b = bytes_of("bc");

	assert_true(checksum((struct bytes){NULL, 0}) == 0xef46db3751d8e999);
	assert_true(checksum(a) == 0xd24ec4f1a98c6e5b);
	assert_true(checksum(bytes_of("abc")) == 0x44bc2cf5ad770999);
	assert_true(checksum_chain(0, a) == checksum(a));
	assert_true(checksum_chain(checksum(a), b) != checksum_chain(checksum(b), a));
}

/* The first numbers of SplitMix64 with seed 1234567, as its author's program prints them. */
TEST(test_rng_sequence)
{
	static const uint64_t expected[] = {6457827717110365317u, 3203168211198807973u,
	                                    9817491932198370423u, 4593380528125082431u,
	                                    16408922859458223821u};
	struct rng r = rng_seeded(1234567);

	for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
		assert_true(rng_next(&r) == expected[i]);
}

TEST(test_rng_below)
{
	struct rng r = rng_seeded(1);
	unsigned seen[7] = {0}, often = 0;

	for (int i = 0; i < 7000; i++)
		seen[rng_below(&r, 7)]++; /* out of bounds: the sanitizer tells */
	for (int i = 0; i < 7; i++)
		assert_in_range(seen[i], 900, 1100);
	for (int i = 0; i < 10000; i++)
		often += rng_chance(&r, 250);
	assert_in_range(often, 2300, 2700);
	assert_int_equal(rng_below(&r, 0), 0);
	assert_int_equal(rng_below(&r, 1), 0);
	assert_false(rng_chance(&r, 0));
	assert_true(rng_chance(&r, 1000));
	for (int i = 0; i < 1000; i++)
		assert_true(rng_below(&r, UINT64_MAX) < UINT64_MAX);
}

static void
break_invariant(void)
{
	must(1 + 1 == 3);
}

static void
overflow_allocation(void)
{
	memory_zero(SIZE_MAX / 2, 3);
}

/* Runs `work`, which has to abort, in a child; what it says on stderr goes to `said`. */
static void
assert_aborts(void (*work)(void), char *said, size_t room)
{
	int ends[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		work();
		_exit(0);
	}
	close(ends[1]);
	for (size_t len = 0; (n = read(ends[0], said + len, room - 1 - len)) > 0;)
		said[len += (size_t)n] = '\0';
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

TEST(test_must)
{
	char said[4096] = "";

	must(true);
	assert_aborts(break_invariant, said, sizeof said);
	assert_non_null(strstr(said, "test_bytes.c:"));
	assert_non_null(strstr(said, ": broken invariant: 1 + 1 == 3\n"));
}

TEST(test_memory)
{
	char said[4096] = "";
	uint64_t *zeros = memory_zero(3, sizeof *zeros);
	void *nothing = memory_zero(0, 8);
	struct {
		int *items;
		size_t n, room;
	} array = {NULL, 0, 0};

	assert_true(zeros[0] == 0 && zeros[1] == 0 && zeros[2] == 0);
	assert_non_null(nothing);
	for (int i = 0; i < 100; i++) {
		ARRAY_ROOM(array.items, array.n, array.room);
		array.items[array.n++] = i;
	}
	for (int i = 0; i < 100; i++)
		assert_int_equal(array.items[i], i);
	assert_aborts(overflow_allocation, said, sizeof said);
	assert_non_null(strstr(said, "broken invariant"));
	free(array.items);
	free(nothing);
	free(zeros);
}
