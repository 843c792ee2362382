/* An operator's commands to a cell: which cell, as whom, what it answered. */
#ifndef LSFS_CTL_OPERATE_H
#define LSFS_CTL_OPERATE_H

#include "cell/config/cell_file.h"
#include "cell/wire/noise.h"
#include "cell/wire/types.h"
#include "ctl/ctl.h"

struct operator {
	char file[PATH_MAX];   /* the cell file */
	struct cell_file cell_file; /* with the members that the cell has told */
	struct noise_pair key;
};

/* Finds the cell and the key, and asks for the members. False after a line: a cell in one process
 * has nothing to operate. */
bool operate_begin(const struct ctl *ctl, struct operator *o);
void operate_end(struct operator *o); /* forgets the key */

enum operate_result {
	OPERATE_DONE,
	OPERATE_REFUSED, /* after a line that says why: nothing was done */
	OPERATE_UNKNOWN, /* after a line: it may have been done */
};

/* Has it done by the master; *id, unless it is NULL, is what that answered. */
enum operate_result operate(const struct operator *o, const struct msg_operate *what, uint64_t *id);

/* A decimal number of 1 to `max`; 0 when it is none. */
uint64_t operate_number(const char *text, uint64_t max);

#endif
