#include "cell/store/swap_in.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "cell/sys/file.h"

#define DAMAGED ".damaged"

/* The suffixes of the files that SQLite keeps beside a database. */
static const char *const besides[] = {"-wal", "-shm", "-journal"};
enum { BESIDES = 3 };

static int
path_of(char path[PATH_MAX], const char *directory, const char *name, const char *suffix,
        const char *beside)
{
	int len = snprintf(path, PATH_MAX, "%s/%s%s%s", directory, name, suffix, beside);

	return len < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int
remove_one(const char *directory, const char *name, const char *suffix, const char *beside)
{
	char path[PATH_MAX];
	int rc = path_of(path, directory, name, suffix, beside);

	return rc < 0 ? rc : file_remove(path);
}

static int
rename_one(const char *directory, const char *name, const char *from_suffix, const char *to_suffix,
           const char *beside)
{
	char from[PATH_MAX], to[PATH_MAX];
	int rc = path_of(from, directory, name, from_suffix, beside);

	if (rc == 0)
		rc = path_of(to, directory, name, to_suffix, beside);
	return rc < 0 ? rc : file_rename(from, to);
}

static bool
exists(const char *directory, const char *name, const char *suffix)
{
	char path[PATH_MAX];

	return path_of(path, directory, name, suffix, "") == 0 && access(path, F_OK) == 0;
}

int
swap_in_remove_besides(const char *directory, const char *name)
{
	int rc = 0;

	for (int i = 0; i < BESIDES && rc == 0; i++)
		rc = remove_one(directory, name, "", besides[i]);
	return rc;
}

int
swap_in_remove(const char *directory, const char *name)
{
	int rc = remove_one(directory, name, "", "");

	return rc == 0 ? swap_in_remove_besides(directory, name) : rc;
}

/* The database is moved first: without it the files beside it have no meaning, and after a crash
 * the next start continues here. */
static int
move_aside(const char *directory, const char *name)
{
	int rc = 0;

	if (exists(directory, name, "")) {
		for (int i = 0; i < BESIDES && rc == 0; i++)
			rc = remove_one(directory, name, DAMAGED, besides[i]);
		if (rc == 0)
			rc = rename_one(directory, name, "", DAMAGED, "");
	}
	if (rc == 0)
		rc = rename_one(directory, name, "", DAMAGED, "-wal");
	if (rc == 0 || rc == -ENOENT)
		rc = swap_in_remove(directory, name);
	return rc;
}

int
swap_in_set_aside(const char *directory, const char *name)
{
	int rc = move_aside(directory, name);

	return rc == 0 ? file_sync_directory(directory) : rc;
}

int
swap_in_ready(const char *directory, const char *from, const char *name)
{
	char path[PATH_MAX], ready[PATH_MAX];
	int rc = path_of(path, directory, from, "", "");

	if (rc == 0)
		rc = path_of(ready, directory, name, SWAP_IN_READY, "");
	if (rc == 0)
		rc = file_sync(path);
	if (rc == 0)
		rc = file_rename(path, ready);
	return rc == 0 ? file_sync_directory(directory) : rc;
}

bool
swap_in_waiting(const char *directory, const char *name)
{
	return exists(directory, name, SWAP_IN_READY);
}

int
swap_in(const char *directory, const char *name, bool keep_old)
{
	int rc;

	if (!swap_in_waiting(directory, name))
		return 0;
	rc = keep_old ? move_aside(directory, name) : swap_in_remove_besides(directory, name);
	/* The new file must never meet the old one's write-ahead log. */
	if (rc == 0)
		rc = file_sync_directory(directory);
	if (rc == 0)
		rc = rename_one(directory, name, SWAP_IN_READY, "", "");
	return rc == 0 ? file_sync_directory(directory) : rc;
}
