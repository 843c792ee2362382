/* SQLite's file system over the real one. */
#include <sqlite3.h>
#include <string.h>

#include "cell/base/must.h"
#include "tests/crash/power.h"

struct file {
	sqlite3_file base;
	struct disk *disk; /* NULL: not followed */
	sqlite3_file *real;
	bool syncs_directory; /* with its first sync, as SQLite does for a new WAL or journal */
};

static struct file *
file_of(sqlite3_file *f)
{
	return (struct file *)(void *)f;
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

	power_lock();
	power_count();
	power.writes++;
	if (power.writes < power.no_room_from || power.writes >= power.no_room_to) {
		rc = file->real->pMethods->xWrite(file->real, data, n, at);
		power_remember(file->disk, data, (size_t)n, at);
	}
	power_unlock();
	return rc;
}

static int
x_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	struct file *file = file_of(f);
	int rc;

	power_lock();
	power_count();
	rc = file->real->pMethods->xTruncate(file->real, size);
	power_remember(file->disk, NULL, 0, size);
	power_unlock();
	return rc;
}

static int
x_sync(sqlite3_file *f, int flags)
{
	struct file *file = file_of(f);
	int rc = SQLITE_OK;

	(void)flags;
	power_lock();
	power_count();
	if (++power.syncs == power.fail_sync_at) {
		power.failed = true;
		power_tear(file->disk);
		rc = SQLITE_IOERR_FSYNC;
	} else {
		power_settle(file->disk);
		if (file->syncs_directory)
			power_sync_directory();
		file->syncs_directory = false;
	}
	power_unlock();
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
	power_lock();
	file->disk = power_find_disk(name);
	file->syncs_directory = (flags & SQLITE_OPEN_CREATE) != 0 &&
	                        (flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL)) != 0;
	if (file->disk == NULL && (flags & SQLITE_OPEN_CREATE) != 0)
		power_count();
	file->real = sqlite3_malloc(power.real->szOsFile);
	must(file->real != NULL);
	memset(file->real, 0, (size_t)power.real->szOsFile);
	rc = power.real->xOpen(power.real, name, file->real, flags, out_flags);
	file->base.pMethods = rc == SQLITE_OK ? &methods : NULL;
	if (rc != SQLITE_OK)
		sqlite3_free(file->real);
	else if (file->disk == NULL)
		power_change(CREATED, name, NULL);
	if (rc == SQLITE_OK)
		file->disk = power_find_disk(name);
	power_unlock();
	return rc;
}

static int
x_delete(sqlite3_vfs *vfs, const char *name, int syncs)
{
	int rc;

	(void)vfs;
	power_lock();
	power_count();
	(void)power_find_disk(name);
	rc = power.real->xDelete(power.real, name, false);
	if (rc == SQLITE_OK)
		power_change(REMOVED, name, NULL);
	if (rc == SQLITE_OK && syncs)
		power_sync_directory();
	power_unlock();
	return rc;
}

void
power_make_vfs(void)
{
	power.vfs = *power.real;
	power.vfs.zName = "powercut";
	power.vfs.szOsFile = sizeof(struct file);
	power.vfs.xOpen = x_open;
	power.vfs.xDelete = x_delete;
}
