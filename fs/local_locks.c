#include "fs/local_locks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "cell/io/log.h"

enum { EVERY_MS = 5000, LINES_MAX = 1000 }; /* some 1 us each, on the loop */

/* "1: FLOCK  ADVISORY  WRITE 1234 00:27:5 0 EOF"; one that waits has "->" behind the number. */
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
was_told(const struct local_locks *l, const struct local_lock *lock)
{
	for (unsigned i = 0; i < l->told_n && i < LOCAL_LOCKS_REMEMBERED; i++)
		if (l->told[i].ino == lock->ino && l->told[i].pid == lock->pid)
			return true;
	return false;
}

static void
tell(struct local_locks *l, const struct local_lock *lock)
{
	if (was_told(l, lock))
		return;
	l->told[l->told_n++ % LOCAL_LOCKS_REMEMBERED] = *lock;
	log_warn("process %ld has locked directory %" PRIu64 " for this machine only: "
	         "flock and fcntl on directories do not reach the cell "
	         "(use the attribute user.ls.lock)", (long)lock->pid, lock->ino);
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
			tell(l, &lock);
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
	l->told_n = 0;
	return uv_timer_start(&l->timer, on_timer, EVERY_MS, EVERY_MS);
}

void
local_locks_stop(struct local_locks *l)
{
	if (l->timer.data)
		uv_close((uv_handle_t *)&l->timer, NULL);
	l->timer.data = NULL;
}
