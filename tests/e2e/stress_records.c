/* fcntl (POSIX) and open-file-description locks: whole files only, one lock with flock. */
#include "tests/e2e/stress.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

static int
lock(int fd, int command, short type, off_t start, off_t len)
{
	struct flock fl = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};

	return fcntl(fd, command, &fl) == 0 ? 0 : errno;
}

static int
whole(int fd, int command, short type)
{
	return lock(fd, command, type, 0, 0);
}

/* Another process finds the file locked. */
static void
must_be_busy(const char *path, int i)
{
	int fd = open_file(path);

	(void)i;
	check(whole(fd, F_SETLK, F_WRLCK) == EAGAIN, "fcntl got the lock");
	check(whole(fd, F_OFD_SETLK, F_WRLCK) == EAGAIN, "OFD got the lock");
	check(flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK, "flock got the lock");
}

static void
must_be_free(const char *path, int i)
{
	int fd = open_file(path);

	(void)i;
	check(whole(fd, F_SETLK, F_WRLCK) == 0, "fcntl");
	check(whole(fd, F_SETLK, F_UNLCK) == 0, "unlock");
}

static void
in_another_process(void (*work)(const char *, int), const char *path)
{
	spawn(work, path, 0);
	join(1);
}

static void
posix_locks(const char *path)
{
	struct flock fl = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fd = open_file(path), second = open_file(path);

	check(whole(fd, F_SETLK, F_WRLCK) == 0, "fcntl");
	in_another_process(must_be_busy, path);
	check(whole(second, F_SETLK, F_WRLCK) == 0, "the process owns it through any descriptor");
	check(close(second) == 0, "close");
	in_another_process(must_be_free, path); /* any close frees, as fcntl prescribes */

	check(whole(fd, F_SETLK, F_WRLCK) == 0, "fcntl");
	check(whole(fd, F_SETLK, F_UNLCK) == 0, "unlock");
	in_another_process(must_be_free, path);
	check(fcntl(fd, F_GETLK, &fl) == 0 && fl.l_type == F_UNLCK, "getlk of a free lock");
	check(close(fd) == 0, "close");
}

static void
ofd_locks(const char *path)
{
	int fd = open_file(path), second = open_file(path);

	check(whole(fd, F_OFD_SETLK, F_WRLCK) == 0, "OFD");
	check(whole(second, F_OFD_SETLK, F_WRLCK) == EAGAIN, "a second description got it");
	check(close(second) == 0, "close");
	in_another_process(must_be_busy, path);
	check(close(fd) == 0, "close");
	in_another_process(must_be_free, path);
}

static void
refusals(const char *path)
{
	int fd = open_file(path);

	check(lock(fd, F_SETLK, F_WRLCK, 0, 10) == ENOLCK, "a range");
	check(lock(fd, F_SETLK, F_RDLCK, 5, 0) == ENOLCK, "a range to the end");
	check(flock(fd, LOCK_EX) == 0, "flock");
	check(whole(fd, F_SETLK, F_WRLCK) == EDEADLK, "fcntl beside flock on one descriptor");
	check(flock(fd, LOCK_UN) == 0, "unlock");
	check(whole(fd, F_SETLK, F_RDLCK) == 0, "shared");
	check(flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EDEADLK, "flock beside fcntl");
	check(whole(fd, F_SETLK, F_UNLCK) == 0, "unlock");
	check(close(fd) == 0, "close");
}

static void
hold_until_killed(const char *path, int i)
{
	int fd = open_file(path);

	(void)i;
	check(whole(fd, F_SETLK, F_WRLCK) == 0, "fcntl");
	kill(getpid(), SIGKILL);
}

static void
death_of_the_holder(const char *path)
{
	int status, fd = open_file(path);
	pid_t pid = spawn(hold_until_killed, path, 0);

	check(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status), "wait");
	check(whole(fd, F_SETLKW, F_WRLCK) == 0, "the waiter is let in");
	check(close(fd) == 0, "close");
}

int
stress_records(int argc, char **argv)
{
	posix_locks(argv[argc - 1]);
	ofd_locks(argv[argc - 1]);
	refusals(argv[argc - 1]);
	death_of_the_holder(argv[argc - 1]);
	return 0;
}
