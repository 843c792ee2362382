/* All locks of a cell that are held, delayed or awaited, with holders and waiters, as a JSON array.
 * A mount knows them, or the master. */
#ifndef LSFS_CTL_LOCK_LIST_H
#define LSFS_CTL_LOCK_LIST_H

#include <jansson.h>
#include "ctl/ctl.h"

/* The list of the cell that is mounted at `path`, or of that of --cell, or of the only one mounted;
 * the caller owns it. NULL after an error message. */
json_t *lock_list(const struct ctl *ctl, const char *path);
/* A table: a line for each holder, waiter or delay. */
void lock_list_print(const json_t *locks);

#endif
