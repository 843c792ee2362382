/* The state of one replica's paxos, and what its parts offer each other.
 *
 *   px.c           life, the step, the deadline, accessors
 *   recover.c      the start from what the disk holds; what a damaged or late replica may not do
 *   witness.c      what others have told of themselves; hello and welcome
 *   acceptor.c     Prepare, Accept and Heartbeat: promises, acceptances, grants
 *   lease.c        the master lease: granting, binding, counting
 *   proposer.c     candidacy: asking for promises, winning, stepping down, handing over
 *   promises.c     what the promises told, and the values that are not here
 *   replication.c  the master's pipeline of Accepts and its heartbeats
 *   flow.c         how much of it is under way
 *   learner.c      what is chosen, what is durable, what may be trimmed
 *   reconfig.c     who is a member, and whose vote counts
 *   log_window.c   the log window */
#ifndef LSFS_PAXOS_INTERNAL_H
#define LSFS_PAXOS_INTERNAL_H

#include "cell/base/rng.h"
#include "cell/paxos/ballot.h"
#include "cell/paxos/px.h"
#include "cell/paxos/log_window.h"

enum {
	PX_BATCH_BYTES = LIMIT_ENTRY,            /* payload of one message: this, or one entry */
	PX_BATCH_ENTRIES = 1024,
	PX_FLIGHT_BYTES = 4 * 1024 * 1024,       /* sent to one follower and not acknowledged: */
	PX_FLIGHT_FIRST = 64 * 1024,             /* at first, */
	PX_FLIGHT_LEAST = 16 * 1024,             /* and on a slow link; one entry always */
	PX_FLIGHT_SLOTS = 64,                    /* beyond, only full batches are sent */
	PX_ROOM_BYTES = 16 * 1024 * 1024,        /* proposed and not chosen: see px_room; */
	PX_ROOM_LEAST = 2 * PX_FLIGHT_FIRST,     /* on a slow link */
	PX_ROOM_SLOTS = 4096,
	PX_SENT_TIMES = 32,                      /* heartbeats whose sending time is remembered */
	PX_ATTEMPTS_MAX = 4,                     /* doublings of the jitter after lost elections */
	PX_ASKS_MAX = 3,                         /* doublings until a candidate asks again */
	PX_GATHER_BYTES = 64 * 1024,             /* of values in one message to a candidate */
	PX_PICKED_MAX = 1 << 20,                 /* slots that a promise may tell of */
	PX_AHEAD_BYTES = 256 * 1024,             /* who lacks more of the log lets others stand */
	PX_LEASELESS_MAX = 4,                    /* a master without a lease gives up */
	PX_SOURCE_LEASES = 10,                   /* then a state is looked for at another replica */
};

static_assert(PX_BATCH_BYTES + LIMIT_ENTRY + 2 * PX_BATCH_ENTRIES * 64 + 256 <= LIMIT_FRAME,
              "a frame holds the largest batch");

/* Records handed to the log and not durable yet, and what will be true when they are. */
struct pending_write {
	uint64_t write;
	struct ballot ballot;
	uint64_t accepted_to; /* accepted in `ballot` without a hole */
	struct ballot recorded; /* the highest promise */
	uint64_t held;
	uint64_t chosen; /* the highest hint written */
};

/* A change of the members that is not known as chosen: the list that it makes (whose version is its
 * slot), if the one in force before it is the one that it replaces. */
struct change {
	uint64_t replaces;
	struct px_members members;
};

/* Those of a window, in the order of their slots. */
struct changes {
	struct change *items;
	size_t n, room;
};

/* What another replica has told of itself. */
struct witness {
	struct mark mark;
	uint64_t write;  /* of the record of its incarnation; 0: durable since the start */
	bool changed;   /* since the last record */
};

/* What a candidate heard from another member. */
struct vote {
	bool promised;
	uint64_t have; /* what it told arrived up to here */
	uint64_t last; /* its last entry */
	uint64_t same; /* as far as that it has the values that were picked */
	bool asked;    /* for values that it has, and has not sent */
	mono_t asked_at;
	span_t patience; /* until somebody else is asked for them */
};

/* How fast a follower accepts. */
struct flow {
	size_t window;       /* bytes that may be under way */
	int64_t shortest_us; /* from sending to acceptance, as far as was seen; 0: not yet */
	uint64_t sample;     /* the slot whose time is measured; 0: none */
	mono_t sent;
	bool limited;     /* more would have been sent since */
};

/* What a master knows of another member. */
struct peer {
	uint64_t match;          /* durable at it, in this ballot, without a hole */
	uint64_t have;           /* as far as is known it has what comes before */
	uint64_t next;           /* the next slot to be sent; those between are under way */
	uint64_t pass;           /* how often `next` went back */
	uint64_t told;           /* its promise told of our values up to here: names do */
	struct flow flow;
	uint64_t applied;        /* durable in its state.db, and chosen in its log */
	mono_t lease_end;        /* of its grant, counted from the heartbeat's sending */
	mono_t answered_at;      /* its last answer of this mastership */
	bool full;               /* its disk */
	uint64_t copy;           /* it reads a copy of our state, of this slot or a later one, and
	                          * then needs what comes behind; 0: it doesn't */
};

/* ---- the parts of a replica's paxos, each written by its file ---- */

/* reconfig.c: whose votes count. */
struct px_group {
	struct px_members members; /* in force behind what is chosen */
	struct changes changes;    /* in the log, behind what is chosen */
	uint8_t others[LIMIT_REPLICA_ID]; /* in any of these lists, but us */
	int others_n;
};

/* acceptor.c: what was promised and accepted; at the start, recover.c. */
struct px_acceptor {
	struct ballot promised;          /* no lower ballot is answered */
	struct ballot promised_recorded; /* as the log was told by a promise's record */
	struct ballot seen;              /* the highest one received, and told by sound peers */
	struct ballot master;            /* that is followed */
	uint64_t accepted_to;  /* each slot up to here is chosen, or accepted in `promised` */
	uint64_t durable;      /* and durable up to here */
	uint64_t trim_allowed; /* as far as a master told */
	mono_t fetched_at;     /* holes are reported once per heartbeat interval */
};

/* recover.c: what the disk lost, and where it comes from. */
struct px_repair {
	uint64_t incarnation; /* of this start */
	uint64_t held;        /* the highest slot that this disk ever held */
	uint64_t damaged;     /* acceptances up to here may be missing; 0: none are */
	bool stateless;       /* the log's first entries are behind the state */
	bool base_new;        /* the log does not know yet that it begins at log.base */
	uint64_t base_write;  /* of the record that tells it; 0: durable since the start */
	uint8_t ahead;        /* the last one that told that it has entries from ahead_first on */
	uint64_t ahead_first;
	uint8_t source;       /* of a state, when no master is known; the next one at source_at */
	mono_t source_at;
};

/* witness.c: what others remember of this replica, and this replica of others. */
struct px_witness {
	uint64_t start; /* names this start */
	bool mute, lost, expelled;
	struct mark found;   /* what the disk had at the start: all of it is durable */
	struct mark durable; /* and what it has by now */
	mono_t hello_at;     /* mute: the next hello */
	struct px_members greeters; /* the newest list told: mute, its voters must welcome us */
	bool welcomed[LIMIT_REPLICA_ID + 1];    /* by these */
	bool expelled_by[LIMIT_REPLICA_ID + 1]; /* these say that we are no member any more */
	struct witness of[LIMIT_REPLICA_ID + 1];
	bool changed;
	mono_t write_at; /* not before that */
};

/* px.c: which rounds are believed. */
struct px_rounds {
	uint64_t of[LIMIT_REPLICA_ID + 1]; /* the highest that each has told of */
	mono_t leap_at; /* a round far above is believed, or approached, at the earliest */
};

/* learner.c: what is chosen and what is durable; at the start, recover.c. */
struct px_learner {
	uint64_t chosen;          /* every slot up to here is; <= accepted_to <= last */
	uint64_t chosen_recorded; /* as the log was told */
	uint64_t chosen_durable;
	uint64_t applied;         /* durable in our state.db */
	uint64_t durable_write;   /* the last one reported back */
	struct pending_write *pending; /* in order of writes */
	size_t pending_n, pending_room;
};

/* lease.c: the master's lease, as an acceptor grants it. */
struct px_lease {
	struct ballot granted_to;
	mono_t granted_until;
	mono_t silent_until; /* restarted: an earlier grant may still bind us */
	span_t recorded;     /* the longest that this incarnation may grant */
	uint64_t write;      /* of that record */
	bool closing;        /* grants none any more */
	bool closed;         /* has recorded that none is left */
};

/* proposer.c: our ballot, from the candidacy to the hand-over. */
struct px_candidate {
	enum px_role role;
	struct ballot ballot; /* candidate or master: our own */
	mono_t stand_at;      /* follower: for election */
	unsigned attempts;    /* elections lost in a row */
	struct vote votes[LIMIT_REPLICA_ID + 1]; /* by replica; counted by promises.c */
	mono_t retry_at;
	unsigned asks;      /* in a row */
	uint64_t own_write; /* of our own promise; 0: not given yet */
	bool leaving;       /* hands over when nothing is in flight, at the latest at leave_by */
	mono_t leave_by;
	uint8_t leave_to;   /* 0: the one that is furthest */
};

/* promises.c: what a candidate learns. */
struct px_promises {
	struct log_window picked; /* per slot the promises' entry of the highest ballot, or ours */
	struct changes changes;
};

/* replication.c: what a master knows of its followers. */
struct px_leader {
	struct peer peers[LIMIT_REPLICA_ID + 1]; /* by replica */
	uint64_t inherited;     /* slots up to here were open at the election */
	uint64_t sequence;      /* of the last heartbeat */
	mono_t sent_at[PX_SENT_TIMES];
	mono_t heartbeat_at;
	unsigned leaseless_heartbeats; /* heartbeats in a row for which there was no lease */
};

struct px {
	struct px_config config;
	struct rng rng;
	mono_t now;
	struct px_update *out; /* of the step that runs */
	uint64_t write;        /* the last one given out */
	bool full;             /* our disk */
	struct log_window log;

	struct px_group group;
	struct px_acceptor acceptor;
	struct px_learner learner;
	struct px_candidate candidate;
	struct px_promises promises;
	struct px_leader leader;
	struct px_lease lease;
	struct px_repair repair;
	struct px_witness witness;
	struct px_rounds rounds;
};

/* ---- px.c ---- */

/* Adds a record to the update; the first one gives the update its number. */
void px_record(struct px *px, struct px_record record);
/* Sends when write `after` is durable (px->write: all that was recorded so far); 0: now. */
void px_send(struct px *px, uint8_t to, uint64_t after, const struct message *m);
/* Packs log entries from `first` up to `last` into `to`, one at least if it is there, and no more
 * than so many bytes and than one message takes. */
struct wire_list px_pack(const struct px *px, uint64_t first, uint64_t last, size_t bytes,
                         struct buffer *to);
/* The same of their headers, at most PX_BATCH_ENTRIES of them; maybe none. */
struct wire_list px_pack_headers(const struct px *px, uint64_t first, uint64_t last,
                                 struct buffer *to);
/* A random span below the heartbeat interval (100 ms by default), doubled per lost election. */
span_t px_jitter(struct px *px);

/* ---- reconfig.c ---- */

bool px_is_voter(const struct px_members *m, uint8_t id);
/* Was it a member once, and is none any more? */
bool px_is_removed(const struct px_members *m, uint8_t id);
/* Are so many of its voters a majority of them? */
bool px_majority(const struct px_members *m, int voters);
/* The list that the first of `changes` makes out of `m`; NULL: none does. */
const struct px_members *px_next_members(const struct changes *changes,
                                         const struct px_members *m);
/* Remembers the entry if it is a change, and forgets what stood at its slot. */
void px_changes_put(struct changes *changes, const struct log_entry *e);
/* Forgets those up to `slot`; those above `last`. */
void px_changes_trim(struct changes *changes, uint64_t slot);
void px_changes_cut(struct changes *changes, uint64_t last);
/* The members out of a list; false when it can be no list of a cell. */
bool px_read_members(struct px_members *to, struct wire_list list);
/* ... and into one. */
struct wire_list px_pack_members(const struct px_members *m, struct buffer *to);
/* Finds the list in force and the open changes when the log has been recovered. */
void px_reconfig_recover(struct px *px);
/* Puts an entry into our log, or cuts the log; keeps the open changes. */
void px_log_put(struct px *px, const struct log_entry *e);
void px_log_cut(struct px *px, uint64_t last);
/* `chosen` has grown: changes up to there are in force from now on. */
void px_reconfig_pass(struct px *px);
/* Finds `others` anew. */
void px_reconfig_gather(struct px *px);
/* At the end of a step: who has no vote any more ends its mastership or candidacy. */
void px_reconfig_settle(struct px *px);
/* Tells somebody who asks for a vote, a grant or a welcome that it was removed. */
void px_expel(struct px *px, uint8_t from, const struct message *m);

/* ---- recover.c ---- */

void px_recover(struct px *px, const struct px_recovered *recovered);
/* Tells the log where it begins, before anything else. */
void px_write_base(struct px *px);
/* The disk holds an entry of this slot. */
void px_hold(struct px *px, uint64_t slot);
/* What was damaged is made good when each slot of it was accepted again. */
void px_check_repaired(struct px *px);
/* ... or when we have all that our master has. */
void px_compare_with_master(struct px *px, uint8_t from, const struct msg_heartbeat *m);
bool px_may_promise(const struct px *px);
/* Has it all that it takes to stand for election, as far as its disk is concerned? */
bool px_is_fit(const struct px *px);
/* A master, or who has promised, has entries from `first` on. */
void px_note_first(struct px *px, uint8_t from, uint64_t first);
/* The next replica may have a state for us, if there is no master. */
void px_look_for_state(struct px *px);

/* ---- witness.c ---- */

void px_witness_recover(struct px *px, const struct px_recovered *recovered);
/* This ballot, and entries up to this slot, are durable here. */
void px_witness_durable(struct px *px, struct ballot ballot, uint64_t slot);
/* Before anything else in the life of a disk: who it is. */
void px_witness_write_own(struct px *px);
/* Remembers what a member's message tells of it. */
void px_witness_note(struct px *px, uint8_t from, const struct message *m);
/* ... and what a master, whom we follow, tells of others and of us. */
void px_note_marks(struct px *px, const struct msg_heartbeat *m);
/* Our mark, of what is durable, and of what will be with all that was recorded so far. */
struct mark px_mark_durable(const struct px *px);
struct mark px_mark_recorded(const struct px *px);
/* Records what changed, along with the other records of the step. */
void px_witness_write(struct px *px);
/* The marks of all members, for a master's heartbeat. */
struct wire_list px_witness_pack(const struct px *px, struct buffer *to);
/* Mute until welcomed by enough of the others; in a cell of one not at all. */
void px_begin_mute(struct px *px);
void px_say_hello(struct px *px);
void px_say_hello_to(struct px *px, uint8_t to);
/* Were these marks told by somebody who has heard the hello of this start? */
bool px_is_known(const struct px *px, struct bytes marks);
void px_on_hello(struct px *px, uint8_t from, const struct msg_hello *m);
/* A mute replica greets whom it does not know as well: it may be a member of a newer list. */
void px_greet(struct px *px, uint8_t id);
/* A list that counts for nothing but for whom a hello goes to, and who welcomes. */
void px_on_members(struct px *px, const struct msg_members *m);
void px_on_welcome(struct px *px, uint8_t from, const struct msg_welcome *m);

/* ---- acceptor.c ---- */

void px_on_prepare(struct px *px, uint8_t from, const struct msg_prepare *m);
void px_on_gather(struct px *px, uint8_t from, const struct msg_gather *m);
void px_on_accept(struct px *px, uint8_t from, const struct msg_accept *m);
void px_on_heartbeat(struct px *px, uint8_t from, const struct msg_heartbeat *m);
void px_on_hand_over(struct px *px, uint8_t from, const struct msg_hand_over *m);
/* Takes `ballot`, higher than any before, as the one whose slots are counted in accepted_to. */
void px_enter(struct px *px, struct ballot ballot);
/* At the start, when the disk was read. */
void px_accept_begin(struct px *px);
/* The master of this ballot is followed from now on; BALLOT_NONE: nobody is. */
void px_accept_follow(struct px *px, struct ballot master);
/* Our next ballot will be above this one. */
void px_accept_see(struct px *px, struct ballot ballot);
/* Each slot up to this one is accepted in the promised ballot. */
void px_accept_to(struct px *px, uint64_t slot);
/* The same for what is chosen. */
void px_accept_chosen(struct px *px);
/* Acceptances behind this slot count no more. */
void px_accept_cut(struct px *px, uint64_t slot);
/* Acceptances in this ballot are durable up to this slot. */
void px_accept_durable(struct px *px, struct ballot ballot, uint64_t slot);
/* Records the promise of `ballot`, so that it outlives us; enters it before, if need be. */
void px_promise(struct px *px, struct ballot ballot);
/* Puts an entry into the log and its record into the update. */
void px_store(struct px *px, const struct log_entry *e);

/* ---- lease.c ---- */

/* Does a grant of ours forbid a promise to `candidate`? */
bool px_is_bound(const struct px *px, uint8_t candidate);
/* Grants `length` to the master of `ballot`, counted from now; durable before it is told. */
/* Records that no lease is left, when that is so. */
void px_close_if_free(struct px *px);
void px_grant(struct px *px, struct ballot ballot, span_t length);
/* The master gave it back. */
void px_grant_void(struct px *px);
/* At the start: grants of an earlier incarnation may bind for the span `wait`. */
void px_lease_begin(struct px *px, span_t wait);
/* None is granted any more. */
void px_lease_close(struct px *px);
/* The lease's length as it goes over the wire. */
uint32_t px_lease_ms(const struct px *px);
/* When a grant ends that answers a heartbeat sent at `sent`: earlier than the grantor thinks. */
mono_t px_lease_end(const struct px *px, mono_t sent);

/* ---- proposer.c ---- */

/* Only a voter of the list in force, as far as it knows. An open change may take that away, but
 * those who stay may not know yet that they are voters. */
bool px_may_be_candidate(const struct px *px);
void px_begin_candidacy(struct px *px);
/* A follower stands for election then, if it hears of no master before. */
void px_stand_from(struct px *px, mono_t at);
/* There is a master: elections lost before count no more. */
void px_candidate_calm(struct px *px);
void px_candidate_elected(struct px *px);
/* Asks again those who have not answered in full. */
void px_send_prepares(struct px *px);
/* Goes on if a quorum has promised: to the own promise, then to the mastership. */
void px_count_votes(struct px *px);
void px_on_promise(struct px *px, uint8_t from, const struct msg_promise *m);
void px_on_gathered(struct px *px, uint8_t from, const struct msg_gathered *m);
void px_on_refused(struct px *px, uint8_t from, const struct msg_refused *m);
/* Ends a candidacy or mastership, and stands again `wait` from now at the earliest. */
void px_follow(struct px *px, struct ballot master, span_t wait);
void px_leave(struct px *px, uint8_t to);
/* Hands over if the master is leaving and nothing is in flight or the time is up. */
void px_leave_check(struct px *px);

/* ---- promises.c ---- */

/* What a candidate begins with: its own entries count as a promise's. */
void px_pick_own(struct px *px);
void px_promises_forget(struct px *px);
/* The slot up to which the picked entries go on from what is chosen: behind it they are of an older
 * origin. */
uint64_t px_picked_last(const struct px *px);
/* Are all values up to there here? */
bool px_picked_whole(const struct px *px);
/* Up to which slot a vote has told what it accepted, or it is chosen anyway. */
uint64_t px_vote_have(const struct px *px, const struct vote *v);
/* Takes what a promise tells, in order; answers whether it went on where the last one ended. */
bool px_take_promise(struct px *px, uint8_t from, const struct msg_promise *m);
/* A promise that comes behind the election: the master need not send what it tells of. */
void px_note_told(struct px *px, uint8_t from, const struct msg_promise *m);
/* Takes values that were asked for; false when none was of use. */
bool px_take_values(struct px *px, struct wire_list entries);
/* Asks those who have them for the values that are missing. */
void px_gather(struct px *px);

/* ---- flow.c ---- */

/* Values up to here need not be sent to a follower, or are not here any more. */
uint64_t px_known_to(const struct px *px, const struct peer *p);
/* Bytes that are under way to a follower, and that may be in addition. */
size_t px_flight(const struct px *px, const struct peer *p);
size_t px_flow_room(const struct px *px, const struct peer *p);
/* Bytes that may be proposed and not chosen. */
size_t px_flow_open(const struct px *px);
/* Slots before `next` have been sent. */
void px_flow_sent(struct px *px, struct peer *p);
/* `have` has grown. */
void px_flow_accepted(struct px *px, struct peer *p);

/* ---- replication.c ---- */

void px_begin_mastership(struct px *px);
void px_propose(struct px *px, struct bytes payload);
/* Sends what the followers lack, as far as the pipeline allows. */
void px_pump(struct px *px);
void px_send_heartbeats(struct px *px);
/* The next ones go out then at the latest. */
void px_heartbeat_by(struct px *px, mono_t at);
/* The follower reads a copy of our state, of what is applied now. */
void px_peer_copies(struct px *px, uint8_t id);
/* Answers to those that were sent count no more. */
void px_heartbeats_skip(struct px *px);
void px_send_heartbeat(struct px *px, uint8_t id);
void px_on_accepted(struct px *px, uint8_t from, const struct msg_accepted *m);
void px_on_heartbeat_reply(struct px *px, uint8_t from, const struct msg_heartbeat_reply *m);
void px_on_fetch(struct px *px, uint8_t from, const struct msg_fetch *m);

/* ---- learner.c ---- */

/* Slots up to `slot` are chosen; ignores what is known already. */
void px_learn(struct px *px, uint64_t slot);
/* A chosen entry for the slot behind the last chosen one, told by a member who knows. */
void px_learn_entry(struct px *px, const struct log_entry *e);
/* Writes the hint along if it has grown. */
void px_record_chosen(struct px *px);
/* The master: what a majority has accepted is chosen. */
void px_count_accepted(struct px *px);
/* Writes up to `write` are durable. */
void px_persisted(struct px *px, uint64_t write);
/* Completes the update's records and remembers what their write stands for. */
void px_note_pending(struct px *px);
/* What we tell the master as applied: durable in state.db and known as chosen by the log alone. */
uint64_t px_applied_reported(const struct px *px);
/* What a replica has durable in our ballot, without a hole. */
uint64_t px_matched(const struct px *px, uint8_t id);
/* The master: the slot up to which no member needs the log any more. */
uint64_t px_trim_target(const struct px *px);
void px_on_applied(struct px *px, uint64_t slot);
void px_on_copy_begun(struct px *px, uint8_t from);

#endif
