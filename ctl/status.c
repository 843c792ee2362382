/* status: how a mounted cell is, as its mount's .cell/status tells, and what it holds. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "cell/io/log.h"
#include "ctl/ctl.h"

enum { STATUS_SIZE = 64 * 1024 };

/* ---- gathering, into one JSON object whose order is the printing order ---- */

static bool
is_number(const char *text)
{
	size_t n = strlen(text);

	return n > 0 && n < 19 && strspn(text, "0123456789") == n;
}

/* "key value" or "key: value" lines; numbers stay numbers. */
static void
add_line(json_t *to, char *line)
{
	size_t n = strcspn(line, ": \t");
	char *value = line + n;

	if (n == 0 || *value == '\0')
		return;
	*value++ = '\0';
	value += strspn(value, ": \t");
	json_object_set_new(to, line, is_number(value) ? json_integer(atoll(value))
	                                                : json_string(value));
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

static bool
add_usage(json_t *to, const char *mountpoint)
{
	struct statvfs v;

	if (statvfs(mountpoint, &v) < 0) {
		log_error("%s: %s", mountpoint, strerror(errno));
		return false;
	}
	json_object_set_new(to, "nodes", json_integer((json_int_t)(v.f_files - v.f_ffree)));
	json_object_set_new(to, "nodes_quota", json_integer((json_int_t)v.f_files));
	json_object_set_new(to, "bytes",
	                    json_integer((json_int_t)((v.f_blocks - v.f_bfree) * v.f_frsize)));
	json_object_set_new(to, "bytes_quota", json_integer((json_int_t)(v.f_blocks * v.f_frsize)));
	return true;
}

static bool
is_safe(const json_t *all)
{
	const char *state = json_string_value(json_object_get(all, "state"));

	return state && !strcmp(state, "safe");
}

static json_t *
gather(const struct run_record *r)
{
	json_t *all = json_object();

	json_object_set_new(all, "cell", json_string(r->cell));
	json_object_set_new(all, "mountpoint", json_string(r->mountpoint));
	json_object_set_new(all, "source", json_string(r->source));
	json_object_set_new(all, "pid", json_integer(r->pid));
	/* Usage is asked of the cell: in jeopardy there is only what the mount itself knows. */
	if (add_status(all, r->mountpoint) && (!is_safe(all) || add_usage(all, r->mountpoint)))
		return all;
	json_decref(all);
	return NULL;
}

/* ---- printing ---- */

static void
print_text(json_t *all)
{
	const char *key;
	json_t *value;

	json_object_foreach(all, key, value) {
		if (json_is_integer(value))
			printf("%-12s %" JSON_INTEGER_FORMAT "\n", key, json_integer_value(value));
		else
			printf("%-12s %s\n", key, json_string_value(value));
	}
}

static void
print_json(json_t *all)
{
	json_dumpf(all, stdout, JSON_INDENT(2));
	putchar('\n');
}

/* Mastered and heard of within the lease. */
static bool
is_well(json_t *all)
{
	json_t *master = json_object_get(all, "master");

	return is_safe(all) && master &&
	       !(json_is_integer(master) && json_integer_value(master) == 0);
}

static int
status(const struct ctl *ctl, const char *path)
{
	static struct run_record record;
	json_t *all;
	int code;

	if (!place_find_mount(path, ctl->cell, &record) || !(all = gather(&record)))
		return CTL_FAILED;
	if (ctl->json)
		print_json(all);
	else
		print_text(all);
	code = is_well(all) ? CTL_OK : CTL_FAILED;
	json_decref(all);
	return code;
}

/* ---- the command ---- */

static int
run(struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = {CTL_LONG_OPTIONS};
	int letter;

	while ((letter = getopt_long(argc, argv, "h", longs, NULL)) != -1)
		if (!ctl_option(ctl, letter))
			return CTL_USAGE;
	if (ctl->help)
		return CTL_OK;
	if (argc - optind > 1)
		return ctl_usage(&status_command, argv[optind + 1], "unexpected argument");
	return status(ctl, argc > optind ? argv[optind] : NULL);
}

const struct ctl_command status_command = {
	"status", "[--json] [PATH]", "shows how a mounted cell is; exit 1 if it has no master", run,
};
