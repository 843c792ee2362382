/* Replaces a database file by a new one. The new file is written whole under another name, synced
 * and renamed to NAME.ready. From that moment on it is the valid one: the next start that opens the
 * directory first moves it to NAME. The write-ahead log of the old file is removed, or kept with
 * the old file, never applied to the new one. A crash at any point leaves the old file or the new
 * one. */
#ifndef LSFS_STORE_SWAP_IN_H
#define LSFS_STORE_SWAP_IN_H

#include <stdbool.h>

#define SWAP_IN_READY ".ready" /* the suffix of a file that waits */

/* Renames DIRECTORY/`from`, a complete file that no process has open, to NAME.ready. 0 or
 * -errno. */
int swap_in_ready(const char *directory, const char *from, const char *name);
/* True when there is a NAME.ready. */
bool swap_in_waiting(const char *directory, const char *name);
/* Replaces NAME by NAME.ready, if there is one. With `keep_old` the old file becomes NAME.damaged.
 * 0 or -errno. */
int swap_in(const char *directory, const char *name, bool keep_old);
/* Renames NAME to NAME.damaged. 0, also when there is no NAME, or -errno. */
int swap_in_set_aside(const char *directory, const char *name);
/* Removes a database file and the files that SQLite keeps beside it. 0 or -errno. */
int swap_in_remove(const char *directory, const char *name);
/* Removes only the files beside it. 0 or -errno. */
int swap_in_remove_besides(const char *directory, const char *name);

#endif
