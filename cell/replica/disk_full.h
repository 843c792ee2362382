/* The decisions of a master about full disks. A replica with a full disk goes on with a reserve, so
 * that commands which free space still work. But it should not be the master, and while no majority
 * of the voters has space, the master refuses commands that need space. */
#ifndef LSFS_REPLICA_DISK_FULL_H
#define LSFS_REPLICA_DISK_FULL_H

#include "cell/replica/member_rules.h"

struct disk_full_verdict {
	bool refuse;       /* commands that need more space than they free */
	uint8_t hand_over; /* the replica to hand the mastership over to; 0: none */
};

/* Decides from the progress of the members in `m->list`, which say whose disks are full. A voter
 * that does not answer counts as one without space, unless the mastership is so young that it had
 * no time to answer; but while no disk is full, nothing is refused. */
struct disk_full_verdict disk_full_judge(const struct member_view *m);

#endif
