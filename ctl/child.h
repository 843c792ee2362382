/* A command that we run for our caller as if it were run in our place. */
#ifndef LSFS_CTL_CHILD_H
#define LSFS_CTL_CHILD_H

/* Runs argv (no shell), passes on the signals that are sent to us, waits for its end. Its exit
 * status, 128 + n when signal n ended it, 127 or 126 when it could not be run (told). */
int child_run(char *const argv[]);

#endif
