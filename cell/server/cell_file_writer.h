/* Keeps the cell file in a replica's data directory as new as the cell's list of members: a replica
 * that has lost its state starts with that list, and `lsctl up` finds the cell through it. It keeps
 * the signing keys beside it, which are written before the cell file names them. The files
 * are replaced as a whole. When writing or syncing it fails, the disk has failed, and none of the
 * data on it can be relied on. Without room, and after other errors, it is tried again. */
#ifndef LSFS_SERVER_CELL_FILE_WRITER_H
#define LSFS_SERVER_CELL_FILE_WRITER_H

#include "cell/config/identity.h"
#include "cell/server/server_io.h"

struct cell_file_writer;

/* `io` must outlive the writer. `identity`, what is in the data directory, is copied. */
struct cell_file_writer *cell_file_writer_new(const struct server_io *io,
                                              const struct identity *identity);
/* Frees it; what was to be written is forgotten. */
void cell_file_writer_free(struct cell_file_writer *c);
/* The version that the file has, or that is being written or waits to be. */
uint64_t cell_file_writer_version(const struct cell_file_writer *c);
/* Sets the members, removed ones included; the list is copied. Ignored unless the version is newer,
 * and when this replica itself was removed: a server must find its own key in the file. */
void cell_file_writer_follow(struct cell_file_writer *c, uint64_t version,
                             const struct cell_file_replica *list, int n);
/* Sets the secret signing keys, and those whose public halves the cell file names: the newest, and
 * the one before, in force since that log index. NULL: those that it names now. */
void cell_file_writer_set_keys(struct cell_file_writer *c, const struct sign_keys *keys,
                               const uint8_t *newest, const uint8_t *former, uint64_t since);
/* Writes the files again, because the last attempt has failed; nothing while they are written. */
void cell_file_writer_retry(struct cell_file_writer *c);
/* The time at which cell_file_writer_timeout must be called. */
mono_t cell_file_writer_deadline(const struct cell_file_writer *c);
/* Writes them again, if that is due. */
void cell_file_writer_timeout(struct cell_file_writer *c, mono_t now);
/* True while the files are written. */
bool cell_file_writer_busy(const struct cell_file_writer *c);
/* The signing keys that are on disk. */
const struct sign_keys *cell_file_writer_keys(const struct cell_file_writer *c);
/* Passes on server_cell_file_written. */
void cell_file_writer_written(struct cell_file_writer *c, enum rc rc, bool keys_kept,
                              const char *why);

#endif
