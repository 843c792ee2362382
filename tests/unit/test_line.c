/* The lines that lsctl prints, with hostile names in them. */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include "cell/view/findings.h"
#include "cell/view/health.h"
#include "cell/view/output.h"
#include "ctl/cell_status.h"

static void
expect(const char *text, const char *shown)
{
	char *out = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&out, &size);

	line_put(f, text);
	fclose(f);
	assert_string_equal(out, shown);
	free(out);
}

TEST(test_text_is_shown_as_it_is)
{
	expect("", "");
	expect("ann  /ls/dc1/a b~", "ann  /ls/dc1/a b~");
	expect("\xc2\xa0|\xc3\xa4|\xe2\x82\xac|\xf0\x9f\x94\x92", /* U+00A0, a-umlaut, euro, lock */
	       "\xc2\xa0|\xc3\xa4|\xe2\x82\xac|\xf0\x9f\x94\x92");
}

TEST(test_control_characters_are_escaped)
{
	expect("a\nb\r\t\x1b[2J\x7f", "a\\x0ab\\x0d\\x09\\x1b[2J\\x7f");
	expect("\xc2\x80|\xc2\x9b"
	       "2J|\xc2\x9f",
	       "\\xc2\\x80|\\xc2\\x9b2J|\\xc2\\x9f");
}

TEST(test_bytes_that_are_not_utf8_are_escaped)
{
	expect("\x9b"
	       "2J",
	       "\\x9b2J");
	expect("a\xc3", "a\\xc3");
	expect("\xe2\x82\n", "\\xe2\\x82\\x0a");
	expect("\xc0\x8a\xff", "\\xc0\\x8a\\xff");
	expect("\xe0\x9f\xbf|\xed\xa0\x80|\xf4\x90\x80\x80",
	       "\\xe0\\x9f\\xbf|\\xed\\xa0\\x80|\\xf4\\x90\\x80\\x80");
	expect("\xe0\xa0\x80|\xed\x9f\xbf|\xf4\x8f\xbf\xbf",
	       "\xe0\xa0\x80|\xed\x9f\xbf|\xf4\x8f\xbf\xbf");
}

/* ---- what is printed ---- */

static const char hostile[] = "a\n\x1b[2J\xc2\x9b";

/* The list is printed in `lines` lines, without a control character of the hostile name. */
static void
expect_lines(void (*print)(const json_t *), json_t *list, int lines)
{
	FILE *const was = stdout;
	char *out = NULL;
	size_t size = 0;
	int n = 0;

	stdout = open_memstream(&out, &size);
	print(list);
	fclose(stdout);
	stdout = was;
	for (size_t i = 0; i < size; i++) {
		n += out[i] == '\n';
		assert_true(out[i] == '\n' || (out[i] >= ' ' && out[i] <= '~'));
	}
	assert_int_equal(n, lines);
	free(out);
	json_decref(list);
}

TEST(test_locks)
{
	json_t *locks =
	    json_pack("[{s:s, s:i, s:[{s:s, s:s, s:s, s:i, s:i}], s:[{s:s, s:s, s:s}]}]", "path",
	              hostile, "delay_left", 3, "holders", "host", hostile, "principal", hostile,
	              "mode", "exclusive", "pid", 7, "session", 9, "waiters", "host", hostile,
	              "principal", hostile, "mode", "shared");

	assert_non_null(locks);
	expect_lines(lock_list_print, locks, 4);
}

TEST(test_backups_and_replicas)
{
	json_t *health = json_pack("{s:i, s:[{s:i, s:s, s:b}, {s:i, s:s, s:b, s:i}]}", "master", 1,
	                           "replicas", "id", 1, "address", hostile, "reachable", 0, "id", 2,
	                           "address", hostile, "reachable", 0, "heard_ms", 5);

	assert_non_null(health);
	json_incref(health);
	expect_lines(replica_table_print, health, 8);
	expect_lines(replica_table_print_members, health, 3);
}

TEST(test_json)
{
	expect_lines(json_text_print_line, json_pack("[s, s]", hostile, "\x7f"), 1);
	expect_lines(json_text_print, json_pack("{s:s}", hostile, hostile), 3);
}

TEST(test_sessions)
{
	json_t *sessions = json_pack("[{s:i, s:s, s:s, s:i}]", "session", 9, "host", hostile,
	                             "principal", hostile, "heard_ms", 5);

	assert_non_null(sessions);
	expect_lines(session_list_print, sessions, 2);
}

static void
print_findings(const json_t *findings)
{
	findings_print(findings, SEVERITY_WARNING, "problem", true);
}

TEST(test_findings)
{
	json_t *findings = json_array();

	finding_add_detail(findings, FINDING_directory_lock, hostile, "%s", hostile);
	expect_lines(print_findings, findings, 1);
}
