/* Machines with a mount: their processes make the kernel's calls, one at a time, and the mount's
 * requests go through the machine's client. Every call must be answered exactly once. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/sim/sim.h"

/* ---- between the mount and the client ---- */

static struct record *
asked(const struct sim *s, const struct machine *m, uint64_t mount_token)
{
	size_t i = s->history.n;
	struct record *r;

	do {
		must(i > 0);
		r = s->history.records[--i];
	} while (r->machine != m->id || r->mount_token != mount_token);
	return r;
}

/* The update is the mount's until its next step: requests are copied, replies handled at once. */
static void
take_update(struct sim *s, struct machine *m)
{
	struct mount_update *u = &m->mount_update;

	for (size_t i = 0; i < u->requests_n; i++) {
		struct record *r;

		ARRAY_ROOM(m->asking, m->asking_n, m->asking_room);
		if (u->requests[i].given_up) {
			r = asked(s, m, u->requests[i].token);
			m->asking[m->asking_n++] = (struct asking){r, true};
			continue;
		}
		r = history_begin(s, m->id, -1, &u->requests[i].op, u->requests[i].ordered);
		r->mount_token = u->requests[i].token;
		r->through = u->requests[i].opened;
		r->guard = u->requests[i].guard;
		handles_asked(s, m, &u->requests[i]);
		m->asking[m->asking_n++] = (struct asking){r, false};
	}
	for (size_t i = 0; i < u->watches_n; i++) {
		ARRAY_ROOM(m->wanted, m->wanted_n, m->wanted_room);
		m->wanted[m->wanted_n++] = u->watches[i];
	}
	for (size_t i = 0; i < u->replies_n; i++)
		if (!event_readers_replied(s, m, &u->replies[i]))
			users_replied(s, m, &u->replies[i]);
}

void
mounts_event(struct sim *s, struct machine *m, struct mount_event event)
{
	event.now = clock_local(&m->clock, s->now);
	event.uid = 1000;
	mount_step(m->mount, &event, &m->mount_update);
	take_update(s, m);
}

void
mounts_answered(struct sim *s, struct machine *m, const struct record *r,
                const struct client_answer *a)
{
	struct client_answer answer = *a;

	answer.token = r->mount_token;
	mounts_event(s, m, (struct mount_event){.kind = MOUNT_ANSWER, .answer = &answer});
}

/* Hands over what the mount asked for. A request may be answered at once, and lead to others. */
void
mounts_flush(struct sim *s, struct machine *m)
{
	if (m->flushing)
		return;
	m->flushing = true;
	for (size_t i = 0; i < m->asking_n; i++) {
		struct record *r = m->asking[i].record;
		const struct client_call call = {.token = r->token, .given_up = true};

		if (m->asking[i].given_up) {
			m->given_up = r;
			machine_event(s, m,
			              (struct client_event){.kind = CLIENT_REQUEST,
			                                    .request = client_request_new(&call)});
			continue;
		}
		r->after = m->given_up;
		machine_submit(s, m, r);
	}
	m->asking_n = 0;
	for (size_t i = 0; i < m->wanted_n && m->up; i++)
		watches_wanted(s, m, &m->wanted[i]);
	m->wanted_n = 0;
	m->flushing = false;
}

struct mount_config
mounts_config(const struct sim *s)
{
	return (struct mount_config){.cell = "sim",
	                             .uid = 1000,
	                             .gid = 1000,
	                             .lock_delay_s = s->swarm.lock_delay_s};
}

void
mounts_start(struct sim *s, struct machine *m)
{
	const struct mount_config config = mounts_config(s);

	must(m->mount == NULL);
	m->mount = mount_new(&config, m->client);
	event_readers_start(s, m);
}

void
mounts_stop(struct machine *m)
{
	if (m->mount != NULL)
		mount_free(m->mount);
	m->mount = NULL;
	m->asking_n = m->wanted_n = 0;
	event_readers_stop(m);
}
