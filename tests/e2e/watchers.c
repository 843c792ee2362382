/* watchers CELLFILE KEYFILE SESSIONS NODE GENERATION: many clients that watch one file.
 *
 * Each of so many sessions, all in this process, watches the file with this number from this
 * generation on. Until SIGTERM; each second a line
 *
 *   SAFE LEAST MOST     sessions that are safe; the numbers of events of the session with the
 * fewest and of the one with the most */
#include <stdio.h>
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/e2e/loader.h"

enum { SESSIONS_MAX = 5000 };

struct watching {
	struct watchers *all;
	struct loader session;
	bool begun;
	unsigned events;
};

struct watchers {
	uv_loop_t loop;
	struct watching *list;
	int n;
	uint64_t node, generation;
};

static void
tell(void *user)
{
	const struct watchers *w = user;
	unsigned least = UINT32_MAX, most = 0;
	int safe = 0;

	for (int i = 0; i < w->n; i++) {
		const unsigned events = w->list[i].events;

		safe += client_status(w->list[i].session.client).state == CLIENT_SAFE;
		least = events < least ? events : least;
		most = events > most ? events : most;
	}
	printf("%d %u %u\n", safe, least, most);
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
	(void)user;
	(void)a;
}

static void
take_event(void *user, const struct client_watched *e)
{
	struct watching *w = user;

	w->events += e->kind == EVENT_CONTENTS_MODIFIED;
}

static void
go_on(void *user)
{
	struct watching *w = user;

	if (w->begun || client_status(w->session.client).state != CLIENT_SAFE)
		return;
	w->begun = true;
	loader_watch(&w->session, w->all->node, 1u << EVENT_CONTENTS_MODIFIED, w->all->generation);
}

int
main(int argc, char **argv)
{
	static struct watchers w;
	struct cell_file cell;
	struct noise_pair key;

	if (argc != 6) {
		fprintf(stderr, "usage: watchers CELLFILE KEYFILE SESSIONS NODE GENERATION\n");
		return 2;
	}
	w.n = atoi(argv[3]);
	w.node = strtoull(argv[4], NULL, 10);
	w.generation = strtoull(argv[5], NULL, 10);
	if (w.n < 1 || w.n > SESSIONS_MAX)
		load_die("SESSIONS", "out of range");
	load_files(argv[1], argv[2], &cell, &key);
	must(uv_loop_init(&w.loop) == 0);
	w.list = memory_zero((size_t)w.n, sizeof *w.list);
	for (int i = 0; i < w.n; i++) {
		struct watching *one = &w.list[i];

		one->all = &w;
		one->session.answered = take_answer;
		one->session.watched = take_event;
		one->session.go_on = go_on;
		one->session.user = one;
		loader_begin(&one->session, &w.loop, "watchers", &cell, &key);
	}
	load_tell(&w.loop, tell, end, &w);
	return uv_run(&w.loop, UV_RUN_DEFAULT);
}
