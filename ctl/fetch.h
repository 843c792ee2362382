/* A copy of a cell's state, fetched part by part from one of its replicas. */
#ifndef LSFS_CTL_FETCH_H
#define LSFS_CTL_FETCH_H

#include "cell/config/cell_file.h"
#include "cell/wire/noise.h"

enum fetch_end {
	FETCH_DONE,
	FETCH_FAILED,   /* this replica can't send a copy; another one may */
	FETCH_HOPELESS, /* no replica can help: no permission, or our disk is full */
	FETCH_INTERRUPTED, /* by a signal */
};

struct fetch {
	const struct cell_file *cell_file;
	const struct noise_pair *key;  /* of an administrator */
	const struct cell_file_replica *replica;
	uint64_t wanted;               /* the least applied index of the copy */
	int fd;                        /* an empty file, for the copy */
	/* The result: */
	uint64_t applied, size;        /* applied index and bytes of the copy */
	char why[256];                 /* the reason of a failure */
};

/* Fetches a copy. Returns when it is complete (not synced), after FETCH_PATIENCE_MS without an
 * answer, or at SIGINT, SIGTERM or SIGHUP: the caller blocks these signals, and the one that
 * arrived is pending again at the return. */
enum fetch_end fetch_copy(struct fetch *f);

enum { FETCH_PATIENCE_MS = 10000 };

#endif
