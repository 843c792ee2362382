#include "cell/store/file_guard.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "cell/store/dir_lock.h"
#include "cell/store/log_db.h"
#include "cell/store/watermark.h"
#include "cell/store/state_db.h"

static const char *const names[FILE_GUARD_FILES] = {
    DIR_LOCK_FILE,  LOG_DB_FILE,   LOG_DB_FILE "-wal",
    WATERMARK_FILE, STATE_DB_FILE, STATE_DB_FILE "-wal",
};

static bool
stat_file(const char *directory, const char *name, struct stat *st)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof path, "%s/%s", directory, name) < (int)sizeof path &&
	       stat(path, st) == 0;
}

void
file_guard_begin(struct file_guard *w, const char *directory)
{
	struct stat st;

	*w = (struct file_guard){.directory = directory};
	for (int i = 0; i < FILE_GUARD_FILES; i++) {
		w->files[i].there = stat_file(directory, names[i], &st);
		if (!w->files[i].there)
			continue;
		w->files[i].device = st.st_dev;
		w->files[i].number = st.st_ino;
	}
}

bool
file_guard_check(const struct file_guard *w, char *why, size_t why_size)
{
	for (int i = 0; i < FILE_GUARD_FILES; i++) {
		struct stat st;
		bool there;

		if (!w->files[i].there)
			continue;
		there = stat_file(w->directory, names[i], &st);
		if (there && st.st_dev == w->files[i].device && st.st_ino == w->files[i].number)
			continue;
		snprintf(why, why_size, "%s was %s while it was in use", names[i],
		         there ? "replaced" : "removed");
		return false;
	}
	return true;
}
