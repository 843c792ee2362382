/* Our own programs, run by lsctl. */
#ifndef LSFS_CTL_PROGRAM_H
#define LSFS_CTL_PROGRAM_H

#include <limits.h>
#include <sys/types.h>

/* Where lsfs or lscell is: beside lsctl, installed or as built; else the PATH decides. */
void program_find(const char *name, char path[PATH_MAX]);

/* Runs it from `directory` (NULL: from here) and waits for its end; argv[0] is its name. An exit
 * code of ours, after a line if it did not tell itself. */
int program_run(char *const argv[], const char *directory);

/* Starts it in the background, apart from our terminal, with its messages appended to the file
 * `log`. Its process id, or -1 after a line. */
pid_t program_start(char *const argv[], const char *log);

#endif
