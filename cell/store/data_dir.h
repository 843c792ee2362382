/* The files of a data directory, opened: lock, failure mark, log.db and state.db; and the decision
 * whether a replica may start when they are damaged or do not fit together. */
#ifndef LSFS_STORE_DATA_DIR_H
#define LSFS_STORE_DATA_DIR_H

#include "cell/store/dir_lock.h"
#include "cell/store/disk_failure.h"
#include "cell/store/log_db.h"
#include "cell/store/state_db.h"

struct data_dir {
	char *directory;
	uint8_t replica;
	bool others;    /* the cell has more replicas, from which damage can be repaired */
	bool set_aside; /* state.db can't be used */
	struct corruption state_corruption;
	struct dir_lock lock;
	bool locked; /* the lock was taken; stays set after a failure, too */
	struct disk_failure disk_failure;
	struct log_db log;
	struct state_db state;
};

/* Does all of store_open (store.h) but the preparation of the writer threads: same arguments, same
 * errors. */
bool data_dir_open(struct data_dir *f, const char *directory, const char *cell, uint8_t replica,
                   bool others, struct tree **tree, struct px_recovered *recovered, char *why,
                   size_t why_size);
/* Releases the lock; call it when both databases are closed. */
void data_dir_close(struct data_dir *f);

#endif
