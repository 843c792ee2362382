/* Faults that wait for what clients do. Each prepares a race that could come by chance, and lets
 * it: a waiter's session ends as the lock comes free, and a transaction tries for it, a session
 * with several locks ends, a client reads on beside a master that was cut off, a lease ends as the
 * next one begins. */
#include <fcntl.h>
#include "tests/sim/sim.h"

enum { TRIES = 2 };

static bool
can_ask(const struct sim *s, const struct machine *m)
{
	return m->up && !m->closing && m->state == CLIENT_SAFE && m->paused_until <= s->now;
}

/* ---- locks and sessions ---- */

static struct machine *
machine_of(struct sim *s, uint64_t session)
{
	for (int i = 0; i < s->machines_n; i++)
		if (s->machines[i].session == session)
			return &s->machines[i];
	return NULL;
}

/* Somebody who waits for that lock, whoever asked first; NULL: nobody does. */
static struct machine *
waiter_of(struct sim *s, uint64_t node, const struct machine *but)
{
	for (size_t i = 0; i < s->history.acquires_n; i++) {
		const struct record *r = s->history.acquires[i];

		if (r->waiting && r->machine != but->id && r->op.acquire.acquire.node == node &&
		    s->machines[r->machine].session == r->session)
			return &s->machines[r->machine];
	}
	return NULL;
}

static void
run_destroy(struct sim *s, struct event *e)
{
	struct machine *victim = machine_of(s, e->a);

	if (!s->calm && victim != NULL)
		work_destroy(s, &s->machines[e->who], victim);
}

static void
destroy_soon(struct sim *s, const struct machine *victim)
{
	for (int i = 0; i < s->machines_n; i++) {
		if (i == victim->id)
			continue;
		heap_push(&s->heap, (struct event){.at = s->now + sim_between(s, 0, 2 * MS),
		                                   .run = run_destroy,
		                                   .who = i,
		                                   .a = victim->session});
	}
}

static void
run_try(struct sim *s, struct event *e)
{
	struct machine *m = &s->machines[e->who];
	const struct item *it = model_item(&s->model, e->a);

	if (!s->calm && can_ask(s, m) && model_item_alive(it) && it->parent == NODE_ROOT)
		work_try_lock(s, m, it->name);
}

/* Others, who do not wait for the lock, try for it while its release is being stored. */
static void
try_soon(struct sim *s, const struct machine *but, uint64_t node)
{
	struct rng *r = &s->cached.rng;
	const int64_t within = 2 * MS + s->swarm.disk_us * 1000;

	for (int i = 0; i < s->machines_n; i++)
		for (int n = 0; n < TRIES && i != but->id; n++)
			heap_push(&s->heap,
			          (struct event){.at = s->now +
			                               (int64_t)rng_below(r, (uint64_t)within),
			                         .run = run_try,
			                         .who = i,
			                         .a = node});
}

void
ambush_release(struct sim *s, const struct machine *m, uint64_t node)
{
	struct machine *waiter = waiter_of(s, node, m);

	if (waiter == NULL || !fault_strikes(s, FAULT_AT_RELEASE))
		return;
	fault(s, FAULT_AT_RELEASE, "client %d, who waits for %s, ends as that comes free",
	      waiter->id + 1, trace_path(s, node));
	destroy_soon(s, waiter);
	try_soon(s, waiter, node);
}

/* Locks that it has, and that others wait for. */
static int
wanted_locks(struct sim *s, const struct machine *m)
{
	uint64_t first = 0;
	int n = 0;

	for (size_t i = 0; i < m->holds_n; i++) {
		uint64_t node = m->holds[i].node;

		if (node == first || waiter_of(s, node, m) == NULL)
			continue;
		first = node;
		n++;
	}
	return n;
}

/* The first of those who share a lock goes: what comes of its lock-delay, adversary.c knows. */
static void
ambush_sharer(struct sim *s, struct machine *m)
{
	const struct hold *h = &m->holds[0];
	const struct item *it = model_item(&s->model, h->node);

	if (h->mode != LOCK_SHARED || it->holders_n < 2 || s->swarm.lock_delay_s == 0 ||
	    !rng_chance(&s->rng, 30) || !fault_strikes(s, FAULT_AT_DELAY))
		return;
	fault(s, FAULT_AT_HOLD, "client %d goes, and others share its lock", m->id + 1);
	destroy_soon(s, m);
}

void
ambush_holder(struct sim *s, struct machine *m)
{
	if (m->holds_n > 0)
		ambush_sharer(s, m);
	if (m->holds_n < 2 || s->swarm.rates[FAULT_AT_HOLD] == 0 || wanted_locks(s, m) < 2 ||
	    !fault_strikes(s, FAULT_AT_HOLD))
		return;
	fault(s, FAULT_AT_HOLD, "client %d goes, and others wait for several of its locks",
	      m->id + 1);
	if (rng_chance(&s->rng, 500))
		machine_close(s, m);
	else
		destroy_soon(s, m);
}

/* ---- reads beside a master that was cut off ---- */

/* It reads what another one writes. */
static void
run_watch(struct sim *s, struct event *e)
{
	struct machine *reader = &s->machines[e->who];
	struct machine *writer = &s->machines[rng_below(&s->rng, (uint64_t)s->machines_n)];
	const struct item *it = model_child(&s->model, NODE_ROOT, bytes_of("reg0"));
	struct op op;

	if (s->calm || s->now > (int64_t)e->b)
		return;
	if (it != NULL && writer != reader && can_ask(s, writer)) {
		op = (struct op){.code = OP_set_contents, .set_contents = {.node = it->node}};
		machine_request(s, writer, PROCESS_OPERATOR, &op, false);
	}
	if (it != NULL && can_ask(s, reader)) {
		op = (struct op){.code = OP_get_contents, .get_contents = {.node = it->node}};
		machine_request(s, reader, PROCESS_OPERATOR, &op, false);
	}
	heap_again(&s->heap, e, s->now + sim_between(s, 50 * MS, 200 * MS));
}

void
ambush_watch(struct sim *s, int machine, int64_t until)
{
	heap_push(&s->heap, (struct event){.at = s->now + 400 * MS,
	                                   .run = run_watch,
	                                   .who = machine,
	                                   .b = (uint64_t)until});
}

/* ---- changes after a lapse ---- */

static void
run_touch(struct sim *s, struct event *e)
{
	struct machine *m = &s->machines[e->who];
	const struct op op = {.code = OP_set_mtime, .set_mtime = {.node = e->a, .now = 1}};

	if (!s->calm && can_ask(s, m))
		machine_request(s, m, PROCESS_OPERATOR, &op, false);
}

/* One that nobody has changed for long, for nobody must change it meanwhile. */
static const struct item *
cached_file(const struct sim *s, const struct machine *m)
{
	const mono_t now = clock_local(&m->clock, s->now);
	const struct item *oldest = NULL;

	for (size_t i = 0; i < s->model.items_n; i++) {
		const struct item *it = s->model.items[i];

		if (it->died == 0 && it->kind == NODE_FILE &&
		    (oldest == NULL || it->mtime_changed < oldest->mtime_changed) &&
		    client_caches(m->client, it->node, now))
			oldest = it;
	}
	return oldest;
}

void
ambush_lapse(struct sim *s, const struct machine *m, int64_t until)
{
	const struct item *it = m->up ? cached_file(s, m) : NULL;
	const int other = (int)rng_below(&s->cached.rng, (uint64_t)s->machines_n);
	const int64_t at = until + (int64_t)rng_below(&s->cached.rng, SECOND);

	if (it != NULL && other != m->id)
		heap_push(&s->heap,
		          (struct event){.at = at, .run = run_touch, .who = other, .a = it->node});
}

/* ---- looks at what goes with a session ---- */

/* It looks at a node again and again, and has it cached when it goes. */
static void
run_look(struct sim *s, struct event *e)
{
	struct machine *reader = &s->machines[e->who];
	const struct item *it = model_item(&s->model, e->a);
	struct op op;

	if (s->calm || s->now > (int64_t)e->b || it->died != 0)
		return;
	if (can_ask(s, reader)) {
		op = (struct op){.code = OP_lookup,
		                 .lookup = {.parent = it->parent, .name = bytes_of(it->name)}};
		machine_request(s, reader, PROCESS_OPERATOR, &op, false);
	}
	heap_again(&s->heap, e, s->now + 50 * MS + (int64_t)rng_below(&s->cached.rng, 150 * MS));
}

static bool
has_open(const struct item *it, uint64_t session)
{
	for (size_t i = 0; i < it->openers_n; i++)
		if (it->openers[i].session == session)
			return true;
	return it->creator == session;
}

static const struct item *
opened_by(const struct model *model, uint64_t session)
{
	for (size_t i = 0; i < model->items_n; i++)
		if (model->items[i]->died == 0 && has_open(model->items[i], session))
			return model->items[i];
	return NULL;
}

void
ambush_ephemeral(struct sim *s, struct machine *m)
{
	const int64_t until = s->now + 2 * s->swarm.session_lease_ms * MS;
	const struct item *it = m->session != 0 ? opened_by(&s->model, m->session) : NULL;

	if (!m->up || it == NULL || !rng_chance(&s->cached.rng, s->swarm.rates[FAULT_AT_END]))
		return;
	fault(s, FAULT_AT_END, "client %d goes, which has %s open, and others look at that",
	      m->id + 1, trace_path(s, it->node));
	for (int reader = 0; reader < s->machines_n; reader++)
		if (reader != m->id)
			heap_push(&s->heap, (struct event){.at = s->now + 50 * MS,
			                                   .run = run_look,
			                                   .who = reader,
			                                   .a = it->node,
			                                   .b = (uint64_t)until});
	machine_crash(s, m);
}

/* ---- opens of a file that becomes ephemeral ---- */

/* The round of a process that thinks begins with this open. */
static void
run_open(struct sim *s, struct event *e)
{
	struct machine *m = &s->machines[e->who];
	struct process *u = &m->processes[e->a];

	if (s->calm || m->life != e->life || m->mount == NULL || !can_ask(s, m) ||
	    u->role != ROLE_EPHEMERAL || u->call != 0 || u->fh != 0 || u->step != 0)
		return;
	u->node = e->b;
	users_call(s, m, (int)e->a, (struct mount_event){.kind = MOUNT_OPEN, .flags = O_RDWR});
}

void
ambush_mark(struct sim *s, const struct machine *m, uint64_t node)
{
	const uint64_t soon = 4 * (uint64_t)(s->swarm.latency_us + s->swarm.disk_us) * 1000;

	if (s->calm || m->mount == NULL ||
	    !rng_chance(&s->cached.rng, s->swarm.rates[FAULT_AT_MARK]))
		return;
	fault(s, FAULT_AT_MARK, "others open %s, which client %d makes ephemeral",
	      trace_path(s, node), m->id + 1);
	for (int i = 0; i < s->machines_n; i++)
		for (int p = 0; i != m->id && p < s->swarm.processes; p++)
			heap_push(&s->heap,
			          (struct event){.at = s->now +
			                               (int64_t)rng_below(&s->cached.rng, soon),
			                         .run = run_open,
			                         .who = i,
			                         .life = s->machines[i].life,
			                         .a = (uint64_t)p,
			                         .b = node});
}

/* ---- a lease that ends as another one begins ---- */

static int64_t
grant_end(const struct sim *s, const struct host *n)
{
	const span_t lease = settings_span(&s->settings.now, SETTING_master_lease);

	return clock_global(&n->clock, mono_add(clock_local(&n->clock, n->heard_at), lease));
}

/* The one that stopped hearing the master earlier sleeps until the moment in which the last of the
 * others may promise it something, and stands at once. */
static void
run_race(struct sim *s, struct event *e)
{
	struct host *master = &s->hosts[e->who], *late = &s->hosts[e->a];
	int64_t end = 0;

	if (s->calm || !master->up || !late->up || late->paused_until > s->now)
		return;
	for (int i = 0; i < s->hosts_n; i++) {
		struct host *n = &s->hosts[i];

		if (n == master || n == late || !n->up || n->heard_at == 0)
			continue;
		net_cut_replicas(s, master->id, n->id, s->now + 1500 * MS);
		end = grant_end(s, n) > end ? grant_end(s, n) : end;
	}
	if (end > s->now)
		host_pause(s, late, end + sim_between(s, 0, MS / 2));
}

void
ambush_lease(struct sim *s, struct host *master)
{
	struct host *late = &s->hosts[rng_below(&s->rng, (uint64_t)s->hosts_n)];

	if (s->swarm.clocks != CLOCKS_DRIFT || late == master || !late->up)
		return;
	fault(s, FAULT_RACE,
	      "the clock of replica %d is slow, all others are fast, and it is cut "
	      "off from replica %d first",
	      master->id, late->id);
	for (int i = 0; i < s->hosts_n; i++) {
		struct host *n = &s->hosts[i];

		if (n->paused_until > s->now)
			continue;
		clock_set_rate(&n->clock, s->now, n == master ? -CLOCK_PPM : CLOCK_PPM);
		host_clock_changed(s, n);
	}
	net_cut_replicas(s, master->id, late->id, s->now + 2 * SECOND);
	heap_push(&s->heap, (struct event){.at = s->now + 300 * MS,
	                                   .run = run_race,
	                                   .who = master->id - 1,
	                                   .a = (uint64_t)late->id - 1});
}
