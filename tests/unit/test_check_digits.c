/* The check digits of handles: good for what they were computed of, and for nothing else. */
#include <string.h>
#include "cell/master/master_request.h"
#include "tests/unit/unit.h"

static const uint8_t secrets[2][CHECK_SECRET] = {"the cell's key", "its former key"};

static const struct requester ann = {.session = 7, .user = {(const uint8_t *)"ann", 3}};

static bool
genuine(const struct requester *who, uint64_t node, uint8_t rights)
{
	uint8_t digits[LIMIT_CHECK];

	check_digits(secrets[0], &ann, 9, RIGHT_READ, digits);
	return check_digits_genuine(secrets, 2, who, node, rights,
	                            (struct bytes){digits, sizeof digits});
}

TEST(test_digits_prove_what_they_are_of)
{
	assert_true(genuine(&ann, 9, RIGHT_READ));
}

TEST(test_digits_are_of_one_session_user_node_and_rights)
{
	const struct requester other_session = {.session = 8, .user = ann.user},
	                       principal = {.session = 7},
	                       other_user = {.session = 7, .user = bytes_of("anne")};

	assert_false(genuine(&other_session, 9, RIGHT_READ));
	assert_false(genuine(&principal, 9, RIGHT_READ));
	assert_false(genuine(&other_user, 9, RIGHT_READ));
	assert_false(genuine(&ann, 10, RIGHT_READ));
	assert_false(genuine(&ann, 9, RIGHT_READ | RIGHT_WRITE));
	assert_false(genuine(&ann, 9, 0));
}

/* What a handle had when it was opened is no part of what they are of. */
TEST(test_digits_are_the_same_through_a_handle)
{
	const struct requester through = {.session = 7,
	                                  .user = ann.user,
	                                  .handle_rights = RIGHT_WRITE};

	assert_true(genuine(&through, 9, RIGHT_READ));
}

TEST(test_digits_of_the_former_key)
{
	uint8_t digits[LIMIT_CHECK];

	check_digits(secrets[1], &ann, 9, RIGHT_READ, digits);
	assert_true(check_digits_genuine(secrets, 2, &ann, 9, RIGHT_READ,
	                                 (struct bytes){digits, sizeof digits}));
	assert_false(check_digits_genuine(secrets, 1, &ann, 9, RIGHT_READ,
	                                  (struct bytes){digits, sizeof digits}));
}

TEST(test_digits_of_another_key)
{
	uint8_t digits[LIMIT_CHECK], other[CHECK_SECRET];

	for (size_t i = 0; i < CHECK_SECRET; i++) {
		memcpy(other, secrets[0], sizeof other);
		other[i] ^= 0x80;
		check_digits(other, &ann, 9, RIGHT_READ, digits);
		assert_false(check_digits_genuine(secrets, 2, &ann, 9, RIGHT_READ,
		                                  (struct bytes){digits, sizeof digits}));
	}
}

TEST(test_digits_that_are_changed_or_cut)
{
	uint8_t digits[LIMIT_CHECK + 1] = {0};

	check_digits(secrets[0], &ann, 9, RIGHT_READ, digits);
	for (size_t len = 0; len <= sizeof digits; len++)
		assert_int_equal(check_digits_genuine(secrets, 2, &ann, 9, RIGHT_READ,
		                                      (struct bytes){digits, len}),
		                 len == LIMIT_CHECK);
	for (size_t bit = 0; bit < 8 * LIMIT_CHECK; bit++) {
		digits[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(check_digits_genuine(secrets, 2, &ann, 9, RIGHT_READ,
		                                  (struct bytes){digits, LIMIT_CHECK}));
		digits[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}
