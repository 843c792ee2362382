/* crowd CELLFILE KEYFILE SESSIONS: many clients that have as much under way as a client may.
 *
 * Each of so many sessions, all in this process, asks for 256 commands, every one of which holds up
 * what comes after it, and for 256 reads of the same node, all at once; and again when all are
 * answered. So with 120 sessions some 60,000 requests wait in the master. None may fail. Until
 * SIGTERM; each second a line
 *
 *   SECONDS ANSWERS SESSIONS    since the beginning; and how many sessions are safe */
#include <stdio.h>
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/sys/clock.h"
#include "tests/e2e/loader.h"

enum { SESSIONS_MAX = 1000 };

struct member_of_crowd {
	struct crowd *crowd;
	struct loader session;
	size_t waiting; /* for so many answers */
};

struct crowd {
	uv_loop_t loop;
	struct member_of_crowd *members;
	int n;
	uint64_t answers;
	mono_t begun;
};

static void
tell(void *user)
{
	const struct crowd *c = user;
	int safe = 0;

	for (int i = 0; i < c->n; i++)
		safe += client_status(c->members[i].session.client).state == CLIENT_SAFE;
	printf("%lld %llu %d\n", (long long)(span_to_ms(mono_since(clock_now(), c->begun)) / 1000),
	       (unsigned long long)c->answers, safe);
	fflush(stdout);
}

static void
end(void *user)
{
	tell(user);
	exit(0);
}

static void
take_answer(void *user, const struct client_answer *a)
{
	struct member_of_crowd *m = user;

	if (a->rc != RC_OK)
		load_die("a request failed", rc_text(a->rc));
	m->waiting--;
	m->crowd->answers++;
}

static void
submit(struct member_of_crowd *m, const struct op *op, bool ordered)
{
	m->waiting++;
	loader_submit(&m->session, 1, op, ordered);
}

static void
go_on(void *user)
{
	const struct op close = {.code = OP_close_ephemeral, .close_ephemeral = {NODE_ROOT}};
	const struct op read = {.code = OP_get_attr, .get_attr = {NODE_ROOT}};
	struct member_of_crowd *m = user;

	if (m->waiting > 0 || client_status(m->session.client).state != CLIENT_SAFE)
		return;
	for (int i = 0; i < LIMIT_IN_FLIGHT; i++)
		submit(m, &close, true);
	for (int i = 0; i < LIMIT_IN_FLIGHT; i++)
		submit(m, &read, false);
}

int
main(int argc, char **argv)
{
	static struct crowd c;
	struct cell_file cell;
	struct noise_pair key;

	if (argc != 4) {
		fprintf(stderr, "usage: crowd CELLFILE KEYFILE SESSIONS\n");
		return 2;
	}
	c.n = atoi(argv[3]);
	if (c.n < 1 || c.n > SESSIONS_MAX)
		load_die("SESSIONS", "out of range");
	load_files(argv[1], argv[2], &cell, &key);
	must(uv_loop_init(&c.loop) == 0);
	c.begun = clock_now();
	c.members = memory_zero((size_t)c.n, sizeof *c.members);
	for (int i = 0; i < c.n; i++) {
		struct member_of_crowd *m = &c.members[i];

		m->crowd = &c;
		m->session.answered = take_answer;
		m->session.go_on = go_on;
		m->session.user = m;
		loader_begin(&m->session, &c.loop, "crowd", &cell, &key);
	}
	load_tell(&c.loop, tell, end, &c);
	return uv_run(&c.loop, UV_RUN_DEFAULT);
}
