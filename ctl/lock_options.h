/* What `lsctl lock` was asked for. */
#ifndef LSFS_CTL_LOCK_OPTIONS_H
#define LSFS_CTL_LOCK_OPTIONS_H

#include <stdbool.h>

struct lock_options {
	const char *path;
	char **command;
	bool shared;
	double wait_s;     /* 0: not at all; negative: for ever */
	int busy_code;     /* exit code when it was not acquired */
	const char *delay; /* seconds, or NULL: what stands there */
};

#endif
