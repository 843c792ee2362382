#include "tests/crash/victim.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cell/base/must.h"
#include "tests/crash/powercut.h"
#include "tests/unit/fake_tree.h"
#include "tests/unit/unit.h"

enum { LIMIT_PAYLOAD = 40000 };

struct fixture f;
struct acks told;
int report_fd;

struct bytes
payload_of(uint64_t slot)
{
	static uint8_t bytes[LIMIT_PAYLOAD];
	size_t len = slot % 5 == 0 ? LIMIT_PAYLOAD - slot : 20 + slot % 100;

	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(slot * 31 + i * (slot % 7 + 1));
	return (struct bytes){bytes, len};
}

/* ---- the child ---- */

static void
report(struct acks acks)
{
	must(write(report_fd, &acks, sizeof acks) == sizeof acks);
}

static void
on_persisted(void *user, uint64_t ticket)
{
	(void)user;
	if (told.failed)
		_exit(LATE_ACK);
	told.persisted = f.persisted = ticket;
	report(told);
}

static void
on_saved(void *user, uint64_t applied, size_t unsaved)
{
	(void)user, (void)unsaved;
	if (told.failed)
		_exit(LATE_ACK);
	told.saved = f.saved = applied;
	report(told);
}

static void
on_full(void *user, bool full)
{
	(void)user, (void)full;
}

static void
on_failed(void *user, const char *why)
{
	(void)user, (void)why;
	f.failed = true;
	told.failed = 1;
	report(told);
}

bool
victim_start(void)
{
	const struct store_callbacks callbacks = {on_persisted, on_saved, on_full, on_failed, NULL};

	if (!fixture_open(&f))
		return false;
	f.persisted = told.persisted;
	told.incarnation = f.recovered.incarnation;
	report(told);
	must(store_start(f.store, &f.loop, &callbacks) == 0);
	return true;
}

void
victim_trim(uint64_t slot, uint64_t ticket)
{
	struct px_record r = {.kind = PX_RECORD_TRIM, .slot = slot};

	store_log(f.store, ticket, &r, 1);
}

int
victim_threads(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = 0;

	must(d != NULL);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n - 2; /* "." and ".." */
}

/* ---- the parent ---- */

struct victim
victim_run(int (*work)(void), void (*prepare)(long n), long n, uint64_t seed)
{
	int ends[2];
	struct victim victim;

	assert_int_equal(pipe(ends), 0);
	victim.fd = ends[0];
	victim.pid = fork();
	assert_true(victim.pid >= 0);
	if (victim.pid == 0) {
		int status;

		close(ends[0]);
		report_fd = ends[1];
		signal(SIGPIPE, SIG_DFL);
		if (prepare != NULL) {
			powercut_install(seed);
			prepare(n);
		}
		status = work();
		if (prepare != NULL && powercut_failed()) {
			powercut_leave();
			status = status == OK ? UNNOTICED : status;
		}
		_exit(status);
	}
	close(ends[1]);
	return victim;
}

void
victim_listen(struct victim victim, uint64_t times, struct acks *acks)
{
	while (times-- > 0)
		assert_int_equal(read(victim.fd, acks, sizeof *acks), sizeof *acks);
}

int
victim_harvest(struct victim victim, struct acks *acks)
{
	struct acks a;
	int status;

	while (read(victim.fd, &a, sizeof a) == sizeof a)
		*acks = a;
	close(victim.fd);
	assert_int_equal(waitpid(victim.pid, &status, 0), victim.pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void
assert_entry(const struct log_entry *e, uint64_t slot)
{
	assert_int_equal(e->slot, slot);
	assert_int_equal(e->ballot.round, 3);
	assert_true(bytes_equal(e->payload, payload_of(slot)));
}

void
assert_kept(const struct acks *acks)
{
	const struct row *node;
	uint64_t applied, last;

	if (!fixture_open(&f))
		fail_msg("%s", f.why);
	last = f.recovered.trimmed + f.recovered.entries_n;
	applied = tree_applied(f.tree);
	assert_true(f.recovered.incarnation > acks->incarnation);
	assert_true(last >= acks->persisted);
	assert_true(applied >= acks->saved);
	assert_true(f.recovered.trimmed <= applied && applied <= last);
	for (size_t i = 0; i < f.recovered.entries_n; i++)
		assert_entry(&f.recovered.entries[i], f.recovered.trimmed + 1 + i);
	node = fake_tree_find(f.tree, ROWS_nodes, 2);
	assert_true((node != NULL) == (applied > 0));
	if (node != NULL)
		assert_true(
		    bytes_equal(node->values[COL_nodes_contents].bytes, payload_of(applied)));
	fixture_close(&f);
}

void
victim_next_boot(void)
{
	char path[128], text[4096], id[17] = "";
	int fd;

	snprintf(path, sizeof path, "%s/health", f.directory);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, text, sizeof text), sizeof text);
	assert_int_equal(memcmp(text + 23, "failed boot ", 12), 0);
	memcpy(text + 35, "00000000", 8);
	assert_int_equal(pwrite(fd, text, sizeof text, 0), sizeof text);
	close(fd);
	memcpy(id, text + 6, 16);
	if (geteuid() == 0)
		snprintf(path, sizeof path, "/run/lsfs/failed-%s", id);
	else
		snprintf(path, sizeof path, "%s/lsfs/failed-%s", getenv("XDG_RUNTIME_DIR"), id);
	assert_int_equal(unlink(path), 0);
}

void
victim_fresh(void)
{
	fixture_remove(&f);
	fixture_make(&f);
	told = (struct acks){0};
}
