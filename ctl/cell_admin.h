/* An operator's commands to a cell: which cell, as whom, what it answered. */
#ifndef LSFS_CTL_CELL_ADMIN_H
#define LSFS_CTL_CELL_ADMIN_H

#include "cell/config/cell_file.h"
#include "cell/wire/noise.h"
#include "cell/wire/types.h"
#include "ctl/ctl.h"

struct cell_admin {
	char file[PATH_MAX];   /* the cell file */
	struct cell_file cell_file; /* with the members that the cell has told */
	struct noise_pair key;
};

/* Finds the cell and the key, and asks for the members. False after a line: a cell in one process
 * has nothing to operate. */
bool cell_admin_begin(const struct ctl *ctl, struct cell_admin *o);
void cell_admin_end(struct cell_admin *o); /* forgets the key */

enum cell_admin_result {
	CELL_ADMIN_DONE,
	CELL_ADMIN_REFUSED, /* after a line that says why: nothing was done */
	CELL_ADMIN_UNKNOWN, /* after a line: it may have been done */
};

/* Has it done by the master; *id, unless it is NULL, is what that answered. */
enum cell_admin_result cell_admin_send(const struct cell_admin *o, const struct msg_operate *what,
                                       uint64_t *id);

/* A decimal number of 1 to `max`; 0 when it is none. */
uint64_t cell_admin_number(const char *text, uint64_t max);

#endif
