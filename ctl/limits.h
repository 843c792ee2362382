/* How near the limits of a cell are: an array of objects, each with the limit's name, whose it is,
 * its unit, what is used of it and how much there may be. */
#ifndef LSFS_CTL_LIMITS_H
#define LSFS_CTL_LIMITS_H

#include <jansson.h>
#include "ctl/ask.h"

enum { LIMITS_NEAR_PERCENT = 90 };

/* The limits that the replicas tell: those of the cell by the master, or else by the replica with
 * the newest state, and those of each replica. The caller owns the array. */
json_t *limits_of_replicas(const struct cell_file *cell_file,
                           const struct answer answers[LIMIT_REPLICAS]);
/* The quotas that a mount tells, of its status. The caller owns the array. */
json_t *limits_of_mount(const json_t *status);
/* Adds the longest queue of a lock, and the lock with the most holders. */
void limits_add_locks(json_t *limits, const json_t *locks);

/* How much of the limit is used. */
double limit_percent(const json_t *limit);
/* Prints the array as a table. */
void limits_print(const json_t *limits);

#endif
