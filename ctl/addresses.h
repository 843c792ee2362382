/* The options that describe a new cell: --dir (where it is made), --replica (the addresses of its
 * replicas), --set (its settings) and --private. */
#ifndef LSFS_CTL_ADDRESSES_H
#define LSFS_CTL_ADDRESSES_H

#include "cell/config/cell_file.h"
#include "ctl/ctl.h"

struct addresses {
	const char *list[LIMIT_REPLICAS + 1]; /* one more than allowed, for the error message */
	int n;
	const char *set[SETTING_CODES]; /* NAME=VALUE, from --set */
	int set_n;
	bool is_private; /* --private */
};

/* Parses these and the global options; *directory is NULL when none is given. 0, or CTL_USAGE after
 * an error message. */
int addresses_scan(struct ctl *ctl, int argc, char **argv, const char **directory,
                   struct addresses *a);
/* Checks number and form of the addresses. 0, or CTL_USAGE after an error message. */
int addresses_check(const struct addresses *a, const struct ctl_command *command);
/* Makes the addresses the voters of *cell_file, with the ids 1, 2 and so on; without addresses a
 * cell in one process. */
void addresses_to_cell_file(const struct addresses *a, struct cell_file *cell_file);

#endif
