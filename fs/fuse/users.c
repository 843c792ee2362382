#include "fs/fuse/users.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/principal.h"

enum { USERS_MAX = 100000 }; /* lines of the file; users of further lines are "nobody" */

void
users_init(struct users *u, const char *path, uid_t own)
{
	*u = (struct users){.path = path, .own = own};
}

static void
forget(struct users *u)
{
	for (size_t i = 0; i < u->n; i++)
		free(u->list[i].name);
	u->n = 0;
}

void
users_free(struct users *u)
{
	forget(u);
	free(u->list);
	u->list = NULL;
	u->room = 0;
}

/* ---- the file ---- */

/* Takes a line "name:password:uid:..."; one that is not of this form, or whose name no principal
 * may have, is ignored. */
static void
add_line(struct users *u, char *line)
{
	char *name = strsep(&line, ":"), *uid, *end;
	unsigned long number;

	strsep(&line, ":");
	uid = strsep(&line, ":");
	if (uid == NULL || uid[0] < '0' || uid[0] > '9' || u->n == USERS_MAX ||
	    !principal_name_valid(bytes_of(name)))
		return;
	number = strtoul(uid, &end, 10);
	if (*end != '\0' || number >= UINT32_MAX)
		return;
	ARRAY_ROOM(u->list, u->n, u->room);
	u->list[u->n] = (struct user){(uid_t)number, u->n, bytes_to_text(bytes_of(name))};
	u->n++;
}

static int
compare(const void *a, const void *b)
{
	const struct user *left = a, *right = b;

	if (left->uid != right->uid)
		return left->uid < right->uid ? -1 : 1;
	return left->line < right->line ? -1 : 1;
}

static bool
has_changed(const struct users *u, const struct stat *now)
{
	const struct stat *then = &u->read;

	return now->st_ino != then->st_ino || now->st_size != then->st_size ||
	       now->st_mtim.tv_sec != then->st_mtim.tv_sec ||
	       now->st_mtim.tv_nsec != then->st_mtim.tv_nsec || now->st_dev != then->st_dev;
}

/* Reads the file again if it has changed; without a file there are no users. */
static void
follow(struct users *u)
{
	struct stat now;
	char *line = NULL;
	size_t room = 0;
	FILE *f;

	if (stat(u->path, &now) < 0)
		memset(&now, 0, sizeof now);
	if (!has_changed(u, &now))
		return;
	u->read = now;
	forget(u);
	f = fopen(u->path, "re");
	while (f && getline(&line, &room, f) > 0)
		add_line(u, line);
	free(line);
	if (f)
		fclose(f);
	if (u->n > 0)
		qsort(u->list, u->n, sizeof *u->list, compare);
}

/* ---- a name ---- */

static const struct user *
find(const struct users *u, uid_t uid)
{
	size_t low = 0, high = u->n;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (u->list[middle].uid < uid)
			low = middle + 1;
		else
			high = middle;
	}
	return low < u->n && u->list[low].uid == uid ? &u->list[low] : NULL;
}

struct bytes
users_name(struct users *u, uid_t uid)
{
	const struct user *user;

	if (uid == u->own)
		return (struct bytes){0};
	if (uid == 0)
		return bytes_of("root");
	follow(u);
	user = find(u, uid);
	return bytes_of(user != NULL ? user->name : "nobody");
}
