/* Lists of a cell's members, as those who connect to them need them. */
#ifndef LSFS_CONFIG_MEMBER_ADDRESSES_H
#define LSFS_CONFIG_MEMBER_ADDRESSES_H

#include "cell/config/cell_file.h"
#include "cell/wire/types.h"

/* Those of a decoded list of the shape `member`; how many. */
int member_addresses_of(const struct wire_list *from, struct cell_file_replica list[LIMIT_MEMBERS]);

#endif
