/* A process that strangers can connect to gives up root, capabilities, the execution of programs,
 * and files other than its own, so that a fault in it opens as little as possible. */
#ifndef LSFS_SYS_CONFINEMENT_H
#define LSFS_SYS_CONFINEMENT_H

#include <stdbool.h>
#include <stddef.h>

/* A process of root becomes one of the directory's owner, if that is another user. False with one
 * line in `why`: the process must not go on. */
bool confinement_drop_root(const char *directory, char *why, size_t why_size);

/* For the rest of its life the process has no capabilities and gets none, executes no program,
 * mounts nothing, and leaves no core dump; it writes only in these directories, and otherwise reads
 * only the files that a program's libraries need. A directory that does not exist is passed over;
 * the list ends with NULL. Measures that the kernel does not offer are left out. False with one
 * line in `why`: the kernel offers something and refuses it, and the process must not go on. */
bool confinement_enter(const char *const *directories, char *why, size_t why_size);

/* A mount of root, in two steps; that of another user is left as it is, since the helper that
 * unmounts it gets its rights when it is executed. Landlock is not used: it would deny reading
 * the callers' descriptors.
 *
 * Before the process has other threads: it gives up all capabilities but those to mount, to unmount
 * and to look at callers. False with one line in `why`. */
bool confinement_before_mount(char *why, size_t why_size);
/* Once it has mounted, for all its threads: it executes no program, mounts nothing, attaches to no
 * process, and opens files for reading only, unless it `has_files` (databases) of its own. False
 * with one line in `why`. */
bool confinement_enter_mounted(bool has_files, char *why, size_t why_size);

#endif
