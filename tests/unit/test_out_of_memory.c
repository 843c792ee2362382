/* Memory runs out at any allocation of the pure core: the process ends there, with one line, before
 * it does anything else. At each allocation the process forks: the child gets none, and the parent,
 * which gets it, looks how the child ends. The script is a master with clients that ask for all
 * kinds of things, and then whole cells and clients under faults, of which some allocations are
 * looked at. (test_allocation.c has the store, and what is left on its disk.) */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/unit/bare_world.h"
#include "tests/unit/unit.h"

enum { SEEDS = 3, SAID_MAX = 512, LOOKED_AT = 150 };

static long allocations, every, looked_at; /* every so many-th is looked at */

/* ---- one that fails ---- */

/* Reads until the child has ended. Returns how. */
static int
harvest(pid_t child, int fd, char said[SAID_MAX])
{
	size_t len = 0;
	int status;
	ssize_t n;

	while ((n = read(fd, said + len, SAID_MAX - 1 - len)) > 0)
		len += (size_t)n;
	said[len] = '\0';
	close(fd);
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

/* One line that says where and why; and the end by SIGABRT. */
static void
expect_loud_end(int status, const char *said)
{
	const char *end = strchr(said, '\n');

	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || end == NULL || end[1] != '\0' ||
	    strstr(said, "cell/base/memory.c:") == NULL || strstr(said, "out of memory") == NULL)
		fail_msg("allocation %ld: status %d, it said: %s", allocations, status, said);
}

static bool
refuse(void)
{
	const struct rlimit no_core = {0, 0};
	char said[SAID_MAX];
	int ends[2];
	pid_t child;

	if (++allocations % every != 0)
		return false;
	looked_at++;
	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		blocks_refuse = NULL;
		setrlimit(RLIMIT_CORE, &no_core);
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		return true;
	}
	close(ends[1]);
	expect_loud_end(harvest(child, ends[0], said), said);
	return false;
}

/* ---- scripts ---- */

static void
ask_for_all(struct bare_client *a, struct bare_client *b)
{
	const struct op list = {.code = OP_get_listing, .get_listing.node = NODE_ROOT};
	uint64_t node = bare_file(a, "f");
	const struct op set = op_of_set(node, "contents"), get = op_of_get(node);
	const struct op create = op_of_create("g"), delete = op_of_delete("g");
	const struct op queue = {.code = OP_get_queue, .get_queue.node = node};

	bare_call(a, &set, NULL);
	bare_call(b, &get, NULL);
	bare_call(a, &list, NULL);
	bare_call(a, &create, NULL);
	bare_call(b, &delete, NULL);
	bare_lock(a, node, 1, LOCK_EXCLUSIVE);
	bare_lock(b, node, 1, LOCK_EXCLUSIVE);
	bare_call(b, &queue, NULL);
	bare_unlock(a, node, 1, a->acquisition);
	bare_send_keepalive(a);
}

TEST(test_a_master_at_every_allocation)
{
	struct bare_world *w = world_new(1);
	struct bare_client a, b;

	every = 1;
	allocations = looked_at = 0;
	blocks_refuse = refuse;
	a = bare_open(w, 1);
	b = bare_open(w, 2);
	ask_for_all(&a, &b);
	world_pass_ms(w, WORLD_LEASE_MS + 1000);
	world_restart(w);
	world_elect(w);
	blocks_refuse = NULL;
	world_free(w);
	print_message("%ld allocations\n", looked_at);
	assert_true(looked_at > 100);
}

TEST(test_cells_at_some_allocations)
{
	const struct sim_options options = {.replicas = 3};
	struct stats stats = {0};

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		every = 0x7fffffff; /* first they are counted */
		allocations = looked_at = 0;
		blocks_refuse = refuse;
		sim_run(seed, &options, &stats);
		every = allocations / LOOKED_AT + (long)seed;
		allocations = 0;
		sim_run(seed, &options, &stats);
		blocks_refuse = NULL;
		print_message("seed %d: %ld of %ld allocations\n", (int)seed, looked_at,
		              allocations);
		assert_true(looked_at >= LOOKED_AT / 2);
	}
}
