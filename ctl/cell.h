/* The files of a cell: cell_make makes them, cell_find finds the cell file that a user means. */
#ifndef LSFS_CTL_CELL_H
#define LSFS_CTL_CELL_H

#include <jansson.h>
#include "cell/config/cell_file.h"
#include "cell/wire/noise.h"
#include "ctl/ctl.h"

/* The state with which a new cell begins; `place` writes it to `path`. 0 or -errno. */
struct cell_state {
	int (*place)(void *user, const char *path);
	void *user;
};

/* Makes the cell described by *cell_file (name, settings, ids and addresses of replicas) in
 * `directory`, whose parent must exist: all keys, whose public halves are put into *cell_file, then
 * DIR/1, DIR/2 ..., DIR/admin.key and last DIR/CELL.conf. For a cell in one process DIR is its data
 * directory. Connects to no replica and overwrites nothing; after an error all files made so far
 * are removed. `state` NULL: the cell is empty. False after an error message. */
bool cell_make(const char *directory, struct cell_file *cell_file, const struct cell_state *state);
/* Prints the files that cell_make has made, and their purpose. */
void cell_print_made(const char *directory, const struct cell_file *cell_file);
/* The cell file at `path` as a JSON object, owned by the caller. */
json_t *cell_json(const char *path, const struct cell_file *cell_file);

/* Reads the cell file at `path`. False after an error message. */
bool cell_read(const char *path, struct cell_file *cell_file);
/* Finds and reads the cell file of --cell, else that of the only mounted cell, else that of the
 * cell that `up` has made; puts its path into `path`. False after an error message. */
bool cell_find(const struct ctl *ctl, char path[PATH_MAX], struct cell_file *cell_file);
/* Puts the path of a mounted cell's cell file into `path`. */
void cell_file_of_mount(const struct run_record *record, char path[PATH_MAX]);
/* True when there is a key to be used: that of --key, else admin.key beside the cell file, else the
 * machine's, else the user's. */
bool cell_has_key(const struct ctl *ctl, const char *file);
/* Reads that key into *pair; false after an error message. */
bool cell_key(const struct ctl *ctl, const char *file, struct noise_pair *pair);

#endif
