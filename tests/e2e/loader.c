#include "tests/e2e/loader.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/must.h"
#include "cell/config/key_file.h"
#include "cell/sys/clock.h"

enum { TOLD_EVERY_MS = 1000 };

void
load_die(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
	exit(1);
}

void
load_files(const char *cell_path, const char *key_path, struct cell_file *cell,
           struct noise_pair *key)
{
	char name[LIMIT_PRINCIPAL + 1], why[512];

	signal(SIGPIPE, SIG_IGN); /* a connection that is closed is a result of its write */
	if (!cell_file_read(cell_path, cell, why, sizeof why))
		load_die(cell_path, why);
	if (!key_file_read_principal(key_path, name, key, why, sizeof why))
		load_die(key_path, why);
}

/* ---- lines ---- */

static struct {
	uv_timer_t timer;
	uv_signal_t terminate;
	void (*tell)(void *user), (*end)(void *user);
	void *user;
} teller;

static void
on_second(uv_timer_t *timer)
{
	(void)timer;
	teller.tell(teller.user);
}

static void
on_terminate(uv_signal_t *handle, int number)
{
	(void)handle, (void)number;
	teller.end(teller.user);
}

void
load_tell(uv_loop_t *loop, void (*tell)(void *user), void (*end)(void *user), void *user)
{
	teller.tell = tell;
	teller.end = end;
	teller.user = user;
	must(uv_timer_init(loop, &teller.timer) == 0);
	must(uv_signal_init(loop, &teller.terminate) == 0);
	must(uv_timer_start(&teller.timer, on_second, 0, TOLD_EVERY_MS) == 0);
	must(uv_signal_start(&teller.terminate, on_terminate, SIGTERM) == 0);
}

/* ---- a session ---- */

static void
step(struct loader *l, struct client_event event)
{
	struct client_update *u = &l->update;
	uint64_t invalidation;

	event.now = clock_now();
	client_step(l->client, &event, u);
	if (u->members_changed)
		link_set_members(l->link, client_members(l->client));
	if (u->connect)
		link_connect(l->link, u->replica);
	if (u->listen)
		link_listen(l->link, u->listen_to);
	if (u->frames.len > 0)
		link_send(l->link, buffer_view(&u->frames));
	for (size_t i = 0; i < u->answers_n; i++)
		l->answered(l->user, &u->answers[i]);
	for (size_t i = 0; l->watched != NULL && i < u->watched_n; i++)
		l->watched(l->user, &u->watched[i]);
	invalidation = u->invalidation;
	if (invalidation != 0) /* nothing is kept */
		step(l, (struct client_event){.kind = CLIENT_INVALIDATED,
		                              .invalidation = invalidation});
}

void
loader_submit(struct loader *l, uint64_t token, const struct op *op, bool ordered)
{
	const struct client_call call = {.token = token, .op = *op, .ordered = ordered};

	step(l,
	     (struct client_event){.kind = CLIENT_REQUEST, .request = client_request_new(&call)});
}

void
loader_watch(struct loader *l, uint64_t node, uint32_t mask, uint64_t generation)
{
	step(l, (struct client_event){.kind = CLIENT_WATCH,
	                              .node = node,
	                              .mask = mask,
	                              .generation = generation});
}

static void on_timer(uv_timer_t *timer);

static void
hear(struct loader *l, struct client_event event)
{
	int64_t left;

	step(l, event);
	l->go_on(l->user);
	left = mono_since(client_deadline(l->client), clock_now()).ns;
	uv_update_time(l->timer.loop);
	must(uv_timer_start(&l->timer, on_timer,
	                    left <= 0 ? 0 : (uint64_t)(left + 999999) / 1000000, 0) == 0);
}

static void
on_timer(uv_timer_t *timer)
{
	hear(timer->data, (struct client_event){.kind = CLIENT_TIMEOUT});
}

static void
on_connected(void *user)
{
	hear(user, (struct client_event){.kind = CLIENT_CONNECTED});
}

static void
on_frame(void *user, bool standby, struct bytes frame)
{
	hear(user, (struct client_event){.kind = CLIENT_FRAME, .standby = standby, .frame = frame});
}

static void
on_disconnected(void *user, bool standby, bool denied)
{
	hear(user, (struct client_event){.kind = CLIENT_DISCONNECTED,
	                                 .standby = standby,
	                                 .denied = denied});
}

void
loader_begin(struct loader *l, uv_loop_t *loop, const char *host, const struct cell_file *cell,
             const struct noise_pair *key)
{
	struct client_config config = {.host = host,
	                               .caching = l->caching,
	                               .grace = span_s(60),
	                               .replicas_n = cell->replicas_n};
	int error = 0;

	random_fill(&config.seed, sizeof config.seed);
	random_fill(config.nonce, sizeof config.nonce);
	for (int i = 0; i < cell->replicas_n; i++)
		config.replicas[i] = cell->replicas[i].id;
	must(uv_timer_init(loop, &l->timer) == 0);
	l->timer.data = l;
	l->client = client_new(&config, clock_now());
	l->link = link_to_cell(loop, cell, &(struct srv_addresses){.n = 0}, key, &error);
	if (l->link == NULL)
		load_die("no link", strerror(-error));
	link_start(l->link, &(struct link_callbacks){.connected = on_connected,
	                                             .frame = on_frame,
	                                             .disconnected = on_disconnected,
	                                             .user = l});
	hear(l, (struct client_event){.kind = CLIENT_TIMEOUT});
}
