/* The calls and requests of a mount, counted, and the file .cell/metrics, which shows the numbers
 * with the state of the session and of the cache, in the text format of Prometheus. */
#ifndef LSFS_FS_MOUNT_METRICS_H
#define LSFS_FS_MOUNT_METRICS_H

#include "fs/mount/mount.h"

enum call_outcome { CALL_DONE, CALL_FAILED, CALL_INTERRUPTED, CALL_OUTCOMES };

enum {
	METRICS_OPS = OP_begin_epoch, /* the operations of sessions have lower codes */
	METRICS_RCS = RC_AGAIN + 1,
};

struct metrics {
	uint64_t calls[MOUNT_INTERRUPT][CALL_OUTCOMES];
	uint64_t answers[METRICS_OPS][METRICS_RCS];
};

/* A call of the kernel is answered, with a positive errno or 0. */
void metrics_replied(struct mount *m, enum mount_event_kind kind, int error);
/* A request to the cell is answered. */
void metrics_heard(struct mount *m, enum op_code op, enum rc rc);
/* Appends the text of .cell/metrics. */
void metrics_text(const struct mount *m, struct buffer *to);

#endif
