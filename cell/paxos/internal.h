/* The state of one replica's paxos, and what its parts offer each other.
 *
 *   px.c           life, the step, the deadline, accessors
 *   acceptor.c     Prepare, Accept and Heartbeat: promises, acceptances, grants
 *   lease.c        the master lease: granting, binding, counting
 *   proposer.c     candidacy: asking for promises, winning, stepping down, handing over
 *   replication.c  the master's pipeline of Accepts and its heartbeats
 *   learner.c      what is chosen, what is durable, what may be trimmed
 *   window.c       the log window */
#ifndef LSFS_PAXOS_INTERNAL_H
#define LSFS_PAXOS_INTERNAL_H

#include "cell/base/rng.h"
#include "cell/paxos/ballot.h"
#include "cell/paxos/px.h"
#include "cell/paxos/window.h"

enum {
	PX_BATCH_BYTES = LIMIT_ENTRY,            /* payload of one message: this, or one entry */
	PX_BATCH_ENTRIES = 1024,
	PX_FLIGHT_BYTES = 4 * 1024 * 1024,       /* sent to one follower and not acknowledged */
	PX_FLIGHT_SLOTS = 64,                    /* beyond, only full batches are sent */
	PX_ROOM_BYTES = 16 * 1024 * 1024,        /* proposed and not chosen: see px_room */
	PX_ROOM_SLOTS = 4096,
	PX_SENT_TIMES = 32,                      /* heartbeats whose sending time is remembered */
	PX_PROBE_PATIENCE = 10,                  /* heartbeats until a lost probe is given up */
	PX_ATTEMPTS_MAX = 4,                     /* doublings of the jitter after lost elections */
};

static_assert(PX_BATCH_BYTES + LIMIT_ENTRY + PX_BATCH_ENTRIES * 64 + 256 <= LIMIT_FRAME,
              "a frame holds the largest batch");

/* Records handed to the log and not durable yet, and what will be true when they are. */
struct pending {
	uint64_t ticket;
	struct ballot ballot;
	uint64_t upto;   /* accepted in `ballot` without a hole */
	uint64_t chosen; /* the highest hint written */
};

/* What a candidate heard from another member. */
struct vote {
	bool promised;
	uint64_t have; /* its entries up to here arrived */
	uint64_t last; /* its last entry */
};

/* What a master knows of another member. */
struct peer {
	uint64_t match;          /* durable at it, in this ballot, without a hole */
	uint64_t next;           /* the next slot to be sent */
	uint64_t applied;        /* durable in its state.db, and chosen in its log */
	uint64_t probe_sequence; /* a heartbeat behind everything below probe_next; 0: none */
	uint64_t probe_next;
	mono_t lease_end;        /* of its grant, counted from the heartbeat's sending */
};

struct px {
	struct px_config config;
	int quorum;
	struct rng rng;
	mono_t now;
	struct px_update *out; /* of the step that runs */

	/* Acceptor. */
	struct window log;
	struct ballot promised; /* no lower ballot is answered */
	struct ballot promised_recorded; /* as the log was told by a promise's record */
	struct ballot seen;     /* the highest ever heard of */
	struct ballot master;   /* whom we follow */
	uint64_t upto;          /* each slot up to here is chosen, or accepted in `promised` */
	uint64_t durable;       /* and durable up to here */

	/* Durability. */
	uint64_t ticket;         /* the last one given out */
	uint64_t durable_ticket; /* the last one reported back */
	struct pending *pending; /* in order of tickets */
	size_t pending_n, pending_room;

	/* Learner. */
	uint64_t chosen;          /* every slot up to here is chosen; <= upto <= last */
	uint64_t chosen_recorded; /* as the log was told */
	uint64_t chosen_durable;
	uint64_t applied;         /* durable in our state.db */
	uint64_t trim_allowed;    /* as far as a master told */

	/* Lease, as an acceptor. */
	struct ballot granted_to;
	mono_t granted_until;
	mono_t silent_until;    /* restarted: an earlier grant may still bind us */
	span_t lease_recorded;  /* the longest that this incarnation may grant */
	uint64_t lease_ticket;  /* of that record */

	enum px_role role;
	struct ballot ballot;   /* candidate or master: our own */
	mono_t stand_at;        /* follower: stand for election */
	unsigned attempts;      /* elections lost in a row */

	/* Candidate. */
	struct vote votes[LIMIT_REPLICAS]; /* in the order of config.members */
	struct window picked;   /* per slot the promises' entry of the highest ballot */
	mono_t retry_at;
	uint64_t own_ticket;    /* of our own promise; 0: not given yet */

	/* Master. */
	struct peer peers[LIMIT_REPLICAS];
	uint64_t sequence;      /* of the last heartbeat */
	mono_t sent_at[PX_SENT_TIMES];
	mono_t heartbeat_at;
	bool leaving; /* hands over when nothing is in flight, at the latest at leave_by */
	mono_t leave_by;

	mono_t fetched_at;      /* follower: holes are reported once per heartbeat interval */
};

/* ---- px.c ---- */

/* The index of a member, or -1. */
int px_member(const struct px *px, uint8_t replica);
/* Adds a record to the update; the first one gives the update its ticket. */
void px_record(struct px *px, struct px_record record);
/* Sends when ticket `after` is durable (px->ticket: all that was recorded so far); 0: now. */
void px_send(struct px *px, uint8_t to, uint64_t after, const struct message *m);
/* Packs log entries from `first` on into `to`, as many as one message takes. */
struct wire_list px_pack(const struct px *px, uint64_t first, struct buffer *to);
/* A random span below the heartbeat interval (100 ms by default), doubled per lost election. */
span_t px_jitter(struct px *px);

/* ---- acceptor.c ---- */

void px_on_prepare(struct px *px, uint8_t from, const struct msg_prepare *m);
void px_on_accept(struct px *px, uint8_t from, const struct msg_accept *m);
void px_on_heartbeat(struct px *px, uint8_t from, const struct msg_heartbeat *m);
void px_on_hand_over(struct px *px, uint8_t from, const struct msg_hand_over *m);
/* Takes `ballot`, higher than any before, as the one whose slots are counted in upto. */
void px_enter(struct px *px, struct ballot ballot);
/* Records the promise of `ballot`, so that it outlives us; enters it before, if need be. */
void px_promise(struct px *px, struct ballot ballot);
/* Puts an entry into the log and its record into the update. */
void px_store(struct px *px, const struct log_entry *e);

/* ---- lease.c ---- */

/* Does a grant of ours forbid a promise to `candidate`? */
bool px_bound(const struct px *px, uint8_t candidate);
/* Grants `length` to the master of `ballot`, counted from now; durable before it is told. */
void px_grant(struct px *px, struct ballot ballot, span_t length);
/* The lease's length as it goes over the wire. */
uint32_t px_lease_ms(const struct px *px);
/* When a grant ends that answers a heartbeat sent at `sent`: earlier than the grantor thinks. */
mono_t px_lease_end(const struct px *px, mono_t sent);

/* ---- proposer.c ---- */

void px_stand(struct px *px);
/* Asks again those who have not answered in full. */
void px_ask(struct px *px);
/* Goes on if a quorum has promised: to the own promise, then to the mastership. */
void px_count_votes(struct px *px);
void px_on_promise(struct px *px, uint8_t from, const struct msg_promise *m);
void px_on_refused(struct px *px, uint8_t from, const struct msg_refused *m);
/* Ends a candidacy or mastership, and stands again `wait` from now at the earliest. */
void px_follow(struct px *px, struct ballot master, span_t wait);
void px_leave(struct px *px);
/* Hands over if the master is leaving and nothing is in flight or the time is up. */
void px_leave_check(struct px *px);

/* ---- replication.c ---- */

void px_begin_mastership(struct px *px);
void px_propose(struct px *px, struct bytes payload);
/* Sends what the followers lack, as far as the pipeline allows. */
void px_pump(struct px *px);
void px_beat(struct px *px);
void px_on_accepted(struct px *px, uint8_t from, const struct msg_accepted *m);
void px_on_heartbeat_reply(struct px *px, uint8_t from, const struct msg_heartbeat_reply *m);
void px_on_fetch(struct px *px, uint8_t from, const struct msg_fetch *m);

/* ---- learner.c ---- */

/* Slots up to `slot` are chosen; ignores what is known already. */
void px_learn(struct px *px, uint64_t slot);
/* A chosen entry for the slot behind the last chosen one, told by a member who knows. */
void px_learn_entry(struct px *px, const struct log_entry *e);
/* The master: what a majority has accepted is chosen. */
void px_count_accepted(struct px *px);
/* Tickets up to `ticket` are durable. */
void px_persisted(struct px *px, uint64_t ticket);
/* Completes the update's records and remembers what their ticket stands for. */
void px_note_pending(struct px *px);
/* What we tell the master as applied: durable in state.db and known as chosen by the log alone. */
uint64_t px_applied_reported(const struct px *px);
/* The master: the slot up to which no member needs the log any more. */
uint64_t px_trim_target(const struct px *px);
void px_on_applied(struct px *px, uint64_t slot);

#endif
