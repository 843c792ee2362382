#include "cell/sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOT_REGULAR = -EINVAL };

int
file_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600), rc;
	struct stat st = {0};

	if (fd < 0)
		return errno == ENXIO ? NOT_REGULAR : -errno;
	rc = fstat(fd, &st) < 0 ? -errno : S_ISDIR(st.st_mode) ? -EISDIR : NOT_REGULAR;
	if (S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return rc;
}

const char *
file_why(int rc)
{
	return rc == NOT_REGULAR ? "not a regular file" : strerror(-rc);
}

int
file_write_at(int fd, struct bytes data, off_t offset)
{
	while (data.len > 0) {
		ssize_t n = pwrite(fd, data.data, data.len, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		data.data += n;
		data.len -= (size_t)n;
		offset += n;
	}
	return 0;
}

int
file_read(int fd, size_t limit, struct buffer *to)
{
	char part[4096];

	for (;;) {
		ssize_t n = pread(fd, part, sizeof part, (off_t)to->len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		if (to->len + (size_t)n > limit)
			return -EFBIG;
		buffer_put(to, part, (size_t)n);
	}
}

static int
sync_path(const char *path, int flag)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | flag);
	int rc = 0;

	if (fd < 0)
		return -errno;
	if (fsync(fd) < 0)
		rc = -errno;
	close(fd);
	return rc;
}

int
file_sync_directory(const char *path)
{
	return sync_path(path, O_DIRECTORY);
}

int
file_sync_above(const char *path)
{
	char parent[PATH_MAX];
	int fd, rc;

	if (snprintf(parent, sizeof parent, "%s", path) >= (int)sizeof parent)
		return -ENAMETOOLONG;
	rc = file_sync_directory(dirname(parent));
	if (rc == -EACCES) {
		fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		rc = fd < 0 || syncfs(fd) < 0 ? -errno : 0;
		if (fd >= 0)
			close(fd);
	}
	return rc;
}

int
file_make_directory(const char *path, mode_t mode)
{
	int rc;

	if (mkdir(path, mode) < 0)
		return -errno;
	rc = file_sync_above(path);
	if (rc < 0)
		rmdir(path);
	return rc;
}

int
file_sync(const char *path)
{
	return sync_path(path, O_NOFOLLOW);
}

int
file_rename(const char *from, const char *to)
{
	return rename(from, to) < 0 ? -errno : 0;
}

int
file_remove(const char *path)
{
	return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

/* True if the file that `is` describes has this name. */
static bool
names(const char *path, const struct stat *is)
{
	struct stat st;

	return lstat(path, &st) == 0 && st.st_dev == is->st_dev && st.st_ino == is->st_ino;
}

/* Opens the temporary file, or makes it. One that is another user's, who could read what is
 * written, or that has a second name is removed: -EAGAIN. */
static int
open_own(const char *path)
{
	const int flags = O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	int fd = open(path, flags | O_CREAT | O_EXCL, 0600), rc = -EAGAIN;
	struct stat is;

	if (fd >= 0)
		return fd;
	if (errno != EEXIST)
		return -errno;
	fd = open(path, flags);
	if (fd < 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	if (fstat(fd, &is) < 0)
		rc = -errno;
	else if (is.st_uid == geteuid() && is.st_nlink <= 1)
		return fd;
	else if (names(path, &is))
		rc = unlink(path) < 0 && errno != ENOENT ? -errno : -EAGAIN;
	close(fd);
	return rc;
}

/* Opens the temporary file for one process: another one waits for its lock, and begins anew when
 * the file has got its name. Nobody else can open it, and hold the lock. */
static int
open_unfinished(const char *path)
{
	for (;;) {
		const int fd = open_own(path);
		struct stat is;
		int rc;

		if (fd == -EAGAIN)
			continue;
		if (fd < 0)
			return fd;
		while (flock(fd, LOCK_EX) < 0)
			if (errno != EINTR)
				break; /* a filesystem without locks */
		rc = fstat(fd, &is) < 0 ? -errno : 0;
		if (rc == 0 && names(path, &is))
			return fd;
		close(fd);
		if (rc < 0)
			return rc;
	}
}

static int
write_synced(int fd, struct bytes contents, mode_t mode)
{
	int rc = fchmod(fd, 0600) < 0 || ftruncate(fd, 0) < 0 ? -errno : 0;

	if (rc == 0)
		rc = file_write_at(fd, contents, 0);
	if (rc == 0 && (fchmod(fd, mode) < 0 || fsync(fd) < 0))
		rc = -errno;
	return rc;
}

/* A rename that never replaces a file. A few filesystems lack RENAME_NOREPLACE; link() does the
 * same there. */
static int
move_new(const char *from, const char *to)
{
	if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	if (link(from, to) < 0)
		return -errno;
	return file_remove(from); /* another process may have, for its second name */
}

/* Writes the contents to a temporary file and syncs it, then gives it its name by `move`, durably:
 * at any moment the name is of the whole old file or of the whole new one. */
static int
put(const char *path, struct bytes contents, mode_t mode,
    int (*move)(const char *from, const char *to))
{
	char other[PATH_MAX];
	int fd, rc;

	if (snprintf(other, sizeof other, "%s" FILE_UNFINISHED, path) >= (int)sizeof other)
		return -ENAMETOOLONG;
	fd = open_unfinished(other);
	if (fd < 0)
		return fd;
	rc = write_synced(fd, contents, mode);
	if (rc == 0)
		rc = move(other, path);
	if (rc < 0)
		unlink(other);
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	return rc < 0 ? rc : file_sync_above(path);
}

int
file_create(const char *path, struct bytes contents, mode_t mode)
{
	if (access(path, F_OK) == 0)
		return -EEXIST;
	return put(path, contents, mode, move_new);
}

int
file_replace(const char *path, struct bytes contents, mode_t mode)
{
	return put(path, contents, mode, file_rename);
}
