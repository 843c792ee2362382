#include "cell/store/dir_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "cell/sys/file.h"
#include "cell/sys/process.h"

/* For how long a test of the lock may last. */
enum { ATTEMPTS = 50, PAUSE_NS = 1000 * 1000 };

/* The process that wrote its number into the lock file; 0 when there is no readable number. */
static pid_t
holder_of(int fd)
{
	char text[32] = "";
	int pid = 0;

	if (pread(fd, text, sizeof text - 1, 0) > 0 && sscanf(text, "%d", &pid) == 1 && pid > 0)
		return pid;
	return 0;
}

/* Takes the lock; waits for a holder that is exiting, and for one that only tests it. */
static bool
take(int fd, int operation)
{
	for (int i = 0; flock(fd, operation | LOCK_NB) < 0; i++) {
		if (errno != EWOULDBLOCK)
			return false;
		if (i == ATTEMPTS || !process_ended(holder_of(fd))) {
			errno = EWOULDBLOCK;
			return false;
		}
		nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
	}
	return true;
}

/* Opens the lock file, or notes in lock->fd why not, and takes the lock. */
static bool
take_file(struct dir_lock *lock, const char *directory, int flags, int operation, char *why,
          size_t why_size)
{
	char path[PATH_MAX];
	int error;
	pid_t pid;

	lock->fd = -ENAMETOOLONG;
	if (snprintf(path, sizeof path, "%s/" DIR_LOCK_FILE, directory) >= (int)sizeof path) {
		snprintf(why, why_size, "%.64s...: %s", directory, strerror(ENAMETOOLONG));
		return false;
	}
	lock->fd = file_open(path, flags | O_NOFOLLOW);
	if (lock->fd < 0) {
		snprintf(why, why_size, "%s: %s", path, file_why(lock->fd));
		return false;
	}
	if (take(lock->fd, operation))
		return true;
	error = errno;
	pid = holder_of(lock->fd); /* or of one who had the lock before */
	if (error != EWOULDBLOCK)
		snprintf(why, why_size, "%s: %s", path, strerror(error));
	else if (pid > 0 && !process_ended(pid))
		snprintf(why, why_size, "%s: in use by process %d", directory, (int)pid);
	else
		snprintf(why, why_size, "%s: in use by another process", directory);
	dir_lock_release(lock);
	return false;
}

bool
dir_lock_take(struct dir_lock *lock, const char *directory, char *why, size_t why_size)
{
	char text[32];
	int len;

	if (!take_file(lock, directory, O_RDWR | O_CREAT, LOCK_EX, why, why_size))
		return false;
	/* Writes our process number into the lock file, for messages and for waiting until an
	 * exiting holder is gone. The lock works without it, so an error (a full disk) is
	 * ignored. */
	len = snprintf(text, sizeof text, "%d\n", (int)getpid());
	if (ftruncate(lock->fd, 0) == 0 && pwrite(lock->fd, text, (size_t)len, 0) != len)
		(void)!ftruncate(lock->fd, 0);
	return true;
}

bool
dir_lock_share(struct dir_lock *lock, const char *directory, char *why, size_t why_size)
{
	return take_file(lock, directory, O_RDONLY, LOCK_SH, why, why_size) || lock->fd == -ENOENT;
}

pid_t
dir_lock_holder(const char *directory)
{
	char path[PATH_MAX];
	pid_t pid = 0;
	int fd;

	if (snprintf(path, sizeof path, "%s/" DIR_LOCK_FILE, directory) >= (int)sizeof path)
		return 0;
	fd = file_open(path, O_RDONLY | O_NOFOLLOW);
	if (fd < 0)
		return 0;
	if (flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		pid = holder_of(fd);
	close(fd);
	return pid;
}

void
dir_lock_release(struct dir_lock *lock)
{
	if (lock->fd >= 0)
		close(lock->fd);
	lock->fd = -1;
}
