/* The state of one replica's paxos, and what its parts offer each other.
 *
 *   px.c           creation, the step, the deadline, accessors
 *   update.c       what a step adds to its update: records, messages, entries in them
 *   recover.c      the start from the recovered log; limits of a damaged or lagging replica
 *   witness.c      marks of what each replica acknowledged; hello and welcome
 *   acceptor.c     Prepare, Accept and Heartbeat: promises, acceptances, grants; rounds
 *   lease.c        the master lease: granting it, refusing others, counting it
 *   proposer.c     candidacy: asking for promises, election, stepping down, handing over
 *   promises.c     what the promises reported, and the values that are missing here
 *   replication.c  the master's pipeline of Accepts and its heartbeats; how much may be open
 *   learner.c      what is chosen, what is durable, what may be trimmed
 *   reconfig.c     the members, and whose votes count
 *   log_window.c   the log window */
#ifndef LSFS_PAXOS_INTERNAL_H
#define LSFS_PAXOS_INTERNAL_H

#include <inttypes.h>

#include "cell/base/rng.h"
#include "cell/paxos/ballot.h"
#include "cell/paxos/log_window.h"
#include "cell/paxos/px.h"

enum {
	PX_BATCH_BYTES = LIMIT_ENTRY, /* payload of one message: this, or one entry */
	PX_BATCH_ENTRIES = 1024,
	PX_FLIGHT_BYTES = 4 * 1024 * 1024,   /* in flight to one follower: at most, */
	PX_FLIGHT_FIRST = 64 * 1024,         /* at first, */
	PX_FLIGHT_LEAST = 16 * 1024,         /* and on a slow link; one entry always */
	PX_FLIGHT_SLOTS = 64,                /* in flight: beyond, only full batches are sent */
	PX_ROOM_BYTES = 16 * 1024 * 1024,    /* proposed and not chosen: see px_room; */
	PX_ROOM_LEAST = 2 * PX_FLIGHT_FIRST, /* on a slow link */
	PX_ROOM_SLOTS = 4096,
	PX_SENT_TIMES = 32,          /* heartbeats whose sending time is kept */
	PX_ATTEMPTS_MAX = 4,         /* doublings of the jitter after lost elections */
	PX_ASKS_MAX = 3,             /* doublings between repeated Prepares */
	PX_GATHER_BYTES = 64 * 1024, /* of values in one message to a candidate */
	PX_PICKED_MAX = 1 << 20,     /* slots that a promise may report */
	PX_AHEAD_BYTES = 256 * 1024, /* more than this ahead, an acceptor stands */
	PX_LEASELESS_MAX = 4,        /* leases until a master without one steps down */
	PX_STALLED_LEASES = 10,      /* leases until a master that has nothing chosen steps down, */
	PX_STALLS_MAX = 5,           /* and doublings of them */
	PX_YIELD_LEAST = 4,          /* leases until a master with one yields to a minority's */
	PX_YIELD_MOST = 1024,        /* refusals: see yields */
	PX_SOURCE_LEASES = 10,       /* leases until the next source is tried */
};

static_assert(PX_BATCH_BYTES + LIMIT_ENTRY + 2 * PX_BATCH_ENTRIES * 64 + 256 <= LIMIT_FRAME,
              "a frame holds the largest batch");

/* Records handed to the log and not durable yet, and what will hold when they are. */
struct pending_write {
	uint64_t write;
	struct ballot ballot;
	uint64_t accepted_to;   /* accepted in `ballot` without a hole */
	struct ballot recorded; /* the highest promise recorded */
	uint64_t held;
	uint64_t chosen; /* the highest hint written */
};

/* A change of the members that is not known as chosen: the list that it makes (its version is the
 * slot of the change), and the version of the list that it replaces. The change has no effect
 * unless that list is in force before it. */
struct change {
	uint64_t replaces;
	struct px_members members;
};

/* The changes in a window, in the order of their slots. */
struct changes {
	struct change *items;
	size_t n, room;
};

/* The mark of another replica: all that it is known to have acknowledged. */
struct witness {
	struct mark mark;
	uint64_t write; /* of the record of its incarnation; 0: durable since the start */
	bool changed;   /* since the last record */
	uint64_t incarnation, start; /* of the last hello received from it; 0: none was */
};

/* Another member's answers to a candidate. */
struct vote {
	bool promised;
	bool refused;         /* because of a higher ballot */
	uint64_t have;        /* its reports have arrived up to here */
	uint64_t last;        /* its last entry */
	uint64_t same;        /* up to here its entries are those that were picked */
	bool asked;           /* a Gather was sent to it and is not answered */
	uint64_t asked_first; /* from this slot on */
	mono_t asked_at;
	span_t patience; /* until another replica is asked for the values */
};

/* The rate at which a follower accepts. */
struct flow {
	size_t window;       /* bytes that may be in flight */
	int64_t shortest_us; /* shortest time measured from sending to acceptance; 0: none yet */
	uint64_t sample;     /* the slot whose time is measured; 0: none */
	mono_t sent;
	bool limited; /* the window held entries back since */
};

/* A master's record of another member's progress. */
struct peer {
	uint64_t match; /* durable there, in this ballot, without a hole */
	uint64_t have;  /* the member is known to have every slot up to here */
	uint64_t next;  /* the next slot to be sent; those in between are in flight */
	uint64_t pass;  /* how often `next` went back */
	uint64_t told;  /* up to here its promise reported the master's values: names
	                 * suffice */
	struct flow flow;
	uint64_t accepted;  /* as it last said, durable or not */
	uint64_t applied;   /* durable in its state.db, and chosen in its durable log */
	mono_t lease_end;   /* of its grant, counted from the sending of the heartbeat */
	mono_t answered_at; /* when it last answered this master */
	bool full;          /* its disk is full */
	uint32_t minor;     /* version that it speaks */
	uint64_t keys;      /* its px_set_keys */
	uint64_t copy;      /* the slot of the state that it reads a copy of: it will need the
	                     * entries after that; 0: it reads none */
};

/* ---- the parts of a replica's paxos, each written by its file ---- */

/* reconfig.c: whose votes count. */
struct px_group {
	struct px_members members;        /* the list in force after the last chosen slot */
	struct changes changes;           /* in the log, after what is chosen */
	bool unsettled;                   /* the list has changed: see px_reconfig_settle */
	uint8_t others[LIMIT_REPLICA_ID]; /* ids in any of these lists, without this replica's */
	int others_n;
};

/* acceptor.c: what was promised and accepted; written by recover.c at the start. */
struct px_acceptor {
	struct ballot promised;          /* lower ballots are refused */
	struct ballot promised_recorded; /* the highest in a record of a promise */
	struct ballot seen;              /* the highest received, as far as it is believed */
	struct ballot master;            /* that this replica follows */
	struct ballot giving_to; /* a candidate that has asked for values; it is left in peace */
	mono_t giving_until;     /* until then */
	uint64_t accepted_to;    /* each slot up to here is chosen, or accepted in `promised` */
	uint64_t durable;        /* each of those is durable up to here */
	uint64_t held;           /* the highest slot of which this disk ever held an entry */
	uint64_t trim_allowed;   /* the master permits trimming up to here */
	mono_t fetched_at;       /* the next report of a hole: one per heartbeat interval */
};

/* recover.c: what the disk lost, and from where it is recovered. */
struct px_repair {
	uint64_t damaged;    /* acceptances up to here may be missing; 0 if none is */
	bool stateless;      /* the log's first entries are after the state */
	bool base_new;       /* the log has no record yet that it begins at log.base */
	uint64_t base_write; /* of the record that says so; 0: durable since the start */
	uint8_t ahead;       /* the last replica that reported its first entry, at ahead_first */
	uint64_t ahead_first;
	uint8_t source; /* of a state, while no master is known; the next one is tried at
	                 * source_at */
	mono_t source_at;
};

/* witness.c: marks of this replica that others keep, and those of others that it keeps. */
struct px_witness {
	/* Those of this start, or of an earlier start that was not welcomed and is continued. */
	uint64_t incarnation, start;
	bool unrecorded; /* the own mark, with the incarnation and this number */
	bool mute, lost, expelled;
	struct mark found;          /* all that the disk held at the start, durably */
	struct mark durable;        /* all that is durable by now */
	mono_t hello_at;            /* mute: when the next hello is due */
	struct px_members greeters; /* the newest list received: while mute, its voters have to
	                             * welcome this replica */
	bool welcomed[LIMIT_REPLICA_ID + 1];    /* by these replicas */
	bool expelled_by[LIMIT_REPLICA_ID + 1]; /* these have answered that this is no member any
	                                         * more */
	struct witness of[LIMIT_REPLICA_ID + 1];
	bool changed;
	mono_t write_at; /* the earliest time of the next record */
};

/* acceptor.c: which rounds are believed. */
struct px_rounds {
	uint64_t of[LIMIT_REPLICA_ID + 1]; /* the highest that each replica has sent */
	mono_t step_at; /* when the next step towards a far round may be taken; each step moves
	                 * it on by BALLOT_STEP_MS */
};

/* learner.c: what is chosen and what is durable; written by recover.c at the start. */
struct px_learner {
	uint64_t chosen;          /* every slot up to here is chosen; <= accepted_to <= last */
	uint64_t chosen_recorded; /* as recorded in the log */
	uint64_t chosen_durable;
	uint64_t applied;              /* durable in state.db */
	uint64_t durable_write;        /* the last write reported as durable */
	struct pending_write *pending; /* in order of writes */
	size_t pending_n, pending_room;
};

/* lease.c: the master's lease, as an acceptor grants it. */
struct px_lease {
	struct ballot granted_to;
	uint8_t former; /* the last master that was heard of, 0: none, and how its term ends */
	char why[LIMIT_WHY + 1];
	mono_t granted_until;
	mono_t silent_until; /* restarted: an earlier grant may be valid until then */
	span_t recorded;     /* the longest that this incarnation may grant */
	uint64_t write;      /* of that record */
	mono_t until;        /* a master's: it is granted by a majority of each list before that */
	mono_t kept_until;   /* likewise in an earlier ballot: no other replica has one before */
	bool closing;        /* no lease is granted any more */
	bool closed;         /* it is recorded that none is left */
};

/* proposer.c: this replica's own ballot, from the candidacy to the hand-over. */
struct px_candidate {
	enum px_role role;
	struct ballot ballot;                    /* own ballot, when candidate or master */
	mono_t stand_at;                         /* follower: when it asks for votes, or again */
	mono_t asks_since, asked_at;             /* follower: when it asked first, and last */
	uint64_t asked;                          /* the number of its last request for votes */
	bool pre_voted[LIMIT_REPLICA_ID + 1];    /* these have answered that one */
	bool passed_over[LIMIT_REPLICA_ID + 1];  /* their values did not come to earlier ones */
	unsigned attempts;                       /* elections lost in a row */
	bool stood_instead;                      /* of another one, since there was a master */
	struct vote votes[LIMIT_REPLICA_ID + 1]; /* by replica; counted by promises.c */
	mono_t retry_at;
	unsigned asks;      /* a follower's for votes, or a candidate's Prepares, in a row */
	mono_t progress_at; /* when a promise, or a value, has last brought it forward */
	mono_t elected_at;
	unsigned yield_after; /* as many leases, see yields; 0: PX_YIELD_LEAST */
	uint64_t own_write;   /* of the promise to its own ballot; 0: not given yet */
	bool leaving;         /* hands over when nothing is in flight, at the latest at leave_by */
	mono_t leave_by;
	uint8_t leave_to; /* 0: the voter with the longest log */
	const char *leave_why;
};

/* promises.c: what the promises report to a candidate. */
struct px_promises {
	struct log_window picked; /* per slot the entry of the highest ballot, of promises or own */
	struct log_window kept;   /* likewise, of a candidacy that has come to nothing */
	struct changes changes;
};

/* replication.c: what a master has recorded of its followers. */
struct px_leader {
	struct peer peers[LIMIT_REPLICA_ID + 1]; /* by replica */
	uint64_t inherited;                      /* slots up to here were open at the election */
	uint64_t sequence;                       /* of the last heartbeat */
	mono_t sent_at[PX_SENT_TIMES];
	mono_t heartbeat_at;
	unsigned leaseless_heartbeats; /* heartbeats in a row that were sent without a lease */
	unsigned stalled_heartbeats;   /* and with entries open, and nothing chosen since */
	uint64_t chosen;               /* at the last heartbeat */
	unsigned stalls;               /* masterships that ended so, with nothing chosen after: */
	uint64_t stalled_at;
	bool unsent; /* entries were proposed since the followers were sent the last ones */
};

struct px {
	struct px_config config;
	struct rng rng;
	mono_t now;
	struct px_update *out; /* of the current step */
	uint64_t write;        /* the last number given to an update */
	bool full;             /* the disk of this replica is full */
	uint64_t keys;         /* these two of px_set_keys */
	bool keyless;
	struct px_status status;
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

/* Traces: a verdict, and the format of a slot in it. */
#define PX_TRACE(px, ...) TRACE((px)->config.trace, __VA_ARGS__)
#define SLOT "%" PRIu64

/* ---- update.c ---- */

/* Empties the update, for the next step. */
void px_update_clear(struct px_update *u);
/* Adds a record to the update; the first one gives the update its number. */
void px_record(struct px *px, struct px_record record);
/* Sends when write `after` is durable (px->write: all that is recorded so far); 0: now. */
void px_send(struct px *px, uint8_t to, uint64_t after, const struct message *m);
/* The same of a message with that name and these fields. */
#define PX_SEND(px, to, after, name, ...) px_send(px, to, after, &MESSAGE(name, __VA_ARGS__))
/* Packs log entries from `first` up to `last` into `to`: at least one if it is there, and no more
 * than `bytes` of payload and than a message holds. */
struct wire_list px_pack(const struct px *px, uint64_t first, uint64_t last, size_t bytes,
                         struct buffer *to);
/* Packs the headers of such entries, at most PX_BATCH_ENTRIES of them; possibly none. */
struct wire_list px_pack_headers(const struct px *px, uint64_t first, uint64_t last,
                                 struct buffer *to);

/* ---- reconfig.c ---- */

/* True for a former member that was removed. */
bool px_is_removed(const struct px_members *m, uint8_t id);
/* The list that the first effective one of `changes` makes out of `m`; NULL if there is none. */
const struct px_members *px_next_members(const struct changes *changes, const struct px_members *m);
/* Adds the entry if it is a change, in place of an earlier change in the same slot. */
void px_changes_put(struct changes *changes, const struct log_entry *e);
/* Drops the changes up to `slot`. */
void px_changes_trim(struct changes *changes, uint64_t slot);
/* Drops the changes above `last`. */
void px_changes_cut(struct changes *changes, uint64_t last);
/* Reads the members of a list; false when no cell can have such a list. */
bool px_read_members(struct px_members *to, struct wire_list list);
/* Packs a list of members. */
struct wire_list px_pack_members(const struct px_members *m, struct buffer *to);
/* Finds the list in force and the open changes when the log has been recovered. */
void px_reconfig_recover(struct px *px);
/* An entry was put into the log: keeps the open changes up to date. */
void px_reconfig_accept(struct px *px, const struct log_entry *e);
/* Cuts the log after `last`, and keeps the open changes up to date. */
void px_log_cut(struct px *px, uint64_t last);
/* `chosen` has grown: changes up to it are now in force. */
void px_reconfig_pass(struct px *px);
/* Computes `others` again. */
void px_reconfig_gather(struct px *px);
/* At the end of a step in which another list came into force, or of a candidate's: a master or
 * candidate that no longer has a vote steps down. */
void px_reconfig_settle(struct px *px);
/* Answers a removed replica that asks for a vote, a grant or a welcome that it was removed. */
void px_expel(struct px *px, uint8_t from, const struct message *m);

/* ---- recover.c ---- */

/* Takes over the recovered log: at the start. */
void px_recover(struct px *px, const struct px_recovered *recovered);
/* Records where the log begins, before any other record. */
void px_write_base(struct px *px);
/* Ends the repair of damage when each damaged slot was accepted again. */
void px_check_repaired(struct px *px);
/* Ends the repair when this replica has all entries of the master that it follows. */
void px_compare_with_master(struct px *px, uint8_t from, const struct msg_heartbeat *m);
/* False while this replica has no vote: it is mute, lost or expelled, or its disk is damaged. */
bool px_may_promise(const struct px *px);
/* True when the disk has all that a candidate needs: no damage and a state. */
bool px_is_fit(const struct px *px);
/* As in px_status. */
enum voting_condition px_condition(const struct px *px);
/* Likewise. */
uint8_t px_behind(const struct px *px);
/* Keeps the first slot in the log of `from`, a master or an acceptor that has promised. */
void px_note_first(struct px *px, uint8_t from, uint64_t first);
/* Selects the next replica that may have a state to copy, while no master is known. */
void px_look_for_state(struct px *px);

/* ---- witness.c ---- */

/* Takes over the recovered marks: at the start. */
void px_witness_recover(struct px *px, const struct px_recovered *recovered);
/* This ballot, and entries up to this slot, are durable. */
void px_witness_durable(struct px *px, struct ballot ballot, uint64_t slot);
/* Records the identity of the disk before any other record of its life. */
void px_witness_write_own(struct px *px);
/* Records the mark that a member's message carries of its sender. */
void px_witness_note(struct px *px, uint8_t from, const struct message *m);
/* Records the marks that a followed master's heartbeat carries of the other members and of this
 * one. */
void px_note_marks(struct px *px, const struct msg_heartbeat *m);
/* This replica's mark: of all that is durable. */
struct mark px_mark_durable(const struct px *px);
/* The same when all records so far are durable. */
struct mark px_mark_recorded(const struct px *px);
/* Records the marks that changed, together with the other records of the step. */
void px_witness_write(struct px *px);
/* The marks of all members, for a master's heartbeat. */
struct wire_list px_witness_pack(const struct px *px, struct buffer *to);
/* This replica is mute until enough of the others have welcomed it; in a cell of one it never is.
 */
void px_begin_mute(struct px *px);
/* Sends a hello to all other members, with the mark of this replica. */
void px_say_hello(struct px *px);
/* Sends a hello to one other member. */
void px_say_hello_to(struct px *px, uint8_t to);
/* Handles a hello: welcomes its sender, unless that has lost what it acknowledged. */
void px_on_hello(struct px *px, uint8_t from, const struct msg_hello *m);
/* A mute replica also sends a hello to one that its list lacks: a member of a newer list,
 * perhaps. */
void px_greet(struct px *px, uint8_t id);
/* Receives a list that decides only where a hello is sent and whose welcomes count. */
void px_on_members(struct px *px, const struct msg_members *m);
/* Counts a welcome; enough of them end the mute time. */
void px_on_welcome(struct px *px, uint8_t from, const struct msg_welcome *m);

/* ---- acceptor.c ---- */

/* Notes the round of the message; false when the message is not to be handled, because its round is
 * damaged, or too far to be believed yet. */
bool px_rounds_reach(struct px *px, uint8_t from, const struct message *m);
/* Answers a replica that would be a candidate, unless it would end what others have begun. */
void px_on_pre_vote(struct px *px, uint8_t from, const struct msg_pre_vote *m);
/* Handles phase 1 of a candidate ("Paxos Made Simple", section 2.2): a promise or a refusal. */
void px_on_prepare(struct px *px, uint8_t from, const struct msg_prepare *m);
/* Sends a candidate the values for which it asks. */
void px_on_gather(struct px *px, uint8_t from, const struct msg_gather *m);
/* Handles phase 2 of a master ("Paxos Made Simple", section 2.2): accepts the entries, or refuses
 * them. */
void px_on_accept(struct px *px, uint8_t from, const struct msg_accept *m);
/* Handles a heartbeat: grants the lease, and learns the chosen slots. */
void px_on_heartbeat(struct px *px, uint8_t from, const struct msg_heartbeat *m);
/* A master hands over: this replica asks for votes at once. */
void px_on_hand_over(struct px *px, uint8_t from, const struct msg_hand_over *m);
/* Prepares the acceptor at the start, when the log is recovered. */
void px_accept_begin(struct px *px);
/* This replica now follows the master of this ballot; BALLOT_NONE: no master. */
void px_accept_follow(struct px *px, struct ballot master);
/* The next own ballot will be above this one. */
void px_accept_see(struct px *px, struct ballot ballot);
/* Each slot up to the last chosen one counts as accepted. */
void px_accept_chosen(struct px *px);
/* Acceptances after this slot do not count any more. */
void px_accept_cut(struct px *px, uint64_t slot);
/* Acceptances in this ballot are durable up to this slot. */
void px_accept_durable(struct px *px, struct ballot ballot, uint64_t slot);
/* Records the promise of `ballot`, so that a restart does not forget it; enters it before, if
 * necessary. */
void px_promise(struct px *px, struct ballot ballot);
/* Accepts the entry, the next one: puts it into the log, and its record into the update. */
void px_store(struct px *px, const struct log_entry *e);

/* ---- lease.c ---- */

/* Counts the grants of a master's lease again: members have granted it, or lists have changed. */
void px_lease_count(struct px *px);
/* True when a grant of this replica forbids a promise to `candidate`. */
bool px_is_bound(const struct px *px, uint8_t candidate);
/* A master that has a lease begins a new ballot: until the end of that lease it follows no other
 * replica, nor promises to one. */
void px_lease_keep(struct px *px);
/* Records that no lease is left, when PX_CLOSE has come and the last one has expired. */
void px_close_if_free(struct px *px);
/* Grants a lease of `length` to the master of `ballot`, counted from now. Its length is recorded
 * before the grant is sent, if it is longer than those before. */
void px_grant(struct px *px, struct ballot ballot, span_t length);
/* Notes how the term of this master ends, as far as known. */
void px_lease_ends(struct px *px, uint8_t master, struct bytes why);
/* The master has given its lease back. */
void px_grant_void(struct px *px);
/* At the start: grants of an earlier incarnation may be valid for the span `wait`. */
void px_lease_begin(struct px *px, span_t wait);
/* From now on no lease is granted. */
void px_lease_close(struct px *px);
/* The lease's length as it is sent in heartbeats, in milliseconds. */
uint32_t px_lease_ms(const struct px *px);
/* When the grant ends that answers a heartbeat sent at `sent`, on the master's clock: always before
 * it ends on the acceptor's. */
mono_t px_lease_end(const struct px *px, mono_t sent);

/* ---- proposer.c ---- */

/* A random span below the heartbeat interval (100 ms by default), doubled per lost election. */
span_t px_jitter(struct px *px);
/* True for a voter of the list in force, as far as known. An open change may remove its vote, but
 * the voters of the new list may not know yet that they are voters. */
bool px_may_be_candidate(const struct px *px);
/* True when this replica may be a candidate now: no lease is in its way. */
bool px_may_stand(const struct px *px);
/* Asks all voters whether this replica may be a candidate. */
void px_ask_for_votes(struct px *px);
/* Handles the consent of a voter; this replica becomes a candidate when a majority has consented
 * lately. */
void px_on_pre_voted(struct px *px, uint8_t from, const struct msg_pre_voted *m);
/* Takes a ballot of its own and sends a Prepare to all voters. */
void px_begin_candidacy(struct px *px);
/* A follower asks for votes at `at`, unless it receives a message of a master before. */
void px_stand_from(struct px *px, mono_t at);
/* Takes the place of a candidate that lacks much of the log. */
void px_stand_instead(struct px *px);
/* There is a master: earlier lost elections do not lengthen the jitter any more, and this replica
 * may stand instead of another one again. */
void px_candidate_calm(struct px *px);
/* The candidate is master now. */
void px_candidate_elected(struct px *px);
/* Asks again, at its time: with the same ballot, or, if that was refused, with a higher one. */
void px_ask_again(struct px *px);
/* True when a majority has promised, though perhaps not reported all. */
bool px_has_promises(const struct px *px);
/* True while a candidate that has the promises of a majority receives what it lacks. */
bool px_is_gathering(const struct px *px);
/* When a quorum has promised: promises its own ballot, and becomes master when that is durable. */
void px_count_votes(struct px *px);
/* Handles a promise, with the entries that it reports. */
void px_on_promise(struct px *px, uint8_t from, const struct msg_promise *m);
/* Handles values that were asked for. */
void px_on_gathered(struct px *px, uint8_t from, const struct msg_gathered *m);
/* The other member follows this master: it no longer refuses it. */
void px_candidate_followed(struct px *px, uint8_t by);
/* Handles a refusal, which names the ballot for which this replica was refused. */
void px_on_refused(struct px *px, uint8_t from, const struct msg_refused *m);
/* Follows the master of this ballot (BALLOT_NONE: none), and ends an own candidacy or mastership.
 * This replica asks for votes `wait` from now at the earliest. */
void px_follow(struct px *px, struct ballot master, span_t wait);
/* Begins to hand the mastership over to `to` (0: the furthest member); a candidate follows. */
void px_leave(struct px *px, uint8_t to, const char *why);
/* Hands over when the master is leaving and nothing is in flight or the time is over. */
void px_leave_check(struct px *px);

/* ---- promises.c ---- */

/* Starts a candidate's window with its own entries, which count like those of a promise. */
void px_pick_own(struct px *px);
/* Frees the picked entries: there is a master. */
void px_promises_forget(struct px *px);
/* Keeps them for the next candidacy, which need not ask for these values again. */
void px_promises_keep(struct px *px);
/* The last slot of the unbroken run of picked entries after the chosen ones; entries after it have
 * an older origin and are superseded. */
uint64_t px_picked_last(const struct px *px);
/* True when all values up to px_picked_last are here. */
bool px_picked_whole(const struct px *px);
/* The slot up to which a vote has reported its accepted entries, or up to which all is chosen
 * anyway. */
uint64_t px_vote_have(const struct px *px, const struct vote *v);
/* Takes the entries that a promise reports, in order; false unless they follow the last reported
 * one. */
bool px_take_promise(struct px *px, uint8_t from, const struct msg_promise *m);
/* A promise that arrives after the election: its entries need not be sent to that member again. */
void px_note_told(struct px *px, uint8_t from, const struct msg_promise *m);
/* Takes values that were asked for; false when none is one that was picked. */
bool px_take_values(struct px *px, struct wire_list entries);
/* A candidate with the promises of a majority asks the holders of missing values for them. */
void px_gather(struct px *px);
/* True when this replica alone has promised a value, and has not sent it for half a lease. */
bool px_withholds(const struct px *px, uint8_t id);

/* ---- replication.c ---- */

/* True for a member that has answered this master lately. */
bool px_answers(const struct px *px, uint8_t id);
/* Values up to here need not be sent to a follower, or are trimmed. */
uint64_t px_known_to(const struct px *px, const struct peer *p);
/* Begins to replicate, the picked entries first. */
void px_begin_mastership(struct px *px);
/* Puts an entry into the next slot; the payload is copied. It is sent by the next px_pump. */
void px_propose(struct px *px, struct bytes payload);
/* Sends the followers the entries that they lack, as far as the window allows. */
void px_pump(struct px *px);
/* Sends a heartbeat to every other member. */
void px_send_heartbeats(struct px *px);
/* The next heartbeats are sent at `at` at the latest. */
void px_heartbeat_by(struct px *px, mono_t at);
/* The follower reads a copy of this replica's state, of the slot that is applied now or a later
 * one. */
void px_peer_copies(struct px *px, uint8_t id);
/* Answers to heartbeats that were already sent do not count any more. */
void px_heartbeats_skip(struct px *px);
/* Sends a heartbeat to one other member. */
void px_send_heartbeat(struct px *px, uint8_t id);
/* True if another replica than this master could be elected. */
bool px_others_could(const struct px *px);
/* Handles a follower's acceptance: slots may be chosen by it. */
void px_on_accepted(struct px *px, uint8_t from, const struct msg_accepted *m);
/* Handles a follower's answer: its grant, and its progress. */
void px_on_heartbeat_reply(struct px *px, uint8_t from, const struct msg_heartbeat_reply *m);
/* Sends a follower the entries that it lacks. */
void px_on_fetch(struct px *px, uint8_t from, const struct msg_fetch *m);

/* ---- learner.c ---- */

/* Slots up to `slot` are chosen; slots that are known as chosen are ignored. */
void px_learn(struct px *px, uint64_t slot);
/* A chosen entry for the slot after the last chosen one, from a member that knows it as chosen. */
void px_learn_entry(struct px *px, const struct log_entry *e);
/* Records the chosen hint if it has grown. */
void px_record_chosen(struct px *px);
/* On the master: learns the slots that a majority has accepted. */
void px_count_accepted(struct px *px);
/* Writes up to `write` are durable. */
void px_persisted(struct px *px, uint64_t write);
/* Completes the update's records and keeps what will hold when their write is durable. */
void px_note_pending(struct px *px);
/* The applied slot that is reported to the master: durable in state.db and known as chosen by the
 * durable log alone. */
uint64_t px_applied_reported(const struct px *px);
/* The slot up to which no member needs the log any more: as the master computes it, or as it has
 * told the others. */
uint64_t px_trim_target(const struct px *px);
/* The state is durable up to this slot: the log may be trimmed. */
void px_on_applied(struct px *px, uint64_t slot);

#endif
