/* What a master does about full disks. A replica whose disk is full goes on from a reserve, so that
 * what gives room back still works; but it should not lead, and as long as there is no majority
 * with room nothing that grows is taken. */
#ifndef LSFS_REPLICA_DISK_FULL_H
#define LSFS_REPLICA_DISK_FULL_H

#include "cell/replica/member_rules.h"

struct disk_full_verdict {
	bool refuse;       /* whatever needs more room than it gives back */
	uint8_t hand_over; /* to this replica; 0: stay */
};

/* `m->list` tells whose disks are full, the master's own included. A voter that is silent has no
 * room to offer, unless the mastership is so young that it had no time to answer; but silence alone
 * refuses nothing. */
struct disk_full_verdict disk_full_judge(const struct member_view *m);

#endif
