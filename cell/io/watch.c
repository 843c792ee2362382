#include "cell/io/watch.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "cell/io/dirlock.h"
#include "cell/io/logdb.h"
#include "cell/io/marks.h"
#include "cell/io/statedb.h"

static const char *const names[WATCHED] = {
    DIRLOCK_FILE,  LOGDB_FILE,   LOGDB_FILE "-wal",
    MARKS_FILE, STATEDB_FILE, STATEDB_FILE "-wal",
};

static bool
look(const char *directory, const char *name, struct stat *st)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof path, "%s/%s", directory, name) < (int)sizeof path &&
	       stat(path, st) == 0;
}

void
watch_begin(struct watch *w, const char *directory)
{
	struct stat st;

	*w = (struct watch){.directory = directory};
	for (int i = 0; i < WATCHED; i++) {
		w->files[i].there = look(directory, names[i], &st);
		if (!w->files[i].there)
			continue;
		w->files[i].device = st.st_dev;
		w->files[i].number = st.st_ino;
	}
}

bool
watch_check(const struct watch *w, char *why, size_t why_size)
{
	for (int i = 0; i < WATCHED; i++) {
		struct stat st;
		bool there;

		if (!w->files[i].there)
			continue;
		there = look(w->directory, names[i], &st);
		if (there && st.st_dev == w->files[i].device && st.st_ino == w->files[i].number)
			continue;
		snprintf(why, why_size, "%s was %s while it was in use", names[i],
		         there ? "replaced" : "removed");
		return false;
	}
	return true;
}
