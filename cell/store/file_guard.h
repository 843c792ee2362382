/* Files of a data directory that must stay where they are: who removes or replaces one under a
 * running process leaves it with files that nobody finds again. */
#ifndef LSFS_STORE_FILE_GUARD_H
#define LSFS_STORE_FILE_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { FILE_GUARD_FILES = 6 };

struct file_guard {
	const char *directory; /* not copied */
	struct {
		bool there;
		dev_t device;
		ino_t number;
	} files[FILE_GUARD_FILES];
};

/* Notes which files there are. */
void file_guard_begin(struct file_guard *w, const char *directory);
/* False, with one line in `why`, when one of them is gone or another one. */
bool file_guard_check(const struct file_guard *w, char *why, size_t why_size);

#endif
