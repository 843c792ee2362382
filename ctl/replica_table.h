/* The replicas of a cell for people, of an object of ctl/health.h. */
#ifndef LSFS_CTL_REPLICA_TABLE_H
#define LSFS_CTL_REPLICA_TABLE_H

#include <jansson.h>

/* Prints the replicas as a table, and the links between them. */
void replica_table_print(const json_t *health);
/* Prints the same with the replicas as members, and the problems: which of them vote, and why the
 * others do not. */
void replica_table_print_members(const json_t *health);

#endif
