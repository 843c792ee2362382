/* A process that strangers talk to gives up what it does not need, so that a fault in it opens as
 * little as can be: root, capabilities, programs to execute, files other than its own. */
#ifndef LSFS_SYS_CONFINEMENT_H
#define LSFS_SYS_CONFINEMENT_H

#include <stdbool.h>
#include <stddef.h>

/* A process of root becomes one of the directory's owner, if that is another user. False with one
 * line in `why`: the process must not go on. */
bool confinement_drop_root(const char *directory, char *why, size_t why_size);

/* For the rest of the process's life: it has no capabilities and gets none, executes no program,
 * mounts nothing, leaves no core dump; it writes in these directories only, and reads beside them
 * only what a program's libraries read. A directory that does not exist is passed over; the list
 * ends with NULL. Measures that the kernel does not offer are left out. False with one line in
 * `why`: the kernel offers something and refuses it, and the process must not go on. */
bool confinement_enter(const char *const *directories, char *why, size_t why_size);

#endif
