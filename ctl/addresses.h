/* Where a new cell is made, and the addresses of its replicas: the options --dir, --replica and
 * --set. */
#ifndef LSFS_CTL_ADDRESSES_H
#define LSFS_CTL_ADDRESSES_H

#include "cell/config/cell_file.h"
#include "ctl/ctl.h"

struct addresses {
	const char *list[LIMIT_REPLICAS + 1]; /* one more than there may be, to be told */
	int n;
	const char *set[SETTING_CODES]; /* NAME=VALUE, of --set */
	int set_n;
};

/* Reads these and the global options; *directory NULL: none is given. 0, or CTL_USAGE after a
 * line. */
int addresses_scan(struct ctl *ctl, int argc, char **argv, const char **directory,
                   struct addresses *a);
/* 0, or CTL_USAGE after a line. */
int addresses_check(const struct addresses *a, const struct ctl_command *command);
/* Voters with the ids 1, 2 and so on; without an address a cell in one process. */
void addresses_to_cell_file(const struct addresses *a, struct cell_file *cell_file);

#endif
