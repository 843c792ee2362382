/* The options that `lsctl lock` and `lsctl elect` have in common. */
#ifndef LSFS_CTL_LOCK_OPTIONS_H
#define LSFS_CTL_LOCK_OPTIONS_H

#include <stdbool.h>

struct ctl;
struct ctl_command;

struct lock_options {
	const char *path;
	char **command;
	bool shared;
	double wait_s;     /* longest wait in seconds; 0: no wait; negative: no limit */
	int busy_code;     /* exit code when the lock was not acquired */
	bool freeze;       /* the command, while the session is in jeopardy */
	const char *delay; /* lock-delay in seconds; NULL: leave the node's as it is */
	bool elects;       /* `value` is written into the file before the command is run */
	const char *value; /* NULL: the host and the process id */
};

#define LOCK_OPTIONS_USAGE                                                   \
	"[-s] [-n|-w SECONDS] [-E CODE] [--lock-delay SECONDS] [--jeopardy " \
	"freeze|ignore]"

/* Parses options and PATH, with options before and after it, and leaves optind behind them; to be
 * called with *l zeroed. False after an error message, and when the help is wanted. */
bool lock_options_scan(struct ctl *ctl, const struct ctl_command *command, struct lock_options *l,
                       int argc, char **argv);

#endif
