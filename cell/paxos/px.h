/* Multi-Paxos, pure: px_step(state, event) -> update.
 *
 * One instance per slot, one ballot for all slots of a master ("Paxos Made Simple", section 3): a
 * candidate prepares every slot from the first that it does not know as chosen, then proposes with
 * that ballot. Two rules are stricter than the paper's:
 *  - An acceptor accepts the slots of a ballot in order, without holes, so its log has no gap and
 *    there is never a gap below a chosen slot.
 *  - Each entry keeps its origin, the ballot that first proposed it, and the origin of the entry
 *    before it at that time. Slot and origin identify one value. When the entry before it now has
 *    another origin, the entry was proposed after another value: that value was not chosen, so
 *    the entry was not chosen either and is dropped. Thus a client's requests keep their order
 *    over a fail-over: the second can't be chosen without the first.
 *
 * The driver's duties, in this order for each update:
 *  1. hand `records` to the log, in order, as one transaction, and report PX_PERSISTED with
 *     `write` when it is durable; never out of order;
 *  2. send each message whose `after` is 0 at once, every other one when write `after` is
 *     durable (until then its promise or acceptance could be forgotten in a crash);
 *  3. apply slots up to px_status.chosen in order, from px_payload;
 *  4. call again at px_status.deadline with PX_TIMEOUT.
 * Messages may be lost, duplicated, reordered and delayed: that costs time, never safety.
 *
 * The log is kept until every member has its state durable, within a limit: a replica that needs
 * entries older than the first one of the master is "behind" and fetches a copy of the state
 * (px_status.behind).
 *
 * Members change by entries of the log itself (wire_entry_members): the list in force for a slot is
 * that of the last such entry below it, so a change is chosen by a quorum of the list that it
 * replaces, and nothing is proposed after a change that is not chosen yet. One voter at a time is
 * added or removed: any two majorities of successive lists intersect. A candidate needs a majority
 * of every list that it knows of or learns of from the promises.
 *
 * A replica that has started is mute until a majority has welcomed it ("Paxos Made Live", section
 * 5.1: its disk may have been lost or replaced). A welcome states what its sender remembers of the
 * replica; if that is more than the replica's log holds, the replica has lost its vote. */
#ifndef LSFS_PAXOS_PX_H
#define LSFS_PAXOS_PX_H

#include "cell/base/mono.h"
#include "cell/base/trace.h"
#include "cell/wire/types.h"

struct px;

struct px_member {
	uint8_t id; /* 1.. */
	bool voter; /* else it learns, acknowledges and grants, but is not counted */
};

struct px_members {
	uint64_t version; /* slot of the entry that made the list; 0: the first one */
	struct px_member list[LIMIT_REPLICAS];
	int n;
	uint64_t removed[4]; /* a bit per id: former members, whose requests are refused */
};

/* True for a member with a vote. */
bool px_is_voter(const struct px_members *m, uint8_t id);
/* True when this number of the list's voters is a majority of them. */
bool px_majority(const struct px_members *m, int voters);
/* How many of the list's voters `holds` is true for: an expression, with the voter as `id`. */
#define PX_VOTERS(m, id, holds)                                       \
	({                                                            \
		int n_##id = 0;                                       \
                                                                      \
		for (int i_##id = 0; i_##id < (m)->n; i_##id++) {     \
			const uint8_t id = (m)->list[i_##id].id;      \
                                                                      \
			(void)id;                                     \
			n_##id += (m)->list[i_##id].voter && (holds); \
		}                                                     \
		n_##id;                                               \
	})
/* True when it is for a majority of them. */
#define PX_MAJORITY(m, id, holds) px_majority(m, PX_VOTERS(m, id, holds))

enum { PX_KEY = 16 };

struct px_config {
	uint8_t self;                    /* replica id; possibly not, or no longer, a member */
	struct px_members members;       /* in force after px_recovered.applied */
	struct px_members newest;        /* the newest list that the caller knows, or none: its
	                                  * voters have to welcome this replica */
	uint64_t start;                  /* random number of this start */
	uint64_t log_entries, log_bytes; /* kept for followers; 0: PX_LOG_ENTRIES, _BYTES */
	uint32_t batch_entries;          /* in one message; 0: PX_BATCH_ENTRIES */
	span_t lease;                    /* of the master lease; default 500 ms */
	span_t heartbeat;                /* renewal interval; default 100 ms */
	unsigned drift_permille;         /* maximum difference of two clocks' rates */
	uint32_t minor;                  /* version of wire and log that this replica speaks */
	uint64_t seed;                   /* for the election jitter */
	uint8_t key[PX_KEY];             /* a secret of this replica, which is not in its log:
	                                  * by it the replica recognises its own marks */
	struct trace *trace;             /* the caller's sink of verdicts; NULL: none */
};

enum {
	PX_LOG_ENTRIES = 65536,
	PX_LOG_BYTES = 64 * 1024 * 1024,
	PX_LOG_COPIES = 4, /* this many times the limit is kept while a member reads a copy */
};

enum px_role { PX_FOLLOWER, PX_CANDIDATE, PX_MASTER };

/* The proof that the replica with this key puts into its own mark `m`. */
uint64_t px_proof(const uint8_t key[PX_KEY], const struct mark *m);

/* The records of the log. Numbers that a kind does not use are 0. */
enum px_record_kind {
	PX_RECORD_PROMISE, /* ballot: lower ballots are refused from now on */
	PX_RECORD_ENTRY,  /* slot, ballot, origin, before, payload, checksum: in place of another */
	PX_RECORD_CHOSEN, /* slot: every slot up to here is chosen (a hint) */
	PX_RECORD_TRIM,   /* slot: entries up to here may be deleted */
	PX_RECORD_LEASE,  /* length: the longest lease that this incarnation may have granted */
	PX_RECORD_MARK,   /* mark: what another replica acknowledged, in place of an older one */
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

/* The content of the log at the start. Entries are in slot order from trimmed + 1 on, their
 * checksums already verified; px copies the entries that it keeps. */
struct px_recovered {
	uint64_t incarnation;   /* of this start, written durably before px_new */
	struct ballot promised; /* {0, 0}: none */
	uint64_t chosen;        /* the hint; at least `trimmed` */
	uint64_t trimmed;       /* entries up to here have been deleted from the log */
	span_t wait;            /* longest lease that may still be valid; 0: none */
	const struct log_entry *entries;
	size_t entries_n;
	uint64_t applied; /* last slot in the state; with the origin of its entry */
	struct ballot applied_origin;
	uint64_t damaged;         /* the log held slots up to here, of which those after the
	                           * entries are unreadable; 0: none */
	bool state_lost;          /* the state was unreadable and starts empty, at slot 0 */
	const struct mark *marks; /* of other replicas, as recorded */
	size_t marks_n;
};

enum px_event_kind {
	PX_RECEIVE,   /* from, message (of a replica, or a list of members that the driver trusts; a
	               * view, not kept) */
	PX_PERSISTED, /* write */
	PX_PROPOSE,   /* payload (a view; copied): see PX_SEND. Ignored unless px_status.open; never
	               * after an open change of the members (px_room), nor with a list that the
	               * state would refuse */
	PX_SEND,      /* send the followers what was proposed, together; see px_status.unsent */
	PX_APPLIED,   /* slot: durable in state.db; the log may be trimmed up to here */
	PX_TIMEOUT,   /* the deadline was reached (early calls are harmless) */
	PX_STEP_DOWN, /* give up the mastership, to `to` or (0) to the voter with the longest log */
	PX_CLOSE,     /* the same for good: no lease is granted from then on, which is recorded */
	PX_FULL,      /* on: the disk is full, or (off) has room again; reported to the master */
	PX_COPY_BEGUN, /* from: is about to read a copy of the state, the present or a later one */
};

struct px_event {
	enum px_event_kind kind;
	mono_t now;
	uint8_t from, to;
	const struct message *message;
	uint64_t write, slot;
	struct bytes payload;
	const char *why; /* PX_STEP_DOWN, PX_CLOSE: for people; a literal */
	bool on;
};

struct px_send {
	uint8_t to;
	uint64_t after;     /* send when this write is durable; 0: now */
	struct bytes frame; /* encoded message; owned by the update */
};

struct px_update {
	struct px_record *records;
	size_t records_n, records_room;
	uint64_t write; /* number of the write of these records; 0 when there are none */
	struct px_send *sends;
	size_t sends_n, sends_room;
};

/* The state of a px that its owner's decisions depend on. */
struct px_status {
	bool open;        /* proposals are accepted: this replica is master, and not about to hand
	                   * over */
	bool alone;       /* this replica has the only vote */
	bool replaceable; /* this replica is master, and another one could be elected */
	bool unsent;      /* entries were proposed that wait for PX_SEND */
	struct ballot master; /* that this replica follows, or its own ballot; round 0: none */
	mono_t lease_until;   /* px_lease_valid before that */
	mono_t master_until;  /* px_has_master before that */
	uint64_t first;       /* the lowest slot whose payload is still in the log */
	uint64_t chosen; /* the highest that is known to be chosen; after a restart the tree may
	                  * have applied later ones */
	uint8_t behind;  /* a replica from which a copy of the state is to be fetched, because
	                  * this one needs entries that are trimmed there; 0: none */
	enum voting_condition condition; /* why it has no vote at the moment; CONDITION_VOTING: it
	                                  * has one */
	mono_t deadline;                 /* when PX_TIMEOUT is due */
};

/* The state of a replica, owned by the caller; `config` and `recovered` are copied. In a cell of
 * one the replica becomes a candidate at its first deadline, and master when its promise is
 * durable. */
struct px *px_new(const struct px_config *config, const struct px_recovered *recovered, mono_t now);
/* Frees the replica; NULL is allowed. */
void px_free(struct px *px);

/* Clears `update`, handles the event and fills it. */
void px_step(struct px *px, const struct px_event *event, struct px_update *update);
/* Frees the contents of the update. */
void px_update_free(struct px_update *update);
/* As of the end of the last call that changed anything: a view, which stays valid as long as the
 * px. It is for its owner, who would have to ask all of that after each step. */
const struct px_status *px_status(const struct px *px);

/* Sets the lengths of the lease and of the heartbeat interval from now on. Every replica may set
 * them when it applies the entry that changes them: a follower uses them once it is master. */
void px_set_lease(struct px *px, span_t lease, span_t heartbeat);

/* After PX_CLOSE: when the last lease that this replica may have granted has expired. The replica
 * then records that, so that the next start need not wait. */
mono_t px_close_at(const struct px *px);
/* True when that is recorded. */
bool px_closed(const struct px *px);

/* Follower, candidate or master. */
enum px_role px_role(const struct px *px);
/* True when a master that is open should propose. False when so much is proposed and not chosen
 * that further commands should wait, and while a change of the members is not chosen. */
bool px_room(const struct px *px);
/* The master before that election of this replica, 0: none was heard of, and why it is none any
 * more, for people. */
uint8_t px_former(const struct px *px, const char **why);
/* True while this master's lease holds: only then may it answer reads and decide expiries. */
bool px_lease_valid(const struct px *px, mono_t now);
/* True when this replica knows of a master with a lease: itself, or one to which it has granted a
 * lease that is still valid. */
bool px_has_master(const struct px *px, mono_t now);
/* Slot of the last accepted entry: a master's next proposal gets the slot after it. */
uint64_t px_last(const struct px *px);
/* How much the log holds, and how much is kept for a follower that lags. */
struct px_log_room {
	uint64_t entries, entries_max, bytes, bytes_max;
};
/* Both as they are now. */
struct px_log_room px_log_room(const struct px *px);
/* The list in force after the last chosen slot. */
const struct px_members *px_members(const struct px *px);
/* The signing keys on this replica's disk: the index of the entry that put them in force, and one;
 * 0: it lacks one. They are reported to the master. `any` false: it has none, and does not become a
 * candidate. */
void px_set_keys(struct px *px, uint64_t keys, bool any);
/* A master's record of another member's progress. */
struct px_progress {
	uint64_t match, applied; /* durable in its log, in its state.db */
	mono_t answered_at;      /* when it last answered this master; {INT64_MIN}: never */
	bool full;
	uint32_t minor; /* version that it speaks; 0 before it has told */
	uint64_t keys;  /* its px_set_keys */
};
/* Reads that record; false when the id is no member's. */
bool px_progress(const struct px *px, uint8_t id, struct px_progress *progress);
/* The origin of a chosen slot in px_status.first - 1 .. chosen. */
struct ballot px_origin(const struct px *px, uint64_t slot);
/* The entry of a slot in px_status.first .. px_last(); its payload is a view, as that of
 * px_payload. */
struct log_entry px_entry(const struct px *px, uint64_t slot);
/* The payload of a slot in px_status.first .. px_last(); a view, valid until the next step. */
struct bytes px_payload(const struct px *px, uint64_t slot);

#endif
