/* Copies of the state, outside of paxos: for replicas that are behind, and for backups. */
#ifndef LSFS_COPY_STATE_TRANSFER_H
#define LSFS_COPY_STATE_TRANSFER_H

#include "cell/base/bytes.h"
#include "cell/base/clock_io.h"
#include "cell/base/rc.h"
#include "cell/wire/types.h"

/* ---- the files ---- */

/* The files of state copies, as their owner hands them to the server: copy_files.h in a process,
 * memory in the simulator. Functions that return a string return NULL for success, or else the
 * reason for people: one line, valid until the next call. */

struct copy_io {
	/* Makes a consistent copy of the saved state, in a place (below STATE_SENDER_MAX), where it
	 * stays until it is dropped. One call at a time. Result: server_copy_made. */
	void (*make)(void *user, int place);
	/* Reads n bytes of a copy that was made. */
	const char *(*read)(void *user, int place, uint64_t offset, uint8_t *to, size_t n);
	void (*drop)(void *user, int place);

	/* Writes another replica's state, in order from its beginning. drop_fetch does nothing if
	 * no fetch was begun. */
	const char *(*begin_fetch)(void *user);
	const char *(*write_fetch)(void *user, uint64_t offset, struct bytes data);
	/* The state is complete: checks it and keeps it for the next start. Result:
	 * server_fetch_checked. */
	void (*check_fetch)(void *user);
	void (*drop_fetch)(void *user);
	void *user;
};

/* ---- state_sender.c: copies that are sent ---- */

/* Makes copies of the state and sends them to readers: replicas that are behind, and operators'
 * backups.
 *
 * A reader has one copy at a time. The copy is made while everything else goes on. The reader
 * requests it part by part, each when it has received the one before. As long as its requests
 * follow quickly, some parts are sent ahead of them, because a busy process takes a while for each
 * answer. The sending of parts is paced, so that the cell remains responsive. */

struct state_sender;

/* A reader: a replica, or (peer 0) a client's connection. */
struct state_sender_reader {
	uint8_t peer;
	uint64_t conn;
};

struct state_sender_config {
	const struct clock_io *clock; /* these two must outlive it */
	const struct copy_io *files;
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

/* Makes a sender without copies. The configuration is copied. */
struct state_sender *state_sender_new(const struct state_sender_config *config);
/* Takes a request. `copy` 0 asks for a new copy. It is refused with RC_BUSY and the copy's number
 * until the copy is made; then answered by a part. Other refusals: RC_NOENT: there is no copy of
 * that number (now). RC_NODATA: the state is still empty. RC_NOSPC: the disk has no room for a
 * copy. RC_IO: the copy could not be made or read. RC_INVAL: the copy ends before that offset. */
void state_sender_ask(struct state_sender *c, struct state_sender_reader reader,
                      const struct msg_state_request *request);
/* The reader has left: drops its copy. */
void state_sender_forget(struct state_sender *c, struct state_sender_reader reader);
/* Passes on server_copy_made. */
void state_sender_made(struct state_sender *c, enum rc rc, uint64_t applied, uint64_t size,
                       const char *why);
/* The time at which state_sender_timeout must be called. */
mono_t state_sender_deadline(const struct state_sender *c);
/* Drops copies that have not been read for long, and sends the parts that are due. */
void state_sender_timeout(struct state_sender *c, mono_t now);
/* Frees it; drops all copies but one that is being made. */
void state_sender_free(struct state_sender *c);

/* ---- state_transfer.c: both sides of a copy, in a replica ---- */

struct state_transfer;

struct state_transfer_config {
	const struct clock_io *clock; /* these two must outlive it */
	const struct copy_io *files;
	size_t part_max; /* bytes of a part; 0: LIMIT_PART */
	span_t patience; /* time to wait for a part until it is requested again;
	                  * 0: 3 s */
	/* Sends a frame, to a replica or (replica 0) on a client's connection. */
	void (*send)(void *user, uint8_t replica, uint64_t conn, struct bytes frame);
	/* A copy of this replica's state will be made for another replica. */
	void (*copy_begun)(void *user, uint8_t replica);
	/* A state was fetched: the replica must be started again with it. */
	void (*ready)(void *user);
	void *user;
};

/* Makes both sides, which are idle. The configuration is copied. */
struct state_transfer *state_transfer_new(const struct state_transfer_config *config);
/* Takes a frame of a replica, which is a member of the cell or was removed. False: the frame is of
 * another kind. */
bool state_transfer_peer(struct state_transfer *x, uint8_t from, bool member, struct bytes frame);
/* Takes a frame of a client; admin: it is an administrator of the cell. False as above. */
bool state_transfer_client(struct state_transfer *x, uint64_t conn, bool admin, struct bytes frame);
/* The client's connection is gone. */
void state_transfer_forget(struct state_transfer *x, uint64_t conn);
/* Sets the replica from which a state must be fetched; 0 if none is needed (replica_update.behind,
 * after every step). A fetched one must be of index `least` or later, because the given replica may
 * itself be behind. */
void state_transfer_need(struct state_transfer *x, uint8_t replica, uint64_t least);
/* Passes on server_copy_made. */
void state_transfer_made(struct state_transfer *x, enum rc rc, uint64_t applied, uint64_t size,
                         const char *why);
/* Passes on server_fetch_checked. */
void state_transfer_checked(struct state_transfer *x, const char *why);
/* The time at which state_transfer_timeout must be called. */
mono_t state_transfer_deadline(const struct state_transfer *x);
/* Asks again, or another replica, and drops copies, as is due. */
void state_transfer_timeout(struct state_transfer *x, mono_t now);
/* Frees it; drops a state that is incomplete, unless it is being checked, and all copies but one
 * that is being made. */
void state_transfer_free(struct state_transfer *x);

#endif
