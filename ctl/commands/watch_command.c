/* watch: prints the events of mounted files and directories, or does something about their changes.
 * It opens them, so their mount watches them, and takes the lines of the mount's .cell/events that
 * are theirs, or the session's. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cell/base/limit.h"
#include "cell/base/memory.h"
#include "cell/base/mono.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"
#include "cell/sys/mountinfo.h"
#include "ctl/ctl.h"

enum {
	LOOK_AGAIN_MS = 1000,
	LINE_ROOM = 16 * 1024,
	MOUNTS_MAX = 16,
	KEY_MAX = 2 * (LIMIT_PATH + LIMIT_CELL_NAME) + 64
};

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
	uint64_t count; /* events to be printed; 0: without an end */
};

/* Instead of printing. The command is run, or the signal sent, when the paths have changed and then
 * not for a while, and not before the last run has ended: that finds the last state only. */
struct reaction {
	const char *command;
	int signal; /* 0: none */
	const char *pid_file;
	double settle_s;
	mono_t due;    /* MONO_NEVER: nothing has changed since the last run began */
	uint64_t seen; /* the state of the paths when the last run began */
	pid_t child;   /* 0: none */
	int ended;     /* its pidfd */
};

static struct watch watched;
static struct reaction reaction = {.ended = -1};

static bool
reacts(void)
{
	return reaction.command != NULL || reaction.signal != 0;
}

/* ---- opening ---- */

static bool
failed(const char *path, int error)
{
	log_error("%s: %s", path, strerror(error));
	return false;
}

/* The cell's name stands in the mount's status. */
static bool
cell_name(struct stream *s)
{
	char path[PATH_MAX + 16], line[LIMIT_WHY];
	FILE *f;

	snprintf(path, sizeof path, "%s/.cell:status", s->mountpoint);
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

/* NULL, after an error message, when the path, which lies on the mount *info, is not in a mount of
 * a cell. */
static struct stream *
stream_open(struct watch *w, const char *path, dev_t device, const struct mountinfo *info)
{
	struct stream *s = &w->streams[w->streams_n];
	char events[PATH_MAX + 16];

	if (strcmp(info->type, MOUNTINFO_TYPE) != 0) {
		log_error("%s: not in a mounted cell", path);
		return NULL;
	}
	if (w->streams_n == MOUNTS_MAX) {
		log_error("%s: in more than %d mounts", path, MOUNTS_MAX);
		return NULL;
	}
	s->device = device;
	snprintf(s->mountpoint, sizeof s->mountpoint, "%s", info->path);
	if (!cell_name(s))
		return NULL;
	make_key(s->key, s->cell, "");
	snprintf(events, sizeof events, "%s/.cell:events", s->mountpoint);
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
	static struct mountinfo info;
	char canonical[PATH_MAX], path[2 * PATH_MAX];
	struct stat st;

	t->fd = -1;
	if (stat(t->path, &st) < 0 || !realpath(t->path, canonical) ||
	    !mountinfo_above(canonical, &info))
		return failed(t->path, errno);
	t->stream = stream_find(w, st.st_dev);
	if (!t->stream)
		t->stream = stream_open(w, t->path, st.st_dev, &info);
	if (!t->stream)
		return false;
	snprintf(path, sizeof path, "%s%s", info.whole ? "" : info.root,
	         canonical + strlen(info.path));
	make_key(t->key, t->stream->cell, path);
	t->fd = open(t->path, O_RDONLY | O_CLOEXEC);
	return t->fd >= 0 || failed(t->path, errno);
}

/* The session has ended, and nothing works on its handles any more. */
static bool
open_again(struct watch *w, const struct stream *s)
{
	bool ok = true;

	for (size_t i = 0; i < w->targets_n; i++) {
		struct target *t = &w->targets[i];

		if (t->stream != s || t->fd < 0)
			continue;
		close(t->fd);
		t->fd = open(t->path, O_RDONLY | O_CLOEXEC);
		ok = (t->fd >= 0 || failed(t->path, errno)) && ok;
	}
	return ok;
}

/* ---- reacting ---- */

static uint64_t
state_of(const struct stat *st)
{
	return ((uint64_t)st->st_ino * 31 + (uint64_t)st->st_mtim.tv_sec * 1000000007 +
	        (uint64_t)st->st_mtim.tv_nsec) *
	       0x9e3779b97f4a7c15u;
}

/* Differs when the paths, or what is in their directories, are others or have other contents. */
static uint64_t
state_of_paths(const struct watch *w)
{
	const struct dirent *e;
	uint64_t sum = 0;
	struct stat st;

	for (size_t i = 0; i < w->targets_n; i++) {
		DIR *d = opendir(w->targets[i].path);

		if (stat(w->targets[i].path, &st) == 0)
			sum += state_of(&st);
		while (d != NULL && (e = readdir(d)) != NULL)
			if (fstatat(dirfd(d), e->d_name, &st, 0) == 0)
				sum += state_of(&st);
		if (d != NULL)
			closedir(d);
	}
	return sum;
}

static void
send_signal(void)
{
	FILE *f = fopen(reaction.pid_file, "re");
	long pid = 0;

	if (f == NULL)
		log_warn("%s: %s", reaction.pid_file, strerror(errno));
	else if (fscanf(f, "%ld", &pid) != 1 || pid <= 1)
		log_warn("%s: holds no process id", reaction.pid_file);
	else if (kill((pid_t)pid, reaction.signal) < 0)
		log_warn("%s: process %ld: %s", reaction.pid_file, pid, strerror(errno));
	if (f != NULL)
		fclose(f);
}

static void
react(const struct watch *w)
{
	const pid_t self = getpid();

	reaction.due = MONO_NEVER;
	reaction.seen = state_of_paths(w);
	if (reaction.command == NULL) {
		send_signal();
		return;
	}
	fflush(NULL);
	reaction.child = fork();
	if (reaction.child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() == self)
			execl("/bin/sh", "sh", "-c", reaction.command, (char *)NULL);
		_exit(127);
	}
	reaction.ended = reaction.child > 0 ? pidfd_open(reaction.child, 0) : -1;
	if (reaction.ended < 0) {
		log_error("%s: cannot run it: %s", reaction.command, strerror(errno));
		reaction.child = 0;
	}
}

/* Waits for the run, if there is one. Its failure is told, and the next change runs it again. */
static void
end_run(void)
{
	int status;

	if (reaction.child == 0 || waitpid(reaction.child, &status, 0) < 0)
		return;
	close(reaction.ended);
	reaction.ended = -1;
	reaction.child = 0;
	if (WIFSIGNALED(status))
		log_warn("%s: ended by signal %d", reaction.command, WTERMSIG(status));
	else if (WEXITSTATUS(status) != 0)
		log_warn("%s: exit status %d", reaction.command, WEXITSTATUS(status));
}

static void
note_change(void)
{
	reaction.due = mono_add(clock_now(), (span_t){(int64_t)(reaction.settle_s * 1e9)});
}

/* A deleted path is looked for again. */
static void
find_deleted(struct watch *w)
{
	for (size_t i = 0; i < w->targets_n; i++) {
		struct target *t = &w->targets[i];

		if (t->fd < 0 && (t->fd = open(t->path, O_RDONLY | O_CLOEXEC)) >= 0)
			note_change();
	}
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

static size_t
count_deleted(const struct watch *w)
{
	size_t n = 0;

	for (size_t i = 0; i < w->targets_n; i++)
		n += w->targets[i].fd < 0;
	return n;
}

/* Events that may have been missed make a run if the paths differ. */
static void
on_change(struct watch *w, const struct stream *s, struct target *t, const char *line)
{
	static const char *const changes[] = {"contents_modified", "child_added", "child_removed",
	                                      "child_modified", "gap"};

	if (t && is_event(line, "handle_invalid")) {
		close(t->fd);
		t->fd = -1;
		note_change();
	}
	if (is_event(line, "expired") && !open_again(w, s))
		note_change();
	if ((is_event(line, "expired") || is_event(line, "master_failed_over")) &&
	    state_of_paths(w) != reaction.seen)
		note_change();
	for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
		if (is_event(line, changes[i]))
			note_change();
}

/* True when the command is done, with its exit code in *rc. */
static bool
on_line(struct watch *w, struct stream *s, const char *line, int *rc)
{
	struct target *t = target_of(w, s, line);

	if (!t && !strstr(line, s->key))
		return false;
	if (reacts()) {
		on_change(w, s, t, line);
		return false;
	}
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
		if (count_deleted(w) == w->targets_n)
			log_error("%s: deleted", t->path);
	}
	if (is_event(line, "expired"))
		return !open_again(w, s);
	return count_deleted(w) == w->targets_n;
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
	struct pollfd fds[MOUNTS_MAX + 1];
	int rc = CTL_FAILED, pause_ms;

	for (;;) {
		if (reaction.child == 0 && mono_reached(clock_now(), reaction.due))
			react(w);
		for (size_t i = 0; i < w->streams_n; i++)
			fds[i] = (struct pollfd){.fd = w->streams[i].fd, .events = POLLIN};
		fds[w->streams_n] = (struct pollfd){.fd = reaction.ended, .events = POLLIN};
		pause_ms = reacts() && count_deleted(w) > 0 ? LOOK_AGAIN_MS : -1;
		if (reaction.child == 0 && !mono_is_never(reaction.due))
			pause_ms = (int)span_to_ms(mono_since(reaction.due, clock_now())) + 1;
		if (poll(fds, w->streams_n + 1, pause_ms) < 0 && errno != EINTR)
			return CTL_FAILED;
		if (fds[w->streams_n].revents)
			end_run();
		for (size_t i = 0; i < w->streams_n; i++)
			if (fds[i].revents && on_readable(w, &w->streams[i], &rc))
				return rc;
		if (reacts())
			find_deleted(w);
	}
}

/* ---- the command ---- */

/* "HUP", or "SIGHUP" */
static bool
take_signal(void *to, const char *text)
{
	const char *name = strncmp(text, "SIG", 3) == 0 ? text + 3 : text;

	for (int number = 1; number < NSIG; number++)
		if (sigabbrev_np(number) != NULL && strcmp(sigabbrev_np(number), name) == 0)
			*(int *)to = number;
	return *(int *)to != 0;
}

static int
run(const struct ctl *ctl, int argc, char **argv)
{
	struct watch *w = &watched;
	int rc = CTL_FAILED;
	bool ok = true;

	(void)ctl;
	if (reaction.command != NULL && reaction.signal != 0)
		return ctl_usage("--run and --signal", "one of them");
	if ((reaction.signal != 0) != (reaction.pid_file != NULL))
		return ctl_usage("--signal and --pid", "both are needed");
	if (reacts() ? w->count > 0 : reaction.settle_s > 0)
		return ctl_usage(reacts() ? "--count" : "--settle",
		                 reacts() ? "only for printing" : "only with --run or --signal");
	reaction.due = reacts() ? clock_now() : MONO_NEVER;
	w->targets = memory_zero((size_t)argc, sizeof *w->targets);
	while (ok && w->targets_n < (size_t)argc) {
		w->targets[w->targets_n].path = argv[w->targets_n];
		ok = target_open(w, &w->targets[w->targets_n++]);
	}
	if (ok)
		rc = watch_events(w);
	end_run();
	free(w->targets);
	return rc;
}

static const struct ctl_option options[] = {
    {"count", 'n', "COUNT", &watched.count, ctl_take_count, .wrong = "not a number of events"},
    {"run", .value = "COMMAND", .to = &reaction.command},
    {"settle", 0, "SECONDS", &reaction.settle_s, ctl_take_span, .wrong = "not a span of time"},
    {"signal", 0, "NAME", &reaction.signal, take_signal, .wrong = "no such signal"},
    {"pid", .value = "FILE", .to = &reaction.pid_file},
    {0},
};

const struct ctl_command watch_command = {
    "watch",
    "prints the events of files and directories, and of the session, as lines of JSON; or, at the"
    " start and after changes, runs a command or signals a process",
    {{.words = {"PATH"}, .many = true, .run = run}},
    options,
};
