/* The values of settings as text. */
#include <string.h>
#include "cell/base/setting.h"
#include "tests/unit/unit.h"

static void
expect_text(enum setting code, const char *text, uint64_t value, const char *printed)
{
	char back[SETTING_TEXT];
	uint64_t got = 0;

	if (!setting_parse((uint8_t)code, text, &got))
		fail_msg("%s: no value", text);
	assert_int_equal(got, value);
	setting_print((uint8_t)code, value, back);
	assert_string_equal(back, printed);
}

TEST(test_text)
{
	uint64_t value;

	expect_text(SETTING_session_lease, "12s", 12000, "12s");
	expect_text(SETTING_session_lease, "60s", 60000, "1m");
	expect_text(SETTING_session_lease, "1500ms", 1500, "1500ms");
	expect_text(SETTING_quota_bytes, "1G", 1 << 30, "1G");
	expect_text(SETTING_quota_bytes, "1025", 1025, "1025");
	expect_text(SETTING_quota_nodes, "100000", 100000, "100000");
	assert_false(setting_parse(SETTING_session_lease, "12", &value));
	assert_false(setting_parse(SETTING_session_lease, "s", &value));
	assert_false(setting_parse(SETTING_session_lease, "-1s", &value));
	assert_false(setting_parse(SETTING_session_lease, "1 s", &value));
	assert_false(setting_parse(SETTING_session_lease, "1G", &value));
	assert_false(setting_parse(SETTING_quota_nodes, "1K", &value));
	assert_false(setting_parse(SETTING_quota_bytes, "999999999999999999G", &value));
	assert_false(setting_parse(SETTING_quota_bytes, "9999999999999999999", &value));
	assert_int_equal(setting_named("heartbeat", 9), SETTING_heartbeat);
	assert_int_equal(setting_named("heartbea", 8), 0);
	assert_null(setting_info(0));
	assert_null(setting_info(SETTING_CODES));
}
