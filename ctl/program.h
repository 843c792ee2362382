/* Runs the project's other programs, lsfs and lscell. */
#ifndef LSFS_CTL_PROGRAM_H
#define LSFS_CTL_PROGRAM_H

#include <limits.h>
#include <sys/types.h>

/* Finds lsfs or lscell beside lsctl, as installed or as built; else `path` becomes the bare name,
 * to be looked up in $PATH. */
void program_find(const char *name, char path[PATH_MAX]);

/* Runs the program named argv[0] in `directory` (NULL: the current one) and waits for its end.
 * Returns an exit code of lsctl; an error message was printed by the program or here. */
int program_run(char *const argv[], const char *directory);

/* Starts the program named argv[0] in the background, detached from the terminal; its messages are
 * appended to the file `log`. Returns its process id, or -1 after an error message. */
pid_t program_start(char *const argv[], const char *log);

#endif
