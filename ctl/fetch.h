/* A copy of a cell's state, fetched part by part from one of its replicas: cell/server/state_fetch
 * decides, this module carries it out, on connections of its own. */
#ifndef LSFS_CTL_FETCH_H
#define LSFS_CTL_FETCH_H

#include "cell/config/cell_file.h"
#include "cell/wire/noise.h"

enum fetch_end {
	FETCH_DONE,
	FETCH_FAILED,      /* no replica can send a copy, or it can't be written */
	FETCH_INTERRUPTED, /* by a signal */
};

/* A replica that may be asked for a copy. */
struct fetch_source {
	const struct cell_file_replica *replica;
	uint64_t least; /* the applied index that a copy of it must reach */
};

struct fetch {
	const struct cell_file *cell_file;
	const struct noise_pair *key;                /* of an administrator */
	struct fetch_source sources[LIMIT_REPLICAS]; /* in the order in which they are asked */
	int sources_n;
	int fd; /* an empty file, for the copy */
	/* The result: */
	int replica;            /* the source of the copy */
	uint64_t applied, size; /* applied index and bytes of the copy */
	char why[256];          /* the reason of the last failure */
};

/* Fetches a copy from the first source that can send one, and logs a line for each source before
 * it. Returns when the copy is complete (not synced), when no source is left or none can help (no
 * permission, this disk is full), or at SIGINT, SIGTERM or SIGHUP: the caller blocks these signals,
 * and the one that arrived is pending again at the return. A source that does not answer for
 * FETCH_PATIENCE_MS is given up. */
enum fetch_end fetch_copy(struct fetch *f);

enum { FETCH_PATIENCE_MS = 10000 };

#endif
