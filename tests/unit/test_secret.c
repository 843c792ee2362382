/* Memory for keys: what lies in it, what lies around it, and who else reads it. */
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cell/base/must.h"
#include "cell/sys/secret.h"

enum { SIZE = 200 };

/* How a child ends that does this: its exit status, or minus the signal. */
static int
in_child(int (*deed)(void))
{
	const pid_t child = fork();
	int status;

	must(child >= 0);
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL); /* a sanitizer would report it */
		_exit(deed());
	}
	must(waitpid(child, &status, 0) == child);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* Of /proc/self/status, in KiB. */
static long
locked(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	long kilobytes = -1;

	must(f != NULL);
	while (fgets(line, sizeof line, f))
		sscanf(line, "VmLck: %ld", &kilobytes);
	fclose(f);
	return kilobytes;
}

static int
use(void)
{
	uint8_t *secret = secret_new(SIZE);
	int dirty = 0;

	for (int i = 0; i < SIZE; i++)
		dirty += secret[i];
	memset(secret, 1, SIZE);
	secret_free(secret);
	return dirty;
}

TEST(test_a_secret_begins_as_zeros)
{
	assert_int_equal(in_child(use), 0);
	secret_free(NULL);
}

static int
overrun(void)
{
	volatile uint8_t *secret = secret_new(SIZE);

	secret[SIZE] = 1;
	return 0;
}

TEST(test_no_overrun_reaches_a_secret)
{
	assert_int_equal(in_child(overrun), -SIGSEGV);
}

/* With sanitizers mlock does nothing. */
static bool
can_lock(void)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
	return false;
#else
	struct rlimit limit;

	return getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur >= 64 * 1024;
#endif
}

static int
lock_some(void)
{
	const long before = locked();
	void *secret = secret_new(SIZE);
	const long with = locked();

	secret_free(secret);
	return with > before && locked() == before ? 0 : 1;
}

static int
lock_none(void)
{
	const struct rlimit none = {0, 0};

	/* Root's are not limited. */
	if (setrlimit(RLIMIT_MEMLOCK, &none) < 0 || (geteuid() == 0 && setuid(65534) < 0))
		return 2;
	return use() == 0 && locked() == 0 ? 0 : 1;
}

TEST(test_secrets_are_locked_into_memory_if_that_is_allowed)
{
	if (can_lock())
		assert_int_equal(in_child(lock_some), 0);
	assert_int_equal(in_child(lock_none), 0);
}

static int
hide(void)
{
	return secret_hide_process() ? prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) : 2;
}

TEST(test_a_process_with_a_key_leaves_no_core)
{
#ifndef __SANITIZE_ADDRESS__
	assert_int_equal(in_child(hide), 0);
#else
	assert_int_equal(in_child(hide), 1);
#endif
}
