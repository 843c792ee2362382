/* The doctor looks for what commonly goes wrong with a mount, with a cell or with keys. All that it
 * finds is appended to an array of objects with the texts `object`, `what` and `do`. */
#ifndef LSFS_CTL_DOCTOR_H
#define LSFS_CTL_DOCTOR_H

#include <jansson.h>
#include "ctl/ask.h"
#include "ctl/ctl.h"

/* Adds a finding. */
void doctor_add(json_t *findings, const char *object, const char *todo, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Looks at the mounts of this machine, or at the one that contains `path` (canonical; NULL: all):
 * dead ones, those without a lease, directories that are locked for this machine only. The cell
 * files of these mounts are appended to `cells`. Returns the number of mounts. */
int doctor_mounts(json_t *findings, const char *path, json_t *cells);

/* Looks at the cell of the cell file `file`: its replicas and their clocks, its limits, and whether
 * the file is as new as the cell's list of replicas. False after an error message when the replicas
 * cannot be asked: the key cannot be read, or the cell does not know it. */
bool doctor_cell(json_t *findings, const struct ctl *ctl, const char *file);
/* The part of it that goes by the replicas' answers. */
void doctor_replicas(json_t *findings, const struct cell_file *members,
                     const struct answer answers[LIMIT_REPLICAS]);

/* Looks at a key file, if it is there: others than its owner have no access. */
void doctor_key(json_t *findings, const char *path);
/* Looks at the keys and data directories beside a cell file. */
void doctor_keys_beside(json_t *findings, const char *file);

#endif
