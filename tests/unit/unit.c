#include "tests/unit/unit.h"

enum { TESTS_MAX = 64 };

static struct CMUnitTest tests[TESTS_MAX];
static size_t tests_n;

void
unit_add(struct CMUnitTest test)
{
	if (tests_n < TESTS_MAX)
		tests[tests_n] = test;
	tests_n++;
}

int
unit_run(CMFixtureFunction setup, CMFixtureFunction teardown)
{
	if (tests_n > TESTS_MAX)
		return 1;
	return _cmocka_run_group_tests("tests", tests, tests_n, setup, teardown);
}
