#include "ctl/ask.h"

#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include "cell/base/must.h"
#include "cell/io/log.h"
#include "cell/io/net.h"
#include "cell/wire/codec.h"

struct asking {
	const struct conf *conf;
	struct answer *answers;
	struct net *net;
	uv_loop_t loop;
	uv_timer_t timer;
	uint64_t conns[LIMIT_REPLICAS];
	int open; /* questions without an answer */
};

/* ---- the end ---- */

static void
on_net_stopped(void *user)
{
	(void)user; /* nothing is left on the loop: uv_run returns */
}

static void
finish(struct asking *a)
{
	uv_close((uv_handle_t *)&a->timer, NULL);
	net_stop(a->net, on_net_stopped, a);
}

static void
settled(struct asking *a, int i)
{
	a->conns[i] = 0;
	if (--a->open == 0)
		finish(a);
}

static void
give_up(struct asking *a, int i, const char *why)
{
	snprintf(a->answers[i].why, sizeof a->answers[i].why, "%s", why);
	settled(a, i);
}

static void
on_timer(uv_timer_t *timer)
{
	struct asking *a = timer->data;

	for (int i = 0; i < a->conf->replicas_n; i++) {
		if (a->conns[i] == 0)
			continue;
		net_close(a->net, a->conns[i]);
		give_up(a, i, "no answer in time");
	}
}

/* ---- conversations ---- */

/* Which replica the connection is to; negative: it is settled already. */
static int
replica_at(const struct asking *a, uint64_t conn)
{
	for (int i = 0; i < a->conf->replicas_n; i++)
		if (a->conns[i] == conn)
			return i;
	return -1;
}

static bool
on_opened(void *user, uint64_t conn, enum channel_role role, const uint8_t key[NOISE_KEY])
{
	static const struct message request = {.code = MSG_status_request};
	struct asking *a = user;
	struct buffer frame = BUFFER(64);

	(void)role;
	(void)key; /* the one that was asked for */
	wire_put_frame(&frame, &request);
	net_send(a->net, conn, buffer_view(&frame));
	buffer_free(&frame);
	return true;
}

static void
on_frame(void *user, uint64_t conn, struct bytes frame)
{
	struct asking *a = user;
	struct message message;
	bool good = wire_get_frame(frame, &message) == RC_OK;
	int i = replica_at(a, conn);

	if (i < 0 || (good && message.code != MSG_status_reply))
		return; /* it may announce something meanwhile */
	net_close(a->net, conn);
	if (!good) {
		give_up(a, i, "it speaks another version of the protocol");
		return;
	}
	a->answers[i].status = message.status_reply;
	a->answers[i].heard = true;
	settled(a, i);
}

static void
on_closed(void *user, uint64_t conn, const char *why)
{
	struct asking *a = user;
	int i = replica_at(a, conn);

	if (i >= 0)
		give_up(a, i, why ? why : "it closed the connection");
}

/* ---- asking ---- */

static int
start(struct asking *a, const struct noise_pair *key)
{
	struct net_config config = {
		.own = key, .patience = span_ms(ASK_PATIENCE_MS),
		.callbacks = {on_opened, on_frame, on_closed, a},
	};
	int rc = uv_loop_init(&a->loop);

	if (rc < 0)
		return rc;
	memcpy(config.cell_id, a->conf->signing_public, sizeof config.cell_id);
	rc = net_new(&a->net, &a->loop, &config);
	if (rc < 0) {
		must(uv_loop_close(&a->loop) == 0);
		return rc;
	}
	must(uv_timer_init(&a->loop, &a->timer) == 0);
	a->timer.data = a;
	must(uv_timer_start(&a->timer, on_timer, ASK_PATIENCE_MS, 0) == 0);
	return 0;
}

bool
ask_replicas(const struct conf *conf, const struct noise_pair *key,
             struct answer answers[LIMIT_REPLICAS])
{
	struct asking a = {.conf = conf, .answers = answers, .open = conf->replicas_n};
	int rc;

	memset(answers, 0, sizeof *answers * LIMIT_REPLICAS);
	signal(SIGPIPE, SIG_IGN);
	rc = sodium_init() < 0 ? UV_EIO : start(&a, key);
	if (rc < 0) {
		log_error("cannot ask the replicas: %s", uv_strerror(rc));
		return false;
	}
	for (int i = 0; i < conf->replicas_n; i++)
		a.conns[i] = net_connect(a.net, conf->replicas[i].address, CHANNEL_CLIENT,
		                         conf->replicas[i].public_key);
	uv_run(&a.loop, UV_RUN_DEFAULT);
	must(uv_loop_close(&a.loop) == 0);
	return true;
}

int
answers_master(const struct answer *answers, int n)
{
	int master = -1;

	for (int i = 0; i < n; i++)
		if (answers[i].heard && answers[i].status.role == REPLICA_MASTER &&
		    (master < 0 || answers[i].status.epoch > answers[master].status.epoch))
			master = i;
	return master;
}
