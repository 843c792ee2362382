#include "cell/sys/proc_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	PROCESS_EXITING = 0x4, /* PF_EXITING in the kernel */
	STAT_STATE = 3,        /* fields of /proc/PID/stat */
	STAT_PARENT = 4,
	STAT_FLAGS = 9,
	STAT_EXIT_CODE = 52,
};

bool
proc_file_read(pid_t pid, const char *name, char *text, size_t room)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "/proc/%ld/%s", (long)pid, name);
	fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	n = fd < 0 ? -1 : read(fd, text, room - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static void
take_field(struct proc_stat *stat, int field, const char *word)
{
	const unsigned long number = strtoul(word, NULL, 10);

	if (field == STAT_STATE)
		stat->state = word[0];
	if (field == STAT_PARENT)
		stat->parent = (pid_t)number;
	if (field == STAT_FLAGS)
		stat->exiting = (number & PROCESS_EXITING) != 0;
	if (field == STAT_EXIT_CODE)
		stat->exit_code = (unsigned)number;
}

/* The fields stand behind the program's name, which may contain blanks and parentheses itself. */
bool
proc_file_stat(pid_t pid, struct proc_stat *stat)
{
	char text[1024], *rest, *word;
	int field = STAT_STATE;

	*stat = (struct proc_stat){0};
	if (!proc_file_read(pid, "stat", text, sizeof text) || !(rest = strrchr(text, ')')))
		return false;
	strsep(&rest, " ");
	while ((word = strsep(&rest, " ")))
		take_field(stat, field++, word);
	return field > STAT_EXIT_CODE;
}

bool
proc_stat_ended(const struct proc_stat *stat)
{
	return stat->exiting || stat->state == 'Z' || stat->state == 'X';
}

/* The number behind the name of a line; 0: there is no such line. */
static uint64_t
line_number(const char *text, const char *name, int base)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, base) : 0;
}

bool
proc_file_descriptor(pid_t pid, const char *number, struct proc_descriptor *descriptor)
{
	char name[32], text[512];

	snprintf(name, sizeof name, "fdinfo/%s", number);
	if (!proc_file_read(pid, name, text, sizeof text))
		return false;
	descriptor->mount = (int)line_number(text, "\nmnt_id:", 10);
	descriptor->ino = line_number(text, "\nino:", 10);
	return true;
}

uint64_t
proc_status_signals(const char *status, const char *key)
{
	return line_number(status, key, 16);
}

uint64_t
proc_status_pending(const char *status)
{
	return proc_status_signals(status, "\nSigPnd:") | proc_status_signals(status, "\nShdPnd:");
}
