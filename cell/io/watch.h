/* Files of a data directory that must stay where they are: who removes or replaces one under a
 * running process leaves it with files that nobody finds again. */
#ifndef LSFS_IO_WATCH_H
#define LSFS_IO_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { WATCHED = 6 };

struct watch {
	const char *directory; /* not copied */
	struct {
		bool there;
		dev_t device;
		ino_t number;
	} files[WATCHED];
};

/* Notes which files there are. */
void watch_begin(struct watch *w, const char *directory);
/* False, with one line in `why`, when one of them is gone or another one. */
bool watch_check(const struct watch *w, char *why, size_t why_size);

#endif
