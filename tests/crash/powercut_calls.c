/* The calls with which cell/ writes its own files: the linker puts these in their place. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "cell/base/must.h"
#include "tests/crash/power.h"

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
	struct disk *d = power_find_disk(path);
	const bool creates = d == NULL && (flags & O_CREAT) != 0;
	int fd;

	if (creates || (flags & O_TRUNC) != 0)
		power_count();
	fd = __real_open(path, flags, mode);
	if (fd < 0)
		return fd;
	must(fd < DESCRIPTORS);
	if (creates)
		power_change(CREATED, path, NULL);
	else if ((flags & O_TRUNC) != 0)
		power_remember(d, NULL, 0, 0);
	power.open[fd] = power_find_disk(path);
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
	power_lock();
	if ((flags & O_DIRECTORY) != 0) {
		fd = __real_open(path, flags);
		if (fd >= 0 && fd < DESCRIPTORS)
			power.open[fd] = &directory;
	} else {
		fd = open_followed(path, flags, mode);
	}
	power_unlock();
	return fd;
}

int
__wrap_close(int fd)
{
	int rc;

	power_lock();
	if (followed(fd) != NULL)
		power.open[fd] = NULL;
	rc = __real_close(fd);
	power_unlock();
	return rc;
}

ssize_t
__wrap_pwrite(int fd, const void *data, size_t n, off_t at)
{
	struct disk *d;
	ssize_t done;

	power_lock();
	d = followed(fd);
	if (d != NULL)
		power_count();
	done = __real_pwrite(fd, data, n, at);
	if (d != NULL && done > 0)
		power_remember(d, data, (size_t)done, at);
	power_unlock();
	return done;
}

int
__wrap_ftruncate(int fd, off_t len)
{
	struct disk *d;
	int rc;

	power_lock();
	d = followed(fd);
	if (d != NULL)
		power_count();
	rc = __real_ftruncate(fd, len);
	if (d != NULL && rc == 0)
		power_remember(d, NULL, 0, len);
	power_unlock();
	return rc;
}

/* True when the chosen sync fails. */
static bool
fails(struct disk *d)
{
	if (++power.syncs != power.fail_sync_at)
		return false;
	power.failed = true;
	if (d != &directory) {
		power_tear(d);
		return true;
	}
	power_tear_directory();
	power.changes_n = 0;
	return true;
}

static int
sync_followed(int fd, int (*real)(int fd))
{
	struct disk *d;
	int rc = 0;

	power_lock();
	d = followed(fd);
	if (d != NULL)
		power_count();
	if (d == NULL)
		rc = real(fd);
	else if (fails(d))
		rc = -1;
	else if (d == &directory)
		power_sync_directory();
	else
		power_settle(d);
	power_unlock();
	if (d != NULL && rc < 0)
		errno = EIO;
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
	power_lock();
	power_count();
	(void)power_find_disk(from);
	(void)power_find_disk(to);
	rc = __real_rename(from, to);
	if (rc == 0)
		power_change(RENAMED, from, to);
	power_unlock();
	return rc;
}

int
__wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
	int rc;

	if (!is_followed(from))
		return __real_renameat2(from_fd, from, to_fd, to, flags);
	power_lock();
	power_count();
	(void)power_find_disk(from);
	rc = __real_renameat2(from_fd, from, to_fd, to, flags);
	if (rc == 0)
		power_change(RENAMED, from, to);
	power_unlock();
	return rc;
}

int
__wrap_unlink(const char *path)
{
	int rc;

	if (!is_followed(path) || access(path, F_OK) < 0)
		return __real_unlink(path);
	power_lock();
	power_count();
	(void)power_find_disk(path);
	rc = __real_unlink(path);
	if (rc == 0)
		power_change(REMOVED, path, NULL);
	power_unlock();
	return rc;
}
