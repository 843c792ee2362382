#include "ctl/mounted_path.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "cell/base/memory.h"
#include "cell/sys/file.h"
#include "cell/sys/log.h"
#include "ctl/ctl.h"

enum { ANSWER = 256 * 1024 };

int
mounted_path_open(const char *path, bool looks, char canonical[PATH_MAX], bool *there)
{
	char at[PATH_MAX], *slash;
	int fd, error;

	*there = true;
	snprintf(at, sizeof at, "%s", path);
	for (;;) {
		fd = open(at, O_RDONLY | O_CLOEXEC);
		if (fd < 0 && errno == EACCES && looks)
			fd = open(at, O_PATH | O_CLOEXEC);
		if (fd >= 0 && realpath(at, canonical) != NULL) {
			const size_t n = canonical[1] == '\0' ? 0 : strlen(canonical);
			const char *rest = strcmp(at, ".") == 0 ? path : path + strlen(at);

			if (!*there)
				snprintf(canonical + n, PATH_MAX - n, "/%s",
				         rest + strspn(rest, "/"));
			return fd;
		}
		error = errno;
		if (fd >= 0)
			close(fd);
		errno = error;
		if (error != ENOENT || strcmp(at, ".") == 0 || strcmp(at, "/") == 0)
			return -1;
		*there = false;
		slash = strrchr(at, '/');
		if (slash == NULL)
			strcpy(at, ".");
		else
			slash[slash == at] = '\0';
	}
}

bool
mounted_path_mount(const char *path, const char *canonical, struct mountinfo *info)
{
	if (mountinfo_above(canonical, info) && mountinfo_is_cell(info))
		return true;
	return log_error("%s: not in a mounted cell", path);
}

int
mounted_path_attribute(const char *path, const char *name, char *value, size_t room)
{
	const ssize_t n = getxattr(path, name, value, room - 1);

	value[n < 0 ? 0 : n] = '\0';
	return n < 0 && errno != ENODATA ? errno : 0;
}

int
mounted_path_cell(const struct mountinfo *info, char cell[LIMIT_CELL_NAME + 1])
{
	char path[PATH_MAX + 16], line[LIMIT_WHY];
	FILE *f;
	int error;

	cell[0] = '\0';
	errno = 0;
	snprintf(path, sizeof path, "%s/.cell:status", info->path);
	f = fopen(path, "re");
	while (f != NULL && fgets(line, sizeof line, f) != NULL)
		if (sscanf(line, "cell: %64s", cell) == 1)
			break;
	error = cell[0] != '\0' ? 0 : errno != 0 ? errno : EPROTO;
	if (f != NULL)
		fclose(f);
	return error;
}

void
mounted_path_inside(const struct mountinfo *info, const char *canonical, char inside[2 * PATH_MAX])
{
	snprintf(inside, 2 * PATH_MAX, "%s%s", info->whole ? "" : info->root,
	         strcmp(info->path, "/") == 0 ? canonical : canonical + strlen(info->path));
}

static int
open_virtual(const char *mountpoint, const char *name, int flags)
{
	char path[PATH_MAX + 16];
	int fd;

	snprintf(path, sizeof path, "%s/.cell:%s", mountpoint, name);
	fd = open(path, O_RDONLY | O_CLOEXEC | flags);
	if (fd < 0)
		log_error("%s: %s", path, strerror(errno));
	return fd;
}

int
mounted_path_events(const struct mountinfo *info)
{
	return open_virtual(info->path, "events", O_NONBLOCK);
}

int
mounted_path_changes(const char *mountpoint, uint64_t since)
{
	const int fd = open_virtual(mountpoint, "changes", 0);

	if (fd >= 0)
		lseek(fd, (off_t)since, SEEK_SET);
	return fd;
}

char *
mounted_path_base64(struct bytes contents)
{
	const int variant = sodium_base64_VARIANT_ORIGINAL;
	const size_t room = sodium_base64_encoded_len(contents.len, variant);

	return sodium_bin2base64(memory_zero(1, room), room, contents.data, contents.len, variant);
}

bool
mounted_path_word(struct buffer *to, const char *prefix, const char *word)
{
	const char *quote = strchr(word, ' ') != NULL || strchr(prefix, ' ') != NULL ? "\"" : "";

	for (const char *c = word; *c != '\0'; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f ||
		    (*c == '"' && (*quote != '\0' || (c == word && *prefix == '\0'))))
			return false;
	buffer_printf(to, " %s%s%s%s", quote, prefix, word, quote);
	return true;
}

/* The first word of the answer says whether the transaction was committed. One that was refused for
 * its form or its size has an answer, too; after another error a read would commit it once more. */
int
mounted_path_transaction(const char *mountpoint, struct bytes text, char **answer)
{
	char path[PATH_MAX + 16];
	int fd, error, rc = CTL_FAILED;
	bool answered = false;
	ssize_t n = 0;

	snprintf(path, sizeof path, "%s/.cell:txn", mountpoint);
	fd = open(path, O_RDWR | O_CLOEXEC);
	error = fd < 0 ? errno : -file_write_at(fd, text, 0);
	*answer = memory_zero(1, ANSWER);
	if (error == 0) {
		error = fsync(fd) < 0 ? errno : 0;
		answered = error == 0 || error == EINVAL || error == ENOSPC || error == EFBIG;
	}
	if (answered)
		n = pread(fd, *answer, ANSWER - 1, (off_t)text.len);
	if (n > 0) {
		rc = strncmp(*answer, "refused", 7) == 0   ? CTL_USAGE
		     : strncmp(*answer, "unknown", 7) == 0 ? CTL_UNKNOWN
		     : strncmp(*answer, "done", 4) == 0    ? CTL_OK
		                                           : CTL_FAILED;
	} else {
		if (error == 0)
			error = n < 0 ? errno : EIO;
		snprintf(*answer, ANSWER, "%s: %s", path, strerror(error));
		rc = fd < 0 ? CTL_FAILED : CTL_UNKNOWN;
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

/* ---- the time of calls ---- */

static volatile sig_atomic_t passed;

static void
on_alarm(int number)
{
	passed = number;
}

/* The timer repeats: a signal that arrives just before a call blocks does not interrupt it. */
void
time_limit_start(double seconds)
{
	/* Without SA_RESTART, so that the call returns EINTR. */
	struct sigaction action = {.sa_handler = on_alarm};
	struct itimerval timer = {
	    .it_interval = {.tv_usec = 50000},
	    .it_value = {.tv_sec = (time_t)seconds,
	                 .tv_usec = (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)},
	};

	if (timer.it_value.tv_sec == 0 && timer.it_value.tv_usec == 0)
		timer.it_value.tv_usec = 1;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

bool
time_limit_passed(void)
{
	return passed != 0;
}

void
time_limit_end(void)
{
	setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
	passed = 0;
}
