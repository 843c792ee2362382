/* The health of a cell's replicas, and how near its limits are, as tables or as JSON. */
#ifndef LSFS_VIEW_HEALTH_H
#define LSFS_VIEW_HEALTH_H

#include <jansson.h>
#include "cell/config/cell_file.h"
#include "cell/view/ask.h"

/* An object made of the replicas' answers, owned by the caller: the master and its usage, each
 * replica, the limits, and the findings about them as `problems`, the worst first. */
json_t *health_json(const struct cell_file *cell_file, const struct answer answers[LIMIT_REPLICAS]);

/* Appends a finding for each limit of the array that is near. */
void health_add_limits(json_t *findings, const json_t *limits);

/* ---- limits: an array of objects, each with the limit's name, its owner, its unit, how much of it
 * is used, and how much there may be ---- */

/* Adds a limit. */
void limits_add(json_t *limits, const char *name, const char *of, const char *unit, uint64_t used,
                uint64_t most);
/* The limits that the replicas tell: those of the cell by the master, or else by the replica with
 * the newest state, and those of each replica. The caller owns the array. */
json_t *limits_of_replicas(const struct cell_file *cell_file,
                           const struct answer answers[LIMIT_REPLICAS]);
/* The quotas that a mount tells, of its status. The caller owns the array. */
json_t *limits_of_mount(const json_t *status);
/* Adds the longest queue of a lock, and the lock with the most holders. */
void limits_add_locks(json_t *limits, const json_t *locks);
/* The part of the limit that is used, in percent. */
double limit_percent(const json_t *limit);
/* Prints the array as a table. */
void limits_print(const json_t *limits);

#endif
