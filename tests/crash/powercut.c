#include "tests/crash/powercut.h"

#include <bsd/sys/queue.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/base/rng.h"

enum { SECTOR = 512, NAMES = 40, OPS = 256, PATH_SIZE = 256, DESCRIPTORS = 1024 };

/* A write that was not synced yet; a change of the length when `data` is NULL: then `at` is the new
 * one. */
struct write {
	TAILQ_ENTRY(write) link;
	uint8_t *data;
	size_t len;
	int64_t at;
};

TAILQ_HEAD(write_list, write);

/* A file's contents, whatever its name is. */
struct disk {
	uint8_t *synced;
	size_t synced_len;
	struct write_list pending;
	struct disk *earlier; /* in power.disks */
};

/* The file that has a name: now, and after a cut. */
struct name {
	char path[PATH_SIZE];
	struct disk *now, *lasting;
};

/* An operation in the directory that is not lasting yet. Before the directory is synced any of them
 * may be lasting, and others not: POSIX promises no order. */
struct change {
	enum { CREATED, LINKED, RENAMED, REMOVED } what;
	struct name *from, *to; /* CREATED, REMOVED: no `to` */
	struct disk *disk;
};

struct file {
	sqlite3_file base;
	struct disk *disk; /* NULL: not followed */
	sqlite3_file *real;
	bool syncs_directory; /* with its first sync, as SQLite does for a new WAL or journal */
};

static struct {
	pthread_mutex_t mutex;
	struct rng rng;
	struct name names[NAMES];
	struct disk *disks; /* all that there ever were: who has one open may write to it */
	struct change changes[OPS];
	int changes_n;
	struct disk *open[DESCRIPTORS]; /* of our own calls; NULL: not followed */
	long operations, syncs, writes;
	long cut_at, fail_sync_at, no_room_from, no_room_to;
	bool failed;
	sqlite3_vfs vfs, *real;
} power = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct file *
file_of(sqlite3_file *f)
{
	return (struct file *)(void *)f;
}

/* ---- what is on the disk ---- */

static void
put_bytes(struct disk *d, const uint8_t *data, size_t len, size_t at)
{
	if (at + len > d->synced_len) {
		d->synced = memory_grow(d->synced, at + len, 1);
		memset(d->synced + d->synced_len, 0, at + len - d->synced_len);
		d->synced_len = at + len;
	}
	memcpy(d->synced + at, data, len);
}

static void
set_length(struct disk *d, size_t len)
{
	if (len > d->synced_len)
		put_bytes(d, (const uint8_t *)"", 1, len - 1);
	d->synced_len = len;
}

static void
forget_pending(struct disk *d)
{
	struct write *w;

	while ((w = TAILQ_FIRST(&d->pending)) != NULL) {
		TAILQ_REMOVE(&d->pending, w, link);
		free(w->data);
		free(w);
	}
}

static void
settle(struct disk *d)
{
	struct write *w;

	TAILQ_FOREACH(w, &d->pending, link) {
		if (w->data == NULL)
			set_length(d, (size_t)w->at);
		else
			put_bytes(d, w->data, w->len, (size_t)w->at);
	}
	forget_pending(d);
}

/* Of what was not synced any sectors may have got there, */
static void
tear_anywhere(struct disk *d, unsigned kept)
{
	struct write *w;

	TAILQ_FOREACH(w, &d->pending, link) {
		if (w->data == NULL && rng_chance(&power.rng, kept))
			set_length(d, (size_t)w->at);
		for (size_t at = 0, n; w->data != NULL && at < w->len; at += n) {
			n = SECTOR - ((size_t)w->at + at) % SECTOR;
			if (n > w->len - at)
				n = w->len - at;
			if (rng_chance(&power.rng, kept))
				put_bytes(d, w->data + at, n, (size_t)w->at + at);
		}
	}
}

/* or all up to some point. */
static void
tear_at(struct disk *d, size_t left)
{
	struct write *w;

	TAILQ_FOREACH(w, &d->pending, link) {
		const size_t n = w->len < left ? w->len : left;

		if (left == 0)
			return;
		if (w->data == NULL)
			set_length(d, (size_t)w->at);
		else if (n > 0)
			put_bytes(d, w->data, n, (size_t)w->at);
		left -= n;
	}
}

static void
tear(struct disk *d)
{
	struct write *w;
	size_t all = 0;

	TAILQ_FOREACH(w, &d->pending, link)
		all += w->len;
	if (rng_chance(&power.rng, 300))
		tear_at(d, rng_below(&power.rng, all + 1));
	else
		tear_anywhere(d, (unsigned)rng_below(&power.rng, 5) * 250);
	forget_pending(d);
}

static void
make_lasting(const struct change *c)
{
	if (c->what == CREATED)
		c->from->lasting = c->disk;
	else if (c->what != REMOVED)
		c->to->lasting = c->disk;
	if (c->what == RENAMED || c->what == REMOVED)
		c->from->lasting = NULL;
}

static void
sync_directory(void)
{
	for (int i = 0; i < power.changes_n; i++)
		make_lasting(&power.changes[i]);
	power.changes_n = 0;
}

/* Of what was changed in the directory any part may have got there. */
static void
tear_directory(void)
{
	unsigned kept = (unsigned)rng_below(&power.rng, 5) * 250; /* in permille */

	for (int i = 0; i < power.changes_n; i++)
		if (rng_chance(&power.rng, kept))
			make_lasting(&power.changes[i]);
}

int __real_open(const char *path, int flags, ...);
ssize_t __real_pwrite(int fd, const void *data, size_t n, off_t at);
int __real_fsync(int fd);
int __real_fdatasync(int fd);
int __real_ftruncate(int fd, off_t len);
int __real_rename(const char *from, const char *to);
int __real_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __real_unlink(const char *path);
int __real_close(int fd);

static void
write_back(const struct name *n)
{
	int fd;

	__real_unlink(n->path);
	if (n->lasting == NULL)
		return;
	fd = __real_open(n->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	must(fd >= 0);
	must(write(fd, n->lasting->synced, n->lasting->synced_len) ==
	     (ssize_t)n->lasting->synced_len);
	must(__real_close(fd) == 0);
}

static void
leave(void)
{
	char path[PATH_SIZE + 8];

	tear_directory();
	for (int i = 0; i < NAMES && power.names[i].path[0] != '\0'; i++) {
		if (power.names[i].lasting != NULL)
			tear(power.names[i].lasting);
		write_back(&power.names[i]);
		snprintf(path, sizeof path, "%s-shm", power.names[i].path);
		__real_unlink(path);
	}
}

static void
lock(void)
{
	must(pthread_mutex_lock(&power.mutex) == 0);
}

static void
unlock(void)
{
	must(pthread_mutex_unlock(&power.mutex) == 0);
}

/* Counts; the power goes before the chosen operation did anything. */
static void
count(void)
{
	if (++power.operations != power.cut_at)
		return;
	leave();
	_exit(power.changes_n > 0 ? POWERCUT_TORN : POWERCUT_STATUS);
}

static struct name *
find_name(const char *path)
{
	for (int i = 0; i < NAMES; i++) {
		struct name *n = &power.names[i];

		if (strcmp(n->path, path) == 0)
			return n;
		if (n->path[0] == '\0') {
			must(strlen(path) < sizeof n->path);
			strcpy(n->path, path);
			return n;
		}
	}
	must(!"more names than expected");
	return NULL;
}

static struct disk *
new_disk(void)
{
	struct disk *d = memory_zero(1, sizeof *d);

	d->earlier = power.disks;
	power.disks = d;
	TAILQ_INIT(&d->pending);
	return d;
}

/* What is there already when it is first seen is on the disk. */
static struct disk *
read_disk(const char *path)
{
	struct disk *d = new_disk();
	FILE *file = fopen(path, "r");
	uint8_t part[4096];
	size_t n;

	must(file != NULL);
	while ((n = fread(part, 1, sizeof part, file)) > 0)
		put_bytes(d, part, n, d->synced_len);
	fclose(file);
	return d;
}

/* NULL: there is no such file. */
static struct disk *
find_disk(const char *path)
{
	struct name *n;

	if (access(path, F_OK) < 0)
		return NULL;
	n = find_name(path);
	if (n->now == NULL)
		n->now = n->lasting = read_disk(path);
	return n->now;
}

static void
remember(struct disk *d, const void *data, size_t len, int64_t at)
{
	struct write *w = memory_zero(1, sizeof *w);

	w->at = at;
	w->len = len;
	if (data != NULL) {
		w->data = memory_zero(len, 1);
		memcpy(w->data, data, len);
	}
	TAILQ_INSERT_TAIL(&d->pending, w, link);
}

/* ---- the directory ---- */

static void
change(int what, const char *from, const char *to)
{
	struct change *c = &power.changes[power.changes_n++];

	must(power.changes_n < OPS);
	*c = (struct change){.what = what, .from = find_name(from)};
	if (what == CREATED)
		c->from->now = new_disk();
	c->disk = c->from->now;
	if (to != NULL) {
		c->to = find_name(to);
		c->to->now = c->disk;
	}
	if (what == RENAMED || what == REMOVED)
		c->from->now = NULL;
}

/* ---- our own files: the linker puts these in the place of the calls of cell/ ---- */

int __wrap_open(const char *path, int flags, ...);
ssize_t __wrap_pwrite(int fd, const void *data, size_t n, off_t at);
int __wrap_fsync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_ftruncate(int fd, off_t len);
int __wrap_rename(const char *from, const char *to);
int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __wrap_unlink(const char *path);
int __wrap_close(int fd);

static struct disk directory; /* stands for any */

/* The reserve has nothing in it to lose; the run directory is empty after a cut. */
static bool
is_followed(const char *path)
{
	const char *name = strrchr(path, '/');

	return power.real != NULL && strncmp(path, "/run/", 5) != 0 &&
	       strncmp(path, "/proc/", 6) != 0 && strcmp(path, "/dev/null") != 0 &&
	       (name == NULL || strcmp(name, "/reserve") != 0);
}

static struct disk *
followed(int fd)
{
	return power.real != NULL && fd >= 0 && fd < DESCRIPTORS ? power.open[fd] : NULL;
}

static int
open_followed(const char *path, int flags, mode_t mode)
{
	struct disk *d = find_disk(path);
	const bool creates = d == NULL && (flags & O_CREAT) != 0;
	int fd;

	if (creates || (flags & O_TRUNC) != 0)
		count();
	fd = __real_open(path, flags, mode);
	if (fd < 0)
		return fd;
	must(fd < DESCRIPTORS);
	if (creates)
		change(CREATED, path, NULL);
	else if ((flags & O_TRUNC) != 0)
		remember(d, NULL, 0, 0);
	power.open[fd] = find_disk(path);
	return fd;
}

int
__wrap_open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list args;
	int fd;

	if ((flags & O_CREAT) != 0) {
		va_start(args, flags);
		mode = va_arg(args, mode_t);
		va_end(args);
	}
	if (!is_followed(path))
		return __real_open(path, flags, mode);
	lock();
	if ((flags & O_DIRECTORY) != 0) {
		fd = __real_open(path, flags);
		if (fd >= 0 && fd < DESCRIPTORS)
			power.open[fd] = &directory;
	} else {
		fd = open_followed(path, flags, mode);
	}
	unlock();
	return fd;
}

int
__wrap_close(int fd)
{
	int rc;

	lock();
	if (followed(fd) != NULL)
		power.open[fd] = NULL;
	rc = __real_close(fd);
	unlock();
	return rc;
}

ssize_t
__wrap_pwrite(int fd, const void *data, size_t n, off_t at)
{
	struct disk *d;
	ssize_t done;

	lock();
	d = followed(fd);
	if (d != NULL)
		count();
	done = __real_pwrite(fd, data, n, at);
	if (d != NULL && done > 0)
		remember(d, data, (size_t)done, at);
	unlock();
	return done;
}

int
__wrap_ftruncate(int fd, off_t len)
{
	struct disk *d;
	int rc;

	lock();
	d = followed(fd);
	if (d != NULL)
		count();
	rc = __real_ftruncate(fd, len);
	if (d != NULL && rc == 0)
		remember(d, NULL, 0, len);
	unlock();
	return rc;
}

static int
sync_followed(int fd, int (*real)(int fd))
{
	struct disk *d;
	int rc = 0;

	lock();
	d = followed(fd);
	if (d != NULL)
		count();
	if (d == &directory)
		sync_directory();
	else if (d != NULL)
		settle(d);
	else
		rc = real(fd);
	unlock();
	return rc;
}

int
__wrap_fsync(int fd)
{
	return sync_followed(fd, __real_fsync);
}

int
__wrap_fdatasync(int fd)
{
	return sync_followed(fd, __real_fdatasync);
}

int
__wrap_rename(const char *from, const char *to)
{
	int rc;

	if (!is_followed(from))
		return __real_rename(from, to);
	lock();
	count();
	(void)find_disk(from);
	(void)find_disk(to);
	rc = __real_rename(from, to);
	if (rc == 0)
		change(RENAMED, from, to);
	unlock();
	return rc;
}

int
__wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
	int rc;

	if (!is_followed(from))
		return __real_renameat2(from_fd, from, to_fd, to, flags);
	lock();
	count();
	(void)find_disk(from);
	rc = __real_renameat2(from_fd, from, to_fd, to, flags);
	if (rc == 0)
		change(RENAMED, from, to);
	unlock();
	return rc;
}

int
__wrap_unlink(const char *path)
{
	int rc;

	if (!is_followed(path) || access(path, F_OK) < 0)
		return __real_unlink(path);
	lock();
	count();
	(void)find_disk(path);
	rc = __real_unlink(path);
	if (rc == 0)
		change(REMOVED, path, NULL);
	unlock();
	return rc;
}

/* ---- files ---- */

static int
x_close(sqlite3_file *f)
{
	struct file *file = file_of(f);
	int rc = file->real->pMethods->xClose(file->real);

	sqlite3_free(file->real);
	return rc;
}

static int
x_read(sqlite3_file *f, void *to, int n, sqlite3_int64 at)
{
	sqlite3_file *real = file_of(f)->real;

	return real->pMethods->xRead(real, to, n, at);
}

static int
x_write(sqlite3_file *f, const void *data, int n, sqlite3_int64 at)
{
	struct file *file = file_of(f);
	int rc = SQLITE_FULL;

	lock();
	count();
	power.writes++;
	if (power.writes < power.no_room_from || power.writes >= power.no_room_to) {
		rc = file->real->pMethods->xWrite(file->real, data, n, at);
		remember(file->disk, data, (size_t)n, at);
	}
	unlock();
	return rc;
}

static int
x_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	struct file *file = file_of(f);
	int rc;

	lock();
	count();
	rc = file->real->pMethods->xTruncate(file->real, size);
	remember(file->disk, NULL, 0, size);
	unlock();
	return rc;
}

static int
x_sync(sqlite3_file *f, int flags)
{
	struct file *file = file_of(f);
	int rc = SQLITE_OK;

	(void)flags;
	lock();
	count();
	if (++power.syncs == power.fail_sync_at) {
		power.failed = true;
		tear(file->disk);
		rc = SQLITE_IOERR_FSYNC;
	} else {
		settle(file->disk);
		if (file->syncs_directory)
			sync_directory();
		file->syncs_directory = false;
	}
	unlock();
	return rc;
}

static int
x_file_size(sqlite3_file *f, sqlite3_int64 *size)
{
	sqlite3_file *real = file_of(f)->real;

	return real->pMethods->xFileSize(real, size);
}

static int
x_lock(sqlite3_file *f, int level)
{
	sqlite3_file *real = file_of(f)->real;

	return real->pMethods->xLock(real, level);
}

static int
x_unlock(sqlite3_file *f, int level)
{
	sqlite3_file *real = file_of(f)->real;

	return real->pMethods->xUnlock(real, level);
}

static int
x_check_lock(sqlite3_file *f, int *out)
{
	sqlite3_file *real = file_of(f)->real;

	return real->pMethods->xCheckReservedLock(real, out);
}

static int
x_control(sqlite3_file *f, int op, void *argument)
{
	sqlite3_file *real = file_of(f)->real;

	return real->pMethods->xFileControl(real, op, argument);
}

static int
x_sector_size(sqlite3_file *f)
{
	(void)f;
	return SECTOR;
}

static int
x_characteristics(sqlite3_file *f)
{
	(void)f;
	return SQLITE_IOCAP_POWERSAFE_OVERWRITE; /* as SQLite itself assumes of every disk */
}

static int
x_shm_map(sqlite3_file *f, int region, int size, int extend, void volatile **out)
{
	sqlite3_file *real = file_of(f)->real;

	return real->pMethods->xShmMap(real, region, size, extend, out);
}

static int
x_shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
	sqlite3_file *real = file_of(f)->real;

	return real->pMethods->xShmLock(real, offset, n, flags);
}

static void
x_shm_barrier(sqlite3_file *f)
{
	sqlite3_file *real = file_of(f)->real;

	real->pMethods->xShmBarrier(real);
}

static int
x_shm_unmap(sqlite3_file *f, int delete)
{
	sqlite3_file *real = file_of(f)->real;

	return real->pMethods->xShmUnmap(real, delete);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = x_close,
    .xRead = x_read,
    .xWrite = x_write,
    .xTruncate = x_truncate,
    .xSync = x_sync,
    .xFileSize = x_file_size,
    .xLock = x_lock,
    .xUnlock = x_unlock,
    .xCheckReservedLock = x_check_lock,
    .xFileControl = x_control,
    .xSectorSize = x_sector_size,
    .xDeviceCharacteristics = x_characteristics,
    .xShmMap = x_shm_map,
    .xShmLock = x_shm_lock,
    .xShmBarrier = x_shm_barrier,
    .xShmUnmap = x_shm_unmap,
};

/* ---- the file system ---- */

static int
x_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *out_flags)
{
	struct file *file = file_of(f);
	int rc;

	(void)vfs;
	/* Temporary files have no name, and nothing to lose. */
	must(name != NULL);
	lock();
	file->disk = find_disk(name);
	file->syncs_directory = (flags & SQLITE_OPEN_CREATE) != 0 &&
	                        (flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL)) != 0;
	if (file->disk == NULL && (flags & SQLITE_OPEN_CREATE) != 0)
		count();
	file->real = sqlite3_malloc(power.real->szOsFile);
	must(file->real != NULL);
	memset(file->real, 0, (size_t)power.real->szOsFile);
	rc = power.real->xOpen(power.real, name, file->real, flags, out_flags);
	file->base.pMethods = rc == SQLITE_OK ? &methods : NULL;
	if (rc != SQLITE_OK)
		sqlite3_free(file->real);
	else if (file->disk == NULL)
		change(CREATED, name, NULL);
	if (rc == SQLITE_OK)
		file->disk = find_disk(name);
	unlock();
	return rc;
}

static int
x_delete(sqlite3_vfs *vfs, const char *name, int syncs)
{
	int rc;

	(void)vfs;
	lock();
	count();
	(void)find_disk(name);
	rc = power.real->xDelete(power.real, name, false);
	if (rc == SQLITE_OK)
		change(REMOVED, name, NULL);
	if (rc == SQLITE_OK && syncs)
		sync_directory();
	unlock();
	return rc;
}

void
powercut_install(uint64_t seed)
{
	power.rng = rng_seeded(seed);
	power.real = sqlite3_vfs_find(NULL);
	must(power.real != NULL);
	power.vfs = *power.real;
	power.vfs.zName = "powercut";
	power.vfs.szOsFile = sizeof(struct file);
	power.vfs.xOpen = x_open;
	power.vfs.xDelete = x_delete;
	must(sqlite3_vfs_register(&power.vfs, 1) == SQLITE_OK);
}

void
powercut_at(long n)
{
	power.cut_at = n;
}

void
powercut_fail_sync(long n)
{
	power.fail_sync_at = n;
}

void
powercut_no_room(long n, long times)
{
	lock();
	power.no_room_from = power.writes + n;
	power.no_room_to = power.no_room_from + times;
	unlock();
}

long
powercut_operations(void)
{
	return power.operations;
}

long
powercut_syncs(void)
{
	return power.syncs;
}

bool
powercut_failed(void)
{
	bool failed;

	lock();
	failed = power.failed;
	unlock();
	return failed;
}

void
powercut_leave(void)
{
	lock();
	leave();
	unlock();
}
