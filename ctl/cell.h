/* The files of a cell on several machines: made once, found again. */
#ifndef LSFS_CTL_CELL_H
#define LSFS_CTL_CELL_H

#include "cell/io/conf.h"
#include "ctl/ctl.h"

/* Makes the cell that `conf` names, with its replicas' ids and addresses, in `directory` (made if
 * only it is missing): all keys, whose public halves go into *conf, then DIR/1, DIR/2 ..., DIR/admin.key and last
 * DIR/CELL.conf. Contacts nobody and overwrites nothing; what was made is removed again if something
 * fails. False after a line that says why. */
bool cell_make(const char *directory, struct conf *conf);

/* Reads the cell file at `path`. False after a line that says why. */
bool cell_read(const char *path, struct conf *conf);
/* Reads that of --cell, or of the only cell that is mounted, and tells its path (PATH_MAX bytes). */
bool cell_find(const struct ctl *ctl, char *path, struct conf *conf);

#endif
