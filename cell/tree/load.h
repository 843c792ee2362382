/* Loading a tree from its rows. */
#ifndef LSFS_TREE_LOAD_H
#define LSFS_TREE_LOAD_H

#include "cell/tree/rows.h"

struct loading {
	struct row_list rows; /* that refer to other rows, until tree_load_done */
	bool meta;            /* the row of the table meta was loaded, */
	uint64_t bytes;       /* and counts so many bytes */
};

#endif
