/* The names of local users, from a file like /etc/passwd. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "fs/fuse/users.h"
#include "tests/unit/unit.h"

static void
put(const char *path, const char *text)
{
	char new[100];
	FILE *f;

	snprintf(new, sizeof new, "%s.new", path);
	f = fopen(new, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(rename(new, path), 0);
}

static void
expect(struct users *u, uid_t uid, const char *name)
{
	const struct bytes got = users_name(u, uid);

	assert_int_equal(got.len, strlen(name));
	if (got.len > 0)
		assert_memory_equal(got.data, name, got.len);
}

TEST(test_names)
{
	char path[] = "/tmp/lsfs-users.XXXXXX";
	struct users u;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	users_init(&u, path, 1000);
	expect(&u, 1001, "nobody");
	put(path, "root:x:0:0:root:/root:/bin/sh\n"
	          "zoe:x:1002:100::/home/zoe:/bin/sh\n"
	          "ann:x:1001:100::/home/ann:/bin/sh\n"
	          "ann2:x:1001:100::/home/ann:/bin/sh\n"
	          "own:x:1000:100::/home/own:/bin/sh\n"
	          "a/b:x:1003:100::/:/bin/sh\n"
	          "*:x:1004:100::/:/bin/sh\n"
	          "minus:x:-5:100::/:/bin/sh\n"
	          "huge:x:4294967295:100::/:/bin/sh\n"
	          "no uid\n\n"
	          "last:x:65534");
	expect(&u, 1001, "ann");
	expect(&u, 1002, "zoe");
	expect(&u, 65534, "last");
	expect(&u, 1000, "");
	expect(&u, 0, "root");
	expect(&u, 1003, "nobody");
	expect(&u, 1004, "nobody");
	expect(&u, 5, "nobody");
	put(path, "bob:x:1001:100::/:/bin/sh\n");
	expect(&u, 1001, "bob");
	expect(&u, 1002, "nobody");
	unlink(path);
	expect(&u, 1001, "nobody");
	users_free(&u);
}

TEST(test_the_mounting_user_is_root)
{
	struct users u;

	users_init(&u, "/nowhere", 0);
	expect(&u, 0, "");
	expect(&u, 7, "nobody");
	users_free(&u);
}
