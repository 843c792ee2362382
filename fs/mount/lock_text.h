/* Locks for people: the texts of the attributes user.ls.lock* and of .cell/locks. */
#ifndef LSFS_FS_MOUNT_LOCK_TEXT_H
#define LSFS_FS_MOUNT_LOCK_TEXT_H

#include "cell/wire/codec.h"

/* "free", "exclusive", "shared N" or "delayed SECONDS". */
void lock_text_state(struct buffer *to, enum lock_state state, uint32_t holders, int64_t delay_s);
/* "SESSION PRINCIPAL HOST PID MODE SECONDS", without an end of the line. The pid is "-" if it is
 * unknown; the seconds are those since `since_ns` at the time `now_ns`. */
void lock_text_holder(struct buffer *to, const struct lock_holder *h, int64_t now_ns);
/* The same of a waiter. */
void lock_text_waiter(struct buffer *to, const struct lock_waiter *w, int64_t now_ns);

#endif
