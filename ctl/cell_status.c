#include "ctl/cell_status.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <unistd.h>
#include "cell/sys/log.h"
#include "cell/sys/mountinfo.h"
#include "ctl/cell.h"
#include "ctl/health.h"
#include "ctl/limits.h"

enum { STATUS_SIZE = 64 * 1024, USAGE_PATIENCE_S = 2 };

/* ---- gathering, into one JSON object whose order is the printing order ---- */

/* The values of these keys are names, which stay strings even if they look like a number. */
static bool
is_name(const char *key)
{
	return !strcmp(key, "cell") || !strcmp(key, "principal") || !strcmp(key, "version");
}

static json_t *
value_of(const char *key, const char *text)
{
	const size_t n = strlen(text), digits = strspn(text, "0123456789");

	if (is_name(key) || digits == 0 || n >= 19)
		return json_string(text);
	if (digits == n)
		return json_integer(atoll(text));
	if (text[digits] == '.' && digits + 1 + strspn(text + digits + 1, "0123456789") == n)
		return json_real(strtod(text, NULL));
	return json_string(text);
}

/* Adds a line "key value" or "key: value"; a number becomes a JSON number. */
static void
add_line(json_t *to, char *line)
{
	size_t n = strcspn(line, ": \t");
	char *value = line + n;

	if (n == 0 || *value == '\0')
		return;
	*value++ = '\0';
	value += strspn(value, ": \t");
	json_object_set_new(to, line, value_of(line, value));
}

static bool
add_status(json_t *to, const char *mountpoint)
{
	static char path[PATH_MAX + 16], text[STATUS_SIZE];
	int fd;
	ssize_t n;

	snprintf(path, sizeof path, "%s/.cell/status", mountpoint);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (n < 0) {
		log_error("%s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return false;
	}
	close(fd);
	text[n] = '\0';
	for (char *line, *rest = text; (line = strsep(&rest, "\n"));)
		add_line(to, line);
	return true;
}

static void
on_alarm(int number)
{
	(void)number;
}

/* statvfs with a deadline: when the cell has just lost its master the mount does not know it yet,
 * and the call would wait. The timer repeats, since a signal that arrives just before the call
 * blocks does not interrupt it. */
static int
statvfs_in_time(const char *path, struct statvfs *v)
{
	const struct itimerval timer = {
	    .it_interval = {.tv_usec = 50000},
	    .it_value = {.tv_sec = USAGE_PATIENCE_S},
	};
	int rc;

	sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
	rc = statvfs(path, v);
	if (rc < 0)
		rc = -errno;
	setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
	return rc;
}

/* Adds the usage; nothing when there is no answer in time. False after an error message. */
static bool
add_usage(json_t *to, const char *mountpoint)
{
	struct statvfs v;
	int rc = statvfs_in_time(mountpoint, &v);
	json_int_t unit;

	if (rc == -EINTR)
		return true;
	if (rc < 0) {
		log_error("%s: %s", mountpoint, strerror(-rc));
		return false;
	}
	unit = (json_int_t)v.f_frsize;
	json_object_set_new(to, "nodes", json_integer((json_int_t)(v.f_files - v.f_ffree)));
	json_object_set_new(to, "nodes_quota", json_integer((json_int_t)v.f_files));
	json_object_set_new(to, "bytes", json_integer((json_int_t)(v.f_blocks - v.f_bfree) * unit));
	json_object_set_new(to, "bytes_quota", json_integer((json_int_t)v.f_blocks * unit));
	return true;
}

static bool
is_safe(const json_t *all)
{
	const char *state = json_string_value(json_object_get(all, "state"));

	return state && !strcmp(state, "safe");
}

static json_t *
gather_mount(const struct run_record *r)
{
	json_t *all = json_object();

	json_object_set_new(all, "cell", json_string(r->cell));
	json_object_set_new(all, "mountpoint", json_string(r->mountpoint));
	json_object_set_new(all, "source", json_string(r->source));
	json_object_set_new(all, "pid", json_integer(r->pid));
	/* Usage is known to the cell only: in jeopardy the mount can't tell it. */
	if (add_status(all, r->mountpoint) && (!is_safe(all) || add_usage(all, r->mountpoint)))
		return all;
	json_decref(all);
	return NULL;
}

/* NULL after an error message. */
static json_t *
gather_replicas(const struct ctl *ctl, const char *file, struct cell_file *cell_file)
{
	struct answer answers[LIMIT_REPLICAS];
	struct noise_pair key;
	json_t *all = NULL;

	if (cell_key(ctl, file, &key) && ask_members(cell_file, &key) &&
	    ask_replicas(cell_file, &key, answers))
		all = health_json(cell_file, answers);
	explicit_bzero(&key, sizeof key);
	return all;
}

static json_t *
of_mount(const struct ctl *ctl, const struct run_record *record)
{
	static struct cell_file cell_file;
	char file[PATH_MAX], why[512];
	json_t *all = gather_mount(record), *replicas = NULL;

	if (!all)
		return NULL;
	cell_file_of_mount(record, file);
	if (cell_file_read(file, &cell_file, why, sizeof why) &&
	    !cell_file_is_standalone(&cell_file) && cell_has_key(ctl, file))
		replicas = gather_replicas(ctl, file, &cell_file);
	if (replicas) {
		/* The replicas' answers about the master are newer than the mount's. */
		json_object_del(all, "master");
		json_object_update_missing(all, replicas);
		json_decref(replicas);
	} else {
		json_object_set_new(all, "limits", limits_of_mount(all));
	}
	return all;
}

/* The cell in one process whose data directory holds `file`. */
static json_t *
of_standalone(const struct ctl *ctl, const char *file)
{
	static struct run_record record;
	const char *slash = strrchr(file, '/');
	char directory[PATH_MAX], canonical[PATH_MAX];
	bool alive = false;

	snprintf(directory, sizeof directory, "%s", file);
	if (slash)
		directory[slash - file] = '\0';
	else
		strcpy(directory, ".");
	if (mountinfo_canonical(directory, canonical) == 0 &&
	    place_find_by_source(canonical, &record, &alive) && alive)
		return of_mount(ctl, &record);
	log_error("%s: a cell in one process that is not mounted: start it with lsctl up",
	          directory);
	return NULL;
}

json_t *
cell_status(const struct ctl *ctl, const char *path)
{
	static struct run_record record;
	static struct cell_file cell_file;
	char file[PATH_MAX];

	if (path || (!ctl->cell && place_mounted_cells(NULL, &record) > 0))
		return place_find_mount(path, NULL, &record) ? of_mount(ctl, &record) : NULL;
	if (!cell_find(ctl, file, &cell_file))
		return NULL;
	if (cell_file_is_standalone(&cell_file))
		return of_standalone(ctl, file);
	return gather_replicas(ctl, file, &cell_file);
}

static bool
has_master(const json_t *all)
{
	json_t *master = json_object_get(all, "master");

	return master && !json_is_null(master) &&
	       !(json_is_integer(master) && json_integer_value(master) == 0);
}

bool
cell_status_is_good(const json_t *all)
{
	bool mounted = json_object_get(all, "mountpoint") != NULL;

	return has_master(all) && (!mounted || is_safe(all));
}

void
cell_status_print(json_t *all)
{
	const char *key;
	json_t *value;

	json_object_foreach(all, key, value)
	{
		if (json_is_integer(value))
			printf("%-12s %" JSON_INTEGER_FORMAT "\n", key, json_integer_value(value));
		else if (json_is_real(value))
			printf("%-12s %.3f\n", key, json_real_value(value));
		else if (json_is_string(value))
			printf("%-12s %s\n", key, json_string_value(value));
		else if (json_is_null(value))
			printf("%-12s none\n", key);
	}
	if (json_object_get(all, "replicas"))
		health_print(all);
}
