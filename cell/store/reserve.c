#include "cell/store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cell/base/must.h"
#include "cell/sys/file.h"

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
	fd = file_open(r->path, O_RDONLY | O_NOFOLLOW);
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

/* Where a file of this size is impossible for another reason than a full disk, there is no reserve,
 * and true is returned: waiting for free space would not help. */
bool
reserve_take(struct reserve *r)
{
	bool scarce = false;
	int fd, rc;

	must(pthread_mutex_lock(&r->mutex) == 0);
	if (!r->held) {
		fd = file_open(r->path, O_RDWR | O_CREAT | O_NOFOLLOW);
		rc = fd < 0 ? fd : 0;
		if (fd >= 0 && !is_allocated(fd)) {
			do
				rc = -posix_fallocate(fd, 0, RESERVE_SIZE + SPARE);
			while (rc == -EINTR);
			if (ftruncate(fd, rc == 0 ? RESERVE_SIZE : 0) < 0 && rc == 0)
				rc = -errno;
		}
		if (fd >= 0)
			close(fd);
		r->held = rc == 0;
		scarce = rc == -ENOSPC || rc == -EDQUOT;
		atomic_store(&r->gone, scarce);
	}
	must(pthread_mutex_unlock(&r->mutex) == 0);
	return !scarce;
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
	fd = given ? file_open(r->path, O_RDWR | O_NOFOLLOW) : -1;
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
