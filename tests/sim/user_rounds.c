/* The rounds of processes on a mount: open, lock, read, write. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "tests/sim/sim.h"

void
users_create(struct sim *s, struct machine *m, int p, const char *name, int flags, mode_t mode)
{
	users_call(s, m, p,
	           (struct mount_event){.kind = MOUNT_CREATE,
	                                .ino = NODE_ROOT,
	                                .name = bytes_of(name),
	                                .mode = S_IFREG | mode,
	                                .flags = flags | O_CREAT});
}

static void
lock(struct sim *s, struct machine *m, int p, enum lock_mode mode, bool waits)
{
	users_call(s, m, p,
	           (struct mount_event){.kind = m->processes[p].fcntl ? MOUNT_SETLK : MOUNT_FLOCK,
	                                .lock_mode = mode,
	                                .wait = waits,
	                                .whole = true});
}

void
users_attribute(struct sim *s, struct machine *m, int p, enum mount_event_kind kind,
                const char *name, const char *value)
{
	users_call(s, m, p,
	           (struct mount_event){.kind = kind,
	                                .name = bytes_of(name),
	                                .data = bytes_of(value)});
}

void
users_write(struct sim *s, struct machine *m, int p, int flags, const char *text)
{
	users_call(s, m, p,
	           (struct mount_event){.kind = MOUNT_WRITE,
	                                .flags = flags,
	                                .data = bytes_of(text)});
}

void
users_read(struct sim *s, struct machine *m, int p)
{
	users_call(s, m, p, (struct mount_event){.kind = MOUNT_READ, .size = 4096});
}

/* ---- rounds: false when it is over, and only the file has to be closed ---- */

static bool
on_counter(struct sim *s, struct machine *m, int p)
{
	struct process *u = &m->processes[p];
	char text[24];

	switch (u->step) {
	case 0:
		users_create(s, m, p, "counter0", O_RDWR, 0644);
		return true;
	case 1:
		lock(s, m, p, LOCK_EXCLUSIVE, true);
		return true;
	case 2:
		users_read(s, m, p);
		return true;
	case 3:
		snprintf(text, sizeof text, "%lu", strtoul(u->text, NULL, 10) + 1);
		users_write(s, m, p, 0, text);
		return true;
	case 4:
		if (rng_chance(&s->rng, 300))
			return false; /* the close commits and unlocks */
		lock(s, m, p, LOCK_NONE, false);
		return true;
	default:
		return false;
	}
}

/* Lines that were acknowledged are counted at the end. */
static bool
on_append(struct sim *s, struct machine *m, int p)
{
	struct process *u = &m->processes[p];
	char text[24];

	switch (u->step) {
	case 0:
		users_create(s, m, p, "log", O_WRONLY | O_APPEND, 0644);
		return true;
	case 1:
		u->line = judgement_line(s, m->id, ++s->values);
		snprintf(text, sizeof text, "v%lu;", (unsigned long)s->values);
		users_write(s, m, p, O_APPEND, text);
		return true;
	default:
		return false;
	}
}

static bool
on_register(struct sim *s, struct machine *m, int p)
{
	struct process *u = &m->processes[p];
	bool writes = p % 2 == 0;
	char text[24];

	switch (u->step) {
	case 0:
		users_create(s, m, p, "reg0", writes ? O_WRONLY | O_TRUNC : O_RDONLY, 0644);
		return true;
	case 1:
		snprintf(text, sizeof text, "v%lu;", (unsigned long)++s->values);
		if (writes)
			users_write(s, m, p, 0, text);
		else
			users_read(s, m, p);
		return true;
	default:
		return false;
	}
}

static bool
on_locks(struct sim *s, struct machine *m, int p)
{
	struct process *u = &m->processes[p];
	enum lock_mode mode = rng_chance(&s->rng, s->swarm.shared) ? LOCK_SHARED : LOCK_EXCLUSIVE;

	switch (u->step) {
	case 0:
		users_create(s, m, p, "lock0", O_RDWR, 0644);
		return true;
	case 1:
		lock(s, m, p, mode, rng_chance(&s->rng, 700));
		return true;
	case 2:
		if (rng_chance(&s->rng, 300)) {
			lock(s, m, p, mode, rng_chance(&s->rng, 500));
			return true;
		}
		if (rng_chance(&s->rng, 300)) {
			users_attribute(s, m, p, MOUNT_GETXATTR, "user.ls.lock_holders", "");
			return true;
		}
		u->step++;
		/* fall through */
	case 3:
		if (rng_chance(&s->rng, 500))
			return false;
		lock(s, m, p, LOCK_NONE, false);
		return true;
	default:
		return false;
	}
}

static bool
on_names(struct sim *s, struct machine *m, int p)
{
	static const char *const names[] = {"a", "b", "c"};
	struct process *u = &m->processes[p];
	struct bytes one = bytes_of(names[rng_below(&s->rng, 3)]);
	struct mount_event event = {.ino = NODE_ROOT, .name = one};

	if (u->step > 1 || u->fh != 0)
		return false;
	switch (rng_below(&s->rng, 4)) {
	case 0:
		users_create(s, m, p, (const char *)one.data, O_RDWR, 0644);
		return true;
	case 1:
		event.kind = MOUNT_UNLINK;
		break;
	case 2:
		event.kind = MOUNT_RENAME;
		event.new_ino = NODE_ROOT;
		event.new_name = bytes_of(names[rng_below(&s->rng, 3)]);
		break;
	default:
		event.kind = MOUNT_LOOKUP;
		break;
	}
	users_call(s, m, p, event);
	return true;
}

static void
pause_user(struct sim *s, struct machine *m, int p)
{
	m->processes[p].step++;
	users_wake(s, m, p, sim_between(s, 0, 4 * s->swarm.think_ms * MS));
}

/* A file is made, found by its name or by its number (a listing shows that), or goes. */
static void
begin_ephemeral(struct sim *s, struct machine *m, int p, const char *name)
{
	const struct item *it = model_child(&s->model, NODE_ROOT, bytes_of(name));
	struct mount_event event = {.kind = MOUNT_LOOKUP, .ino = NODE_ROOT, .name = bytes_of(name)};

	if (rng_chance(&s->rng, 400)) {
		users_create(s, m, p, name, O_RDWR,
		             0644 | (rng_chance(&s->rng, 300) ? S_ISVTX : 0));
		return;
	}
	if (it != NULL && rng_chance(&s->rng, 600)) {
		m->processes[p].node = it->node;
		event = (struct mount_event){.kind = MOUNT_OPEN, .flags = O_RDWR};
	} else if (rng_chance(&s->rng, 150)) {
		event.kind = MOUNT_UNLINK;
	}
	users_call(s, m, p, event);
}

/* Files become ephemeral, are opened, and renamed while they are open, by this process or by
 * others. */
static bool
on_ephemeral(struct sim *s, struct machine *m, int p)
{
	static const char *const names[] = {"e0", "e1"};
	struct process *u = &m->processes[p];
	uint64_t one = rng_below(&s->rng, 2);

	if (u->step == 0) {
		begin_ephemeral(s, m, p, names[one]);
		return true;
	}
	if (u->step > 3 || (u->fh == 0 && u->node == 0))
		return false;
	if (u->fh == 0)
		users_call(s, m, p, (struct mount_event){.kind = MOUNT_OPEN, .flags = O_RDWR});
	else if (rng_chance(&s->rng, 400))
		pause_user(s, m, p);
	else if (rng_chance(&s->rng, 400))
		users_attribute(s, m, p, MOUNT_SETXATTR, "user.ls.ephemeral", "1");
	else if (rng_chance(&s->rng, 400))
		users_call(s, m, p,
		           (struct mount_event){.kind = MOUNT_RENAME,
		                                .ino = NODE_ROOT,
		                                .name = bytes_of(names[one]),
		                                .new_ino = NODE_ROOT,
		                                .new_name = bytes_of(names[!one])});
	else
		return false;
	return true;
}

/* A directory is made or entered, locked by its attribute for a while, and removed. */
static bool
on_directories(struct sim *s, struct machine *m, int p)
{
	struct mount_event event = {.ino = NODE_ROOT, .name = bytes_of("d0"), .mode = S_IFDIR};

	switch (m->processes[p].step) {
	case 0:
		event.kind = rng_chance(&s->rng, 600) ? MOUNT_MKDIR : MOUNT_LOOKUP;
		event.mode |= rng_chance(&s->rng, 500) ? 0755 : 0755 | S_ISVTX;
		users_call(s, m, p, event);
		return true;
	case 1:
		users_attribute(s, m, p, MOUNT_SETXATTR, "user.ls.lock", "exclusive");
		return true;
	case 2:
		users_attribute(s, m, p, MOUNT_GETXATTR, "user.ls.lock", "");
		return true;
	case 3:
		users_attribute(s, m, p, MOUNT_REMOVEXATTR, "user.ls.lock", "");
		return true;
	case 4:
		event.kind = MOUNT_RMDIR;
		users_call(s, m, p, event);
		return true;
	default:
		return false;
	}
}

bool
users_round(struct sim *s, struct machine *m, int p)
{
	static bool (*const rounds[])(struct sim *, struct machine *, int) = {
	    [ROLE_REGISTER] = on_register, [ROLE_APPEND] = on_append,
	    [ROLE_COUNTER] = on_counter,   [ROLE_NAMES] = on_names,
	    [ROLE_LOCKS] = on_locks,       [ROLE_EPHEMERAL] = on_ephemeral,
	    [ROLE_BURST] = on_register,    [ROLE_DIRECTORIES] = on_directories,
	};

	if (m->processes[p].step == 0)
		handles_draw(s, &m->processes[p]);
	if (m->processes[p].use.kind != USE_NONE)
		return handles_round(s, m, p);
	return rounds[m->processes[p].role](s, m, p);
}
