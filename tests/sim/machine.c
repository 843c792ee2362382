/* Drives one client, as the mount's driver does, and notes what its processes believe to hold. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/sim/sim.h"

void
machine_init(struct sim *s, struct machine *m, int id)
{
	m->id = id;
	m->clock.offset = clock_draw_start(&s->rng);
	m->clock.ppm = clock_draw_rate(&s->rng, s->swarm.clocks);
}

/* ---- updates ---- */

static void
connect(struct sim *s, struct machine *m, uint64_t *conn, uint8_t replica, bool aside)
{
	if (*conn != 0)
		net_client_drops(s, *conn);
	*conn = 0;
	if (replica == 0)
		return;
	must(replica <= HOSTS_MAX);
	/* In the step in which it leaves for another replica it may have chosen that one before. */
	if (aside && m->conn != 0 && !m->update.connect &&
	    s->net.conns[m->conn - 1]->node == replica - 1)
		sim_fail(s, "client %d listens to replica %d, to which it is connected", m->id + 1,
		         replica);
	*conn = net_connect(s, m->id, replica - 1, aside, guest_is(s, m) ? SEAT_GUEST : SEAT_ADMIN);
	sim_trace(s, "client %d %s replica %d", m->id + 1, aside ? "listens to" : "connects to",
	          replica);
}

static void
send_frames(struct sim *s, struct machine *m)
{
	struct bytes rest = buffer_view(&m->update.frames);

	while (rest.len > 0) {
		struct bytes frame = {rest.data, (size_t)wire_frame_length(rest)};
		struct buffer instead = BUFFER(LIMIT_FRAME);
		struct message message;

		must(frame.len > 0 && frame.len <= rest.len && m->conn != 0);
		must(wire_get_frame(frame, &message) == RC_OK);
		if (message.code == MSG_request)
			history_sent(s, m->id, &message.request);
		if (guest_lies(s, m, &message, &instead))
			net_to_node(s, m->conn, buffer_view(&instead));
		else
			net_to_node(s, m->conn, frame);
		buffer_free(&instead);
		rest.data += frame.len;
		rest.len -= frame.len;
	}
}

static void
on_answer(struct sim *s, struct machine *m, const struct client_answer *a)
{
	struct record *r;

	if ((a->rc == RC_OK || a->rc == RC_QUEUED) && !machine_leased(s, m) &&
	    !machine_has_parted(s, m))
		sim_fail(s, "client %d is told success, and its lease is over", m->id + 1);
	history_answered(s, a);
	r = s->history.records[a->token - 1];
	trace_answered(s, r);
	cached_answered(s, m, r);
	watches_answered(s, m, a);
	if (r->op.code == OP_acquire && r->rc == RC_OK && !r->given_up) {
		const struct acquire *q = &r->op.acquire.acquire;

		machine_add_hold(s, m,
		                 (struct hold){q->node, q->owner, q->acquisition,
		                               (enum lock_mode)q->mode, 0});
	}
	if (r->op.code == OP_acquire && r->rc == RC_QUEUED)
		watches_waits(s, r);
	if (r->process == PROCESS_SCRIPT)
		s->script->answered(s->script->user, r);
	else if (r->process == PROCESS_MOUNT)
		mounts_answered(s, m, r, a);
	else if (r->process != PROCESS_OPERATOR)
		work_answered(s, m, r);
}

static struct record *
waiting_record(struct sim *s, const struct machine *m, const struct client_grant *g)
{
	for (size_t i = 0; i < s->history.acquires_n; i++) {
		struct record *r = s->history.acquires[i];
		const struct acquire *a = &r->op.acquire.acquire;

		if (machine_made(m, r) && !r->own && a->node == g->node &&
		    a->acquisition == g->acquisition)
			return r;
	}
	return NULL;
}

static void
on_grant(struct sim *s, struct machine *m, const struct client_grant *g)
{
	struct record *r = waiting_record(s, m, g);

	sim_trace(s, "client %d is told that the lock of %s came to acquisition %lu: %s", m->id + 1,
	          trace_path(s, g->node), (unsigned long)g->acquisition,
	          g->rc == RC_OK ? "ok" : rc_name(g->rc));
	if (unlocks_told(s, m, g))
		return;
	if (r == NULL || r->rc != RC_QUEUED)
		sim_fail(s, "client %d is granted what it does not wait for", m->id + 1);
	if (g->rc == RC_QUEUED) { /* its process has not believed in what it converts any more */
		if (m->mount != NULL)
			mounts_event(s, m, (struct mount_event){.kind = MOUNT_GRANT, .grant = g});
		return;
	}
	r->waiting = false;
	if (g->rc == RC_OK) {
		if (r->want.lock_generation != g->lock_generation)
			sim_fail(s, "client %d is told lock generation %lu, and has %lu", m->id + 1,
			         (unsigned long)g->lock_generation,
			         (unsigned long)r->want.lock_generation);
		if (r->want.fence != g->fence)
			sim_fail(s, "client %d is told fencing token %lu, and has %lu", m->id + 1,
			         (unsigned long)g->fence, (unsigned long)r->want.fence);
		judgement_locked(s, r, g->lock_generation, g->fence);
		machine_add_hold(s, m,
		                 (struct hold){g->node, r->op.acquire.acquire.owner, g->acquisition,
		                               (enum lock_mode)r->op.acquire.acquire.mode, 0});
	}
	if (s->script != NULL)
		s->script->granted(s->script->user, m->id, g);
	else if (m->mount != NULL)
		mounts_event(s, m, (struct mount_event){.kind = MOUNT_GRANT, .grant = g});
	else
		work_granted(s, m, g);
}

static void
run_restart(struct sim *s, struct event *e)
{
	struct machine *m = &s->machines[e->who];

	if (!m->up && m->life == e->life)
		machine_start(s, m, e->a);
}

static void
down(struct sim *s, struct machine *m, uint64_t earlier)
{
	connect(s, m, &m->conn, 0, false);
	connect(s, m, &m->aside, 0, true);
	m->up = false;
	m->holds_n = 0;
	watches_clear(m);
	m->life++;
	if (m->lasting && model_alive(&s->model, m->session))
		m->left = m->session;
	mounts_stop(m);
	cached_forget(m);
	client_free(m->client);
	m->client = NULL;
	history_machine_died(s, m->id);
	if (s->script != NULL)
		return;
	heap_push(&s->heap, (struct event){.at = s->now + sim_between(s, 0, 3 * SECOND),
	                                   .run = run_restart,
	                                   .who = m->id,
	                                   .life = m->life,
	                                   .a = earlier});
}

static void
on_state(struct sim *s, struct machine *m)
{
	struct client_status status = client_status(m->client);
	static const char *const names[] = {"new", "safe", "jeopardy", "expired", "closed"};

	sim_trace(s, "client %d: its session %lu is %s", m->id + 1, (unsigned long)status.session,
	          names[status.state]);
	m->state = status.state;
	if (status.session != 0 && status.session != m->session) {
		m->session = status.session;
		memcpy(m->nonce, status.nonce, LIMIT_NONCE);
	}
	if (m->state == CLIENT_EXPIRED) {
		m->holds_n = 0;
		history_waits_over(s, m->session);
		if (m->mount == NULL && s->script == NULL)
			work_session_lost(s, m);
	}
	if (s->script != NULL)
		s->script->state(s->script->user, m->id);
	for (size_t i = 0; i < m->holds_n && m->state == CLIENT_SAFE; i++)
		machine_check_exclusion(s, m, &m->holds[i]);
}

static void
on_watched(struct sim *s, struct machine *m, const struct client_watched *w)
{
	if (s->script != NULL)
		s->script->watched(s->script->user, m->id, w);
	else
		watches_told(s, m, w);
	if (m->mount == NULL)
		return;
	event_readers_told(m, w);
	mounts_event(s, m, (struct mount_event){.kind = MOUNT_WATCHED, .watched = w});
}

static void run_timer(struct sim *s, struct event *e);

static void
schedule(struct sim *s, struct machine *m)
{
	mono_t mount = m->mount != NULL ? mount_deadline(m->mount) : MONO_NEVER;
	int64_t at = clock_global(&m->clock, mono_min(client_deadline(m->client), mount));

	if (at == INT64_MAX || (m->timer_at != 0 && m->timer_at <= at && m->timer_at >= s->now))
		return;
	m->timer_at = at > s->now ? at : s->now;
	heap_push(&s->heap, (struct event){.at = m->timer_at,
	                                   .run = run_timer,
	                                   .who = m->id,
	                                   .life = m->life,
	                                   .a = ++m->timers});
}

/* As fs/engine.c does: the mount follows the session before it receives the answers. */
static void
carry_out(struct sim *s, struct machine *m)
{
	struct client_update *u = &m->update;

	if (u->connect)
		connect(s, m, &m->conn, u->replica, false);
	if (u->listen)
		connect(s, m, &m->aside, u->listen_to, true);
	for (size_t i = 0; i < u->answers_n; i++)
		history_ending(s, &u->answers[i]);
	send_frames(s, m);
	if (u->datagram.len > 0)
		net_datagram_to_node(s, m->conn, buffer_view(&u->datagram));
	if ((u->state_changed || u->opened) && m->mount != NULL)
		mounts_event(s, m, (struct mount_event){.kind = MOUNT_SESSION});
	for (size_t i = 0; i < u->answers_n; i++)
		on_answer(s, m, &u->answers[i]);
	for (size_t i = 0; i < u->grants_n; i++)
		on_grant(s, m, &u->grants[i]);
	if (u->state_changed)
		on_state(s, m);
	for (size_t i = 0; i < u->watched_n; i++)
		on_watched(s, m, &u->watched[i]);
	if (m->state == CLIENT_CLOSED)
		down(s, m, 0);
	else
		schedule(s, m);
	if (m->up)
		mounts_flush(s, m);
}

void
machine_event(struct sim *s, struct machine *m, struct client_event event)
{
	must(m->up && m->paused_until <= s->now);
	event.now = clock_local(&m->clock, s->now);
	client_step(m->client, &event, &m->update);
	if (m->update.invalidation != 0 || m->update.invalid_n > 0)
		cached_invalidate(s, m, &m->update);
	carry_out(s, m);
	cached_carry_out(s, m);
}

static void
run_timer(struct sim *s, struct event *e)
{
	struct machine *m = &s->machines[e->who];

	if (!m->up || m->life != e->life || m->timers != e->a)
		return;
	if (m->paused_until > s->now) {
		heap_again(&s->heap, e, m->paused_until);
		return;
	}
	m->timer_at = 0;
	s->quiet.client_timers++;
	s->quiet.lapses +=
	    mono_reached(clock_local(&m->clock, s->now), client_status(m->client).leave_end);
	if (m->mount != NULL)
		mounts_event(s, m, (struct mount_event){.kind = MOUNT_TIMEOUT});
	machine_event(s, m, (struct client_event){.kind = CLIENT_TIMEOUT});
}

uint64_t
machine_request(struct sim *s, struct machine *m, int p, const struct op *op, bool ordered)
{
	const struct record *r = history_begin(s, m->id, p, op, ordered);
	uint64_t token = r->token;

	machine_submit(s, m, r);
	return token;
}

void
machine_submit(struct sim *s, struct machine *m, const struct record *r)
{
	const struct op *op = &r->op;
	const struct client_call call = {
	    .token = r->token,
	    .op = *op,
	    .ordered = r->ordered,
	    .guard = r->guard,
	    .user = r->user,
	    .opened = r->through,
	};

	trace_asked(s, r);
	if (op->code == OP_release) {
		machine_give_up(s, m, op->release.node, op->release.acquisition);
		ambush_release(s, m, op->release.node);
	}
	if (op->code == OP_make_ephemeral)
		ambush_mark(s, m, op->make_ephemeral.node);
	if (op->code == OP_cancel)
		machine_give_up(s, m, op->cancel.node, op->cancel.acquisition);
	if (op->code == OP_acquire)
		machine_weaken_hold(m, &op->acquire.acquire);
	machine_event(s, m,
	              (struct client_event){.kind = CLIENT_REQUEST,
	                                    .request = client_request_new(&call)});
}

/* ---- life ---- */

void
machine_start(struct sim *s, struct machine *m, uint64_t earlier)
{
	struct client_config config = {
	    .host = "machine",
	    .grace = span_ms(s->script == NULL && rng_chance(&s->rng, 500) ? s->swarm.grace_ms : 0),
	    .drift_permille = 10,
	    .seed = rng_next(&s->rng),
	    .earlier_session = earlier,
	    .caching = rng_chance(&s->rng, s->swarm.caching),
	    .cached = s->seed % 3 == 0 ? 2 + s->seed / 3 % 8 : 0,
	};

	must(!m->up);
	m->lasting = config.lasting = s->swarm.lasting > 0 && m->left == 0 &&
	                              rng_chance(&s->rng, s->swarm.lasting) && !guest_is(s, m);
	m->cell_file = *members_last(s);
	for (int i = 0; i < m->cell_file.n; i++)
		if (m->cell_file.list[i].role != MEMBER_REMOVED)
			config.replicas[config.replicas_n++] = m->cell_file.list[i].id;
	for (int i = 0; i < LIMIT_NONCE; i++)
		config.nonce[i] = (uint8_t)rng_next(&s->rng);
	memcpy(config.earlier_nonce, m->nonce, LIMIT_NONCE);
	m->up = true;
	m->closing = false;
	m->life++;
	m->session = 0;
	m->paused_until = m->timer_at = 0;
	m->state = CLIENT_NEW;
	sim_trace(s, "client %d starts", m->id + 1);
	m->config = config;
	m->client = client_new(&config, clock_local(&m->clock, s->now));
	if (s->swarm.mounts)
		mounts_start(s, m);
	schedule(s, m);
	if (s->script == NULL)
		work_start(s, m);
}

void
machine_crash(struct sim *s, struct machine *m)
{
	bool successor = rng_chance(&s->rng, s->swarm.successor);

	if (!m->up)
		return;
	down(s, m, successor ? m->session : 0);
}

static bool
is_member(const struct sim *s, int id)
{
	enum member_role role = members_role(s, id);

	return role == MEMBER_VOTER || role == MEMBER_LEARNER;
}

void
machine_check_conf(struct sim *s, struct machine *m)
{
	const struct client_members *told = m->up ? client_members(m->client) : NULL;
	bool any = false;

	if (!s->calm || told == NULL)
		return;
	for (int i = 0; i < told->n; i++)
		any = any || is_member(s, told->list[i].id);
	for (int i = 0; i < m->cell_file.n && told->n == 0; i++)
		any = any || is_member(s, m->cell_file.list[i].id);
	if (any)
		return;
	sim_trace(s, "client %d knows no replica that is left, and is started anew", m->id + 1);
	machine_crash(s, m);
}

void
machine_close(struct sim *s, struct machine *m)
{
	if (!m->up || m->closing || m->paused_until > s->now)
		return;
	fault(s, FAULT_CLIENT_CLOSES, "client %d closes its session", m->id + 1);
	m->closing = true;
	watches_clear(m);
	m->holds_n = 0;
	history_waits_over(s, m->session);
	machine_event(s, m,
	              (struct client_event){.kind = CLIENT_CLOSE,
	                                    .as_expired = m->mount != NULL &&
	                                                  mount_has_file_locks(m->mount)});
}

void
machine_pause(struct sim *s, struct machine *m, int64_t until)
{
	if (!m->up || m->paused_until > s->now)
		return;
	m->paused_until = until;
	fault(s, FAULT_CLIENT_PAUSES, "client %d pauses for %.3f s", m->id + 1,
	      (double)(until - s->now) / 1e9);
}

void
machine_clock_changed(struct sim *s, struct machine *m)
{
	m->timer_at = 0;
	if (m->up)
		schedule(s, m);
}

void
machine_calm_down(struct sim *s, struct machine *m)
{
	if (s->swarm.clocks != CLOCKS_WILD)
		return;
	clock_set_rate(&m->clock, s->now, clock_draw_rate(&s->rng, CLOCKS_DRIFT));
	machine_clock_changed(s, m);
}

void
machine_free(struct machine *m)
{
	mounts_stop(m);
	cached_free(m);
	mount_update_free(&m->mount_update);
	client_free(m->client);
	client_update_free(&m->update);
	free(m->holds);
	free(m->asking);
	free(m->wanted);
	free(m->watched);
}
