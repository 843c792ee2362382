/* The files of a data directory, opened: their lock and marks, log.db and state.db, and what is to
 * be done when they do not fit together or are damaged. */
#ifndef LSFS_STORE_DATA_DIR_H
#define LSFS_STORE_DATA_DIR_H

#include "cell/store/dir_lock.h"
#include "cell/store/disk_failure.h"
#include "cell/store/log_db.h"
#include "cell/store/state_db.h"

struct data_dir {
	char *directory;
	uint8_t replica;
	bool others;             /* the cell file knows of more replicas */
	bool set_aside;          /* state.db is of no use */
	struct corruption state_corruption;
	struct dir_lock lock;
	bool locked;             /* it was ours; remains after a failure, too */
	struct disk_failure disk_failure;
	struct log_db log;
	struct state_db state;
};

/* What store_open does, but for the threads. */
bool data_dir_open(struct data_dir *f, const char *directory, const char *cell, uint8_t replica,
                   bool others, struct tree **tree, struct px_recovered *recovered, char *why,
                   size_t why_size);
/* After both databases were closed. */
void data_dir_close(struct data_dir *f);

#endif
