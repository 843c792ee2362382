#include "tests/crash/powercut.h"

#include <bsd/sys/queue.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/base/rng.h"

enum { SECTOR = 512, NAMES = 40, OPS = 64, PATH_SIZE = 256 };

/* A write that was not synced yet; a truncation when `data` is NULL: then `at` is the new length.
 */
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

/* Which file has a name: now, and after a cut. A new file has its name at once. */
struct name {
	char path[PATH_SIZE];
	struct disk *now, *lasting;
};

/* A renaming or removal that is not lasting yet. They last in the order in which they were done, as
 * on filesystems with a journal. */
struct change {
	struct name *from, *to; /* `to` NULL: removed */
};

struct file {
	sqlite3_file base;
	struct disk *disk; /* NULL: not followed */
	sqlite3_file *real;
};

static struct {
	pthread_mutex_t mutex;
	struct rng rng;
	struct name names[NAMES];
	struct disk *disks; /* all that there ever were: who has one open may write to it */
	struct change changes[OPS];
	int changes_n;
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
	if (len < d->synced_len)
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

/* Of what was not synced any sectors may have got there. */
static void
tear(struct disk *d)
{
	unsigned kept = (unsigned)rng_below(&power.rng, 5) * 250; /* none .. all, in permille */
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
	forget_pending(d);
}

static void
make_last(int n)
{
	for (int i = 0; i < n; i++) {
		struct change *c = &power.changes[i];

		if (c->to != NULL)
			c->to->lasting = c->from->lasting;
		c->from->lasting = NULL;
	}
}

static void
write_back(const struct name *n)
{
	int fd;

	unlink(n->path);
	if (n->lasting == NULL)
		return;
	fd = open(n->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	must(fd >= 0);
	must(write(fd, n->lasting->synced, n->lasting->synced_len) ==
	     (ssize_t)n->lasting->synced_len);
	must(close(fd) == 0);
}

static void
leave(void)
{
	char path[PATH_SIZE + 8];

	make_last((int)rng_below(&power.rng, (uint64_t)power.changes_n + 1));
	for (int i = 0; i < NAMES && power.names[i].path[0] != '\0'; i++) {
		if (power.names[i].lasting != NULL)
			tear(power.names[i].lasting);
		write_back(&power.names[i]);
		snprintf(path, sizeof path, "%s-shm", power.names[i].path);
		unlink(path);
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
	_exit(POWERCUT_STATUS);
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

/* What is there already when it is first seen is on the disk. */
static struct disk *
read_disk(const char *path)
{
	struct disk *d = memory_zero(1, sizeof *d);
	FILE *file = fopen(path, "r");
	uint8_t part[4096];
	size_t n;

	d->earlier = power.disks;
	power.disks = d;
	TAILQ_INIT(&d->pending);
	while (file != NULL && (n = fread(part, 1, sizeof part, file)) > 0)
		put_bytes(d, part, n, d->synced_len);
	if (file != NULL)
		fclose(file);
	return d;
}

static struct disk *
find_disk(const char *path)
{
	struct name *n = find_name(path);

	if (n->now == NULL)
		n->now = n->lasting = read_disk(path);
	return n->now;
}

/* ---- the directory: the linker puts these in the place of cell/sys/file.c's ---- */

int __real_file_sync(const char *path);
int __real_file_rename(const char *from, const char *to);
int __real_file_remove(const char *path);
int __real_file_sync_directory(const char *path);
int __wrap_file_sync(const char *path);
int __wrap_file_rename(const char *from, const char *to);
int __wrap_file_remove(const char *path);
int __wrap_file_sync_directory(const char *path);

static void
change(const char *from, const char *to)
{
	struct change *c = &power.changes[power.changes_n];

	must(power.changes_n < OPS);
	c->from = find_name(from);
	c->to = to != NULL ? find_name(to) : NULL;
	if (c->to != NULL)
		c->to->now = c->from->now;
	c->from->now = NULL;
	power.changes_n++;
}

int
__wrap_file_sync(const char *path)
{
	if (power.real == NULL)
		return __real_file_sync(path);
	lock();
	count();
	settle(find_disk(path));
	unlock();
	return 0;
}

int
__wrap_file_rename(const char *from, const char *to)
{
	int rc;

	if (power.real == NULL)
		return __real_file_rename(from, to);
	lock();
	count();
	if (access(from, F_OK) == 0)
		(void)find_disk(from);
	if (access(to, F_OK) == 0)
		(void)find_disk(to);
	rc = __real_file_rename(from, to);
	if (rc == 0)
		change(from, to);
	unlock();
	return rc;
}

int
__wrap_file_remove(const char *path)
{
	int rc;

	if (power.real == NULL || access(path, F_OK) < 0)
		return __real_file_remove(path);
	lock();
	count();
	(void)find_disk(path);
	rc = __real_file_remove(path);
	if (rc == 0)
		change(path, NULL);
	unlock();
	return rc;
}

int
__wrap_file_sync_directory(const char *path)
{
	if (power.real == NULL)
		return __real_file_sync_directory(path);
	lock();
	count();
	make_last(power.changes_n);
	power.changes_n = 0;
	unlock();
	return 0;
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
	file->real = sqlite3_malloc(power.real->szOsFile);
	must(file->real != NULL);
	memset(file->real, 0, (size_t)power.real->szOsFile);
	rc = power.real->xOpen(power.real, name, file->real, flags, out_flags);
	file->base.pMethods = rc == SQLITE_OK ? &methods : NULL;
	if (rc != SQLITE_OK)
		sqlite3_free(file->real);
	unlock();
	return rc;
}

static int
x_delete(sqlite3_vfs *vfs, const char *name, int sync_directory)
{
	struct name *n;
	int rc;

	(void)vfs;
	lock();
	count();
	rc = power.real->xDelete(power.real, name, sync_directory);
	n = find_name(name);
	n->now = n->lasting = NULL;
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
