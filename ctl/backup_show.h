/* Shows what is in a backup. */
#ifndef LSFS_CTL_BACKUP_SHOW_H
#define LSFS_CTL_BACKUP_SHOW_H

#include "ctl/ctl.h"

/* Loads the whole backup, as a restore does, and prints of which cell it is, when it was written,
 * and how much is in it. Returns an exit code. */
int backup_show(const struct ctl *ctl, const char *file);

#endif
