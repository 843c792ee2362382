/* The condition of a cell and its mounts, for people. The state of a cell is a JSON object: of a
 * mounted cell that is .cell/status of the mount and its usage; of a cell with replicas on a
 * network, the answers of the replicas. */
#ifndef LSFS_CTL_CELL_STATUS_H
#define LSFS_CTL_CELL_STATUS_H

#include <jansson.h>
#include "cell/config/cell_file.h"
#include "ctl/cell_admin.h"
#include "ctl/ctl.h"

/* ---- cell_status.c ---- */

/* The state of the cell that is mounted at `path`, or of that of --cell, or of the only one
 * mounted; the caller owns it. Its `problems` are the findings about the cell and the mount; if
 * `thorough`, also about the files and keys by which this machine knows the cell. NULL after an
 * error message. */
json_t *cell_status(const struct ctl *ctl, const char *path, bool thorough);
/* True if the cell has a master and, if it is mounted, the session of the mount is safe: nothing
 * found is as severe as that. */
bool cell_status_is_good(const json_t *status);
/* Prints it: a line for each value, a table of the replicas, then the problems. */
void cell_status_print(json_t *status);

/* ---- mount_text.c: the text of a mount's .cell/status, whatever has happened to the mount ---- */

enum { MOUNT_TEXT_SIZE = 4096 };

/* Puts the status of the mount at `mountpoint` into `text`. 0 or a positive errno: ETIMEDOUT when
 * there is no answer within seconds. */
int mount_text(const char *mountpoint, char text[MOUNT_TEXT_SIZE + 1]);
/* Appends what such an answer shows: the mount is dead, silent, or its session is not safe. */
void mount_text_findings(json_t *findings, const char *mountpoint, int error, const char *text);

/* ---- replica_table.c: the replicas of a cell for people, of an object of cell/view/health.h ----
 */

/* Prints the replicas as a table, and the links between them. */
void replica_table_print(const json_t *health);
/* Prints the same with the replicas as members, and the problems: which of them vote, and why the
 * others do not. */
void replica_table_print_members(const json_t *health);

/* ---- doctor.c: what commonly goes wrong with the mounts of this machine, with a cell or with
 * keys; what is found is appended to an array of findings ---- */

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

/* ---- session_list.c: the sessions of a cell as a JSON array ---- */

/* Asks the master; the caller owns the list. NULL after an error message. */
json_t *session_list(const struct cell_admin *o);
/* Prints the list as a table. */
void session_list_print(const json_t *sessions);

/* ---- lock_list.c: all locks of a cell that are held, delayed or awaited, with holders and
 * waiters, as a JSON array. A mount knows them, or the master ---- */

/* The list of the cell that is mounted at `path`, or of that of --cell, or of the only one mounted;
 * the caller owns it. NULL after an error message. */
json_t *lock_list(const struct ctl *ctl, const char *path);
/* A table: a line for each holder, waiter or delay. */
void lock_list_print(const json_t *locks);
/* A line for a person who waits: says who holds the lock of `path`, since when, and how many are
 * before process `waiter` of this host. A child asks the mount, which may take as long as the mount
 * is silent, and ends with the caller. */
void lock_wait_print(const char *path, pid_t waiter);

#endif
