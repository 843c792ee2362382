/* The files of a cell on several machines: made once, found again. */
#ifndef LSFS_CTL_CELL_H
#define LSFS_CTL_CELL_H

#include <jansson.h>
#include "cell/config/cell_file.h"
#include "cell/wire/noise.h"
#include "ctl/ctl.h"

/* What a new cell begins with: puts the state of its first moment to `path`. 0 or -errno. */
struct cell_state {
	int (*place)(void *user, const char *path);
	void *user;
};

/* Makes the cell that `cell_file` names, with its replicas' ids and addresses, in `directory` (made
 * if only it is missing): all keys, whose public halves go into *conf, then DIR/1, DIR/2 ...,
 * DIR/admin.key and last DIR/CELL.conf. For a cell in one process DIR is its data directory.
 * Contacts nobody and overwrites nothing; what was made is removed again if something fails. False
 * after a line that says why. `state` NULL: the cell is empty. */
bool cell_make(const char *directory, struct cell_file *cell_file, const struct cell_state *state);
/* Tells the user what lies where now. */
void cell_tell_made(const char *directory, const struct cell_file *cell_file);
/* Its cell file as JSON. */
json_t *cell_json(const char *path, const struct cell_file *cell_file);

/* Reads the cell file at `path`. False after a line that says why. */
bool cell_read(const char *path, struct cell_file *cell_file);
/* Finds and reads that of --cell, or of the only cell that is mounted, or of the one that `up` has
 * made; tells its path. False after a line. */
bool cell_find(const struct ctl *ctl, char path[PATH_MAX], struct cell_file *cell_file);
/* Where the cell file of a mounted cell is. */
void cell_file_of_mount(const struct run_record *record, char path[PATH_MAX]);
/* The key of --key, else admin.key beside the cell file, else the machine's or the user's: is there
 * one, and what is in it (false after a line). */
bool cell_has_key(const struct ctl *ctl, const char *file);
bool cell_key(const struct ctl *ctl, const char *file, struct noise_pair *pair);

#endif
