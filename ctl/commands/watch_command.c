/* watch: prints the events of mounted files and directories, or does something about their changes.
 * It opens them, so their mount watches them, and takes the lines of the mount's .cell/events that
 * are theirs, or the session's. Of a path that is not there it opens the nearest directory above,
 * and looks for the path after every line of the mount, and every second. */
#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "cell/base/limit.h"
#include "cell/base/memory.h"
#include "cell/base/mono.h"
#include "cell/base/printable.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"
#include "cell/sys/lsfs_ioctl.h"
#include "cell/view/output.h"
#include "ctl/ctl.h"
#include "ctl/mounted_path.h"

enum {
	LOOK_AGAIN_MS = 1000,
	LINE_ROOM = 16 * 1024,
	MOUNTS_MAX = 16,
	DIRECTORIES_MAX = 16,                           /* open at a time */
	KEY_MAX = 6 * LIMIT_PATH + LIMIT_CELL_NAME + 64 /* a byte may be \udcNN */
};

#define NOT_SINCE UINT64_MAX
#define AFTER_PATH "\", \"time\"" /* in a line */

/* A mount with a path that is watched. */
struct stream {
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
	int fd; /* of the nearest directory above it, while it is not there */
	bool there;
	bool missed;       /* seen not to be there, since it was */
	char key[KEY_MAX]; /* of lines about it */
};

struct watch {
	struct stream streams[MOUNTS_MAX];
	size_t streams_n;
	struct target *targets;
	size_t targets_n;
	uint64_t count; /* events to be printed; 0: without an end */
	bool trees;     /* with all that is below the paths */
	uint64_t since; /* the changes above this index of the log; NOT_SINCE: events */
};

/* The reaction to changes, instead of printing them. The command is run, or the signal sent, when
 * the paths have changed and then not for a while, and not before the last run has ended: so it
 * finds the last state only. */
struct reaction {
	const char *command;
	int signal; /* 0: none */
	const char *pid_file;
	double settle_s;
	mono_t due;    /* MONO_NEVER: nothing has changed since the last run began */
	uint64_t seen; /* the state of the paths when the last run began */
	pid_t child;   /* 0: none */
	int ended;     /* its pidfd */
	bool told;     /* that none can be started */
};

static struct watch watched = {.since = NOT_SINCE};
static struct reaction reaction = {.ended = -1};
static uint64_t state_sum; /* see state_of_paths */

static bool
reacts(void)
{
	return reaction.command != NULL || reaction.signal != 0;
}

/* ---- opening ---- */

static void
failed(const char *path, int error)
{
	log_error("%s: %s", path, strerror(error));
}

/* The part of a line that says what it is about. */
static void
make_key(char key[KEY_MAX], const char *cell, const char *path)
{
	struct buffer quoted = BUFFER(KEY_MAX);

	printable_json(&quoted, bytes_of(path));
	buffer_put_u8(&quoted, '\0');
	snprintf(key, KEY_MAX, "\"path\": \"/ls/%s%s" AFTER_PATH, cell, (const char *)quoted.data);
	buffer_free(&quoted);
}

/* The stream of the mount that contains `canonical`; NULL after an error message. */
static struct stream *
stream_of(struct watch *w, const char *path, const char *canonical, struct mountinfo *info)
{
	struct stream *s = w->streams;
	int error;

	if (!mounted_path_mount(path, canonical, info))
		return NULL;
	for (; s < w->streams + w->streams_n; s++)
		if (strcmp(s->mountpoint, info->path) == 0)
			return s;
	if (w->streams_n == MOUNTS_MAX) {
		log_error("%s: in more than %d mounts", path, MOUNTS_MAX);
		return NULL;
	}
	snprintf(s->mountpoint, sizeof s->mountpoint, "%s", info->path);
	if ((error = mounted_path_cell(info, s->cell)) != 0)
		log_error("%s/.cell:status: %s", s->mountpoint, strerror(error));
	if (error != 0 || (s->fd = mounted_path_events(info)) < 0)
		return NULL;
	make_key(s->key, s->cell, "");
	w->streams_n++;
	return s;
}

/* Opens what there is of the path, instead of what is open for it. 0, an errno, or -1 after an
 * error message. The name of a file that is being deleted here may lead to it for a moment longer
 * than it is there. */
static int
target_open(struct watch *w, struct target *t)
{
	static struct mountinfo info;
	char canonical[PATH_MAX], path[2 * PATH_MAX];
	struct stat st;
	bool there;
	const int fd = mounted_path_open(t->path, false, canonical, &there);
	const int error = fd < 0 ? errno : 0;

	if (t->fd >= 0)
		close(t->fd);
	t->fd = fd;
	t->there = fd >= 0 && there && fstat(fd, &st) == 0 && st.st_nlink > 0;
	if (error != 0)
		return error;
	t->missed |= !t->there;
	t->stream = stream_of(w, t->path, canonical, &info);
	if (t->stream == NULL)
		return -1;
	mounted_path_inside(&info, canonical, path);
	make_key(t->key, t->stream->cell, path);
	return t->there && w->trees && lsfs_watch_tree(fd) < 0 ? errno : 0;
}

/* ---- reacting ---- */

static int
add_state(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)path;
	if (kind != FTW_NS)
		state_sum +=
		    ((uint64_t)st->st_ino * 31 + (uint64_t)st->st_mtim.tv_sec * 1000000007 +
		     (uint64_t)st->st_mtim.tv_nsec) *
		    0x9e3779b97f4a7c15u;
	return at->level > 0 && !watched.trees ? FTW_SKIP_SUBTREE : FTW_CONTINUE;
}

/* A sum over the paths and what is in their directories or trees: it is another one when a file was
 * replaced or has other contents. */
static uint64_t
state_of_paths(const struct watch *w)
{
	state_sum = 0;
	for (size_t i = 0; i < w->targets_n; i++)
		nftw(w->targets[i].path, add_state, DIRECTORIES_MAX, FTW_MOUNT | FTW_ACTIONRETVAL);
	return state_sum;
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

/* Waits for the run, if there is one. A failure is logged; the next change runs the command again.
 */
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
	if (reaction.child < 0) {
		if (!reaction.told)
			log_error("%s: cannot run it: %s; tries again", reaction.command,
			          strerror(errno));
		reaction.told = true;
		reaction.child = 0;
		reaction.due = mono_add(clock_now(), span_ms(LOOK_AGAIN_MS));
		return;
	}
	reaction.told = false;
	reaction.ended = pidfd_open(reaction.child, 0);
	if (reaction.ended < 0) /* nothing will tell of its end, and no second one may run */
		end_run();
}

static void
note_change(void)
{
	reaction.due = mono_add(clock_now(), (span_t){(int64_t)(reaction.settle_s * 1e9)});
}

/* ---- events ---- */

static bool
is_event(const char *line, const char *name)
{
	const char *at = line + strlen("{\"event\": \"");

	return strncmp(at, name, strlen(name)) == 0 && at[strlen(name)] == '"';
}

/* The name or path of the child that the line is about; NULL: it is of the path itself. */
static const char *
child_of(const char *line)
{
	return strstr(line, "\", \"child\": \"");
}

/* The path that the line is about; NULL: none, or a path below one that is watched without its
 * tree: another process on the mount watches that. */
static struct target *
target_of(struct watch *w, const struct stream *s, const char *line)
{
	const char *child = child_of(line);

	if (child != NULL && !w->trees &&
	    (strchr(child, '/') != NULL || is_event(line, "lock_acquired")))
		return NULL;
	for (size_t i = 0; i < w->targets_n; i++)
		if (w->targets[i].there && w->targets[i].stream == s &&
		    strstr(line, w->targets[i].key))
			return &w->targets[i];
	return NULL;
}

/* True when the command is done, with its exit code in *rc: the line was the last of those that are
 * to be printed, or could not be written. */
static bool
print(struct watch *w, const char *line, int *rc)
{
	*rc = puts(line) == EOF || fflush(stdout) == EOF ? CTL_FAILED : CTL_OK;
	return *rc == CTL_FAILED || (w->count > 0 && --w->count == 0);
}

/* Opens the paths that are not open and exist now. One that was missing is an event; one that could
 * not be opened, as in an outage, makes a run if the paths differ. True when the command is done,
 * with its exit code in *rc. */
static bool
find_missing(struct watch *w, int *rc)
{
	char line[KEY_MAX + UTC_TEXT + 64], now[UTC_TEXT];

	for (size_t i = 0; i < w->targets_n; i++) {
		struct target *t = &w->targets[i];

		if (t->there || target_open(w, t) != 0 || !t->there)
			continue;
		if (reacts() && (t->missed || state_of_paths(w) != reaction.seen))
			note_change();
		utc_text(time(NULL), now);
		snprintf(line, sizeof line, "{\"event\": \"created\", %s: \"%s\"}", t->key, now);
		if (!reacts() && t->missed && print(w, line, rc))
			return true;
		t->missed = false;
	}
	return false;
}

/* True when the command is done, with its exit code in *rc. With the session all handles are dead.
 * Events that may have been missed make a run if the paths differ. */
static bool
on_line(struct watch *w, struct stream *s, const char *line, int *rc)
{
	static const char *const changes[] = {"contents_modified", "child_added", "child_removed",
	                                      "child_modified",    "gap",         "handle_invalid"};
	struct target *t = target_of(w, s, line);
	const bool expired = is_event(line, "expired");
	int error;

	if (!t && (!strstr(line, s->key) || child_of(line)))
		return false;
	if (t && is_event(line, "handle_invalid")) {
		t->there = false;
		t->missed = true;
	}
	for (size_t i = 0; expired && i < w->targets_n; i++)
		if (w->targets[i].stream == s && (error = target_open(w, &w->targets[i])) > 0)
			failed(w->targets[i].path, error);
	if (!reacts())
		return print(w, line, rc);
	if (expired && state_of_paths(w) != reaction.seen)
		note_change();
	for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
		if (is_event(line, changes[i]))
			note_change();
	return false;
}

/* Reads what the stream has, and handles each whole line. True when the command is done, with its
 * exit code in *rc. */
static bool
on_readable(struct watch *w, struct stream *s, int *rc)
{
	const ssize_t n = read(s->fd, s->text + s->len, sizeof s->text - s->len);
	char *line = s->text, *end;

	*rc = CTL_FAILED;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		failed(s->mountpoint, n < 0 ? errno : ENOTCONN);
		return true;
	}
	s->len += (size_t)n;

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
		pause_ms = -1;
		if (reaction.child == 0 && !mono_is_never(reaction.due))
			pause_ms = (int)span_to_ms(mono_since(reaction.due, clock_now())) + 1;
		for (size_t i = 0; i < w->targets_n; i++)
			if (!w->targets[i].there && (pause_ms < 0 || pause_ms > LOOK_AGAIN_MS))
				pause_ms = LOOK_AGAIN_MS;
		if (poll(fds, w->streams_n + 1, pause_ms) < 0 && errno != EINTR)
			return CTL_FAILED;
		if (fds[w->streams_n].revents)
			end_run();
		for (size_t i = 0; i < w->streams_n; i++)
			if (fds[i].revents && on_readable(w, &w->streams[i], &rc))
				return rc;
		if (find_missing(w, &rc))
			return rc;
	}
}

/* ---- changes ---- */

/* True if the line is about one of the paths, or about what is in a directory or tree. */
static bool
is_about(const struct watch *w, const char *line)
{
	const char *path = strstr(line, "\"path\": \"");

	for (size_t i = 0; path != NULL && i < w->targets_n; i++) {
		const size_t n = strlen(w->targets[i].key) - strlen(AFTER_PATH);

		if (strncmp(path, w->targets[i].key, n) != 0)
			continue;
		if (path[n] == '"' ||
		    (path[n] == '/' && (w->trees || strchr(path + n + 1, '/') == NULL)))
			return true;
	}
	return is_event(line, "compacted");
}

/* Reads the changes above an index. A read fails when the cell was away for the grace period or the
 * session has ended: then the file is opened again at the last index, and as many lines of that
 * index are skipped as were read before. */
static int
watch_changes(struct watch *w)
{
	uint64_t index = w->since, known = 0, from, skip, at;
	char *line = NULL, *number;
	size_t room = 0, lines;
	int rc = CTL_FAILED, fd, error;
	bool done = false, compacted;
	ssize_t n;
	FILE *f;

	do {
		fd = mounted_path_changes(w->streams[0].mountpoint, index - (known > 0));
		f = fd < 0 ? NULL : fdopen(fd, "r");
		from = index;
		skip = known;
		for (lines = 0; f != NULL && !done && (n = getline(&line, &room, f)) > 0; lines++) {
			if (line[n - 1] != '\n')
				break; /* a part, before the read failed */
			line[n - 1] = '\0';
			number = strstr(line, "\"index\": ");
			at = number == NULL ? index : strtoull(number + 9, NULL, 10);
			compacted = is_event(line, "compacted");
			if (skip > 0 && at == from && !compacted) {
				skip--;
				continue;
			}
			known = compacted ? 0 : at == index ? known + 1 : 1;
			index = at;
			done = is_about(w, line) && print(w, line, &rc);
		}
		error = f != NULL && ferror(f) ? errno : ENOTCONN;
		if (f != NULL)
			fclose(f);
		if (f != NULL && !done && lines == 0)
			poll(NULL, 0, LOOK_AGAIN_MS);
	} while (f != NULL && !done && (error == EIO || error == ESTALE));
	if (f != NULL && !done)
		failed(w->streams[0].mountpoint, error);
	free(line);
	return rc;
}

/* ---- the command ---- */

static bool
take_index(void *to, const char *text)
{
	if (strcmp(text, "0") != 0)
		return ctl_take_count(to, text);
	*(uint64_t *)to = 0;
	return true;
}

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
run(const struct ctl *ctl, char **argv)
{
	struct watch *w = &watched;
	int rc = CTL_FAILED, error = 0;
	size_t n = 0;

	(void)ctl;
	if (reaction.command != NULL && reaction.signal != 0)
		return ctl_usage("--run and --signal", "one of them");
	if ((reaction.signal != 0) != (reaction.pid_file != NULL))
		return ctl_usage("--signal and --pid", "both are needed");
	if (reacts() ? w->count > 0 : reaction.settle_s > 0)
		return ctl_usage(reacts() ? "--count" : "--settle",
		                 reacts() ? "only for printing" : "only with --run or --signal");
	if (w->since != NOT_SINCE && reacts())
		return ctl_usage("--since", "only for printing");
	reaction.due = reacts() ? clock_now() : MONO_NEVER;
	while (argv[n] != NULL)
		n++;
	w->targets = memory_zero(n, sizeof *w->targets);
	while (error == 0 && w->targets_n < n) {
		w->targets[w->targets_n] = (struct target){.path = argv[w->targets_n], .fd = -1};
		error = target_open(w, &w->targets[w->targets_n++]);
	}
	if (error > 0)
		failed(argv[w->targets_n - 1], error);
	if (error == 0 && w->since != NOT_SINCE && w->streams_n > 1)
		log_error("--since: the paths are of more than one mount");
	else if (error == 0)
		rc = w->since != NOT_SINCE ? watch_changes(w) : watch_events(w);
	end_run();
	free(w->targets);
	return rc;
}

static const struct ctl_option options[] = {
    {"count", 'n', "COUNT", &watched.count, ctl_take_count, .wrong = "not a number of events"},
    {"recursive", 'r', .to = &watched.trees},
    {"since", 0, "INDEX", &watched.since, take_index, .wrong = "not an index of the log"},
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
