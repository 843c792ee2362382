/* cachers CELLFILE KEYFILE SESSIONS NODE...: clients that cache the same files and write them.
 *
 * Each of so many sessions, all in this process, reads all these files 20 times a second, mostly
 * from its cache, and writes one of them twice a second, unless its last write waits still. No
 * request may fail, nor show a version older than one that any of them has been told of before the
 * read was requested. Until SIGTERM; each second a line
 *
 *   WRITES LONGEST CACHED SAFE LEFT    in that second: writes that were answered, and the longest
 * time that one of them took, in milliseconds; reads that were answered from caches; sessions that
 * are safe; and now: milliseconds until the first of them has no leave to cache */
#include <stdio.h>
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/sys/clock.h"
#include "tests/e2e/loader.h"

enum { SESSIONS_MAX = 1000, NODES_MAX = 16, READ_EVERY_MS = 50, WRITE_EVERY_MS = 500 };

/* Tokens: of a read the place of its node, of a write this. */
enum { WRITES = NODES_MAX };

struct cacher {
	struct cachers *all;
	struct loader session;
	uv_timer_t timer;
	bool writing, reading[NODES_MAX];
	uint64_t least[NODES_MAX]; /* the version that a read under way may not be older than */
	int written;               /* the node that is written */
	mono_t due, begun;         /* of the next write; of the one under way */
};

struct cachers {
	uv_loop_t loop;
	struct cacher *list;
	int n, nodes_n;
	uint64_t nodes[NODES_MAX];
	uint64_t known[NODES_MAX]; /* the newest version of each that anybody was told of */
	uint64_t writes, cached;
	int64_t longest_ms;
};

static int64_t
leave_left_ms(const struct client_status *st)
{
	const mono_t now = clock_now();

	if (mono_is_never(st->leave_end) || mono_reached(now, st->leave_end))
		return 0;
	return span_to_ms(mono_since(st->leave_end, now));
}

static void
tell(void *user)
{
	struct cachers *c = user;
	int64_t left_ms = INT64_MAX;
	int safe = 0;

	for (int i = 0; i < c->n; i++) {
		const struct client_status st = client_status(c->list[i].session.client);

		safe += st.state == CLIENT_SAFE;
		if (left_ms > leave_left_ms(&st))
			left_ms = leave_left_ms(&st);
	}
	printf("%llu %lld %llu %d %lld\n", (unsigned long long)c->writes, (long long)c->longest_ms,
	       (unsigned long long)c->cached, safe, (long long)left_ms);
	fflush(stdout);
	c->writes = c->cached = 0;
	c->longest_ms = 0;
}

static void
end(void *user)
{
	(void)user;
	exit(0);
}

/* ---- answers ---- */

static void
know(struct cachers *c, int node, uint64_t generation)
{
	if (c->known[node] < generation)
		c->known[node] = generation;
}

static void
take_write(struct cacher *s, const struct client_answer *a)
{
	const int64_t took_ms = span_to_ms(mono_since(clock_now(), s->begun));

	s->writing = false;
	s->all->writes++;
	if (s->all->longest_ms < took_ms)
		s->all->longest_ms = took_ms;
	know(s->all, s->written, a->result.attr.attr.content_generation);
}

static void
take_read(struct cacher *s, int node, const struct client_answer *a)
{
	const uint64_t generation = a->result.attr.attr.content_generation;

	s->reading[node] = false;
	s->all->cached += a->cached;
	if (generation < s->least[node])
		load_die("a read", "an older version than one that was known before");
	know(s->all, node, generation);
}

static void
take_answer(void *user, const struct client_answer *a)
{
	struct cacher *s = user;

	if (a->rc != RC_OK)
		load_die("a request failed", rc_text(a->rc));
	if (a->token == WRITES)
		take_write(s, a);
	else
		take_read(s, (int)a->token, a);
}

/* ---- requests ---- */

static void
read_all(struct cacher *s)
{
	struct cachers *c = s->all;

	for (int i = 0; i < c->nodes_n; i++) {
		const struct op op = {.code = OP_get_attr, .get_attr = {c->nodes[i]}};

		if (s->reading[i])
			continue;
		s->reading[i] = true;
		s->least[i] = c->known[i];
		loader_submit(&s->session, (uint64_t)i, &op, false);
	}
}

static void
write_one(struct cacher *s, mono_t now)
{
	static const uint8_t contents[1] = "x";
	struct cachers *c = s->all;
	struct op op = {.code = OP_set_contents,
	                .set_contents = {.contents = {contents, sizeof contents}}};

	s->written = (s->written + 1) % c->nodes_n;
	op.set_contents.node = c->nodes[s->written];
	s->writing = true;
	s->begun = now;
	/* A write that took longer than the interval is not made up for. */
	s->due = mono_add(s->due, span_ms(WRITE_EVERY_MS));
	if (mono_reached(now, s->due))
		s->due = mono_add(now, span_ms(WRITE_EVERY_MS));
	loader_submit(&s->session, WRITES, &op, false);
}

static void
on_tick(uv_timer_t *timer)
{
	struct cacher *s = timer->data;
	const mono_t now = clock_now();

	if (client_status(s->session.client).state != CLIENT_SAFE)
		return;
	read_all(s);
	if (!s->writing && mono_reached(now, s->due))
		write_one(s, now);
}

static void
go_on(void *user)
{
	(void)user;
}

static void
begin(struct cachers *c, int i, const struct cell_file *cell, const struct noise_pair *key)
{
	struct cacher *s = &c->list[i];

	s->all = c;
	s->written = i;
	s->due = mono_add(clock_now(), span_ms(i * WRITE_EVERY_MS / c->n));
	s->session.caching = true;
	s->session.answered = take_answer;
	s->session.go_on = go_on;
	s->session.user = s;
	s->timer.data = s;
	must(uv_timer_init(&c->loop, &s->timer) == 0);
	must(uv_timer_start(&s->timer, on_tick, READ_EVERY_MS, READ_EVERY_MS) == 0);
	loader_begin(&s->session, &c->loop, "cachers", cell, key);
}

int
main(int argc, char **argv)
{
	static struct cachers c;
	struct cell_file cell;
	struct noise_pair key;

	if (argc < 5 || argc > 4 + NODES_MAX) {
		fprintf(stderr, "usage: cachers CELLFILE KEYFILE SESSIONS NODE...\n");
		return 2;
	}
	c.n = atoi(argv[3]);
	if (c.n < 1 || c.n > SESSIONS_MAX)
		load_die("SESSIONS", "out of range");
	for (int i = 4; i < argc; i++)
		c.nodes[c.nodes_n++] = strtoull(argv[i], NULL, 10);
	load_files(argv[1], argv[2], &cell, &key);
	must(uv_loop_init(&c.loop) == 0);
	c.list = memory_zero((size_t)c.n, sizeof *c.list);
	for (int i = 0; i < c.n; i++)
		begin(&c, i, &cell, &key);
	load_tell(&c.loop, tell, end, &c);
	return uv_run(&c.loop, UV_RUN_DEFAULT);
}
