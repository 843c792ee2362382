/* The health of a cell's replicas, as a table or as JSON. */
#ifndef LSFS_CTL_HEALTH_H
#define LSFS_CTL_HEALTH_H

#include <jansson.h>
#include "cell/config/cell_file.h"
#include "ctl/ask.h"

/* An object made of the replicas' answers, owned by the caller: the master and its usage, each
 * replica, the limits, and a list of problems, the worst first. */
json_t *health_json(const struct cell_file *cell_file, const struct answer answers[LIMIT_REPLICAS]);

/* Appends a line to a list of problems or reasons. */
void health_add(json_t *list, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints the replicas of such an object as a table, then its problems. */
void health_print(const json_t *health);
/* Prints the same with the replicas as members: which of them vote, and why the others do not. */
void health_print_members(const json_t *health);

#endif
