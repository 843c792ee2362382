#include "cell/wire/condition.h"

// clang-format off
static const struct condition_words words[] = {
	[CONDITION_VOTING] = {"voting", "has a vote", NULL},
	[CONDITION_JOINING] = {"joining", "is not yet welcomed by a majority", NULL},
	[CONDITION_REPAIRING] = {"repairing",
		"lacks part of its log or of its state, which comes from the others", NULL},
	[CONDITION_LEARNER] = {"learner",
		"is a learner: it gets a vote when it has caught up", NULL},
	[CONDITION_LOST] = {"lost",
		"has an older state than it has acknowledged, and has lost its vote",
		"remove it and add a new one (lsctl replica remove, add)"},
	[CONDITION_EXPELLED] = {"expelled", "is not a member of this cell any more", NULL},
	[CONDITION_ALONE] = {"alone", "has had no master for long",
		"see whether it reaches the other replicas at their addresses"},
	[CONDITION_OUTDATED] = {"outdated",
		"speaks an earlier minor version than the log is written in",
		"install a newer version there, and start it again"},
};
// clang-format on

static const char *const roles[] = {
    [REPLICA_FOLLOWER] = "follower",
    [REPLICA_CANDIDATE] = "candidate",
    [REPLICA_ELECTED] = "elected",
    [REPLICA_MASTER] = "master",
};

const struct condition_words *
condition_words(unsigned condition)
{
	static const struct condition_words unknown = {"unknown", "has an unknown condition", NULL};

	return condition < sizeof words / sizeof words[0] ? &words[condition] : &unknown;
}

const char *
condition_role(unsigned role)
{
	return role < sizeof roles / sizeof roles[0] ? roles[role] : "unknown";
}
