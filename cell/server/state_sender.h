/* Makes copies of the state and sends them to readers: replicas that are behind, and operators who
 * make a backup.
 *
 * A reader has one copy at a time. The copy is made while all else goes on. The reader requests it
 * part by part, each when it has received the one before. As long as its requests follow quickly,
 * some parts are sent ahead of them, because a busy process takes a while for each answer. The
 * sending of parts is paced, so that the cell remains responsive. */
#ifndef LSFS_SERVER_STATE_SENDER_H
#define LSFS_SERVER_STATE_SENDER_H

#include "cell/server/server_io.h"
#include "cell/wire/types.h"

struct state_sender;

/* A reader: a replica, or (peer 0) a client's connection. */
struct state_sender_reader {
	uint8_t peer;
	uint64_t conn;
};

struct state_sender_config {
	const struct server_io *io; /* must outlive it */
	/* Sends a reader a part (MSG_state_part), or the reason why there is none
	 * (MSG_state_refused); called at once or later. The message is valid during the call. */
	void (*send)(void *user, struct state_sender_reader reader, const struct message *m);
	/* A copy will be made for this replica, of the present state or a later one. */
	void (*begun)(void *user, uint8_t peer);
	span_t soon;     /* the time within which requests count as quick; 0:
	                  * STATE_SENDER_SOON_MS */
	size_t part_max; /* bytes of a part; 0: LIMIT_PART */
	void *user;
};

enum {
	STATE_SENDER_MAX = 4,         /* copies at a time; further readers are answered RC_BUSY */
	STATE_SENDER_IDLE_MS = 60000, /* a copy that is not read for this long is dropped */
	STATE_SENDER_DONE_MS = 10000, /* likewise, when it was read to its end; earlier if its place
	                               * is needed */
	STATE_SENDER_PACE_MS = 4,     /* between two parts, of all copies together: 64 MiB per
	                               * second */
	STATE_SENDER_BURST = 4,       /* parts that may be sent at once after a late wake-up */
	STATE_SENDER_AHEAD = 8,       /* maximum of parts of a copy that are on their way */
	STATE_SENDER_SOON_MS = 100, /* after a slower request parts are sent one at a time again */
};

/* There are no copies. The configuration is copied. */
struct state_sender *state_sender_new(const struct state_sender_config *config);
/* Takes a request. `copy` 0 asks for a new copy. It is refused with RC_BUSY and the copy's number
 * until the copy is made; then answered by a part. Other refusals: RC_NOENT: there is no copy of
 * that number (any more). RC_NODATA: the state is still empty. RC_NOSPC: the disk has no room for a
 * copy. RC_IO: the copy could not be made or read. RC_INVAL: the copy ends before that offset. */
void state_sender_ask(struct state_sender *c, struct state_sender_reader reader,
                      const struct msg_state_request *request);
/* The reader is gone: drops its copy. */
void state_sender_forget(struct state_sender *c, struct state_sender_reader reader);
/* Passes on server_copy_made. */
void state_sender_made(struct state_sender *c, enum rc rc, uint64_t applied, uint64_t size,
                       const char *why);
/* The time at which state_sender_timeout must be called. */
mono_t state_sender_deadline(const struct state_sender *c);
/* Drops copies that nobody asks for any more, and sends the parts that are due. */
void state_sender_timeout(struct state_sender *c, mono_t now);
/* Frees it; drops all copies but one that is being made. */
void state_sender_free(struct state_sender *c);

#endif
