/* The cell file in a replica's data directory, kept as new as the cell's members: a replica that
 * has lost its state begins with the list that is there, and so does whoever looks for the cell in
 * the directory (`lsctl up`). It is replaced as a whole, by a thread: a disk may take its time. A
 * failed write or sync of it is one of the disk: nothing that is on it counts any more. */
#ifndef LSFS_IO_CELLFILE_H
#define LSFS_IO_CELLFILE_H

#include <uv.h>
#include "cell/io/conf.h"

struct cellfile;

struct cellfile_config {
	const char *directory;
	const struct conf *conf; /* what is in DIRECTORY/cell.conf */
	uint8_t self;            /* this replica's id */
	void (*failed)(void *user, const char *why); /* the disk has */
	void *user;
};

/* All is copied. */
struct cellfile *cellfile_new(uv_loop_t *loop, const struct cellfile_config *config);
/* The version that it has, or will have soon. */
uint64_t cellfile_version(const struct cellfile *c);
/* The members, with those that were removed. Nothing happens unless the version is a newer one; nor
 * when the replica itself was removed: it has to find its own key in the file. */
void cellfile_follow(struct cellfile *c, uint64_t version, const struct conf_replica *list, int n);
/* Waits for what is being written; then calls `stopped`, with nothing left on the loop or in
 * memory. Maybe at once. */
void cellfile_stop(struct cellfile *c, void (*stopped)(void *user), void *user);

#endif
