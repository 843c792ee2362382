/* Brings a cell file up to date. */
#ifndef LSFS_CTL_CELL_REFRESH_H
#define LSFS_CTL_CELL_REFRESH_H

#include "ctl/ctl.h"

/* Asks the cell for its list of replicas, and puts it into the cell file of --cell, or of the only
 * cell mounted, if it is newer than the one there. Returns an exit code. */
int cell_refresh(const struct ctl *ctl);

#endif
