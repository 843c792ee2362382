/* watch: prints the events of mounted files and directories. It opens them, so their mount watches
 * them, and prints the lines of the mount's .cell/events that are theirs, or the session's. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cell/base/limit.h"
#include "cell/base/memory.h"
#include "cell/sys/log.h"
#include "cell/sys/mountinfo.h"
#include "ctl/ctl.h"

enum { LINE_ROOM = 16 * 1024, MOUNTS_MAX = 16, KEY_MAX = 2 * (LIMIT_PATH + LIMIT_CELL_NAME) + 64 };

/* A mount with a path that is watched. */
struct stream {
	dev_t device;
	char mountpoint[PATH_MAX];
	char cell[LIMIT_CELL_NAME + 1];
	char key[KEY_MAX]; /* of lines about the session */
	int fd;            /* of its .cell/events */
	char text[LINE_ROOM];
	size_t len; /* of an unfinished line */
};

struct target {
	const char *path;
	struct stream *stream;
	int fd;            /* -1: it was deleted */
	char key[KEY_MAX]; /* of lines about it */
};

struct watch {
	struct stream streams[MOUNTS_MAX];
	size_t streams_n;
	struct target *targets;
	size_t targets_n;
	unsigned long count; /* events to be printed; 0: without an end */
};

/* ---- opening ---- */

static bool
failed(const char *path, int error)
{
	log_error("%s: %s", path, strerror(error));
	return false;
}

/* The cell's name stands in the mount's .cell/status. */
static bool
cell_name(struct stream *s)
{
	char path[PATH_MAX + 16], line[LIMIT_WHY];
	FILE *f;

	snprintf(path, sizeof path, "%s/.cell/status", s->mountpoint);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "cell: %64s", s->cell) == 1)
			break;
	if (f)
		fclose(f);
	return s->cell[0] || failed(path, errno ? errno : EPROTO);
}

/* The part of a line that says what it is about; as in fs/mount/event_text.c. */
static void
make_key(char key[KEY_MAX], const char *cell, const char *path)
{
	size_t n = (size_t)snprintf(key, KEY_MAX, "\"path\": \"/ls/%s", cell);

	for (; *path && n < KEY_MAX - 16; path++) {
		if (*path == '"' || *path == '\\')
			key[n++] = '\\';
		key[n++] = *path;
	}
	snprintf(key + n, KEY_MAX - n, "\", \"time\"");
}

static struct stream *
stream_find(struct watch *w, dev_t device)
{
	for (size_t i = 0; i < w->streams_n; i++)
		if (w->streams[i].device == device)
			return &w->streams[i];
	return NULL;
}

/* NULL, after an error message, when the path is not in a mount of a cell. */
static struct stream *
stream_open(struct watch *w, const char *path, dev_t device)
{
	static struct mountinfo info;
	struct stream *s = &w->streams[w->streams_n];
	char events[PATH_MAX + 16];

	if (!mountinfo_of_device(device, &info) || strcmp(info.type, MOUNTINFO_TYPE) != 0) {
		log_error("%s: not in a mounted cell", path);
		return NULL;
	}
	if (w->streams_n == MOUNTS_MAX) {
		log_error("%s: in more than %d mounts", path, MOUNTS_MAX);
		return NULL;
	}
	s->device = device;
	snprintf(s->mountpoint, sizeof s->mountpoint, "%s", info.path);
	if (!cell_name(s))
		return NULL;
	make_key(s->key, s->cell, "");
	snprintf(events, sizeof events, "%s/.cell/events", s->mountpoint);
	s->fd = open(events, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (s->fd < 0) {
		failed(events, errno);
		return NULL;
	}
	w->streams_n++;
	return s;
}

/* The stream is open before its first target: so no event of that is missing. */
static bool
target_open(struct watch *w, struct target *t)
{
	char canonical[PATH_MAX];
	struct stat st;

	t->fd = -1;
	if (stat(t->path, &st) < 0 || !realpath(t->path, canonical))
		return failed(t->path, errno);
	t->stream = stream_find(w, st.st_dev);
	if (!t->stream)
		t->stream = stream_open(w, t->path, st.st_dev);
	if (!t->stream)
		return false;
	if (strncmp(canonical, t->stream->mountpoint, strlen(t->stream->mountpoint)) != 0) {
		log_error("%s: not below %s, where the cell is mounted", t->path,
		          t->stream->mountpoint);
		return false;
	}
	make_key(t->key, t->stream->cell, canonical + strlen(t->stream->mountpoint));
	t->fd = open(t->path, O_RDONLY | O_CLOEXEC);
	return t->fd >= 0 || failed(t->path, errno);
}

/* The session has ended, and nothing works on its handles any more. */
static bool
open_again(struct watch *w, const struct stream *s)
{
	for (size_t i = 0; i < w->targets_n; i++) {
		struct target *t = &w->targets[i];

		if (t->stream != s || t->fd < 0)
			continue;
		close(t->fd);
		t->fd = open(t->path, O_RDONLY | O_CLOEXEC);
		if (t->fd < 0)
			return failed(t->path, errno);
	}
	return true;
}

/* ---- events ---- */

static bool
is_event(const char *line, const char *name)
{
	const char *at = line + strlen("{\"event\": \"");

	return strncmp(at, name, strlen(name)) == 0 && at[strlen(name)] == '"';
}

static struct target *
target_of(struct watch *w, const struct stream *s, const char *line)
{
	for (size_t i = 0; i < w->targets_n; i++)
		if (w->targets[i].stream == s && strstr(line, w->targets[i].key))
			return &w->targets[i];
	return NULL;
}

static bool
none_left(const struct watch *w)
{
	for (size_t i = 0; i < w->targets_n; i++)
		if (w->targets[i].fd >= 0)
			return false;
	return true;
}

/* True when the command is done, with its exit code in *rc. */
static bool
on_line(struct watch *w, struct stream *s, const char *line, int *rc)
{
	struct target *t = target_of(w, s, line);

	if (!t && !strstr(line, s->key))
		return false;
	*rc = CTL_FAILED;
	if (puts(line) == EOF || fflush(stdout) == EOF)
		return true;
	*rc = CTL_OK;
	if (w->count > 0 && --w->count == 0)
		return true;
	*rc = CTL_FAILED;
	if (t && is_event(line, "handle_invalid")) {
		close(t->fd);
		t->fd = -1;
		if (none_left(w))
			log_error("%s: deleted", t->path);
	}
	if (is_event(line, "expired"))
		return !open_again(w, s);
	return none_left(w);
}

static bool
on_text(struct watch *w, struct stream *s, int *rc)
{
	char *line = s->text, *end;

	while ((end = memchr(line, '\n', s->len - (size_t)(line - s->text)))) {
		*end = '\0';
		if (on_line(w, s, line, rc))
			return true;
		line = end + 1;
	}
	s->len -= (size_t)(line - s->text);
	memmove(s->text, line, s->len);
	return false;
}

static bool
on_readable(struct watch *w, struct stream *s, int *rc)
{
	const ssize_t n = read(s->fd, s->text + s->len, sizeof s->text - s->len);

	*rc = CTL_FAILED;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		failed(s->mountpoint, n < 0 ? errno : ENOTCONN);
		return true;
	}
	s->len += (size_t)n;
	return on_text(w, s, rc);
}

static int
watch_events(struct watch *w)
{
	struct pollfd fds[MOUNTS_MAX];
	int rc = CTL_FAILED;

	for (;;) {
		for (size_t i = 0; i < w->streams_n; i++)
			fds[i] = (struct pollfd){.fd = w->streams[i].fd, .events = POLLIN};
		if (poll(fds, w->streams_n, -1) < 0 && errno != EINTR)
			return CTL_FAILED;
		for (size_t i = 0; i < w->streams_n; i++)
			if (fds[i].revents && on_readable(w, &w->streams[i], &rc))
				return rc;
	}
}

/* ---- the command ---- */

static int
watch_paths(struct watch *w, char **paths, size_t n)
{
	w->targets = memory_zero(n, sizeof *w->targets);
	for (size_t i = 0; i < n; i++) {
		w->targets[i].path = paths[i];
		w->targets_n++;
		if (!target_open(w, &w->targets[i]))
			return CTL_FAILED;
	}
	return watch_events(w);
}

static bool
count_parse(const char *text, unsigned long *count)
{
	char *end;

	errno = 0;
	*count = strtoul(text, &end, 10);
	return errno == 0 && *text >= '0' && *text <= '9' && !*end && *count > 0;
}

static int
run(struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = {{"count", required_argument, NULL, 'n'},
	                                      CTL_LONG_OPTIONS};
	static struct watch w;
	int letter, rc;

	while ((letter = getopt_long(argc, argv, "n:h", longs, NULL)) != -1) {
		if (letter == 'n' && !count_parse(optarg, &w.count))
			return ctl_usage(&watch_command, "-n", "needs a number of events");
		if (letter != 'n' && !ctl_option(ctl, letter))
			return CTL_USAGE;
	}
	if (ctl->help)
		return CTL_OK;
	if (optind == argc)
		return ctl_usage(&watch_command, "PATH", "needed");
	rc = watch_paths(&w, argv + optind, (size_t)(argc - optind));
	free(w.targets);
	return rc;
}

const struct ctl_command watch_command = {
    "watch",
    "[-n COUNT] PATH...",
    "prints the events of files and directories, and of the session, as lines of JSON",
    .run = run,
};
