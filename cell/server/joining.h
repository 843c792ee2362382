/* The first start of a replica that was added to a running cell. Its data directory, made by
 * `lsctl replica add`, lacks one thing, which no tool has: the cell's signing key. It is asked of
 * the other members, over the secure channel, before anything else begins. */
#ifndef LSFS_SERVER_JOINING_H
#define LSFS_SERVER_JOINING_H

#include <uv.h>
#include <stdbool.h>

struct joining;

/* Is the key all that is missing in this data directory? */
bool joining_needed(const char *directory);
/* Begins to ask, and goes on until it is answered; then `done` is called, with NULL when the key is
 * in its place, else with one line. NULL with one line in `why`. */
struct joining *joining_start(uv_loop_t *loop, const char *directory,
                              void (*done)(void *user, const char *error), void *user, char *why,
                              size_t why_size);
/* Calls `stopped` with nothing left on the loop or in memory. */
void joining_stop(struct joining *j, void (*stopped)(void *user), void *user);

#endif
