/* The main process of `lsctl lock`: starts the holder, forwards signals to the command, and kills
 * the command with all its descendants before the lock can be granted to another client. */
#ifndef LSFS_CTL_SUPERVISOR_H
#define LSFS_CTL_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>

struct lock_options {
	const char *path;
	char **command;
	bool shared;
	int slots;         /* of a counting lock; 0: as many as its node has */
	double wait_s;     /* longest wait in seconds; 0: no wait; negative: no limit */
	int busy_code;     /* exit code when the lock was not acquired */
	bool freeze;       /* the command, while the session is in jeopardy */
	const char *delay; /* lock-delay in seconds; NULL: leave the node's as it is */
	bool elects;       /* `value` is written into the file before the command is run */
	const char *value; /* NULL: the host and the process id */
	bool restarts;     /* the command, when it has ended and the lock is acquired again */
	bool clears;       /* the file is emptied before the lock is released */
	int64_t every_s;   /* the command runs once in such a period; 0: each time */
	const char *check; /* a shell command that fails when the command is of no use; or NULL */
	double check_every_s;
	int check_fails; /* the number of failures in a row after which the lock is given up */
};

enum {
	EXIT_LOST = 75, /* EX_TEMPFAIL of sysexits(3) */
	EXIT_CHECK = 76,
};

/* Acquires the lock, runs the command (without a shell), releases the lock. Returns the exit
 * status: the command's, 128 + n when signal n ended it, 127 or 126 when it could not be run;
 * EXIT_LOST when the lock was lost before its release, EXIT_CHECK when it was given up for the
 * check; the option's busy_code or CTL_FAILED when it was not acquired. An error message precedes
 * each of these but the command's own. With `restarts` all is done again, unless the command was
 * not run, or was told to end by a signal. */
int supervisor_run(const struct lock_options *l);

#endif
