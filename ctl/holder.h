/* The process that holds a lock for `lsctl lock`. Only the holder calls into the mount: while the
 * daemon of a mount is frozen a call does not return, and not even SIGKILL ends the caller. The
 * supervisor, which has to end the command in time, is another process, and the holder reports to
 * it through a pipe. */
#ifndef LSFS_CTL_HOLDER_H
#define LSFS_CTL_HOLDER_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>
#include "cell/base/mono.h"
#include "ctl/command_group.h"
#include "ctl/supervisor.h"

enum report_kind {
	HOLDER_FAILED,       /* the lock was not acquired (error message); code: exit status;
	                      * error: the errno of what may pass, or 0 */
	HOLDER_LEASE,        /* time: end of the local lease; sent before HOLDS, then repeatedly */
	HOLDER_HOLDS,        /* the lock is held; delay: its lock-delay; lasting: its session never
	                      * expires; HOLDER_GO is awaited */
	HOLDER_STARTED,      /* pid of the command, the supervisor's child; 0: error message */
	HOLDER_DAEMON_ENDED, /* the mount's daemon has ended; time: of its last answer */
	HOLDER_LOST,         /* the session has expired or was closed */
	HOLDER_DELETED,      /* the lock was lost with its node */
	HOLDER_UNLOCKED,     /* an operator has released the lock */
	HOLDER_RELEASED,     /* the lock was held until now, and is released */
};

struct report {
	enum report_kind kind;
	int code, error;
	pid_t pid;
	span_t delay;
	bool lasting;
	mono_t time;
};

/* The try of the holder before. */
struct earlier_try {
	bool tried;   /* there was one, and the lock is tried for again */
	int told;     /* the error for which it failed, which was printed; 0: none */
	int unkilled; /* processes of its command that are another user's, and may live */
};

/* The supervisor's orders, a byte each: to start the command; to release the lock, of a command
 * that has failed, or of one that is done. At the end of the stream without an order the supervisor
 * has been killed: a command that runs keeps the lock. */
enum { HOLDER_GO = 'g', HOLDER_RELEASE = 'r', HOLDER_RELEASE_DONE = 'd' };

/* Runs the holder, in a child of the supervisor: reads orders from `orders` and writes reports to
 * `reports`; the command gets the signal mask `before` and enters `group`. */
void holder_run(const struct lock_options *l, struct earlier_try earlier, int orders, int reports,
                const sigset_t *before, const struct command_group *group)
    __attribute__((noreturn));

#endif
