/* Copies of the state for whoever asks: a replica that is behind, an operator who backs the cell
 * up.
 *
 * Each reader has one copy at a time, made by a thread of the store while all else goes on, and
 * reads it in parts, one after the other. Parts are paced, so that the cell keeps its speed. The
 * file has no name once it is made: it is gone when nobody reads it any more, or with the
 * process. */
#ifndef LSFS_IO_COPIES_H
#define LSFS_IO_COPIES_H

#include "cell/io/store.h"
#include "cell/wire/types.h"

struct copies;

/* Who reads: a replica, or (peer 0) a client's connection. */
struct copies_reader {
	uint8_t peer;
	uint64_t conn;
};

struct copies_config {
	uv_loop_t *loop;
	struct store *store; /* started */
	const char *directory;
	/* A part, or why there is none; at once or later, at most one for each question. The view
	 * lasts for the call. */
	void (*answer)(void *user, struct copies_reader reader, const struct msg_copy_part *part);
	void *user;
};

enum {
	COPIES_MAX = 4,        /* at once; further readers are told RC_BUSY */
	COPIES_IDLE_MS = 60000, /* one that is not read for so long is dropped */
	COPIES_DONE_MS = 10000, /* one that was read to its end: or when another has no place */
	COPIES_PACE_MS = 4,    /* between two parts, of all copies together: 64 MiB a second */
};

struct copies *copies_new(const struct copies_config *config);
/* A question. `copy` 0: a new one, told RC_BUSY until it is made; so is one that is known and not
 * made yet, with its number. RC_NOENT: there is no such copy (any more). RC_IO: it could not be
 * made or read (no room on the disk, say). */
void copies_ask(struct copies *c, struct copies_reader reader,
                const struct msg_copy_request *request);
/* It is gone, and will ask no more. */
void copies_forget(struct copies *c, struct copies_reader reader);
/* Nothing is answered any more. Waits for a copy that is being made, which the store gives up when
 * it is closed meanwhile; then calls `stopped`, with nothing left on the loop or in memory. */
void copies_stop(struct copies *c, void (*stopped)(void *user), void *user);

#endif
