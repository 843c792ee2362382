/* The process that holds a lock for `lsctl lock`: it alone touches the mount. Calls of a mount
 * whose daemon is frozen return to nobody, not even at the end of the process; so the supervisor,
 * which has to end the command in time, stands outside and hears from the holder by a pipe. */
#ifndef LSFS_CTL_HOLDER_H
#define LSFS_CTL_HOLDER_H

#include <signal.h>
#include <sys/types.h>
#include "cell/base/mono.h"
#include "ctl/lock_options.h"

enum report_kind {
	HOLDER_FAILED,   /* code: the exit status; nothing is held (told) */
	HOLDER_LEASE,    /* time: the end of the local lease; before HOLDS, then again and again */
	HOLDER_HOLDS,    /* delay: of the lock; waits for HOLDER_GO to start the command */
	HOLDER_STARTED,  /* pid of the command, a child of the supervisor; 0: it could not (told) */
	HOLDER_DEAF,     /* time: the mount was last heard of then, and its daemon has ended */
	HOLDER_LOST,     /* the session is over */
	HOLDER_RELEASED, /* the lock was held until now */
};

struct report {
	enum report_kind kind;
	int code;
	pid_t pid;
	span_t delay;
	mono_t time;
};

/* What it is told: this byte to start the command; the end of the stream to release. */
enum { HOLDER_GO = 'g' };

/* The holder's life, in a child of the supervisor. Reads what it is told from `orders`, writes its
 * reports to `reports`; the command gets the signal mask `before`. */
void holder_run(const struct lock_options *l, int orders, int reports, const sigset_t *before)
    __attribute__((noreturn));

#endif
