#include "ctl/descendants.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cell/base/memory.h"

enum { EXITING = 0x4 }; /* PF_EXITING among the flags of proc_pid_stat(5) */

struct process {
	pid_t pid, parent;
	bool ended; /* exiting or a zombie: it runs no more code of its program */
	bool stopped;
	bool ours;
};

struct table {
	struct process *list;
	size_t n, room;
};

static bool
process_read(const char *name, struct process *p)
{
	char path[300], text[512], state, *at;
	unsigned flags;
	int parent;
	size_t n;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%s/stat", name);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	text[n] = '\0';
	at = strrchr(text, ')'); /* the end of the program's name, which may contain ')' itself */
	if (!at || sscanf(at, ") %c %d %*d %*d %*d %*d %u", &state, &parent, &flags) != 3)
		return false;
	*p = (struct process){.pid = (pid_t)atoi(name),
	                      .parent = (pid_t)parent,
	                      .ended = state == 'Z' || state == 'X' || (flags & EXITING),
	                      .stopped = state == 'T'};
	return true;
}

static void
table_read(struct table *t)
{
	DIR *d = opendir("/proc");
	struct dirent *entry;
	struct process p;

	while (d && (entry = readdir(d))) {
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
		    !process_read(entry->d_name, &p))
			continue;
		ARRAY_ROOM(t->list, t->n, t->room);
		t->list[t->n++] = p;
	}
	if (d)
		closedir(d);
}

static int
compare(const void *a, const void *b)
{
	pid_t x = ((const struct process *)a)->pid, y = ((const struct process *)b)->pid;

	return (x > y) - (x < y);
}

static bool
is_ours(const struct table *t, pid_t pid)
{
	const struct process key = {.pid = pid}, *found;

	if (pid == getpid())
		return true;
	found = t->n ? bsearch(&key, t->list, t->n, sizeof key, compare) : NULL;
	return found && found->ours;
}

/* Marks all descendants. A child may precede its parent in the table, so the pass is repeated until
 * it finds no further one. */
static void
mark_ours(struct table *t)
{
	if (t->n)
		qsort(t->list, t->n, sizeof *t->list, compare);
	for (bool more = true; more;) {
		more = false;
		for (size_t i = 0; i < t->n; i++) {
			struct process *p = &t->list[i];

			if (!p->ours && is_ours(t, p->parent))
				more = p->ours = true;
		}
	}
}

struct descendant *
descendants_list(pid_t spared, size_t *n)
{
	struct descendant *list = NULL;
	struct table t = {0};
	size_t room = 0;

	*n = 0;
	table_read(&t);
	mark_ours(&t);
	for (size_t i = 0; i < t.n; i++) {
		const struct process *p = &t.list[i];

		if (!p->ours || p->ended || p->pid == spared)
			continue;
		ARRAY_ROOM(list, *n, room);
		list[(*n)++] = (struct descendant){.pid = p->pid, .stopped = p->stopped};
	}
	free(t.list);
	return list;
}

int
descendants_signal(int number, pid_t spared)
{
	size_t n;
	struct descendant *list = descendants_list(spared, &n);

	for (size_t i = 0; i < n; i++)
		kill(list[i].pid, number);
	free(list);
	return (int)n;
}
