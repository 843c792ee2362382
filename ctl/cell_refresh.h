/* Brings a cell file up to date, and gives the cell another signing key. */
#ifndef LSFS_CTL_CELL_REFRESH_H
#define LSFS_CTL_CELL_REFRESH_H

#include "ctl/cell_admin.h"

/* Asks the cell for its list of replicas and its signing keys, and puts them into the cell file of
 * --cell, or of the only cell mounted, if they are newer than those there. Returns an exit code. */
int cell_refresh(const struct ctl *ctl);
/* Rotates the cell's signing key, and brings that cell file up to date. Returns an exit code. */
int cell_rotate_key(const struct ctl *ctl);
/* Asks the cell for its signing keys, into o->cell_file. False: no replica answers. */
bool cell_refresh_keys(struct cell_admin *o);

#endif
