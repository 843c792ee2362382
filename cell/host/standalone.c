#include "cell/host/standalone.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell/config/key_file.h"
#include "cell/store/dir_lock.h"
#include "cell/sys/clock.h"
#include "cell/sys/file.h"

#define CELL_FILE_NAME "cell.conf"
#define KEY_FILE "signing.key"

/* The cell file is made last, so a directory without one was never in use. These names may be left
 * by a crash while it is made (or by mkfs, in the root of a filesystem). */
static const char *const beginnings[] = {
    DIR_LOCK_FILE, KEY_FILE, KEY_FILE FILE_UNFINISHED, CELL_FILE_NAME FILE_UNFINISHED, "lost+found",
};

static bool
fail(char *why, size_t why_size, const char *directory, const char *file, int error)
{
	snprintf(why, why_size, "%s%s%s: %s", directory, file[0] ? "/" : "", file, strerror(error));
	return false;
}

static bool
is_beginning(const char *name)
{
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return true;
	for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
		if (strcmp(name, beginnings[i]) == 0)
			return true;
	}
	return false;
}

/* True if the directory may become a data directory; else the reason in `why`. */
static bool
check_free(const char *directory, char *why, size_t why_size)
{
	DIR *d = opendir(directory);
	struct dirent *e;
	bool ok = true;

	if (d == NULL)
		return fail(why, why_size, directory, "", errno);
	while (ok && (e = readdir(d)) != NULL) {
		ok = is_beginning(e->d_name);
		if (!ok)
			snprintf(why, why_size, "not an lsfs data directory: %s holds %s",
			         directory, e->d_name);
	}
	closedir(d);
	return ok;
}

/* True if the directory has a cell file, or may have one that can't be reached. */
static bool
is_made(const char *directory)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof path, "%s/" CELL_FILE_NAME, directory) < (int)sizeof path &&
	       (access(path, F_OK) == 0 || errno != ENOENT);
}

/* Makes the signing key; uses that of an earlier attempt, if there is one. */
static bool
make_key(const char *directory, uint8_t public_key[SIGN_PUBLIC], char *why, size_t why_size)
{
	char path[PATH_MAX];
	uint8_t secret[SIGN_SECRET];
	struct sign_keys keys = {0};
	bool ok = true;
	int rc;

	snprintf(path, sizeof path, "%s/" KEY_FILE, directory);
	rc = key_file_create_signing(path, secret, public_key);
	if (rc == -EEXIST) {
		ok = key_file_read_signing(path, &keys, why, why_size);
		memcpy(public_key, sign_public(keys.secret[0]), SIGN_PUBLIC);
	} else if (rc < 0) {
		ok = fail(why, why_size, directory, KEY_FILE, -rc);
	}
	explicit_bzero(secret, sizeof secret);
	explicit_bzero(&keys, sizeof keys);
	return ok;
}

static bool
make_files(const char *directory, const char *cell, char *why, size_t why_size)
{
	struct cell_file cell_file = {.replicas_n = 1,
	                              .replicas = {{.id = 1, .role = MEMBER_VOTER}}};
	char path[PATH_MAX];
	int rc;

	if (chmod(directory, 0700) < 0)
		return fail(why, why_size, directory, "", errno);
	if (!make_key(directory, cell_file.signing_public, why, why_size))
		return false;
	random_fill(cell_file.id, sizeof cell_file.id);
	snprintf(cell_file.name, sizeof cell_file.name, "%s", cell);
	snprintf(path, sizeof path, "%s/" CELL_FILE_NAME, directory);
	rc = cell_file_write(path, &cell_file);
	return rc == 0 || fail(why, why_size, directory, CELL_FILE_NAME, -rc);
}

/* Makes the files under the lock: of two first starts at once, the second is refused by the lock or
 * finds the finished files. */
static bool
make(const char *directory, const char *cell, char *why, size_t why_size)
{
	struct dir_lock lock;
	bool ok;

	if (!check_free(directory, why, why_size) ||
	    !dir_lock_take(&lock, directory, why, why_size))
		return false;
	ok = is_made(directory) ||
	     (check_free(directory, why, why_size) && make_files(directory, cell, why, why_size));
	dir_lock_release(&lock);
	return ok;
}

bool
standalone_prepare(const char *directory, const char *cell, struct cell_file *cell_file, char *why,
                   size_t why_size)
{
	char path[PATH_MAX];
	struct stat st;
	int rc;

	if (!cell_file_cell_name_valid(cell)) {
		snprintf(why, why_size, "%s: not a cell's name", cell);
		return false;
	}
	/* The names of the other files are longer by a few bytes. */
	if (snprintf(path, sizeof path, "%s/" CELL_FILE_NAME ".......", directory) >=
	    (int)sizeof path)
		return fail(why, why_size, "data directory", "", ENAMETOOLONG);
	rc = file_make_directory(directory, 0700);
	if (rc == -EEXIST)
		rc = 0;
	if (rc == 0 && stat(directory, &st) < 0)
		rc = -errno;
	if (rc == 0 && !S_ISDIR(st.st_mode))
		rc = -ENOTDIR;
	if (rc < 0)
		return fail(why, why_size, directory, "", -rc);
	if (!is_made(directory) && !make(directory, cell, why, why_size))
		return false;
	snprintf(path, sizeof path, "%s/" CELL_FILE_NAME, directory);
	if (!cell_file_read(path, cell_file, why, why_size))
		return false;
	if (!cell_file_is_standalone(cell_file))
		snprintf(why, why_size, "%s: a replica of cell %s: run it with lscell", directory,
		         cell_file->name);
	return cell_file_is_standalone(cell_file);
}
