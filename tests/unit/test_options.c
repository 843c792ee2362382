/* The command line of lsfs, as people, mount(8) and mount.fuse3(8) write it. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "fs/options.h"

enum { WORDS = 16, WORD_MAX = 80 };

/* Splits at blanks; the words are kept until the next call. */
static bool
parse(struct options *o, const char *line)
{
	static char words[WORDS][WORD_MAX];
	char *argv[WORDS + 1] = {NULL}, copy[256], *rest = copy, *word;
	int argc = 0;

	snprintf(copy, sizeof copy, "%s", line);
	while ((word = strsep(&rest, " "))) {
		assert_true(argc < WORDS && strlen(word) < WORD_MAX);
		argv[argc] = strcpy(words[argc], word);
		argc++;
	}
	optind = 0; /* a new scan */
	return options_parse(o, argc, argv);
}

static void
refused(const char *line)
{
	struct options o;

	if (parse(&o, line))
		fail_msg("not refused: %s", line);
	options_free(&o);
}

TEST(test_defaults)
{
	struct options o;

	assert_true(parse(&o, "lsfs --standalone data mnt"));
	assert_true(o.standalone);
	assert_false(o.foreground || o.debug);
	assert_false(o.background || o.quiet || o.allow_other || o.commit_at_write || o.fake);
	assert_string_equal(o.source, "data");
	assert_string_equal(o.mountpoint, "mnt");
	assert_int_equal(o.lock_delay_s, 15);
	assert_int_equal(o.grace_s, 0);
	assert_null(o.kernel);
	assert_null(o.cell);
	options_free(&o);
}

/* The mount keeps its options, so that none may be given. */
TEST(test_replace)
{
	struct options o;

	assert_true(parse(&o, "lsfs -f --replace mnt"));
	assert_true(o.replace && o.foreground);
	assert_string_equal(o.mountpoint, "mnt");
	options_free(&o);
	refused("lsfs --replace");
	refused("lsfs --replace dc1 mnt");
	refused("lsfs --replace -o quiet mnt");
	refused("lsfs --replace --standalone mnt");
	refused("lsfs --replace --cell c mnt");
}

TEST(test_any_order)
{
	struct options o;

	assert_true(parse(&o, "lsfs data -o lock_delay=0,quiet mnt -df --cell dc1 -o "
	                      "commit=write,ro,nodev,key=k,grace=7,allow_other --standalone"));
	assert_true(o.standalone && o.foreground && o.debug);
	assert_true(o.quiet && o.allow_other && o.commit_at_write);
	assert_string_equal(o.source, "data");
	assert_string_equal(o.mountpoint, "mnt");
	assert_string_equal(o.cell, "dc1");
	assert_string_equal(o.key, "k");
	assert_int_equal(o.lock_delay_s, 0);
	assert_int_equal(o.grace_s, 7);
	assert_string_equal(o.kernel, "ro,nodev");
	options_free(&o);
}

TEST(test_umask)
{
	struct options o;

	assert_true(parse(&o, "lsfs data mnt"));
	assert_int_equal(o.umask, 0);
	options_free(&o);
	assert_true(parse(&o, "lsfs -o umask=0027 data mnt"));
	assert_int_equal(o.umask, 0027);
	options_free(&o);
	assert_true(parse(&o, "lsfs -o umask=777 data mnt"));
	options_free(&o);
	refused("lsfs -o umask=1000 data mnt");
	refused("lsfs -o umask=-1 data mnt");
	refused("lsfs -o umask=8 data mnt");
	refused("lsfs -o umask= data mnt");
	refused("lsfs -o umask data mnt");
}

/* mount.fuse3 calls `lsfs SOURCE MOUNTPOINT -o rw,...,dev,suid`; mount(8) calls the helper with
 * everything that stands in fstab, and letters of its own. */
TEST(test_as_mount_helper)
{
	struct options o;

	assert_true(parse(&o, "lsfs data mnt -o "
	                      "rw,standalone,nofail,_netdev,x-a.b=c,user,dev,suid"));
	assert_true(o.standalone);
	assert_string_equal(o.kernel, "rw,dev,suid");
	options_free(&o);
	assert_true(parse(&o, "/sbin/mount.lsfs data mnt -n -s -f -o rw,standalone,user=bob"));
	assert_true(o.fake);
	assert_false(o.foreground);
	options_free(&o);
	assert_true(parse(&o, "mount.fuse.lsfs data mnt -r -o standalone"));
	assert_string_equal(o.kernel, "ro");
	options_free(&o);
}

TEST(test_help_needs_no_arguments)
{
	struct options o;

	assert_true(parse(&o, "lsfs --help"));
	assert_true(o.help);
	assert_true(parse(&o, "lsfs -V"));
	assert_true(o.version);
}

/* The lines that say what is wrong would hide what the test says. */
static int
silence(void **state)
{
	int null = open("/dev/null", O_WRONLY);

	(void)state;
	return dup2(null, STDERR_FILENO) < 0 || close(null) < 0;
}

TEST_WITH(test_refused, silence, NULL)
{
	static const char *const lines[] = {
	    "lsfs",
	    "lsfs --standalone data",
	    "lsfs --standalone data mnt more",
	    "lsfs --nonsense data mnt",
	    "lsfs -n data mnt",
	    "lsfs --cell a/b data mnt",
	    "lsfs data mnt -o",
	    "lsfs data mnt -o nonsense",
	    "lsfs data mnt -o nonsense=1",
	    "lsfs data mnt -o fsname=x",
	    "lsfs data mnt -o lock_delay",
	    "lsfs data mnt -o key",
	    "lsfs data mnt -o lock_delay=61",
	    "lsfs data mnt -o lock_delay=-1",
	    "lsfs data mnt -o lock_delay=",
	    "lsfs data mnt -o lock_delay=1x",
	    "lsfs data mnt -o lock_delay=99999999999999999999",
	    "lsfs data mnt -o grace=0",
	    "lsfs data mnt -o commit=never",
	    "lsfs data mnt -o key=",
	    "lsfs data mnt -o quiet=1",
	};

	for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
		refused(lines[i]);
}
