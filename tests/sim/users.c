/* What the processes on a mount do: open, lock, read, write, close. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/sim/sim.h"

static void wake(struct sim *s, struct machine *m, int p, int64_t delay);

static void
call(struct sim *s, struct machine *m, int p, struct mount_event event)
{
	struct process *u = &m->processes[p];

	must(u->call == 0);
	event.call = u->call = ++m->calls;
	event.thread = event.pid = 100 + p;
	event.lock_owner = 1 + (uint64_t)p;
	event.descriptors = 0;
	event.fate = FATE_ALIVE;
	if (event.kind != MOUNT_CREATE) {
		event.ino = event.ino ? event.ino : u->node;
		event.fh = u->fh;
	}
	trace_call(s, m, p, &event);
	mounts_event(s, m, event);
	users_signals(s, m, p);
	mounts_flush(s, m);
}

static void
create(struct sim *s, struct machine *m, int p, const char *name, int flags, mode_t mode)
{
	call(s, m, p,
	     (struct mount_event){.kind = MOUNT_CREATE,
	                          .ino = NODE_ROOT,
	                          .name = bytes_of(name),
	                          .mode = S_IFREG | mode,
	                          .flags = flags | O_CREAT});
}

static void
lock(struct sim *s, struct machine *m, int p, enum lock_mode mode, bool waits)
{
	call(s, m, p,
	     (struct mount_event){.kind = m->processes[p].fcntl ? MOUNT_SETLK : MOUNT_FLOCK,
	                          .lock_mode = mode,
	                          .wait = waits,
	                          .whole = true});
}

static void
attribute(struct sim *s, struct machine *m, int p, enum mount_event_kind kind, const char *name,
          const char *value)
{
	call(s, m, p,
	     (struct mount_event){.kind = kind, .name = bytes_of(name), .data = bytes_of(value)});
}

static void
write_text(struct sim *s, struct machine *m, int p, int flags, const char *text)
{
	call(s, m, p,
	     (struct mount_event){.kind = MOUNT_WRITE, .flags = flags, .data = bytes_of(text)});
}

static void
read_all(struct sim *s, struct machine *m, int p)
{
	call(s, m, p, (struct mount_event){.kind = MOUNT_READ, .size = 4096});
}

/* ---- rounds: false when it is over, and only the file has to be closed ---- */

static bool
on_counter(struct sim *s, struct machine *m, int p)
{
	struct process *u = &m->processes[p];
	char text[24];

	switch (u->step) {
	case 0:
		create(s, m, p, "counter0", O_RDWR, 0644);
		return true;
	case 1:
		lock(s, m, p, LOCK_EXCLUSIVE, true);
		return true;
	case 2:
		read_all(s, m, p);
		return true;
	case 3:
		snprintf(text, sizeof text, "%lu", strtoul(u->text, NULL, 10) + 1);
		write_text(s, m, p, 0, text);
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
		create(s, m, p, "log", O_WRONLY | O_APPEND, 0644);
		return true;
	case 1:
		u->line = ++s->values;
		snprintf(text, sizeof text, "v%lu;", (unsigned long)u->line);
		write_text(s, m, p, O_APPEND, text);
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
		create(s, m, p, "reg0", writes ? O_WRONLY | O_TRUNC : O_RDONLY, 0644);
		return true;
	case 1:
		snprintf(text, sizeof text, "v%lu;", (unsigned long)++s->values);
		if (writes)
			write_text(s, m, p, 0, text);
		else
			read_all(s, m, p);
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
		create(s, m, p, "lock0", O_RDWR, 0644);
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
			attribute(s, m, p, MOUNT_GETXATTR, "user.ls.lock_holders", "");
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
		create(s, m, p, (const char *)one.data, O_RDWR, 0644);
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
	call(s, m, p, event);
	return true;
}

static void
pause_user(struct sim *s, struct machine *m, int p)
{
	m->processes[p].step++;
	wake(s, m, p, sim_between(s, 0, 4 * s->swarm.think_ms * MS));
}

/* A file is made, found by its name or by its number (a listing shows that), or goes. */
static void
begin_ephemeral(struct sim *s, struct machine *m, int p, const char *name)
{
	const struct item *it = model_child(&s->model, NODE_ROOT, bytes_of(name));
	struct mount_event event = {.kind = MOUNT_LOOKUP, .ino = NODE_ROOT, .name = bytes_of(name)};

	if (rng_chance(&s->rng, 400)) {
		create(s, m, p, name, O_RDWR, 0644 | (rng_chance(&s->rng, 300) ? S_ISVTX : 0));
		return;
	}
	if (it != NULL && rng_chance(&s->rng, 600)) {
		m->processes[p].node = it->node;
		event = (struct mount_event){.kind = MOUNT_OPEN, .flags = O_RDWR};
	} else if (rng_chance(&s->rng, 150)) {
		event.kind = MOUNT_UNLINK;
	}
	call(s, m, p, event);
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
		call(s, m, p, (struct mount_event){.kind = MOUNT_OPEN, .flags = O_RDWR});
	else if (rng_chance(&s->rng, 400))
		pause_user(s, m, p);
	else if (rng_chance(&s->rng, 400))
		attribute(s, m, p, MOUNT_SETXATTR, "user.ls.ephemeral", "1");
	else if (rng_chance(&s->rng, 400))
		call(s, m, p,
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
		call(s, m, p, event);
		return true;
	case 1:
		attribute(s, m, p, MOUNT_SETXATTR, "user.ls.lock", "exclusive");
		return true;
	case 2:
		attribute(s, m, p, MOUNT_GETXATTR, "user.ls.lock", "");
		return true;
	case 3:
		attribute(s, m, p, MOUNT_REMOVEXATTR, "user.ls.lock", "");
		return true;
	case 4:
		event.kind = MOUNT_RMDIR;
		call(s, m, p, event);
		return true;
	default:
		return false;
	}
}

static bool (*const rounds[])(struct sim *, struct machine *, int) = {
    [ROLE_REGISTER] = on_register, [ROLE_APPEND] = on_append,
    [ROLE_COUNTER] = on_counter,   [ROLE_NAMES] = on_names,
    [ROLE_LOCKS] = on_locks,       [ROLE_EPHEMERAL] = on_ephemeral,
    [ROLE_BURST] = on_register,    [ROLE_DIRECTORIES] = on_directories,
};

/* ---- the end of a round: close, as a process does ---- */

enum { STEP_FLUSH = 100, STEP_RELEASE, STEP_OVER };

static void
act(struct sim *s, struct machine *m, int p)
{
	struct process *u = &m->processes[p];

	if (u->step < STEP_FLUSH && rounds[u->role](s, m, p))
		return;
	if (u->fh == 0 || u->step >= STEP_OVER) {
		users_next(s, m, p);
		return;
	}
	if (u->step < STEP_FLUSH)
		u->step = STEP_FLUSH;
	call(s, m, p,
	     (struct mount_event){.kind = u->step == STEP_FLUSH ? MOUNT_FLUSH : MOUNT_RELEASE});
}

/* ---- events ---- */

static void
run_user(struct sim *s, struct event *e)
{
	struct machine *m = &s->machines[e->who];
	struct process *u = &m->processes[e->a];

	if (!m->up || m->life != e->life || m->closing || u->wakes != e->b || u->call != 0)
		return;
	if (m->paused_until > s->now) {
		struct event again = *e;

		again.at = m->paused_until;
		heap_push(&s->heap, again);
		return;
	}
	if (s->calm && u->step == 0)
		u->idle = true;
	else
		act(s, m, (int)e->a);
}

static void
wake(struct sim *s, struct machine *m, int p, int64_t delay)
{
	m->processes[p].idle = false;
	heap_push(&s->heap, (struct event){.at = s->now + delay,
	                                   .run = run_user,
	                                   .who = m->id,
	                                   .life = m->life,
	                                   .a = (uint64_t)p,
	                                   .b = ++m->processes[p].wakes});
}

void
users_next(struct sim *s, struct machine *m, int p)
{
	struct process *u = &m->processes[p];

	u->step = 0;
	u->node = u->fh = u->line = u->session = 0;
	u->fcntl = rng_chance(&s->rng, 300);
	wake(s, m, p, sim_between(s, 0, s->swarm.think_ms * MS));
}

static bool
signal_waits(struct sim *s, struct event *e)
{
	struct machine *m = &s->machines[e->who];

	return m->up && m->life == e->life && !m->closing && m->paused_until <= s->now &&
	       m->processes[e->a].call == e->b;
}

static void
signal_event(struct sim *s, struct event *e, struct mount_event event)
{
	struct machine *m = &s->machines[e->who];

	mounts_event(s, m, event);
	mounts_flush(s, m);
}

static void
signal_must_end(struct sim *s, struct event *e)
{
	if (signal_waits(s, e))
		sim_fail(s, "client %d: call %lu waits on after a signal", e->who + 1,
		         (unsigned long)e->b);
}

static void run_signal_over(struct sim *s, struct event *e);

static void
await_end_of_patience(struct sim *s, const struct event *e)
{
	struct machine *m = &s->machines[e->who];
	struct event over = *e;

	over.at = clock_global(&m->clock, m->processes[e->a].patient_until);
	over.run = run_signal_over;
	heap_push(&s->heap, over);
}

/* A signal is a second old, if the clock went on as it did when it came. */
static void
run_signal_over(struct sim *s, struct event *e)
{
	struct machine *m = &s->machines[e->who];

	if (!signal_waits(s, e))
		return;
	if (mono_before(clock_local(&m->clock, s->now), m->processes[e->a].patient_until)) {
		await_end_of_patience(s, e);
		return;
	}
	signal_event(s, e, (struct mount_event){.kind = MOUNT_TIMEOUT});
	signal_must_end(s, e);
}

/* A signal to a process that waits in a call; the others learn nothing of it. Half of the signals
 * are fatal. */
static void
run_signal(struct sim *s, struct event *e)
{
	struct machine *m = &s->machines[e->who];
	bool fatal = e->b % 2;

	if (!signal_waits(s, e))
		return;
	signal_event(s, e,
	             (struct mount_event){.kind = MOUNT_INTERRUPT,
	                                  .call = e->b,
	                                  .fate = fatal ? FATE_KILLED : FATE_ALIVE});
	if (fatal)
		signal_must_end(s, e);
	m->processes[e->a].patient_until =
	    mono_add(clock_local(&m->clock, s->now), (span_t){SECOND});
	await_end_of_patience(s, e);
}

void
users_signals(struct sim *s, struct machine *m, int p)
{
	if (m->processes[p].call == 0 || !rng_chance(&s->rng, s->swarm.interrupt / 10))
		return;
	heap_push(&s->heap, (struct event){.at = s->now + sim_between(s, 0, 2 * SECOND),
	                                   .run = run_signal,
	                                   .who = m->id,
	                                   .life = m->life,
	                                   .a = (uint64_t)p,
	                                   .b = m->processes[p].call});
}

static void
acknowledged(struct sim *s, uint64_t line)
{
	ARRAY_ROOM(s->lines, s->lines_n, s->lines_room);
	s->lines[s->lines_n++] = line;
}

/* What the attribute locked is unlocked, come what may; to take it away twice does no harm. */
static int
after_directory(int step, int error)
{
	if (step == 0 || step == 4)
		return error != 0 ? STEP_OVER : step + 1;
	if (step == 3 && error != 0 && error != ENODATA && error != ESTALE)
		return 3;
	return error == ESTALE ? STEP_OVER : step + 1;
}

void
users_replied(struct sim *s, struct machine *m, const struct mount_reply *r)
{
	struct process *u = NULL;
	int p = 0;

	for (; p < s->swarm.processes && u == NULL; p++) {
		if (m->processes[p].call == r->call)
			u = &m->processes[p];
	}
	if (u == NULL)
		sim_fail(s, "client %d: call %lu is answered, and nobody waits", m->id + 1,
		         (unsigned long)r->call);
	sim_trace(s, "client %d process %d: the call returns: %s", m->id + 1, p,
	          r->error ? strerror(r->error) : "ok");
	u->call = 0;
	if (r->error == 0 && (r->kind == MOUNT_CREATED || r->kind == MOUNT_ENTRY))
		u->node = r->stat.ino;
	if (r->error == 0 && (r->kind == MOUNT_CREATED || r->kind == MOUNT_OPENED)) {
		u->fh = r->fh;
		u->session = client_status(m->client).session;
	}
	if (r->error == 0 && r->kind == MOUNT_DATA) {
		must(r->data.len < sizeof u->text);
		memcpy(u->text, r->data.data ? r->data.data : (const uint8_t *)"", r->data.len);
		u->text[r->data.len] = '\0';
	}
	if (u->step == STEP_FLUSH && r->error == 0 && u->line != 0)
		acknowledged(s, u->line);
	if (u->role == ROLE_DIRECTORIES) {
		u->step = after_directory(u->step, r->error);
	} else if (r->error != 0 && u->step < STEP_FLUSH) {
		u->line = 0; /* it was never taken */
		u->step = u->fh != 0 ? STEP_FLUSH : STEP_OVER;
	} else {
		u->step++;
	}
	wake(s, m, p - 1, u->step == 3 ? sim_between(s, 0, s->swarm.think_ms * MS) : 0);
}

void
users_start(struct sim *s, struct machine *m, int p)
{
	wake(s, m, p, sim_between(s, 0, s->swarm.think_ms * MS));
}

/* The number that an open file has now, of those that it had while it was ephemeral. */
static uint64_t
number_now(struct sim *s, uint64_t node)
{
	const struct item *it = model_item(&s->model, node);

	while (it != NULL && it->became != 0) {
		node = it->became;
		it = model_item(&s->model, node);
	}
	return node;
}

/* It becomes ephemeral, or goes because nobody has it open: no process has, unless on the machine
 * of that session. */
void
users_check_unopened(struct sim *s, const struct item *it, uint64_t but_session)
{
	if (!sim_leases_hold(s))
		return;
	for (int i = 0; i < s->machines_n; i++) {
		const struct machine *m = &s->machines[i];

		for (int p = 0; m->up && m->mount != NULL && p < s->swarm.processes; p++) {
			const struct process *u = &m->processes[p];

			if (u->fh == 0 || u->step >= STEP_RELEASE || u->session == but_session ||
			    !model_alive(&s->model, u->session))
				continue;
			if (number_now(s, u->node) == it->node)
				sim_fail(s, "client %d has %s open, and is not asked", i + 1,
				         it->name);
		}
	}
}

/* Each line whose close said that it is there stands in the file exactly once. */
void
users_check(struct sim *s)
{
	const struct item *it = model_child(&s->model, NODE_ROOT, bytes_of("log"));
	struct bytes all = {0};
	char *text;

	if (it == NULL || s->lines_n == 0)
		return;
	all = it->versions[it->versions_n - 1].contents;
	text = bytes_to_text(all);
	for (size_t i = 0; i < s->lines_n; i++) {
		char line[24];
		const char *first;

		snprintf(line, sizeof line, "v%lu;", (unsigned long)s->lines[i]);
		first = strstr(text, line);
		if (first == NULL || strstr(first + 1, line) != NULL)
			sim_fail(s, "the line %s stands in the log %s", line,
			         first == NULL ? "nowhere" : "twice");
	}
	free(text);
}
