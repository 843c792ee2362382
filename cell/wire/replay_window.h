/* The window against replays of datagrams, pure. They may arrive in any order: each number is taken
 * once, and one that is too far behind the highest never. */
#ifndef LSFS_WIRE_REPLAY_WINDOW_H
#define LSFS_WIRE_REPLAY_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

enum { REPLAY_WINDOW = 64 };

/* A window of zeros has taken nothing. */
struct replay_window {
	uint64_t next; /* above the highest number that was taken */
	uint64_t seen; /* bit i: the number next - 1 - i was taken */
};

/* True if the number may still be taken. */
bool replay_window_is_fresh(const struct replay_window *w, uint64_t number);
/* Takes a fresh number. */
void replay_window_take(struct replay_window *w, uint64_t number);

#endif
