#include "fs/fuse/proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	PROCESS_EXITING = 0x4, /* PF_EXITING in the kernel */
	DESCRIPTORS_MAX = 64,  /* at about 13 us each */
	STAT_FLAGS = 9,
	STAT_EXIT_CODE = 52, /* fields of /proc/PID/stat, see proc(5) */
};

static bool
read_text(int directory, const char *path, char *to, size_t size)
{
	int fd = openat(directory, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, to, size - 1);

	if (fd >= 0)
		close(fd);
	to[n > 0 ? n : 0] = '\0';
	return n > 0;
}

pid_t
proc_of_thread(pid_t thread)
{
	char path[64], text[1024];
	const char *group;
	long pid;

	snprintf(path, sizeof path, "/proc/%ld/status", (long)thread);
	if (thread <= 0 || !read_text(AT_FDCWD, path, text, sizeof text))
		return thread;
	group = strstr(text, "\nTgid:");
	return group && sscanf(group, "\nTgid:%ld", &pid) == 1 && pid > 0 ? (pid_t)pid : thread;
}

/* Parses fields behind the command's name, which may contain blanks and parentheses itself. */
static bool
stat_fields(char *text, unsigned long *flags, unsigned long *exit_code)
{
	char *rest = strrchr(text, ')'), *word;
	int field = 2;

	if (!rest)
		return false;
	rest++;
	strsep(&rest, " ");
	while ((word = strsep(&rest, " "))) {
		field++;
		if (field == STAT_FLAGS)
			*flags = strtoul(word, NULL, 10);
		if (field == STAT_EXIT_CODE)
			*exit_code = strtoul(word, NULL, 10);
	}
	return field >= STAT_EXIT_CODE;
}

enum mount_fate
proc_fate(pid_t pid)
{
	char path[64], text[1024];
	unsigned long flags = 0, exit_code = 0;

	snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
	if (pid <= 0 || !read_text(AT_FDCWD, path, text, sizeof text) ||
	    !stat_fields(text, &flags, &exit_code))
		return FATE_UNKNOWN;
	if (!(flags & PROCESS_EXITING))
		return FATE_ALIVE;
	return (exit_code & 0x7f) ? FATE_KILLED : FATE_EXITING;
}

/* ---- signals ---- */

/* The mask in a line of /proc/PID/status such as "SigPnd:\t0000000000000100". */
static uint64_t
signal_set(const char *status, const char *key)
{
	const char *line = strstr(status, key);

	return line ? strtoull(line + strlen(key), NULL, 16) : 0;
}

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
	char path[64], text[4096];
	uint64_t pending, caught, unheeded;

	snprintf(path, sizeof path, "/proc/%ld/status", (long)thread);
	if (thread <= 0 || !read_text(AT_FDCWD, path, text, sizeof text))
		return FATE_UNKNOWN;
	unheeded = signal_set(text, "\nSigBlk:") | signal_set(text, "\nSigIgn:");
	pending = (signal_set(text, "\nSigPnd:") | signal_set(text, "\nShdPnd:")) & ~unheeded;
	caught = signal_set(text, "\nSigCgt:");
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

/* 1 if the descriptor refers to the inode, 0 if not, -1 if fdinfo has no inode number, as in older
 * kernels. */
static int
descriptor_matches(pid_t pid, const char *text, uint64_t ino, const struct mountinfo *ours)
{
	const char *inode = strstr(text, "\nino:"), *mount = strstr(text, "\nmnt_id:");
	uint64_t number;
	int id;

	if (!inode || !mount || sscanf(inode, "\nino:%" SCNu64, &number) != 1 ||
	    sscanf(mount, "\nmnt_id:%d", &id) != 1)
		return -1;
	return number == ino && is_our_mount(pid, id, ours);
}

int
proc_descriptors(pid_t pid, uint64_t ino, const struct mountinfo *ours)
{
	char path[64], text[512];
	struct dirent *entry;
	int seen = 0, found = 0, match = 0;
	DIR *d;

	snprintf(path, sizeof path, "/proc/%ld/fdinfo", (long)pid);
	d = pid > 0 ? opendir(path) : NULL;
	if (!d)
		return -1;
	while (match >= 0 && seen <= DESCRIPTORS_MAX && (entry = readdir(d))) {
		if (entry->d_name[0] == '.')
			continue;
		if (++seen <= DESCRIPTORS_MAX &&
		    read_text(dirfd(d), entry->d_name, text, sizeof text)) {
			match = descriptor_matches(pid, text, ino, ours);
			found += match > 0;
		}
	}
	closedir(d);
	return match < 0 || (found == 0 && seen > DESCRIPTORS_MAX) ? -1 : found;
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
	char path[64], text[256];

	snprintf(path, sizeof path, "/proc/%ld/syscall", (long)thread);
	for (int tries = 0; tries < SYSCALL_TRIES; tries++) {
		if (!read_text(AT_FDCWD, path, text, sizeof text))
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
