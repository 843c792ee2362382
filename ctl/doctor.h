/* The doctor looks for what commonly goes wrong with the mounts of this machine, with a cell or
 * with keys, and appends what it finds to an array of findings. */
#ifndef LSFS_CTL_DOCTOR_H
#define LSFS_CTL_DOCTOR_H

#include <jansson.h>
#include "cell/config/cell_file.h"
#include "cell/wire/noise.h"
#include "ctl/ctl.h"

/* Looks at the mounts of this machine, or at the one that contains `path` (canonical; NULL: all),
 * or at those of the cell file `file` (NULL: of all cells): dead ones, those without a lease,
 * second ones of a cell, directories that are locked for this machine only, ACL names without a
 * file. Adds the cell file of each to the object `cells`, with the path of the key that the mount
 * uses. Returns the number of mounts. */
int doctor_mounts(json_t *findings, const char *path, const char *file, json_t *cells);
/* Looks at the mounts that /etc/fstab has, at boot, of all cells or of that with the cell file
 * `file` (canonical; NULL: all), at all places or at the one that contains `path`: those that are
 * missing, and what is locked in their place. Returns the number of such entries. */
int doctor_fstab(json_t *findings, const char *path, const char *file);

/* The cell as its replicas report it, as health_json does; if `thorough`, the problems of the cell
 * file that was `given` are among those of the cell. NULL after an error message. */
json_t *doctor_ask_replicas(const struct ctl *ctl, const char *file, const struct cell_file *given,
                            bool thorough);

/* From now on, after some seconds, signals end a call that waits for a silent cell: it fails with
 * EINTR. 0: no more signals. */
void doctor_be_patient(long seconds);

/* Checks the owner of a key file, if it exists, and whether others have access. */
void doctor_key(json_t *findings, const char *path);
/* Looks at the keys in the places where they are looked for. */
void doctor_keys(json_t *findings, const struct ctl *ctl);

#endif
