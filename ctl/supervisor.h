/* The process in front of `lsctl lock`: starts the holder, passes signals on to the command, and
 * ends the command with everything that it has started before somebody else can have the lock. */
#ifndef LSFS_CTL_SUPERVISOR_H
#define LSFS_CTL_SUPERVISOR_H

#include "ctl/lock_options.h"

enum { EXIT_LOST = 75 }; /* EX_TEMPFAIL of sysexits(3) */

/* Acquires, runs the command (no shell), releases. The exit status: the command's, 128 + n when
 * signal n ended it, 127 or 126 when it could not be run (told); EXIT_LOST when the lock was lost
 * before it was released (told); that of the lock when it was not acquired. */
int supervisor_run(const struct lock_options *l);

#endif
