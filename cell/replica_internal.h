/* What the files of a replica share. Each owns one idea:
 *
 *   replica.c           life, the way of each event, applying
 *   office.c            the mastership
 *   members.c           the list of members, and its changes
 *   operate.c           operators' commands
 *   status.c            what a replica tells of itself
 *   membership.c        who may join and leave
 *   digests.c           agreement about the state
 *   fullness.c          full disks
 *   replica_digests.c   when they are computed, told and compared
 *   waiting.c           what waits for its turn
 *   replica_settings.c  what the cell is set to
 *
 * The last two columns' lower parts are functions of their arguments and know nothing of this. */
#ifndef LSFS_CELL_REPLICA_INTERNAL_H
#define LSFS_CELL_REPLICA_INTERNAL_H

#include "cell/digests.h"
#include "cell/fullness.h"
#include "cell/membership.h"
#include "cell/replica.h"
#include "cell/waiting.h"

/* An operator who waits for an answer. */
struct operator {
	TAILQ_ENTRY(operator) entry;
	uint64_t conn;
	struct msg_operate asked; /* address and key are owned */
	mono_t since;
	bool under_way;           /* decided, and its outcome waited for */
};
TAILQ_HEAD(operator_list, operator);

struct replica {
	struct replica_config config;
	struct tree *tree;
	struct px *px;
	struct master *master;
	bool full;                   /* our disk is */
	uint64_t saved;              /* state.db is durable up to here */
	uint64_t written;            /* ticket of the newest records */
	mono_t led;                  /* when there was a master last, as far as we know */
	mono_t synced;               /* since then nothing was synced, and something waits for it */
	struct waiting_list backlog; /* proposals, in order */
	size_t backlog_bytes;

	/* office.c */
	struct ballot candidacy;     /* the ballot whose begin_epoch was proposed */
	mono_t office_since;         /* when this replica was elected the last time */
	int64_t office_ns;           /* wall clock when its epoch began */
	struct ballot announced;     /* the master that clients were told of */
	uint64_t announced_epoch;
	struct waiting_list early;   /* open_session frames, until the epoch is applied */
	size_t early_n;
	bool refuses_growth;         /* for lack of room on the disks of a majority */

	/* members.c */
	struct wire_list first_members; /* owned: of a new cell, until the tree has its list */
	struct msg_members newest;   /* see replica_members; the list is owned */
	bool members_new;            /* the driver has not been told of that */
	bool changing;               /* a change of the list is proposed and not applied */

	/* operate.c */
	struct operator_list operators;
	size_t operators_n;

	struct digests digests;
	bool diverged;

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

/* office.c */
/* Elected, and not about to hand over. */
bool r_is_master(const struct replica *r);
/* Keeps the master's part in step with what paxos says about the mastership. */
void r_office_follow(struct replica *r);
/* An epoch has begun: ours? */
void r_office_epoch(struct replica *r, const struct tree_note *n);
/* The master is named to clients if they have not heard of it. */
void r_office_announce(struct replica *r);
/* A new connection may have missed the news. */
void r_office_greet(struct replica *r, uint64_t conn);
/* What a master looks after from time to time: disks, learners, digests. */
void r_office_supervise(struct replica *r);
void r_office_give_up_stuck_disk(struct replica *r);
/* Since when nothing was synced for too long. */
mono_t r_office_disk_deadline(const struct replica *r);
/* A frame from a client, for the master's part. */
void r_office_frame(struct replica *r, uint64_t conn, struct bytes frame);
/* The client is sent to the master. */
void r_office_elsewhere(struct replica *r, uint64_t conn, struct bytes frame);
void r_office_free(struct replica *r);

/* members.c */
/* Where the list comes from at the start: the tree's, else that of the configuration. */
void r_members_init(struct replica *r, const struct replica_config *config, struct px_config *to);
/* For the first epoch of a cell. */
struct wire_list r_members_first(const struct replica *r);
/* The only one with a vote. */
bool r_members_alone(const struct replica *r);
/* The list and what is heard of each, as the master sees it. */
void r_members_view(const struct replica *r, struct membership *m);
/* Is a change under way? It is over when an entry behind it is applied: then a majority of those
 * who stay has written down that it is chosen, and needs nobody else any more. */
bool r_members_changing(const struct replica *r);
/* Proposes the view's list in the place of the one it was made from. False when it can't be. */
bool r_members_propose(struct replica *r, const struct membership *m);
/* To a client; 0: to all. */
void r_members_tell(struct replica *r, uint64_t conn);
/* Another list was applied. */
void r_members_changed(struct replica *r);
/* Who was away may know neither those who have come meanwhile nor their keys, and so could not be
 * reached by them: when it speaks up, whoever hears it tells it. */
void r_members_tell_peer(struct replica *r, uint8_t peer);
/* Who was removed has no say in it: its key may be in wrong hands. */
void r_members_hear(struct replica *r, uint8_t from, const struct msg_members *m);
void r_members_free(struct replica *r);

/* operate.c */
void r_operate(struct replica *r, uint64_t conn, const struct msg_operate *m);
/* Does what can be done now of what operators wait for. */
void r_operate_go_on(struct replica *r);
/* What an entry of the log decided; while in office. */
void r_operate_applied(struct replica *r, const struct tree_outcome *outcome);
/* The mastership ends: who asked for that has it, the others will ask the next master. */
void r_operate_left(struct replica *r);
void r_operate_disconnected(struct replica *r, uint64_t conn);
void r_operate_free(struct replica *r);

/* replica_digests.c */
void r_digests_compute(struct replica *r, uint64_t index);
/* The log tells what a majority has computed: whatever we did from here on might be wrong. */
void r_digests_told(struct replica *r, const struct tree_note *n);
void r_digests_hear(struct replica *r, uint8_t from, const struct msg_digest *m);
/* What a master tells the others of it. */
void r_digests_supervise(struct replica *r);

/* replica_settings.c */
/* In force here: the tree's; before the first epoch those of the configuration. */
span_t r_settings_span(const struct replica *r, enum setting which);
/* For the first epoch of a cell; lies in the buffer. */
struct wire_list r_settings_first(const struct replica *r, struct buffer *packed);
/* Paxos goes by the tree's from now on. */
void r_settings_changed(struct replica *r);
/* To a client. */
void r_settings_tell(struct replica *r, uint64_t conn);

/* status.c */
void r_status_answer(struct replica *r, uint64_t conn);

#endif
