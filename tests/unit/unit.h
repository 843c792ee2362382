/* What every unit test includes: cmocka with the headers that it asks for, and the definition of a
 * test,
 *
 *   TEST(test_what_it_shows)
 *   {
 *           ...
 *   }
 *
 * which adds itself to the tests of its program. The main function, which runs them, is in
 * unit_main.c; a program whose arguments matter has one of its own. */
#ifndef LSFS_TESTS_UNIT_H
#define LSFS_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define TEST(test) TEST_WITH(test, NULL, NULL)
/* Functions of cmocka that run before and after the test, with its `state`; NULL: none. */
#define TEST_WITH(test, setup, teardown) TEST_ON(test, setup, teardown, NULL)
/* `first` is what `state` leads to when the setup is called. */
#define TEST_ON(test, setup, teardown, first)                                       \
	static void test(void **state);                                             \
	static void __attribute__((constructor)) add_##test(void)                   \
	{                                                                           \
		unit_add((struct CMUnitTest){#test, test, setup, teardown, first}); \
	}                                                                           \
	static void test(void **state __attribute__((unused)))

void unit_add(struct CMUnitTest test);
/* Runs all tests, between two functions of cmocka (NULL: none); returns the program's exit status.
 */
int unit_run(CMFixtureFunction setup, CMFixtureFunction teardown);

#endif
