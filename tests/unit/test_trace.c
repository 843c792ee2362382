#include <string.h>
#include "cell/base/trace.h"
#include "tests/unit/unit.h"

static int
evaluated(int *times)
{
	return ++*times;
}

TEST(test_verdicts_cost_nothing_while_off)
{
	struct trace t = {0};
	enum trace_kind kind;
	int times = 0;

	TRACE(&t, "%d", evaluated(&times));
	TRACE(NULL, "%d", evaluated(&times));
	NOTICE(NULL, "%d", evaluated(&times));
	assert_int_equal(times, 0);
	assert_null(trace_take(&t, &kind));
	assert_null(t.lines.data);
}

TEST(test_lines_are_taken_in_order)
{
	struct trace t = {.on = true};
	enum trace_kind kind;

	TRACE(&t, "promises ballot %d.%d", 3, 1);
	NOTICE(&t, "master");
	assert_string_equal(trace_take(&t, &kind), "promises ballot 3.1");
	assert_int_equal(kind, TRACE_VERDICT);
	TRACE(&t, "one line:\n two");
	assert_string_equal(trace_take(&t, &kind), "master");
	assert_int_equal(kind, TRACE_NOTICE);
	assert_string_equal(trace_take(&t, &kind), "one line:? two");
	assert_null(trace_take(&t, &kind));
	assert_int_equal(t.lines.len, 0);
	trace_free(&t);
}

TEST(test_a_notice_needs_no_switch)
{
	struct trace t = {0};
	enum trace_kind kind;

	NOTICE(&t, "the disk is full");
	assert_string_equal(trace_take(&t, &kind), "the disk is full");
	assert_int_equal(kind, TRACE_NOTICE);
	trace_free(&t);
}

/* A sink whose lines nobody takes does not grow for ever. */
TEST(test_the_sink_has_a_limit)
{
	struct trace t = {.on = true};
	enum trace_kind kind;
	char text[5000];
	size_t n = 0;

	memset(text, 'x', sizeof text);
	text[sizeof text - 1] = '\0';
	for (int i = 0; i < 2000; i++)
		TRACE(&t, "%s", text);
	assert_true(t.lines.len > 1000000 && t.lines.len <= 1 << 20 && !t.lines.failed);
	while (trace_take(&t, &kind) != NULL)
		n++;
	assert_true(n > 1000 && n < 2000);
	trace_free(&t);
}
