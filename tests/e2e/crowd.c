/* crowd CELLFILE KEYFILE SESSIONS: many clients that have as much under way as a client may.
 *
 * Each of so many sessions, all in this process, asks for 256 commands, every one of which holds up
 * what comes after it, and for 256 reads of the same node, all at once; and again when all are
 * answered. So with 120 sessions some 60,000 requests wait in the master. None may fail. Until
 * SIGTERM; each second a line
 *
 *   SECONDS ANSWERS SESSIONS    since the beginning; and how many sessions are safe */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/client/client.h"
#include "cell/config/key_file.h"
#include "cell/sys/clock.h"
#include "cell/wire/codec.h"
#include "fs/link.h"

enum { SESSIONS_MAX = 1000, TOLD_EVERY_MS = 1000 };

struct member_of_crowd {
	struct crowd *crowd;
	uv_timer_t timer;
	struct link *link;
	struct client *client;
	struct client_update update;
	size_t waiting; /* for so many answers */
};

struct crowd {
	uv_loop_t loop;
	uv_timer_t told;
	uv_signal_t terminate;
	struct member_of_crowd *members;
	int n;
	uint64_t answers;
	mono_t begun;
};

_Noreturn static void
die(const char *what, const char *why)
{
	fprintf(stderr, "crowd: %s: %s\n", what, why);
	exit(1);
}

static void
tell(const struct crowd *c)
{
	int safe = 0;

	for (int i = 0; i < c->n; i++)
		safe += client_status(c->members[i].client).state == CLIENT_SAFE;
	printf("%lld %llu %d\n", (long long)(span_to_ms(mono_since(clock_now(), c->begun)) / 1000),
	       (unsigned long long)c->answers, safe);
	fflush(stdout);
}

/* ---- a client ---- */

static void
step(struct member_of_crowd *m, struct client_event event)
{
	struct client_update *u = &m->update;

	event.now = clock_now();
	client_step(m->client, &event, u);
	if (u->members_changed)
		link_set_members(m->link, client_members(m->client));
	if (u->connect)
		link_connect(m->link, u->replica);
	if (u->listen)
		link_listen(m->link, u->listen_to);
	if (u->frames.len > 0)
		link_send(m->link, buffer_view(&u->frames));
	for (size_t i = 0; i < u->answers_n; i++)
		if (u->answers[i].rc != RC_OK)
			die("a request failed", rc_text(u->answers[i].rc));
	m->waiting -= u->answers_n;
	m->crowd->answers += u->answers_n;
}

static void
submit(struct member_of_crowd *m, const struct op *op, bool ordered)
{
	m->waiting++;
	step(m, (struct client_event){.kind = CLIENT_REQUEST,
	                              .request = client_request_new(1, op, ordered)});
}

static void
go_on(struct member_of_crowd *m)
{
	const struct op close = {.code = OP_close_ephemeral, .close_ephemeral = {NODE_ROOT}};
	const struct op read = {.code = OP_get_attr, .get_attr = {NODE_ROOT}};

	if (m->waiting > 0 || client_status(m->client).state != CLIENT_SAFE)
		return;
	for (int i = 0; i < LIMIT_IN_FLIGHT; i++)
		submit(m, &close, true);
	for (int i = 0; i < LIMIT_IN_FLIGHT; i++)
		submit(m, &read, false);
}

static void on_timer(uv_timer_t *timer);

static void
hear(struct member_of_crowd *m, struct client_event event)
{
	int64_t left;

	step(m, event);
	go_on(m);
	left = mono_since(client_deadline(m->client), clock_now()).ns;
	uv_update_time(&m->crowd->loop);
	must(uv_timer_start(&m->timer, on_timer,
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
on_disconnected(void *user, bool standby)
{
	hear(user, (struct client_event){.kind = CLIENT_DISCONNECTED, .standby = standby});
}

static void
begin(struct member_of_crowd *m, const struct cell_file *cell_file, const struct noise_pair *key)
{
	struct client_config config = {.host = "crowd", .grace = span_s(60)};
	int error = 0;

	random_fill(&config.seed, sizeof config.seed);
	random_fill(config.nonce, sizeof config.nonce);
	for (int i = 0; i < cell_file->replicas_n; i++)
		config.replicas[i] = cell_file->replicas[i].id;
	config.replicas_n = cell_file->replicas_n;
	must(uv_timer_init(&m->crowd->loop, &m->timer) == 0);
	m->timer.data = m;
	m->client = client_new(&config, clock_now());
	m->link = link_to_cell(&m->crowd->loop, cell_file, key, &error);
	if (m->link == NULL)
		die("no link", strerror(-error));
	link_start(m->link, &(struct link_callbacks){.connected = on_connected,
	                                             .frame = on_frame,
	                                             .disconnected = on_disconnected,
	                                             .user = m});
	hear(m, (struct client_event){.kind = CLIENT_TIMEOUT});
}

/* ---- all of them ---- */

static void
on_told(uv_timer_t *timer)
{
	tell(timer->data);
}

static void
on_terminate(uv_signal_t *handle, int number)
{
	(void)number;
	tell(handle->data);
	exit(0);
}

static void
begin_handles(struct crowd *c)
{
	must(uv_timer_init(&c->loop, &c->told) == 0);
	must(uv_signal_init(&c->loop, &c->terminate) == 0);
	c->told.data = c->terminate.data = c;
	must(uv_timer_start(&c->told, on_told, 0, TOLD_EVERY_MS) == 0);
	must(uv_signal_start(&c->terminate, on_terminate, SIGTERM) == 0);
}

int
main(int argc, char **argv)
{
	static struct crowd c;
	struct cell_file cell_file;
	char name[LIMIT_PRINCIPAL + 1], why[512];
	struct noise_pair key;

	if (argc != 4) {
		fprintf(stderr, "usage: crowd CELLFILE KEYFILE SESSIONS\n");
		return 2;
	}
	c.n = atoi(argv[3]);
	if (c.n < 1 || c.n > SESSIONS_MAX)
		die("SESSIONS", "out of range");
	if (!cell_file_read(argv[1], &cell_file, why, sizeof why))
		die(argv[1], why);
	if (!key_file_read_principal(argv[2], name, &key, why, sizeof why))
		die(argv[2], why);
	must(uv_loop_init(&c.loop) == 0);
	c.begun = clock_now();
	c.members = memory_zero((size_t)c.n, sizeof *c.members);
	for (int i = 0; i < c.n; i++) {
		c.members[i].crowd = &c;
		begin(&c.members[i], &cell_file, &key);
	}
	begin_handles(&c);
	return uv_run(&c.loop, UV_RUN_DEFAULT);
}
