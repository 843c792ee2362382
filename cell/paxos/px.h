/* Multi-Paxos, pure: px_step(state, event) -> update.
 *
 * One instance per slot, one ballot for all slots of a master ("Paxos Made Simple", section 3): a
 * candidate prepares every slot from the first that it does not know as chosen, then proposes with
 * that ballot. Two things are stricter than in the paper:
 *  - An acceptor takes the slots of a ballot in order, without holes, so its log has no gap and
 *    there is never a gap below a chosen slot.
 *  - Each entry remembers its origin, the ballot that first proposed it, and the origin of the
 *    entry before it at that time. Slot and origin name one value, so an entry that now stands
 *    behind another origin was proposed behind another value: that one was not chosen, and then
 *    neither was the entry, which is dropped. So a client's requests keep their order over a
 *    fail-over: the second can't be chosen without the first.
 *
 * The driver's duties, in this order for each update:
 *  1. hand `records` to the log, in order, as one transaction, and report PX_PERSISTED with
 *     `write` when it is durable; never out of order;
 *  2. send each message whose `after` is 0 at once, every other one when write `after` is
 *     durable (a promise or an acceptance is a lie before that);
 *  3. apply slots up to px_chosen in order, from px_payload;
 *  4. call again at px_deadline with PX_TIMEOUT.
 * Messages may be lost, doubled, reordered and late: nothing but time is lost by that.
 *
 * The log is kept until every member has its state durable, within a limit: who needs older
 * entries than px_first() of the master is "behind" and gets a copy of the state (px_behind).
 *
 * Members change by entries of the log itself (wire_entry_members): the list in force for a slot is
 * that of the last such entry below it, so a change is chosen by the quorum that it replaces, and
 * nothing is proposed behind one that is not chosen yet. One voter at a time comes or goes: any two
 * majorities of neighbouring lists meet. A candidate needs a majority of every list that it knows
 * of or learns of from the promises.
 *
 * A replica that has started is mute until a majority has welcomed it ("Paxos Made Live", section
 * 5.1: a disk may have been lost or replaced): whoever remembers more of it than it has itself says
 * so, and then it has no vote any more. */
#ifndef LSFS_PAXOS_PX_H
#define LSFS_PAXOS_PX_H

#include "cell/base/mono.h"
#include "cell/wire/types.h"

struct px;

struct px_member {
	uint8_t id; /* 1.. */
	bool voter; /* else it learns, acknowledges and grants, and counts for nothing */
};

struct px_members {
	uint64_t version; /* slot of the entry that made the list; 0: the first one */
	struct px_member list[LIMIT_REPLICAS];
	int n;
	uint64_t removed[4]; /* a bit per id: was a member once, and is told so when it speaks */
};

enum { PX_KEY = 16 };

struct px_config {
	uint8_t self;                      /* replica id; maybe no member (any more) */
	struct px_members members;         /* in force behind px_recovered.applied */
	uint64_t start;                    /* random number of this start */
	uint64_t log_entries, log_bytes;   /* kept for laggards; 0: PX_LOG_ENTRIES, _BYTES */
	span_t lease;                      /* of the master; default 500 ms */
	span_t heartbeat;                  /* renewal interval; default 100 ms */
	unsigned drift_permille;           /* by how much two clocks' rates may differ */
	uint64_t seed;                     /* of the election jitter */
	uint8_t key[PX_KEY];               /* a secret of this replica, which is not in its log:
	                                    * with it it recognises what it has told of itself */
};

enum {
	PX_LOG_ENTRIES = 65536,
	PX_LOG_BYTES = 64 * 1024 * 1024,
	PX_LOG_COPIES = 4, /* so many times as much is kept while somebody reads a copy */
};

enum px_role { PX_FOLLOWER, PX_CANDIDATE, PX_MASTER };

/* The proof of a mark that the replica with this key has told of itself. */
uint64_t px_proof(const uint8_t key[PX_KEY], const struct mark *m);

/* What the log keeps. Numbers that no kind uses are 0. */
enum px_record_kind {
	PX_RECORD_PROMISE, /* ballot: nothing lower is answered any more */
	PX_RECORD_ENTRY, /* slot, ballot, origin, before, payload, checksum: instead of another */
	PX_RECORD_CHOSEN, /* slot: everything up to here is chosen (a hint, written along) */
	PX_RECORD_TRIM, /* slot: entries up to here may be deleted */
	PX_RECORD_LEASE, /* length: the longest lease this incarnation may have granted */
	PX_RECORD_MARK, /* mark: what another replica told of itself; replaces an older one */
};

struct px_record {
	enum px_record_kind kind;
	uint64_t slot;
	struct ballot ballot, origin, before;
	span_t length;
	struct bytes payload; /* a view into the px, valid until the next step */
	uint64_t checksum;    /* of the payload, for entries */
	struct mark mark;
};

/* What the log held at the start. Entries come in slot order from trimmed + 1 on, already checked
 * against their sums; px copies what it keeps. */
struct px_recovered {
	uint64_t incarnation;       /* of this start, written durably before px_new */
	struct ballot promised;     /* {0, 0}: none */
	uint64_t chosen;            /* the hint; at least `trimmed` */
	uint64_t trimmed;           /* entries up to here are gone from the log */
	span_t wait;                /* longest lease that may still bind us; 0: none can */
	const struct log_entry *entries;
	size_t entries_n;
	uint64_t applied;             /* of the state; with the origin of that entry */
	struct ballot applied_origin;
	uint64_t damaged;             /* the log held slots up to here, which are unreadable behind
	                               * the entries; 0: all is well */
	bool state_lost;              /* the state was unreadable: it begins empty, at 0 */
	const struct mark *marks;     /* of other replicas, as they were recorded */
	size_t marks_n;
};

enum px_event_kind {
	PX_RECEIVE,   /* from, message (one of the replicas', or a list of members that is
	               * believed; a view, not kept) */
	PX_PERSISTED, /* write */
	PX_PROPOSE,   /* payload (a view; copied). Ignored unless px_open(); never behind an open
	               * change of the members (px_room), and no list that the state would refuse */
	PX_APPLIED,   /* slot: durable in state.db; the log may be trimmed up to here */
	PX_TIMEOUT,   /* the deadline was reached (early calls are harmless) */
	PX_STEP_DOWN, /* give the mastership up, to `to` or to whoever is furthest (0) */
	PX_CLOSE,     /* the same for good: grants no lease any more, and records that */
	PX_FULL,      /* on: our disk is full, or (off) has room again; told to the master */
	PX_COPY_BEGUN, /* from: is about to read a copy of our state, as it is now or later */
};

struct px_event {
	enum px_event_kind kind;
	mono_t now;
	uint8_t from, to;
	const struct message *message;
	uint64_t write, slot;
	struct bytes payload;
	bool on;
};

struct px_send {
	uint8_t to;
	uint64_t after; /* send when this write is durable; 0: now */
	struct bytes frame; /* encoded message; owned by the update */
};

struct px_update {
	struct px_record *records;
	size_t records_n, records_room;
	uint64_t write;  /* of these records; 0 when there are none */
	struct px_send *sends;
	size_t sends_n, sends_room;
};

/* A cell of one stands for election at its first deadline and is master when its promise is
 * durable. */
struct px *px_new(const struct px_config *config, const struct px_recovered *recovered, mono_t now);
void px_free(struct px *px);

/* Clears `update`, handles the event and fills it. */
void px_step(struct px *px, const struct px_event *event, struct px_update *update);
void px_update_free(struct px_update *update);

/* The lengths of the lease and between two heartbeats from now on: when the master's own entry says
 * so, a follower may stand with them as well. */
void px_set_lease(struct px *px, span_t lease, span_t heartbeat);

/* When the last lease that it may have granted is over, after PX_CLOSE: then it records so, for the
 * next start not to wait; px_closed when it has. */
mono_t px_close_at(const struct px *px);
bool px_closed(const struct px *px);

/* When PX_TIMEOUT is due. */
mono_t px_deadline(const struct px *px);

enum px_role px_role(const struct px *px);
/* True while proposals are taken: the master, and not about to hand over. */
bool px_open(const struct px *px);
/* False when so much is proposed and not chosen that the master should wait with more, and while a
 * change of the members is not chosen. */
bool px_room(const struct px *px);
/* The ballot of the master as far as known; round 0: none. */
struct ballot px_master(const struct px *px);
/* True while this master's lease holds: only then may it answer reads and decide expiries. */
bool px_lease_valid(const struct px *px, mono_t now);
/* Is there a master with a lease, as far as this replica knows: itself, or one that it has granted
 * it to? */
bool px_has_master(const struct px *px, mono_t now);
/* Slot of the last accepted entry (a master's next proposal gets one more), and highest slot known
 * to be chosen, which after a restart may be lower than what the tree has applied. */
uint64_t px_last(const struct px *px);
uint64_t px_chosen(const struct px *px);
/* Lowest slot whose payload is still here. */
uint64_t px_first(const struct px *px);
/* The list in force behind the last chosen slot. */
const struct px_members *px_members(const struct px *px);
/* Why this replica has no vote at the moment; CONDITION_VOTING when it has one. */
enum replica_condition px_condition(const struct px *px);
/* A replica that has a state to be copied, because we need entries that it has no more; 0: none. */
uint8_t px_behind(const struct px *px);
/* What a master knows of another member. False for no member. */
struct px_progress {
	uint64_t match, applied; /* durable in its log, in its state.db */
	mono_t answered_at;      /* when it answered this mastership last; {INT64_MIN}: never */
	bool full;
};
bool px_progress(const struct px *px, uint8_t id, struct px_progress *progress);
/* The origin of a chosen slot in px_first() - 1 .. px_chosen(). */
struct ballot px_origin(const struct px *px, uint64_t slot);
/* The payload of a slot in px_first() .. px_last(); a view, valid until the next step. */
struct bytes px_payload(const struct px *px, uint64_t slot);

#endif
