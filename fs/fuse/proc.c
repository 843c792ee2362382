#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "cell/sys/process.h"
#include "fs/fuse/proc.h"

enum { DESCRIPTORS_MAX = 64 }; /* at about 13 us each */

/* ---- pidfds ---- */

/* Newer than the headers that this may be compiled with: linux/pidfd.h. */
enum {
	FOR_A_THREAD = O_EXCL, /* PIDFD_THREAD */
	INFO_COREDUMP = 1 << 4,
	COREDUMPED = 1 << 0,
};

struct info {
	uint64_t mask, cgroup;
	uint32_t pid, process, parent, ids[8];
	int32_t exit_code;
	uint32_t coredump, unused;
};

#define GET_INFO _IOWR(0xFF, 11, struct info)

static void
forget(struct pidfd *known)
{
	if (known->thread)
		close(known->fd);
	known->thread = 0;
}

void
pidfds_fini(struct pidfds *p)
{
	for (size_t n = 0; n < sizeof p->known / sizeof p->known[0]; n++)
		forget(&p->known[n]);
}

/* Another thread may have got the number meanwhile: the former one's descriptor says so (ESRCH). */
static bool
ask(struct pidfds *p, pid_t thread, struct info *info)
{
	struct pidfd *known = &p->known[(size_t)thread % (sizeof p->known / sizeof p->known[0])];

	if (thread <= 0)
		return false;
	*info = (struct info){.mask = INFO_COREDUMP};
	if (known->thread == thread && ioctl(known->fd, GET_INFO, info) == 0)
		return true;
	forget(known);
	known->fd = (int)syscall(SYS_pidfd_open, thread, FOR_A_THREAD);
	if (known->fd < 0)
		return false;
	known->thread = thread;
	info->mask = INFO_COREDUMP;
	return ioctl(known->fd, GET_INFO, info) == 0;
}

pid_t
pidfds_process(struct pidfds *p, pid_t thread)
{
	struct info info;

	return ask(p, thread, &info) ? (pid_t)info.process : 0;
}

/* The kernel tells how it would dump the core, if there is memory to dump, or how it did. */
enum pidfd_memory
pidfds_memory(struct pidfds *p, pid_t thread)
{
	struct info info;

	if (!ask(p, thread, &info) || !(info.mask & INFO_COREDUMP))
		return PIDFD_UNKNOWN;
	if (info.coredump & COREDUMPED)
		return PIDFD_DUMPS;
	return info.coredump ? PIDFD_HAS_MEMORY : PIDFD_HAS_NONE;
}

/* ---- processes ---- */

/* Most callers are the first thread of their process, or its only one: the kernel finds no thread
 * of that number in that process otherwise, and says so before it looks at rights. */
static bool
is_first_thread(pid_t thread)
{
	return tgkill(thread, thread, 0) == 0 || errno == EPERM;
}

pid_t
proc_of_thread(struct pidfds *known, pid_t thread)
{
	char text[1024];
	const char *group;
	long pid;

	if (is_first_thread(thread))
		return thread;
	pid = pidfds_process(known, thread);
	if (pid > 0)
		return (pid_t)pid;
	if (!proc_file_read(thread, "status", text, sizeof text))
		return thread;
	group = strstr(text, "\nTgid:");
	return group && sscanf(group, "\nTgid:%ld", &pid) == 1 && pid > 0 ? (pid_t)pid : thread;
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

/* The signals that the thread will take, or has taken when it exits: not those that it blocks or
 * ignores. */
static uint64_t
heeded_signals(const char *status)
{
	return proc_status_pending(status) & ~(proc_status_signals(status, "\nSigBlk:") |
	                                       proc_status_signals(status, "\nSigIgn:"));
}

static bool
is_ended_by(const char *status, uint64_t signals)
{
	return (signals & ~proc_status_signals(status, "\nSigCgt:") & ending_signals()) != 0;
}

/* A thread may have a SIGKILL of its own because another one of the process has asked for the exit
 * of all: who kills a process sends that to all of its threads together. */
bool
proc_was_killed(const char *status)
{
	const uint64_t number_9 = UINT64_C(1) << (SIGKILL - 1);
	uint64_t signals = heeded_signals(status);

	if (!(proc_status_signals(status, "\nShdPnd:") & number_9))
		signals &= ~number_9;
	return is_ended_by(status, signals);
}

/* A process that exits has no memory any more when it closes its files; one that becomes another
 * program has. The signal that has killed it is still pending, unless it dumped core: then the
 * process took it. */
enum mount_fate
proc_fate(struct pidfds *known, pid_t thread)
{
	const enum pidfd_memory memory = pidfds_memory(known, thread);
	char text[4096];

	if (memory == PIDFD_HAS_MEMORY)
		return FATE_ALIVE;
	if (memory == PIDFD_DUMPS)
		return FATE_KILLED;
	if (!proc_file_read(thread, "status", text, sizeof text))
		return FATE_UNKNOWN;
	if (strstr(text, "\nVmSize:"))
		return FATE_ALIVE;
	return proc_was_killed(text) ? FATE_KILLED : FATE_EXITING;
}

enum mount_fate
proc_fate_at_signal(pid_t thread)
{
	char text[4096];
	uint64_t signals;

	if (!proc_file_read(thread, "status", text, sizeof text))
		return FATE_UNKNOWN;
	signals = heeded_signals(text);
	if (is_ended_by(text, signals))
		return FATE_KILLED;
	return signals & proc_status_signals(text, "\nSigCgt:") ? FATE_ALIVE : FATE_UNDISTURBED;
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

static bool
writes_into(pid_t pid, const char *number, uint64_t ino, uint64_t shown,
            const struct mountinfo *ours)
{
	struct proc_descriptor one;

	return proc_file_descriptor(pid, number, &one) && (one.ino == ino || one.ino == shown) &&
	       (one.flags & O_ACCMODE) != O_RDONLY && is_our_mount(pid, one.mount, ours);
}

bool
proc_has_descriptor(pid_t pid, uint64_t ino, uint64_t shown, const struct mountinfo *ours)
{
	struct dirent *entry;
	bool found = false;
	char path[64];
	int seen = 0;
	DIR *d;

	snprintf(path, sizeof path, "/proc/%ld/fdinfo", (long)pid);
	d = pid > 0 ? opendir(path) : NULL;
	while (d && !found && seen < DESCRIPTORS_MAX && (entry = readdir(d))) {
		if (entry->d_name[0] == '.')
			continue;
		seen++;
		found = writes_into(pid, entry->d_name, ino, shown, ours);
	}
	if (d)
		closedir(d);
	return found;
}
