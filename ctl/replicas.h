/* The replicas of a cell that `up` runs on this machine: each a process with a data directory
 * DIR/ID. */
#ifndef LSFS_CTL_REPLICAS_H
#define LSFS_CTL_REPLICAS_H

#include <sys/types.h>
#include "cell/config/cell_file.h"
#include "cell/wire/noise.h"

/* Gives each replica of *conf an address on the loopback whose port nobody uses now. False after a
 * line. */
bool replicas_addresses(struct cell_file *cell_file);

/* The replicas that this call of `up` has started; 0: that one ran already. */
struct started {
	pid_t pids[LIMIT_REPLICAS];
	int fds[LIMIT_REPLICAS]; /* of pidfd_open */
};

/* Starts those that do not run and have a data directory here, and waits until they answer and
 * there is a master. False after a line that says why, when one has ended or time is over. Either
 * way *started is to be let go. */
bool replicas_start(const char *directory, const struct cell_file *cell_file,
                    const struct noise_pair *key, struct started *started);
/* Lets them run, or stops them again. */
void replicas_let_go(struct started *started, bool run);

/* Asks all that run to end, and waits until they have. False after a line for each that does
 * not. */
bool replicas_stop(const char *directory);

#endif
