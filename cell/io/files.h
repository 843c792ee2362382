/* The files of a data directory, opened: their locks and marks, log.db and state.db, and what is to
 * be done when they do not fit together or are damaged. */
#ifndef LSFS_IO_FILES_H
#define LSFS_IO_FILES_H

#include "cell/io/dirlock.h"
#include "cell/io/failed.h"
#include "cell/io/logdb.h"
#include "cell/io/statedb.h"

struct files {
	char *directory;
	uint8_t replica;
	bool others;             /* the cell file knows of more replicas */
	bool set_aside;          /* state.db is of no use */
	struct damage state_damage;
	struct dirlock lock;
	bool locked;             /* it was ours; remains after a failure, too */
	struct failed failed;
	struct logdb log;
	struct statedb state;
};

/* What store_open does, but for the threads. */
bool files_open(struct files *f, const char *directory, const char *cell, uint8_t replica,
                bool others, struct tree **tree, struct px_recovered *recovered, char *why,
                size_t why_size);
/* After both databases were closed. */
void files_close(struct files *f);

#endif
