/* wait: ends when a mounted path is as the caller wants it: the barrier of a shell script. The path
 * or, until it is there, the directory in which it will be is kept open, so that the mount watches
 * it; every line of .cell/events makes the command look again. Changes without an event, as the
 * release of a lock, or of what may not be read, are seen within a second. A path that
 * is to go is not opened, but the directory that it is in: an ephemeral file stays for those that
 * have it open. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "cell/base/memory.h"
#include "cell/base/mono.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"
#include "ctl/ctl.h"
#include "ctl/mounted_path.h"

enum { LOOK_AGAIN_MS = 1000 };

static struct {
	const char *contents;
	bool absent, free;
	double seconds; /* at most; below 0: without an end */
} wanted = {.seconds = -1};

/* The newline at the end of a line is not counted. A read that is interrupted is short, or fails;
 * a file that may not be read is open only to be looked at. */
static int
has_contents(int fd, bool *is_so)
{
	const size_t len = strlen(wanted.contents);
	char *text = memory_zero(1, len + 2);
	const ssize_t n = read(fd, text, len + 2);
	const int error = n >= 0 ? 0 : errno == EBADF ? EACCES : errno;

	*is_so = (n == (ssize_t)len || (n == (ssize_t)len + 1 && text[len] == '\n')) &&
	         memcmp(text, wanted.contents, len) == 0;
	free(text);
	return error;
}

static int
is_free(int fd, bool *is_so)
{
	char at[32], state[64];
	ssize_t n;

	snprintf(at, sizeof at, "/proc/self/fd/%d", fd);
	n = getxattr(at, "user.ls.lock", state, sizeof state);

	*is_so =
	    n >= 0 && bytes_equal((struct bytes){(uint8_t *)state, (size_t)n}, bytes_of("free"));
	return n < 0 ? errno : 0;
}

/* Looks at the path, if it was there: `fd` is its descriptor, or with --absent that of its
 * directory. 0 or an errno. */
static int
look(int fd, bool there, const char *canonical, bool *is_so)
{
	struct stat st;

	if (there && wanted.absent) { /* the root has no other name */
		there = fstatat(fd, strrchr(canonical, '/') + 1, &st, AT_EMPTY_PATH) == 0;
		if (!there && errno != ENOENT)
			return errno;
	}
	*is_so = there ? !wanted.absent : wanted.absent || wanted.free;
	if (!there || wanted.absent)
		return 0;
	if (wanted.contents != NULL)
		return has_contents(fd, is_so);
	return wanted.free ? is_free(fd, is_so) : 0;
}

/* Opens the directory of the path, which needs no right if only to look; or what mounted_path_open
 * opens, if the path is not there. -1 with errno: ESTALE when either came or went meanwhile, and
 * another look is due. */
static int
open_above(const char *path, char canonical[PATH_MAX], bool *there)
{
	char above[PATH_MAX];
	int fd;

	if (realpath(path, canonical) == NULL) {
		fd = errno == ENOENT ? mounted_path_open(path, true, canonical, there) : -1;
		if (fd < 0 || !*there)
			return fd;
		close(fd);
		errno = ESTALE;
		return -1;
	}
	*there = true;
	strcpy(above, canonical);
	dirname(above);
	fd = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == EACCES)
		fd = open(above, O_PATH | O_CLOEXEC);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		errno = ESTALE;
	return fd;
}

static void
await_event(int events, mono_t end)
{
	struct pollfd fds = {.fd = events, .events = POLLIN};
	const int64_t left =
	    mono_is_never(end) ? LOOK_AGAIN_MS : span_to_ms(mono_since(end, clock_now())) + 1;
	char lines[16 * 1024];

	poll(&fds, 1, (int)(left < 0 ? 0 : left < LOOK_AGAIN_MS ? left : LOOK_AGAIN_MS));
	while (read(events, lines, sizeof lines) > 0)
		;
}

/* ---- the command ---- */

static int
run(const struct ctl *ctl, char **argv)
{
	const span_t most = {(int64_t)(wanted.seconds * 1e9)};
	const mono_t end = wanted.seconds >= 0 ? mono_add(clock_now(), most) : MONO_NEVER;
	static struct mountinfo info;
	char canonical[PATH_MAX];
	int events = -1, mount = -1, rc = -1;

	(void)ctl;
	if ((wanted.contents != NULL) + wanted.absent + wanted.free > 1)
		return ctl_usage("--contents, --absent and --free", "one of them");
	if (wanted.seconds >= 0)
		time_limit_start(wanted.seconds);
	while (rc < 0) {
		bool there, is_so = false;
		const int fd = wanted.absent ? open_above(argv[0], canonical, &there)
		                             : mounted_path_open(argv[0], true, canonical, &there);
		int error = fd < 0 ? errno : 0;

		/* Without the mount the path leads to something else. */
		if (error == 0 && (!mounted_path_mount(argv[0], canonical, &info) ||
		                   (events < 0 && (events = mounted_path_events(&info)) < 0))) {
			rc = CTL_FAILED;
		} else if (error == 0 && mount >= 0 && info.id != mount) {
			log_error("%s: its mount has gone", argv[0]);
			rc = CTL_FAILED;
		} else if (error == 0) {
			mount = info.id;
			error = look(fd, there, canonical, &is_so);
		}
		/* An outage passes. */
		if (rc < 0 && error != 0 && error != ESTALE && error != EIO && error != EINTR) {
			log_error("%s: %s", argv[0], strerror(error));
			rc = CTL_FAILED;
		} else if (is_so)
			rc = CTL_OK;
		else if (mono_reached(clock_now(), end))
			rc = CTL_FAILED;
		else if (rc < 0)
			await_event(events, end);
		if (fd >= 0)
			close(fd);
	}
	if (events >= 0)
		close(events);
	return rc;
}

static const struct ctl_option options[] = {
    {"contents", .value = "TEXT", .to = &wanted.contents},
    {"absent", .to = &wanted.absent},
    {"free", .to = &wanted.free},
    {"wait", 'w', "SECONDS", &wanted.seconds, .most = 1e9},
    {0},
};

const struct ctl_command wait_command = {
    "wait",
    "waits until PATH is there; or has these contents, is not there, or its lock is free; exit 1 if"
    " it takes longer than SECONDS",
    {{.words = {"PATH"}, .run = run}},
    options,
};
