#include "cell/page/page.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/config/identity.h"
#include "cell/page/internal.h"
#include "cell/page/web.h"
#include "cell/replica/replica.h"
#include "cell/sys/clock.h"
#include "cell/sys/secret.h"
#include "cell/view/cell_lists.h"
#include "cell/view/health.h"
#include "cell/wire/codec.h"
#include "cell/wire/condition.h"

enum {
	FRESH_MS = 1000, /* for this long the same answer is given again */
	NOTE_MS = 5000,
	PAGE_BYTES = 4 * 1024 * 1024,
	WAITING_MAX = WEB_WAITING / 2, /* for each of the two sheets */
};

#define TEXT "text/plain; charset=utf-8"
#define HTML "text/html; charset=utf-8"
#define PROMETHEUS "text/plain; version=0.0.4; charset=utf-8"

/* A page that takes a while to make. Requests that arrive meanwhile wait for the same one. */
struct sheet {
	struct web_answer *answer; /* the last one; NULL: none was made */
	mono_t made;
	bool making;
	struct web_request *waiting;
	int waiting_n;
};

/* The status page while a thread makes it. The thread has no access to anything else. */
struct making {
	uv_work_t work;
	struct page *page; /* the thread reads only its directory */
	struct answer own; /* of the replica itself */
	struct last_hour seen;
	struct buffer html;
};

struct page {
	uv_loop_t *loop;
	char *directory;
	char cell[LIMIT_CELL_NAME + 1];
	struct web *web;
	struct server *server; /* NULL if none is attached */
	uint64_t conn;         /* to it */
	struct answer own;     /* the last one of the replica to a request for its status */
	uv_timer_t note;
	struct last_hour seen;
	struct sheet metrics, status;
	bool asked;            /* a request for its status was sent to the replica */
	struct making *making; /* NULL: no thread runs */
	bool closing;
};

/* ---- answers ---- */

static struct web_answer *
answer_of_text(unsigned status, const char *text)
{
	struct buffer line = BUFFER(1024);

	buffer_printf(&line, "%s\n", text);
	return web_answer_new(status, TEXT, buffer_take(&line));
}

static void
reply_text(struct web_request *r, unsigned status, const char *text)
{
	struct web_answer *a = answer_of_text(status, text);

	web_reply(r, a);
	web_answer_release(a);
}

/* Takes the answer over and sends it to all requests that wait. */
static void
sheet_is_made(struct sheet *s, struct web_answer *answer)
{
	struct web_request *r;

	web_answer_release(s->answer);
	s->answer = answer;
	s->made = clock_now();
	s->making = false;
	s->waiting_n = 0;
	while ((r = s->waiting) != NULL) {
		s->waiting = r->next;
		web_reply(r, answer);
	}
}

static void
sheet_drop(struct sheet *s)
{
	sheet_is_made(s, answer_of_text(503, "the replica does not run"));
	web_answer_release(s->answer);
	s->answer = NULL;
}

/* ---- health ---- */

/* The reason why the replica does not work; NULL: it votes or learns, and knows a master. */
static const char *
ailment(const struct page *p)
{
	const struct replica *r = server_replica(p->server);
	const enum voting_condition condition = replica_condition(r);

	if (condition != CONDITION_VOTING && condition != CONDITION_LEARNER)
		return condition_words(condition)->means;
	return px_has_master(replica_px(r), clock_now()) ? NULL : "has no master";
}

static void
on_note(uv_timer_t *timer)
{
	struct page *p = timer->data;
	const struct tree *tree;

	if (p->server == NULL)
		return;
	tree = replica_tree(server_replica(p->server));
	last_hour_note(&p->seen, clock_now(), tree_usage(tree).applied, tree_epoch(tree),
	               replica_commits(server_replica(p->server)), ailment(p) == NULL);
}

/* ---- the status page ---- */

/* Asks the cell and makes the page; without an identity there is none. */
static void
make_status(uv_work_t *work)
{
	struct making *m = work->data;
	struct identity *identity = secret_new(sizeof *identity);
	struct cell_file *cell_file = &identity->cell_file;
	const struct asker asker = {ask_given_master, cell_file, &identity->pair};
	struct answer answers[LIMIT_REPLICAS] = {0};
	json_t *health, *locks = NULL, *sessions = NULL;
	char why[512];
	int own, master;

	if (!identity_read(m->page->directory, identity, why, sizeof why)) {
		secret_free(identity);
		return;
	}
	if (!cell_file_is_standalone(cell_file))
		ask_replicas_on_host(cell_file, &identity->pair, answers);
	own = cell_file_find(cell_file, identity->replica);
	if (own >= 0 && !answers[own].heard)
		answers[own] = m->own;
	health = health_json(cell_file, answers);

	/* Only the master is asked for locks and sessions: it becomes the only one in the list. */
	master = answers_master(answers, cell_file->replicas_n);
	if (master >= 0 && !cell_file_is_standalone(cell_file)) {
		cell_file->replicas[0] = cell_file->replicas[master];
		cell_file->replicas_n = 1;
		locks = cell_locks(&asker);
		sessions = cell_sessions(&asker);
	}
	status_page(&m->html, health, locks, sessions, &m->seen, identity->replica);
	json_decref(health);
	json_decref(locks);
	json_decref(sessions);
	secret_free(identity);
}

static void
page_free(struct page *p)
{
	free(p->directory);
	free(p);
}

static void
on_status_made(uv_work_t *work, int status)
{
	struct making *m = work->data;
	struct page *p = m->page;
	const bool made = status == 0 && m->html.len > 0 && !m->html.failed;

	p->making = NULL;
	if (p->closing) {
		buffer_free(&m->html);
		free(m);
		if (p->web == NULL)
			page_free(p);
		return;
	}
	if (p->status.making)
		sheet_is_made(&p->status, made ? web_answer_new(200, HTML, buffer_take(&m->html))
		                               : answer_of_text(503, "the page could not be made"));
	buffer_free(&m->html);
	free(m);
}

/* ---- the replica's answer ---- */

static void
on_frame(void *user, struct bytes frame)
{
	struct page *p = user;
	struct buffer text = BUFFER(PAGE_BYTES);
	struct making *m;
	struct message reply;

	if (wire_get_frame(frame, &reply) != RC_OK || reply.code != MSG_status_reply)
		return; /* other messages of the replica */
	p->asked = false;
	p->own = (struct answer){.datagrams = true}; /* the question was not sent by one */
	answer_take(&p->own, &reply.status_reply);
	if (p->metrics.making) {
		replica_metrics(&text, p->cell, &p->own, replica_commits(server_replica(p->server)),
		                ailment(p));
		sheet_is_made(&p->metrics, web_answer_new(200, PROMETHEUS, buffer_take(&text)));
	}
	if (!p->status.making || p->making != NULL)
		return;
	m = memory_zero(1, sizeof *m);
	m->page = p;
	m->own = p->own;
	m->seen = p->seen;
	m->html = BUFFER(PAGE_BYTES);
	m->work.data = m;
	p->making = m;
	must(uv_queue_work(p->loop, &m->work, make_status, on_status_made) == 0);
}

/* Only page_detach closes the connection. */
static void
on_closed(void *user)
{
	((struct page *)user)->server = NULL;
}

/* ---- requests ---- */

static void
on_sheet(struct page *p, struct sheet *s, struct web_request *r)
{
	static const struct message question = {.code = MSG_status_request};
	struct buffer frame = BUFFER(1024);

	if (s->answer != NULL && mono_before(clock_now(), mono_add(s->made, span_ms(FRESH_MS)))) {
		web_reply(r, s->answer);
		return;
	}
	if (s->waiting_n == WAITING_MAX) {
		reply_text(r, 503, "too many wait for the same: try again");
		return;
	}
	r->next = s->waiting;
	s->waiting = r;
	s->waiting_n++;
	s->making = true;
	if (p->asked)
		return;
	p->asked = true;
	wire_put_frame(&frame, &question);
	server_send(p->server, p->conn, buffer_view(&frame));
	buffer_free(&frame);
}

static void
on_request(void *user, struct web_request *r, const char *path)
{
	struct page *p = user;
	char text[LIMIT_WHY];
	const char *why;

	if (strcmp(path, "/") != 0 && strcmp(path, "/metrics") != 0 &&
	    strcmp(path, "/healthz") != 0)
		reply_text(r, 404, "there are /, /metrics and /healthz");
	else if (p->server == NULL)
		reply_text(r, 503, "the replica does not run");
	else if (strcmp(path, "/healthz") != 0)
		on_sheet(p, path[1] == '\0' ? &p->status : &p->metrics, r);
	else {
		why = ailment(p);
		snprintf(text, sizeof text, "%s: this replica %s", p->cell,
		         why != NULL ? why : "works");
		reply_text(r, why == NULL ? 200 : 503, text);
	}
}

/* ---- beginning and end ---- */

struct page *
page_open(uv_loop_t *loop, int listener, const char *directory)
{
	static struct cell_file cell_file;
	struct page *p = memory_zero(1, sizeof *p);
	char path[PATH_MAX], why[512];

	p->loop = loop;
	p->directory = bytes_to_text(bytes_of(directory));
	snprintf(path, sizeof path, "%s/cell.conf", directory);
	if (cell_file_read(path, &cell_file, why, sizeof why))
		snprintf(p->cell, sizeof p->cell, "%s", cell_file.name);
	p->web = web_open(&(struct web_config){.loop = loop,
	                                       .listener = listener,
	                                       .request = on_request,
	                                       .user = p});
	if (p->web == NULL) {
		page_free(p);
		return NULL;
	}
	must(uv_timer_init(loop, &p->note) == 0);
	p->note.data = p;
	must(uv_timer_start(&p->note, on_note, NOTE_MS, NOTE_MS) == 0);
	return p;
}

void
page_attach(struct page *p, struct server *server)
{
	const struct server_client client = {.frame = on_frame, .closed = on_closed, .user = p};

	p->server = server;
	p->asked = false;
	p->seen.commits = (struct latency){0};
	/* The page acts for no principal: a connection is closed with none. */
	p->conn = server_connect(server, &client, "");
}

/* A page that a thread may still be making is sent to no request. */
void
page_detach(struct page *p)
{
	if (p->server != NULL)
		server_disconnect(p->server, p->conn);
	p->server = NULL;
	sheet_drop(&p->metrics);
	sheet_drop(&p->status);
}

static void
on_web_closed(void *user)
{
	struct page *p = user;

	p->web = NULL;
	if (p->making == NULL)
		page_free(p);
}

static void
on_note_closed(uv_handle_t *handle)
{
	struct page *p = handle->data;

	web_close(p->web, on_web_closed, p);
}

void
page_close(struct page *p)
{
	must(p->server == NULL && !p->closing);
	p->closing = true;
	uv_close((uv_handle_t *)&p->note, on_note_closed);
}
