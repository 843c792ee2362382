/* Which faults a seed has. Each seed leaves some kinds out: what never happens in one run lets
 * others go deeper. */
#include <stdarg.h>
#include <stdio.h>
#include "tests/sim/sim.h"

/* How often each strikes at most, in the units of struct swarm. */
static const struct {
	const char *name;
	unsigned most;
} kinds[FAULTS] = {
    [FAULT_CONN_BREAKS] = {"connections broken", 300},
    [FAULT_CONN_STALLS] = {"connections stalled", 200},
    [FAULT_CONN_LATE] = {"slow connections", 300},
    [FAULT_CLIENT_CRASHES] = {"clients crashed", 100},
    [FAULT_CLIENT_PAUSES] = {"clients paused", 100},
    [FAULT_CLIENT_CLOSES] = {"clients stopped", 60},
    [FAULT_CLIENT_CUT_OFF] = {"clients cut off", 100},
    [FAULT_CLIENT_CLOCK_JUMPS] = {"clients' clocks jumped", 40},
    [FAULT_CRASH] = {"replicas crashed", 150},
    [FAULT_PAUSE] = {"replicas paused", 100},
    [FAULT_STOP] = {"replicas stopped", 60},
    [FAULT_DISK_SLOW] = {"disks slow", 60},
    [FAULT_DISK_STUCK] = {"disks stuck", 60},
    [FAULT_DISK_FULL] = {"disks full", 30},
    [FAULT_FSYNC] = {"fsyncs failed", 30},
    [FAULT_BLACKOUT] = {"blackouts", 20},
    [FAULT_FREEZE] = {"everything paused", 20},
    [FAULT_MASTER] = {"masters struck", 800},
    [FAULT_CUT_OFF] = {"replicas cut off", 200},
    [FAULT_HALVES] = {"cells halved", 30},
    [FAULT_SWIZZLE] = {"links swizzled", 30},
    [FAULT_LINK_BREAKS] = {"links broken", 300},
    [FAULT_MESSAGE_LOST] = {"messages lost", 100},
    [FAULT_MESSAGE_DOUBLED] = {"messages doubled", 100},
    [FAULT_MESSAGE_LATE] = {"messages late", 30},
    [FAULT_CLOCK_RATE] = {"clocks' rates changed", 60},
    [FAULT_CLOCK_STANDS] = {"clocks stood still", 60},
    [FAULT_WALL_JUMPS] = {"times of day jumped", 100},
    [FAULT_DESTROY] = {"sessions destroyed", 60},
    [FAULT_ALL_STUCK] = {"all disks stuck", 60},
    [FAULT_AT_PROMISE] = {"crashes at a promise", 2000},
    [FAULT_RELAY] = {"masters one after the other", 0},
    [FAULT_AT_DELAY] = {"sessions destroyed as a delay ends", 10000},
    [FAULT_PINCH] = {"leases to be remembered", 0},
    [FAULT_ROT_LOG] = {"logs damaged", 40},
    [FAULT_ROT_STATE] = {"states damaged", 40},
    [FAULT_WIPED] = {"disks emptied", 10},
    [FAULT_OLD_COPY] = {"disks restored from old copies", 10},
    [FAULT_WRITES_LOST] = {"crashes that lost writes", 0},
    [FAULT_AT_RELEASE] = {"sessions destroyed as a lock comes free", 1000},
    [FAULT_AT_HOLD] = {"sessions with locks ended", 1000},
    [FAULT_RACE] = {"leases that end as others begin", 0},
    [FAULT_RESTORED] = {"restores", 0},
    [FAULT_REFUSED] = {"starts refused behind a failed fsync", 0},
    [FAULT_MACHINE_LOST] = {"replicas lost for good", 15},
    [FAULT_AT_CHANGE] = {"strokes at a change of the members", 6000},
    [FAULT_LEFT_BEHIND] = {"replicas left behind by a change of the members", 6000},
    [FAULT_LIES] = {"lies of a faulty replica", 0},
    [FAULT_STOLEN_KEY] = {"keys of followers stolen", 0},
    [FAULT_HUB] = {"hubs that lag", 0},
    [FAULT_CORE] = {"cores that heal alone", 0},
    [FAULT_AT_SETTING] = {"strokes as a lease is set", 6000},
    [FAULT_AT_JOINING] = {"strokes at a step of joining", 4000},
    [FAULT_AT_GATHER] = {"candidates cut off from values", 8000},
    [FAULT_AT_HAND_OVER] = {"hand-overs heard late", 5000},
    [FAULT_BALLOTS] = {"races of ballots", 0},
    [FAULT_LAGGARD] = {"candidates that lag", 0},
    [FAULT_TWO_VALUES] = {"promises of two values", 100},
    [FAULT_NOTICE_LATE] = {"notices late", 300},
    [FAULT_LEAVE_LAPSES] = {"leaves that lapse", 1000},
    [FAULT_REPLY_LATE] = {"replies behind a lease", 400},
    [FAULT_KERNEL_SLOW] = {"kernels slow to invalidate", 500},
    [FAULT_AT_END] = {"clients with ephemeral files gone", 30},
    [FAULT_AT_MARK] = {"opens of files that become ephemeral", 1000},
    [FAULT_DATAGRAM_LOST] = {"datagrams lost", 6000},
    [FAULT_DATAGRAM_DOUBLED] = {"datagrams doubled", 6000},
    [FAULT_DATAGRAM_LATE] = {"datagrams late", 4000},
    [FAULT_DATAGRAM_ALONE] = {"datagrams beside a stalled connection", 0},
    [FAULT_COPY] = {"copies of states that failed", 2000},
    [FAULT_NO_ROOM] = {"cell files without room", 0},
    [FAULT_SUCCESSOR] = {"clients replaced", 400},
    [FAULT_STATE_STUCK] = {"states stuck", 30},
};

const char *
fault_name(enum fault f)
{
	return kinds[f].name;
}

void
fault(struct sim *s, enum fault f, const char *format, ...)
{
	char line[256];
	va_list args;

	s->stats.faults[f]++;
	if (!s->options.trace)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	sim_trace(s, "FAULT: %s", line);
}

static unsigned
maybe(struct rng *r, unsigned most)
{
	return rng_chance(r, 500) ? (unsigned)rng_below(r, most) + 1 : 0;
}

static int64_t
spread(struct rng *r, int64_t low, int64_t high)
{
	int64_t at = low;

	while (at < high && rng_chance(r, 600))
		at *= 2;
	return at < high ? at : high;
}

static void
draw_work(struct swarm *w, struct rng *r)
{
	w->processes = 1 + (int)rng_below(r, PROCESSES_MAX);
	w->roles = 1u << rng_below(r, ROLES);
	w->roles |= (unsigned)rng_below(r, 1u << ROLES);
	w->think_ms = spread(r, rng_chance(r, 200) ? 50 : 500, 4000);
	w->shared = rng_chance(r, 400) ? 900 : 500;
	w->interrupt = maybe(r, 700);
	w->successor = (unsigned)rng_below(r, 1001);
	w->caching = maybe(r, 1000);
	w->lock_delay_s = (int)rng_below(r, 6);
	w->mounts = rng_chance(r, 400);
}

/* So little that a server has enough of it sooner than a client has. Where frames keep no order, or
 * take long, the parts of a copy are few: each is asked for by itself. */
static void
draw_limits(struct server_limits *l, bool few_parts, struct rng *r)
{
	l->part = few_parts ? 8000 + rng_below(r, 20000) : 600 + rng_below(r, 3000);
	if (rng_chance(r, 300))
		l->patience = span_ms(60 + (int64_t)rng_below(r, 500));
	if (!rng_chance(r, 300))
		return;
	l->backlog = 1 + rng_below(r, 3000);
	l->unsaved = 1000 + rng_below(r, 20000);
	l->unsent = 50 + rng_below(r, 1500);
	l->flood = 50 + rng_below(r, 600);
}

void
swarm_draw(struct swarm *w, struct rng *r, int machines)
{
	w->machines = machines > 0 ? machines : 1 + (int)rng_below(r, 4);
	w->session_lease_ms = spread(r, 1500, 12000);
	w->grace_ms = spread(r, 1500, 45000);
	w->chaos_ms = 20000 + (int64_t)rng_below(r, 20000);
	w->latency_us = spread(r, 200, 50000);
	w->disk_us = spread(r, 200, 50000);
	w->datagrams = rng_chance(r, 300);
	w->keep_saved_back = rng_chance(r, 300);
	w->restore = rng_chance(r, 300);
	w->clocks = rng_chance(r, 100)   ? CLOCKS_WILD
	            : rng_chance(r, 600) ? CLOCKS_DRIFT
	                                 : CLOCKS_ALIKE;
	for (int f = 0; f < FAULT_LIES; f++)
		w->rates[f] = maybe(r, kinds[f].most);
	w->rates[FAULT_AT_GATHER] = maybe(r, kinds[FAULT_AT_GATHER].most);
	w->rates[FAULT_AT_HAND_OVER] = maybe(r, kinds[FAULT_AT_HAND_OVER].most);
	w->rates[FAULT_TWO_VALUES] = maybe(r, kinds[FAULT_TWO_VALUES].most);
	w->batch_entries = rng_chance(r, 500) ? 1 + (uint32_t)rng_below(r, 8) : 0;
	w->log_entries = rng_chance(r, 400) ? 4 + rng_below(r, 100) : 0;
	w->digest_every = rng_chance(r, 500) ? 4 + rng_below(r, 100) : 0;
	if (w->clocks != CLOCKS_WILD)
		w->rates[FAULT_CLOCK_STANDS] = 0;
	draw_work(w, r);
	w->ending = rng_chance(r, 250) ? LIMIT_ENDING : 1 + rng_below(r, 3);
	w->operators = rng_chance(r, 400) ? 1 + (int)rng_below(r, OPERATORS_MAX) : 0;
	w->operators_think_ms = spread(r, 500, 8000);
	w->lasting = w->operators > 0 ? maybe(r, 600) : 0;
	draw_limits(&w->limits, w->datagrams || w->latency_us > 10000, r);
	/* There a replica that lacks much takes one message of a burst, or waits for each: a
	 * message has to hold much. */
	if (w->datagrams || w->limits.backlog > 0 || w->latency_us > 10000)
		w->batch_entries = 0;
	if (w->operators > 0) {
		w->settings = maybe(r, 900);
		w->rates[FAULT_AT_SETTING] = kinds[FAULT_AT_SETTING].most;
		w->rates[FAULT_AT_JOINING] = kinds[FAULT_AT_JOINING].most;
	}
}

void
swarm_draw_servers(struct swarm *w, uint64_t seed)
{
	struct rng own = rng_seeded(seed + 2);

	if (!w->bulk && rng_chance(&own, 100))
		w->cost_ns = MS + (int64_t)rng_below(&own, 3 * MS);
	w->rates[FAULT_COPY] = maybe(&own, kinds[FAULT_COPY].most);
	if (!w->bulk && rng_chance(&own, 300))
		w->limits.step = 12288 + rng_below(&own, 20000); /* for a few things at least */
	if (rng_chance(&own, 300))
		w->clients_spare = 1 + (size_t)rng_below(&own, 4);
	w->rates[FAULT_NOTICE_LATE] = maybe(&own, kinds[FAULT_NOTICE_LATE].most);
	w->rates[FAULT_KERNEL_SLOW] = maybe(&own, kinds[FAULT_KERNEL_SLOW].most);
	w->rates[FAULT_AT_END] = maybe(&own, kinds[FAULT_AT_END].most);
	w->rates[FAULT_AT_MARK] = maybe(&own, kinds[FAULT_AT_MARK].most);
	w->short_leave = rng_chance(&own, 300);
	w->rates[FAULT_LEAVE_LAPSES] = maybe(&own, kinds[FAULT_LEAVE_LAPSES].most);
	if (!w->bulk && rng_chance(&own, 200))
		w->limits.keepalives = 1;
	w->rates[FAULT_REPLY_LATE] = maybe(&own, kinds[FAULT_REPLY_LATE].most);
	for (int f = FAULT_DATAGRAM_LOST; f <= FAULT_DATAGRAM_LATE; f++)
		w->rates[f] = maybe(&own, kinds[f].most);
	if (rng_chance(&own, 300))
		w->limits.budget = 1 + (unsigned)rng_below(&own, 8);
	w->mortal = rng_chance(&own, 300) ? 500 : 0;
	w->counting = rng_chance(&own, 300) ? 500 : 0;
	w->firewall = w->bulk && w->clocks != CLOCKS_WILD && rng_chance(&own, 500);
	w->rates[FAULT_SUCCESSOR] = maybe(&own, kinds[FAULT_SUCCESSOR].most);
	w->transactions = rng_chance(&own, 400) ? 300 : 0;
	w->quotas = rng_chance(&own, 300) ? 400 : 0;
	w->numbers = rng_chance(&own, 300) ? 400 : 0;
	w->unlocks = rng_chance(&own, 300) ? 300 : 0;
	w->handles = rng_chance(&own, 500) ? 400 : 0;
	if (rng_chance(&own, 300))
		w->rates[FAULT_STATE_STUCK] = kinds[FAULT_STATE_STUCK].most;
}

void
swarm_draw_upgrades(struct swarm *w, uint64_t seed)
{
	struct rng own = rng_seeded(seed + 1);

	if (rng_chance(&own, 300))
		w->upgrades = 1 + (unsigned)rng_below(&own, 1000);
}
