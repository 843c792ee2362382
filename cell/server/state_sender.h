/* Copies of the state for whoever asks: a replica that is behind, an operator who backs the cell
 * up.
 *
 * Each reader has one copy at a time, made while all else goes on, and
 * reads it in parts, one after the other: it asks for the next one when it has one. As long as the
 * questions come back soon, some parts are on their way ahead of them: a busy process takes its
 * time for each. Parts are paced, so that the cell keeps its speed. */
#ifndef LSFS_SERVER_STATE_SENDER_H
#define LSFS_SERVER_STATE_SENDER_H

#include "cell/server/server_io.h"
#include "cell/wire/types.h"

struct state_sender;

/* Who reads: a replica, or (peer 0) a client's connection. */
struct state_sender_reader {
	uint8_t peer;
	uint64_t conn;
};

struct state_sender_config {
	const struct server_io *io; /* outlives it */
	/* A part, or why there is none; at once or later. The view lasts for the call. */
	void (*answer)(void *user, struct state_sender_reader reader,
	               const struct msg_copy_part *part);
	/* A copy will be made for this replica, of the state as it is now or later. */
	void (*begun)(void *user, uint8_t peer);
	span_t soon;     /* 0: STATE_SENDER_SOON_MS */
	size_t part_max; /* bytes of a part; 0: LIMIT_PART */
	void *user;
};

enum {
	STATE_SENDER_MAX = 4,  /* at once; further readers are told RC_BUSY */
	STATE_SENDER_IDLE_MS = 60000, /* one that is not read for so long is dropped */
	STATE_SENDER_DONE_MS =
	    10000,                  /* one that was read to its end: or when another has no place */
	STATE_SENDER_PACE_MS = 4,   /* between two parts, of all copies together: 64 MiB a second */
	STATE_SENDER_BURST = 4,     /* parts that are made up for, when the loop came late */
	STATE_SENDER_AHEAD = 8,     /* parts of a copy that are on their way, at most */
	STATE_SENDER_SOON_MS = 100, /* a question that comes later than that: one at a time again */
};

struct state_sender *state_sender_new(const struct state_sender_config *config);
/* A question. `copy` 0: a new one, told RC_BUSY until it is made; so is one that is known and not
 * made yet, with its number. RC_NOENT: there is no such copy (any more). RC_NODATA: the state is
 * empty yet. RC_NOSPC: the disk has no room for a copy. RC_IO: it could not be made or read. */
void state_sender_ask(struct state_sender *c, struct state_sender_reader reader,
                      const struct msg_copy_request *request);
/* It is gone, and will ask no more. */
void state_sender_forget(struct state_sender *c, struct state_sender_reader reader);
/* server_copy_made. */
void state_sender_made(struct state_sender *c, enum rc rc, uint64_t applied, uint64_t size,
                       const char *why);
/* When state_sender_timeout is to be called. */
mono_t state_sender_deadline(const struct state_sender *c);
void state_sender_timeout(struct state_sender *c, mono_t now);
/* Drops all copies but one that is being made. */
void state_sender_free(struct state_sender *c);

#endif
