/* up: starts a cell in the background and mounts it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cell/io/conf.h"
#include "cell/io/log.h"
#include "cell/io/mountinfo.h"
#include "cell/io/process.h"
#include "ctl/cell.h"

enum { OPT_REPLICAS = 256, OPT_DIR, OPT_MOUNT, LEAVE_PATIENCE_S = 20 };

struct up {
	const char *replicas, *directory, *mountpoint, *cell;
	struct place place;
};

/* ---- preparing ---- */

/* Makes the directory and those above it; one that exists is as good. */
static bool
make_directories(const char *path)
{
	char part[PATH_MAX];
	size_t n = strlen(path);

	for (size_t i = 1; i <= n && n < sizeof part; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (mkdir(part, 0755) < 0 && errno != EEXIST) {
			log_error("%s: cannot make the directory: %s", part, strerror(errno));
			return false;
		}
	}
	return true;
}

static bool
make_parent(const char *path)
{
	char parent[PATH_MAX], *slash;

	snprintf(parent, sizeof parent, "%s", path);
	slash = strrchr(parent, '/');
	if (!slash || slash == parent)
		return true;
	*slash = '\0';
	return make_directories(parent);
}

static bool
canonical(const char *path, char to[PATH_MAX])
{
	char copy[PATH_MAX];
	int rc;

	snprintf(copy, sizeof copy, "%s", path);
	rc = path_canonical(copy, to);
	if (rc < 0)
		log_error("%s: %s", copy, strerror(-rc));
	return rc == 0;
}

/* The data directory itself is made by lsfs, private. */
static bool
prepare_places(struct up *u)
{
	struct place *p = &u->place;

	if ((!u->directory || !u->mountpoint) && !place_default(u->cell, p))
		return false;
	if (u->directory)
		snprintf(p->directory, sizeof p->directory, "%s", u->directory);
	if (u->mountpoint)
		snprintf(p->mountpoint, sizeof p->mountpoint, "%s", u->mountpoint);
	return make_parent(p->directory) && canonical(p->directory, p->directory);
}

static bool
prepare_mountpoint(struct up *u)
{
	struct place *p = &u->place;
	struct mountinfo info;

	if (!make_parent(p->mountpoint) || !canonical(p->mountpoint, p->mountpoint))
		return false;
	/* A mount there, dead or alive, shows that there is a directory; it is not asked. */
	return mountinfo_at(p->mountpoint, &info) || make_directories(p->mountpoint);
}

/* ---- running lsfs ---- */

static bool
try_program(char path[PATH_MAX], const char *directory, const char *rest)
{
	return snprintf(path, PATH_MAX, "%s/%s", directory, rest) < PATH_MAX &&
	       access(path, X_OK) == 0;
}

/* Beside lsctl: installed in sbin, or as built. Else the PATH decides. */
static void
find_lsfs(char path[PATH_MAX])
{
	static const char *const rests[] = {"lsfs", "../sbin/lsfs", "../fs/lsfs"};
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

	if (n > 0) {
		self[n] = '\0';
		*strrchr(self, '/') = '\0';
		for (size_t i = 0; i < sizeof rests / sizeof rests[0]; i++)
			if (try_program(path, self, rests[i]))
				return;
	}
	strcpy(path, "lsfs");
}

static int
run_lsfs(const struct up *u)
{
	char program[PATH_MAX];
	int status = 0;
	pid_t child;

	find_lsfs(program);
	fflush(NULL);
	child = fork();
	if (child == 0) {
		execlp(program, "lsfs", "--standalone", "--cell", u->cell, u->place.directory,
		       u->place.mountpoint, (char *)NULL);
		log_error("%s: cannot run it: %s", program, strerror(errno));
		_exit(CTL_FAILED);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0) {
		log_error("lsfs: cannot run it: %s", strerror(errno));
		return CTL_FAILED;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return CTL_OK;
	if (WIFSIGNALED(status))
		log_error("lsfs: %s", strsignal(WTERMSIG(status)));
	return CTL_FAILED;
}

/* A daemon whose mount was taken off a moment ago is still closing its files. */
static bool
wait_for_leaving(const struct run_record *r)
{
	int fd = pidfd_open(r->pid, 0);
	bool gone = fd < 0 || process_wait(fd, LEAVE_PATIENCE_S);

	if (fd >= 0)
		close(fd);
	if (!gone)
		log_error("%s: process %ld has no mount any more and does not end", r->source,
		          (long)r->pid);
	return gone;
}

/* 1: it is up already, as in the record; 0: it is not; -1: it was told why it can't be. */
static int
already_up(struct up *u, struct run_record *r)
{
	struct mountinfo info;
	bool alive;

	if (!place_find_by_directory(u->place.directory, r, &alive) || !alive)
		return 0;
	if (!mountinfo_at(r->mountpoint, &info) || strcmp(info.type, MOUNTINFO_TYPE))
		return wait_for_leaving(r) ? 0 : -1;
	if (u->mountpoint && (!canonical(u->mountpoint, u->place.mountpoint) ||
	                      strcmp(u->place.mountpoint, r->mountpoint))) {
		log_error("%s: in use: it is mounted on %s", u->place.directory, r->mountpoint);
		return -1;
	}
	return 1;
}

static int
up(struct up *u)
{
	static struct run_record record;
	int is_up, rc;

	if (!prepare_places(u) || (is_up = already_up(u, &record)) < 0)
		return CTL_FAILED;
	if (is_up) {
		puts(record.mountpoint);
		return CTL_OK;
	}
	if (!prepare_mountpoint(u))
		return CTL_FAILED;
	rc = run_lsfs(u);
	if (rc == CTL_OK)
		puts(u->place.mountpoint);
	return rc;
}

/* ---- the command ---- */

static int
run(struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = {
		{"replicas", required_argument, NULL, OPT_REPLICAS},
		{"dir", required_argument, NULL, OPT_DIR},
		{"mount", required_argument, NULL, OPT_MOUNT},
		CTL_LONG_OPTIONS,
	};
	struct up u = {.replicas = "1", .cell = "local"};
	int letter;

	while ((letter = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (letter == OPT_REPLICAS)
			u.replicas = optarg;
		else if (letter == OPT_DIR)
			u.directory = optarg;
		else if (letter == OPT_MOUNT)
			u.mountpoint = optarg;
		else if (!ctl_option(ctl, letter))
			return CTL_USAGE;
	}
	if (ctl->help)
		return CTL_OK;
	if (optind < argc)
		u.cell = argv[optind++];
	if (optind < argc)
		return ctl_usage(&up_command, argv[optind], "unexpected argument");
	if (!conf_cell_name_valid(u.cell))
		return ctl_usage(&up_command, u.cell, "not a cell's name");
	if (strcmp(u.replicas, "1"))
		return ctl_usage(&up_command, u.replicas, "only cells of 1 replica can be run yet");
	return up(&u);
}

const struct ctl_command up_command = {
	"up", "[--replicas 1] [--dir DIR] [--mount MOUNTPOINT] [CELL]",
	"starts a cell in the background, mounts it, prints the mount point", run,
};
