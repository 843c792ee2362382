/* Finds the cell file and the key that a command uses. */
#include <dirent.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cell/config/key_file.h"
#include "cell/sys/log.h"
#include "ctl/cell.h"

bool
cell_read(const char *path, struct cell_file *cell_file)
{
	char why[512];

	if (cell_file_read(path, cell_file, why, sizeof why))
		return true;
	return log_error("%s", why);
}

/* ---- the cell file ---- */

/* A mount's source is its cell file, or the data directory of a cell in one process. */
void
cell_file_of_mount(const struct run_record *record, char path[PATH_MAX])
{
	struct stat st;
	const bool is_directory = stat(record->source, &st) == 0 && S_ISDIR(st.st_mode);

	snprintf(path, PATH_MAX, "%.*s%s", PATH_MAX - 16, record->source,
	         is_directory ? "/cell.conf" : "");
}

/* Looks for a cell of this machine that is not mounted, in the default place of `up`. */
static bool
file_in_default_place(const char *cell, char path[PATH_MAX])
{
	struct place place;

	if (!cell_file_cell_name_valid(cell) || !place_default(cell, &place))
		return false;
	snprintf(path, PATH_MAX, "%.*s/%s.conf", PATH_MAX - 128, place.directory, cell);
	if (access(path, F_OK) == 0)
		return true;
	snprintf(path, PATH_MAX, "%.*s/cell.conf", PATH_MAX - 128, place.directory);
	return access(path, F_OK) == 0;
}

/* Looks for a cell of this machine, by its name or, when that is NULL, any. */
static bool
locate_here(const char *cell, char path[PATH_MAX])
{
	static struct run_record record;
	int n = place_mounted_cells(cell, &record);

	if (n == 1)
		cell_file_of_mount(&record, path);
	if (n == 1 || (n == 0 && file_in_default_place(cell ? cell : "local", path)))
		return true;
	if (n > 1)
		log_error("%s: several such cells are mounted: give a cell file with --cell",
		          cell ? cell : "no cell given");
	else if (cell)
		log_error("%s: no such cell: neither a cell file, nor in %s, nor mounted", cell,
		          CELL_FILE_DIRECTORY);
	else
		log_error("no cell is mounted: give one with --cell");
	return false;
}

bool
cell_find(const struct ctl *ctl, char path[PATH_MAX], struct cell_file *cell_file)
{
	if (ctl->cell)
		cell_file_locate(ctl->cell, path, PATH_MAX);
	/* A missing file is looked for among this machine's cells only if it was given as a name;
	 * of a path, cell_read reports the error. */
	if (!ctl->cell || (access(path, F_OK) < 0 && cell_file_cell_name_valid(ctl->cell)))
		if (!locate_here(ctl->cell, path))
			return false;
	if (!cell_read(path, cell_file))
		return false;
	if (cell_file_renew(path, cell_file))
		log_debug("%s: a replica of this machine has a newer list of replicas", path);
	return true;
}

/* ---- in the directory of `up` ---- */

/* The first file of the directory that is a cell file, by the order of names. */
static bool
any_cell_file(const char *directory, char path[PATH_MAX])
{
	static struct cell_file cell_file;
	struct dirent **entries = NULL;
	const int n = scandir(directory, &entries, NULL, alphasort);
	bool found = false;
	char why[512];

	for (int i = 0; i < n; i++) {
		const char *dot = strrchr(entries[i]->d_name, '.');

		if (!found && dot && strcmp(dot, ".conf") == 0) {
			snprintf(path, PATH_MAX, "%.*s/%s", PATH_MAX - 300, directory,
			         entries[i]->d_name);
			found = cell_file_read(path, &cell_file, why, sizeof why);
		}
		free(entries[i]);
	}
	free(entries);
	return found;
}

int
cell_in_directory(const char *directory, const char *cell, char path[PATH_MAX],
                  struct cell_file *cell_file)
{
	snprintf(path, PATH_MAX, "%.*s/%s.conf", PATH_MAX - 128, directory, cell ? cell : "cell");
	if (access(path, F_OK) < 0 && !any_cell_file(directory, path))
		return 0;
	if (!cell_read(path, cell_file))
		return -1;
	if (!cell || strcmp(cell, cell_file->name) == 0)
		return 1;
	log_error("%s: holds the cell %s, not %s", directory, cell_file->name, cell);
	return -1;
}

/* ---- the key ---- */

/* A key that this user may not read is no default: the machine's key is root's, say. */
static bool
key_there(char path[PATH_MAX], const char *directory, const char *name)
{
	return snprintf(path, PATH_MAX, "%s/%s", directory, name) < PATH_MAX &&
	       access(path, R_OK) == 0;
}

/* The directory in which a cell was made holds admin.key beside the cell file. */
static bool
default_key(const char *file, char path[PATH_MAX])
{
	const char *home = getenv("HOME");
	char directory[PATH_MAX];

	snprintf(directory, sizeof directory, "%s", file);
	return key_there(path, dirname(directory), "admin.key") ||
	       key_there(path, CELL_FILE_DIRECTORY, "key") ||
	       (home && key_there(path, home, ".config/lsfs/key"));
}

bool
cell_has_key(const struct ctl *ctl, const char *file)
{
	char path[PATH_MAX];

	return ctl->key || default_key(file, path);
}

bool
cell_key(const struct ctl *ctl, const char *file, struct noise_pair *pair)
{
	char path[PATH_MAX], why[512];
	const char *key = ctl->key;

	if (!key && default_key(file, path))
		key = path;
	if (key && key_file_read_principal(key, NULL, pair, why, sizeof why))
		return true;
	return log_error("%s", key ? why : "no key: give one with --key");
}
