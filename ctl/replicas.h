/* Starts and stops the replicas of a cell that `up` runs on this machine, each a process with the
 * data directory DIR/ID; and runs the project's other programs. */
#ifndef LSFS_CTL_REPLICAS_H
#define LSFS_CTL_REPLICAS_H

#include <sys/types.h>
#include "cell/config/cell_file.h"
#include "cell/wire/noise.h"

/* Gives each replica of *cell_file a loopback address whose port is free at the moment. False after
 * an error message. */
bool replicas_addresses(struct cell_file *cell_file);

/* The replicas that one call of replicas_start has started. */
struct started {
	pid_t pids[LIMIT_REPLICAS]; /* 0: the replica ran already */
	int fds[LIMIT_REPLICAS];    /* of pidfd_open */
};

/* Starts the replicas that have a data directory here and do not run yet, and waits until they
 * answer and there is a master. False after an error message when a replica has ended or it takes
 * too long. replicas_let_go must follow in both cases. */
bool replicas_start(const char *directory, const struct cell_file *cell_file,
                    const struct noise_pair *key, struct started *started);
/* Releases *started, and stops the replicas in it unless they are to run on (`run`). */
void replicas_let_go(struct started *started, bool run);

/* Asks all running replicas to end, and waits until they have. False after an error message for
 * each that does not. */
bool replicas_stop(const char *directory);

/* ---- program.c ---- */

/* Runs the program named argv[0] in `directory` (NULL: the current one) and waits for its end.
 * Returns an exit code of lsctl; an error message was printed by the program or here. */
int program_run(char *const argv[], const char *directory);

/* Starts the program named argv[0] in the background, detached from the terminal; its messages are
 * appended to the file `log`. Returns its process id, or -1 after an error message. */
pid_t program_start(char *const argv[], const char *log);

#endif
