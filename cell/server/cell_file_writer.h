/* The cell file in a replica's data directory, kept as new as the cell's members: a replica that
 * has lost its state begins with the list that is there, and so does whoever looks for the cell in
 * the directory (`lsctl up`). It is replaced as a whole. A failed write or sync of it is one of the
 * disk: nothing that is on it counts any more. */
#ifndef LSFS_SERVER_CELL_FILE_WRITER_H
#define LSFS_SERVER_CELL_FILE_WRITER_H

#include "cell/server/server_io.h"

struct cell_file_writer;

/* `io` outlives it; `cell_file` is what the data directory has, copied; `self` this replica's
 * id. */
struct cell_file_writer *cell_file_writer_new(const struct server_io *io,
                                              const struct cell_file *cell_file, uint8_t self);
void cell_file_writer_free(struct cell_file_writer *c);
/* The version that it has, or will have soon. */
uint64_t cell_file_writer_version(const struct cell_file_writer *c);
/* The members, with those that were removed. Nothing happens unless the version is a newer one; nor
 * when the replica itself was removed: it has to find its own key in the file. */
void cell_file_writer_follow(struct cell_file_writer *c, uint64_t version,
                             const struct cell_file_replica *list, int n);
/* server_cell_file_written. */
void cell_file_writer_written(struct cell_file_writer *c, enum rc rc, const char *why);

#endif
