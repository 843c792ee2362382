#include "cell/view/ask.h"

#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "cell/base/must.h"
#include "cell/config/member_addresses.h"
#include "cell/net/srv_lookup.h"
#include "cell/net/transport.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"
#include "cell/wire/codec.h"

enum {
	MASTER_PATIENCE_MS = 10000, /* then there may be another one */
	AGAIN_MS = 100,
	SILENCE_S = 5,             /* of all replicas that are asked: ask_master gives up */
	LINGER_MS = 200,           /* wait for further answers, when one suffices */
	DATAGRAMS = 2,             /* one may be lost */
	DATAGRAM_LINGER_MS = 1000, /* a busy machine is no firewall */
};

/* One question to several replicas at once, and their answers. */
struct asking {
	const struct cell_file *cell_file;
	const struct message *question;
	enum message_code code; /* of the answer */
	int patience_ms;
	bool one_suffices; /* after a first answer the other replicas have a moment */
	bool on_host;      /* the key is that of a replica on this machine */
	bool datagrams; /* after its answer a replica is sent datagrams, one of which it answers */
	/* Called with the answer of replicas[i]; true: no further answer is needed. */
	bool (*take)(struct asking *a, int i, const struct message *m);
	void *user;

	char why[LIMIT_REPLICAS][160]; /* the reason for no answer; empty: the replica answered */
	struct transport *transport;
	uv_loop_t loop;
	uv_timer_t timer;
	uint64_t conns[LIMIT_REPLICAS];
	int open;     /* questions without an answer */
	bool heard;   /* a replica has answered */
	bool refused; /* a replica refused us for a reason that a repetition would not change: */
	int refuser;  /* its index */
};

/* ---- the end of asking ---- */

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

/* Says in `why` that replicas[i] did not answer, and for what reason. */
static void
asking_failure(const struct asking *a, int i, char why[256])
{
	const struct cell_file_replica *r = &a->cell_file->replicas[i];

	snprintf(why, 256, "replica %d at %.64s: %s", r->id, r->address, a->why[i]);
}

/* ---- asking ---- */

static struct asking
asking_of(const struct cell_file *cell_file, const struct message *question, enum message_code code,
          bool (*take)(struct asking *a, int i, const struct message *m), void *user)
{
	return (struct asking){.cell_file = cell_file,
	                       .question = question,
	                       .code = code,
	                       .patience_ms = ASK_PATIENCE_MS,
	                       .take = take,
	                       .user = user};
}

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

/* Asks replicas[only] or, when that is negative, all replicas, and returns when all have answered,
 * or the time has passed. False after an error message. */
static bool
asking_run(struct asking *a, const struct noise_pair *key, int only)
{
	const struct cell_file_replica *r;
	int rc;

	signal(SIGPIPE, SIG_IGN);
	rc = sodium_init() < 0 ? UV_EIO : start(a, key);
	if (rc < 0)
		return log_error("cannot ask the replicas: %s", uv_strerror(rc));
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

/* ---- the status of replicas ---- */

static bool
take_status(struct asking *a, int i, const struct message *m)
{
	answer_take(&((struct answer *)a->user)[i], &m->status_reply);
	return false;
}

static const struct message status_request = {.code = MSG_status_request};

static bool
ask_status(const struct cell_file *cell_file, const struct noise_pair *key, bool on_host,
           struct answer answers[LIMIT_REPLICAS])
{
	struct asking a =
	    asking_of(cell_file, &status_request, MSG_status_reply, take_status, answers);

	a.on_host = on_host;
	a.datagrams = true;
	memset(answers, 0, sizeof *answers * LIMIT_REPLICAS);
	if (!asking_run(&a, key, -1))
		return false;
	for (int i = 0; i < cell_file->replicas_n; i++)
		if (!answers[i].heard)
			snprintf(answers[i].why, sizeof answers[i].why, "%s", a.why[i]);
	return true;
}

bool
ask_replicas(const struct cell_file *cell_file, const struct noise_pair *key,
             struct answer answers[LIMIT_REPLICAS])
{
	return ask_status(cell_file, key, false, answers);
}

bool
ask_replicas_on_host(const struct cell_file *cell_file, const struct noise_pair *key,
                     struct answer answers[LIMIT_REPLICAS])
{
	return ask_status(cell_file, key, true, answers);
}

/* ---- the members ---- */

struct found_members {
	uint64_t version;
	struct cell_file_replica list[LIMIT_REPLICAS];
	int n;         /* 0: no replica has answered */
	char why[256]; /* the reason for which a replica has refused us; empty if none has */
};

/* Keeps the newest list: a replica that was partitioned off may send an old one. */
static bool
take_members(struct asking *a, int i, const struct message *m)
{
	static struct cell_file_replica told[LIMIT_MEMBERS];
	struct found_members *found = a->user;
	const int n = member_addresses_of(&m->members.members, told);

	(void)i;
	if (found->n > 0 && m->members.version <= found->version)
		return false;
	found->version = m->members.version;
	found->n = 0;
	for (int k = 0; k < n && found->n < LIMIT_REPLICAS; k++)
		if (told[k].role != MEMBER_REMOVED && told[k].address[0] != '\0')
			found->list[found->n++] = told[k];
	return false;
}

/* The cell file, with the addresses at which attempt `time`, from 0 on, tries its replicas. */
static struct cell_file
at_addresses(const struct cell_file *cell_file, const struct srv_addresses *srv, unsigned time)
{
	struct cell_file at = *cell_file;

	for (int i = 0; i < at.replicas_n && srv->n > 0; i++)
		snprintf(at.replicas[i].address, sizeof at.replicas[i].address, "%s",
		         srv_address(srv, cell_file->replicas[i].address, i, time));
	return at;
}

bool
ask_members(struct cell_file *cell_file, const struct noise_pair *key)
{
	static const struct message request = {.code = MSG_members_request};
	struct srv_addresses srv = {.n = 0};
	struct found_members found = {0};
	char why[LIMIT_WHY];
	int time = 0;

	if (cell_file->srv[0] != '\0' && !srv_lookup(cell_file->srv, &srv, why, sizeof why))
		return log_error("%s", why);
	do {
		const struct cell_file at = at_addresses(cell_file, &srv, (unsigned)time);
		struct asking a = asking_of(&at, &request, MSG_members, take_members, &found);

		a.one_suffices = true;
		if (!asking_run(&a, key, -1))
			return false;
		if (a.refused)
			asking_failure(&a, a.refuser, found.why);
	} while (found.n == 0 && ++time < srv.n);
	if (found.n == 0 && found.why[0] != '\0')
		log_error("the cell does not answer: %s", found.why);
	if (found.n == 0)
		return found.why[0] == '\0';
	memcpy(cell_file->replicas, found.list, sizeof found.list);
	cell_file->replicas_n = found.n;
	cell_file->version = found.version;
	cell_file->srv[0] = '\0'; /* the cell's own list counts from here on */
	return true;
}

/* ---- the settings ---- */

struct settings_question {
	void (*take)(void *user, const struct message *reply);
	void *user;
	uint64_t applied;
};

/* The newest state counts: a replica that is behind may be the first to answer. */
static bool
take_settings(struct asking *a, int i, const struct message *m)
{
	struct settings_question *q = a->user;

	(void)i;
	if (m->settings.applied < q->applied)
		return false;
	q->applied = m->settings.applied;
	q->take(q->user, m);
	return false;
}

bool
ask_settings(const struct cell_file *cell_file, const struct noise_pair *key,
             void (*take)(void *user, const struct message *reply), void *user)
{
	static const struct message request = {.code = MSG_settings_request};
	struct settings_question q = {.take = take, .user = user};
	struct asking a = asking_of(cell_file, &request, MSG_settings, take_settings, &q);

	a.one_suffices = true;
	return asking_run(&a, key, -1) && a.heard;
}

/* ---- the master ---- */

struct master_question {
	void (*take)(void *user, const struct message *reply);
	void *user;
	bool answered;
};

static bool
take_reply(struct asking *a, int i, const struct message *m)
{
	struct master_question *q = a->user;

	(void)i;
	q->answered = true;
	q->take(q->user, m);
	return true;
}

/* The search for the master that answers a question. */
struct search {
	bool on_host;
	uint64_t applied; /* the index that the replica had applied that calls itself the master */
	int master;   /* index of the replica that calls itself the master; negative if none does */
	mono_t heard; /* when a replica last answered, or a master was waited for; or the start */
	mono_t had;   /* when a master was last waited for; or the start */
	mono_t end;   /* in any case */
	bool refused; /* a replica refuses us for good, and none has answered */
	char why[256]; /* the reason why the question is not answered yet */
};

/* Takes the replica that calls itself the master. It may have lost the mastership since: then it
 * answers the question so, or not at all. */
static bool
take_master(struct asking *a, int i, const struct message *m)
{
	struct search *s = a->user;

	if (m->status_reply.role != REPLICA_MASTER)
		return false;
	s->master = i;
	s->applied = m->status_reply.applied;
	return true;
}

/* False after an error message when no replica could be asked. */
static bool
find_master(struct search *s, const struct cell_file *cell_file, const struct noise_pair *key)
{
	struct asking a = asking_of(cell_file, &status_request, MSG_status_reply, take_master, s);

	a.on_host = s->on_host;
	s->master = -1;
	if (!asking_run(&a, key, -1))
		return false;
	s->refused = a.refused && !a.heard;
	if (a.heard) {
		s->heard = clock_now();
		snprintf(s->why, sizeof s->why, "no replica is master");
	} else {
		asking_failure(&a, a.refuser, s->why);
	}
	return true;
}

/* A master that is silent is no silence of the cell: meanwhile nobody else is asked. */
static bool
is_time_over(const struct search *s)
{
	const mono_t silence = mono_add(s->heard, span_s(SILENCE_S)),
	             vacancy = mono_add(s->had, span_s(ASK_VACANCY_S));

	return s->refused ||
	       mono_reached(clock_now(), mono_min(s->end, mono_min(silence, vacancy)));
}

/* An operator's command may be sent again, with `behind`: it takes no second effect. */
static bool
find_and_ask(const struct cell_file *cell_file, const struct noise_pair *key,
             const struct message *question, enum message_code code,
             void (*take)(void *user, const struct message *reply), void *user, bool on_host)
{
	const mono_t now = clock_now();
	struct search s = {.on_host = on_host,
	                   .heard = now,
	                   .had = now,
	                   .end = mono_add(now, span_s(ASK_MASTER_S))};
	struct master_question q = {.take = take, .user = user};
	struct message asked = *question;

	do {
		struct asking a = asking_of(cell_file, &asked, code, take_reply, &q);

		a.on_host = on_host;
		a.patience_ms = MASTER_PATIENCE_MS;
		if (!find_master(&s, cell_file, key))
			return false;
		if (s.master >= 0) {
			if (!asking_run(&a, key, s.master))
				return false;
			asking_failure(&a, s.master, s.why);
			s.heard = s.had = clock_now();
			if (asked.code == MSG_operate && asked.operate.behind == 0)
				asked.operate.behind = s.applied;
		}
		if (q.answered)
			return true;
		nanosleep(&(struct timespec){.tv_nsec = AGAIN_MS * 1000000L}, NULL);
	} while (!is_time_over(&s));
	return log_error("the cell does not answer: %s%s", s.why,
	                 asked.code == MSG_operate && asked.operate.behind > 0
	                     ? "; the command may have been carried out"
	                     : "");
}

bool
ask_master(const struct cell_file *cell_file, const struct noise_pair *key,
           const struct message *question, enum message_code code,
           void (*take)(void *user, const struct message *reply), void *user)
{
	return find_and_ask(cell_file, key, question, code, take, user, false);
}

bool
ask_master_on_host(const struct cell_file *cell_file, const struct noise_pair *key,
                   const struct message *question, enum message_code code,
                   void (*take)(void *user, const struct message *reply), void *user)
{
	return find_and_ask(cell_file, key, question, code, take, user, true);
}

bool
ask_given_master(const struct cell_file *cell_file, const struct noise_pair *key,
                 const struct message *question, enum message_code code,
                 void (*take)(void *user, const struct message *reply), void *user)
{
	struct master_question q = {.take = take, .user = user};
	struct asking a = asking_of(cell_file, question, code, take_reply, &q);

	a.on_host = true;
	must(cell_file->replicas_n == 1);
	return asking_run(&a, key, 0) && q.answered;
}
