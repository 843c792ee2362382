/* The cell file: what is written is read back, what is wrong is named with file, line and value. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cell/io/conf.h"

#define KEY "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

static char directory[] = "/tmp/test_conf.XXXXXX";
static char path[64];
static char why[512];

static void
put_file(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void
assert_refused(const char *text, const char *reason)
{
	struct conf conf;

	put_file(text);
	why[0] = '\0';
	assert_false(conf_read(path, &conf, why, sizeof why));
	if (strncmp(why, path, strlen(path)) != 0 || strstr(why, reason) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", why, reason);
}

static void
test_round_trip(void **state)
{
	struct conf conf = {.name = "dc1.test_a-b", .replicas_n = 3}, back;

	(void)state;
	unlink(path);
	for (int i = 0; i < 32; i++)
		conf.signing_public[i] = (uint8_t)(255 - i);
	for (int i = 0; i < 3; i++) {
		conf.replicas[i].id = (uint8_t)(i + 1);
		if (i > 0)
			snprintf(conf.replicas[i].address, sizeof conf.replicas[i].address,
			         "host-%d.example:%d", i, 7000 + i);
	}
	assert_int_equal(conf_write(path, &conf), 0);
	if (!conf_read(path, &back, why, sizeof why))
		fail_msg("%s", why);
	assert_memory_equal(&conf, &back, sizeof conf);
	assert_int_equal(conf_write(path, &conf), -EEXIST);
}

static void
test_by_hand(void **state)
{
	struct conf conf;

	(void)state;
	put_file("; a comment\n\n[cell]\n  name: x  \nsigning_key=" KEY "\r\n"
	         "# another\n[replica 7]\naddress =\n");
	if (!conf_read(path, &conf, why, sizeof why))
		fail_msg("%s", why);
	assert_string_equal(conf.name, "x");
	assert_int_equal(conf.replicas_n, 1);
	assert_int_equal(conf.replicas[0].id, 7);
	assert_string_equal(conf.replicas[0].address, "");
}

#define GOOD_CELL "[cell]\nname = a\nsigning_key = " KEY "\n"
#define GOOD_REPLICA "[replica 1]\naddress =\n"

static void
test_refused(void **state)
{
	char longer[600];

	(void)state;
	assert_refused("", "no name");
	assert_refused(GOOD_CELL, "no [replica");
	assert_refused("[cell]\nname = a\n" GOOD_REPLICA, "no signing_key");
	assert_refused("[cell]\nname = ../etc\n", ":2: name: not a cell's name: ../etc");
	assert_refused("[cell]\nname = a\nname = b\n", ":3: name: given twice: b");
	assert_refused("[cell]\nname = a\nsigning_key = AAA\n", ":3: signing_key: not a key: AAA");
	assert_refused(GOOD_CELL "colour = red\n" GOOD_REPLICA,
	               ":4: unknown setting in [cell]: colour = red");
	assert_refused(GOOD_CELL "[replica 0]\naddress =\n", ":5: unknown section [replica 0]");
	assert_refused(GOOD_CELL "[replica 256]\naddress =\n", "[replica 256]");
	assert_refused(GOOD_CELL "[replica 1x]\naddress =\n", "[replica 1x]");
	assert_refused(GOOD_CELL GOOD_REPLICA GOOD_REPLICA, ":7: replica 1: given twice");
	assert_refused(GOOD_CELL "[replica 1]\nport = 7\n",
	               ":5: unknown setting in [replica 1]: port");
	assert_refused(GOOD_CELL GOOD_REPLICA "nonsense\n", ":6: not \"[section]\"");
	assert_refused("\x7f" "ELF\x01\x01", ":1: not");
	snprintf(longer, sizeof longer, "%s[replica 1]\naddress = %0400d\n", GOOD_CELL, 7);
	assert_refused(longer, ":5: line too long");
	unlink(path);
	assert_false(conf_read(path, &(struct conf){0}, why, sizeof why));
	assert_non_null(strstr(why, "No such file"));
}

static void
test_names(void **state)
{
	char name[LIMIT_CELL_NAME + 2];

	(void)state;
	assert_true(conf_cell_name_valid("local"));
	assert_true(conf_cell_name_valid("9.a_b-C"));
	assert_false(conf_cell_name_valid(""));
	assert_false(conf_cell_name_valid(".a"));
	assert_false(conf_cell_name_valid("a/b"));
	assert_false(conf_cell_name_valid("a b"));
	assert_false(conf_cell_name_valid("\xc3\xa4"));
	memset(name, 'a', sizeof name);
	name[LIMIT_CELL_NAME] = '\0';
	assert_true(conf_cell_name_valid(name));
	name[LIMIT_CELL_NAME] = 'a';
	name[LIMIT_CELL_NAME + 1] = '\0';
	assert_false(conf_cell_name_valid(name));
}

static void
test_unreadable(void **state)
{
	struct conf conf;

	(void)state;
	assert_false(conf_read(directory, &conf, why, sizeof why));
	assert_non_null(strstr(why, strerror(EISDIR)));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_round_trip), cmocka_unit_test(test_by_hand),
	    cmocka_unit_test(test_refused), cmocka_unit_test(test_names),
	    cmocka_unit_test(test_unreadable),
	};
	int failed;

	if (mkdtemp(directory) == NULL)
		return 1;
	snprintf(path, sizeof path, "%s/c", directory);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	rmdir(directory);
	return failed;
}
