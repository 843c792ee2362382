/* A database file that takes the place of another one. It is written whole under another name,
 * synced, and then named NAME.ready; from that moment on it counts, and whoever opens the
 * directory puts it into its place first. What only the old file's write-ahead log held goes with
 * the old one, never into the new one. A crash at any point leaves the old file, or the new one. */
#ifndef LSFS_STORE_SWAP_IN_H
#define LSFS_STORE_SWAP_IN_H

#include <stdbool.h>

/* DIRECTORY/`from`, a finished file that nobody has open, becomes NAME.ready. 0 or -errno. */
int swap_in_ready(const char *directory, const char *from, const char *name);
bool swap_in_waiting(const char *directory, const char *name);
/* Puts NAME.ready, if there is one, into the place of NAME. The old file becomes NAME.damaged when
 * it is to be kept. 0 or -errno. */
int swap_in(const char *directory, const char *name, bool keep_old);
/* Takes NAME out of the way, as NAME.damaged. 0, also when there is none, or -errno. */
int swap_in_set_aside(const char *directory, const char *name);
/* Removes a database file with all that SQLite puts beside it, or only that. 0 or -errno. */
int swap_in_remove(const char *directory, const char *name);
int swap_in_remove_besides(const char *directory, const char *name);

#endif
