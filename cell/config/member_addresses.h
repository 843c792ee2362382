/* The member list of a cell in the form that connecting to its members needs. */
#ifndef LSFS_CONFIG_MEMBER_ADDRESSES_H
#define LSFS_CONFIG_MEMBER_ADDRESSES_H

#include "cell/config/cell_file.h"
#include "cell/wire/types.h"

/* Converts a decoded list of the wire shape `member`. Returns how many rows of `list` were filled;
 * members beyond LIMIT_MEMBERS are left out. */
int member_addresses_of(const struct wire_list *from, struct cell_file_replica list[LIMIT_MEMBERS]);

#endif
