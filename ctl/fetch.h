/* A copy of a cell's state, fetched part by part from one of its replicas. */
#ifndef LSFS_CTL_FETCH_H
#define LSFS_CTL_FETCH_H

#include "cell/config/cell_file.h"
#include "cell/wire/noise.h"

enum fetch_end {
	FETCH_DONE,
	FETCH_FAILED,  /* this replica cannot; another one may */
	FETCH_HOPELESS, /* none can: this principal may not, or our disk is full */
	FETCH_INTERRUPTED,
};

struct fetch {
	const struct cell_file *cell_file;
	const struct noise_pair *key;  /* of an administrator */
	const struct cell_file_replica *replica;
	uint64_t wanted;               /* log index: what is older is asked for anew */
	int fd;                        /* an empty file, for the copy */
	/* What became of it: */
	uint64_t applied, size;        /* log index and bytes of the copy */
	char why[256];                 /* it did not succeed */
};

/* Returns when the copy is whole (not synced), or after FETCH_PATIENCE_MS without an answer, or at
 * SIGINT, SIGTERM or SIGHUP: these are to be blocked by the caller, and one that came is left
 * waiting. */
enum fetch_end fetch_copy(struct fetch *f);

enum { FETCH_PATIENCE_MS = 10000 };

#endif
