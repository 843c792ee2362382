#include "cell/config/newer_list.h"

#include <dirent.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file of another user could name that user's machines as replicas. */
static bool
is_trusted(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISREG(st.st_mode) &&
	       (st.st_uid == 0 || st.st_uid == geteuid());
}

static bool
take(const char *directory, const char *name, struct cell_file *cell_file)
{
	char path[PATH_MAX], why[512];
	struct cell_file its;

	if (snprintf(path, sizeof path, "%s/%s/cell.conf", directory, name) >= PATH_MAX ||
	    !is_trusted(path) || !cell_file_read(path, &its, why, sizeof why) ||
	    its.version <= cell_file->version || memcmp(its.id, cell_file->id, sizeof its.id) != 0)
		return false;
	cell_file->version = its.version;
	cell_file->replicas_n = its.replicas_n;
	memcpy(cell_file->replicas, its.replicas, sizeof its.replicas);
	return true;
}

bool
newer_list_in(const char *directory, struct cell_file *cell_file)
{
	bool newer = take(directory, ".", cell_file);
	DIR *dir = opendir(directory);
	const struct dirent *e;

	while (dir != NULL && (e = readdir(dir)) != NULL)
		if (cell_file_is_replica_directory(e->d_name))
			newer |= take(directory, e->d_name, cell_file);
	if (dir != NULL)
		closedir(dir);
	return newer;
}

bool
newer_list_around(const char *path, struct cell_file *cell_file)
{
	char directory[PATH_MAX];
	bool newer;

	snprintf(directory, sizeof directory, "%s", path);
	newer = newer_list_in(dirname(directory), cell_file);
	snprintf(directory, sizeof directory, LOCALSTATEDIR "/lib/lsfs/%s", cell_file->name);
	return newer_list_in(directory, cell_file) || newer;
}
