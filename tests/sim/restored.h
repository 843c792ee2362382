/* A cell that was made of a copy of another one, and the client that goes on in it. */
#ifndef LSFS_SIM_RESTORED_H
#define LSFS_SIM_RESTORED_H

#include "cell/server/server.h"
#include "tests/sim/machine.h"
#include "tests/sim/disk.h"

enum { STEPS_MAX = 100000 }; /* until something has happened */

struct queued_frame {
	bool to_replica;
	uint64_t conn;
	struct bytes frame; /* owned */
};

struct restored;

/* One of the client's connections. */
struct restored_end {
	struct restored *of;
	bool standby;
	uint64_t conn; /* 0: there is none */
};

struct restored {
	struct sim *s;
	struct disk disk;
	struct identity identity;
	struct server *server;
	uint64_t written, saved; /* to be reported to it; 0: nothing */
	struct machine *m;       /* whose client goes on */
	mono_t now;
	struct restored_end main, standby;
	struct queued_frame *parcels; /* from `next` on */
	size_t n, room, next;
	bool expired, answered;
	uint64_t tokens;
	uint8_t at; /* which of those that the client knows has the address of the new cell */
	struct client_answer answer;
	struct result result;
};

/* Its server starts, on a state that is on its disk; it ends. */
void restored_begins(struct restored *r);
void restored_free(struct restored *r);
/* What its client hears; what is due next happens. */
void restored_client_hears(struct restored *r, struct client_event event);
void restored_step(struct restored *r);
/* Asks, and waits for the answer; its views last until the next step. */
enum rc restored_ask(struct restored *r, const struct op *op);

#endif
