/* How the replicas of a cell are, for people and for programs. */
#ifndef LSFS_CTL_HEALTH_H
#define LSFS_CTL_HEALTH_H

#include <jansson.h>
#include "cell/config/cell_file.h"
#include "ctl/ask.h"

/* One object of what the replicas answered: the master and what it has, each replica, and a list of
 * problems, the worst first. */
json_t *health_json(const struct cell_file *cell_file, const struct answer answers[LIMIT_REPLICAS]);

/* The replicas of such an object as a table, then its problems. */
void health_print(const json_t *health);
/* The same with the replicas as members: who has a vote, and why one has none. */
void health_print_members(const json_t *health);

#endif
