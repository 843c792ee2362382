#include "cell/view/asking.h"

#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include "cell/base/must.h"
#include "cell/sys/log.h"
#include "cell/wire/codec.h"

enum {
	LINGER_MS = 200,           /* wait for further answers, when one suffices */
	DATAGRAMS = 2,             /* one may be lost */
	DATAGRAM_LINGER_MS = 1000, /* a busy machine is no firewall */
};

/* ---- the end ---- */

static void on_timer(uv_timer_t *timer);

/* Once all have answered over TCP, the datagrams have DATAGRAM_LINGER_MS. */
static void
wait_for_datagrams(struct asking *a)
{
	const struct answer *answers = a->user;

	for (int i = 0; i < a->cell_file->replicas_n; i++)
		if (a->conns[i] != 0 && !answers[i].heard)
			return;
	must(uv_timer_start(&a->timer, on_timer, DATAGRAM_LINGER_MS, 0) == 0);
}

static void
settled(struct asking *a, int i)
{
	a->conns[i] = 0;
	if (--a->open > 0) {
		if (a->datagrams)
			wait_for_datagrams(a);
		return;
	}
	uv_close((uv_handle_t *)&a->timer, NULL);
	transport_stop(a->transport, NULL, NULL);
}

static void
give_up(struct asking *a, int i, const char *why)
{
	snprintf(a->why[i], sizeof a->why[i], "%s", why);
	settled(a, i);
}

static void
on_timer(uv_timer_t *timer)
{
	struct asking *a = timer->data;

	for (int i = 0; i < a->cell_file->replicas_n; i++) {
		if (a->conns[i] == 0)
			continue;
		transport_close(a->transport, a->conns[i]);
		give_up(a, i, "no answer in time");
	}
}

/* ---- connections ---- */

/* The index of the connection's replica; negative: its question is answered or given up already. */
static int
replica_at(const struct asking *a, uint64_t conn)
{
	for (int i = 0; i < a->cell_file->replicas_n; i++)
		if (a->conns[i] == conn)
			return i;
	return -1;
}

static bool
on_opened(void *user, uint64_t conn, enum channel_role role, const uint8_t key[NOISE_KEY])
{
	struct asking *a = user;
	struct buffer frame = BUFFER(LIMIT_FRAME);

	(void)role;
	(void)key; /* the channel has checked that it is the replica's */
	wire_put_frame(&frame, a->question);
	must(!frame.failed);
	transport_send(a->transport, conn, buffer_view(&frame));
	buffer_free(&frame);
	return true;
}

/* Every replica names the master to each new connection. Only a message that names another replica
 * is an answer: the asked one is not the master. */
static bool
is_elsewhere(const struct asking *a, int i, const struct message *m)
{
	return m->code == MSG_redirect && a->code != MSG_status_reply && a->code != MSG_members &&
	       a->code != MSG_settings && m->redirect.master != a->cell_file->replicas[i].id;
}

static void
on_answer(struct asking *a, int i, const struct message *m)
{
	const bool enough = a->take(a, i, m);

	if (a->one_suffices && !a->heard)
		must(uv_timer_start(&a->timer, on_timer, LINGER_MS, 0) == 0);
	a->heard = true;
	settled(a, i);
	if (enough && a->open > 0)
		on_timer(&a->timer);
}

static void
send_datagrams(const struct asking *a, uint64_t conn)
{
	const struct message probe = {.code = MSG_keepalive};
	struct buffer frame = BUFFER(LIMIT_FRAME);

	wire_put_frame(&frame, &probe);
	for (int i = 0; i < DATAGRAMS; i++)
		transport_send_datagram(a->transport, conn, buffer_view(&frame));
	buffer_free(&frame);
}

static void
on_datagram(void *user, uint64_t conn, struct bytes frame)
{
	struct asking *a = user;
	const int i = replica_at(a, conn);

	(void)frame;
	if (i < 0)
		return;
	transport_close(a->transport, conn);
	((struct answer *)a->user)[i].datagrams = true;
	settled(a, i);
}

static void
on_frame(void *user, uint64_t conn, struct bytes frame)
{
	struct asking *a = user;
	struct message message;
	bool good = wire_get_frame(frame, &message) == RC_OK;
	int i = replica_at(a, conn);

	if (i < 0)
		return;
	if (good && message.code != a->code && !is_elsewhere(a, i, &message))
		return; /* a replica may announce other things before its answer */
	if (good && a->datagrams && message.code == a->code) {
		a->take(a, i, &message);
		send_datagrams(a, conn);
		wait_for_datagrams(a);
		return;
	}
	transport_close(a->transport, conn);
	if (!good)
		give_up(a, i, "it speaks another version of the protocol");
	else if (message.code != a->code)
		give_up(a, i, "it is no longer the master");
	else
		on_answer(a, i, &message);
}

static void
on_closed(void *user, uint64_t conn, const char *why)
{
	struct asking *a = user;
	int i = replica_at(a, conn);

	if (i < 0)
		return;
	if (why == transport_unknown_key || why == transport_other_cell) {
		a->refused = true;
		a->refuser = i;
	}
	give_up(a, i, why ? why : "it closed the connection");
}

void
asking_failure(const struct asking *a, int i, char why[256])
{
	const struct cell_file_replica *r = &a->cell_file->replicas[i];

	snprintf(why, 256, "replica %d at %.64s: %s", r->id, r->address, a->why[i]);
}

/* ---- asking ---- */

static int
start(struct asking *a, const struct noise_pair *key)
{
	struct transport_config config = {
	    .own = key,
	    .patience = span_ms(ASK_PATIENCE_MS),
	    .callbacks = {.opened = on_opened, .frame = on_frame, .closed = on_closed, .user = a},
	};
	int rc = uv_loop_init(&a->loop);

	if (rc < 0)
		return rc;
	if (a->datagrams)
		config.callbacks.datagram = on_datagram;
	memcpy(config.cell_id, a->cell_file->id, sizeof config.cell_id);
	rc = transport_new(&a->transport, &a->loop, &config);
	if (rc < 0) {
		must(uv_loop_close(&a->loop) == 0);
		return rc;
	}
	must(uv_timer_init(&a->loop, &a->timer) == 0);
	a->timer.data = a;
	must(uv_timer_start(&a->timer, on_timer, (uint64_t)a->patience_ms, 0) == 0);
	return 0;
}

bool
asking_run(struct asking *a, const struct noise_pair *key, int only)
{
	const struct cell_file_replica *r;
	int rc;

	signal(SIGPIPE, SIG_IGN);
	rc = sodium_init() < 0 ? UV_EIO : start(a, key);
	if (rc < 0) {
		log_error("cannot ask the replicas: %s", uv_strerror(rc));
		return false;
	}
	for (int i = 0; i < a->cell_file->replicas_n; i++) {
		if (only >= 0 && only != i)
			continue;
		r = &a->cell_file->replicas[i];
		a->conns[i] =
		    transport_connect(a->transport, r->address,
		                      a->on_host ? CHANNEL_HOST : CHANNEL_CLIENT, r->public_key);
		a->open++;
	}
	uv_run(&a->loop, UV_RUN_DEFAULT);
	must(uv_loop_close(&a->loop) == 0);
	return true;
}
