/* The check of a command that runs under a lock: a shell command that is run at intervals. When it
 * fails several times in a row, the lock is released, so that another holder can do the work (as
 * with the health checks of a session of Consul). */
#ifndef LSFS_CTL_HEALTH_CHECK_H
#define LSFS_CTL_HEALTH_CHECK_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>
#include "cell/base/mono.h"

struct health_check {
	const char *command; /* for sh -c; NULL: there is no check */
	span_t every;
	int patience; /* the number of failures in a row after which the check has failed */
	int failures; /* in a row, so far */
	pid_t pid;    /* of the check that runs; 0: none */
	mono_t due;   /* the next check; MONO_NEVER: none */
};

/* Begins with a first check after one interval. */
void health_check_begin(struct health_check *c, mono_t now);
/* The check is due: starts it, as a child with the signal mask `mask`. A check that still runs has
 * failed, and is killed. */
void health_check_run(struct health_check *c, mono_t now, const sigset_t *mask);
/* A child has ended, which may have been the check. */
void health_check_ended(struct health_check *c, pid_t child, int status);
/* The command has ended: kills a check that still runs, with all its descendants. */
void health_check_end(struct health_check *c);
/* True when enough checks in a row have failed: the lock is to be given up. */
bool health_check_failed(const struct health_check *c);

#endif
