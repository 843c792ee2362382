#include "fs/local_locks.h"

#include "cell/sys/log.h"

enum {
	EVERY_MS = 5000,
	LINES_MAX = 1000, /* of the table, read at a time */
};

static bool
was_logged(const struct local_locks *l, const struct local_lock *lock)
{
	for (unsigned i = 0; i < l->logged_n && i < LOCAL_LOCKS_REMEMBERED; i++)
		if (l->logged[i].ino == lock->ino && l->logged[i].pid == lock->pid)
			return true;
	return false;
}

static void
log_lock(void *user, const struct local_lock *lock)
{
	struct local_locks *l = user;
	char name[PATH_MAX];

	if (was_logged(l, lock))
		return;
	l->logged[l->logged_n++ % LOCAL_LOCKS_REMEMBERED] = *lock;
	local_lock_name(l->mounted, lock, name);
	if (lock->lease)
		log_warn("%s: process %ld has a lease that only this machine knows of: writes of "
		         "others do not break it (use poll or .cell/events)",
		         name, (long)lock->pid);
	else
		log_warn("%s: process %ld has locked the directory for this machine only: "
		         "flock and fcntl on directories do not reach the cell "
		         "(use the attribute user.ls.lock)",
		         name, (long)lock->pid);
}

static void
on_timer(uv_timer_t *timer)
{
	struct local_locks *l = timer->data;

	local_lock_each(l->mounted, LINES_MAX, log_lock, l);
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
