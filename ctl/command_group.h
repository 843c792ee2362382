/* The processes of a command that runs under a lock: the command and all its descendants. They are
 * in a cgroup of their own (cgroups(7), version 2) where the user may make one: it is frozen and
 * killed as a whole. Elsewhere, and those that have left it, they are the descendants of the
 * calling process, which must be a subreaper, and are stopped and killed one by one. */
#ifndef LSFS_CTL_COMMAND_GROUP_H
#define LSFS_CTL_COMMAND_GROUP_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "cell/base/mono.h"

struct command_group {
	char cgroup[PATH_MAX]; /* its directory; empty if there is none */
	bool frozen;
	pid_t *stopped; /* the processes that were stopped to freeze the group; owned */
	size_t stopped_n, stopped_room;
	int foreign;  /* the processes of other users, which did not get the last signal */
	pid_t guard;  /* a child: kills the frozen group when the calling process ends */
	int to_guard; /* -1 if there is none */
};

/* Chooses the name of the group's cgroup: before the fork of the process that is to enter it. */
void command_group_name(struct command_group *g);
/* Makes the cgroup, still empty. */
void command_group_make(struct command_group *g);
/* Moves the calling process into the cgroup of that name, if another process has made it. */
void command_group_enter(const struct command_group *g);
/* The command runs: if it could not enter the cgroup, the group does without. */
void command_group_started(struct command_group *g, pid_t command);

/* Freezes all processes of the group; the child `spared` of the calling process is no part of it.
 * If the calling process is killed while they are frozen, they are killed, too: nobody could thaw
 * them. */
void command_group_freeze(struct command_group *g, pid_t spared);
/* Kills all processes of the group; returns the number of those that still lived. A process may
 * have just started another one: call it again until it returns 0. */
int command_group_kill(struct command_group *g, pid_t spared);

/* Words for a message about the last signal: how many did not get it, being another user's; "" for
 * none. They are overwritten by the next call. */
const char *command_group_but_for(const struct command_group *g);

/* Lets them all go on; nothing happens if the group is not frozen. */
void command_group_thaw(struct command_group *g);
/* Thaws the group and removes it; its living processes go on outside of it. */
void command_group_remove(struct command_group *g);

/* ---- the descendants of the calling process; those of a subreaper (prctl(2)) include processes
 * whose own parents have ended ---- */

struct descendant {
	pid_t pid;
	bool stopped; /* by a signal */
};

/* All living descendants of the calling process but `spared`: an array of *n, owned by the caller;
 * NULL when there are none. A process that is started meanwhile may be missed. */
struct descendant *descendants_list(pid_t spared, size_t *n);

/* Sends the signal `number` to every living descendant of the calling process but `spared`; returns
 * their number. *foreign of them did not get it, since they belong to other users. A process that
 * is started meanwhile may be missed: call it again until it returns 0. */
int descendants_signal(int number, pid_t spared, int *foreign);

/* ---- the check of the command: a shell command that is run at intervals. When it fails several
 * times in a row, the lock is released, so that another holder can do the work (as with the health
 * checks of a session of Consul) ---- */

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
