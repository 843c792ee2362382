/* Paths in mounted cells, which may name files that do not exist yet, and the mounts' own files:
 * events, changes and transactions; and a limit for the time of calls into the mounts. */
#ifndef LSFS_CTL_MOUNTED_PATH_H
#define LSFS_CTL_MOUNTED_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include "cell/base/bytes.h"
#include "cell/base/limit.h"
#include "cell/sys/mountinfo.h"

/* Opens the path, or the nearest directory above it that exists, and gives the canonical path, to
 * which the rest is added as it was given. *there: the path itself was opened. The mount watches
 * what is open; with `looks` what may not be read is open only to be looked at (O_PATH), and is not
 * watched. Returns the descriptor, or -1 with errno. */
int mounted_path_open(const char *path, bool looks, char canonical[PATH_MAX], bool *there);
/* The cell's mount that contains `canonical`; false after an error message, which names `path`. */
bool mounted_path_mount(const char *path, const char *canonical, struct mountinfo *info);
/* Puts an extended attribute of a file, as text, into `value`. 0, also if it has none, which leaves
 * `value` empty, or an errno. */
int mounted_path_attribute(const char *path, const char *name, char *value, size_t room);
/* The name of the cell, from the mount's status. 0 or an errno. */
int mounted_path_cell(const struct mountinfo *info, char cell[LIMIT_CELL_NAME + 1]);
/* The path in the cell of a canonical path in its mount; empty: the cell's root. */
void mounted_path_inside(const struct mountinfo *info, const char *canonical,
                         char inside[2 * PATH_MAX]);
/* Opens the events of the mount, for reads that do not block; -1 after an error message. */
int mounted_path_events(const struct mountinfo *info);
/* Opens the changes of the cell that is mounted there, those above the log index `since`, for reads
 * that wait for more; -1 after an error message. */
int mounted_path_changes(const char *mountpoint, uint64_t since);
/* Contents as transactions have them, and JSON, which has no bytes: base64, which the caller
 * frees. */
char *mounted_path_base64(struct bytes contents);
/* Appends a blank and a word of a transaction, `prefix` and `word` together; with blanks in it, it
 * stands in quotation marks. False: `word` has characters that cannot stand there. */
bool mounted_path_word(struct buffer *to, const char *prefix, const char *word);
/* Has the mount commit a transaction, given as lines, at once or not at all. Returns CTL_OK;
 * CTL_FAILED, CTL_USAGE if it was refused for its form, or CTL_UNKNOWN if it may have been
 * committed. *answer, which the caller frees, is the mount's answer, or why it failed. */
int mounted_path_transaction(const char *mountpoint, struct bytes text, char **answer);

/* ---- the time of calls ---- */

/* Ends the calls that take longer than until `seconds` have passed, with EINTR. */
void time_limit_start(double seconds);
/* True when they have passed: another EINTR is that of a process that was stopped. */
bool time_limit_passed(void);
/* The calls may take any time again. */
void time_limit_end(void);

#endif
