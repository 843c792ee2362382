/* The turns of a replica's server: it is handed what comes, when it has time for it. */
#include "tests/sim/sim.h"

/* Whom it lets in, and connects to. */
static void
follow_members(struct host *n)
{
	struct msg_members told = replica_members(n->replica);
	struct seats seats;

	if (told.version == n->gate.version)
		return;
	seats_of_list(&seats, told.version, told.members);
	gate_set(n, &seats);
}

bool
host_knows(const struct host *n, uint8_t body)
{
	const struct msg_members m = n->up ? replica_members(n->replica) : (struct msg_members){0};
	struct seats seats;

	seats_of_list(&seats, m.version, m.members);
	for (int i = 0; i < seats.n; i++)
		if (seats.list[i].body == body && seats.list[i].role != MEMBER_REMOVED)
			return true;
	return false;
}

int
host_with_body(const struct sim *s, uint8_t body)
{
	for (int i = 0; i < s->hosts_n; i++)
		if (s->hosts[i].body == body && body != 0)
			return i + 1;
	return 0;
}

static void
look(struct sim *s, struct host *n)
{
	host_check(s, n);
	follow_members(n);
}

int64_t
host_busy_until(const struct sim *s, const struct host *n)
{
	if (!n->up || (n->paused_until <= s->now && n->busy_until <= s->now))
		return s->now;
	return n->paused_until > n->busy_until ? n->paused_until : n->busy_until;
}

int64_t
host_departure(const struct sim *s, const struct host *n)
{
	return (n->busy_until > s->now ? n->busy_until : s->now) + n->spent;
}

bool
host_puts_off(struct sim *s, const struct host *n, struct event *e)
{
	struct event again = *e;

	again.at = host_busy_until(s, n);
	if (again.at <= s->now)
		return false;
	e->data = (struct bytes){0};
	heap_push(&s->heap, again);
	return true;
}

static void run_timer(struct sim *s, struct event *e);
static void run_turn(struct sim *s, struct event *e);

static void
turn_at(struct sim *s, struct host *n, int64_t at)
{
	if (n->turn_waits)
		return;
	n->turn_waits = true;
	heap_push(&s->heap,
	          (struct event){.at = at, .run = run_turn, .who = n->id - 1, .life = n->life});
}

void
host_schedule(struct sim *s, struct host *n)
{
	const mono_t deadline = server_deadline(n->server);
	int64_t at;

	if (deadline.ns == 0) {
		turn_at(s, n, n->busy_until > s->now ? n->busy_until : s->now);
		return;
	}
	at = clock_global(&n->clock, deadline);
	if (at == INT64_MAX || (n->timer_at != 0 && n->timer_at <= at))
		return;
	n->timer_at = at > s->now ? at : s->now;
	heap_push(&s->heap, (struct event){.at = n->timer_at,
	                                   .run = run_timer,
	                                   .who = n->id - 1,
	                                   .life = n->life,
	                                   .a = ++n->timers});
}

/* What a server can do it does, or asks for a turn, and what is due it has said: until its deadline
 * one more turn finds nothing to do. */
static void
check_rest(struct sim *s, struct host *n)
{
	const mono_t deadline = server_deadline(n->server);
	const struct server_io io = host_io(n);
	const uint64_t deeds = n->deeds;

	if (deadline.ns == 0)
		return;
	if (!mono_reached(clock_io_now(&io.clock), deadline))
		server_timeout(n->server);
	if (server_turn(n->server) != SERVER_GOES_ON || n->deeds != deeds)
		sim_fail(s, "replica %d had something to do, and asked for no turn", n->id);
}

static void
turn(struct sim *s, struct host *n)
{
	enum server_verdict verdict;

	s->quiet.turns++;
	verdict = server_turn(n->server);
	look(s, n);
	if (verdict == SERVER_GOES_ON)
		check_rest(s, n);
	n->busy_until = s->now + n->spent;
	n->spent = 0;
	n->requests_from = -1;
	host_obey(s, n, verdict);
	if (n->up)
		host_schedule(s, n);
}

static void
run_turn(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];

	if (!n->up || n->life != e->life || host_puts_off(s, n, e))
		return;
	n->turn_waits = false;
	turn(s, n);
}

void
host_wake(struct sim *s, struct host *n)
{
	turn_at(s, n, s->now);
}

/* While its turn takes time, what comes meanwhile waits for the next one. */
void
host_settle(struct sim *s, struct host *n)
{
	if (s->swarm.cost_ns == 0) {
		turn(s, n);
		return;
	}
	look(s, n);
	turn_at(s, n, s->now);
}

/* What arrived while the process was paused is read before its timers are looked at. While messages
 * take time, and more of them wait, the timer then has its turn among these. */
static void
run_timer(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];

	if (!n->up || n->life != e->life || n->timers != e->a)
		return;
	if (host_busy_until(s, n) > s->now) {
		struct event again = *e;

		again.at = host_busy_until(s, n) + (again.b == 0);
		again.b = 1; /* it was put off */
		heap_push(&s->heap, again);
		return;
	}
	n->timer_at = 0;
	s->quiet.server_timers++;
	server_timeout(n->server);
	host_settle(s, n);
}

/* ---- connections ---- */

/* What the time that has passed since the last turn makes possible has a deadline, too. */
static void
check_wait(struct host *n)
{
	const struct server_io io = host_io(n);

	if (!n->turn_waits && !mono_reached(clock_io_now(&io.clock), server_deadline(n->server)))
		check_rest(n->sim, n);
}

bool
host_opened(struct host *n, uint64_t conn, enum channel_role role, const uint8_t *key)
{
	return server_opened(n->server, conn, role, key);
}

void
host_frame(struct host *n, uint64_t conn, struct bytes frame)
{
	check_wait(n);
	server_frame(n->server, conn, frame);
}

void
host_closed(struct host *n, uint64_t conn, const char *why)
{
	server_closed(n->server, conn, why);
}
