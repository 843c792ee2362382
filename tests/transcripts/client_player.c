/* Plays the transcripts of the client against replicas that the commands play: every message that
 * the client sends is shown, every one that it receives is a command (see docs/testing.md).
 *
 * `client` begins with a new client that wants a connection; `safe=yes` with one whose session 7 of
 * epoch 3 is safe, with a lease of 12 s; of three replicas it is connected to 1, listening to 3. */
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/client/client.h"
#include "tests/transcripts/script.h"

enum { SESSION = 7, EPOCH = 3, LEASE_MS = 12000, NUMBERS = 8192, ALIKE = 4 };

struct player {
	struct client *client;
	struct client_update update;
	struct script *s;
	struct trace trace;
	mono_t now, began; /* began: the command */
	char **lines;      /* said by the command; owned */
	size_t lines_n, lines_room;
	enum op_code ops[NUMBERS];        /* of requests, by number */
	uint64_t token, number, sequence; /* of the last request, the last KeepAlive */
};

/* ---- what is said ---- */

static void
say(struct player *p, const char *format, ...)
{
	char line[2048];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	ARRAY_ROOM(p->lines, p->lines_n, p->lines_room);
	p->lines[p->lines_n++] = strdup(line);
}

/* Says it behind the last line, if that has such a sign, too, and is short. */
static void
say_joined(struct player *p, const char *sign, const char *text)
{
	char *last = p->lines_n ? p->lines[p->lines_n - 1] : NULL;

	if (!last || strncmp(last, sign, strlen(sign)) || strlen(last) + strlen(text) > 92) {
		say(p, "%s %s", sign, text);
		return;
	}
	p->lines_n--;
	say(p, "%s %s %s", last, sign, text);
	free(last);
}

/* True if two lines differ only in their numbers. */
static bool
alike(const char *a, const char *b)
{
	for (;;) {
		while (isdigit((unsigned char)*a))
			a++;
		while (isdigit((unsigned char)*b))
			b++;
		if (*a != *b)
			return false;
		if (*a == '\0')
			return true;
		a++;
		b++;
	}
}

static void
drop_lines(struct player *p)
{
	for (size_t i = 0; i < p->lines_n; i++)
		free(p->lines[i]);
	p->lines_n = 0;
}

/* Says the lines of a command; of many that are alike the first and the last. */
static void
say_lines(struct player *p)
{
	for (size_t i = 0; i < p->lines_n; i++) {
		size_t n = 1;

		while (i + n < p->lines_n && alike(p->lines[i], p->lines[i + n]))
			n++;
		script_say(p->s, "%s", p->lines[i]);
		if (n >= ALIKE) {
			script_say(p->s, "... %zu more, up to", n - 2);
			i += n - 2;
		}
	}
	drop_lines(p);
}

/* Fields are left out that are mostly zero or empty, and session and epoch where they are those of
 * a safe client. */
static void
say_message(struct player *p, const struct message *m)
{
	static const char *const known[] =
	    {" session=7",  " epoch=3",           " ticket={epoch=0 place=0 code=0}",
	     " delay_s=-1", " default_delay_s=0", " pid=0",
	     " ordered=0",  " earlier=0",         " earlier_nonce=",
	     " caching=0",  " mtime_ns=0",        " generation=0",
	     " guarded=0"};
	struct buffer text = BUFFER(4096);
	char *at;

	wire_print_message(&text, m);
	buffer_put_u8(&text, 0);
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		const size_t n = strlen(known[i]);

		if ((at = strstr((char *)text.data, known[i])) && !isalnum((unsigned char)at[n]))
			memmove(at, at + n, strlen(at + n) + 1);
	}
	say_joined(p, "->", (char *)text.data);
	buffer_free(&text);
}

static void
say_frames(struct player *p)
{
	struct bytes rest = buffer_view(&p->update.frames);
	struct message m;
	struct op op;

	while (rest.len > 0) {
		const size_t len = (size_t)wire_frame_length(rest);

		must(wire_get_frame((struct bytes){rest.data, len}, &m) == RC_OK);
		say_message(p, &m);
		if (m.code == MSG_request && wire_get_op(m.request.op, &op) == RC_OK) {
			p->ops[m.request.number % NUMBERS] = op.code;
			p->number = m.request.number;
		}
		if (m.code == MSG_keepalive)
			p->sequence = m.keepalive.sequence;
		rest.data += len;
		rest.len -= len;
	}
}

static long long
ms_since(const struct player *p, mono_t t)
{
	return span_to_ms(mono_since(p->now, t));
}

static void
say_answer(struct player *p, const struct client_answer *a)
{
	char text[100];
	int n =
	    snprintf(text, sizeof text, "%llu: %s", (unsigned long long)a->token, rc_name(a->rc));

	if (a->index)
		n += snprintf(text + n, sizeof text - (size_t)n, ", index %llu",
		              (unsigned long long)a->index);
	if (a->result.kind == RESULT_attr)
		snprintf(text + n, sizeof text - (size_t)n, ", node %llu",
		         (unsigned long long)a->result.attr.attr.node);
	say_joined(p, "=", text);
}

static void
say_update(struct player *p)
{
	const struct client_update *u = &p->update;
	enum trace_kind kind;
	const char *line;

	while ((line = trace_take(&p->trace, &kind)))
		if (kind != TRACE_MESSAGE)
			say(p, "%s", line);
	say_frames(p);
	if (u->connect)
		say(p, "connect %u after %lld ms", u->replica, ms_since(p, p->began));
	if (u->listen)
		say(p, "listen %u after %lld ms", u->listen_to, ms_since(p, p->began));
	for (size_t i = 0; i < u->answers_n; i++)
		say_answer(p, &u->answers[i]);
	for (size_t i = 0; i < u->grants_n; i++)
		say(p, "= grant of acquisition %llu: %s, fence %llu",
		    (unsigned long long)u->grants[i].acquisition, rc_name(u->grants[i].rc),
		    (unsigned long long)u->grants[i].fence);
	if (u->members_changed)
		say(p, "the members have changed");
}

/* ---- events ---- */

static void
step(struct player *p, struct client_event event)
{
	event.now = p->now;
	client_step(p->client, &event, &p->update);
	say_update(p);
}

static void
receive(struct player *p, const struct message *m)
{
	struct buffer frame = BUFFER(LIMIT_FRAME + 4);
	const char *standby = script_value(p->s, "standby");

	wire_put_frame(&frame, m);
	must(!frame.failed);
	step(p, (struct client_event){.kind = CLIENT_FRAME,
	                              .standby = standby != NULL,
	                              .frame = buffer_view(&frame)});
	buffer_free(&frame);
}

static enum rc
code(struct player *p)
{
	const char *name = script_value(p->s, "rc");

	for (int rc = 0; name && rc < 64; rc++)
		if (!strcmp(rc_name((enum rc)rc), name))
			return (enum rc)rc;
	return RC_OK;
}

#define COMMAND(name)                                                   \
	static void name##_command(struct script *s, struct player *p); \
	static void run_##name(struct script *s, void *world)           \
	{                                                               \
		struct player *p = world;                               \
                                                                        \
		p->s = s;                                               \
		p->began = p->now;                                      \
		name##_command(s, p);                                   \
		say_lines(p);                                           \
	}                                                               \
	static void name##_command(struct script *s __attribute__((unused)), struct player *p)

/* Lets time run from deadline to deadline until the client wants a connection. */
COMMAND(connect)
{
	p->update.connect = false;
	for (int i = 0; i < 100 && !p->update.connect; i++) {
		p->now = mono_max(p->now, client_deadline(p->client));
		step(p, (struct client_event){.kind = CLIENT_TIMEOUT});
	}
}

COMMAND(connected)
{
	step(p, (struct client_event){.kind = CLIENT_CONNECTED});
}

COMMAND(disconnected)
{
	step(p, (struct client_event){.kind = CLIENT_DISCONNECTED,
	                              .standby = script_value(s, "standby") != NULL});
}

COMMAND(opened)
{
	receive(p, &(struct message){.code = MSG_session_opened,
	                             .session_opened =
	                                 {.rc = (uint8_t)code(p),
	                                  .session = script_value_number(s, "session", SESSION),
	                                  .epoch = script_value_number(s, "epoch", EPOCH),
	                                  .master = (uint8_t)script_value_number(s, "master", 1),
	                                  .principal = bytes_of("admin")}});
}

COMMAND(keepalive)
{
	receive(p,
	        &(struct message){.code = MSG_keepalive_reply,
	                          .keepalive_reply =
	                              {.rc = (uint8_t)code(p),
	                               .epoch = script_value_number(s, "epoch", EPOCH),
	                               .sequence = script_value_number(s, "sequence", p->sequence),
	                               .held_ms = (uint32_t)script_value_number(s, "held", 0),
	                               .lease_ms =
	                                   (uint32_t)script_value_number(s, "lease", LEASE_MS)}});
}

COMMAND(redirect)
{
	const uint8_t master = (uint8_t)script_number(s);

	receive(p, &(struct message){.code = MSG_redirect,
	                             .redirect = {.master = master, .epoch = script_number(s)}});
}

COMMAND(wait)
{
	p->now = mono_add(p->now, span_ms((int64_t)script_number(s)));
	step(p, (struct client_event){.kind = CLIENT_TIMEOUT});
}

COMMAND(sleep)
{
	p->now = mono_add(p->now, span_ms((int64_t)script_number(s)));
}

COMMAND(close)
{
	step(p, (struct client_event){.kind = CLIENT_CLOSE,
	                              .as_expired = script_value(s, "expired") != NULL});
}

COMMAND(garbage)
{
	static const uint8_t bad[] = {3, 0, 0, 0, 6, 1, 2};

	step(p, (struct client_event){.kind = CLIENT_FRAME, .frame = {bad, sizeof bad}});
}

/* ---- requests ---- */

static void
set_op(struct script *s, struct op *op, uint64_t node, struct bytes contents)
{
	const uint64_t owner = script_value_number(s, "owner", 1);
	const uint64_t acquisition = script_value_number(s, "acquisition", 1);

	switch (op->code) {
	case OP_set_contents:
		op->set_contents = (struct op_set_contents){.node = node, .contents = contents};
		break;
	case OP_set_mtime:
		op->set_mtime = (struct op_set_mtime){.node = node, .now = 1};
		break;
	case OP_acquire:
		op->acquire.acquire = (struct acquire){.node = node,
		                                       .owner = owner,
		                                       .acquisition = acquisition,
		                                       .wait = 1,
		                                       .mode = LOCK_EXCLUSIVE,
		                                       .delay_s = -1};
		break;
	case OP_release:
		op->release = (struct op_release){node, owner, acquisition};
		break;
	case OP_cancel:
		op->cancel = (struct op_cancel){node, owner, acquisition};
		break;
	default:
		op->get_attr.node = node;
		break;
	}
}

/* Requests for that many nodes, this one and the next ones. */
COMMAND(request)
{
	static const enum op_code codes[] = {OP_get_attr, OP_set_contents, OP_set_mtime,
	                                     OP_acquire,  OP_release,      OP_cancel};
	static const uint8_t zeros[LIMIT_CONTENTS];
	const char *name = script_word(s);
	const uint64_t node = script_number(s), n = script_value_number(s, "count", 1);
	const struct bytes contents = {zeros, script_value_number(s, "bytes", 0)};
	const bool ordered = script_value(s, "ordered") != NULL;
	struct op op = {0};

	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
		if (!strcmp(wire_op_name(codes[i]), name))
			op.code = codes[i];
	for (uint64_t i = 0; i < n; i++) {
		set_op(s, &op, node + i, contents);
		step(p, (struct client_event){.kind = CLIENT_REQUEST,
		                              .request =
		                                  client_request_new(++p->token, &op, ordered)});
	}
}

static void
reply(struct player *p, uint64_t number, enum rc rc)
{
	const enum op_code op = p->ops[number % NUMBERS];
	struct buffer encoded = BUFFER(LIMIT_FRAME);
	struct result result = {.kind = wire_op_result(op)};
	struct message m = {.code = MSG_reply,
	                    .reply = {.number = number, .rc = (uint8_t)rc, .index = 40 + number}};

	if (result.kind == RESULT_attr)
		result.attr.attr.node = 9;
	if (rc == RC_QUEUED)
		result.acquired.ticket = (struct ticket){.epoch = EPOCH, .place = 11};
	else if (op == OP_acquire)
		result.acquired = (struct result_acquired){.lock_generation = 4, .fence = 44};
	if (rc == RC_OK || rc == RC_QUEUED)
		wire_put_result(&encoded, &result);
	m.reply.result = buffer_view(&encoded);
	receive(p, &m);
	buffer_free(&encoded);
}

/* A reply to each request from this number on. */
COMMAND(reply)
{
	const uint64_t number = script_number(s), n = script_value_number(s, "count", 1);
	const enum rc rc = code(p);

	for (uint64_t i = 0; i < n; i++)
		reply(p, number + i, rc);
}

/* That many requests, each answered at once. */
COMMAND(answered)
{
	struct op op = {.code = OP_get_attr, .get_attr = {.node = 1}};

	for (uint64_t i = script_number(s); i > 0; i--) {
		step(p,
		     (struct client_event){.kind = CLIENT_REQUEST,
		                           .request = client_request_new(++p->token, &op, false)});
		reply(p, p->number, RC_OK);
	}
}

COMMAND(granted)
{
	receive(p, &(struct message){.code = MSG_granted,
	                             .granted = {.rc = (uint8_t)code(p),
	                                         .node = script_number(s),
	                                         .owner = script_value_number(s, "owner", 1),
	                                         .acquisition =
	                                             script_value_number(s, "acquisition", 1),
	                                         .lock_generation = 5,
	                                         .fence = 50}});
}

/* ---- members, states, worlds ---- */

static uint32_t
put_members(struct buffer *list, const char *ids, enum member_role role, const char *address)
{
	static const uint8_t key[32] = {7};
	uint32_t n = 0;

	for (; ids && *ids; ids++, n++)
		wire_put_member(list, &(struct member){.id = (uint8_t)(*ids - '0'),
		                                       .role = (uint8_t)role,
		                                       .address = bytes_of(address),
		                                       .key = {key, *address ? sizeof key : 0}});
	return n;
}

COMMAND(members)
{
	struct buffer list = BUFFER(4096);
	const char *address = script_value(s, "nowhere") ? "" : "host:1";
	struct message m = {.code = MSG_members, .members.version = script_number(s)};

	m.members.members.count =
	    put_members(&list, script_value(s, "learners"), MEMBER_LEARNER, address) +
	    put_members(&list, script_value(s, "removed"), MEMBER_REMOVED, address) +
	    put_members(&list, script_value(s, "voters"), MEMBER_VOTER, address);
	m.members.members.packed = buffer_view(&list);
	receive(p, &m);
	buffer_free(&list);
}

COMMAND(status)
{
	static const char *const states[] = {"new", "safe", "in jeopardy", "expired", "closed"};
	const struct client_status st = client_status(p->client);
	const struct client_members *members = client_members(p->client);

	say(p, "%s, session %llu of %s, epoch %llu, %zu in flight, %zu queued, lease %lld ms",
	    states[st.state], (unsigned long long)st.session, st.principal,
	    (unsigned long long)st.epoch, st.in_flight, st.queued, -ms_since(p, st.lease_end));
	for (int i = 0; i < members->n; i++)
		say(p, "replica %u: %s, %s, key %u", members->list[i].id,
		    members->list[i].voter ? "voter" : "learner", members->list[i].address,
		    members->list[i].key[0]);
	if (mono_is_never(client_deadline(p->client)))
		say(p, "no deadline");
}

static void
clear(struct player *p)
{
	client_free(p->client);
	client_update_free(&p->update);
	trace_free(&p->trace);
	drop_lines(p);
	free(p->lines);
	*p = (struct player){.s = p->s, .trace.on = true, .now = {1000000000}};
	p->began = p->now;
}

static void
new_client(struct player *p, uint64_t seed)
{
	const int n = (int)script_value_number(p->s, "replicas", 0);
	struct client_config config = {.host = "here",
	                               .grace = span_ms(DEFAULT_GRACE_MS),
	                               .drift_permille = 10,
	                               .seed = seed,
	                               .nonce = "0123456789abcde",
	                               .replicas_n = n,
	                               .trace = &p->trace,
	                               .earlier_session = script_value_number(p->s, "earlier", 0)};

	for (int i = 0; i < n; i++)
		config.replicas[i] = (uint8_t)(i + 1);
	memset(config.earlier_nonce, 'x', LIMIT_NONCE);
	clear(p);
	p->client = client_new(&config, p->now);
}

COMMAND(client)
{
	new_client(p, script_value_number(s, "seed", 1));
	connect_command(s, p);
	if (!script_value(s, "safe"))
		return;
	connected_command(s, p);
	opened_command(s, p);
	keepalive_command(s, p);
	drop_lines(p);
}

/* That many connections that fail. */
COMMAND(fail)
{
	for (uint64_t i = script_number(s); i > 0; i--) {
		p->began = p->now;
		disconnected_command(s, p);
		connect_command(s, p);
	}
}

/* A new connection on which the session is open again. */
COMMAND(reconnect)
{
	disconnected_command(s, p);
	connect_command(s, p);
	connected_command(s, p);
	opened_command(s, p);
}

/* Counts the replicas to which that many clients listen. */
COMMAND(spread)
{
	const uint64_t seeds = script_number(s);
	unsigned by_replica[4] = {0};

	for (uint64_t seed = 0; seed < seeds; seed++) {
		new_client(p, seed);
		connect_command(s, p);
		connected_command(s, p);
		opened_command(s, p);
		by_replica[p->update.listen_to]++;
	}
	drop_lines(p);
	say(p, "%u listen to 1, %u to 2, %u to 3", by_replica[1], by_replica[2], by_replica[3]);
}

static void *
begin(void)
{
	return memory_zero(1, sizeof(struct player));
}

static void
end(void *world)
{
	clear(world);
	free(world);
}

static const struct script_command commands[] = {
    {"client", "[safe=yes] [replicas=N] [seed=N] [earlier=SESSION]", run_client},
    {"connect", ": until the client wants a connection", run_connect},
    {"connected", "", run_connected},
    {"disconnected", "[standby=yes]", run_disconnected},
    {"fail", "N: disconnected, connect", run_fail},
    {"reconnect", ": disconnected, connect, connected, opened", run_reconnect},
    {"opened", "[rc=CODE] [session=N] [epoch=N] [master=N]", run_opened},
    {"keepalive", "[rc=CODE] [lease=MS] [held=MS] [epoch=N] [sequence=N]", run_keepalive},
    {"request", "OPERATION NODE [count=N] [owner=N] [acquisition=N] [ordered=yes] [bytes=N]",
     run_request},
    {"reply", "NUMBER [rc=CODE] [count=N]", run_reply},
    {"answered", "N: requests that are answered at once", run_answered},
    {"granted", "NODE [rc=CODE] [owner=N] [acquisition=N]", run_granted},
    {"redirect", "MASTER EPOCH [standby=yes]", run_redirect},
    {"members", "VERSION [voters=IDS] [learners=IDS] [removed=IDS] [standby=yes]", run_members},
    {"garbage", "", run_garbage},
    {"wait", "MILLISECONDS", run_wait},
    {"sleep", "MILLISECONDS: the client takes no step meanwhile", run_sleep},
    {"close", "[expired=yes]", run_close},
    {"status", "", run_status},
    {"spread", "CLIENTS [replicas=N]", run_spread},
    {0},
};

int
main(int argc, char **argv)
{
	static const struct script_player player = {.folder = "client",
	                                            .commands = commands,
	                                            .begin = begin,
	                                            .end = end};

	return script_main(argc, argv, &player);
}
