/* mirror: keeps a directory of one cell in another. One process of all machines does it, under the
 * lock of .mirror in the destination: `mirror' runs itself as `elect' runs a command, which is
 * frozen and ended before another one can get the lock. It compares all of it at the start, and
 * follows the events of the source's directories, which it holds open for that. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cell/base/mono.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"
#include "cell/sys/mountinfo.h"
#include "ctl/ctl.h"
#include "ctl/mounted_path.h"
#include "ctl/supervisor.h"
#include "ctl/tree_copy.h"

enum {
	AGAIN_MS = 1000,
	REFUSED_S = 5,   /* until what was refused is tried again */
	COMPARE_S = 600, /* until all is compared again */
	CROWDED_S = 30,  /* the same, when there are more directories than a mount watches */
	WATCHED = 1000,
	LINES_ROOM = 64 * 1024
};

/* One of the two directories. */
struct side {
	const char *path;
	char mountpoint[PATH_MAX];
	char cell[LIMIT_CELL_NAME + 1];
	bool whole;                /* the cell is mounted there, not a part of it */
	char inside[2 * PATH_MAX]; /* its path in the cell; empty: the cell's root */
	int fd;
};

struct mirror {
	struct side from, to;
	struct tree_copy copy;
	json_t *watched; /* {path of a source directory: its descriptor} */
	int events;      /* of the source's mount */
	char lines[LINES_ROOM];
	size_t len;
	json_t *changed; /* a set of paths */
	bool everything; /* has to be compared */
	bool ended;      /* the source's session, or directory: all is opened again */
	mono_t compare;  /* all of it again */
	bool told;       /* that it is not level */
	bool level;      /* it was, since the start */
};

static bool under_lock;
static struct mirror mirror;

/* ---- the two directories ---- */

/* False with one line in `why`. */
static bool
side_open(struct side *s, char why[256])
{
	static struct mountinfo info;
	char canonical[PATH_MAX], cell[LIMIT_CELL_NAME + 1];

	s->fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->fd < 0 || realpath(s->path, canonical) == NULL) {
		snprintf(why, 256, "%s", strerror(errno));
		return false;
	}
	if (!mountinfo_above(canonical, &info) || !mountinfo_is_cell(&info)) {
		snprintf(why, 256, "not in a mounted cell");
		return false;
	}
	snprintf(s->mountpoint, sizeof s->mountpoint, "%s", info.path);
	s->whole = info.whole;
	mounted_path_inside(&info, canonical, s->inside);
	mounted_path_cell(&info, cell);
	if (cell[0] == '\0' || (s->cell[0] != '\0' && strcmp(cell, s->cell) != 0)) {
		snprintf(why, 256, "%s",
		         cell[0] == '\0' ? "its mount does not tell its cell"
		                         : "another cell is mounted there now");
		return false;
	}
	snprintf(s->cell, sizeof s->cell, "%s", cell);
	return true;
}

static void
side_close(struct side *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

static bool
lies_in(const struct side *a, const struct side *b)
{
	const size_t n = strlen(b->inside);

	return strcmp(a->cell, b->cell) == 0 && strncmp(a->inside, b->inside, n) == 0 &&
	       (a->inside[n] == '/' || a->inside[n] == '\0');
}

/* ---- watching ---- */

static void
unwatch(json_t *watched, const char *path)
{
	const json_t *fd = json_object_get(watched, path);

	if (fd != NULL)
		close((int)json_integer_value(fd));
	json_object_del(watched, path);
}

static void
on_entered(void *user, const char *path, int fd)
{
	struct mirror *m = user;

	unwatch(m->watched, path);
	json_object_set_new_nocheck(m->watched, path, json_integer(fd));
}

/* The path of an event, as of the copy; NULL: it is not below the source. */
static const char *
relative(const struct mirror *m, const char *path)
{
	char root[2 * PATH_MAX + 160];
	const int n = snprintf(root, sizeof root, "/ls/%s%s", m->from.cell, m->from.inside);

	if (strncmp(path, root, (size_t)n) != 0)
		return NULL;
	return path[n] == '\0' ? "." : path[n] == '/' ? path + n + 1 : NULL;
}

/* A line of another kind, and one with a name that is not UTF-8, makes all be compared. */
static void
on_line(struct mirror *m, const char *line)
{
	json_t *event = json_loads(line, 0, NULL);
	const char *kind = json_string_value(json_object_get(event, "event"));
	const char *path = json_string_value(json_object_get(event, "path"));
	const char *child = json_string_value(json_object_get(event, "child"));
	char changed[2 * PATH_MAX];

	if (kind == NULL || path == NULL || strcmp(kind, "gap") == 0) {
		m->everything = true;
	} else if (strcmp(kind, "expired") == 0) {
		m->ended = true;
	} else if ((path = relative(m, path)) != NULL) {
		if (strncmp(kind, "child_", strlen("child_")) == 0 && child != NULL) {
			snprintf(changed, sizeof changed, "%s%s%s",
			         path[0] == '.' && !path[1] ? "" : path,
			         path[0] == '.' && !path[1] ? "" : "/", child);
			json_object_set_new_nocheck(m->changed, changed, json_true());
		}
		if (strcmp(kind, "handle_invalid") == 0)
			unwatch(m->watched, path);
		m->ended |= strcmp(kind, "handle_invalid") == 0 && strcmp(path, ".") == 0;
	}
	json_decref(event);
}

/* False: the mount has gone. */
static bool
take_lines(struct mirror *m)
{
	ssize_t n;
	char *line, *end;

	while ((n = read(m->events, m->lines + m->len, sizeof m->lines - 1 - m->len)) > 0) {
		m->len += (size_t)n;
		m->lines[m->len] = '\0';
		for (line = m->lines; (end = strchr(line, '\n')) != NULL; line = end + 1) {
			*end = '\0';
			on_line(m, line);
		}
		m->len -= (size_t)(line - m->lines);
		memmove(m->lines, line, m->len);
	}
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* ---- the copy ---- */

static void
close_all(struct mirror *m)
{
	const char *path;
	json_t *fd;
	void *next;

	json_object_foreach_safe(m->watched, next, path, fd) unwatch(m->watched, path);
	side_close(&m->from);
	side_close(&m->to);
	if (m->events >= 0)
		close(m->events);
	m->events = -1;
}

/* The stream of events is open before the first directory: so none of its events is missing. False
 * with one line in `why`. */
static bool
open_all(struct mirror *m, char why[512])
{
	struct side *const sides[] = {&m->from, &m->to};
	char path[PATH_MAX + 16], reason[256];

	close_all(m);
	m->len = 0;
	m->ended = false;
	json_object_clear(m->changed);
	for (int i = 0; i < 2; i++) {
		if (side_open(sides[i], reason))
			continue;
		snprintf(why, 512, "%.200s: %s", sides[i]->path, reason);
		return false;
	}
	snprintf(path, sizeof path, "%s/.cell:events", m->from.mountpoint);
	m->events = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (m->events < 0) {
		snprintf(why, 512, "%.200s: %s", path, strerror(errno));
		return false;
	}
	m->copy.from = m->from.fd;
	m->copy.to = m->to.fd;
	m->copy.from_name = m->from.path;
	m->copy.to_name = m->to.path;
	m->copy.to_inside = m->to.inside;
	m->copy.roots[0] = m->from.inside[0] == '\0';
	m->copy.roots[1] = m->to.inside[0] == '\0';
	m->copy.acl[0] = '\0';
	if (m->to.whole)
		snprintf(m->copy.acl, sizeof m->copy.acl, "%.*s/acl", PATH_MAX - 8,
		         m->to.mountpoint);
	m->copy.entered = on_entered;
	m->copy.user = m;
	m->everything = true;
	return true;
}

static void
compare_all(struct mirror *m)
{
	const bool crowded = json_object_size(m->watched) > WATCHED;

	m->everything = false;
	json_object_clear(m->changed);
	tree_copy_directory(&m->copy, ".");
	m->compare = mono_add(clock_now(), span_s(crowded ? CROWDED_S : COMPARE_S));
	if (m->copy.broken != 0)
		return;
	if (!m->level || m->told)
		log_info("%s: level with %s (%u copied, %u deleted, %u refused)", m->to.path,
		         m->from.path, m->copy.copied, m->copy.deleted, m->copy.refused);
	m->level = true;
	m->told = false;
}

/* Until something is broken, for which there is one line in `why`. */
static void
follow(struct mirror *m, char why[512])
{
	struct pollfd fd = {.events = POLLIN};
	const char *path;
	json_t *value;
	void *next;
	int64_t ms;

	tree_copy_clean(&m->copy);
	m->copy.broken = 0;
	m->copy.copied = m->copy.deleted = 0;
	m->copy.quiet = false;
	for (;;) {
		m->copy.refused = 0;
		if (m->everything || mono_reached(clock_now(), m->compare))
			compare_all(m);
		json_object_foreach_safe(m->changed, next, path, value)
		{
			if (!tree_copy_node(&m->copy, path))
				break;
			json_object_del(m->changed, path);
		}
		if (m->copy.broken != 0) {
			snprintf(why, 512, "%.200s or %.200s: %s", m->from.path, m->to.path,
			         strerror(m->copy.broken));
			return;
		}
		m->copy.quiet = m->copy.refused > 0;
		if (m->copy.refused > 0)
			m->compare = mono_add(clock_now(), span_s(REFUSED_S));
		ms = span_to_ms(mono_since(m->compare, clock_now()));
		fd.fd = m->events;
		if (json_object_size(m->changed) == 0 && !m->everything)
			poll(&fd, 1, ms > 0 ? (int)ms + 1 : 0);
		if (!take_lines(m)) {
			snprintf(why, 512, "%.200s: its mount has gone", m->from.path);
			return;
		}
		if (m->ended) {
			snprintf(why, 512, "%.200s: its session or the directory has ended",
			         m->from.path);
			return;
		}
	}
}

/* Runs under the lock and does not return. */
static void __attribute__((noreturn)) run_under_lock(struct mirror *m)
{
	char why[512];
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	for (;;) {
		if (open_all(m, why))
			follow(m, why);
		if (!m->told)
			log_warn("%s; tries again", why);
		m->told = true;
		poll(NULL, 0, AGAIN_MS);
	}
}

/* ---- the election ---- */

static volatile sig_atomic_t ends;
static volatile pid_t elected;

static void
on_end(int number)
{
	ends = number;
	if (elected > 0)
		kill(elected, number);
}

/* Runs this command under the lock; again whenever it is lost. Signals that are ignored stay so. */
static int
run_elected(const char *from, const char *to)
{
	static char program[] = "/proc/self/exe", name[] = "mirror", option[] = "--under-lock";
	char lock[PATH_MAX + 16];
	char *command[] = {program, name, option, (char *)from, (char *)to, NULL};
	struct lock_options options = {.path = lock,
	                               .command = command,
	                               .wait_s = -1,
	                               .busy_code = CTL_FAILED,
	                               .freeze = true,
	                               .elects = true};
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
	const struct sigaction action = {.sa_handler = on_end};
	struct sigaction before[3];
	const pid_t self = getpid();
	sigset_t ending, mask;
	int status;

	snprintf(lock, sizeof lock, "%s/.mirror", to);
	sigemptyset(&ending);
	for (int i = 0; i < 3; i++) {
		sigaddset(&ending, signals[i]);
		sigaction(signals[i], NULL, &before[i]);
		if (before[i].sa_handler != SIG_IGN)
			sigaction(signals[i], &action, NULL);
	}
	while (ends == 0) {
		/* A signal must not meet our handler in the child. */
		sigprocmask(SIG_BLOCK, &ending, &mask);
		elected = fork();
		if (elected == 0) {
			for (int i = 0; i < 3; i++)
				sigaction(signals[i], &before[i], NULL);
			prctl(PR_SET_PDEATHSIG, SIGTERM);
			sigprocmask(SIG_SETMASK, &mask, NULL);
			exit(getppid() == self ? supervisor_run(&options) : CTL_FAILED);
		}
		sigprocmask(SIG_SETMASK, &mask, NULL);
		if (elected < 0)
			return CTL_FAIL("cannot start a process: %s", strerror(errno));
		if (ends != 0)
			kill(elected, SIGTERM);
		while (waitpid(elected, &status, 0) < 0 && errno == EINTR)
			;
		elected = 0;
		if (ends == 0)
			poll(NULL, 0, AGAIN_MS);
	}
	return CTL_OK;
}

static int
run(const struct ctl *ctl, char **argv)
{
	static char from[PATH_MAX], to[PATH_MAX];
	struct mirror *m = &mirror;
	char why[512];
	bool ok;

	(void)ctl;
	m->from = (struct side){.path = argv[0], .fd = -1};
	m->to = (struct side){.path = argv[1], .fd = -1};
	m->events = -1;
	m->watched = json_object();
	m->changed = json_object();
	if (under_lock)
		run_under_lock(m);
	ok = open_all(m, why);
	if (ok && (lies_in(&m->from, &m->to) || lies_in(&m->to, &m->from))) {
		snprintf(why, sizeof why, "%.200s and %.200s: one lies in the other", argv[0],
		         argv[1]);
		ok = false;
	}
	close_all(m);
	json_decref(m->watched);
	json_decref(m->changed);
	if (ok && (realpath(argv[0], from) == NULL || realpath(argv[1], to) == NULL)) {
		snprintf(why, sizeof why, "%.200s: %s", argv[0], strerror(errno));
		ok = false;
	}
	if (ok)
		return run_elected(from, to);
	return CTL_FAIL("%s", why);
}

static const struct ctl_option options[] = {
    {"under-lock", .to = &under_lock},
    {0},
};

const struct ctl_command mirror_command = {
    "mirror",
    "keeps the directory SOURCE of one mounted cell in DESTINATION of another, until it is ended;"
    " one of all that try, under the lock of DESTINATION/.mirror",
    {{.words = {"SOURCE", "DESTINATION"}, .run = run}},
    options,
};
