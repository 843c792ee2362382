/* The check of a command that runs under a lock: a shell command that is run again and again, and
 * whose failures, one after the other, mean that the holder is of no use and gives the lock up
 * (as the health checks that a session of Consul depends on). */
#ifndef LSFS_CTL_HEALTH_CHECK_H
#define LSFS_CTL_HEALTH_CHECK_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>
#include "cell/base/mono.h"

struct health_check {
	const char *command; /* for sh -c; NULL: there is no check */
	span_t every;
	int patience; /* the number of failures in a row that count */
	int failures; /* in a row, so far */
	pid_t pid;    /* of the one that runs; 0: none */
	mono_t due;   /* the next one; MONO_NEVER: none */
};

/* Begins with a first check after one interval. */
void health_check_begin(struct health_check *c, mono_t now);
/* The check is due: starts it, as a child with the signal mask `mask`. One that still runs has
 * failed, and is killed. */
void health_check_run(struct health_check *c, mono_t now, const sigset_t *mask);
/* A child has ended, which may have been the check. */
void health_check_ended(struct health_check *c, pid_t child, int status);
/* Kills a check that still runs, with all that it has started: the command has ended. */
void health_check_end(struct health_check *c);
/* True when so many have failed in a row that the lock is to be given up. */
bool health_check_failed(const struct health_check *c);

#endif
