/* fence: the side of the resource that a lock protects. Runs a command only if the fencing token is
 * not lower than the highest that was seen before. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cell/sys/file.h"
#include "cell/sys/log.h"
#include "ctl/ctl.h"

enum { LONGEST_TOKEN = 20 }; /* digits of a 64-bit number */

struct fence {
	char state[PATH_MAX]; /* the file with the highest token */
	mode_t mode;          /* its permissions */
	uint64_t token, highest;
};

/* A decimal number as a token is written: without sign and leading zeros. */
static bool
token_parse(const char *text, uint64_t *token)
{
	char *end;

	errno = 0;
	*token = strtoull(text, &end, 10);
	return text[0] >= '1' && text[0] <= '9' && errno == 0 && *end == '\0';
}

static int
failed(const struct fence *f, const char *what, int error)
{
	return CTL_FAIL("%s: %s: %s", f->state, what, strerror(error));
}

/* The commands that the resource accepts run one after another: while one with an older token runs,
 * one with a newer token waits. The lock is in a file of its own, because the state file is
 * replaced. The command inherits the descriptor: processes that outlive it keep the lock. */
static int
lock(const struct fence *f)
{
	char path[PATH_MAX + 8];
	int fd;

	snprintf(path, sizeof path, "%s.lock", f->state);
	fd = open(path, O_RDWR | O_CREAT | O_NOCTTY, 0666);
	if (fd < 0)
		return failed(f, "cannot open its .lock", errno);
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return failed(f, "cannot lock its .lock", errno);
	return CTL_OK;
}

/* The highest token so far; 0 if there is no state yet, or an empty file. A state that is not one
 * token, as only another program can have written it, is refused. */
static int
read_state(struct fence *f)
{
	struct buffer text = BUFFER(LONGEST_TOKEN + 2);
	struct stat st;
	int fd = file_open(f->state, O_RDONLY), error;
	char *line;
	bool valid;

	if (fd < 0)
		return fd == -ENOENT ? CTL_OK : failed(f, "cannot be read", -fd);
	error = fstat(fd, &st) < 0 ? errno : -file_read(fd, LONGEST_TOKEN + 1, &text);
	close(fd);
	if (error != 0) {
		buffer_free(&text);
		return failed(f, "cannot be read", error);
	}
	f->mode = st.st_mode & 07777;
	line = bytes_to_text(buffer_view(&text));
	line[strcspn(line, "\n")] = '\0';
	valid = text.len == 0 || (token_parse(line, &f->highest) && strlen(line) + 1 >= text.len);
	free(line);
	buffer_free(&text);
	if (valid)
		return CTL_OK;
	return CTL_FAIL("%s: holds no fencing token", f->state);
}

/* The token is durable before the command can act on it. One that is in the file already is written
 * again: its writer may have been killed before it was durable. */
static int
record(const struct fence *f)
{
	char text[LONGEST_TOKEN + 2];
	int error;

	snprintf(text, sizeof text, "%" PRIu64 "\n", f->token);
	error = -file_replace(f->state, bytes_of(text), f->mode);
	return error == 0 ? CTL_OK : failed(f, "cannot record the token", error);
}

/* All names of a file stand for one state and one lock: `state` is the file that a symbolic link
 * leads to, because the link itself would be replaced with the first token. A file that does not
 * exist is made, empty. False with errno. */
static bool
resolve(const char *name, char state[PATH_MAX])
{
	int fd;

	if (realpath(name, state))
		return true;
	if (errno != ENOENT)
		return false;
	fd = open(name, O_RDONLY | O_CREAT | O_NOCTTY | O_CLOEXEC, 0644);
	return fd >= 0 && close(fd) == 0 && realpath(name, state);
}

static int
run(const struct ctl *ctl, char **argv)
{
	struct fence f = {.mode = 0644};
	int rc;

	if (!token_parse(argv[1], &f.token))
		return ctl_usage(argv[1], "not a fencing token");
	if (!resolve(argv[0], f.state))
		return CTL_FAIL("%s: cannot be made: %s", argv[0], strerror(errno));
	rc = lock(&f);
	if (rc == CTL_OK)
		rc = read_state(&f);
	if (rc != CTL_OK)
		return rc;
	if (f.token < f.highest)
		return CTL_FAIL("%s: stale token: %" PRIu64 " is lower than %" PRIu64, f.state,
		                f.token, f.highest);
	rc = record(&f);
	return rc == CTL_OK ? program_become(ctl->command) : rc;
}

const struct ctl_command fence_command = {
    "fence",
    "runs COMMAND only if TOKEN is not lower than the highest that STATEFILE has seen",
    {{.words = {"STATEFILE", "TOKEN"}, .runs = true, .run = run}},
    NULL,
};
