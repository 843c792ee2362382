/* Rounds of processes on a mount with what <lsfs.h> offers: the lock of a directory, which ends
 * with its descriptor; descriptors that are poisoned, by the process or by another of its threads;
 * and sequencers that are attached to a descriptor and detached, of its own lock or of another one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "cell/base/must.h"
#include "cell/master/sequencer.h"
#include "tests/sim/sim.h"

void
handles_draw(struct sim *s, struct process *u)
{
	if (u->role < ROLES && rng_chance(&s->handles.rng, s->swarm.handles))
		u->use.kind = USE_DIRECTORY + (enum use_kind)rng_below(&s->handles.rng, 3);
}

/* ---- calls ---- */

/* All writers of the file write one value, from its beginning on, and none is shorter than the one
 * before: so each version is a value. */
static void
write_value(struct sim *s, struct machine *m, int p)
{
	struct use *use = &m->processes[p].use;

	snprintf(use->wrote, sizeof use->wrote, "v%lu;", (unsigned long)++s->values);
	users_write(s, m, p, 0, use->wrote);
}

static void
call(struct sim *s, struct machine *m, int p, enum mount_event_kind kind)
{
	users_call(s, m, p, (struct mount_event){.kind = kind});
}

static void
flock_now(struct sim *s, struct machine *m, int p, enum lock_mode mode)
{
	users_call(s, m, p,
	           (struct mount_event){.kind = MOUNT_FLOCK,
	                                .lock_mode = mode,
	                                .wait =
	                                    mode != LOCK_NONE && rng_chance(&s->handles.rng, 700)});
}

static void
think(struct sim *s, struct machine *m, int p)
{
	m->processes[p].step++;
	users_wake(s, m, p, (int64_t)rng_below(&s->handles.rng, 2000) * MS);
}

/* ---- the lock of a directory ---- */

/* One of the directories may be removed meanwhile. */
static void
find_directory(struct sim *s, struct machine *m, int p)
{
	const struct bytes name = bytes_of(rng_chance(&s->handles.rng, 300) ? "d0" : "k0");
	const bool there = model_child(&s->model, NODE_ROOT, name) != NULL;

	users_call(s, m, p,
	           (struct mount_event){.kind = there ? MOUNT_LOOKUP : MOUNT_MKDIR,
	                                .ino = NODE_ROOT,
	                                .name = name,
	                                .mode = S_IFDIR | 0755});
}

static bool
on_directory(struct sim *s, struct machine *m, int p)
{
	struct rng *r = &s->handles.rng;
	const enum lock_mode mode = rng_chance(r, 300) ? LOCK_SHARED : LOCK_EXCLUSIVE;

	switch (m->processes[p].step) {
	case 0:
		find_directory(s, m, p);
		return true;
	case 1:
		call(s, m, p, MOUNT_OPENDIR);
		return true;
	case 2:
		flock_now(s, m, p, mode);
		return true;
	case 3:
		if (rng_chance(r, 300))
			users_attribute(s, m, p, MOUNT_GETXATTR, "user.ls.sequencer", "");
		else if (rng_chance(r, 300))
			flock_now(s, m, p, mode);
		else
			think(s, m, p);
		return true;
	case 4:
		if (rng_chance(r, 500))
			return false; /* the close unlocks */
		flock_now(s, m, p, LOCK_NONE);
		return true;
	default:
		return false;
	}
}

/* ---- poison ---- */

/* Each call that was made before may still be answered as it would have been. */
static void
poison(struct sim *s, struct machine *m, int p)
{
	m->processes[p].use.poisoned = m->calls + 1;
	users_call(s, m, p, (struct mount_event){.kind = MOUNT_POISON});
}

static void
run_poison(struct sim *s, struct event *e)
{
	struct machine *m = &s->machines[e->who];
	struct process *u = &m->processes[e->a];
	struct mount_event poison = {.kind = MOUNT_POISON, .fh = e->b, .fate = FATE_ALIVE};

	if (!m->up || m->life != e->life || m->closing || u->fh != e->b || u->use.poisoned != 0 ||
	    users_closes(u))
		return;
	if (m->paused_until > s->now) {
		heap_again(&s->heap, e, m->paused_until);
		return;
	}
	sim_trace(s, "client %d: another thread of process %d poisons its file", m->id + 1,
	          (int)e->a + 1);
	u->use.poisoned = u->use.other = poison.call = ++m->calls;
	poison.ino = u->node;
	poison.thread = poison.pid = 100 + (int)e->a;
	mounts_event(s, m, poison);
	mounts_flush(s, m);
	if (u->use.other != 0)
		sim_fail(s, "client %d: a poison waits", m->id + 1);
	if (m->up && u->call != 0 && u->event.kind == MOUNT_FLOCK && u->use.wrote[0] == '\0')
		sim_fail(s, "client %d: call %lu waits for a lock through a poisoned file",
		         m->id + 1, (unsigned long)u->call);
}

static void
poison_soon(struct sim *s, const struct machine *m, int p)
{
	heap_push(&s->heap,
	          (struct event){.at = s->now + (int64_t)rng_below(&s->handles.rng, 2000) * MS,
	                         .run = run_poison,
	                         .who = m->id,
	                         .life = m->life,
	                         .a = (uint64_t)p,
	                         .b = m->processes[p].fh});
}

/* None of them may have an effect any more when the file is poisoned. */
static void
call_something(struct sim *s, struct machine *m, int p)
{
	switch (rng_below(&s->handles.rng, 4)) {
	case 0:
		write_value(s, m, p);
		return;
	case 1:
		users_read(s, m, p);
		return;
	case 2:
		call(s, m, p, MOUNT_FSYNC);
		return;
	default:
		flock_now(s, m, p, rng_chance(&s->handles.rng, 500) ? LOCK_EXCLUSIVE : LOCK_NONE);
		return;
	}
}

static bool
on_poison(struct sim *s, struct machine *m, int p)
{
	struct process *u = &m->processes[p];

	switch (u->step) {
	case 0:
		users_create(s, m, p, "lock0", O_RDWR, 0644);
		return true;
	case 1:
		if (rng_chance(&s->handles.rng, 500))
			poison_soon(s, m, p);
		flock_now(s, m, p, LOCK_EXCLUSIVE);
		return true;
	case 2:
		write_value(s, m, p);
		return true;
	case 3:
		if (rng_chance(&s->handles.rng, 400))
			call_something(s, m, p);
		else
			think(s, m, p);
		return true;
	case 4:
		if (u->use.poisoned == 0)
			poison(s, m, p);
		else
			call_something(s, m, p);
		return true;
	case 5:
	case 6:
		call_something(s, m, p);
		return true;
	default:
		return false;
	}
}

/* ---- sequencers ---- */

enum { STEP_WRITE = 4, STEP_DETACH = 9 };

static void
attach(struct sim *s, struct machine *m, int p, struct bytes sequencer)
{
	users_call(s, m, p, (struct mount_event){.kind = MOUNT_GUARD, .data = sequencer});
}

/* That of the process, which holds the lock, or one that somebody else has shown. */
static void
begin_sequencer(struct sim *s, struct machine *m, int p)
{
	struct process *u = &m->processes[p];

	if (s->handles.shown[0] == '\0' || rng_chance(&s->handles.rng, 600)) {
		flock_now(s, m, p, LOCK_EXCLUSIVE);
		return;
	}
	u->step = 3;
	strcpy(u->text, s->handles.shown);
	attach(s, m, p, bytes_of(u->text));
}

static bool
on_sequencer(struct sim *s, struct machine *m, int p)
{
	struct process *u = &m->processes[p];

	switch (u->step) {
	case 0:
		users_create(s, m, p, "lock0", O_RDWR, 0644);
		return true;
	case 1:
		begin_sequencer(s, m, p);
		return true;
	case 2:
		users_attribute(s, m, p, MOUNT_GETXATTR, "user.ls.sequencer", "");
		return true;
	case 3:
		attach(s, m, p, bytes_of(u->text));
		return true;
	case STEP_WRITE:
	case 7:
	case STEP_DETACH + 1:
		write_value(s, m, p);
		return true;
	case STEP_WRITE + 1:
	case 8:
	case STEP_DETACH + 2:
		call(s, m, p, MOUNT_FSYNC);
		return true;
	case 6:
		if (rng_chance(&s->handles.rng, 500))
			flock_now(s, m, p, LOCK_NONE);
		else
			think(s, m, p);
		return true;
	case STEP_DETACH:
		attach(s, m, p, (struct bytes){0});
		return true;
	default:
		return false;
	}
}

bool
handles_round(struct sim *s, struct machine *m, int p)
{
	static bool (*const rounds[])(struct sim *, struct machine *, int) = {
	    [USE_DIRECTORY] = on_directory,
	    [USE_POISON] = on_poison,
	    [USE_SEQUENCER] = on_sequencer,
	};

	return rounds[m->processes[p].use.kind](s, m, p);
}

/* ---- answers ---- */

bool
handles_replied(struct machine *m, const struct mount_reply *r)
{
	for (int p = 0; p < PROCESSES_MAX; p++) {
		struct use *use = &m->processes[p].use;

		if (use->other != r->call)
			continue;
		use->other = 0;
		return true;
	}
	return false;
}

static void
check_poisoned(struct sim *s, const struct machine *m, const struct process *u,
               const struct mount_reply *r)
{
	if (u->use.poisoned != 0 && r->call > u->use.poisoned && r->error == 0 &&
	    u->event.kind != MOUNT_FLUSH && u->event.kind != MOUNT_RELEASE)
		sim_fail(s, "client %d: call %lu through a poisoned file succeeds", m->id + 1,
		         (unsigned long)r->call);
}

int
handles_after(struct sim *s, const struct machine *m, struct process *u,
              const struct mount_reply *r)
{
	struct sequencer sequencer;

	check_poisoned(s, m, u, r);
	if (r->error != 0 && u->use.poisoned != 0)
		return u->step + 1;
	if (r->error != 0)
		return u->use.fence != 0 && u->step < STEP_DETACH ? STEP_DETACH : 0;
	if (u->event.kind == MOUNT_GETXATTR) {
		must(strlen(u->text) < sizeof s->handles.shown);
		strcpy(s->handles.shown, u->text);
	}
	if (u->event.kind == MOUNT_GUARD) {
		const bool attached = u->step < STEP_DETACH;

		if (attached && !sequencer_parse(bytes_of(u->text), &sequencer))
			sim_fail(s, "client %d attaches what is no sequencer", m->id + 1);
		u->use.fence = attached ? sequencer.fence : 0;
	}
	return u->step + 1;
}

void
handles_asked(struct sim *s, const struct machine *m, const struct client_call *c)
{
	for (int p = 0; p < s->swarm.processes && c->op.code == OP_set_contents; p++) {
		const struct use *use = &m->processes[p].use;

		if (use->wrote[0] == '\0' ||
		    !bytes_equal(c->op.set_contents.contents, bytes_of(use->wrote)))
			continue;
		if (use->poisoned != 0)
			sim_fail(s, "client %d writes %s through a poisoned file", m->id + 1,
			         use->wrote);
		if (c->guard.fence != use->fence)
			sim_fail(s,
			         "client %d writes %s while fence %lu is held, and fence %lu is "
			         "attached",
			         m->id + 1, use->wrote, (unsigned long)c->guard.fence,
			         (unsigned long)use->fence);
	}
}
