/* doctor: looks for what commonly goes wrong, and says what to do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/sys/log.h"
#include "cell/sys/mountinfo.h"
#include "ctl/cell.h"
#include "ctl/doctor.h"

static const char *
text_of(const json_t *finding, const char *key)
{
	const char *text = json_string_value(json_object_get(finding, key));

	return text ? text : "?"; /* not UTF-8 */
}

static void
print(const struct ctl *ctl, const json_t *findings)
{
	const json_t *one;
	size_t i;

	if (ctl->json) {
		json_dumpf(findings, stdout, JSON_INDENT(2));
		putchar('\n');
		return;
	}
	json_array_foreach(findings, i, one) printf("lsctl: %s: %s: %s\n", text_of(one, "object"),
	                                            text_of(one, "what"), text_of(one, "do"));
	if (i == 0)
		puts("nothing found");
}

static void
look_at_keys(json_t *findings, const struct ctl *ctl)
{
	const char *home = getenv("HOME");
	char path[PATH_MAX];

	if (ctl->key != NULL)
		doctor_key(findings, ctl->key);
	doctor_key(findings, CELL_FILE_DIRECTORY "/key");
	if (home != NULL && snprintf(path, sizeof path, "%s/.config/lsfs/key", home) < PATH_MAX)
		doctor_key(findings, path);
}

/* With a path that is in no mount there is nothing to look at; false after an error message. */
static bool
look_at_mounts(json_t *findings, const char *path, json_t *cells)
{
	char canonical[PATH_MAX];
	int rc = path ? mountinfo_canonical(path, canonical) : 0;

	if (rc < 0) {
		log_error("%s: %s", path, strerror(-rc));
		return false;
	}
	if (doctor_mounts(findings, path ? canonical : NULL, cells) > 0 || path == NULL)
		return true;
	log_error("%s: in no mount of lsfs", path);
	return false;
}

static bool
look(json_t *findings, const struct ctl *ctl, const char *path)
{
	static struct cell_file cell_file;
	char file[PATH_MAX];
	json_t *cells = json_array();
	const json_t *one;
	bool ok = true;
	size_t i;

	if (path != NULL || ctl->cell == NULL)
		ok = look_at_mounts(findings, path, cells);
	else if (cell_find(ctl, file, &cell_file))
		json_array_append_new(cells, json_string(file));
	else
		ok = false;
	look_at_keys(findings, ctl);
	json_array_foreach(cells, i, one) ok =
	    doctor_cell(findings, ctl, json_string_value(one)) && ok;
	json_decref(cells);
	return ok;
}

static int
run(struct ctl *ctl, int argc, char **argv)
{
	json_t *findings;
	bool good;

	if (argc > 1)
		return ctl_usage(&doctor_command, argv[1], "unexpected argument");
	findings = json_array();
	good = look(findings, ctl, argv[0]);
	if (good || json_array_size(findings) > 0)
		print(ctl, findings);
	good = good && json_array_size(findings) == 0;
	json_decref(findings);
	return good ? CTL_OK : CTL_FAILED;
}

const struct ctl_command doctor_command = {
    "doctor",
    "[--cell FILE|NAME] [--json] [PATH]",
    "looks for what commonly goes wrong and says what to do; exit 1 if something is found",
    .run_plain = run,
};
