/* The struct and the functions that the files of a replica share. Each file is one idea:
 *
 *   replica.c             beginning and end, the processing of events, applying
 *   replica_update.c      what a step adds to its update; proposals that wait for room in the log
 *   mastership.c          the mastership of this replica, and news of it for clients
 *   member_list.c         the list of members, its distribution, and its changes
 *   admin.c               operators' commands
 *   status.c              the status of this replica, for people
 *   replica_divergence.c  digests of the state: computed, sent, compared
 *   replica_settings.c    the settings of the cell
 *   member_rules.c        which replicas may become members, and which may stop; full disks
 *   divergence.c          agreement of the replicas about digests
 *   frame_queue.c         a queue of frames
 *   commit_times.c        how long commands take
 *
 * The last four are functions of their arguments, and do not include this file. */
#ifndef LSFS_REPLICA_INTERNAL_H
#define LSFS_REPLICA_INTERNAL_H

#include <inttypes.h>
#include "cell/replica/commit_times.h"
#include "cell/replica/divergence.h"
#include "cell/replica/member_rules.h"
#include "cell/replica/replica.h"
#include "cell/replica/frame_queue.h"

/* A command of an operator that is not answered yet. */
struct admin_request {
	TAILQ_ENTRY(admin_request) entry;
	uint64_t conn;
	struct msg_operate asked; /* address, key and name are owned */
	mono_t since;  /* when it was received; for REMOVE_REPLICA: when its trial was proposed */
	uint64_t slot; /* of the entry that was proposed for it last; 0: none was */
	char principal[LIMIT_PRINCIPAL + 1]; /* when it was received; empty: by a member's key */
	bool under_way;                      /* decided; its outcome is not known yet */
	bool proposed;                       /* to the log, once at least */
};
TAILQ_HEAD(admin_request_list, admin_request);

/* ---- the parts of a replica, each written by its file ---- */

/* replica.c: the disks. */
struct replica_disk {
	bool full;        /* the disk of this replica is full */
	uint64_t saved;   /* the index up to which state.db is durable */
	uint64_t written; /* number of the newest write to the log */
	mono_t synced;    /* since when a write has waited for its sync; MONO_NEVER if none does */
	mono_t unsaved;   /* since when state.db has lacked too much; MONO_NEVER if it does not */
};

/* replica_update.c: proposals that wait for room in the log, in order. */
struct proposal_backlog {
	struct bytes *proposals; /* owned */
	size_t n, room, bytes;
};

/* mastership.c */
struct mastership {
	bool serving;            /* the master's part serves an epoch */
	uint64_t since;          /* index of the entry that began that */
	bool news;               /* another master may have to be announced */
	struct ballot candidacy; /* the ballot whose begin_epoch was proposed */
	mono_t elected_at;       /* when this replica was elected the last time */
	int64_t epoch_wall_ns;   /* time of day when its epoch began */
	struct ballot announced; /* the master that was announced to clients last */
	uint64_t announced_epoch;
	struct frame_queue parked; /* open_session frames that wait for the epoch */
	size_t parked_n;
	bool refuses_growth; /* no majority has space on its disks: refuses what needs it */
};

/* member_list.c */
struct member_list {
	struct wire_list first;    /* owned; of a new cell, until the tree has a list */
	struct msg_members newest; /* see replica_members; the list is owned */
	bool unreported;           /* no update has reported that list */
	bool changing;             /* a change of the list is proposed and not applied */
};

/* admin.c */
struct admin_requests {
	struct admin_request_list requests;
	size_t n;
	bool rotating;          /* another signing key is proposed, and not decided yet */
	struct bytes first_key; /* of the administrator in the cell file; owned */
	uint64_t keys;          /* see master_keys.since */
};

/* replica_settings.c */
struct replica_settings {
	bool outdated;    /* the log's minor version is later than the one that this replica
	                   * speaks: it applies nothing */
	uint32_t raising; /* minor version that was proposed in this mastership; 0: none */
};

struct replica {
	struct replica_config config;
	struct tree *tree;
	struct px *px;
	const struct px_status *paxos; /* its status */
	struct master *master;
	uint64_t applied;   /* the tree's */
	mono_t master_seen; /* when a master was known last */

	struct replica_disk disk;
	struct proposal_backlog backlog;
	struct commit_times commits;
	struct mastership mastership;
	struct member_list members;
	struct admin_requests admin;
	struct replica_settings settings;
	struct divergence divergence;
	bool diverged; /* replica_divergence.c */

	/* of the step that runs */
	size_t work;       /* of applying so far, in bytes */
	unsigned px_steps; /* steps of paxos so far */
	struct replica_times times;
	mono_t now;
	int64_t wall_ns;
	struct replica_update *update;
	struct px_update px_update;
	struct master_update master_update;
	struct tree_outcome outcome;
};

/* Traces: a verdict, with its numbers. */
#define R_TRACE(r, ...) TRACE((r)->config.trace, __VA_ARGS__)

/* replica_update.c */
/* Empties the update, for the next step. */
void r_update_clear(struct replica_update *u);
/* True while this master's lease holds. */
static inline bool
r_lease_valid(const struct replica *r)
{
	return mono_before(r->now, r->paxos->lease_until);
}

/* The clocks, the lease and the refusals of growth that cell/master needs in each call. */
static inline struct master_clock
r_clock(const struct replica *r)
{
	return (struct master_clock){
	    .now = r->now,
	    .wall_ns = r->wall_ns,
	    .lease = r_lease_valid(r),
	    .full = r->mastership.refuses_growth,
	};
}
/* Takes a step of paxos, and adds its update to that of the replica. */
void r_step_px(struct replica *r, struct px_event event);
/* Moves the update of cell/master into that of the replica. */
void r_absorb_master(struct replica *r);
/* Sends a message to a client, without waiting for any write. */
void r_answer(struct replica *r, uint64_t conn, const struct message *m);
/* The same to another replica. */
void r_send_peer(struct replica *r, uint8_t peer, const struct message *m);
/* Adds a proposal to those that wait for room in the log; takes `owned` over. Returns the slot that
 * it gets while this replica is master. */
uint64_t r_backlog_put(struct replica *r, struct bytes owned);
/* Proposes of them what the log has room for; false if it has none. */
bool r_backlog_propose(struct replica *r);
/* Drops all proposals that wait. */
void r_backlog_clear(struct replica *r);
/* Looks the payloads of the records up again: they are views into the log, which later steps of
 * paxos, in the same step of the replica, may have changed. */
void r_look_up_payloads(struct replica *r);
/* True when the entry after the applied ones is not in the log any more: the state can only be
 * replaced. */
static inline bool
r_state_waits(const struct replica *r)
{
	return r->applied + 1 < r->paxos->first;
}

/* mastership.c */
/* Proposes an entry with this one command, of the master itself, after the backlog; returns its
 * slot likewise. */
uint64_t r_propose(struct replica *r, const struct op *op);
/* True if this replica is elected, and does not hand the mastership over. */
bool r_is_master(const struct replica *r);
/* Begins or ends the mastership after paxos has: proposes the epoch, or ends cell/master. Called
 * unless this replica is master in the ballot whose epoch it has proposed. */
void r_mastership_follow(struct replica *r);
/* Processes the beginning of an epoch, which may be that of this replica. */
void r_mastership_epoch(struct replica *r, const struct tree_note *n);
/* The master, its epoch or the members have changed: there may be a master to announce. */
void r_mastership_news(struct replica *r);
/* Announces the master to all clients, unless that was done. */
void r_mastership_announce(struct replica *r);
/* Sends a new connection the members and the master. */
void r_mastership_greet(struct replica *r, uint64_t conn);
/* Does the regular work of a master: for full disks, learners, versions and digests. */
void r_mastership_supervise(struct replica *r);
/* Hands the mastership over, because the disk syncs nothing. */
void r_mastership_give_up_stuck_disk(struct replica *r);
/* The time of that, unless something is synced before; MONO_NEVER: none. */
mono_t r_mastership_disk_deadline(const struct replica *r);
/* Takes a frame from a client while cell/master does not serve: keeps it until the epoch has begun,
 * or redirects the client. */
void r_mastership_frame(struct replica *r, uint64_t conn, struct bytes frame);
/* Frees all frames that wait. */
void r_mastership_free(struct replica *r);

/* member_list.c */
/* Sets the list at the start, also in the configuration of paxos: the tree's, or else that of
 * `config`. */
void r_member_list_init(struct replica *r, const struct replica_config *config,
                        struct px_config *to);
/* The list of a new cell, for its first epoch; empty if the tree has one. A view. */
struct wire_list r_member_list_first(const struct replica *r);
/* Fills in the list, with the progress of each member as the master knows it. */
void r_member_list_view(const struct replica *r, struct member_view *m);
/* True while a change is under way. It is over when an entry after it is applied: then a majority
 * of the remaining members has it as chosen on disk, and can go on without the others. */
bool r_member_list_changing(const struct replica *r);
/* Proposes the list of the view, which was made from the list in force. False if the tree would
 * refuse it: then nothing is proposed. */
bool r_member_list_propose(struct replica *r, const struct member_view *m);
/* Sends the list to a client; conn 0: to all clients. */
void r_member_list_send(struct replica *r, uint64_t conn);
/* Ends the change that is under way: it was applied or refused, or the mastership is over. */
void r_member_list_settled(struct replica *r);
/* True if the list is newer than at the last call. */
bool r_member_list_report(struct replica *r);
/* Processes a list that was applied. */
void r_member_list_changed(struct replica *r);
/* Sends the list to a replica that has started or is a candidate. A replica that was away may lack
 * newer members and their keys, so that they can't reach it: each replica that it reaches sends it
 * the list. */
void r_member_list_send_peer(struct replica *r, uint8_t peer);
/* Takes over a newer list from a member. A list from a removed replica is ignored, because other
 * people may have its key. */
void r_member_list_received(struct replica *r, uint8_t from, const struct msg_members *m);
/* Frees the lists. */
void r_member_list_free(struct replica *r);

/* admin.c */
/* Initializes the operators' commands of a new replica: none. The administrator of a cell that is
 * new has this key, which is copied. */
void r_admin_init(struct replica *r, struct bytes admin_key);
/* Takes an operator's frame; this replica must serve as master. False: it asks for what cell/master
 * knows. */
bool r_admin_frame(struct replica *r, uint64_t conn, struct bytes frame);
/* A majority has a new signing key, which can be put in force (REPLICA_KEYS). */
void r_admin_keys(struct replica *r, struct bytes keys);
/* No list of the members and no signing key is on its way, so that another list may be proposed. */
bool r_members_may_change(const struct replica *r);
/* Decides all commands that can be decided now. */
void r_admin_go_on(struct replica *r);
/* Answers the commands that an applied entry has decided; while this replica serves as master. */
void r_admin_applied(struct replica *r, const struct tree_outcome *outcome);
/* Processes the end of the mastership: answers the command that has requested it, and drops the
 * others, which are sent to the next master. */
void r_admin_left(struct replica *r);
/* Drops the commands of a connection that is closed. */
void r_admin_disconnected(struct replica *r, uint64_t conn);
/* Frees all commands. */
void r_admin_free(struct replica *r);

/* replica_divergence.c */
/* Computes the digest of the state after the entry `index`, and sends it to the master. */
void r_divergence_compute(struct replica *r, uint64_t index);
/* Compares a digest of the log, which a majority has computed, with that of this replica. If they
 * differ, this replica gives up a mastership, and `diverged` is set. */
void r_divergence_checked(struct replica *r, const struct tree_note *n);
/* Takes a digest that another replica has sent. */
void r_divergence_received(struct replica *r, uint8_t from, const struct msg_digest *m);
/* Proposes the digests that a majority agrees on, and reports a dispute; called by a master. */
void r_divergence_supervise(struct replica *r);

/* replica_settings.c */
/* The value of a setting that is a time: the tree's; before the first epoch that of the
 * configuration. */
span_t r_settings_span(const struct replica *r, enum setting which);
/* The settings for the first epoch of a cell; a view into `packed`. */
struct wire_list r_settings_first(const struct replica *r, struct buffer *packed);
/* Passes the tree's settings on to paxos. */
void r_settings_changed(struct replica *r);
/* The minor version in which the log is written. */
uint32_t r_settings_minor(const struct replica *r);
/* Compares that version with the one that this replica speaks. */
void r_settings_follow(struct replica *r);
/* Proposes a later version if every member speaks it; called by a master. */
void r_settings_supervise(struct replica *r, const struct member_view *m);
/* Processes an election of this replica: it has proposed no version yet. */
void r_settings_elected(struct replica *r);
/* Sends the settings to a client. */
void r_settings_send(struct replica *r, uint64_t conn);

/* status.c */
/* Sends the status of this replica to a client. */
void r_status_answer(struct replica *r, uint64_t conn);

#endif
