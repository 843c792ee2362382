/* The replicas of a cell that `up` runs on this machine: each a process with a data directory
 * DIR/ID. */
#ifndef LSFS_CTL_REPLICAS_H
#define LSFS_CTL_REPLICAS_H

#include "cell/io/conf.h"
#include "cell/wire/noise.h"

/* Gives each replica of *conf an address on the loopback whose port nobody uses now. False after a
 * line. */
bool replicas_addresses(struct conf *conf);

/* Starts those that do not run, and waits until they answer and there is a master. If one ends or
 * time is over, those that were started here are stopped again. False after a line that says why. */
bool replicas_start(const char *directory, const struct conf *conf, const struct noise_pair *key);

/* Asks all that run to end, and waits until they have. False after a line for each that does not. */
bool replicas_stop(const char *directory);

#endif
