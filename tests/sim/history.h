/* Every request of a client and what became of it. */
#ifndef LSFS_SIM_HISTORY_H
#define LSFS_SIM_HISTORY_H

#include <bsd/sys/tree.h>
#include "cell/client/client.h"
#include "cell/wire/types.h"
#include "tests/calls/calls.h"
#include "tests/sim/world.h"

/* Who asks for the end of another's session is none of the machine's processes. */
enum { PROCESS_MOUNT = -1, PROCESS_OPERATOR = -2, PROCESS_SCRIPT = -3 };

/* One request of a client and what became of it. */
struct record {
	RB_ENTRY(record) by_number;
	uint64_t token, mount_token;
	int machine, process;
	uint64_t life;
	struct bytes encoded; /* the operation; `op` has views into it */
	struct op op;
	struct guard guard;                  /* node 0: none */
	struct bytes user;                   /* owned */
	struct client_rights through, opens; /* the handle; the rights that the answer showed */
	bool ordered, own;                   /* own: the client's, nobody waits for an answer */
	struct record *after;                /* given up before this one was made; NULL: none */
	uint64_t session, number;            /* 0: not sent yet */
	bool again;                          /* sent more than once */
	int64_t made, ended;
	int64_t begun, settled; /* moments: it was made; its outcome was told, 0: it is open */
	bool cached;            /* its client answered it without the cell */
	bool answered, lost;    /* lost: its machine died */
	bool ending;            /* its answer is in the step that is being carried out */
	enum rc rc;
	uint64_t index;
	uint64_t executed; /* where in the log it took effect; 0: not */
	bool refused;      /* there, by the master */
	bool by_another;   /* by a grant, or another presentation of the acquisition */
	/* What the model expects, from `executed` on, and what the answer said. */
	struct outcome {
		enum rc rc;
		int64_t mtime_ns, ctime_ns;
		uint64_t node, source, generation, lock_generation, fence, size, number;
		bool fresh, same;
		struct transaction_outcome {
			enum transaction_part part;
			unsigned condition, failed; /* steps */
			enum rc rc;                 /* of the failed one */
			uint64_t done;              /* checksum of what was done */
		} transaction;
	} want, got;
	struct bytes contents; /* of a read; owned */
	struct ticket ticket;
	unsigned rotations;    /* of the cell's signing key, before it was made */
	uint64_t queued_epoch; /* of the last master that told so */
	int64_t queued_at;     /* and when the client heard it */
	bool given_up;         /* a release or cancel of it was asked for */
	bool waiting;          /* answered RC_QUEUED, and neither granted nor given up */
	uint64_t unentitled;   /* where in the log it lost the right while it waited; 0: never */
};
RB_HEAD(record_tree, record);
RB_HEAD(digits_tree, shown_digits);

struct history {
	struct record **records; /* by token - 1 */
	size_t n, room;
	struct record **acquires; /* those of them */
	size_t acquires_n, acquires_room;
	size_t sent[MACHINES_MAX]; /* all of a machine's before this one have been sent */
	struct record_tree by_number;
	struct digits_tree digits; /* that were shown */
	int64_t moment;            /* the last one */
	struct calls calls; /* that are no requests: locks that were told, lines, and the others at
	                       the end */
	struct owner {      /* of locks: by the number of its calls' process */
		uint64_t session, owner;
	} * owners;
	size_t owners_n, owners_room;
};

void history_init(struct history *h);
struct record *history_begin(struct sim *s, int machine, int process, const struct op *op,
                             bool ordered);
/* A request frame left a client. */
void history_sent(struct sim *s, int machine, const struct msg_request *m);
struct record *history_find(struct sim *s, uint64_t session, uint64_t number);
/* The client is about to be told this. */
void history_ending(struct sim *s, const struct client_answer *a);
void history_answered(struct sim *s, const struct client_answer *a);
/* A scripted client has sent a request, or got an answer to it. */
void history_scripted(struct sim *s, const struct msg_request *m, struct client_rights through);
void history_scripted_answer(struct sim *s, uint64_t session, const struct msg_reply *m);
/* The request takes effect. A client in the process of the replica may have been answered before
 * the model is told. */
void history_executed(struct sim *s, struct record *r);
/* A queued acquire has come to the master of another epoch. */
void history_queued(struct sim *s, uint64_t session, const struct msg_reply *m, uint64_t epoch);
void history_machine_died(struct sim *s, int machine);
/* The session has ended, for the cell or for its client: nobody waits for a lock in it any more. */
void history_waits_over(struct sim *s, uint64_t session);
/* The virtual time, in parts of MOMENTS to a nanosecond: no two moments are one. */
enum { MOMENTS = 4096 };
int64_t history_moment(struct sim *s);
void history_finish(struct sim *s); /* everything was answered; order within sessions */
void history_free(struct history *h);

/* ---- digits.c ---- */

/* The session was shown these rights of its user, with their check digits. */
void digits_shown(struct sim *s, uint64_t session, struct bytes user,
                  const struct client_rights *rights);
/* The answer of a request shows these. */
void digits_note(struct sim *s, struct record *r, struct bytes digits, const struct result *result);
/* Does the request go through a handle with rights that were shown to its session and user? */
bool digits_prove(struct sim *s, const struct record *r);
/* Was the key ever rotated? Then digits of before may count for nothing. */
bool digits_doubtful(const struct sim *s, const struct record *r);
/* May the request be in the log with these rights of its handle? */
bool digits_allow(struct sim *s, const struct record *r, uint8_t handle_rights);
void digits_free(struct history *h);

/* ---- judgement.c ---- */

/* A client is told that it has got a lock, with this lock generation and fencing token; it held the
 * lock still when it asked for the end of that acquisition. */
void judgement_locked(struct sim *s, const struct record *r, uint64_t generation, uint64_t fence);
void judgement_held(struct sim *s, const struct record *r);
/* A process on a mount appends a line: the number of the call, which was acknowledged. */
size_t judgement_line(struct sim *s, int machine, uint64_t line);
void judgement_line_taken(struct sim *s, size_t call);
/* All that clients were told is explained by what the log decided (tests/calls). */
void judgement_check(struct sim *s);

#endif
