/* The kernel's table of local locks: which lines are about our mount. */
#include "tests/unit/unit.h"

#include "cell/sys/local_lock.h"

static const struct mountinfo ours = {.major = 0, .minor = 0x27};

static bool
parse(const char *line, struct local_lock *lock)
{
	return local_lock_parse(line, &ours, lock);
}

TEST(test_our_device)
{
	struct local_lock lock;

	assert_true(parse("1: FLOCK  ADVISORY  WRITE 1234 00:27:5 0 EOF\n", &lock));
	assert_int_equal(lock.pid, 1234);
	assert_int_equal(lock.ino, 5);
	assert_true(parse("12: POSIX  ADVISORY  READ 7 00:27:18446744073709551615 0 EOF\n", &lock));
	assert_true(lock.ino == UINT64_MAX);
	assert_true(parse("3: OFDLCK ADVISORY  READ -1 00:27:6 0 EOF\n", &lock));
	assert_false(lock.lease);
	assert_true(parse("4: LEASE  ACTIVE    READ 1234 00:27:6 0 EOF\n", &lock));
	assert_true(lock.lease);
}

TEST(test_other_lines)
{
	struct local_lock lock;

	assert_false(parse("1: FLOCK  ADVISORY  WRITE 1234 00:28:5 0 EOF\n", &lock));
	assert_false(parse("1: FLOCK  ADVISORY  WRITE 1234 08:27:5 0 EOF\n", &lock));
	assert_false(parse("1: -> FLOCK  ADVISORY  WRITE 1234 00:27:5 0 EOF\n", &lock));
	assert_false(parse("1: FLOCK  ADVISORY  WRITE\n", &lock));
	assert_false(parse("\n", &lock));
	assert_false(parse("", &lock));
}
