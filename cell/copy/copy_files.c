#include "cell/copy/copy_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cell/base/must.h"
#include "cell/store/state_db.h"
#include "cell/store/store.h"
#include "cell/store/swap_in.h"
#include "cell/sys/file.h"

static void
close_file(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* ---- copies of the own state ---- */

/* Opens a copy and removes its name, so that the file is freed when it is closed or the process
 * ends. */
static bool
open_copy(struct copy_files *f, uint64_t *size)
{
	int *fd = &f->copies[f->place];
	struct stat st;

	*fd = open(f->copy_path, O_RDONLY | O_CLOEXEC);
	if (*fd >= 0 && fstat(*fd, &st) == 0 && unlink(f->copy_path) == 0) {
		*size = (uint64_t)st.st_size;
		return true;
	}
	snprintf(f->why, sizeof f->why, "%s: %s", f->copy_path, strerror(errno));
	close_file(fd);
	return false;
}

static void
on_made(void *user, enum rc rc, uint64_t applied, const char *why)
{
	struct copy_files *f = user;
	uint64_t size = 0;
	const struct copy_results *results = &f->results;

	if (results->server != NULL && rc == RC_OK && !open_copy(f, &size)) {
		rc = RC_IO;
		why = f->why;
	}
	if (results->server == NULL || rc != RC_OK)
		unlink(f->copy_path);
	if (results->server != NULL)
		results->made(results->server, rc, applied, size, why);
}

static void
make_copy(void *user, int place)
{
	struct copy_files *f = user;

	must(f->copies[place] < 0);
	f->place = place;
	state_copy_add(&f->copier, STORE_COPY, on_made, f);
}

static const char *
read_copy(void *user, int place, uint64_t offset, uint8_t *to, size_t n)
{
	const struct copy_files *f = user;

	while (n > 0) {
		ssize_t got = pread(f->copies[place], to, n, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? strerror(errno) : "it is shorter than it was";
		to += got;
		n -= (size_t)got;
		offset += (uint64_t)got;
	}
	return NULL;
}

static void
drop_copy(void *user, int place)
{
	struct copy_files *f = user;

	close_file(&f->copies[place]);
}

/* ---- the state of another replica ---- */

static const char *
begin_fetch(void *user)
{
	struct copy_files *f = user;

	must(f->fetched < 0);
	f->fetched = open(f->fetched_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	return f->fetched < 0 ? strerror(errno) : NULL;
}

static const char *
write_fetch(void *user, uint64_t offset, struct bytes data)
{
	const struct copy_files *f = user;
	struct statvfs fs;
	int rc;

	if (fstatvfs(f->fetched, &fs) < 0)
		return strerror(errno);
	if ((uint64_t)fs.f_bavail * fs.f_frsize < data.len + COPY_SPARE)
		return "no room on the disk for a copy";
	rc = file_write_at(f->fetched, data, (off_t)offset);
	return rc < 0 ? strerror(-rc) : NULL;
}

static void
check(uv_work_t *work)
{
	struct copy_files *f = work->data;

	f->whole = state_copy_ready(f->directory, f->cell, f->why, sizeof f->why);
}

static void
on_checked(uv_work_t *work, int status)
{
	struct copy_files *f = work->data;

	must(status == 0);
	f->checking = false;
	if (f->results.server != NULL) {
		f->results.checked(f->results.server, f->whole ? NULL : f->why);
		return;
	}
	unlink(f->fetched_path);
	if (f->copier_idle)
		f->stopped(f->stopped_user);
}

static void
check_fetch(void *user)
{
	struct copy_files *f = user;

	close_file(&f->fetched);
	f->checking = true;
	must(uv_queue_work(f->loop, &f->check, check, on_checked) == 0);
}

/* Nothing is left that the next start would take for the newer state, a checked copy included. */
static void
drop_fetch(void *user)
{
	struct copy_files *f = user;

	close_file(&f->fetched);
	unlink(f->fetched_path);
	(void)swap_in_remove(f->directory, STATE_DB_FILE SWAP_IN_READY);
}

struct copy_io
copy_files_io(struct copy_files *f)
{
	return (struct copy_io){make_copy,   read_copy,   drop_copy,  begin_fetch,
	                        write_fetch, check_fetch, drop_fetch, f};
}

/* ---- life ---- */

static char *
path_of(const char *directory, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/%s", directory, name);
	return bytes_to_text(bytes_of(path));
}

void
copy_files_init(struct copy_files *f, uv_loop_t *loop, const char *directory, const char *cell)
{
	*f = (struct copy_files){.loop = loop, .directory = directory, .cell = cell, .fetched = -1};
	f->check.data = f;
	state_copy_init(&f->copier, loop, directory);
	for (int i = 0; i < STATE_SENDER_MAX; i++)
		f->copies[i] = -1;
	f->copy_path = path_of(directory, STORE_COPY);
	f->fetched_path = path_of(directory, STORE_FETCHED);
}

static void
on_copier_idle(void *user)
{
	struct copy_files *f = user;

	f->copier_idle = true;
	if (!f->checking)
		f->stopped(f->stopped_user);
}

void
copy_files_stop(struct copy_files *f, void (*stopped)(void *user), void *user)
{
	f->results.server = NULL;
	f->stopped = stopped;
	f->stopped_user = user;
	state_copy_stop(&f->copier, on_copier_idle, f);
}

void
copy_files_fini(struct copy_files *f)
{
	for (int i = 0; i < STATE_SENDER_MAX; i++)
		close_file(&f->copies[i]);
	close_file(&f->fetched);
	free(f->copy_path);
	free(f->fetched_path);
}
