/* Lists of a cell's members, as those who connect to them need them. */
#ifndef LSFS_IO_MEMBERS_H
#define LSFS_IO_MEMBERS_H

#include "cell/io/conf.h"
#include "cell/tree/tree.h"

/* The members that the tree knows, those that were removed among them; how many, 0: none yet. */
int members_of_tree(const struct tree *t, struct conf_replica list[LIMIT_MEMBERS]);
/* Those that a replica told: a decoded list of the shape `member`. */
int members_of_list(const struct wire_list *from, struct conf_replica list[LIMIT_MEMBERS]);

#endif
