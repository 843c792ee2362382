/* status: shows the state of a cell, how near its limits are, or a verdict for a monitor. */
#include "ctl/cell_status.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "cell/sys/log.h"
#include "cell/sys/mountinfo.h"
#include "cell/view/findings.h"
#include "cell/view/health.h"
#include "cell/view/output.h"
#include "ctl/cell.h"
#include "ctl/mounted_path.h"

enum { USAGE_PATIENCE_S = 2 };

/* ---- gathering, into one JSON object whose order is the printing order ---- */

/* A value as JSON: a number, unless it is of a key whose values are names, which may look like one.
 */
static json_t *
value_of(const char *key, const char *text)
{
	const size_t n = strlen(text), digits = strspn(text, "0123456789");
	const bool is_name =
	    !strcmp(key, "cell") || !strcmp(key, "principal") || !strcmp(key, "version");

	if (is_name || digits == 0 || n >= 19)
		return json_string(text);
	if (digits == n)
		return json_integer(atoll(text));
	if (text[digits] == '.' && digits + 1 + strspn(text + digits + 1, "0123456789") == n)
		return json_real(strtod(text, NULL));
	return json_string(text);
}

/* Adds each line "key value" or "key: value" of a mount's status. */
static void
add_status(json_t *to, char *text)
{
	for (char *line, *rest = text; (line = strsep(&rest, "\n"));) {
		char *value = line + strcspn(line, ": \t");

		if (value == line || *value == '\0')
			continue;
		*value++ = '\0';
		value += strspn(value, ": \t");
		json_object_set_new(to, line, value_of(line, value));
	}
}

/* Adds the usage, unless the mount does not answer in time: while it does not know yet that the
 * cell has lost its master, the call waits. False after an error message. */
static bool
add_usage(json_t *to, const char *mountpoint)
{
	struct statvfs v;
	int error;

	doctor_be_patient(USAGE_PATIENCE_S);
	error = statvfs(mountpoint, &v) < 0 ? errno : 0;
	doctor_be_patient(0);
	if (error == EINTR)
		return true;
	if (error != 0)
		return log_error("%s: %s", mountpoint, strerror(error));
	json_object_set_new(to, "nodes", json_number(v.f_files - v.f_ffree));
	json_object_set_new(to, "nodes_quota", json_number(v.f_files));
	json_object_set_new(to, "bytes", json_number((v.f_blocks - v.f_bfree) * v.f_frsize));
	json_object_set_new(to, "bytes_quota", json_number(v.f_blocks * v.f_frsize));
	return true;
}

static json_t *
problems_of(const json_t *all)
{
	return json_object_get(all, "problems");
}

/* The mount's part. Usage is known to the cell only: in jeopardy the mount can't tell it. NULL
 * after an error message. */
static json_t *
gather_mount(const struct run_record *r)
{
	json_t *all = json_object(), *findings = json_array();
	char text[MOUNT_TEXT_SIZE + 1];
	const int error = mount_text(r->mountpoint, text);

	json_object_set_new(all, "cell", json_string(r->cell));
	json_object_set_new(all, "mountpoint", json_string(r->mountpoint));
	json_object_set_new(all, "source", json_string(r->source));
	json_object_set_new(all, "pid", json_integer(r->pid));
	mount_text_findings(findings, r->mountpoint, error, text);
	if (error == 0)
		add_status(all, text);
	json_object_set_new(all, "problems", findings);
	if (json_array_size(findings) > 0 || add_usage(all, r->mountpoint))
		return all;
	json_decref(all);
	return NULL;
}

/* The state of a mounted cell: as its replicas tell it, or, of a cell in one process or without a
 * key to ask them with, as the mount does. NULL after an error message. */
static json_t *
of_mount(const struct ctl *ctl, const struct run_record *record, bool thorough)
{
	static struct cell_file cell_file;
	struct ctl as = *ctl;
	char file[PATH_MAX], why[512];
	json_t *all = gather_mount(record), *replicas = NULL;

	if (!all)
		return NULL;
	if (!as.key && record->key[0] != '\0')
		as.key = record->key;
	cell_file_of_mount(record, file);
	if (cell_file_read(file, &cell_file, why, sizeof why) &&
	    !cell_file_is_standalone(&cell_file) && cell_has_key(&as, file))
		replicas = doctor_ask_replicas(&as, file, &cell_file, thorough);
	if (replicas) {
		/* The replicas' answers about the master are newer than the mount's. */
		json_array_extend(problems_of(all), problems_of(replicas));
		json_object_del(all, "master");
		json_object_update_missing(all, replicas);
		json_decref(replicas);
	} else {
		json_object_set_new(all, "limits", limits_of_mount(all));
		health_add_limits(problems_of(all), json_object_get(all, "limits"));
		if (json_array_size(problems_of(all)) == 0 &&
		    json_integer_value(json_object_get(all, "master")) == 0)
			finding_add(problems_of(all), FINDING_no_master,
			            json_string_value(json_object_get(all, "cell")));
	}
	if (thorough && as.key)
		doctor_key(problems_of(all), as.key);
	return all;
}

/* The cell in one process whose data directory holds `file`. */
static json_t *
of_standalone(const struct ctl *ctl, const char *file, const struct cell_file *cell_file,
              bool thorough)
{
	static struct run_record record;
	char copy[PATH_MAX], canonical[PATH_MAX];
	const char *directory;
	json_t *all, *findings;
	bool alive = false;

	snprintf(copy, sizeof copy, "%s", file);
	directory = dirname(copy);
	if (mountinfo_canonical(directory, canonical) == 0 &&
	    place_find_by_source(canonical, &record, &alive) && alive)
		return of_mount(ctl, &record, thorough);
	all = json_object();
	findings = json_array();
	finding_add(findings, FINDING_not_running, directory);
	json_object_set_new(all, "cell", json_string(cell_file->name));
	json_object_set_new(all, "master", json_null());
	json_object_set_new(all, "limits", json_array());
	json_object_set_new(all, "problems", findings);
	return all;
}

json_t *
cell_status(const struct ctl *ctl, const char *path, bool thorough)
{
	static struct run_record record;
	static struct cell_file cell_file;
	char file[PATH_MAX];
	json_t *all;

	if (path || (!ctl->cell && place_mounted_cells(NULL, &record) > 0))
		return place_find_mount(path, NULL, &record) ? of_mount(ctl, &record, thorough)
		                                             : NULL;
	if (!cell_find(ctl, file, &cell_file))
		return NULL;
	if (cell_file_is_standalone(&cell_file))
		return of_standalone(ctl, file, &cell_file, thorough);
	all = doctor_ask_replicas(ctl, file, &cell_file, thorough);
	if (all && thorough) {
		doctor_keys(problems_of(all), ctl);
		doctor_fstab(problems_of(all), NULL, file);
	}
	return all;
}

bool
cell_status_is_good(const json_t *all)
{
	return findings_worst(problems_of(all)) < SEVERITY_DOWN;
}

void
cell_status_print(json_t *all)
{
	table_print_values(all);
	if (json_object_get(all, "replicas"))
		replica_table_print(all);
	if (json_array_size(problems_of(all)) > 0)
		putchar('\n');
	findings_print(problems_of(all), SEVERITY_WARNING, "problem     ", false);
}

/* ---- the command ---- */

enum { CHECK_GOOD, CHECK_DEGRADED, CHECK_DOWN, CHECK_UNKNOWN = CTL_UNKNOWN };

static uint64_t
number_at(const char *path, const char *attribute)
{
	char value[24];

	mounted_path_attribute(path, attribute, value, sizeof value);
	return strtoull(value, NULL, 10);
}

/* The budgets of the directories from the path up to the root of its mount. */
static void
add_budgets(json_t *all, const char *path, const char *mountpoint)
{
	const size_t root = strlen(mountpoint);
	char at[PATH_MAX];

	if (mountinfo_canonical(path, at) < 0)
		return;
	for (;;) {
		const char *of = strlen(at) > root ? at + root : "/";
		const uint64_t nodes = number_at(at, "user.ls.quota.nodes");
		const uint64_t bytes = number_at(at, "user.ls.quota.bytes");

		if (nodes > 0)
			limits_add(all, "quota_nodes", of, "count",
			           number_at(at, "user.ls.usage.nodes"), nodes);
		if (bytes > 0)
			limits_add(all, "quota_bytes", of, "bytes",
			           number_at(at, "user.ls.usage.bytes"), bytes);
		if (strlen(at) <= root)
			return;
		*strrchr(at, '/') = '\0';
	}
}

/* The locks are not asked for without a master, because that would wait for one. */
static int
show_limits(const struct ctl *ctl, const char *path, const json_t *status)
{
	json_t *all = json_object_get(status, "limits");
	const bool good = cell_status_is_good(status);
	json_t *locks = good ? lock_list(ctl, path) : NULL;
	const json_t *mountpoint = json_object_get(status, "mountpoint");

	if (good && path != NULL && mountpoint != NULL)
		add_budgets(all, path, json_string_value(mountpoint));
	if (locks != NULL)
		limits_add_locks(all, locks);
	if (ctl->json)
		json_text_print(all);
	else
		limits_print(all);
	json_decref(locks);
	return good && locks != NULL ? CTL_OK : CTL_FAILED;
}

/* Nothing could be learned: the cell is down all the same if its mount is dead or missing. Where
 * others are mounted, and none is named, a missing one says nothing. */
static void
look_for_mounts(json_t *findings, const struct ctl *ctl, const char *path)
{
	char canonical[PATH_MAX];
	json_t *cells;
	int n;

	if (path ? mountinfo_canonical(path, canonical) < 0 : ctl->cell != NULL)
		return;
	cells = json_object();
	n = doctor_mounts(findings, path ? canonical : NULL, NULL, cells);
	if (path || n == 0)
		n += doctor_fstab(findings, path ? canonical : NULL, NULL);
	if (path && n == 0 && access(path, F_OK) == 0)
		finding_add(findings, FINDING_bare, path);
	json_decref(cells);
}

static int
show_verdict(const struct ctl *ctl, const char *path)
{
	json_t *status = cell_status(ctl, path, true), *all = json_object();
	json_t *findings = status ? json_incref(problems_of(status)) : json_array();
	const char *name;
	char prefix[16];
	int worst, verdict;

	if (!status)
		look_for_mounts(findings, ctl, path);
	worst = findings_worst(findings);
	if (!status)
		verdict = worst >= SEVERITY_DEGRADED ? CHECK_DOWN : CHECK_UNKNOWN;
	else
		verdict = worst < SEVERITY_DEGRADED    ? CHECK_GOOD
		          : worst == SEVERITY_DEGRADED ? CHECK_DEGRADED
		                                       : CHECK_DOWN;
	name = verdict == CHECK_UNKNOWN ? "unknown" : !status ? "down" : findings_verdict(findings);
	json_object_set_new(all, "verdict", json_string(name));
	json_object_set_new(all, "reasons", findings);
	snprintf(prefix, sizeof prefix, "%s:", name);
	if (ctl->json)
		json_text_print(all);
	else if (verdict == CHECK_GOOD || verdict == CHECK_UNKNOWN)
		puts(name);
	else
		findings_print(findings, SEVERITY_DEGRADED, prefix, false);
	json_decref(all);
	json_decref(status);
	return verdict;
}

static bool check, limits;

static int
run(const struct ctl *ctl, char **argv)
{
	json_t *all;
	int code;

	if (check && limits)
		return ctl_usage("--check and --limits", "one of them");
	if (check)
		return show_verdict(ctl, argv[0]);
	all = cell_status(ctl, argv[0], false);
	if (all == NULL)
		return CTL_FAILED;
	if (limits) {
		code = show_limits(ctl, argv[0], all);
	} else {
		if (ctl->json)
			json_text_print(all);
		else
			cell_status_print(all);
		code = cell_status_is_good(all) ? CTL_OK : CTL_FAILED;
	}
	json_decref(all);
	return code;
}

static const struct ctl_option options[] = {
    {"check", .to = &check},
    {"limits", .to = &limits},
    {0},
};

const struct ctl_command status_command = {
    "status",
    "shows the state of a cell and its replicas; exit 1 if it has no master. --check: exit 0 good,"
    " 1 degraded, 2 down, 3 not known",
    {{.words = {"[PATH]"}, .run = run}},
    options,
};
