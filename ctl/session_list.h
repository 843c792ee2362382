/* The sessions of a cell as a JSON array. */
#ifndef LSFS_CTL_SESSION_LIST_H
#define LSFS_CTL_SESSION_LIST_H

#include <jansson.h>
#include "ctl/cell_admin.h"

/* Asks the master; the caller owns the list. NULL after an error message. */
json_t *session_list(const struct cell_admin *o);
/* Prints the list as a table. */
void session_list_print(const json_t *sessions);

#endif
