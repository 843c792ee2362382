/* The settings of a cell, for the tool's commands. */
#ifndef LSFS_CTL_CELL_SETTINGS_H
#define LSFS_CTL_CELL_SETTINGS_H

#include <jansson.h>
#include "cell/base/setting.h"
#include "cell/config/cell_file.h"
#include "cell/wire/noise.h"
#include "ctl/ctl.h"

/* NAME=VALUE into `settings`; false after a line. */
bool cell_settings_assign(const char *text, const struct ctl_command *command,
                          struct settings *settings);
/* An object with one object for each setting, as the replica tells it that has applied most of
 * those that answer; NULL when none does. */
json_t *cell_settings_of_cell(const struct cell_file *cell_file, const struct noise_pair *key);
void cell_settings_print(json_t *settings);
/* Has NAME=VALUE put into force; an exit code. */
int cell_settings_change(const struct ctl *ctl, const char *text,
                         const struct ctl_command *command);

#endif
