/* The disk of a played replica: what its log has made durable, for its next start. */
#ifndef LSFS_TESTS_TRANSCRIPTS_PX_DISK_H
#define LSFS_TESTS_TRANSCRIPTS_PX_DISK_H

#include "cell/paxos/px.h"

/* The content of a disk; `had.entries` and `had.marks` are set at a start. */
struct px_disk {
	struct px_recovered had;
	struct log_entry *entries; /* from had.trimmed + 1 on; payloads owned */
	size_t n, room;
	struct mark marks[LIMIT_REPLICA_ID + 1];
};

/* A record becomes durable; the disk has a copy. */
void px_disk_write(struct px_disk *d, const struct px_record *r);
/* The same of an entry alone; of the end of those up to a slot. */
void px_disk_put(struct px_disk *d, const struct log_entry *e);
void px_disk_trim(struct px_disk *d, uint64_t slot);
/* The content that a start finds, which counts as one; the marks are put into `marks`. */
struct px_recovered px_disk_read(struct px_disk *d, struct mark marks[LIMIT_REPLICA_ID + 1]);
void px_disk_free(struct px_disk *d);

#endif
