/* The master's decisions about members: which replicas may become members of the cell, and which
 * may stop. They follow from the list in force, and from the progress of its members.
 *
 * A member keeps its id for ever, and an id is never used again. A replica joins as a learner,
 * without a vote, and gets a vote when it has caught up. A change that would leave no majority of
 * the voters alive is refused, because no later change could undo it; so is one that would leave
 * the signing keys in force, which are on disks only, with no majority of them. */
#ifndef LSFS_REPLICA_MEMBER_RULES_H
#define LSFS_REPLICA_MEMBER_RULES_H

#include "cell/paxos/px.h"

struct member_view_item {
	struct member member; /* its views are the tree's, valid until the next entry is applied */
	struct px_progress progress; /* as its answers report it; of the master: its own */
};

/* The list in force, with removed members, by growing ids, and the members' progress as the master
 * `self` knows it. */
struct member_view {
	uint64_t version;
	uint8_t self;
	uint32_t minor;  /* version in which the log is written */
	uint64_t keys;   /* index of the entry that put the signing keys in force; 0 if none has */
	uint64_t chosen; /* the last slot that is known to be chosen */
	mono_t now;
	mono_t began;   /* when the mastership began */
	mono_t asked;   /* when the change was requested: a member that answered since is alive */
	uint64_t trial; /* slot of an entry proposed since, which a voter that is to stay must have
	                 * accepted; 0: none */
	span_t lease;   /* of the master */
	struct member_view_item list[LIMIT_MEMBERS];
	int n;
};

/* A decision. Unless rc is RC_OK the list is unchanged, and `why` is the reason, for people (empty:
 * that of rc). RC_EXIST: address or key are taken; RC_FULL: a limit is reached; RC_NOENT: there is
 * no such replica; RC_NOTSUP: not in this cell; RC_INVAL: the cell would lose its majority;
 * RC_BUSY: it is not known yet which members are alive: decide again when they have had time to
 * answer. */
struct member_verdict {
	enum rc rc;
	bool changed; /* the list is changed, and must be proposed; false: it was so before */
	uint8_t id;   /* of the member that was added, removed, promoted or chosen */
	char why[LIMIT_WHY + 1];
};

/* Adds a learner with a new id, this address and this key; the list keeps these views. If a member
 * has both already, nothing changes. */
struct member_verdict member_rules_add(struct member_view *m, struct bytes address,
                                       struct bytes key);
/* Removes a member; if it was removed before, nothing changes. The master may remove itself. A
 * majority of the remaining voters must have answered, and accepted the trial entry, since the
 * change was requested: a member that did so only before may have died since, or its disk may be
 * stuck. */
struct member_verdict member_rules_remove(struct member_view *m, uint64_t id);
/* Makes the first learner that has caught up a voter; RC_NOENT: none has. */
struct member_verdict member_rules_promote(struct member_view *m);
/* Decides whether the mastership may be handed over to the voter `id`; 0: to the best one, with
 * space on its disk and the longest log. The verdict's id is that voter; if it is the master, there
 * is nothing to do. The list is unchanged. */
struct member_verdict member_rules_transfer(const struct member_view *m, uint64_t id);

/* The consequences of full disks for the master. A replica with a full disk goes on with a reserve,
 * so that commands which free space still work. But it should not be the master, and while no
 * majority of the voters has space, the master refuses commands that need space. */
struct disk_full_verdict {
	bool refuse;       /* commands that need more space than they free */
	uint8_t hand_over; /* the replica to hand the mastership over to; 0: none */
};

/* Decides from the progress of the members, which says whose disks are full. A voter that does not
 * answer counts as one without space, unless the mastership is so young that it had no time to
 * answer; but while no disk is full, nothing is refused. */
struct disk_full_verdict member_rules_disk_full(const struct member_view *m);

/* The greatest minor version that all members speak, learners included. A member that does
 * not answer counts as one that speaks version 0: it may come back with an older program. */
uint32_t member_rules_minor(const struct member_view *m);
/* Encodes the list for a message or an operation; a view into `packed`. */
struct wire_list member_rules_pack(const struct member_view *m, struct buffer *packed);

#endif
