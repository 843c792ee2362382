/* Lists of a cell's members, as those who connect to them need them. */
#ifndef LSFS_IO_MEMBERS_H
#define LSFS_IO_MEMBERS_H

#include "cell/io/conf.h"
#include "cell/wire/types.h"

/* Those of a decoded list of the shape `member`; how many. */
int members_of_list(const struct wire_list *from, struct conf_replica list[LIMIT_MEMBERS]);

#endif
