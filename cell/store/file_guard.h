/* Detects that a file of the data directory was removed or replaced while the process has it open.
 * Writes would then go to a file that no later start can find. */
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

/* Records which files exist now, and their inodes. */
void file_guard_begin(struct file_guard *w, const char *directory);
/* False, with one line in `why`, when one of them was removed or replaced. */
bool file_guard_check(const struct file_guard *w, char *why, size_t why_size);

#endif
