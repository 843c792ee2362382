#include "ctl/command_group.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cell/base/memory.h"
#include "cell/sys/log.h"
#include "cell/sys/mountinfo.h"
#include "cell/sys/process.h"

enum {
	STOP_EVERY_MS = 10, /* pause between two looks for processes that are not stopped yet */
	STOP_ROUNDS = 50,
};

/* ---- descendants ---- */

struct process {
	pid_t pid;
	struct proc_status status;
	bool ours;
};

struct table {
	struct process *list;
	size_t n, room;
};

static void
table_read(struct table *t)
{
	DIR *d = opendir("/proc");
	struct dirent *entry;

	while (d && (entry = readdir(d))) {
		struct process p = {.pid = (pid_t)atoi(entry->d_name)};

		if (!proc_file_status(p.pid, &p.status))
			continue;
		ARRAY_ROOM(t->list, t->n, t->room);
		t->list[t->n++] = p;
	}
	if (d)
		closedir(d);
}

static int
compare(const void *a, const void *b)
{
	pid_t x = ((const struct process *)a)->pid, y = ((const struct process *)b)->pid;

	return (x > y) - (x < y);
}

static bool
is_ours(const struct table *t, pid_t pid)
{
	const struct process key = {.pid = pid}, *found;

	if (pid == getpid())
		return true;
	found = t->n ? bsearch(&key, t->list, t->n, sizeof key, compare) : NULL;
	return found && found->ours;
}

/* Marks all descendants. A child may precede its parent in the table, so the pass is repeated until
 * it finds no further one. */
static void
mark_ours(struct table *t)
{
	if (t->n)
		qsort(t->list, t->n, sizeof *t->list, compare);
	for (bool more = true; more;) {
		more = false;
		for (size_t i = 0; i < t->n; i++) {
			struct process *p = &t->list[i];

			if (!p->ours && is_ours(t, p->status.parent))
				more = p->ours = true;
		}
	}
}

struct descendant *
descendants_list(pid_t spared, size_t *n)
{
	struct descendant *list = NULL;
	struct table t = {0};
	size_t room = 0;

	*n = 0;
	table_read(&t);
	mark_ours(&t);
	for (size_t i = 0; i < t.n; i++) {
		const struct process *p = &t.list[i];

		if (!p->ours || p->status.ended || p->pid == spared)
			continue;
		ARRAY_ROOM(list, *n, room);
		list[(*n)++] = (struct descendant){.pid = p->pid, .stopped = p->status.stopped};
	}
	free(t.list);
	return list;
}

int
descendants_signal(int number, pid_t spared, int *foreign)
{
	size_t n;
	struct descendant *list = descendants_list(spared, &n);

	*foreign = 0;
	for (size_t i = 0; i < n; i++)
		*foreign += kill(list[i].pid, number) < 0 && errno == EPERM;
	free(list);
	return (int)n;
}

/* ---- the cgroup ---- */

/* Writes into a file of the cgroup; false, with errno, when it was refused. */
static bool
cgroup_write(const char *cgroup, const char *file, const char *text)
{
	char path[PATH_MAX + 64];
	bool written;
	int fd;

	snprintf(path, sizeof path, "%s/%s", cgroup, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	written = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return written;
}

/* Kills the processes one by one first: a mount sees such a signal, and does not commit what the
 * process had half written; it does not see cgroup.kill, which then ends those that have just
 * started. */
static void
cgroup_kill(const char *cgroup)
{
	char path[PATH_MAX + 64], line[64];
	FILE *f;
	long pid;

	snprintf(path, sizeof path, "%s/cgroup.procs", cgroup);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f))
		if ((pid = atol(line)) > 0) /* 0: not of our pid namespace */
			kill((pid_t)pid, SIGKILL);
	if (f)
		fclose(f);
	cgroup_write(cgroup, "cgroup.kill", "1");
}

/* The path of a process's cgroup below the mount of all cgroups: "" is the root. */
static bool
cgroup_of(pid_t pid, char path[PATH_MAX])
{
	char name[64], line[PATH_MAX];
	bool found = false;
	FILE *f;

	snprintf(name, sizeof name, "/proc/%ld/cgroup", (long)pid);
	f = fopen(name, "re");
	while (f && !found && fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = '\0';
		found = strncmp(line, "0::/", 4) == 0;
	}
	if (f)
		fclose(f);
	if (found)
		snprintf(path, PATH_MAX, "%s", strcmp(line, "0::/") == 0 ? "" : line + 3);
	return found;
}

/* Removes the empty cgroups that processes have left which were killed. */
static void
remove_abandoned(const char *cgroup)
{
	char path[PATH_MAX + 300], parent[PATH_MAX];
	struct dirent *entry;
	long pid;
	DIR *d;

	snprintf(parent, sizeof parent, "%s", cgroup);
	*strrchr(parent, '/') = '\0';
	d = opendir(parent);
	while (d && (entry = readdir(d))) {
		snprintf(path, sizeof path, "%s/%s", parent, entry->d_name);
		if (sscanf(entry->d_name, "lsctl.%ld", &pid) == 1 &&
		    (pid == getpid() || (kill((pid_t)pid, 0) < 0 && errno == ESRCH)))
			rmdir(path);
	}
	if (d)
		closedir(d);
}

/* The number alone may be that of another lsctl, in another pid namespace. */
void
command_group_name(struct command_group *g)
{
	static struct mountinfo info;
	uint64_t unique = 0;
	char path[PATH_MAX];

	*g = (struct command_group){.to_guard = -1};
	if (!mountinfo_of_type("cgroup2", &info) || !cgroup_of(getpid(), path) ||
	    strncmp(path, "/..", 3) == 0 || getrandom(&unique, sizeof unique, 0) != sizeof unique ||
	    snprintf(g->cgroup, sizeof g->cgroup, "%s%s/lsctl.%ld.%" PRIx64, info.path, path,
	             (long)getpid(), unique) >= PATH_MAX)
		g->cgroup[0] = '\0';
}

void
command_group_make(struct command_group *g)
{
	if (!g->cgroup[0])
		return;
	remove_abandoned(g->cgroup);
	if (mkdir(g->cgroup, 0755) < 0)
		g->cgroup[0] = '\0';
	else if (!cgroup_write(g->cgroup, "cgroup.freeze", "0"))
		command_group_remove(g);
}

void
command_group_enter(const struct command_group *g)
{
	if (g->cgroup[0])
		cgroup_write(g->cgroup, "cgroup.procs", "0");
}

void
command_group_started(struct command_group *g, pid_t command)
{
	char path[PATH_MAX], own[PATH_MAX];

	if (g->cgroup[0] && cgroup_of(command, path) && cgroup_of(getpid(), own) &&
	    strcmp(path, own) == 0)
		command_group_remove(g);
}

/* Moves the processes of the cgroup to its parent. One that they start meanwhile may be missed: a
 * later round finds it. */
static void
leave_cgroup(const char *cgroup)
{
	char path[PATH_MAX + 64], parent[PATH_MAX], line[64];
	FILE *f;

	snprintf(path, sizeof path, "%s/cgroup.procs", cgroup);
	snprintf(parent, sizeof parent, "%s", cgroup);
	*strrchr(parent, '/') = '\0';
	f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f))
		cgroup_write(parent, "cgroup.procs", line);
	if (f)
		fclose(f);
}

/* ---- the guard of a frozen group ---- */

enum { THAWED = 0 }; /* instead of a process that is about to be stopped */

/* Runs in a child: remembers the stopped processes until the parent reports that the group is
 * thawed. If the parent ends before that, the group is killed. */
static void __attribute__((noreturn)) guard_run(const char *cgroup, int told)
{
	pid_t *stopped = NULL, pid;
	size_t n = 0, room = 0;
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	while (read(told, &pid, sizeof pid) == sizeof pid) {
		if (pid == THAWED)
			_exit(0);
		ARRAY_ROOM(stopped, n, room);
		stopped[n++] = pid;
	}
	for (size_t i = 0; i < n; i++)
		kill(stopped[i], SIGKILL);
	if (cgroup[0])
		cgroup_kill(cgroup);
	_exit(0);
}

static void
guard_start(struct command_group *g)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0) {
		log_warn("no guard for the frozen command: %s", strerror(errno));
		return;
	}
	fflush(NULL);
	g->guard = fork();
	if (g->guard == 0) {
		close(ends[1]);
		guard_run(g->cgroup, ends[0]);
	}
	close(ends[0]);
	g->to_guard = ends[1];
}

static void
guard_tell(const struct command_group *g, pid_t pid)
{
	if (g->to_guard >= 0 && write(g->to_guard, &pid, sizeof pid) != sizeof pid)
		log_warn("the guard of the frozen command has ended");
}

static void
guard_leave(struct command_group *g)
{
	if (g->to_guard >= 0)
		close(g->to_guard);
	g->to_guard = -1;
}

/* ---- freezing without a cgroup ---- */

/* False for a process that has left the cgroup, as a session of pam_systemd(8) or a scope does. */
static bool
is_inside(const struct command_group *g, pid_t pid)
{
	const char *name = strrchr(g->cgroup, '/'), *at;
	char path[PATH_MAX];

	at = cgroup_of(pid, path) ? strstr(path, name) : NULL;
	return at != NULL && (at[strlen(name)] == '/' || at[strlen(name)] == '\0');
}

static bool
is_stopped_by_us(const struct command_group *g, pid_t pid)
{
	for (size_t i = 0; i < g->stopped_n; i++)
		if (g->stopped[i] == pid)
			return true;
	return false;
}

/* Sends SIGSTOP to the processes that did not have it yet; `whole`: the cgroup is frozen. Returns
 * whether there are any that still run. A process that another one has stopped is left alone. */
static bool
stop_round(struct command_group *g, pid_t spared, bool whole)
{
	bool runs = false;
	size_t n;
	struct descendant *list = descendants_list(spared, &n);

	g->foreign = 0;
	for (size_t i = 0; i < n; i++) {
		if (list[i].stopped || list[i].pid == g->guard ||
		    (whole && is_inside(g, list[i].pid)))
			continue;
		if (is_stopped_by_us(g, list[i].pid)) {
			runs = true;
			continue;
		}
		guard_tell(g, list[i].pid);
		if (kill(list[i].pid, SIGSTOP) < 0 && errno == EPERM) {
			g->foreign++;
			continue;
		}
		runs = true;
		ARRAY_ROOM(g->stopped, g->stopped_n, g->stopped_room);
		g->stopped[g->stopped_n++] = list[i].pid;
	}
	free(list);
	return runs;
}

/* ---- the group ---- */

void
command_group_freeze(struct command_group *g, pid_t spared)
{
	bool whole;

	guard_start(g);
	whole = g->cgroup[0] && cgroup_write(g->cgroup, "cgroup.freeze", "1");
	for (int round = 0; round < STOP_ROUNDS && stop_round(g, spared, whole); round++)
		poll(NULL, 0, STOP_EVERY_MS);
	g->frozen = true;
}

void
command_group_thaw(struct command_group *g)
{
	if (!g->frozen)
		return;
	if (g->cgroup[0])
		cgroup_write(g->cgroup, "cgroup.freeze", "0");
	for (size_t i = 0; i < g->stopped_n; i++)
		kill(g->stopped[i], SIGCONT);
	free(g->stopped);
	g->stopped = NULL;
	g->stopped_n = g->stopped_room = 0;
	guard_tell(g, THAWED);
	guard_leave(g);
	g->frozen = false;
}

int
command_group_kill(struct command_group *g, pid_t spared)
{
	guard_leave(g);
	if (g->cgroup[0])
		cgroup_kill(g->cgroup);
	return descendants_signal(SIGKILL, spared, &g->foreign);
}

const char *
command_group_but_for(const struct command_group *g)
{
	static char text[64];

	text[0] = '\0';
	if (g->foreign > 0)
		snprintf(text, sizeof text, ", but for %d processes of another user", g->foreign);
	return text;
}

void
command_group_remove(struct command_group *g)
{
	command_group_thaw(g);
	for (int round = 0; g->cgroup[0] && round < 3 && rmdir(g->cgroup) < 0 && errno == EBUSY;
	     round++)
		leave_cgroup(g->cgroup);
	g->cgroup[0] = '\0';
}

/* ---- the check of the command ---- */

void
health_check_begin(struct health_check *c, mono_t now)
{
	c->due = c->command != NULL ? mono_add(now, c->every) : MONO_NEVER;
}

/* In a process group of its own, so that a check that hangs is killed with what it has started. */
void
health_check_run(struct health_check *c, mono_t now, const sigset_t *mask)
{
	if (c->pid > 0)
		c->failures++;
	health_check_end(c);
	c->due = mono_add(now, c->every);
	fflush(NULL);
	c->pid = fork();
	if (c->pid == 0) {
		setpgid(0, 0);
		sigprocmask(SIG_SETMASK, mask, NULL);
		dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
		execl("/bin/sh", "sh", "-c", c->command, NULL);
		_exit(127);
	}
	if (c->pid > 0) {
		setpgid(c->pid, c->pid);
		return;
	}
	log_warn("the check can't be started: %s", strerror(errno));
	c->failures++;
	c->pid = 0;
}

void
health_check_ended(struct health_check *c, pid_t child, int status)
{
	if (child != c->pid)
		return;
	c->pid = 0;
	c->failures = WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : c->failures + 1;
}

void
health_check_end(struct health_check *c)
{
	if (c->pid > 0)
		kill(-c->pid, SIGKILL);
	c->pid = 0;
}

bool
health_check_failed(const struct health_check *c)
{
	return c->command != NULL && c->failures >= c->patience;
}
