/* Keys to which others than their owner have access. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "ctl/doctor.h"

void
doctor_key(json_t *findings, const char *path)
{
	struct stat st;

	if (stat(path, &st) == 0 && (st.st_mode & 077) != 0)
		doctor_add(findings, path,
		           "chmod 600, and replace the key if others may have read it",
		           "others may read or write this key (mode %04o)",
		           (unsigned)(st.st_mode & 07777));
}

static void
key_in(json_t *findings, const char *directory, const char *name)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof path, "%s/%s", directory, name) < PATH_MAX)
		doctor_key(findings, path);
}

/* A data directory holds the key of a replica, and the cell's signing key. */
static void
look_at_directory(json_t *findings, const char *directory)
{
	char key[PATH_MAX];
	struct stat st;

	if (snprintf(key, sizeof key, "%s/replica.key", directory) >= PATH_MAX ||
	    stat(key, &st) < 0 || stat(directory, &st) < 0)
		return;
	if ((st.st_mode & 077) != 0)
		doctor_add(findings, directory, "chmod 700",
		           "others have access to this data directory (mode %04o)",
		           (unsigned)(st.st_mode & 07777));
	doctor_key(findings, key);
	key_in(findings, directory, "signing.key");
}

void
doctor_keys_beside(json_t *findings, const char *file)
{
	const char *slash = strrchr(file, '/');
	char directory[PATH_MAX], data[PATH_MAX];

	snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - file) : 1,
	         slash ? file : ".");
	key_in(findings, directory, "admin.key");
	look_at_directory(findings, directory);
	for (int id = 1; id <= LIMIT_REPLICA_ID; id++)
		if (snprintf(data, sizeof data, "%s/%d", directory, id) < PATH_MAX)
			look_at_directory(findings, data);
}
