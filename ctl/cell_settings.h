/* The settings of a cell, for lsctl's commands. */
#ifndef LSFS_CTL_CELL_SETTINGS_H
#define LSFS_CTL_CELL_SETTINGS_H

#include <jansson.h>
#include "cell/base/setting.h"
#include "cell/config/cell_file.h"
#include "cell/wire/noise.h"
#include "ctl/ctl.h"

/* Parses NAME=VALUE into `settings`; false after an error message. */
bool cell_settings_assign(const char *text, const struct ctl_command *command,
                          struct settings *settings);
/* An object with one object for each setting, according to the replica with the newest state among
 * those that answer; NULL when none answers. The caller owns it. */
json_t *cell_settings_of_cell(const struct cell_file *cell_file, const struct noise_pair *key);
/* Prints such an object as a table. */
void cell_settings_print(json_t *settings);
/* Has the master put NAME=VALUE into force; returns an exit code. */
int cell_settings_change(const struct ctl *ctl, const char *text,
                         const struct ctl_command *command);

#endif
