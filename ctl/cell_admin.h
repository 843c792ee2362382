/* Operators' commands to a cell: finds the cell, the key and the members, and sends the command to
 * the master. */
#ifndef LSFS_CTL_CELL_ADMIN_H
#define LSFS_CTL_CELL_ADMIN_H

#include "cell/config/cell_file.h"
#include "cell/wire/noise.h"
#include "cell/wire/types.h"
#include "ctl/ctl.h"

struct cell_admin {
	char file[PATH_MAX];        /* the cell file */
	struct cell_file cell_file; /* with the current members; on a host those that it knows */
	struct noise_pair key;
	bool on_host; /* the key is that of a replica */
};

/* Finds the cell and the key, and asks for the members. False after an error message, also for a
 * cell in one process, which has no operators' commands. */
bool cell_admin_begin(const struct ctl *ctl, struct cell_admin *o);
/* The same on the host of a replica, with the files in its data directory: as that replica, which
 * may only recover an administrator. */
bool cell_admin_begin_on_host(const char *directory, struct cell_admin *o);
/* Wipes the key from memory. */
void cell_admin_end(struct cell_admin *o);

enum cell_admin_result {
	CELL_ADMIN_DONE,
	CELL_ADMIN_REFUSED, /* after an error message: the command had no effect */
	CELL_ADMIN_UNKNOWN, /* after an error message: the command may have been carried out */
};

/* Sends the command to the master; *id, unless `id` is NULL, gets the number in its answer. */
enum cell_admin_result cell_admin_send(const struct cell_admin *o, const struct msg_operate *what,
                                       uint64_t *id);
/* The same for a command on a principal: calls `naming` with the name of each ACL file that names
 * it then. */
enum cell_admin_result cell_admin_send_principal(const struct cell_admin *o,
                                                 const struct msg_operate *what,
                                                 void (*naming)(void *user, const char *file),
                                                 void *user);

/* Begins, sends the command and ends. Returns an exit code. */
int cell_admin_run(const struct ctl *ctl, const struct msg_operate *what);

#endif
