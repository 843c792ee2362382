#include "fs/local_locks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cell/sys/log.h"

enum {
	EVERY_MS = 5000,
	LINES_MAX = 1000,     /* lines of /proc/locks read at a time, at about 1 us each */
	DESCRIPTORS_MAX = 64, /* descriptors searched for the name of a directory */
};

/* "1: FLOCK  ADVISORY  WRITE 1234 00:27:5 0 EOF"; a waiter has "->" behind the number. */
bool
local_locks_parse(const char *line, const struct mountinfo *mounted, struct local_lock *lock)
{
	unsigned major, minor;
	int pid;

	if (sscanf(line, "%*d: %*[A-Z] %*s %*s %d %x:%x:%" SCNu64, &pid, &major, &minor,
	           &lock->ino) != 4)
		return false;
	lock->pid = pid;
	return major == mounted->major && minor == mounted->minor;
}

static bool
was_logged(const struct local_locks *l, const struct local_lock *lock)
{
	for (unsigned i = 0; i < l->logged_n && i < LOCAL_LOCKS_REMEMBERED; i++)
		if (l->logged[i].ino == lock->ino && l->logged[i].pid == lock->pid)
			return true;
	return false;
}

/* The number behind a name in the fdinfo of a descriptor; 0 when the name is missing. */
static uint64_t
info_field(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static bool
is_of_lock(const struct local_locks *l, const struct local_lock *lock, int fd)
{
	char path[64], text[512];
	size_t n;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%ld/fdinfo/%d", (long)lock->pid, fd);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	text[n] = '\0';
	return info_field(text, "mnt_id:") == (uint64_t)l->mounted->id &&
	       info_field(text, "ino:") == lock->ino;
}

/* Puts the directory's path, as the locking process sees it, into `name`: readlink of a descriptor
 * in /proc sends no request to our mount. */
static void
name_of(const struct local_locks *l, const struct local_lock *lock, char name[PATH_MAX])
{
	char path[64];
	ssize_t n;

	for (int fd = 0; fd < DESCRIPTORS_MAX; fd++) {
		if (!is_of_lock(l, lock, fd))
			continue;
		snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)lock->pid, fd);
		n = readlink(path, name, PATH_MAX - 1);
		name[n > 0 ? n : 0] = '\0';
		if (n > 0)
			return;
	}
	snprintf(name, PATH_MAX, "inode %" PRIu64 " of %.*s", lock->ino, PATH_MAX - 64,
	         l->mounted->path);
}

static void
log_lock(struct local_locks *l, const struct local_lock *lock)
{
	char name[PATH_MAX];

	if (was_logged(l, lock))
		return;
	l->logged[l->logged_n++ % LOCAL_LOCKS_REMEMBERED] = *lock;
	name_of(l, lock, name);
	log_warn("%s: process %ld has locked the directory for this machine only: "
	         "flock and fcntl on directories do not reach the cell "
	         "(use the attribute user.ls.lock)",
	         name, (long)lock->pid);
}

static void
on_timer(uv_timer_t *timer)
{
	struct local_locks *l = timer->data;
	FILE *f = fopen("/proc/locks", "re");
	struct local_lock lock;
	char line[256];

	for (int n = 0; f && n < LINES_MAX && fgets(line, sizeof line, f); n++)
		if (local_locks_parse(line, l->mounted, &lock))
			log_lock(l, &lock);
	if (f)
		fclose(f);
}

int
local_locks_start(struct local_locks *l, uv_loop_t *loop, const struct mountinfo *mounted)
{
	int rc = uv_timer_init(loop, &l->timer);

	if (rc < 0)
		return rc;
	l->timer.data = l;
	l->mounted = mounted;
	l->logged_n = 0;
	return uv_timer_start(&l->timer, on_timer, EVERY_MS, EVERY_MS);
}

void
local_locks_stop(struct local_locks *l)
{
	if (l->timer.data)
		uv_close((uv_handle_t *)&l->timer, NULL);
	l->timer.data = NULL;
}
