/* acl: shows who may do what with a node, as its mount tells it. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cell/base/limit.h"
#include "cell/sys/log.h"
#include "cell/sys/mountinfo.h"
#include "cell/view/output.h"
#include "ctl/ctl.h"
#include "ctl/mounted_path.h"

static const char *const rights[] = {"read", "write", "change"};

enum { RIGHTS = sizeof rights / sizeof *rights };

/* ---- one ACL file ---- */

/* A principal or, of a line that is none, NULL: blank lines and comments are skipped. */
static char *
principal_in(char *line)
{
	line[strcspn(line, "#\n")] = '\0';
	line += strspn(line, " \t\r");
	for (size_t n = strlen(line); n > 0 && strchr(" \t\r", line[n - 1]) != NULL; n--)
		line[n - 1] = '\0';
	return line[0] == '\0' ? NULL : line;
}

/* The principals in the ACL file at `path`; or the reason why they are not known. */
static void
add_principals(json_t *to, const char *path)
{
	json_t *list = json_array();
	FILE *f = fopen(path, "re");
	char *line = NULL, *name;
	size_t room = 0, size = 0;
	ssize_t n;

	while (f && (n = getline(&line, &room, f)) > 0) {
		size += (size_t)n;
		if ((name = principal_in(line)) != NULL)
			json_array_append_new(list, json_path(bytes_of(name)));
	}
	if (f && !ferror(f) && size > LIMIT_ACL)
		json_object_set_new(to, "error", json_string("longer than 64 KiB: gives no right"));
	else if (f && !ferror(f))
		json_object_set(to, "principals", list);
	else
		json_object_set_new(to, "error",
		                    json_string(errno == ENOENT ? "there is no such ACL file"
		                                                : strerror(errno)));
	if (f)
		fclose(f);
	free(line);
	json_decref(list);
}

/* `files` may be looked into, as by the cell. */
static bool
names_everybody(const char *root, const char *name, int depth, int *files)
{
	char path[PATH_MAX], *line = NULL;
	const char *who;
	bool found = false;
	size_t room = 0;
	FILE *f;

	if (depth > LIMIT_GROUP_DEPTH || *files == 0 || strchr(name, '/') != NULL)
		return false;
	--*files;
	snprintf(path, sizeof path, "%.*s/acl/%.*s", PATH_MAX - LIMIT_NAME - 8, root, LIMIT_NAME,
	         name);
	f = fopen(path, "re");
	while (f && !found && getline(&line, &room, f) > 0)
		if ((who = principal_in(line)) != NULL)
			found = strcmp(who, "*") == 0 ||
			        (who[0] == '@' && names_everybody(root, who + 1, depth + 1, files));
	free(line);
	if (f)
		fclose(f);
	return found;
}

bool
acl_names_everybody(const char *root, const char *name)
{
	int files = LIMIT_GROUPS;

	return names_everybody(root, name, 0, &files);
}

/* ---- a node ---- */

/* The root of the mount that holds the node; empty where only a part of the cell is mounted. */
static bool
mount_of(const char *path, char root[PATH_MAX])
{
	static struct mountinfo info;
	char canonical[PATH_MAX];
	struct stat st;

	if (stat(path, &st) < 0)
		return log_error("%s: %s", path, strerror(errno));
	if (mountinfo_of_device(st.st_dev, &info) && mountinfo_is_cell(&info)) {
		snprintf(root, PATH_MAX, "%s", info.path);
		return true;
	}
	root[0] = '\0';
	if (mountinfo_canonical(path, canonical) == 0 && mountinfo_above(canonical, &info) &&
	    mountinfo_is_cell(&info))
		return true;
	return log_error("%s: in no mount of lsfs", path);
}

static bool
add_right(json_t *acls, const char *root, const char *path, const char *right)
{
	char attribute[64], name[LIMIT_NAME + 1], file[2 * PATH_MAX];
	json_t *one;
	int error;

	snprintf(attribute, sizeof attribute, "user.ls.acl.%s", right);
	error = mounted_path_attribute(path, attribute, name, sizeof name);
	if (error == 0 && name[0] == '\0')
		error = ENODATA;
	if (error != 0)
		return log_error("%s: %s: %s", path, attribute, strerror(error));
	one = json_object();
	json_object_set_new(one, "acl", json_path(bytes_of(name)));
	snprintf(file, sizeof file, "%s/acl/%s", root, name);
	if (root[0] != '\0')
		add_principals(one, file);
	else
		json_object_set_new(one, "error",
		                    json_string("the file is not in the part that is mounted"));
	json_object_set_new(acls, right, one);
	return true;
}

/* ---- printing ---- */

static void
print_right(const char *right, const json_t *one)
{
	const char *error = json_string_value(json_object_get(one, "error"));
	const json_t *list = json_object_get(one, "principals"), *principal;
	size_t i;

	printf("%-7s ", right);
	line_put(stdout, json_text_of(one, "acl"));
	putchar(':');
	json_array_foreach(list, i, principal) {
		putchar(' ');
		line_put(stdout, json_string_value(principal));
	}
	if (error != NULL)
		printf(" (%s)", error);
	else if (json_array_size(list) == 0)
		printf(" (nobody)");
	putchar('\n');
}

static int
run_show(const struct ctl *ctl, char **argv)
{
	json_t *acls = json_object();
	char root[PATH_MAX];
	bool ok = mount_of(argv[0], root);

	for (size_t i = 0; ok && i < RIGHTS; i++)
		ok = add_right(acls, root, argv[0], rights[i]);
	if (ok && ctl->json)
		json_text_print(acls);
	for (size_t i = 0; ok && !ctl->json && i < RIGHTS; i++)
		print_right(rights[i], json_object_get(acls, rights[i]));
	json_decref(acls);
	return ok ? CTL_OK : CTL_FAILED;
}

const struct ctl_command acl_command = {
    "acl",
    "shows the ACLs of a mounted file or directory, and the principals in them",
    {{.name = "show", .words = {"PATH"}, .run = run_show}},
    NULL,
};
