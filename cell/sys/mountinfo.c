#include "cell/sys/mountinfo.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINES_BY_ID = 256 }; /* bounds the work on a mount's event loop: about 2 us a line */

/* The table writes blanks, tabs, newlines and backslashes as \ooo. */
static void
unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from; to++) {
		unsigned byte;

		if (*from == '\\' && sscanf(from + 1, "%3o", &byte) == 1) {
			*to = (char)byte;
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = '\0';
}

/* "36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/root rw,errors=continue" */
static bool
line_parse(char *line, struct mountinfo *info)
{
	char *fields[5] = {NULL}, *tail = strstr(line, " - "), *type, *source, *user;
	int n = 0;

	if (!tail)
		return false;
	*tail = '\0';
	tail += 3;
	for (char *field; n < 5 && (field = strsep(&line, " "));)
		fields[n++] = field;
	type = strsep(&tail, " ");
	source = strsep(&tail, " \n");
	user = tail ? strstr(tail, "user_id=") : NULL;
	if (n < 5 || !type || !source ||
	    sscanf(fields[2], "%u:%u", &info->major, &info->minor) != 2)
		return false;
	info->id = atoi(fields[0]);
	info->user = user ? atol(user + strlen("user_id=")) : -1;
	info->others = tail && strstr(tail, "allow_other");
	unescape(fields[3]);
	info->whole = !strcmp(fields[3], "/");
	snprintf(info->root, sizeof info->root, "%s", fields[3]);
	unescape(fields[4]);
	unescape(source);
	snprintf(info->path, sizeof info->path, "%s", fields[4]);
	snprintf(info->type, sizeof info->type, "%s", type);
	snprintf(info->source, sizeof info->source, "%s", source);
	return true;
}

typedef bool match_fn(const struct mountinfo *info, const void *key);

/* The last match wins: a later mount covers an earlier one at the same place. */
static bool
table_find(const char *table, int lines, match_fn *match, const void *key, struct mountinfo *found)
{
	FILE *f = fopen(table, "re");
	struct mountinfo *info = malloc(sizeof *info);
	char *line = NULL;
	size_t room = 0;
	bool any = false;

	while (f && info && lines-- > 0 && getline(&line, &room, f) > 0) {
		if (line_parse(line, info) && match(info, key)) {
			*found = *info;
			any = true;
		}
	}
	free(line);
	free(info);
	if (f)
		fclose(f);
	return any;
}

static bool
match_path(const struct mountinfo *info, const void *path)
{
	return !strcmp(info->path, path);
}

static bool
match_id(const struct mountinfo *info, const void *id)
{
	return info->id == *(const int *)id;
}

static bool
match_device(const struct mountinfo *info, const void *device)
{
	return info->whole && makedev(info->major, info->minor) == *(const dev_t *)device;
}

static bool
match_type(const struct mountinfo *info, const void *type)
{
	return info->whole && !strcmp(info->type, type);
}

bool
mountinfo_at(const char *path, struct mountinfo *info)
{
	return table_find("/proc/self/mountinfo", INT_MAX, match_path, path, info);
}

bool
mountinfo_above(const char *path, struct mountinfo *info)
{
	char at[PATH_MAX], *slash;

	snprintf(at, sizeof at, "%s", path);
	while (!mountinfo_at(at, info)) {
		slash = strrchr(at, '/');
		if (slash == NULL || strcmp(at, "/") == 0)
			return false;
		slash[slash == at] = '\0';
	}
	return true;
}

bool
mountinfo_by_id(pid_t pid, int id, struct mountinfo *info)
{
	char table[64] = "/proc/self/mountinfo";

	if (pid)
		snprintf(table, sizeof table, "/proc/%ld/mountinfo", (long)pid);
	return table_find(table, LINES_BY_ID, match_id, &id, info);
}

bool
mountinfo_of_device(dev_t device, struct mountinfo *info)
{
	return table_find("/proc/self/mountinfo", INT_MAX, match_device, &device, info);
}

bool
mountinfo_of_type(const char *type, struct mountinfo *info)
{
	return table_find("/proc/self/mountinfo", INT_MAX, match_type, type, info);
}

struct mountinfo_visit {
	void (*each)(void *user, const struct mountinfo *info);
	void *user;
};

static bool
visit(const struct mountinfo *info, const void *key)
{
	const struct mountinfo_visit *v = key;

	if (mountinfo_is_cell(info))
		v->each(v->user, info);
	return false;
}

void
mountinfo_each(void (*each)(void *user, const struct mountinfo *info), void *user)
{
	const struct mountinfo_visit v = {each, user};

	table_find("/proc/self/mountinfo", INT_MAX, visit, &v, NULL);
}

bool
mountinfo_unmount_by_helper(const char *path, const char *options)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		execlp("fusermount3", "fusermount3", options, "--", path, (char *)NULL);
		_exit(127);
	}
	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

/* Resolves the directory of a path, and appends the last component unresolved, without trailing
 * slashes. A last component "", "." or ".." names no entry of its own; such a path is resolved
 * whole. */
static int
resolve_directory(const char *path, char canonical[PATH_MAX])
{
	char copy[PATH_MAX], *name, *end;
	int n, rc = 0;

	if (!*path)
		return -ENOENT;
	if ((size_t)snprintf(copy, sizeof copy, "%s", path) >= sizeof copy)
		return -ENAMETOOLONG;
	end = copy + strlen(copy);
	while (end > copy + 1 && end[-1] == '/')
		*--end = '\0';
	name = strrchr(copy, '/');
	name = name ? name + 1 : copy;
	if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
		return realpath(copy, canonical) ? 0 : -errno;
	if (name == copy) {
		rc = realpath(".", canonical) ? 0 : -errno;
	} else if (name == copy + 1) {
		strcpy(canonical, "/");
	} else {
		name[-1] = '\0';
		rc = realpath(copy, canonical) ? 0 : -errno;
	}
	if (rc < 0)
		return rc;
	n = (int)strlen(canonical);
	return snprintf(canonical + n, (size_t)(PATH_MAX - n), "%s%s",
	                canonical[n - 1] == '/' ? "" : "/", name) < PATH_MAX - n
	           ? 0
	           : -ENAMETOOLONG;
}

/* Follows symbolic links at the end of the path. readlink at the root of a mounted filesystem fails
 * without a request to that filesystem. */
static int
resolve(const char *path, char canonical[PATH_MAX], int links)
{
	char target[PATH_MAX], next[2 * PATH_MAX];
	int rc = resolve_directory(path, canonical);
	ssize_t n = rc == 0 ? readlink(canonical, target, sizeof target - 1) : -1;

	if (rc < 0 || n < 0)
		return rc;
	if (links == 0)
		return -ELOOP;
	target[n] = '\0';
	if (target[0] == '/')
		return resolve(target, canonical, links - 1);
	snprintf(next, sizeof next, "%.*s%s", (int)(strrchr(canonical, '/') + 1 - canonical),
	         canonical, target);
	return resolve(next, canonical, links - 1);
}

int
mountinfo_canonical(const char *path, char canonical[PATH_MAX])
{
	return resolve(path, canonical, 40);
}

bool
mountinfo_lies_in(const char *path, const char *directory)
{
	size_t n = strlen(directory);

	return !strncmp(path, directory, n) &&
	       (path[n] == '\0' || path[n] == '/' || (n > 0 && directory[n - 1] == '/'));
}
