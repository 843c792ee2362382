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

/* The addresses of a new cell's replicas, as --replica gives them. */
struct addresses {
	const char *list[LIMIT_REPLICAS];
	int n;
};

/* Takes one more; false after an error message. */
bool addresses_take(void *to, const char *text);
/* Makes the addresses the voters of *cell_file, with the ids 1, 2 and so on; without addresses a
 * cell in one process. */
void addresses_to_cell_file(const struct addresses *a, struct cell_file *cell_file);

/* The cell file at `path` as a JSON object, owned by the caller. */
json_t *cell_json(const char *path, const struct cell_file *cell_file);

/* Asks the cell for its signing keys, into *cell_file, whose replicas are asked. False: none of
 * them answers. */
bool cell_ask_keys(struct cell_file *cell_file, const struct noise_pair *key);
/* True if the cell, which has the members *members, has a newer signing key than the cell file
 * *given. */
bool cell_lacks_key(const struct cell_file *given, const struct cell_file *members,
                    const struct noise_pair *key);

/* Reads the cell file at `path`. False after an error message. */
bool cell_read(const char *path, struct cell_file *cell_file);
/* Finds and reads the cell file of --cell, else that of the only mounted cell, else that of the
 * cell that `up` has made; puts its path into `path`. False after an error message. */
bool cell_find(const struct ctl *ctl, char path[PATH_MAX], struct cell_file *cell_file);
/* Finds and reads the cell file in the directory of a cell of `up`: CELL.conf, or cell.conf of a
 * cell in one process. 1; 0 if there is none; -1 after an error message: the directory holds
 * another cell than `cell` (NULL: any is meant). */
int cell_in_directory(const char *directory, const char *cell, char path[PATH_MAX],
                      struct cell_file *cell_file);
/* Puts the path of a mounted cell's cell file into `path`. */
void cell_file_of_mount(const struct run_record *record, char path[PATH_MAX]);
/* True when there is a key to be used: that of --key, else admin.key beside the cell file, else the
 * machine's, else the user's. */
bool cell_has_key(const struct ctl *ctl, const char *file);
/* Reads that key into *pair; false after an error message. */
bool cell_key(const struct ctl *ctl, const char *file, struct noise_pair *pair);

#endif
