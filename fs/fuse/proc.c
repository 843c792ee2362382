#include "fs/fuse/proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "cell/sys/proc_file.h"

enum { DESCRIPTORS_MAX = 64 }; /* at about 13 us each */

pid_t
proc_of_thread(pid_t thread)
{
	char text[1024];
	const char *group;
	long pid;

	if (!proc_file_read(thread, "status", text, sizeof text))
		return thread;
	group = strstr(text, "\nTgid:");
	return group && sscanf(group, "\nTgid:%ld", &pid) == 1 && pid > 0 ? (pid_t)pid : thread;
}

enum mount_fate
proc_fate(pid_t pid)
{
	struct proc_stat stat;

	if (!proc_file_stat(pid, &stat))
		return FATE_UNKNOWN;
	if (!stat.exiting)
		return FATE_ALIVE;
	return (stat.exit_code & 0x7f) ? FATE_KILLED : FATE_EXITING;
}

/* ---- signals ---- */

/* The signals whose default action ends a process. The kernel turns most of them into a pending
 * SIGKILL when they are sent, but not those that dump core. */
static uint64_t
ending_signals(void)
{
	static const int harmless[] = {
	    SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH,
	};
	uint64_t set = ~UINT64_C(0);

	for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
		set &= ~(UINT64_C(1) << (harmless[i] - 1));
	return set;
}

enum mount_fate
proc_fate_at_signal(pid_t thread)
{
	char text[4096];
	uint64_t pending, caught, unheeded;

	if (!proc_file_read(thread, "status", text, sizeof text))
		return FATE_UNKNOWN;
	unheeded = proc_status_signals(text, "\nSigBlk:") | proc_status_signals(text, "\nSigIgn:");
	pending = proc_status_pending(text) & ~unheeded;
	caught = proc_status_signals(text, "\nSigCgt:");
	if (pending & ~caught & ending_signals())
		return FATE_KILLED;
	return pending & caught ? FATE_ALIVE : FATE_UNDISTURBED;
}

/* ---- descriptors ---- */

/* A bind mount, or our mount in another mount namespace, has another id but the same device. */
static bool
is_our_mount(pid_t pid, int id, const struct mountinfo *ours)
{
	struct mountinfo *seen;
	bool same;

	if (id == ours->id)
		return true;
	seen = malloc(sizeof *seen);
	same = seen && mountinfo_by_id(pid, id, seen) && seen->major == ours->major &&
	       seen->minor == ours->minor;
	free(seen);
	return same;
}

int
proc_descriptors(pid_t pid, uint64_t ino, const struct mountinfo *ours)
{
	struct proc_descriptor one = {.ino = ino}; /* 0 once /proc shows no numbers */
	struct dirent *entry;
	int seen = 0, found = 0;
	char path[64];
	DIR *d;

	snprintf(path, sizeof path, "/proc/%ld/fdinfo", (long)pid);
	d = pid > 0 ? opendir(path) : NULL;
	if (!d)
		return -1;
	while (one.ino != 0 && seen <= DESCRIPTORS_MAX && (entry = readdir(d))) {
		if (entry->d_name[0] == '.')
			continue;
		if (++seen <= DESCRIPTORS_MAX && proc_file_descriptor(pid, entry->d_name, &one))
			found += one.ino == ino && is_our_mount(pid, one.mount, ours);
	}
	closedir(d);
	return one.ino == 0 || (found == 0 && seen > DESCRIPTORS_MAX) ? -1 : found;
}

/* ---- system calls ---- */

enum { ARGUMENTS = 6, SYSCALL_TRIES = 5 };

struct syscall {
	long number;
	uint64_t arguments[ARGUMENTS];
};

static bool
syscall_fields(char *text, struct syscall *call)
{
	char *end;

	call->number = strtol(text, &end, 10);
	for (int i = 0; i < ARGUMENTS; i++) {
		if (end == text || *end != ' ')
			return false;
		text = end;
		call->arguments[i] = strtoull(text, &end, 16);
	}
	return true;
}

/* The kernel shows it only of a thread that sleeps. One that has just made a request may still be
 * on its way to that. */
static bool
syscall_of(pid_t thread, struct syscall *call)
{
	const struct timespec pause = {.tv_nsec = 100000};
	char text[256];

	for (int tries = 0; tries < SYSCALL_TRIES; tries++) {
		if (!proc_file_read(thread, "syscall", text, sizeof text))
			return false;
		if (strncmp(text, "running", 7) != 0)
			return syscall_fields(text, call);
		nanosleep(&pause, NULL);
	}
	return false;
}

static bool
is_empty_string(pid_t thread, uint64_t address)
{
	char path[64], first = 1;
	int fd;

	if (address == 0)
		return true; /* newer kernels take it for an empty path */
	snprintf(path, sizeof path, "/proc/%ld/mem", (long)thread);
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
		return false;
	if (pread(fd, &first, 1, (off_t)address) != 1)
		first = 1;
	close(fd);
	return first == '\0';
}

bool
proc_by_descriptor(pid_t thread)
{
	struct syscall call;
	uint64_t flags;

	if (thread <= 0 || !syscall_of(thread, &call))
		return false;
	switch (call.number) {
#ifdef SYS_fstat
	case SYS_fstat:
		return true;
#endif
#ifdef SYS_newfstatat
	case SYS_newfstatat:
		flags = call.arguments[3];
		break;
#endif
	case SYS_statx:
		flags = call.arguments[2];
		break;
	default:
		return false;
	}
	return (flags & AT_EMPTY_PATH) && (int)call.arguments[0] >= 0 &&
	       is_empty_string(thread, call.arguments[1]);
}
