#include "tests/unit/store_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cell/base/checksum.h"
#include "cell/base/must.h"
#include "tests/unit/fake_tree.h"
#include "tests/unit/unit.h"

void
fixture_make(struct fixture *f)
{
	memset(f, 0, sizeof *f);
	snprintf(f->directory, sizeof f->directory, "%s/test_store.XXXXXX",
	         access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	must(mkdtemp(f->directory) != NULL);
	must(uv_loop_init(&f->loop) == 0);
}

int
fixture_setup(void **state)
{
	fixture_make(*state);
	return 0;
}

int
fixture_teardown(void **state)
{
	fixture_remove(*state);
	return 0;
}

bool
fixture_open(struct fixture *f)
{
	f->why[0] = '\0';
	f->persisted = f->saved = 0;
	f->full = f->failed = f->closed = false;
	f->fulls = 0;
	f->in_order = true;
	f->store = store_open(f->directory, "test", 1, f->others, &f->tree, &f->recovered, f->why,
	                      sizeof f->why);
	return f->store != NULL;
}

static void
on_persisted(void *user, uint64_t ticket)
{
	struct fixture *f = user;

	if (f->persisted != 0 && ticket != f->persisted + 1)
		f->in_order = false;
	f->persisted = ticket;
}

static void
on_saved(void *user, uint64_t applied, size_t unsaved)
{
	struct fixture *f = user;

	if (applied <= f->saved)
		f->in_order = false;
	f->saved = applied;
	f->unsaved = unsaved;
}

static void
on_full(void *user, bool full)
{
	struct fixture *f = user;

	f->full = full;
	f->fulls += full;
}

static void
on_failed(void *user, const char *why)
{
	struct fixture *f = user;

	f->failed = true;
	snprintf(f->reason, sizeof f->reason, "%s", why);
}

static void
on_closed(void *user)
{
	((struct fixture *)user)->closed = true;
}

int
fixture_try_start(struct fixture *f)
{
	const struct store_callbacks callbacks = {on_persisted, on_saved, on_full, on_failed, f};

	return store_start(f->store, &f->loop, &callbacks);
}

void
fixture_start(struct fixture *f)
{
	must(fixture_try_start(f) == 0);
}

void
fixture_open_started(struct fixture *f)
{
	if (!fixture_open(f))
		fail_msg("%s", f->why);
	fixture_start(f);
}

void
fixture_close(struct fixture *f)
{
	store_close(f->store, on_closed, f);
	while (!f->closed)
		uv_run(&f->loop, UV_RUN_ONCE);
	f->store = NULL;
	tree_free(f->tree);
	store_recovered_free(&f->recovered);
}

void
fixture_remove(struct fixture *f)
{
	struct dirent *e;
	DIR *d;

	if (f->store != NULL)
		fixture_close(f); /* of a test that has failed */
	d = opendir(f->directory);
	must(d != NULL);
	while ((e = readdir(d)) != NULL)
		unlink(fixture_path(f, e->d_name));
	closedir(d);
	rmdir(f->directory);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	must(uv_loop_close(&f->loop) == 0);
}

void
fixture_log(struct fixture *f, uint64_t slot, struct bytes payload)
{
	struct px_record records[2] = {
	    {.kind = PX_RECORD_ENTRY,
	     .slot = slot,
	     .ballot = {.round = 3, .replica = 1},
	     .origin = {.round = 2, .replica = 1},
	     .payload = payload,
	     .checksum = checksum(payload)},
	    {.kind = PX_RECORD_CHOSEN, .slot = slot - 1},
	};

	store_log(f->store, slot, records, 2);
}

void
fixture_log_slots(struct fixture *f, uint64_t first, uint64_t last)
{
	char text[32];

	for (uint64_t slot = first; slot <= last; slot++) {
		snprintf(text, sizeof text, "entry %d", (int)slot);
		fixture_log(f, slot, bytes_of(text));
	}
}

void
fixture_save(struct fixture *f, uint64_t applied, struct bytes contents)
{
	struct row meta = fake_meta(applied), node = fake_node(2, "two", contents);
	struct row_list rows = {0};

	row_list_add(&rows, &node);
	row_list_add(&rows, &meta);
	store_state(f->store, applied, &rows);
	must(rows.n == 0);
}

void
fixture_wait_persisted(struct fixture *f, uint64_t ticket)
{
	while (f->persisted < ticket && !f->failed)
		uv_run(&f->loop, UV_RUN_ONCE);
}

void
fixture_wait_saved(struct fixture *f, uint64_t applied)
{
	while (f->saved < applied && !f->failed)
		uv_run(&f->loop, UV_RUN_ONCE);
}

void
fixture_wait_full(struct fixture *f, bool full)
{
	while (f->full != full)
		uv_run(&f->loop, UV_RUN_ONCE);
}

void
fixture_wait_failed(struct fixture *f)
{
	while (!f->failed)
		uv_run(&f->loop, UV_RUN_ONCE);
}

void
fixture_put(struct fixture *f, const struct px_record *record)
{
	store_log(f->store, f->persisted + 1, record, 1);
	fixture_wait_persisted(f, f->persisted + 1);
}

void
fixture_put_lease(struct fixture *f, int64_t ms)
{
	fixture_put(f, &(struct px_record){.kind = PX_RECORD_LEASE, .length = span_ms(ms)});
}

const char *
fixture_path(const struct fixture *f, const char *name)
{
	static char paths[2][512];
	static int last;

	last = !last;
	snprintf(paths[last], sizeof paths[last], "%s/%s", f->directory, name);
	return paths[last];
}

bool
fixture_has(const struct fixture *f, const char *name)
{
	return access(fixture_path(f, name), F_OK) == 0;
}

void
fixture_remove_file(struct fixture *f, const char *name)
{
	assert_int_equal(unlink(fixture_path(f, name)), 0);
}

void
fixture_overwrite(struct fixture *f, const char *name, long offset, const void *bytes, size_t n)
{
	int fd = open(fixture_path(f, name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, n, offset), n);
	close(fd);
}

void
fixture_refused(struct fixture *f, const char *reason)
{
	if (fixture_open(f))
		fail_msg("opened, although: %s", reason);
	if (strstr(f->why, reason) == NULL || strchr(f->why, '\n') != NULL)
		fail_msg("\"%s\" does not say \"%s\"", f->why, reason);
}

void
fixture_sql(struct fixture *f, const char *file, const char *sql)
{
	char *error = NULL;
	sqlite3 *handle;

	must(sqlite3_open(fixture_path(f, file), &handle) == SQLITE_OK);
	if (sqlite3_exec(handle, sql, NULL, NULL, &error) != SQLITE_OK) {
		fprintf(stderr, "%s: %s\n", sql, error);
		must(!"SQL");
	}
	must(sqlite3_close(handle) == SQLITE_OK);
}

int64_t
fixture_number(struct fixture *f, const char *file, const char *sql)
{
	sqlite3 *handle;
	sqlite3_stmt *s;
	int64_t number;

	must(sqlite3_open(fixture_path(f, file), &handle) == SQLITE_OK);
	must(sqlite3_prepare_v2(handle, sql, -1, &s, NULL) == SQLITE_OK);
	must(sqlite3_step(s) == SQLITE_ROW);
	number = sqlite3_column_int64(s, 0);
	sqlite3_finalize(s);
	must(sqlite3_close(handle) == SQLITE_OK);
	return number;
}
