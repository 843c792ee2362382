/* A machine's process hands its session, and its mount, to another process: nobody notices. */
#include "cell/base/must.h"
#include "tests/sim/sim.h"

enum { LOOKS = 200 };

static void
end_connections(struct sim *s, struct machine *m)
{
	if (m->conn != 0)
		net_client_drops(s, m->conn);
	if (m->aside != 0)
		net_client_drops(s, m->aside);
	m->conn = m->aside = 0;
}

/* The calls that wait are made again, in their order. */
static void
call_again(struct sim *s, struct machine *m)
{
	const uint64_t life = m->life;
	uint64_t last = 0, next = 1;
	struct mount_event event;

	while (next != 0 && m->up && m->life == life) {
		const struct mount_event *e = NULL;

		next = 0;
		for (int p = 0; p < s->swarm.processes; p++) {
			const struct process *u = &m->processes[p];

			if (u->call > last && (next == 0 || u->call < next)) {
				next = u->call;
				e = &u->event;
			}
		}
		if (m->reader.call > last && (next == 0 || m->reader.call < next)) {
			next = m->reader.call;
			e = &m->reader.event;
		}
		last = next;
		if (e == NULL)
			continue;
		event = *e;
		event.again = true;
		mounts_event(s, m, event);
	}
	if (m->up && m->life == life)
		mounts_flush(s, m);
}

static bool
is_still(const struct machine *m)
{
	return m->paused_until == 0 && !m->flushing && m->asking_n == 0 && m->wanted_n == 0 &&
	       client_is_still(m->client) && (m->mount == NULL || mount_is_still(m->mount));
}

static void
hand_over(struct sim *s, struct machine *m)
{
	struct buffer state = BUFFER(SIZE_MAX), again = BUFFER(SIZE_MAX);
	struct image to = image_to(&state), from, copy = image_to(&again);
	const mono_t now = clock_local(&m->clock, s->now);

	fault(s, FAULT_SUCCESSOR, "another process goes on for client %d", m->id + 1);
	client_save(m->client, &to);
	if (m->mount != NULL)
		mount_save(m->mount, now, &to);
	end_connections(s, m);
	client_free(m->client);
	from = image_from(buffer_view(&state));
	m->config.seed = ((uint64_t)s->now << 8) + (uint64_t)m->id; /* no nonce of another client */
	m->client = client_load(&m->config, &from, now);
	must(m->client != NULL);
	if (m->mount != NULL) {
		const struct mount_config config = mounts_config(s);

		mount_free(m->mount);
		m->mount = mount_load(&config, m->client, &from);
		must(m->mount != NULL);
	}
	must(image_done(&from));
	client_save(m->client, &copy);
	if (m->mount != NULL)
		mount_save(m->mount, now, &copy);
	must(bytes_equal(buffer_view(&state), buffer_view(&again)));
	buffer_free(&state);
	buffer_free(&again);
	machine_clock_changed(s, m);
	if (m->mount != NULL)
		call_again(s, m);
}

static void
run_look(struct sim *s, struct event *e)
{
	struct machine *m = &s->machines[e->who];

	if (!m->up || m->life != e->life || m->closing)
		return;
	if (m->paused_until <= s->now)
		m->paused_until = 0;
	if (is_still(m))
		hand_over(s, m);
	else if (e->a < LOOKS)
		heap_push(&s->heap, (struct event){.at = s->now + MS,
		                                   .run = run_look,
		                                   .who = m->id,
		                                   .life = m->life,
		                                   .a = e->a + 1});
}

void
machine_strike_successor(struct sim *s, struct machine *m)
{
	struct rng own = rng_seeded(s->seed ^ ((uint64_t)s->now * 31 + (uint64_t)m->id));

	if (m->up && !s->calm && s->script == NULL &&
	    rng_below(&own, 10000) < s->swarm.rates[FAULT_SUCCESSOR])
		heap_push(&s->heap, (struct event){.at = s->now,
		                                   .run = run_look,
		                                   .who = m->id,
		                                   .life = m->life});
}
