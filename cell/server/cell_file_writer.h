/* The cell file in a replica's data directory, kept as new as the cell's members: a replica that
 * has lost its state begins with the list that is there, and so does whoever looks for the cell in
 * the directory (`lsctl up`). It is replaced as a whole, by a thread: a disk may take its time. A
 * failed write or sync of it is one of the disk: nothing that is on it counts any more. */
#ifndef LSFS_SERVER_CELL_FILE_WRITER_H
#define LSFS_SERVER_CELL_FILE_WRITER_H

#include <uv.h>
#include "cell/config/cell_file.h"

struct cell_file_writer;

struct cell_file_writer_config {
	const char *directory;
	const struct cell_file *cell_file; /* what is in DIRECTORY/cell.conf */
	uint8_t self;            /* this replica's id */
	void (*failed)(void *user, const char *why); /* the disk has */
	void *user;
};

/* All is copied. */
struct cell_file_writer *cell_file_writer_new(uv_loop_t *loop,
                                              const struct cell_file_writer_config *config);
/* The version that it has, or will have soon. */
uint64_t cell_file_writer_version(const struct cell_file_writer *c);
/* The members, with those that were removed. Nothing happens unless the version is a newer one; nor
 * when the replica itself was removed: it has to find its own key in the file. */
void cell_file_writer_follow(struct cell_file_writer *c, uint64_t version,
                             const struct cell_file_replica *list, int n);
/* Waits for what is being written; then calls `stopped`, with nothing left on the loop or in
 * memory. Maybe at once. */
void cell_file_writer_stop(struct cell_file_writer *c, void (*stopped)(void *user), void *user);

#endif
