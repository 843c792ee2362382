/* Keeps the cell file in a replica's data directory as new as the cell's list of members: a replica
 * that has lost its state starts with that list, and `lsctl up` finds the cell through it. The file
 * is replaced as a whole. When writing or syncing it fails, the disk has failed, and none of the
 * data on it can be relied on. */
#ifndef LSFS_SERVER_CELL_FILE_WRITER_H
#define LSFS_SERVER_CELL_FILE_WRITER_H

#include "cell/server/server_io.h"

struct cell_file_writer;

/* `io` must outlive the writer. `cell_file`, the file in the data directory, is copied. `self`: the
 * id of this replica. */
struct cell_file_writer *cell_file_writer_new(const struct server_io *io,
                                              const struct cell_file *cell_file, uint8_t self);
void cell_file_writer_free(struct cell_file_writer *c);
/* The version that the file has, or that is being written or waits to be. */
uint64_t cell_file_writer_version(const struct cell_file_writer *c);
/* Sets the members, removed ones included; the list is copied. Ignored unless the version is newer,
 * and when this replica itself was removed: a server must find its own key in the file. */
void cell_file_writer_follow(struct cell_file_writer *c, uint64_t version,
                             const struct cell_file_replica *list, int n);
/* Passes on server_cell_file_written. */
void cell_file_writer_written(struct cell_file_writer *c, enum rc rc, const char *why);

#endif
