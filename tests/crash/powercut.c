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

enum { SECTOR = 512, DISKS = 16, PATH_SIZE = 256 };

/* A write that was not synced yet; a truncation when `data` is NULL: then `at` is the new length.
 */
struct write {
	TAILQ_ENTRY(write) link;
	uint8_t *data;
	size_t len;
	int64_t at;
};

TAILQ_HEAD(write_list, write);

/* What is known of one file, open or not. */
struct disk {
	char path[PATH_SIZE];
	uint8_t *synced;
	size_t synced_len;
	struct write_list pending;
};

struct file {
	sqlite3_file base;
	struct disk *disk; /* NULL: not followed */
	sqlite3_file *real;
};

static struct {
	pthread_mutex_t mutex;
	struct rng rng;
	struct disk disks[DISKS];
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
write_back(const struct disk *d)
{
	int fd = open(d->path, O_WRONLY | O_TRUNC | O_CLOEXEC);

	if (fd < 0)
		return; /* deleted */
	must(write(fd, d->synced, d->synced_len) == (ssize_t)d->synced_len);
	must(close(fd) == 0);
}

static void
leave(void)
{
	char path[PATH_SIZE + 8];

	for (int i = 0; i < DISKS && power.disks[i].path[0] != '\0'; i++) {
		tear(&power.disks[i]);
		write_back(&power.disks[i]);
		snprintf(path, sizeof path, "%s-shm", power.disks[i].path);
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

static struct disk *
find_disk(const char *path)
{
	for (int i = 0; i < DISKS; i++) {
		struct disk *d = &power.disks[i];

		if (strcmp(d->path, path) == 0)
			return d;
		if (d->path[0] == '\0') {
			must(strlen(path) < sizeof d->path);
			strcpy(d->path, path);
			TAILQ_INIT(&d->pending);
			return d;
		}
	}
	must(!"more files than expected");
	return NULL;
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
	struct disk *d;
	int rc;

	(void)vfs;
	lock();
	count();
	rc = power.real->xDelete(power.real, name, sync_directory);
	d = find_disk(name);
	forget_pending(d);
	d->synced_len = 0;
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
