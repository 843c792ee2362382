/* Those who run the cell: they add replicas, remove them, alive or dead, the master too, hand the
 * mastership over, and change settings, as lsctl does. An operator asks one replica after the other
 * until the master answers, and asks again when the answer was lost. Where faults have left a
 * member that nothing can help, it is replaced in the calm part: removed, and another one added.
 * There every wish has to come true. */
#include <stdio.h>
#include <string.h>
#include "cell/base/must.h"
#include "tests/sim/sim.h"

enum {
	PATIENCE_MS = 3000, /* for an answer */
	PAUSE_MS = 300,     /* before the next replica is asked */
	BUSY_MS = 100,
	REFUSED_MS = 1000,
	LOST_AFTER = 20,  /* failures until somebody tells where the cell is now */
	HEALTH_MS = 1000, /* in the calm part: how often the members are looked at */
	GRACE_S = 8,      /* a calm cell is left alone until it has a master */
};

static struct operator* operator_of(struct sim *s, int i)
{
	must(i >= 0 && i < s->swarm.operators);
	return &s->operators[i];
}

static void run_wake(struct sim *s, struct event *e);

static void
wake(struct sim *s, struct operator* o, int64_t in)
{
	heap_push(&s->heap, (struct event){.at = s->now + in,
	                                   .run = run_wake,
	                                   .who = o->id,
	                                   .a = ++o->wakes});
}

/* ---- the new replica ---- */

/* In its cell file stand the members that the operator has heard of, and itself, without a vote. */
static struct seats
file_of(const struct operator* o, uint8_t id, uint8_t body)
{
	struct seats file = {.version = o->known.version};

	for (int i = 0; i < o->known.n && file.n < LIMIT_REPLICAS - 1; i++)
		if (o->known.list[i].role != MEMBER_REMOVED && o->known.list[i].id != id)
			file.list[file.n++] = o->known.list[i];
	file.list[file.n++] = (struct seat){id, MEMBER_LEARNER, body};
	return file;
}

static void
run_create(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];

	sim_trace(s, "replica %d is started for the first time", n->id);
	host_start(s, n);
}

static void
create(struct sim *s, struct operator* o, uint64_t id)
{
	struct seats file = file_of(o, (uint8_t)id, o->wish.body);
	struct host *n;

	if (id == 0 || id > HOSTS_MAX)
		sim_fail(s, "the new replica gets the id %lu", (unsigned long)id);
	n = &s->hosts[id - 1];
	if (n->body != 0)
		sim_fail(s, "the new replica gets the id %lu, which was given before",
		         (unsigned long)id);
	host_create(s, n, o->wish.body, &file);
	signing_keys_name(s, n);
	s->hosts_n = n->id > s->hosts_n ? n->id : s->hosts_n;
	heap_push(&s->heap,
	          (struct event){.at = s->now + sim_between(s, 0, s->calm ? SECOND : 3 * SECOND),
	                         .run = run_create,
	                         .who = n->id - 1});
}

/* ---- answers ---- */

static void
hang_up(struct sim *s, struct operator* o, int64_t again_in)
{
	uint64_t conn = o->conn;

	o->conn = 0;
	if (conn != 0)
		net_client_drops(s, conn);
	wake(s, o, again_in);
}

/* A deposed master is asked before it knows; one that has refused is not asked again at once. */
static void
over(struct sim *s, struct operator* o)
{
	int64_t pause =
	    s->calm ? HEALTH_MS * MS : sim_between(s, 0, 2 * s->swarm.operators_think_ms * MS);

	if (!s->calm && wish_deposed_master(s) != NULL)
		pause = o->wish.foolish ? BUSY_MS * MS : 0;
	o->wish = (struct wish){0};
	o->failures = 0;
	hang_up(s, o, pause);
}

/* It is over, whether it was ended now or before. */
static void
session_ended(struct sim *s, const struct operator* o, uint64_t session)
{
	if (model_alive(&s->model, session)) {
		if (sim_leases_hold(s))
			sim_fail(s, "operator %d is told that session %lu has ended", o->id + 1,
			         (unsigned long)session);
		return;
	}
	for (int i = 0; i < s->machines_n; i++)
		if (s->machines[i].left == session)
			s->machines[i].left = 0;
}

/* Nothing better can be expected: the cell is full; the new replica was added when nobody heard
 * the answer, and removed again; nobody else may take the mastership. */
static bool
is_right(const struct sim *s, const struct wish *w)
{
	const struct members *m = &s->members;

	if (w->foolish || w->what == OPERATION_TRANSFER || w->what == OPERATION_SET ||
	    w->what == OPERATION_DESTROY_SESSION || w->what == OPERATION_ROTATE_KEY ||
	    w->what == OPERATION_REMOVE_PRINCIPAL || w->what == OPERATION_UNLOCK)
		return true;
	if (w->what != OPERATION_ADD_REPLICA)
		return false;
	for (int id = 1; id <= HOSTS_MAX; id++)
		if (m->bodies[id] == w->body)
			return members_role(s, id) == MEMBER_REMOVED;
	return members_count(s, MEMBER_VOTER) + members_count(s, MEMBER_LEARNER) == LIMIT_REPLICAS;
}

/* It can take effect no more when each time that it was asked was answered. */
static void
refused(struct sim *s, struct operator* o, const struct msg_operated *m)
{
	const struct wish *w = &o->wish;

	snprintf(o->why, sizeof o->why, "%.*s (%s)", (int)m->why.len, (const char *)m->why.data,
	         rc_name(m->rc));
	if (!is_right(s, w) && (s->calm || w->unanswered > 0)) {
		hang_up(s, o, REFUSED_MS * MS);
		return;
	}
	if (w->what == OPERATION_DESTROY_SESSION)
		session_ended(s, o, w->session);
	if (w->what == OPERATION_ADD_REPLICA && !w->foolish && w->unanswered == 0)
		s->members.refused[w->body] = true;
	over(s, o);
}

/* Of leases that prove nothing a deposed master may answer, by a list that has the replica. */
static void
check_foolish(struct sim *s, const struct operator* o)
{
	if (o->wish.what != OPERATION_ADD_REPLICA || sim_leases_hold(s))
		sim_fail(s, "operator %d is told success, and wanted to %s", o->id + 1,
		         wish_text(&o->wish));
}

static void
done(struct sim *s, struct operator* o, const struct msg_operated *m)
{
	const struct wish *w = &o->wish;

	if (w->foolish) {
		check_foolish(s, o);
	} else if (w->what == OPERATION_ADD_REPLICA) {
		s->members.added[w->body] = (uint8_t)m->id;
		create(s, o, m->id);
	} else if (w->what == OPERATION_REMOVE_REPLICA) {
		s->members.removed[w->id] = true;
	} else if (w->what == OPERATION_DESTROY_SESSION) {
		session_ended(s, o, w->session);
	} else if (w->what == OPERATION_UNLOCK) {
		unlocks_check(s, w->node, w->session, w->seen);
	} else if (w->what == OPERATION_ROTATE_KEY && s->model.keys.at < w->since) {
		sim_fail(s, "operator %d is told of a new signing key, and there is none",
		         o->id + 1);
	} else if (w->what == OPERATION_SET && sim_leases_hold(s) &&
	           !setting_changes_had(s, &w->set, w->since)) {
		sim_fail(s, "operator %d is told success, and wanted to %s", o->id + 1,
		         wish_text(w));
	}
	s->handed_over = s->now;
	over(s, o);
}

static void
answered(struct sim *s, struct operator* o, const struct msg_operated *m)
{
	sim_trace(s, "operator %d is told about \"%s\": %s%s%.*s", o->id + 1, wish_text(&o->wish),
	          m->rc == RC_OK ? "ok" : rc_name(m->rc), m->why.len > 0 ? ": " : "",
	          (int)m->why.len, (const char *)m->why.data);
	o->failures = 0;
	o->wish.unanswered--;
	if (m->rc == RC_OK)
		done(s, o, m);
	else if (m->rc == RC_BUSY)
		hang_up(s, o, BUSY_MS * MS);
	else
		refused(s, o, m);
}

static void
heard(struct sim *s, struct operator* o, const struct message *m)
{
	switch (m->code) {
	case MSG_members:
		if (m->members.members.count > 0 && m->members.version >= o->known.version)
			seats_of_list(&o->known, m->members.version, m->members.members);
		return;
	case MSG_redirect:
		if (m->redirect.master == o->node + 1)
			return; /* it answers soon */
		o->node = m->redirect.master > 0 && m->redirect.master <= HOSTS_MAX
		              ? m->redirect.master - 1
		              : -1;
		o->failures++;
		hang_up(s, o, o->node < 0 ? PAUSE_MS * MS : 0);
		return;
	case MSG_operated:
		answered(s, o, &m->operated);
		return;
	default:
		return;
	}
}

/* ---- asking ---- */

static void
ask(struct sim *s, struct operator* o)
{
	struct member new = seat_member((struct seat){.body = o->wish.body});
	struct buffer frame = BUFFER(LIMIT_FRAME);
	struct message m = {
	    .code = MSG_operate,
	    .operate = {.what = (uint8_t)o->wish.what,
	                .id = o->wish.id,
	                .seen = o->wish.seen,
	                .behind = o->wish.behind},
	};

	if (o->wish.behind == 0)
		o->wish.behind = s->model.applied;

	if (o->wish.what == OPERATION_ADD_REPLICA) {
		m.operate.id = 0;
		m.operate.address = new.address;
		m.operate.key = new.key;
	} else if (o->wish.what == OPERATION_DESTROY_SESSION) {
		m.operate.id = o->wish.session;
		history_waits_over(s, o->wish.session);
		machine_session_destroyed(s, o->wish.session);
	} else if (o->wish.what == OPERATION_UNLOCK) {
		m.operate.id = o->wish.session;
		m.operate.value = o->wish.node;
		m.operate.keep_delay = o->wish.keep_delay;
	} else if (o->wish.what == OPERATION_SET) {
		m.operate.name = bytes_of(setting_info(o->wish.set.setting)->name);
		m.operate.value = o->wish.set.value;
	} else if (o->wish.what == OPERATION_ADD_PRINCIPAL ||
	           o->wish.what == OPERATION_REMOVE_PRINCIPAL) {
		m.operate.name = bytes_of(GUEST);
		m.operate.key = (struct bytes){seat_key(SEAT_GUEST), NOISE_KEY};
	}
	sim_trace(s, "operator %d asks replica %d: %s", o->id + 1, o->node + 1,
	          wish_text(&o->wish));
	o->wish.unanswered++;
	s->handed_over = s->now;
	wire_put_frame(&frame, &m);
	net_to_node(s, o->conn, buffer_view(&frame));
	buffer_free(&frame);
	wake(s, o, PATIENCE_MS * MS);
}

void
operators_event(struct sim *s, int operator, enum client_event_kind kind, struct bytes frame)
{
	struct operator* o = operator_of(s, operator);
	struct message m;

	if (kind == CLIENT_CONNECTED) {
		ask(s, o);
	} else if (kind == CLIENT_FRAME) {
		must(wire_get_frame(frame, &m) == RC_OK);
		heard(s, o, &m);
	} else {
		o->node = -1;
		o->failures++;
		hang_up(s, o, PAUSE_MS * MS);
	}
}

static int
any_member(struct sim *s, const struct operator* o)
{
	const struct seats *known = &o->known;
	uint64_t turn = rng_below(&s->rng, (uint64_t)known->n);

	for (int i = 0; i < known->n; i++) {
		const struct seat *seat = &known->list[(turn + (uint64_t)i) % (uint64_t)known->n];

		if (seat->role != MEMBER_REMOVED && seat->id <= HOSTS_MAX)
			return seat->id - 1;
	}
	return 0;
}

static void
connect(struct sim *s, struct operator* o)
{
	if (o->failures > LOST_AFTER) {
		o->known = *members_last(s);
		o->failures = 0;
	}
	if (o->node < 0 && o->wish.foolish && wish_deposed_master(s) != NULL)
		o->node = wish_deposed_master(s)->id - 1;
	if (o->node < 0)
		o->node = any_member(s, o);
	o->conn = net_connect(s, MACHINES_MAX + o->id, o->node, false, SEAT_ADMIN);
	wake(s, o, PATIENCE_MS * MS);
}

/* A calm cell finds its master before anything is asked of it that was not begun. */
static bool
may_begin(const struct sim *s)
{
	return !s->calm || s->now > s->swarm.chaos_ms * MS + GRACE_S * SECOND;
}

/* Others who are idle want the same, while the first key is being introduced or proposed. */
static void
others_rotate(struct sim *s, const struct operator* first)
{
	for (int i = 0; i < s->swarm.operators; i++) {
		struct operator* o = & s->operators[i];

		if (o == first || o->wish.what != 0 || !rng_chance(&s->rights.rng, 500))
			continue;
		o->wish = (struct wish){.what = OPERATION_ROTATE_KEY, .since = s->now};
		o->node = first->node;
		wake(s, o, (int64_t)rng_below(&s->rights.rng, 60) * MS);
	}
}

static void
begin(struct sim *s, struct operator* o)
{
	if (may_begin(s))
		o->wish = s->calm ? wish_draw_calm(s, o) : wish_draw(s);
	if (o->wish.what == 0) {
		wake(s, o,
		     s->calm ? HEALTH_MS * MS
		             : sim_between(s, 0, s->swarm.operators_think_ms * MS));
		return;
	}
	sim_trace(s, "operator %d wants to %s", o->id + 1, wish_text(&o->wish));
	o->wish.since = s->now;
	if ((o->wish.what == OPERATION_ADD_REPLICA || o->wish.what == OPERATION_REMOVE_REPLICA) &&
	    !o->wish.foolish)
		adversary_change(s);
	o->node = -1;
	connect(s, o);
	if (o->wish.what == OPERATION_ROTATE_KEY)
		others_rotate(s, o);
}

static void
run_wake(struct sim *s, struct event *e)
{
	struct operator* o = operator_of(s, e->who);

	if (o->wakes != e->a)
		return;
	if (o->conn != 0) {
		o->node = -1;
		o->failures++;
		hang_up(s, o, 0);
	} else if (o->wish.what != 0) {
		connect(s, o);
	} else {
		begin(s, o);
	}
}

/* ---- life ---- */

void
operators_start(struct sim *s)
{
	for (int i = 0; i < s->swarm.operators; i++) {
		struct operator* o = & s->operators[i];

		o->id = i;
		o->node = -1;
		o->known = s->hosts[0].disk.file;
		wake(s, o, sim_between(s, 0, s->swarm.operators_think_ms * MS));
	}
}

const char *
operators_wait_for(struct sim *s)
{
	static char text[100];
	const struct host *n;

	if (s->swarm.operators == 0)
		return NULL;
	for (int i = 0; i < s->swarm.operators; i++) {
		if (s->operators[i].wish.what == 0)
			continue;
		snprintf(text, sizeof text, "operator %d wants to %s", i + 1,
		         wish_text(&s->operators[i].wish));
		return text;
	}
	for (int id = 1; id <= s->hosts_n; id++)
		if (s->hosts[id - 1].body != 0 && s->hosts[id - 1].life == 0)
			return "a replica is to be started";
	if ((n = wish_hopeless(s)) != NULL) {
		snprintf(text, sizeof text, "replica %d is to be replaced", n->id);
		return text;
	}
	if (wish_left(s).what != 0)
		return "a session of a client that died is to be ended";
	if (guest_waits_for(s) != NULL)
		return guest_waits_for(s);
	if (members_count(s, MEMBER_LEARNER) > 0)
		return "a learner is to get a vote";
	return may_begin(s) ? NULL : "the cell is left alone";
}

/* What was said to be done is done, and what was said not to be is not. */
void
operators_check_end(struct sim *s)
{
	const struct members *m = &s->members;

	signing_keys_check_end(s);
	for (int i = 0; i < s->swarm.operators; i++)
		if (s->operators[i].wish.what != 0)
			sim_fail(s, "at the end operator %d still wants to %s; refused last: %s",
			         i + 1, wish_text(&s->operators[i].wish), s->operators[i].why);
	for (int body = 1; body <= s->bodies; body++) {
		int id = 1;

		while (id <= HOSTS_MAX && m->bodies[id] != body)
			id++;
		if (m->added[body] != 0 && m->added[body] != id)
			sim_fail(s, "an operator was told of replica %u, which is none",
			         m->added[body]);
		if (m->refused[body] && id <= HOSTS_MAX)
			sim_fail(s, "replica %d was refused, and was added", id);
	}
	for (int id = 1; id <= HOSTS_MAX; id++)
		if (m->removed[id] && members_role(s, id) != MEMBER_REMOVED)
			sim_fail(s, "an operator was told that replica %d is removed", id);
}
