/* What the processes on a mount do: step by step, with signals, and at last a close. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/sim/sim.h"

enum { STEP_FLUSH = 100, STEP_RELEASE, STEP_OVER };

bool
users_closes(const struct process *u)
{
	return u->step >= STEP_FLUSH;
}

/* With the call an owner gives up what it has, or has to reckon with that. */
static bool
is_about_lock(enum mount_event_kind kind)
{
	return kind == MOUNT_FLOCK || kind == MOUNT_SETLK;
}

void
users_call(struct sim *s, struct machine *m, int p, struct mount_event event)
{
	struct process *u = &m->processes[p];

	must(u->call == 0);
	if (is_about_lock(event.kind) || users_closes(u))
		u->holds = LOCK_NONE;
	if (is_about_lock(event.kind))
		u->lock_from = s->now;
	u->through = u->fh != 0 && (event.kind == MOUNT_READ || event.kind == MOUNT_WRITE ||
	                            event.kind == MOUNT_FLOCK || event.kind == MOUNT_SETLK);
	if (event.kind == MOUNT_OPEN || event.kind == MOUNT_CREATE)
		u->open_from = s->now;
	event.call = u->call = ++m->calls;
	event.thread = event.pid = 100 + p;
	event.lock_owner = 1 + (uint64_t)p;
	event.has_other = false;
	event.fate = FATE_ALIVE;
	if (event.kind != MOUNT_CREATE) {
		event.ino = event.ino ? event.ino : u->node;
		event.fh = u->fh;
	}
	u->event = event;
	trace_call(s, m, p, &event);
	mounts_event(s, m, event);
	users_signals(s, m, p);
	mounts_flush(s, m);
}

/* ---- the end of a round: close, as a process does ---- */

static void
act(struct sim *s, struct machine *m, int p)
{
	struct process *u = &m->processes[p];
	const bool directory = u->use.kind == USE_DIRECTORY;

	if (u->step < STEP_FLUSH && users_round(s, m, p))
		return;
	if (u->fh == 0 || u->step >= STEP_OVER) {
		users_next(s, m, p);
		return;
	}
	if (u->step < STEP_FLUSH)
		u->step = STEP_FLUSH;
	if (directory)
		u->step = STEP_RELEASE;
	users_call(s, m, p,
	           (struct mount_event){.kind = directory               ? MOUNT_RELEASEDIR
	                                        : u->step == STEP_FLUSH ? MOUNT_FLUSH
	                                                                : MOUNT_RELEASE});
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
		heap_again(&s->heap, e, m->paused_until);
		return;
	}
	if (core_rests(s) && u->step == 0)
		u->idle = true;
	else
		act(s, m, (int)e->a);
}

void
users_wake(struct sim *s, struct machine *m, int p, int64_t delay)
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
	u->use = (struct use){0};
	u->holds = LOCK_NONE;
	u->fcntl = rng_chance(&s->rng, 300);
	users_wake(s, m, p, sim_between(s, 0, s->swarm.think_ms * MS));
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

/* A file that was opened in a session that is over is good for nothing but its close. With its last
 * answers a session may be closed. */
static void
check_handle(struct sim *s, const struct machine *m, const struct process *u)
{
	const struct client_status now = client_status(m->client);

	if (now.session != u->session && now.state != CLIENT_CLOSED)
		sim_fail(s, "client %d: a file that was opened in session %lu works in session %lu",
		         m->id + 1, (unsigned long)u->session, (unsigned long)now.session);
}

/* No two processes have a lock at once, whatever their mounts ask of the cell. An operator may have
 * taken it from one of them that hears of that later. */
static void
check_alone(struct sim *s, const struct machine *m, const struct process *u)
{
	const struct item *it = model_item(&s->model, u->node);

	if (unlocks_since(it, u->session, u->lock_from))
		return;
	for (int i = 0; i < s->machines_n && sim_leases_hold(s); i++) {
		const struct machine *other = &s->machines[i];

		if (!machine_believes(s, m) || !machine_believes(s, other) || other->closing)
			continue;
		for (int p = 0; p < s->swarm.processes; p++) {
			const struct process *o = &other->processes[p];

			if (o == u || o->node != u->node || o->holds == LOCK_NONE ||
			    o->session != client_status(other->client).session ||
			    unlocks_since(it, o->session, o->lock_from))
				continue;
			if (o->holds == LOCK_EXCLUSIVE || u->holds == LOCK_EXCLUSIVE)
				sim_fail(s,
				         "processes of clients %d and %d both hold the lock of %s",
				         m->id + 1, i + 1, trace_path(s, u->node));
		}
	}
}

/* The step of the round that comes next. */
static int
after(struct sim *s, const struct machine *m, struct process *u, const struct mount_reply *r)
{
	int next = u->step + 1;

	if (users_closes(u))
		return next;
	if (u->use.kind != USE_NONE)
		next = handles_after(s, m, u, r);
	else if (u->role == ROLE_DIRECTORIES)
		next = after_directory(u->step, r->error);
	else if (r->error != 0)
		next = 0;
	if (next != 0)
		return next;
	u->line = 0; /* it was never taken */
	return u->fh != 0 ? STEP_FLUSH : STEP_OVER;
}

void
users_replied(struct sim *s, struct machine *m, const struct mount_reply *r)
{
	struct process *u = NULL;
	int p = 0;

	if (handles_replied(m, r))
		return;
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
	if (r->error == 0 && u->through)
		check_handle(s, m, u);
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
		judgement_line_taken(s, u->line);
	if (r->error == 0 && is_about_lock(u->event.kind) && u->event.lock_mode != LOCK_NONE) {
		u->holds = u->event.lock_mode;
		check_alone(s, m, u);
	}
	u->step = after(s, m, u, r);
	users_wake(s, m, p - 1, u->step == 3 ? sim_between(s, 0, s->swarm.think_ms * MS) : 0);
}

void
users_start(struct sim *s, struct machine *m, int p)
{
	users_wake(s, m, p, sim_between(s, 0, s->swarm.think_ms * MS));
}

/* Has the process this file open, by one of the numbers that it had while it was ephemeral? One
 * that opened it before it became ephemeral is no opener, under no later number either. */
static bool
is_opener(struct sim *s, const struct process *u, const struct item *file)
{
	const struct item *it = model_item(&s->model, u->node);

	if (it == NULL || u->open_from <= it->marked)
		return false;
	while (it->became != 0)
		it = model_item(&s->model, it->became);
	return it == file;
}

/* It goes because nobody has it open, but processes that opened it before it became ephemeral. */
void
users_check_unopened(struct sim *s, const struct item *it)
{
	must(it->openers_n == 0);
	if (!sim_leases_hold(s))
		return;
	for (int i = 0; i < s->machines_n; i++) {
		const struct machine *m = &s->machines[i];

		for (int p = 0; m->up && m->mount != NULL && p < s->swarm.processes; p++) {
			const struct process *u = &m->processes[p];

			if (u->fh == 0 || u->step >= STEP_RELEASE ||
			    !model_alive(&s->model, u->session))
				continue;
			if (is_opener(s, u, it))
				sim_fail(s, "client %d has %s open, and is no opener", i + 1,
				         it->name);
		}
	}
}
