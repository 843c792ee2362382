/* The files of a replica's identity: the signing keys are replaced before the cell file, and what
 * is on disk is known when one of the two can't be written. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell/config/identity.h"
#include "tests/unit/unit.h"

static char directory[64];
static char why[512];
static struct sign_keys one, two;
static const struct cell_file cell_file = {.name = "a", .replicas_n = 1, .replicas = {{.id = 1}}};

static int
setup(void **state)
{
	uint8_t public_key[SIGN_PUBLIC];

	(void)state;
	two.n = 2;
	for (int i = 0; i < two.n; i++)
		crypto_sign_keypair(public_key, two.secret[i]);
	one.n = 1;
	memcpy(one.secret[0], two.secret[0], SIGN_SECRET);
	strcpy(directory, "/tmp/test_identity.XXXXXX");
	return mkdtemp(directory) != NULL ? 0 : -1;
}

static int
teardown(void **state)
{
	static const char *const names[] = {"signing.key", "cell.conf"};
	char path[128];

	(void)state;
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/%s", directory, names[i]);
		unlink(path);
	}
	return rmdir(directory);
}

/* While it stands the file `name` can't be written. */
static void
obstruct(const char *name, bool stands)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s.new", directory, name);
	assert_int_equal(stands ? mkdir(path, 0700) : rmdir(path), 0);
}

static int
replace(const struct sign_keys *keys, struct sign_keys *on_disk)
{
	why[0] = '\0';
	return identity_replace(directory, keys, &cell_file, on_disk, why, sizeof why);
}

static void
expect_keys(const struct sign_keys *keys)
{
	struct sign_keys found = {0};
	char path[128];

	snprintf(path, sizeof path, "%s/signing.key", directory);
	assert_true(key_file_read_signing(path, &found, why, sizeof why));
	assert_memory_equal(&found, keys, sizeof found);
}

TEST_WITH(test_the_cell_file_fails, setup, teardown)
{
	struct sign_keys on_disk = {0};

	assert_int_equal(replace(&one, &on_disk), 0);
	obstruct("cell.conf", true);
	assert_int_equal(replace(&two, &on_disk), -EISDIR);
	assert_non_null(strstr(why, "/cell.conf: "));
	assert_memory_equal(&on_disk, &two, sizeof two);
	assert_int_equal(replace(&one, &on_disk), -EISDIR);
	expect_keys(&one);
	obstruct("cell.conf", false);
	assert_int_equal(replace(&one, &on_disk), 0);
	expect_keys(&one);
}

TEST_WITH(test_the_keys_fail, setup, teardown)
{
	struct sign_keys on_disk = {0};

	assert_int_equal(replace(&one, &on_disk), 0);
	obstruct("signing.key", true);
	assert_int_equal(replace(&one, &on_disk), 0); /* it has them */
	assert_int_equal(replace(&two, &on_disk), -EISDIR);
	assert_non_null(strstr(why, "/signing.key: "));
	assert_int_equal(on_disk.n, 0);
	expect_keys(&one);
	obstruct("signing.key", false);
	assert_int_equal(replace(&one, &on_disk), 0);
	assert_memory_equal(&on_disk, &one, sizeof one);
}

/* An operator may have set where a running replica listens when it is started the next time. */
TEST_WITH(test_what_an_operator_has_set_stays, setup, teardown)
{
	struct sign_keys on_disk = {0};
	struct cell_file set = cell_file, found;
	char path[128];

	snprintf(path, sizeof path, "%s/cell.conf", directory);
	assert_int_equal(replace(&one, &on_disk), 0);
	assert_true(cell_file_read(path, &set, why, sizeof why));
	strcpy(set.listen, "127.0.0.1:4711");
	strcpy(set.srv, "_lsfs._tcp.example.org");
	assert_int_equal(cell_file_replace(path, &set), 0);
	assert_int_equal(replace(&one, &on_disk), 0);
	assert_true(cell_file_read(path, &found, why, sizeof why));
	assert_string_equal(found.listen, set.listen);
	assert_string_equal(found.srv, set.srv);
}
