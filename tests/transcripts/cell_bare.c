/* Clients that send only what the script says:
 *
 *   bare b [caching] [as x] connects to the master, and opens a session; `as`: in the process of
 *                           the replica, as another principal than the administrator
 *   b: connect [at 2]       a new connection; the one before stays as it is
 *   b: open [instead of a]  asks for a session; a's is to end first, as expired
 *   b: attach [at 2]        drops its connection, and goes on with its session on a new one
 *   b: back                 the same, with two KeepAlives and `returned`, as after a fail-over
 *   b: drop | forget | claim a | nonce 9
 *                           hangs up; has no session any more; says that it has a's; another nonce
 *   b: steal a              knows a's tickets as its own
 *   b: keepalive [again]    `again`: by the number of the last one
 *   b: returned
 *   b: epoch 3              says so from now on
 *   b: [ordered] [number 7] [below 3] REQUEST
 *   b: again 7              the request of that number, as it was
 *   b: end [a] [expired]    a session, its own or by the nonce of another one
 *   b: asks begin_epoch     a request with an operation of that name, all of whose fields are 0
 *   b: sends nonsense | session_opened | orders
 *                           no message; what only replicas send; orders of an operator */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/transcripts/cell_player.h"

struct bare *
bare_find(const struct player *p, const char *name)
{
	for (int i = 0; i < p->bares_n; i++)
		if (strcmp(p->bares[i]->name, name) == 0)
			return p->bares[i];
	return NULL;
}

struct bare *
bare_of_conn(const struct player *p, uint64_t conn)
{
	for (int i = 0; i < p->bares_n; i++)
		if (p->bares[i]->conn == conn || p->bares[i]->earlier == conn)
			return p->bares[i];
	return NULL;
}

/* ---- what it sends ---- */

/* Numbers of connections in a replica's own process. */
#define LOCAL (1ull << 61)

static void
local_frame(void *user, struct bytes frame)
{
	struct bare *b = user;

	bare_heard(b->player, b, b->conn, CLIENT_FRAME, frame);
}

static void
local_closed(void *user)
{
	struct bare *b = user;

	bare_heard(b->player, b, b->conn, CLIENT_DISCONNECTED, (struct bytes){NULL, 0});
}

static void
connect_to(struct player *p, struct bare *b, uint64_t at)
{
	const struct server_client client = {local_frame, local_closed, b};

	if (b->principal[0] == '\0') {
		b->conn = player_connect(p, b->id, (int)at);
		return;
	}
	b->host = at > 0 ? &p->s->hosts[at - 1] : player_master(p);
	b->conn = LOCAL | server_connect(b->host->server, &client, b->principal);
	host_settle(p->s, b->host);
}

static void
send_frame(struct player *p, const struct bare *b, struct bytes frame)
{
	if ((b->conn & LOCAL) == 0) {
		net_to_node(p->s, b->conn, frame);
	} else if (b->host->up) {
		server_send(b->host->server, b->conn & ~LOCAL, frame);
		host_settle(p->s, b->host);
	}
}

static void
send_message(struct player *p, const struct bare *b, const struct message *m)
{
	struct buffer frame = BUFFER(LIMIT_FRAME);

	if (b->conn == 0) {
		player_say(p, "%s: no connection", b->name);
		return;
	}
	wire_put_frame(&frame, m);
	must(!frame.failed);
	send_frame(p, b, buffer_view(&frame));
	buffer_free(&frame);
}

static void
new_nonce(struct player *p, struct bare *b, uint8_t n)
{
	memset(b->nonce, n, sizeof b->nonce);
	b->nonce[0] = (uint8_t)p->names.nonces;
	b->nonce[1] = (uint8_t)(p->names.nonces++ >> 8);
}

static void
hang_up(struct player *p, struct bare *b)
{
	if ((b->conn & LOCAL) != 0 && b->host->up)
		server_disconnect(b->host->server, b->conn & ~LOCAL);
	else if (b->conn != 0)
		net_client_drops(p->s, b->conn);
	b->conn = 0;
}

static void
send_open(struct player *p, const struct bare *b, const struct bare *earlier)
{
	struct message m = {.code = MSG_open_session};

	m.open_session = (struct msg_open_session){
	    .session = b->session,
	    .nonce = {b->nonce, LIMIT_NONCE},
	    .host = bytes_of(b->name),
	    .caching = b->caching,
	    .epoch = b->epoch,
	};
	if (earlier != NULL) {
		m.open_session.earlier = earlier->session;
		m.open_session.earlier_nonce = (struct bytes){earlier->nonce, LIMIT_NONCE};
	}
	send_message(p, b, &m);
}

static void
send_keepalive(struct player *p, const struct bare *b)
{
	const struct message m = {.code = MSG_keepalive,
	                          .keepalive = {b->session, b->epoch, b->sequence}};

	send_message(p, b, &m);
}

static void
send_returned(struct player *p, const struct bare *b)
{
	send_message(p, b,
	             &(struct message){.code = MSG_returned, .returned = {b->session, b->epoch}});
}

static void
send_request(struct player *p, const struct bare *b, struct msg_request request, struct bytes op)
{
	request.session = b->session;
	request.epoch = b->epoch;
	request.op = op;
	if (request.below == 0)
		request.below = 1;
	history_scripted(p->s, &request);
	send_message(p, b, &(struct message){.code = MSG_request, .request = request});
}

static void
send_op(struct player *p, const struct bare *b, struct msg_request request, const struct op *op)
{
	struct buffer encoded = BUFFER(LIMIT_ENTRY);

	wire_put_op(&encoded, op);
	must(!encoded.failed);
	send_request(p, b, request, buffer_view(&encoded));
	buffer_free(&encoded);
}

/* ---- commands ---- */

bool
bare_new(struct player *p, struct words *w)
{
	const char *name = words_next(w);
	struct bare *b = bare_find(p, name);

	must(p->bares_n < BARES_MAX && strlen(name) < WORD_ROOM);
	if (b == NULL) {
		b = memory_zero(1, sizeof *b);
		b->id = SCRIPTED + p->bares_n;
		p->bares[p->bares_n++] = b;
	}
	*b = (struct bare){.id = b->id, .player = p};
	strcpy(b->name, name);
	b->caching = words_take(w, "caching");
	if (words_take(w, "as"))
		snprintf(b->principal, sizeof b->principal, "%s", words_next(w));
	new_nonce(p, b, 0);
	connect_to(p, b, 0);
	send_open(p, b, NULL);
	return words_done(w);
}

static bool
take_replica(struct words *w, uint64_t *at)
{
	*at = 0;
	return !words_take(w, "at") || words_number(w, at);
}

static bool
connection_command(struct player *p, struct bare *b, struct words *w, const char *word)
{
	uint64_t at;

	if (strcmp(word, "drop") == 0) {
		hang_up(p, b);
		return true;
	}
	if (!take_replica(w, &at))
		return false;
	if (strcmp(word, "connect") != 0)
		hang_up(p, b);
	b->earlier = b->conn;
	connect_to(p, b, at);
	b->sequence = 0;
	if (strcmp(word, "connect") == 0)
		return true;
	send_open(p, b, NULL);
	if (strcmp(word, "attach") == 0)
		return true;
	p->hide_keepalives = true;
	sim_settle(p->s, MS);
	for (int i = 0; i < 2; i++) {
		b->sequence++;
		send_keepalive(p, b);
	}
	send_returned(p, b);
	sim_settle(p->s, MS);
	p->hide_keepalives = false;
	return true;
}

static bool
session_command(struct player *p, struct bare *b, struct words *w, const char *word)
{
	const struct bare *other = NULL;
	uint64_t n = 0;

	if (strcmp(word, "open") == 0) {
		if (words_take(w, "instead") && words_take(w, "of") &&
		    (other = bare_find(p, words_next(w))) == NULL)
			return false;
		send_open(p, b, other);
	} else if (strcmp(word, "forget") == 0) {
		b->session = 0;
		new_nonce(p, b, 0);
	} else if (strcmp(word, "nonce") == 0) {
		if (!words_number(w, &n))
			return false;
		new_nonce(p, b, (uint8_t)n);
	} else { /* claim, also with the nonce */
		if ((other = bare_find(p, words_next(w))) == NULL)
			return false;
		b->session = other->session;
		b->epoch = other->epoch;
		if (words_take(w, "wholly"))
			memcpy(b->nonce, other->nonce, sizeof b->nonce);
	}
	return true;
}

static bool
end_command(struct player *p, struct bare *b, struct words *w, struct msg_request request)
{
	struct op op = {.code = OP_end_session, .end_session.cause = SESSION_CLOSED};
	const struct bare *other = b;

	if (!words_done(w) && !words_take(w, "expired")) {
		other = bare_find(p, words_next(w));
		if (other == NULL)
			return false;
		if (words_take(w, "proven"))
			op.end_session.nonce = (struct bytes){other->nonce, LIMIT_NONCE};
	}
	if (strcmp(w->text[w->n - 1], "expired") == 0) {
		op.end_session.cause = SESSION_EXPIRED;
		op.end_session.nonce = (struct bytes){other->nonce, LIMIT_NONCE};
		w->at = w->n;
	}
	op.end_session.session = other->session;
	send_op(p, b, request, &op);
	return true;
}

static bool
asks_command(struct player *p, const struct bare *b, const char *name, struct msg_request request)
{
	for (int code = 1; code < 128; code++) {
		const struct op op = {.code = (enum op_code)code};

		if (strcmp(wire_op_name((enum op_code)code), name) == 0) {
			send_op(p, b, request, &op);
			return true;
		}
	}
	if (strcmp(name, "nonsense") != 0)
		return false;
	send_request(p, b, request, bytes_of("\xff\xff"));
	return true;
}

/* What only an administrator may order. */
static void
send_orders(struct player *p, const struct bare *b)
{
	const struct member m = seat_member((struct seat){.body = 9});
	const struct msg_operate all[] = {
	    {.what = OPERATION_ADD_REPLICA, .address = m.address, .key = m.key},
	    {.what = OPERATION_REMOVE_REPLICA, .id = 2},
	    {.what = OPERATION_TRANSFER},
	    {.what = OPERATION_SET, .setting = bytes_of("session_lease"), .value = 20000},
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		send_message(p, b, &(struct message){.code = MSG_operate, .operate = all[i]});
	send_message(p, b, &(struct message){.code = MSG_sessions_request});
}

static bool
sends_command(struct player *p, const struct bare *b, const char *what)
{
	if (strcmp(what, "nonsense") == 0)
		send_frame(p, b, bytes_of("nonsense"));
	else if (strcmp(what, "session_opened") == 0)
		send_message(p, b, &(struct message){.code = MSG_session_opened});
	else if (strcmp(what, "orders") == 0)
		send_orders(p, b);
	else
		return false;
	return true;
}

static bool
again_command(struct player *p, const struct bare *b, uint64_t number)
{
	const struct record *r = history_find(p->s, b->session, number);

	if (r == NULL)
		return false;
	send_request(p, b, (struct msg_request){.number = number, .ordered = r->ordered},
	             r->encoded);
	return true;
}

static bool
request_command(struct player *p, struct bare *b, struct words *w)
{
	struct msg_request request = {.ordered = words_take(w, "ordered")};
	const char *word;
	struct op op;

	if (words_take(w, "number") && !words_number(w, &request.number))
		return false;
	if (words_take(w, "below") && !words_number(w, &request.below))
		return false;
	if (request.number == 0 && !words_take(w, "unnumbered"))
		request.number = ++b->number;
	word = words_next(w);
	if (strcmp(word, "end") == 0)
		return end_command(p, b, w, request);
	if (strcmp(word, "asks") == 0)
		return asks_command(p, b, words_next(w), request);
	w->at--;
	if (!words_op(p->s, &p->names, &b->locks, w, &op))
		return false;
	send_op(p, b, request, &op);
	return true;
}

static bool
is_one_of(const char *word, const char *const *list)
{
	for (; *list != NULL; list++)
		if (strcmp(*list, word) == 0)
			return true;
	return false;
}

/* "open f", not "open" or "open instead of a". */
static bool
opens_file(const struct words *w, const char *word)
{
	return strcmp(word, "open") == 0 && !words_done(w) &&
	       strcmp(w->text[w->at], "instead") != 0;
}

static bool
steal_command(const struct player *p, struct bare *b, struct words *w)
{
	const struct bare *of = bare_find(p, words_next(w));

	if (of != NULL)
		b->locks = of->locks;
	return of != NULL;
}

bool
bare_command(struct player *p, struct bare *b, struct words *w)
{
	static const char *const connections[] = {"connect", "attach", "back", "drop", NULL};
	static const char *const sessions[] = {"open", "forget", "claim", "nonce", NULL};
	const char *word = words_next(w);
	uint64_t n;

	if (is_one_of(word, connections))
		return connection_command(p, b, w, word);
	if (is_one_of(word, sessions) && !opens_file(w, word))
		return session_command(p, b, w, word);
	if (strcmp(word, "steal") == 0)
		return steal_command(p, b, w);
	if (strcmp(word, "keepalive") == 0) {
		b->sequence += !words_take(w, "again");
		send_keepalive(p, b);
		return true;
	}
	if (strcmp(word, "returned") == 0) {
		send_returned(p, b);
		return true;
	}
	if (strcmp(word, "epoch") == 0)
		return words_number(w, &b->epoch);
	if (strcmp(word, "again") == 0)
		return words_number(w, &n) && again_command(p, b, n);
	if (strcmp(word, "sends") == 0)
		return sends_command(p, b, words_next(w));
	w->at--;
	return request_command(p, b, w);
}

/* ---- what comes back ---- */

static void
on_opened(struct player *p, struct bare *b, const struct msg_session_opened *m)
{
	if (m->rc == RC_NOT_MASTER) {
		player_say(p, "%s: NOT_MASTER, replica %u is", b->name, m->master);
		return;
	}
	if (m->rc != RC_OK) {
		player_say(p, "%s: no session: %s, epoch %lu", b->name, rc_name(m->rc),
		           (unsigned long)m->epoch);
		return;
	}
	b->session = m->session;
	b->epoch = m->epoch;
	player_say(p, "%s: session %lu is open, epoch %lu", b->name, (unsigned long)m->session,
	           (unsigned long)m->epoch);
}

static void
on_keepalive(struct player *p, const struct bare *b, const struct msg_keepalive_reply *m)
{
	if (p->hide_keepalives)
		return;
	if (m->rc != RC_OK)
		player_say(p, "%s: KeepAlive %lu: %s", b->name, (unsigned long)m->sequence,
		           rc_name(m->rc));
	else
		player_say(p, "%s: KeepAlive %lu: lease %u ms", b->name, (unsigned long)m->sequence,
		           m->lease_ms);
}

static void
on_reply(struct player *p, struct bare *b, const struct msg_reply *m)
{
	const struct record *r = history_find(p->s, b->session, m->number);
	struct buffer text = BUFFER(4096);
	struct result result;

	if (r == NULL) {
		player_say(p, "%s: %lu: %s", b->name, (unsigned long)m->number, rc_name(m->rc));
		return;
	}
	history_scripted_answer(p->s, b->session, m);
	if (r->op.code == OP_acquire && m->rc == RC_QUEUED &&
	    wire_get_result(RESULT_acquired, m->result, &result) == RC_OK)
		locks_note_ticket(&b->locks, &r->op.acquire.acquire, result.acquired.ticket);
	print_op(&text, p->s, &r->op);
	buffer_printf(&text, ": ");
	print_result(&text, &r->op, (enum rc)m->rc, m->result);
	player_say(p, "%s: %lu %.*s", b->name, (unsigned long)m->number, (int)text.len,
	           (const char *)text.data);
	buffer_free(&text);
}

static void
on_granted(struct player *p, const struct bare *b, const struct msg_granted *m)
{
	const char *path = trace_path(p->s, m->node);

	if (m->rc != RC_OK)
		player_say(p, "%s: not granted %s to %lu: %s", b->name, path + 1,
		           (unsigned long)m->owner, rc_name(m->rc));
	else
		player_say(p,
		           "%s: granted %s to %lu, acquisition %lu, lock generation %lu, "
		           "token %lu",
		           b->name, path + 1, (unsigned long)m->owner,
		           (unsigned long)m->acquisition, (unsigned long)m->lock_generation,
		           (unsigned long)m->fence);
}

static void
on_message(struct player *p, struct bare *b, const struct message *m)
{
	struct buffer text = BUFFER(4096);

	switch (m->code) {
	case MSG_session_opened:
		on_opened(p, b, &m->session_opened);
		return;
	case MSG_keepalive_reply:
		on_keepalive(p, b, &m->keepalive_reply);
		return;
	case MSG_reply:
		on_reply(p, b, &m->reply);
		return;
	case MSG_granted:
		on_granted(p, b, &m->granted);
		return;
	case MSG_members:
		return; /* at each opening */
	default:
		wire_print_message(&text, m);
		player_say(p, "%s: %.*s", b->name, (int)text.len, (const char *)text.data);
		buffer_free(&text);
	}
}

void
bare_heard(struct player *p, struct bare *b, uint64_t conn, enum client_event_kind kind,
           struct bytes frame)
{
	struct message m;

	if (kind == CLIENT_DISCONNECTED) {
		player_say(p, "%s: the %sconnection is closed", b->name,
		           conn == b->conn ? "" : "earlier ");
		*(conn == b->conn ? &b->conn : &b->earlier) = 0;
	}
	if (kind != CLIENT_FRAME)
		return;
	must(wire_get_frame(frame, &m) == RC_OK);
	on_message(p, b, &m);
}
