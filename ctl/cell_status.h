/* The state of a cell as a JSON object. Of a mounted cell that is .cell/status of the mount and its
 * usage; of a cell with replicas on a network, the answers of the replicas. */
#ifndef LSFS_CTL_CELL_STATUS_H
#define LSFS_CTL_CELL_STATUS_H

#include <jansson.h>
#include "ctl/ctl.h"

/* The state of the cell that is mounted at `path`, or of that of --cell, or of the only one
 * mounted; the caller owns it. Its `problems` are the findings about the cell and the mount; if
 * `thorough`, also about the files and keys by which this machine knows the cell. NULL after an
 * error message. */
json_t *cell_status(const struct ctl *ctl, const char *path, bool thorough);
/* True if the cell has a master and, if it is mounted, the session of the mount is safe: nothing
 * found is as severe as that. */
bool cell_status_is_good(const json_t *status);
/* Prints it: a line for each value, a table of the replicas, then the problems. */
void cell_status_print(json_t *status);

#endif
