/* The options of `lsctl lock`. */
#ifndef LSFS_CTL_LOCK_OPTIONS_H
#define LSFS_CTL_LOCK_OPTIONS_H

#include <stdbool.h>

struct lock_options {
	const char *path;
	char **command;
	bool shared;
	double wait_s;     /* longest wait in seconds; 0: no wait; negative: no limit */
	int busy_code;     /* exit code when the lock was not acquired */
	const char *delay; /* lock-delay in seconds; NULL: leave the node's as it is */
};

#endif
