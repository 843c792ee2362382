#include "cell/store/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cell/base/must.h"

/* Bytes that must be free beside the reserve, so that it is not given up again at once. */
enum { SPARE = 1024 * 1024 };

static bool
is_allocated(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_size >= RESERVE_SIZE &&
	       (off_t)st.st_blocks * 512 >= RESERVE_SIZE;
}

void
reserve_init(struct reserve *r, const char *directory)
{
	int fd;

	*r = (struct reserve){.held = false};
	snprintf(r->path, sizeof r->path, "%s/" RESERVE_FILE, directory);
	must(pthread_mutex_init(&r->mutex, NULL) == 0);
	fd = open(r->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return;
	r->held = is_allocated(fd);
	close(fd);
}

void
reserve_fini(struct reserve *r)
{
	must(pthread_mutex_destroy(&r->mutex) == 0);
}

/* Allocates the file's blocks. 0 or -errno. */
static int
allocate(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	int rc = 0;

	if (fd < 0)
		return -errno;
	if (!is_allocated(fd)) {
		rc = -posix_fallocate(fd, 0, RESERVE_SIZE + SPARE);
		if (ftruncate(fd, rc == 0 ? RESERVE_SIZE : 0) < 0 && rc == 0)
			rc = -errno;
	}
	close(fd);
	return rc;
}

/* Where a file of this size is impossible for another reason than a full disk, there is no reserve,
 * and true is returned: waiting for free space would not help. */
bool
reserve_take(struct reserve *r)
{
	int rc = 0;

	must(pthread_mutex_lock(&r->mutex) == 0);
	if (!r->held) {
		rc = allocate(r->path);
		r->held = rc == 0;
		atomic_store(&r->gone, rc == -ENOSPC || rc == -EDQUOT);
		rc = atomic_load(&r->gone) ? -ENOSPC : 0;
	}
	must(pthread_mutex_unlock(&r->mutex) == 0);
	return rc == 0;
}

bool
reserve_give_up(struct reserve *r)
{
	bool given;
	int fd;

	must(pthread_mutex_lock(&r->mutex) == 0);
	given = r->held;
	r->held = false;
	atomic_store(&r->gone, true);
	fd = given ? open(r->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
	if (fd >= 0) {
		given = ftruncate(fd, 0) == 0;
		/* Some filesystems reuse freed blocks only once the freeing is on the disk. */
		(void)fsync(fd);
		close(fd);
	}
	must(pthread_mutex_unlock(&r->mutex) == 0);
	return given;
}

bool
reserve_give_up_if_full(struct reserve *r)
{
	struct statvfs fs;

	return statvfs(r->path, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize < SPARE &&
	       reserve_give_up(r);
}
