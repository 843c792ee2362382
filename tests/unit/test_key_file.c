/* Key files: made once, private or refused, every damage named. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cell/config/key_file.h"
#include "tests/unit/unit.h"

static char directory[] = "/tmp/test_key_file.XXXXXX";
static char path[64];
static char why[512];

static void
put_file(const char *text, mode_t mode)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	assert_int_equal(chmod(path, mode), 0);
}

/* A process that has read a key has it in its memory. */
TEST(test_no_core_has_a_key)
{
	struct noise_pair pair;
	int dumpable;

	unlink(path);
	assert_int_equal(key_file_create_channel(path, NULL, &pair), 0);
	assert_int_equal(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
	assert_true(key_file_read_replica(path, &pair, why, sizeof why));
	dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
#ifndef __SANITIZE_ADDRESS__
	assert_int_equal(dumpable, 0);
#else
	assert_int_equal(dumpable, 1);
#endif
}

TEST(test_made_and_read)
{
	uint8_t secret[SIGN_SECRET], public_key[SIGN_PUBLIC];
	struct sign_keys again;
	struct stat st;

	unlink(path);
	assert_int_equal(key_file_create_signing(path, secret, public_key), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_true(key_file_read_signing(path, &again, why, sizeof why));
	assert_int_equal(again.n, 1);
	assert_memory_equal(secret, again.secret[0], SIGN_SECRET);
	assert_memory_equal(secret + 32, public_key, SIGN_PUBLIC);
}

TEST(test_never_overwritten)
{
	uint8_t secret[SIGN_SECRET], other[SIGN_SECRET], public_key[SIGN_PUBLIC];
	struct sign_keys keys;

	unlink(path);
	assert_int_equal(key_file_create_signing(path, secret, public_key), 0);
	assert_int_equal(key_file_create_signing(path, other, public_key), -EEXIST);
	assert_true(key_file_read_signing(path, &keys, why, sizeof why));
	assert_memory_equal(secret, keys.secret[0], SIGN_SECRET);
}

static void
assert_replaced_beside(const char *unfinished)
{
	struct sign_keys keys = {.n = 1}, found;
	struct stat st;

	memset(keys.secret[0], 7, SIGN_SECRET);
	assert_int_equal(key_file_replace_signing(path, &keys), 0);
	assert_int_not_equal(access(unfinished, F_OK), 0);
	assert_true(key_file_read_signing(path, &found, why, sizeof why));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_uid, geteuid());
	assert_int_equal(st.st_nlink, 1);
}

/* A file that a crash has left with both its names: the old contents stay until it is replaced. */
TEST(test_an_unfinished_file_with_a_second_name)
{
	uint8_t secret[SIGN_SECRET], public_key[SIGN_PUBLIC];
	char unfinished[80], text[2][256] = {"", ""};
	ssize_t n;
	int fd;

	unlink(path);
	snprintf(unfinished, sizeof unfinished, "%s.new", path);
	assert_int_equal(key_file_create_signing(path, secret, public_key), 0);
	assert_int_equal(link(path, unfinished), 0);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	n = pread(fd, text[0], sizeof text[0], 0);
	assert_true(n > 0);
	assert_replaced_beside(unfinished);
	assert_int_equal(pread(fd, text[1], sizeof text[1], 0), n);
	assert_memory_equal(text[0], text[1], sizeof text[0]);
	close(fd);
}

/* Nobody gets a key by making the file before, nor holds its writer up. */
TEST(test_an_unfinished_file_of_somebody_else)
{
	char unfinished[80];
	int fd;

	if (geteuid() != 0)
		skip();
	snprintf(unfinished, sizeof unfinished, "%s.new", path);
	fd = open(unfinished, O_WRONLY | O_CREAT, 0666);
	assert_true(fd >= 0);
	assert_int_equal(fchown(fd, 1, 1), 0);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	alarm(10);
	assert_replaced_beside(unfinished);
	alarm(0);
	close(fd);
}

/* Of processes that make the key at once, the file has that of the one which was told so. */
TEST(test_made_by_one_of_several)
{
	enum { PROCESSES = 4, ROUNDS = 50 };

	for (int round = 0; round < ROUNDS; round++) {
		pid_t pids[PROCESSES];
		int status, makers = 0;

		unlink(path);
		for (int i = 0; i < PROCESSES; i++) {
			struct noise_pair made, back;
			int rc;

			pids[i] = fork();
			assert_true(pids[i] >= 0);
			if (pids[i] > 0)
				continue;
			rc = key_file_create_channel(path, NULL, &made);
			if (rc == 0 && (!key_file_read_replica(path, &back, why, sizeof why) ||
			                memcmp(&made, &back, sizeof made) != 0))
				_exit(2);
			_exit(rc == 0 ? 0 : rc == -EEXIST ? 1 : 3);
		}
		for (int i = 0; i < PROCESSES; i++) {
			assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
			assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
			makers += WEXITSTATUS(status) == 0;
		}
		assert_int_equal(makers, 1);
	}
}

TEST(test_leftover_of_a_crash)
{
	uint8_t secret[SIGN_SECRET], public_key[SIGN_PUBLIC];
	struct sign_keys keys;
	char unfinished[80];
	FILE *f;

	unlink(path);
	snprintf(unfinished, sizeof unfinished, "%s.new", path);
	f = fopen(unfinished, "w");
	assert_non_null(f);
	fputs("half a k", f);
	fclose(f);
	assert_int_equal(key_file_create_signing(path, secret, public_key), 0);
	assert_int_not_equal(access(unfinished, F_OK), 0);
	assert_true(key_file_read_signing(path, &keys, why, sizeof why));
}

/* During a rotation there are several. */
TEST(test_several)
{
	struct sign_keys keys = {.n = SIGN_KEYS}, again;
	uint8_t public_key[SIGN_PUBLIC];
	struct key_public known;
	struct stat st;

	unlink(path);
	for (int i = 0; i < SIGN_KEYS; i++) {
		unlink(path);
		assert_int_equal(key_file_create_signing(path, keys.secret[i], public_key), 0);
		assert_int_equal(sign_keys_find(&keys, public_key), i);
	}
	assert_int_equal(key_file_replace_signing(path, &keys), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_true(key_file_read_signing(path, &again, why, sizeof why));
	assert_memory_equal(&keys, &again, sizeof keys);
	assert_true(key_file_read_public(path, &known, why, sizeof why));
	assert_memory_equal(known.public_key, sign_public(keys.secret[0]), SIGN_PUBLIC);
	keys.n = 1;
	assert_int_equal(sign_keys_find(&keys, public_key), -1);
	assert_int_equal(key_file_replace_signing(path, &keys), 0);
	assert_true(key_file_read_signing(path, &again, why, sizeof why));
	assert_int_equal(again.n, 1);
}

TEST(test_copied)
{
	uint8_t secret[SIGN_SECRET], public_key[SIGN_PUBLIC];
	struct sign_keys again;
	char copy[80];

	unlink(path);
	snprintf(copy, sizeof copy, "%s.copy", path);
	assert_int_equal(key_file_create_signing(path, secret, public_key), 0);
	assert_int_equal(key_file_copy_signing(copy, secret), 0);
	assert_int_equal(key_file_copy_signing(copy, secret), -EEXIST);
	assert_true(key_file_read_signing(copy, &again, why, sizeof why));
	assert_memory_equal(secret, again.secret[0], SIGN_SECRET);
	unlink(copy);
}

TEST(test_channel_keys)
{
	struct noise_pair made, other, back;
	struct key_public known;
	char name[LIMIT_PRINCIPAL + 1];

	unlink(path);
	assert_int_equal(key_file_create_channel(path, NULL, &made), 0);
	assert_int_equal(key_file_create_channel(path, NULL, &other), -EEXIST);
	assert_true(key_file_read_replica(path, &back, why, sizeof why));
	assert_memory_equal(&made, &back, sizeof made);
	assert_memory_not_equal(made.secret, other.secret, NOISE_KEY);
	assert_true(key_file_read_public(path, &known, why, sizeof why));
	assert_int_equal(known.kind, KEY_REPLICA);
	assert_memory_equal(known.public_key, made.public, NOISE_KEY);
	assert_false(key_file_read_principal(path, name, &back, why, sizeof why));
	assert_non_null(strstr(why, "a replica key where a principal key is needed"));
	unlink(path);
	assert_int_equal(key_file_create_channel(path, "ann", &made), 0);
	assert_true(key_file_read_principal(path, name, &back, why, sizeof why));
	assert_string_equal(name, "ann");
	assert_memory_equal(&made, &back, sizeof made);
	assert_true(key_file_read_principal(path, NULL, &back, why, sizeof why));
	assert_true(key_file_read_public(path, &known, why, sizeof why));
	assert_string_equal(known.name, "ann");
	assert_false(key_file_read_replica(path, &back, why, sizeof why));
	assert_false(key_file_read_signing(path, &(struct sign_keys){0}, why, sizeof why));
}

/* A key is given to commands as an argument, and may not look like an option. */
TEST(test_keys_are_no_options)
{
	struct noise_pair made;
	char text[KEY_TEXT];

	for (int i = 0; i < 500; i++) {
		unlink(path);
		assert_int_equal(key_file_create_channel(path, "ann", &made), 0);
		assert_true(key_to_text(made.public, sizeof made.public, text, sizeof text));
		assert_int_not_equal(text[0], '-');
	}
}

TEST(test_names)
{
	static const char *const bad[] = {"", "a/b", "*", "a#", "a b", "a\x7f", "a\n"};
	char name[LIMIT_PRINCIPAL + 2];

	assert_true(key_principal_valid("ann@host.example"));
	assert_true(key_principal_valid("\xc3\xa4"));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(key_principal_valid(bad[i]));
	memset(name, 'a', sizeof name);
	name[LIMIT_PRINCIPAL] = '\0';
	assert_true(key_principal_valid(name));
	name[LIMIT_PRINCIPAL] = 'a';
	name[LIMIT_PRINCIPAL + 1] = '\0';
	assert_false(key_principal_valid(name));
	unlink(path);
	assert_int_equal(key_file_create_channel(path, name, &(struct noise_pair){{0}, {0}}),
	                 -EINVAL);
	assert_int_not_equal(access(path, F_OK), 0);
}

static void
assert_refused(const char *reason)
{
	struct sign_keys keys;

	why[0] = '\0';
	assert_false(key_file_read_signing(path, &keys, why, sizeof why));
	assert_non_null(strstr(why, path));
	if (strstr(why, reason) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", why, reason);
}

#define KEY "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

static const char *const damaged[] = {
    "\n",
    "signing",
    "signing AAAA\n",
    "signing " KEY "A\n",
    "signing  " KEY "\n",
    "signing !AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n",
    "signature " KEY "\n",
    "signing " KEY "\nmore\n",
    "signing " KEY "\n\n",
    "principal " KEY "\n",
    "principal a/b " KEY "\n",
    "principal a b " KEY "\n",
    "replica a " KEY "\n",
    "replica " KEY "\nreplica " KEY "\n",
    "signing " KEY "\nreplica " KEY "\n",
    "signing " KEY "\nsigning " KEY "\nsigning " KEY "\nsigning " KEY "\nsigning " KEY "\n",
};

TEST(test_refused)
{
	static const char good[] = "signing " KEY "\n";
	char longer[1024];

	unlink(path);
	assert_refused("No such file");
	put_file(good, 0600);
	assert_true(key_file_read_signing(path, &(struct sign_keys){0}, why, sizeof why));
	put_file(good, 0640);
	assert_refused("0640");
	put_file(good, 0602);
	assert_refused("0602");
	put_file("", 0600);
	assert_refused("damaged");
	for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
		put_file(damaged[i], 0600);
		assert_refused("damaged");
	}
	put_file("signing " KEY, 0600);
	assert_true(key_file_read_signing(path, &(struct sign_keys){0}, why, sizeof why));
	memset(longer, 'A', sizeof longer - 1);
	longer[sizeof longer - 1] = '\0';
	put_file(longer, 0600);
	assert_refused("too long");
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_refused("Is a directory");
	rmdir(path);
}

TEST(test_text)
{
	uint8_t key[32], back[32];
	char text[44], small[43];

	for (int i = 0; i < 32; i++)
		key[i] = (uint8_t)(i * 37 + 250);
	assert_true(key_to_text(key, 32, text, sizeof text));
	assert_int_equal(strlen(text), 43);
	assert_true(key_from_text(text, back, 32));
	assert_memory_equal(key, back, 32);
	assert_false(key_to_text(key, 32, small, sizeof small));
	assert_false(key_from_text(text, back, 31));
	text[42] = '\0';
	assert_false(key_from_text(text, back, 32));
	assert_false(key_from_text("", back, 32));
}

int
main(void)
{
	int failed;

	if (mkdtemp(directory) == NULL)
		return 1;
	snprintf(path, sizeof path, "%s/k", directory);
	failed = unit_run(NULL, NULL);
	unlink(path);
	rmdir(directory);
	return failed;
}
