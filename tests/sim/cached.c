/* What machines have cached, when it changes. A client that has leave to cache, and its machine's
 * kernel, which keeps for a moment what it was answered, have nothing of a node when a command
 * changes it: their session was told before, and has acknowledged. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/sim/sim.h"

/* A kernel keeps attributes so long, or half of what is left of the leave. */
#define KERNEL_KEEPS span_s(1)

/* ---- the kernel ---- */

static struct kernel_copy *
copy_find(struct kernel *k, uint64_t node)
{
	for (size_t i = 0; i < k->copies_n; i++)
		if (k->copies[i].node == node)
			return &k->copies[i];
	return NULL;
}

void
cached_answered(struct sim *s, struct machine *m, const struct record *r)
{
	const mono_t now = clock_local(&m->clock, s->now), until = mono_add(now, KERNEL_KEEPS);
	struct kernel *k = &m->kernel;
	struct kernel_copy *copy;

	if (r->rc != RC_OK || r->got.node == 0 || wire_op(r->op.code)->class != OP_CLASS_READ ||
	    !client_caches(m->client, r->got.node, mono_add(until, KERNEL_KEEPS)))
		return;
	if ((copy = copy_find(k, r->got.node)) == NULL) {
		ARRAY_ROOM(k->copies, k->copies_n, k->copies_room);
		copy = &k->copies[k->copies_n++];
	}
	*copy = (struct kernel_copy){r->got.node, until};
}

static void
carry_out(struct kernel *k, const struct invalidation *i)
{
	struct kernel_copy *copy;

	if (i->everything)
		k->copies_n = 0;
	for (size_t at = 0; at < i->nodes_n; at++)
		if ((copy = copy_find(k, i->nodes[at])) != NULL)
			*copy = k->copies[--k->copies_n];
}

/* ---- the driver, which carries out invalidations in their order, sometimes late ---- */

static void
first_done(struct kernel *k)
{
	free(k->due[0].nodes);
	memmove(k->due, k->due + 1, --k->due_n * sizeof *k->due);
}

static void
carry_out_first(struct sim *s, struct machine *m)
{
	const uint64_t number = m->kernel.due[0].number;

	carry_out(&m->kernel, &m->kernel.due[0]);
	first_done(&m->kernel);
	machine_event(s, m,
	              (struct client_event){.kind = CLIENT_INVALIDATED, .invalidation = number});
}

static void run_invalidate(struct sim *s, struct event *e);

static void
schedule(struct sim *s, const struct machine *m, int64_t at)
{
	heap_push(&s->heap,
	          (struct event){.at = at, .run = run_invalidate, .who = m->id, .life = m->life});
}

static void
run_invalidate(struct sim *s, struct event *e)
{
	struct machine *m = &s->machines[e->who];

	if (!m->up || m->life != e->life)
		return;
	if (m->paused_until > s->now) {
		schedule(s, m, m->paused_until);
		return;
	}
	m->kernel.busy = false;
	while (m->up && m->life == e->life && m->kernel.due_n > 0 && !m->kernel.busy)
		carry_out_first(s, m);
}

/* How long this one takes; 0: it is done at once, as most are. */
static int64_t
delay(struct sim *s, const struct machine *m)
{
	int64_t takes;

	if (s->calm || !rng_chance(&s->cached.rng, s->swarm.rates[FAULT_KERNEL_SLOW]))
		return 0;
	takes = (int64_t)rng_below(&s->cached.rng,
	                           rng_chance(&s->cached.rng, 200) ? 3 * SECOND : SECOND / 5);
	fault(s, FAULT_KERNEL_SLOW, "the kernel of client %d takes %.3f s to invalidate", m->id + 1,
	      (double)takes / 1e9);
	return takes;
}

/* The nodes that a command of the machine changes are invalidated before the command is sent, and
 * nobody waits for a report. */
static void
carry_out_own(struct kernel *k, const struct client_update *u)
{
	carry_out(k, &(struct invalidation){.nodes = u->invalid, .nodes_n = u->invalid_n});
}

void
cached_invalidate(struct sim *s, struct machine *m, const struct client_update *u)
{
	struct kernel *k = &m->kernel;
	struct invalidation *i;
	int64_t takes;

	if (u->invalidation == 0) {
		carry_out_own(k, u);
		return;
	}
	ARRAY_ROOM(k->due, k->due_n, k->due_room);
	i = &k->due[k->due_n++];
	*i = (struct invalidation){.number = u->invalidation,
	                           .everything = u->invalid_all,
	                           .nodes = memory_zero(u->invalid_n + 1, sizeof *u->invalid),
	                           .nodes_n = u->invalid_n};
	if (u->invalid_n > 0)
		memcpy(i->nodes, u->invalid, u->invalid_n * sizeof *u->invalid);
	if (k->busy)
		return;
	takes = delay(s, m);
	k->busy = takes > 0;
	if (k->busy)
		schedule(s, m, s->now + takes);
}

void
cached_carry_out(struct sim *s, struct machine *m)
{
	const uint64_t life = m->life;

	while (m->up && m->life == life && m->kernel.due_n > 0 && !m->kernel.busy)
		carry_out_first(s, m);
}

void
cached_forget(struct machine *m)
{
	while (m->kernel.due_n > 0)
		first_done(&m->kernel);
	m->kernel.copies_n = 0;
	m->kernel.busy = false;
}

void
cached_free(struct machine *m)
{
	cached_forget(m);
	free(m->kernel.due);
	free(m->kernel.copies);
}

/* ---- notices ---- */

static void
stall(struct conn *c, int64_t until)
{
	if (c->stalled_until < until)
		c->stalled_until = until;
}

static void
be_late(struct sim *s, struct conn *c)
{
	int64_t late;

	if (s->calm || !rng_chance(&s->cached.rng, s->swarm.rates[FAULT_NOTICE_LATE]))
		return;
	late = (int64_t)rng_below(&s->cached.rng,
	                          rng_chance(&s->cached.rng, 300) ? 8 * SECOND : SECOND);
	fault(s, FAULT_NOTICE_LATE, "a notice reaches %s %.3f s late", net_who(c),
	      (double)late / 1e9);
	stall(c, s->now + late);
}

/* Those of an earlier generation need no acknowledgement any more. */
static void
notice_sent(struct sim *s, struct conn *c, const struct msg_invalidation *m)
{
	if (c->notices_n > 0 && c->notices[0].generation != m->generation)
		c->notices_n = 0;
	ARRAY_ROOM(c->notices, c->notices_n, c->notices_room);
	c->notices[c->notices_n++] = (struct notice){m->notice, m->generation, net_departure(s, c)};
	be_late(s, c);
}

/* Leave ends at the latest one cache lease after the oldest notice that is not acknowledged was
 * sent: so a client that acknowledges nothing delays others once. */
static void
check_leave(struct sim *s, const struct conn *c, const struct msg_keepalive_reply *m)
{
	const int64_t lease = setting_changes_greatest(s, SETTING_cache_lease);
	const int64_t left = (int64_t)(m->cache_ms - m->held_ms) * MS, now = net_departure(s, c);

	if (m->cache_ms == 0 || c->notices_n == 0 || c->notices[0].generation != m->generation ||
	    !sim_leases_hold(s))
		return;
	if (now + left > c->notices[0].sent + lease / 100 * 105)
		sim_fail(s,
		         "%s may cache for %ld ms more, and owes an acknowledgement since %ld ms",
		         net_who(c), (long)(left / MS), (long)((now - c->notices[0].sent) / MS));
}

static void
run_stall(struct sim *s, struct event *e)
{
	stall(net_conn(s, e->a), (int64_t)e->b);
}

/* Behind this answer the connection stands still until the leave is over, and no longer than its
 * client waits. */
static void
let_lapse(struct sim *s, struct conn *c, const struct msg_keepalive_reply *m)
{
	const int64_t left = (int64_t)(m->cache_ms - m->held_ms) * MS;
	const int64_t until = s->now + left + (int64_t)rng_below(&s->cached.rng, SECOND / 2);

	if (s->calm || m->cache_ms == 0 || 2 * m->cache_ms > m->lease_ms ||
	    !rng_chance(&s->cached.rng, s->swarm.rates[FAULT_LEAVE_LAPSES]))
		return;
	fault(s, FAULT_LEAVE_LAPSES, "the leave of %s to cache lapses", net_who(c));
	ambush_lapse(s, &s->machines[c->machine], until);
	heap_push(&s->heap,
	          (struct event){.at = s->now, .run = run_stall, .a = c->id, .b = (uint64_t)until});
}

/* An answer that comes late leaves its client in jeopardy before the next one is missed. */
static void
shorten_lease(struct sim *s, struct conn *c, const struct msg_keepalive_reply *m)
{
	const int64_t third = (int64_t)(m->lease_ms - m->held_ms) * MS / 3;
	const int64_t over = c->keepalive_sent + m->lease_ms * MS;
	int64_t late = 2 * third - (s->now - c->keepalive_sent), jeopardy;

	c->lease_over = 0;
	if (s->calm || m->cache_ms == 0 || late <= third ||
	    !rng_chance(&s->cached.rng, s->swarm.rates[FAULT_REPLY_LATE]))
		return;
	late -= (int64_t)rng_below(&s->cached.rng, (uint64_t)(late - third) / 2 + 1);
	jeopardy = s->now + late + 2 * third - over;
	if (jeopardy <= 0)
		return;
	c->lease_over = over + (int64_t)rng_below(&s->cached.rng, (uint64_t)jeopardy);
	stall(c, s->now + late);
}

/* What reaches a client then has to wait in it until it is safe. */
static void
outlast_lease(struct sim *s, struct conn *c)
{
	fault(s, FAULT_REPLY_LATE, "a reply reaches %s when its lease is over", net_who(c));
	stall(c, c->lease_over);
	c->lease_over = 0;
}

/* What reaches a client then was to be cached for another generation. */
static void
outlast_leave(struct sim *s, struct conn *c)
{
	const struct machine *m = &s->machines[c->machine];
	const int64_t leave = clock_global(&m->clock, client_status(m->client).leave_end);

	if (leave <= s->now || leave > s->now + 2 * SECOND)
		return;
	fault(s, FAULT_REPLY_LATE, "a reply reaches %s when its leave is over", net_who(c));
	stall(c, leave + (int64_t)rng_below(&s->cached.rng, SECOND / 2));
}

static void
reply_sent(struct sim *s, struct conn *c, const struct msg_reply *m)
{
	if (s->calm || m->leave == 0 || !s->machines[c->machine].up)
		return;
	if (c->lease_over != 0 && c->stalled_until <= s->now)
		outlast_lease(s, c);
	else if (rng_chance(&s->cached.rng, s->swarm.rates[FAULT_REPLY_LATE]))
		outlast_leave(s, c);
}

void
cached_sent(struct sim *s, struct conn *c, struct bytes frame)
{
	const unsigned code = wire_frame_code(frame);
	struct message m;

	if ((code != MSG_invalidation && code != MSG_keepalive_reply && code != MSG_reply) ||
	    c->machine >= MACHINES_MAX || wire_get_frame(frame, &m) != RC_OK)
		return;
	if (code == MSG_invalidation) {
		notice_sent(s, c, &m.invalidation);
	} else if (code == MSG_reply) {
		reply_sent(s, c, &m.reply);
	} else {
		check_leave(s, c, &m.keepalive_reply);
		let_lapse(s, c, &m.keepalive_reply);
		shorten_lease(s, c, &m.keepalive_reply);
	}
}

void
cached_asked(struct sim *s, struct conn *c, struct bytes frame)
{
	if (wire_frame_code(frame) == MSG_keepalive)
		c->keepalive_sent = s->now;
}

void
cached_acknowledged(struct conn *c, struct bytes frame)
{
	size_t n = 0;
	struct message m;

	if (wire_frame_code(frame) != MSG_dropped || wire_get_frame(frame, &m) != RC_OK)
		return;
	while (n < c->notices_n && c->notices[n].number <= m.dropped.upto)
		n++;
	if (n == 0 || m.dropped.generation != c->notices[0].generation)
		return;
	c->notices_n -= n;
	memmove(c->notices, c->notices + n, c->notices_n * sizeof *c->notices);
}

/* ---- the judgement ---- */

static void
check_machine(struct sim *s, struct machine *m, uint64_t node, const struct op *op)
{
	const mono_t now = clock_local(&m->clock, s->now);
	const struct kernel_copy *copy = copy_find(&m->kernel, node);

	if (client_caches(m->client, node, now))
		sim_fail(s, "%s changes node %lu, which client %d has cached",
		         wire_op(op->code)->name, (unsigned long)node, m->id + 1);
	if (copy != NULL && mono_before(now, copy->until))
		sim_fail(s, "%s changes node %lu, which the kernel of client %d has cached",
		         wire_op(op->code)->name, (unsigned long)node, m->id + 1);
}

/* An ACL file is another one than before. */
static bool
changes_rights(const struct sim *s)
{
	const struct model *m = &s->model;

	for (size_t at = 0; at < m->changed.n; at++)
		for (size_t i = 0; i < m->acl_files_n; i++)
			if (m->acl_files[i]->node == m->changed.keys[at])
				return true;
	return false;
}

/* The rights of everything change: nothing is cached. */
static void
check_all_dropped(struct sim *s, const struct machine *m, const struct op *op)
{
	const mono_t now = clock_local(&m->clock, s->now);

	for (size_t i = 0; i < s->model.items_n; i++)
		if (client_caches(m->client, s->model.items[i]->node, now))
			sim_fail(s, "%s changes rights, and client %d has cached node %lu",
			         wire_op(op->code)->name, m->id + 1,
			         (unsigned long)s->model.items[i]->node);
}

void
cached_check(struct sim *s, const struct op *op)
{
	const struct footprint *changed = &s->model.changed;

	for (int i = 0; i < s->machines_n && sim_leases_hold(s); i++) {
		struct machine *m = &s->machines[i];

		for (size_t at = 0; at < changed->n && m->up && !m->closing; at++)
			if (!machine_is_destroyed(m))
				check_machine(s, m, changed->keys[at], op);
		if (m->up && !m->closing && !machine_is_destroyed(m) && changes_rights(s))
			check_all_dropped(s, m, op);
	}
	s->model.changed.n = 0;
}
