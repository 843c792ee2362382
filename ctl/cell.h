/* The files of a cell on several machines: made once, found again. */
#ifndef LSFS_CTL_CELL_H
#define LSFS_CTL_CELL_H

#include "cell/io/conf.h"
#include "cell/wire/noise.h"
#include "ctl/ctl.h"

/* Makes the cell that `conf` names, with its replicas' ids and addresses, in `directory` (made if
 * only it is missing): all keys, whose public halves go into *conf, then DIR/1, DIR/2 ...,
 * DIR/admin.key and last DIR/CELL.conf. Contacts nobody and overwrites nothing; what was made is
 * removed again if something fails. False after a line that says why. */
bool cell_make(const char *directory, struct conf *conf);

/* Reads the cell file at `path`. False after a line that says why. */
bool cell_read(const char *path, struct conf *conf);
/* Finds and reads that of --cell, or of the only cell that is mounted, or of the one that `up` has
 * made; tells its path. False after a line. */
bool cell_find(const struct ctl *ctl, char path[PATH_MAX], struct conf *conf);
/* Where the cell file of a mounted cell is. */
void cell_file_of_mount(const struct run_record *record, char path[PATH_MAX]);
/* The key of --key, else admin.key beside the cell file, else the machine's or the user's: is there
 * one, and what is in it (false after a line). */
bool cell_has_key(const struct ctl *ctl, const char *file);
bool cell_key(const struct ctl *ctl, const char *file, struct noise_pair *pair);

#endif
