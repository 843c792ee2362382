/* Processes: facts about others from /proc, and their end; the descriptors that this process
 * inherits, its output, and its reports to a service manager. A killed process holds its locks
 * until its last thread is gone, which may wait for a disk; a successor started at once must wait
 * for that, not fail because the lock is held. */
#ifndef LSFS_SYS_PROCESS_H
#define LSFS_SYS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "cell/base/limit.h"

/* ---- the files of /proc ---- */

/* A process, as the files of /proc tell of it, see proc(5). Each of these functions returns false
 * when /proc does not show it: the process may have ended, belong to another user, or live in
 * another PID namespace. */

/* Reads /proc/PID/`name`, as far as `text` has room, and ends it with a NUL. */
bool proc_file_read(pid_t pid, const char *name, char *text, size_t room);

struct proc_status {
	pid_t parent;
	bool stopped; /* by a signal */
	bool ended;   /* runs no more code of its program: it is exiting, or a zombie */
	bool killed;  /* SIGKILL is pending: it will exit as soon as the kernel lets it run */
};

/* The state of the process, from /proc/PID/status, for which the kernel waits for no other process:
 * stat waits for one in execve(2), which may wait for a file system. */
bool proc_file_status(pid_t pid, struct proc_status *status);

struct proc_descriptor {
	int mount;    /* the id of its mount, see cell/sys/mountinfo.h */
	uint64_t ino; /* 0: not shown, as by older kernels */
	int flags;    /* of its open(2), as far as they last */
};

/* The file that the descriptor is open on; `number` in decimal. */
bool proc_file_descriptor(pid_t pid, const char *number, struct proc_descriptor *descriptor);

/* The set of signals after `key`, such as "\nSigCgt:", in the text of /proc/PID/status; the line
 * break makes sure that it is no part of the program's name. */
uint64_t proc_status_signals(const char *status, const char *key);
/* The signals that were sent to the thread, or to its process, and are pending. */
uint64_t proc_status_pending(const char *status);

/* The name of this host as sessions show it: what a host's name may not have in a cell is replaced
 * by '-'. */
void process_host(char name[LIMIT_HOST + 1]);

/* Opens those of descriptors 0 to 2 that the caller left closed on /dev/null; aborts where that
 * fails. Every program calls it first: otherwise a database could get one of these numbers, and
 * messages for stderr would be written into the database. */
void process_open_standard(void);

/* Closes all descriptors above 2. A daemon calls it next: otherwise the descriptors that its caller
 * left open, and the caller's locks on them, would live as long as the daemon. */
void process_close_inherited(void);

/* The exit status of a program that ends with `status`, after its last output: a failure, after an
 * error message, when something that was printed could not be written. */
int process_end_output(int status);

/* True when the process has ended. Waits, at most 10 s, for one that is exiting or killed; returns
 * false at once for any other. */
bool process_ended(pid_t pid);

/* Waits at most `seconds` until the process of the descriptor (pidfd_open(2)) has ended; false when
 * it has not. */
bool process_wait(int pidfd, int seconds);

/* ---- reports to a service manager ---- */

/* Reports of a service to the manager that started it, by the documented protocol of
 * sd_notify(3): one datagram to the socket that $NOTIFY_SOCKET names. */

/* Sends a state, as "READY=1". Does nothing without a manager that waits for it. */
void notify_manager(const char *state);
/* How often the manager wants to read "WATCHDOG=1", in milliseconds, with room for a late one; 0:
 * never. */
uint64_t notify_watchdog_ms(void);

#endif
