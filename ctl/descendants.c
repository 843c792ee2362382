#include "ctl/descendants.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>
#include "cell/base/memory.h"
#include "cell/sys/proc_file.h"

struct process {
	pid_t pid;
	struct proc_stat stat;
	bool ours;
};

struct table {
	struct process *list;
	size_t n, room;
};

static void
table_read(struct table *t)
{
	DIR *d = opendir("/proc");
	struct dirent *entry;

	while (d && (entry = readdir(d))) {
		struct process p = {.pid = (pid_t)atoi(entry->d_name)};

		if (!proc_file_stat(p.pid, &p.stat))
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

			if (!p->ours && is_ours(t, p->stat.parent))
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

		if (!p->ours || proc_stat_ended(&p->stat) || p->pid == spared)
			continue;
		ARRAY_ROOM(list, *n, room);
		list[(*n)++] = (struct descendant){.pid = p->pid, .stopped = p->stat.state == 'T'};
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
