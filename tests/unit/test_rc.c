/* Result codes: their numbers are on the wire and in the log, their errno is what callers see. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <string.h>
#include "cell/base/rc.h"

static const enum rc all[] = {
#define X(name, number, error, text) RC_##name,
    RC_LIST(X)
#undef X
};

enum { CODES = sizeof all / sizeof all[0] };

TEST(test_errno)
{
	assert_int_equal(rc_errno(RC_OK), 0);
	assert_int_equal(rc_errno(RC_NOENT), ENOENT);
	assert_int_equal(rc_errno(RC_BUSY_LOCK), EAGAIN);
	assert_int_equal(rc_errno(RC_CANCELED), ECANCELED);
	assert_int_equal(rc_errno(RC_STALE), ESTALE);
	assert_int_equal(rc_errno(RC_NO_SESSION), ESTALE);
	assert_int_equal(rc_errno(RC_BAD_MESSAGE), EPROTO);
	for (int i = 0; i < CODES; i++)
		assert_int_equal(rc_errno(all[i]) == 0, all[i] == RC_OK);
}

TEST(test_numbers_stay)
{
	assert_int_equal(RC_OK, 0);
	assert_int_equal(RC_BUSY, 23);
	assert_int_equal(RC_GUARD, 24);
	assert_int_equal(RC_QUEUED, 32);
	assert_int_equal(RC_FULL, 39);
	assert_int_equal(RC_AGAIN, 40);
	assert_int_equal(RC_DQUOT, 41);
	for (int i = 0; i < CODES; i++)
		assert_in_range(all[i], 0, UINT8_MAX);
}

TEST(test_names_and_texts)
{
	assert_string_equal(rc_name(RC_NOENT), "NOENT");
	assert_string_equal(rc_text(RC_NOENT), "no such node");
	for (int i = 0; i < CODES; i++) {
		assert_string_not_equal(rc_name(all[i]), "?");
		assert_string_not_equal(rc_text(all[i]), "unknown result");
		for (int j = 0; j < i; j++) {
			assert_string_not_equal(rc_name(all[i]), rc_name(all[j]));
			assert_string_not_equal(rc_text(all[i]), rc_text(all[j]));
		}
	}
}

TEST(test_numbers_without_meaning)
{
	static const unsigned none[] = {25, 31, 42, 255, 256, UINT32_MAX};

	for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
		assert_int_equal(rc_errno((enum rc)none[i]), EIO);
		assert_string_equal(rc_name((enum rc)none[i]), "?");
		assert_string_equal(rc_text((enum rc)none[i]), "unknown result");
	}
}
