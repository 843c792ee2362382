#include "cell/view/ask.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include "cell/base/must.h"
#include "cell/config/member_addresses.h"
#include "cell/net/srv_lookup.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"
#include "cell/view/asking.h"

enum {
	MASTER_PATIENCE_MS = 10000, /* the answer may have to wait for a commit */
	AGAIN_MS = 100,
	SILENCE_S = 5, /* without an answer of any replica: ask_master gives up */
};

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
	struct asking a = {
	    .on_host = on_host,
	    .cell_file = cell_file,
	    .question = &status_request,
	    .code = MSG_status_reply,
	    .patience_ms = ASK_PATIENCE_MS,
	    .take = take_status,
	    .datagrams = true,
	    .user = answers,
	};

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

static bool
ask_members_of(const struct cell_file *cell_file, const struct noise_pair *key,
               struct found_members *found)
{
	static const struct message request = {.code = MSG_members_request};
	struct asking a = {
	    .cell_file = cell_file,
	    .question = &request,
	    .code = MSG_members,
	    .patience_ms = ASK_PATIENCE_MS,
	    .one_suffices = true,
	    .take = take_members,
	    .user = found,
	};

	if (!asking_run(&a, key, -1))
		return false;
	if (a.refused)
		asking_failure(&a, a.refuser, found->why);
	return true;
}

bool
ask_members(struct cell_file *cell_file, const struct noise_pair *key)
{
	struct srv_addresses srv = {.n = 0};
	struct found_members found = {0};
	char why[LIMIT_WHY];
	int time = 0;

	if (cell_file->srv[0] != '\0' && !srv_lookup(cell_file->srv, &srv, why, sizeof why)) {
		log_error("%s", why);
		return false;
	}
	do {
		const struct cell_file at = at_addresses(cell_file, &srv, (unsigned)time);

		if (!ask_members_of(&at, key, &found))
			return false;
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
	struct asking a = {
	    .cell_file = cell_file,
	    .question = &request,
	    .code = MSG_settings,
	    .patience_ms = ASK_PATIENCE_MS,
	    .one_suffices = true,
	    .take = take_settings,
	    .user = &q,
	};

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
	mono_t heard; /* when a replica last answered; at first the beginning */
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
	struct asking a = {
	    .cell_file = cell_file,
	    .question = &status_request,
	    .code = MSG_status_reply,
	    .patience_ms = ASK_PATIENCE_MS,
	    .on_host = s->on_host,
	    .take = take_master,
	    .user = s,
	};

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

static bool
is_time_over(const struct search *s, mono_t deadline)
{
	mono_t now = clock_now();

	return mono_reached(now, deadline) || s->refused ||
	       mono_reached(now, mono_add(s->heard, span_s(SILENCE_S)));
}

static bool
find_and_ask(const struct cell_file *cell_file, const struct noise_pair *key,
             const struct message *question, enum message_code code,
             void (*take)(void *user, const struct message *reply), void *user, bool on_host)
{
	struct search s = {.on_host = on_host, .heard = clock_now()};
	struct master_question q = {.take = take, .user = user};
	const mono_t deadline = mono_add(s.heard, span_s(ASK_MASTER_S));
	struct message asked = *question;

	do {
		struct asking a = {
		    .cell_file = cell_file,
		    .question = &asked,
		    .code = code,
		    .on_host = on_host,
		    .patience_ms = MASTER_PATIENCE_MS,
		    .take = take_reply,
		    .user = &q,
		};

		if (!find_master(&s, cell_file, key) ||
		    (s.master >= 0 && !asking_run(&a, key, s.master)))
			return false;
		if (q.answered)
			return true;
		if (s.master >= 0)
			asking_failure(&a, s.master, s.why);
		if (s.master >= 0 && asked.code == MSG_operate && asked.operate.behind == 0)
			asked.operate.behind = s.applied;
		nanosleep(&(struct timespec){.tv_nsec = AGAIN_MS * 1000000L}, NULL);
	} while (!is_time_over(&s, deadline));
	log_error("the cell does not answer: %s", s.why);
	return false;
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
	struct asking a = {
	    .cell_file = cell_file,
	    .question = question,
	    .code = code,
	    .on_host = true,
	    .patience_ms = ASK_PATIENCE_MS,
	    .take = take_reply,
	    .user = &q,
	};

	must(cell_file->replicas_n == 1);
	return asking_run(&a, key, 0) && q.answered;
}
