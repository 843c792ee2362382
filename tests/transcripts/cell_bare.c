/* Clients that send only what the script says:
 *
 *   bare b [caching] [lasting] [as x]
 *                           connects to the master, and opens a session; `as`: with the key of
 *                           another principal than the administrator
 *   b: connect [at 2]       a new connection; the one before stays as it is
 *   b: open [instead of a]  asks for a session; a's is to end first, as expired
 *   b: attach [at 2]        drops its connection, and goes on with its session on a new one
 *   b: back                 the same, with two KeepAlives and `returned`, as after a fail-over
 *   b: drop | forget | claim a | nonce 9
 *                           hangs up; has no session any more; says that it has a's; another nonce
 *   b: steal a              knows a's tickets as its own
 *   b: keepalive [again]    `again`: by the number of the last one
 *   b: datagram [of a]      a KeepAlive beside the connection; `of`: for a's session
 *   b: returned
 *   b: epoch 3              says so from now on
 *   b: generation 2         of its cache; says so from now on
 *   b: dropped 3 [leave 2 of f]
 *                           acknowledges all notices up to that one; gives leave back
 *   b: [ordered] [number 7] [below 3] [without f] [for eve] [through 3 [of a] [forged | raised]]
 *      REQUEST              `without`: it has dropped f from its cache for that; `for`: acts for
 *                           a user of its principal; `through`: a handle that was opened with the
 *                           rights in the answer to request 3, by their check digits; `forged`:
 *                           by others; `raised`: with all rights
 *   b: again 7              the request of that number, as it was
 *   b: watch [heard 3] [all] [f]
 *                           see cell_watches.c; the events up to that one were received
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

static void
connect_to(struct player *p, struct bare *b, uint64_t at)
{
	b->conn = player_connect(p, b->id, (int)at, b->seat);
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
	net_to_node(p->s, b->conn, buffer_view(&frame));
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
	if (b->conn != 0)
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
	    .lasting = b->lasting,
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
	                          .keepalive = {.session = b->session,
	                                        .epoch = b->epoch,
	                                        .sequence = b->sequence,
	                                        .generation = b->generation}};

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
	request.generation = b->generation;
	request.handle_rights = b->through.rights;
	if (request.handle_rights != 0)
		request.check = (struct bytes){b->through.check, LIMIT_CHECK};
	if (request.below == 0)
		request.below = 1;
	history_scripted(p->s, &request, b->through);
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

void
bare_new(struct player *p, struct script *w)
{
	const char *name = script_needed(w);
	struct bare *b = bare_find(p, name);

	must(p->bares_n < BARES_MAX && strlen(name) < WORD_ROOM);
	if (b == NULL) {
		b = memory_zero(1, sizeof *b);
		b->id = SCRIPTED + p->bares_n;
		p->bares[p->bares_n++] = b;
	}
	*b = (struct bare){.id = b->id, .seat = SEAT_ADMIN};
	strcpy(b->name, name);
	b->caching = script_take(w, "caching");
	b->lasting = script_take(w, "lasting");
	if (script_take(w, "as"))
		b->seat = (uint8_t)script_needed(w)[0]; /* as the operator makes its key */
	new_nonce(p, b, 0);
	connect_to(p, b, 0);
	send_open(p, b, NULL);
}

static struct bare *
next_bare(const struct player *p, struct script *w)
{
	struct bare *b = bare_find(p, script_needed(w));

	if (b == NULL)
		script_misuse(w, "there is no such client");
	return b;
}

/* ---- connections ---- */

static void
connect_anew(struct player *p, struct bare *b, struct script *w)
{
	b->earlier = b->conn;
	connect_to(p, b, script_take(w, "at") ? script_number(w) : 0);
	b->sequence = 0;
}

static void
drop(struct player *p, struct bare *b, struct script *w)
{
	(void)w;
	hang_up(p, b);
}

static void
attach(struct player *p, struct bare *b, struct script *w)
{
	hang_up(p, b);
	connect_anew(p, b, w);
	send_open(p, b, NULL);
}

static void
back(struct player *p, struct bare *b, struct script *w)
{
	attach(p, b, w);
	p->hide_keepalives = true;
	sim_settle(p->s, MS);
	for (int i = 0; i < 2; i++) {
		b->sequence++;
		send_keepalive(p, b);
	}
	send_returned(p, b);
	sim_settle(p->s, MS);
	p->hide_keepalives = false;
}

/* ---- sessions ---- */

static void
forget(struct player *p, struct bare *b, struct script *w)
{
	(void)w;
	b->session = 0;
	new_nonce(p, b, 0);
}

static void
nonce(struct player *p, struct bare *b, struct script *w)
{
	new_nonce(p, b, (uint8_t)script_number(w));
}

/* Also with the nonce. */
static void
claim(struct player *p, struct bare *b, struct script *w)
{
	const struct bare *other = next_bare(p, w);

	b->session = other->session;
	b->epoch = other->epoch;
	if (script_take(w, "wholly"))
		memcpy(b->nonce, other->nonce, sizeof b->nonce);
}

static void
steal(struct player *p, struct bare *b, struct script *w)
{
	b->locks = next_bare(p, w)->locks;
}

static void
datagram(struct player *p, struct bare *b, struct script *w)
{
	const struct bare *of = script_take(w, "of") ? next_bare(p, w) : b;
	const struct message m = {.code = MSG_keepalive,
	                          .keepalive = {.session = of->session,
	                                        .epoch = b->epoch,
	                                        .sequence = ++b->datagram}};
	struct buffer frame = BUFFER(DATAGRAM_PLAIN);

	wire_put_frame(&frame, &m);
	must(!frame.failed && b->conn != 0);
	net_datagram_to_node(p->s, b->conn, buffer_view(&frame));
	buffer_free(&frame);
}

static void
keepalive(struct player *p, struct bare *b, struct script *w)
{
	b->sequence += !script_take(w, "again");
	send_keepalive(p, b);
}

static void
returned(struct player *p, struct bare *b, struct script *w)
{
	(void)w;
	send_returned(p, b);
}

static void
epoch(struct player *p, struct bare *b, struct script *w)
{
	(void)p;
	b->epoch = script_number(w);
}

static void
generation(struct player *p, struct bare *b, struct script *w)
{
	(void)p;
	b->generation = script_number(w);
}

/* The node of the path that comes next, as a list. */
static struct wire_list
next_node(struct player *p, struct script *w, uint8_t packed[8])
{
	const uint64_t node = names_find(p->s, &p->names, script_needed(w));

	for (int i = 0; i < 8; i++)
		packed[i] = (uint8_t)(node >> (8 * i));
	return (struct wire_list){{packed, 8}, 1};
}

static void
dropped(struct player *p, struct bare *b, struct script *w)
{
	uint8_t nodes[8];
	struct message m = {.code = MSG_dropped,
	                    .dropped = {.session = b->session,
	                                .epoch = b->epoch,
	                                .generation = b->generation,
	                                .upto = script_number(w)}};

	if (script_take(w, "leave")) {
		m.dropped.leave = script_number(w);
		words_expect(w, "of");
		m.dropped.nodes = next_node(p, w, nodes);
	}
	send_message(p, b, &m);
}

/* ---- requests ---- */

static void
end_session(struct player *p, struct bare *b, struct script *w, struct msg_request request)
{
	struct op op = {.code = OP_end_session, .end_session.cause = SESSION_CLOSED};
	bool expired = script_take(w, "expired");
	const char *name = expired ? NULL : script_word(w);
	const struct bare *other = name != NULL ? bare_find(p, name) : b;

	if (other == NULL)
		script_misuse(w, "there is no client \"%s\"", name);
	if (script_take(w, "proven"))
		op.end_session.nonce = (struct bytes){other->nonce, LIMIT_NONCE};
	if (expired || script_take(w, "expired")) {
		op.end_session.cause = SESSION_EXPIRED;
		op.end_session.nonce = (struct bytes){other->nonce, LIMIT_NONCE};
	}
	op.end_session.session = other->session;
	send_op(p, b, request, &op);
}

static void
ask_nothing(struct player *p, struct bare *b, struct script *w, struct msg_request request)
{
	const char *name = script_needed(w);

	if (strcmp(name, "nonsense") == 0) {
		send_request(p, b, request, bytes_of("\xff\xff"));
		return;
	}
	for (int code = 1; code < 128; code++) {
		const struct op op = {.code = (enum op_code)code};
		const struct variant *v = wire_op((unsigned)code);

		if (v != NULL && strcmp(v->name, name) == 0) {
			send_op(p, b, request, &op);
			return;
		}
	}
	script_misuse(w, "no operation \"%s\"", name);
}

/* The rights of a handle, as the answer to a request has shown them. */
static void
take_rights(struct player *p, struct bare *b, struct script *w)
{
	const uint64_t number = script_number(w);
	const struct bare *shown = script_take(w, "of") ? next_bare(p, w) : b;
	const struct record *r = history_find(p->s, shown->session, number);

	if (r == NULL || r->opens.node == 0)
		script_misuse(w, "no answer with check digits");
	b->through = r->opens;
	if (script_take(w, "forged"))
		b->through.check[LIMIT_CHECK - 1] ^= 1;
	if (script_take(w, "raised"))
		b->through.rights = RIGHT_READ | RIGHT_WRITE | RIGHT_CHANGE;
}

static void
make_request(struct player *p, struct bare *b, struct script *w, struct msg_request request,
             const char *word)
{
	struct op op;

	if (strcmp(word, "end") == 0) {
		end_session(p, b, w, request);
	} else if (strcmp(word, "asks") == 0) {
		ask_nothing(p, b, w, request);
	} else {
		words_op(p->s, &p->names, &b->locks, w, word, &op);
		send_op(p, b, request, &op);
	}
}

static void
again(struct player *p, struct bare *b, struct script *w)
{
	const uint64_t number = script_number(w);
	const struct record *r = history_find(p->s, b->session, number);

	if (r == NULL)
		script_misuse(w, "there was no such request");
	send_request(p, b, (struct msg_request){.number = number, .ordered = r->ordered},
	             r->encoded);
}

/* A session, or with another word after it an ephemeral file. */
static void
open_any(struct player *p, struct bare *b, struct script *w)
{
	const struct bare *instead = NULL;

	if (script_take(w, "instead")) {
		words_expect(w, "of");
		instead = next_bare(p, w);
	} else if (script_more(w)) {
		make_request(p, b, w, (struct msg_request){.number = ++b->number}, "open");
		return;
	}
	send_open(p, b, instead);
}

/* ---- what is no request ---- */

/* Orders that only an administrator may give, with the sender's own name or not; the file f and the
 * first client are others'. */
static void
send_orders(struct player *p, const struct bare *b)
{
	const struct member m = seat_member((struct seat){.body = 9});
	const struct bytes own = bytes_of("mallory");
	const uint64_t f = names_find(p->s, &p->names, "f"), other = p->bares[0]->session;
	const struct msg_operate all[] = {
	    {.what = OPERATION_ADD_REPLICA, .address = m.address, .key = m.key},
	    {.what = OPERATION_REMOVE_REPLICA, .id = 2},
	    {.what = OPERATION_TRANSFER},
	    {.what = OPERATION_SET, .name = bytes_of("session_lease"), .value = 20000},
	    {.what = OPERATION_ADD_PRINCIPAL, .name = bytes_of("eve"), .key = m.key},
	    {.what = OPERATION_REMOVE_PRINCIPAL, .name = bytes_of("admin")},
	    {.what = OPERATION_DESTROY_SESSION, .id = other},
	    {.what = OPERATION_UNLOCK, .value = f, .name = own},
	    {.what = OPERATION_UNLOCK, .value = f, .id = other, .name = own},
	    {.what = OPERATION_UNLOCK, .value = f, .id = other},
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		send_message(p, b, &(struct message){.code = MSG_operate, .operate = all[i]});
	send_message(p, b, &(struct message){.code = MSG_sessions_request});
	send_message(p, b, &(struct message){.code = MSG_principals_request});
}

/* As if it were sent again: by then the first client's session had ended. */
static void
send_unlock(struct player *p, const struct bare *b, struct script *w)
{
	const struct msg_operate unlock = {.what = OPERATION_UNLOCK,
	                                   .value = names_find(p->s, &p->names, script_needed(w)),
	                                   .id = p->bares[0]->session,
	                                   .seen = UINT64_MAX,
	                                   .behind = 1};

	send_message(p, b, &(struct message){.code = MSG_operate, .operate = unlock});
}

static void
sends(struct player *p, struct bare *b, struct script *w)
{
	if (script_take(w, "unlock")) {
		send_unlock(p, b, w);
	} else if (script_take(w, "nonsense")) {
		net_to_node(p->s, b->conn, bytes_of("nonsense"));
	} else if (script_take(w, "session_opened")) {
		send_message(p, b, &(struct message){.code = MSG_session_opened});
	} else {
		words_expect(w, "orders");
		send_orders(p, b);
	}
}

static void
watch(struct player *p, struct bare *b, struct script *w)
{
	struct message m;

	watches_bare(p, b, w, &m);
	send_message(p, b, &m);
	free((void *)m.watch.watches.packed.data);
}

void
bare_command(struct player *p, struct bare *b, struct script *w)
{
	static const struct {
		const char *name;
		void (*run)(struct player *p, struct bare *b, struct script *w);
	} verbs[] = {
	    {"again", again},       {"attach", attach},        {"back", back},
	    {"claim", claim},       {"connect", connect_anew}, {"drop", drop},
	    {"datagram", datagram}, {"dropped", dropped},      {"generation", generation},
	    {"epoch", epoch},       {"forget", forget},        {"keepalive", keepalive},
	    {"nonce", nonce},       {"open", open_any},        {"returned", returned},
	    {"sends", sends},       {"steal", steal},          {"watch", watch},
	};
	struct msg_request request = {.ordered = script_take(w, "ordered")};
	uint8_t nodes[8];

	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
		if (!request.ordered && script_take(w, verbs[i].name)) {
			verbs[i].run(p, b, w);
			return;
		}
	}
	if (script_take(w, "number"))
		request.number = script_number(w);
	else if (!script_take(w, "unnumbered"))
		request.number = ++b->number;
	if (script_take(w, "below"))
		request.below = script_number(w);
	if (script_take(w, "without"))
		request.dropped = next_node(p, w, nodes);
	if (script_take(w, "for"))
		request.user = bytes_of(script_needed(w));
	if (script_take(w, "through"))
		take_rights(p, b, w);
	make_request(p, b, w, request, script_needed(w));
	b->through = (struct client_rights){0};
}
