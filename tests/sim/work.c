/* What the processes of a machine do: each has a role, goes through its round step by step, thinks,
 * and begins again. A round waits for the answers to all that it asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/must.h"
#include "tests/sim/sim.h"

/* ---- asking ---- */

void
work_ask_ordered(struct sim *s, struct machine *m, int p, const struct op *op, bool ordered)
{
	struct process *proc = &m->processes[p];

	must(proc->records_n < BULK_WRITES);
	proc->pending++;
	proc->records[proc->records_n] = s->history.n + 1; /* it may be answered at once */
	proc->records_n++;
	machine_request(s, m, p, op, ordered);
}

void
work_ask_guarded(struct sim *s, struct machine *m, int p, const struct op *op,
                 const struct record *by)
{
	struct process *proc = &m->processes[p];
	const struct acquire *a = &by->op.acquire.acquire;
	struct record *r = history_begin(s, m->id, p, op, false);

	must(proc->records_n < BULK_WRITES);
	proc->pending++;
	proc->records[proc->records_n++] = r->token;
	r->guard = (struct guard){.node = a->node,
	                          .lock_generation = by->want.lock_generation,
	                          .fence = by->want.fence,
	                          .mode = a->mode};
	machine_submit(s, m, r);
}

void
work_ask(struct sim *s, struct machine *m, int p, struct op op)
{
	work_ask_ordered(s, m, p, &op, false);
}

void
work_ask_for(struct sim *s, struct machine *m, int p, const struct op *op, struct bytes user)
{
	work_ask_through(s, m, p, op, user, &(struct client_rights){0});
}

void
work_ask_through(struct sim *s, struct machine *m, int p, const struct op *op, struct bytes user,
                 const struct client_rights *opened)
{
	struct process *proc = &m->processes[p];
	struct record *r = history_begin(s, m->id, p, op, false);

	must(proc->records_n < BULK_WRITES);
	proc->pending++;
	proc->records[proc->records_n++] = r->token;
	r->user = bytes_copy(user);
	if (opened->node == wire_op_node(op))
		r->through = *opened;
	machine_submit(s, m, r);
}

const struct record *
work_answer(const struct sim *s, const struct process *proc, int i)
{
	must(i < proc->records_n);
	return s->history.records[proc->records[i] - 1];
}

void
work_next_round(struct sim *s, struct machine *m, int p)
{
	m->processes[p].step = 0;
	m->processes[p].records_n = 0;
	if (core_rests(s)) {
		m->processes[p].idle = true;
		return;
	}
	work_wake(s, m, p, sim_between(s, 0, s->swarm.think_ms * MS));
}

/* ---- events ---- */

static void
run_wake(struct sim *s, struct event *e)
{
	struct machine *m = &s->machines[e->who];
	int p = (int)e->a;

	if (!m->up || m->life != e->life || m->closing || m->processes[p].wakes != e->b)
		return;
	if (m->paused_until > s->now) {
		heap_again(&s->heap, e, m->paused_until);
		return;
	}
	if (core_rests(s) && m->processes[p].step == 0) {
		m->processes[p].idle = true;
		return;
	}
	work_act(s, m, p);
}

void
work_wake(struct sim *s, struct machine *m, int p, int64_t delay)
{
	m->processes[p].idle = false;
	heap_push(&s->heap, (struct event){.at = s->now + delay,
	                                   .run = run_wake,
	                                   .who = m->id,
	                                   .life = m->life,
	                                   .a = (uint64_t)p,
	                                   .b = ++m->processes[p].wakes});
}

/* A signal while the process waits for its lock. */
static void
run_interrupt(struct sim *s, struct event *e)
{
	struct machine *m = &s->machines[e->who];
	struct process *proc = &m->processes[e->a];
	struct op op = {.code = OP_cancel};

	if (!m->up || m->life != e->life || m->closing || proc->waits == 0 || proc->waits != e->b ||
	    m->paused_until > s->now)
		return;
	op.cancel.node = proc->node;
	op.cancel.owner = 1000 * m->life + e->a;
	op.cancel.acquisition = proc->waits;
	proc->waits = 0;
	proc->step = 99; /* only the end of the round is left */
	work_ask(s, m, (int)e->a, op);
}

static void
begin_waiting(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];

	proc->waits = proc->acquisition;
	if (rng_chance(&s->rng, s->swarm.interrupt))
		heap_push(&s->heap, (struct event){.at = s->now + sim_between(s, 0, 2 * SECOND),
		                                   .run = run_interrupt,
		                                   .who = m->id,
		                                   .life = m->life,
		                                   .a = (uint64_t)p,
		                                   .b = proc->waits});
}

/* A round of locking that did not get its lock is over. */
static bool
refused(const struct record *r)
{
	return r->op.code == OP_acquire && r->rc != RC_OK && r->rc != RC_QUEUED;
}

void
work_answered(struct sim *s, struct machine *m, const struct record *r)
{
	struct process *proc = &m->processes[r->process];

	must(proc->pending > 0);
	proc->pending--;
	if (r->rc == RC_QUEUED && proc->acquisition == r->op.acquire.acquire.acquisition &&
	    client_status(m->client).session == r->session)
		begin_waiting(s, m, r->process);
	if (proc->pending > 0 || proc->waits != 0)
		return;
	if (refused(r) && proc->step == 1)
		proc->step = 99;
	work_wake(s, m, r->process, 0);
}

void
work_granted(struct sim *s, struct machine *m, const struct client_grant *g)
{
	for (int p = 0; p < s->swarm.processes; p++) {
		struct process *proc = &m->processes[p];

		if (proc->waits == 0 || proc->waits != g->acquisition)
			continue;
		proc->waits = 0;
		if (g->rc != RC_OK)
			proc->step = 99;
		if (proc->pending == 0)
			work_wake(s, m, p, 0);
	}
}

/* What was held is gone; who waited for a lock waits no more. */
void
work_destroy(struct sim *s, struct machine *m, struct machine *other)
{
	struct op op = {.code = OP_end_session,
	                .end_session = {.session = other->session,
	                                .cause = SESSION_EXPIRED,
	                                .nonce = {other->nonce, LIMIT_NONCE}}};

	if (!m->up || m->state != CLIENT_SAFE || m->closing || m->paused_until > s->now ||
	    other == m || other->session == 0)
		return;
	fault(s, FAULT_DESTROY, "an operator at client %d ends the session of client %d", m->id + 1,
	      other->id + 1);
	machine_request(s, m, PROCESS_OPERATOR, &op, false);
}

void
work_session_lost(struct sim *s, struct machine *m)
{
	for (int p = 0; p < s->swarm.processes; p++) {
		struct process *proc = &m->processes[p];

		proc->waits = 0;
		if (proc->pending == 0 && !m->closing)
			work_next_round(s, m, p);
	}
}

/* The one that writes much is the last one of the first machine. */
static int
bulk_process(const struct sim *s)
{
	return s->swarm.processes - 1;
}

void
work_start(struct sim *s, struct machine *m)
{
	for (int p = 0; p < s->swarm.processes; p++) {
		struct process *proc = &m->processes[p];
		uint64_t wakes = proc->wakes;

		*proc = (struct process){.wakes = wakes};
		do
			proc->role = (enum role)rng_below(&s->rng, ROLES);
		while (!(s->swarm.roles & (1u << proc->role)));
		if (s->swarm.bulk && m->id == 0 && p == bulk_process(s))
			proc->role = ROLE_BULK;
		else if (s->rights.on && p == 0 && m->mount == NULL)
			proc->role = ROLE_RIGHTS;
		if (m->mount != NULL)
			users_start(s, m, p);
		else
			work_wake(s, m, p, sim_between(s, 0, s->swarm.think_ms * MS));
	}
}

void
work_bulk(struct sim *s, struct machine *m)
{
	struct process *proc = &m->processes[bulk_process(s)];

	must(proc->role == ROLE_BULK);
	if (!proc->idle || proc->node == 0)
		return;
	proc->step = 0;
	proc->records_n = 0;
	proc->idle = false;
	work_act(s, m, bulk_process(s));
}

bool
work_idle(const struct sim *s, const struct machine *m)
{
	for (int p = 0; p < s->swarm.processes; p++) {
		if (!m->processes[p].idle)
			return false;
	}
	return true;
}
