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
	NOBODY = 200,     /* an id that is never given */
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

/* ---- in words ---- */

static const char *
wish_text(const struct wish *w)
{
	static char text[80];

	if (w->what == OPERATION_ADD_REPLICA)
		snprintf(text, sizeof text, "add a replica at host%u", w->body);
	else if (w->what == OPERATION_REMOVE_REPLICA)
		snprintf(text, sizeof text, "remove replica %u", w->id);
	else if (w->what == OPERATION_SET)
		snprintf(text, sizeof text, "set %s to %lu", setting_info(w->set.setting)->name,
		         (unsigned long)w->set.value);
	else if (w->id == 0)
		snprintf(text, sizeof text, "hand the mastership over");
	else
		snprintf(text, sizeof text, "hand the mastership over to replica %u", w->id);
	return text;
}

/* ---- wishes ---- */

bool
operators_doom(const struct sim *s, uint8_t id)
{
	for (int i = 0; i < s->swarm.operators; i++) {
		const struct wish *w = &s->operators[i].wish;

		if (w->what == OPERATION_REMOVE_REPLICA && w->id == id && !w->foolish)
			return true;
	}
	return false;
}

static bool
may_add(const struct sim *s)
{
	int members = members_count(s, MEMBER_VOTER) + members_count(s, MEMBER_LEARNER);

	for (int i = 0; i < s->swarm.operators; i++)
		members += s->operators[i].wish.what == OPERATION_ADD_REPLICA;
	return members < LIMIT_REPLICAS && s->bodies < HOSTS_MAX;
}

static struct wish
wish_add(struct sim *s)
{
	if (!may_add(s))
		return (struct wish){0};
	return (struct wish){.what = OPERATION_ADD_REPLICA, .body = ++s->bodies};
}

static bool
may_remove(const struct sim *s, const struct host *n)
{
	enum member_role role = members_role(s, n->id);

	return role != 0 && role != MEMBER_REMOVED && !operators_doom(s, (uint8_t)n->id) &&
	       !members_spare_vote(s, n);
}

static struct wish
wish_remove(const struct sim *s, const struct host *n)
{
	if (n == NULL || !may_remove(s, n))
		return (struct wish){0};
	return (struct wish){.what = OPERATION_REMOVE_REPLICA, .id = (uint8_t)n->id};
}

static struct wish
wish_transfer(struct sim *s)
{
	uint8_t id = rng_chance(&s->rng, 300) ? 0 : (uint8_t)sim_random_host(s)->id;

	if (members_count(s, MEMBER_VOTER) < 2)
		return (struct wish){0};
	return (struct wish){.what = OPERATION_TRANSFER, .id = id};
}

static struct wish
wish_setting(struct sim *s)
{
	return (struct wish){.what = OPERATION_SET, .set = setting_changes_draw(s)};
}

/* Another one is master; this one does not know it yet, and may be removed meanwhile. */
static struct host *
deposed_master(struct sim *s)
{
	const struct host *serving = sim_serving(s);

	for (int i = 0; i < s->hosts_n && serving != NULL; i++) {
		struct host *n = &s->hosts[i];

		if (n->up && n != serving && px_role(replica_px(n->replica)) == PX_MASTER)
			return n;
	}
	return NULL;
}

/* Its key belongs to one that was removed. */
static struct wish
wish_add_again(const struct sim *s, const struct host *n)
{
	if (n == NULL || members_role(s, n->id) != MEMBER_REMOVED)
		return (struct wish){0};
	return (struct wish){.what = OPERATION_ADD_REPLICA, .body = n->body, .foolish = true};
}

static struct wish
wish_nonsense(struct sim *s)
{
	if (rng_chance(&s->rng, 500))
		return (
		    struct wish){.what = OPERATION_REMOVE_REPLICA, .id = NOBODY, .foolish = true};
	return wish_add_again(s, sim_random_host(s));
}

/* Somebody whom nothing else can help. */
static struct host *
hopeless(struct sim *s)
{
	for (int id = 1; id <= s->hosts_n; id++) {
		struct host *n = &s->hosts[id - 1];
		enum member_role role = members_role(s, id);

		if ((role == MEMBER_VOTER || role == MEMBER_LEARNER) && n->body != 0 &&
		    (n->gone || host_is_lost(n) ||
		     (s->calm && host_runs(n) && !members_reaches(s, n))))
			return n;
	}
	return NULL;
}

static struct wish
draw(struct sim *s)
{
	struct host *master = deposed_master(s);
	uint64_t kind = rng_below(&s->rng, 100);
	int members = members_count(s, MEMBER_VOTER) + members_count(s, MEMBER_LEARNER);

	if (master != NULL)
		return members_role(s, master->id) == MEMBER_REMOVED ? wish_add_again(s, master)
		                                                     : wish_remove(s, master);
	if (rng_chance(&s->rng, s->swarm.settings))
		return wish_setting(s);
	if (kind < (members < 3 ? 60u : members < 5 ? 40u : 25u))
		return wish_add(s);
	if (kind < 50)
		return wish_remove(s, hopeless(s));
	if (kind < 60)
		return wish_remove(s, sim_serving(s));
	if (kind < 80)
		return wish_remove(s, sim_random_host(s));
	return kind < 95 ? wish_transfer(s) : wish_nonsense(s);
}

/* In the calm part only what is broken is mended, and what was removed for that is replaced. */
static struct wish
draw_calm(struct sim *s, struct operator* o)
{
	struct wish none = {0};

	if (o->id != 0)
		return none;
	if (members_count(s, MEMBER_VOTER) < 3 && hopeless(s) != NULL && may_add(s) &&
	    members_count(s, MEMBER_LEARNER) == 0)
		return wish_add(s);
	return wish_remove(s, hopeless(s));
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

static void
over(struct sim *s, struct operator* o)
{
	int64_t pause =
	    s->calm ? HEALTH_MS * MS : sim_between(s, 0, 2 * s->swarm.operators_think_ms * MS);

	if (!s->calm && deposed_master(s) != NULL)
		pause = 0;
	o->wish = (struct wish){0};
	o->failures = 0;
	hang_up(s, o, pause);
}

/* Nothing better can be expected: the cell is full; the new replica was added when nobody heard
 * the answer, and removed again; nobody else may take the mastership. */
static bool
is_right(const struct sim *s, const struct wish *w)
{
	const struct members *m = &s->members;

	if (w->foolish || w->what == OPERATION_TRANSFER || w->what == OPERATION_SET)
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
	    .operate = {.what = (uint8_t)o->wish.what, .id = o->wish.id},
	};

	if (o->wish.what == OPERATION_ADD_REPLICA) {
		m.operate.id = 0;
		m.operate.address = new.address;
		m.operate.key = new.key;
	} else if (o->wish.what == OPERATION_SET) {
		m.operate.setting = bytes_of(setting_info(o->wish.set.setting)->name);
		m.operate.value = o->wish.set.value;
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
	if (o->node < 0 && o->wish.foolish && deposed_master(s) != NULL)
		o->node = deposed_master(s)->id - 1;
	if (o->node < 0)
		o->node = any_member(s, o);
	o->conn = net_connect(s, MACHINES_MAX + o->id, o->node, false);
	wake(s, o, PATIENCE_MS * MS);
}

/* A calm cell finds its master before anything is asked of it that was not begun. */
static bool
may_begin(const struct sim *s)
{
	return !s->calm || s->now > s->swarm.chaos_ms * MS + GRACE_S * SECOND;
}

static void
begin(struct sim *s, struct operator* o)
{
	if (may_begin(s))
		o->wish = s->calm ? draw_calm(s, o) : draw(s);
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
	if ((n = hopeless(s)) != NULL) {
		snprintf(text, sizeof text, "replica %d is to be replaced", n->id);
		return text;
	}
	if (members_count(s, MEMBER_LEARNER) > 0)
		return "a learner is to get a vote";
	return may_begin(s) ? NULL : "the cell is left alone";
}

/* What was said to be done is done, and what was said not to be is not. */
void
operators_check_end(struct sim *s)
{
	const struct members *m = &s->members;

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
