/* What the files of a replica share. Each owns one idea:
 *
 *   replica.c             life, the way of each event, applying
 *   mastership.c          the mastership
 *   member_list.c         the list of members, and its changes
 *   admin.c               operators' commands
 *   status.c              what a replica tells of itself
 *   member_rules.c        who may join and leave
 *   divergence.c          agreement about the state
 *   disk_full.c           full disks
 *   replica_divergence.c  when they are computed, told and compared
 *   frame_backlog.c       what waits for its turn
 *   replica_settings.c    what the cell is set to
 *
 * member_rules.c, divergence.c, disk_full.c and frame_backlog.c are functions of their arguments,
 * and know nothing of this. */
#ifndef LSFS_REPLICA_INTERNAL_H
#define LSFS_REPLICA_INTERNAL_H

#include "cell/replica/divergence.h"
#include "cell/replica/disk_full.h"
#include "cell/replica/member_rules.h"
#include "cell/replica/replica.h"
#include "cell/replica/frame_backlog.h"

/* An operator who waits for an answer. */
struct admin_request {
	TAILQ_ENTRY(admin_request) entry;
	uint64_t conn;
	struct msg_operate asked; /* address and key are owned */
	mono_t since;
	bool under_way;           /* decided, and its outcome waited for */
};
TAILQ_HEAD(admin_request_list, admin_request);

/* ---- the parts of a replica, each written by its file ---- */

/* replica.c: the disks. */
struct replica_disk {
	bool full;        /* the replica's own disk is */
	uint64_t saved;   /* state.db is durable up to here */
	uint64_t written; /* number of the newest write to the log */
	mono_t synced;    /* since then no write was synced, though one waits; MONO_NEVER: none */
};

/* replica.c: proposals that wait for room in the log, in order. */
struct proposal_backlog {
	struct frame_backlog frames;
	size_t bytes;
};

/* mastership.c */
struct mastership {
	struct ballot candidacy;    /* the ballot whose begin_epoch was proposed */
	mono_t elected_at;          /* when this replica was elected the last time */
	int64_t epoch_wall_ns;      /* time of day when its epoch began */
	struct ballot announced;    /* the master that was announced to the clients */
	uint64_t announced_epoch;
	struct frame_backlog early; /* open_session frames, until the epoch is applied */
	size_t early_n;
	bool refuses_growth;        /* for lack of room on the disks of a majority */
};

/* member_list.c */
struct member_list {
	struct wire_list first;    /* owned: of a new cell, until the tree has its list */
	struct msg_members newest; /* see replica_members; the list is owned */
	bool unreported;           /* no update has reported that list */
	bool changing;             /* a change of the list is proposed and not applied */
};

/* admin.c */
struct admin_requests {
	struct admin_request_list requests;
	size_t n;
};

/* replica_settings.c */
struct replica_settings {
	uint32_t raising; /* minor version that was proposed in this mastership */
};

struct replica {
	struct replica_config config;
	struct tree *tree;
	struct px *px;
	struct master *master;
	mono_t master_seen; /* when a master was known last */

	struct replica_disk disk;
	struct proposal_backlog backlog;
	struct mastership mastership;
	struct member_list members;
	struct admin_requests admin;
	struct replica_settings settings;
	struct divergence divergence;
	bool diverged; /* replica_divergence.c */

	/* Of the step that runs. */
	size_t work;                 /* done in applying, in bytes */
	struct replica_times times;
	mono_t now;
	int64_t wall_ns;
	struct replica_update *update;
	struct px_update px_update;
	struct master_update master_update;
	struct tree_outcome outcome;
};

/* replica.c */
struct master_clock r_clock(const struct replica *r);
void r_step_px(struct replica *r, struct px_event event);
/* Takes over what the master's part left in its update. */
void r_absorb_master(struct replica *r);
/* To a client, and to another replica, now. */
void r_answer(struct replica *r, uint64_t conn, const struct message *m);
void r_tell_peer(struct replica *r, uint8_t peer, const struct message *m);
/* Proposals that wait for room in the log; `owned` is taken over. */
void r_backlog_put(struct replica *r, struct bytes owned);
void r_backlog_clear(struct replica *r);
/* An entry of this one command, of the replica's own, behind the backlog. */
void r_propose(struct replica *r, const struct op *op);
/* The state can't be gone on with: what comes next is not in the log any more. */
bool r_state_waits(const struct replica *r);

/* mastership.c */
/* Initializes the mastership of a new replica. */
void r_mastership_init(struct replica *r);
/* Elected, and not about to hand over. */
bool r_is_master(const struct replica *r);
/* Keeps the master's part in step with what paxos says about the mastership. */
void r_mastership_follow(struct replica *r);
/* An epoch has begun: ours? */
void r_mastership_epoch(struct replica *r, const struct tree_note *n);
/* The master is named to clients if they have not heard of it. */
void r_mastership_announce(struct replica *r);
/* A new connection may have missed the news. */
void r_mastership_greet(struct replica *r, uint64_t conn);
/* What a master looks after from time to time: disks, learners, digests. */
void r_mastership_supervise(struct replica *r);
void r_mastership_give_up_stuck_disk(struct replica *r);
/* Since when nothing was synced for too long. */
mono_t r_mastership_disk_deadline(const struct replica *r);
/* A frame from a client, for the master's part. */
void r_mastership_frame(struct replica *r, uint64_t conn, struct bytes frame);
/* The client is sent to the master. */
void r_mastership_elsewhere(struct replica *r, uint64_t conn, struct bytes frame);
void r_mastership_free(struct replica *r);

/* member_list.c */
/* Where the list comes from at the start: the tree's, else that of the configuration. */
void r_member_list_init(struct replica *r, const struct replica_config *config,
                        struct px_config *to);
/* For the first epoch of a cell. */
struct wire_list r_member_list_first(const struct replica *r);
/* The only one with a vote. */
bool r_member_list_alone(const struct replica *r);
/* The list and what is heard of each, as the master sees it. */
void r_member_list_view(const struct replica *r, struct member_view *m);
/* Is a change under way? It is over when an entry behind it is applied: then a majority of those
 * who stay has written down that it is chosen, and needs nobody else any more. */
bool r_member_list_changing(const struct replica *r);
/* Proposes the view's list in the place of the one it was made from. False when it can't be. */
bool r_member_list_propose(struct replica *r, const struct member_view *m);
/* To a client; 0: to all. */
void r_member_list_tell(struct replica *r, uint64_t conn);
/* A proposed change was applied or refused, or is not waited for any more. */
void r_member_list_settled(struct replica *r);
/* True, once, when there is a newer list. */
bool r_member_list_report(struct replica *r);
/* Another list was applied. */
void r_member_list_changed(struct replica *r);
/* Who was away may know neither those who have come meanwhile nor their keys, and so could not be
 * reached by them: when it speaks up, whoever hears it tells it. */
void r_member_list_tell_peer(struct replica *r, uint8_t peer);
/* Who was removed has no say in it: its key may be in wrong hands. */
void r_member_list_hear(struct replica *r, uint8_t from, const struct msg_members *m);
void r_member_list_free(struct replica *r);

/* admin.c */
/* Initializes the operators' requests of a new replica: none. */
void r_admin_init(struct replica *r);
void r_admin_command(struct replica *r, uint64_t conn, const struct msg_operate *m);
/* Does what can be done now of what operators wait for. */
void r_admin_go_on(struct replica *r);
/* What an entry of the log decided; while this replica is master. */
void r_admin_applied(struct replica *r, const struct tree_outcome *outcome);
/* The mastership ends: who asked for that has it, the others will ask the next master. */
void r_admin_left(struct replica *r);
void r_admin_disconnected(struct replica *r, uint64_t conn);
void r_admin_free(struct replica *r);

/* replica_divergence.c */
void r_divergence_compute(struct replica *r, uint64_t index);
/* The log tells what a majority has computed: whatever we did from here on might be wrong. */
void r_divergence_told(struct replica *r, const struct tree_note *n);
void r_divergence_hear(struct replica *r, uint8_t from, const struct msg_digest *m);
/* What a master tells the others of it. */
void r_divergence_supervise(struct replica *r);

/* replica_settings.c */
/* In force here: the tree's; before the first epoch those of the configuration. */
span_t r_settings_span(const struct replica *r, enum setting which);
/* For the first epoch of a cell; lies in the buffer. */
struct wire_list r_settings_first(const struct replica *r, struct buffer *packed);
/* Paxos goes by the tree's from now on. */
void r_settings_changed(struct replica *r);
/* The minor version in which the log is written. */
uint32_t r_settings_minor(const struct replica *r);
/* Is that a later one than this replica speaks? Nothing more is applied then. */
bool r_settings_outdated(const struct replica *r);
/* Raises it when every member understands a later one. */
void r_settings_supervise(struct replica *r, const struct member_view *m);
/* This replica was elected: it has proposed nothing. */
void r_settings_elected(struct replica *r);
/* To a client. */
void r_settings_tell(struct replica *r, uint64_t conn);

/* status.c */
void r_status_answer(struct replica *r, uint64_t conn);

#endif
