/* Damage to the state of a replica, for cell scripts. */
#ifndef LSFS_CELL_DAMAGE_H
#define LSFS_CELL_DAMAGE_H

#include "cell/tree/tree.h"

/* The digest of all that was applied; a bit in the contents of a file, false: there are none. */
bool damage_history(const struct tree *t);
bool damage_contents(const struct tree *t, uint64_t node);

#endif
