/* The answers of replicas that were asked for their status. */
#ifndef LSFS_VIEW_ANSWER_H
#define LSFS_VIEW_ANSWER_H

#include <stdbool.h>
#include <stdint.h>
#include "cell/base/limit.h"
#include "cell/wire/types.h"

/* The progress of a member as the master knows it. */
struct answer_progress {
	uint8_t id;
	bool full;
	uint64_t match, applied;
	int64_t heard_ms; /* -1: never */
};

/* A replica's connection to another one. */
struct answer_link {
	uint8_t id;
	int64_t down_ms; /* for how long without one; -1: it is up */
};

/* A limit as a replica tells it. */
struct answer_limit {
	char name[32], unit[16];
	enum limit_owner owner; /* a replica: the one that tells it */
	uint64_t used, most;
	char principal[LIMIT_PRINCIPAL + 1]; /* that is nearest to it; empty if none is near */
};

/* The result of asking one replica for its status. */
struct answer {
	bool heard;                     /* the replica has answered */
	bool datagrams;                 /* also over UDP */
	int64_t ahead_ms;               /* of its time of day before ours */
	char why[160];                  /* the reason for no answer, for people */
	struct msg_status_reply status; /* without its lists and its version, which are: */
	char version[LIMIT_VERSION + 1];
	struct answer_progress progress[LIMIT_REPLICAS];
	int progress_n;
	struct answer_link links[LIMIT_REPLICAS];
	int links_n;
	struct answer_limit limits[LIMIT_LIMITS];
	int limits_n;
};

/* Copies the reply of a replica, with its lists and its version. */
void answer_take(struct answer *answer, const struct msg_status_reply *reply);

/* The index of the replica that calls itself the master, of several the one of the newest epoch;
 * negative if none does. */
int answers_master(const struct answer *answers, int n);

#endif
