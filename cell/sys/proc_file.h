/* A process, as the files of /proc tell of it, see proc(5). Each of these functions returns false
 * when /proc does not show it: the process may have ended, belong to another user, or live in
 * another PID namespace. */
#ifndef LSFS_SYS_PROC_FILE_H
#define LSFS_SYS_PROC_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads /proc/PID/`name`, as far as `text` has room, and ends it with a NUL. */
bool proc_file_read(pid_t pid, const char *name, char *text, size_t room);

struct proc_stat {
	char state; /* 'T': stopped, 'Z': a zombie, ... */
	pid_t parent;
	bool exiting;       /* still runs, but no code of its program */
	unsigned exit_code; /* as waitpid(2) tells it; 0 until the process ends */
};

/* The state of the process, from /proc/PID/stat. */
bool proc_file_stat(pid_t pid, struct proc_stat *stat);
/* True for one that runs no more code of its program: it is exiting, or a zombie. */
bool proc_stat_ended(const struct proc_stat *stat);

struct proc_descriptor {
	int mount;    /* the id of mountinfo */
	uint64_t ino; /* 0: not shown, as by older kernels */
};

/* The file that the descriptor is open on; `number` in decimal. */
bool proc_file_descriptor(pid_t pid, const char *number, struct proc_descriptor *descriptor);

/* The set of signals behind `key`, such as "\nSigCgt:", in the text of /proc/PID/status; the line
 * break makes sure that it is no part of the program's name. */
uint64_t proc_status_signals(const char *status, const char *key);
/* Those that the thread has been sent, or its process, and that it has not taken yet. */
uint64_t proc_status_pending(const char *status);

#endif
