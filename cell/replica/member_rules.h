/* Who may become a member of the cell and who may stop being one: the master's decisions, from the
 * list in force and from what it hears of the members.
 *
 * A member keeps its id for ever, and an id is never used again. A replica joins as a learner,
 * without a vote, and gets one when it has caught up. Nothing is allowed that would leave less than
 * a majority of voters alive, because nobody could undo it. */
#ifndef LSFS_REPLICA_MEMBER_RULES_H
#define LSFS_REPLICA_MEMBER_RULES_H

#include "cell/paxos/px.h"

struct member_view_item {
	struct member member; /* views of the tree's, until it is applied to again */
	/* What the master hears of it; of itself: its own. */
	struct px_progress progress;
};

/* The list in force, with those that were removed, by growing ids; as the master `self` sees it. */
struct member_view {
	uint64_t version;
	uint8_t self;
	uint32_t minor;  /* version in which the log is written */
	uint64_t chosen; /* slot of the last entry that is known to be */
	mono_t now;
	mono_t began;  /* the mastership */
	mono_t asked;  /* for the change: who answered since then is there for certain */
	span_t lease;  /* of the master */
	struct member_view_item list[LIMIT_MEMBERS];
	int n;
};

/* A decision. Unless rc is RC_OK nothing is changed, and `why` says to people what is in the way
 * (empty: rc says it). RC_EXIST: address or key are taken; RC_FULL: a limit; RC_NOENT: there is no
 * such replica; RC_NOTSUP: not in this cell; RC_INVAL: it would do harm; RC_BUSY: it is too early
 * to tell who is there, to be asked again when more was heard, or was not for long. */
struct member_verdict {
	enum rc rc;
	bool changed; /* the list is another one now, to be proposed; else it was so before */
	uint8_t id;   /* of the member that this is about */
	char why[LIMIT_WHY + 1];
};

/* A learner with a new id, at this address and with this key: views that the list keeps. The same
 * once more is the member that is there already. */
struct member_verdict member_rules_add(struct member_view *m, struct bytes address,
                                       struct bytes key);
/* Once more is well, too. The master may remove itself. A majority of the voters who would be left
 * must have been heard since it was asked: of those who have just died nobody knows yet. */
struct member_verdict member_rules_remove(struct member_view *m, uint64_t id);
/* The first learner that is ready becomes a voter; RC_NOENT: none is. */
struct member_verdict member_rules_promote(struct member_view *m);
/* May the mastership go to the voter `id` (0: to whoever is furthest)? The list stays as it is; the
 * verdict's id is where it is to go, that of the master: it is there. */
struct member_verdict member_rules_transfer(const struct member_view *m, uint64_t id);

/* Was the member heard of so lately that it counts as running? */
bool member_rules_alive(const struct member_view *m, const struct member_view_item *of);
/* The same, or not at all yet by a master that has just begun? */
bool member_rules_may_be_alive(const struct member_view *m, const struct member_view_item *of);
/* The greatest minor version that all members understand, learners too, as far as each of them has
 * told; one that was not heard by this master understands the first one only. */
uint32_t member_rules_minor(const struct member_view *m);
/* The list for a message or an operation, in `packed`. */
struct wire_list member_rules_pack(const struct member_view *m, struct buffer *packed);

#endif
