/* Memory runs out at any allocation of a store's life: the process ends there, with one line, and
 * on the disk is what it had acknowledged, whole. Each allocation has a process of its own, in
 * which it fails. (test_out_of_memory.c has the pure core.) */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/crash/victim.h"
#include "tests/unit/unit.h"

enum { SLOTS = 12, ALLOCATIONS_MAX = 20000, SAID_MAX = 512 };

void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);

static atomic_long left; /* allocations until one fails; 0: none does. The store has threads */
static long failing;     /* of the next child */
static int said;         /* what a child says */

void *
__wrap_calloc(size_t count, size_t size)
{
	return atomic_load(&left) > 0 && atomic_fetch_sub(&left, 1) == 1
	           ? NULL
	           : __real_calloc(count, size);
}

void *
__wrap_realloc(void *block, size_t size)
{
	return atomic_load(&left) > 0 && atomic_fetch_sub(&left, 1) == 1
	           ? NULL
	           : __real_realloc(block, size);
}

/* Two lives of a store, with some of everything. */
static int
live(void)
{
	const struct rlimit no_core = {0, 0};

	setrlimit(RLIMIT_CORE, &no_core);
	dup2(said, STDERR_FILENO);
	atomic_store(&left, failing);
	if (!victim_start())
		return REFUSED;
	for (uint64_t slot = 1; slot <= SLOTS; slot++) {
		fixture_log(&f, slot, payload_of(slot));
		if (slot % 4 != 0)
			continue;
		fixture_wait_persisted(&f, slot);
		fixture_save(&f, slot, payload_of(slot));
	}
	fixture_close(&f); /* all is saved */
	if (!victim_start())
		return REFUSED;
	fixture_log(&f, SLOTS + 1, payload_of(SLOTS + 1));
	victim_trim(SLOTS / 2, SLOTS + 1);
	fixture_wait_persisted(&f, SLOTS + 1);
	fixture_close(&f);
	return OK;
}

static void
expect_one_line(void)
{
	char text[SAID_MAX];
	const ssize_t len = pread(said, text, sizeof text - 1, 0);
	const char *end;

	assert_true(len >= 0);
	text[len] = '\0';
	end = strchr(text, '\n');
	if (end == NULL || end[1] != '\0' || strstr(text, "out of memory") == NULL)
		fail_msg("allocation %ld: it said: %s", failing, text);
}

TEST(test_at_every_allocation)
{
	struct acks acks;
	int status;

	said = memfd_create("said", MFD_CLOEXEC);
	assert_true(said >= 0);
	fixture_make(&f);
	for (failing = 1; failing < ALLOCATIONS_MAX; failing++) {
		victim_fresh();
		acks = (struct acks){0};
		assert_int_equal(ftruncate(said, 0), 0);
		assert_int_equal(lseek(said, 0, SEEK_SET), 0);
		status = victim_harvest(victim_run(live, NULL, 0, 0), &acks);
		if (status == OK)
			break;
		assert_int_equal(status, -1);
		expect_one_line();
		assert_kept(&acks);
	}
	assert_int_equal(status, OK); /* there were so many */
	print_message("%ld allocations\n", failing - 1);
	assert_true(failing > 50);
	fixture_remove(&f);
	close(said);
}
