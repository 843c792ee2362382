/* Plays the transcripts of the client against replicas that the commands play: every message that
 * the client sends is shown, every one that it receives is a command (see docs/testing.md).
 *
 * `client` begins with a new client that wants a connection; `safe=yes` with one whose session 7 of
 * epoch 3 is safe, with a lease of 12 s; of three replicas it is connected to 1, listening to 3. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/transcripts/client_player.h"
#include "tests/transcripts/client_watched.h"

enum { SESSION = 7, EPOCH = 3, LEASE_MS = 12000 };

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
	const bool datagram = script_value(p->s, "datagram") != NULL;

	wire_put_frame(&frame, m);
	must(!frame.failed);
	step(p, (struct client_event){.kind = datagram ? CLIENT_DATAGRAM : CLIENT_FRAME,
	                              .standby = standby != NULL,
	                              .frame = buffer_view(&frame)});
	buffer_free(&frame);
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
	                              .standby = script_value(s, "standby") != NULL,
	                              .denied = script_value(s, "denied") != NULL});
}

COMMAND(opened)
{
	receive(p, &(struct message){.code = MSG_session_opened,
	                             .session_opened =
	                                 {.rc = (uint8_t)script_rc(s, script_value(s, "rc")),
	                                  .session = script_value_number(s, "session", SESSION),
	                                  .epoch = script_value_number(s, "epoch", EPOCH),
	                                  .master = (uint8_t)script_value_number(s, "master", 1),
	                                  .principal = bytes_of("admin")}});
	p->listens[p->update.listen_to]++;
}

COMMAND(keepalive)
{
	const uint64_t last = script_value(s, "datagram") ? p->datagram : p->sequence;

	receive(p,
	        &(struct message){.code = MSG_keepalive_reply,
	                          .keepalive_reply =
	                              {.rc = (uint8_t)script_rc(s, script_value(s, "rc")),
	                               .epoch = script_value_number(s, "epoch", EPOCH),
	                               .sequence = script_value_number(s, "sequence", last),
	                               .held_ms = (uint32_t)script_value_number(s, "held", 0),
	                               .generation =
	                                   script_value_number(s, "generation", p->generation),
	                               .cache_ms = (uint32_t)script_value_number(s, "leave", 0),
	                               .grace_ms = (uint32_t)script_value_number(s, "grace", 45000),
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
	p->now = mono_add(p->now, script_ms(s));
	step(p, (struct client_event){.kind = CLIENT_TIMEOUT});
}

COMMAND(sleep)
{
	p->now = mono_add(p->now, script_ms(s));
}

COMMAND(close)
{
	step(p, (struct client_event){.kind = CLIENT_CLOSE,
	                              .as_expired = script_value(s, "expired") != NULL});
}

COMMAND(garbage)
{
	static const uint8_t bad[] = {3, 0, 0, 0, 6, 1, 2};

	step(p, (struct client_event){.kind = CLIENT_FRAME,
	                              .standby = script_value(s, "standby") != NULL,
	                              .frame = {bad, sizeof bad}});
}

/* The cell tells that these nodes, at most 8, are to be dropped. */
COMMAND(invalidation)
{
	struct message m = {.code = MSG_invalidation,
	                    .invalidation = {.generation = script_value_number(s, "generation",
	                                                                       p->generation),
	                                     .notice = script_number(s),
	                                     .everything = script_value(s, "everything") != NULL}};
	struct buffer nodes = BUFFER(64);
	const char *word;

	while ((word = script_word(s))) {
		wire_put_node_key(&nodes, &(struct node_key){strtoull(word, NULL, 10)});
		m.invalidation.nodes.count++;
	}
	m.invalidation.nodes.packed = buffer_view(&nodes);
	receive(p, &m);
	buffer_free(&nodes);
}

/* The driver reports. */
COMMAND(invalidated)
{
	step(p,
	     (struct client_event){.kind = CLIENT_INVALIDATED, .invalidation = script_number(s)});
}

/* ---- watches ---- */

/* Every kind of event of the node is wanted, or none any more. */
COMMAND(watch)
{
	step(p, (struct client_event){.kind = CLIENT_WATCH,
	                              .node = script_number(s),
	                              .generation = script_value_number(s, "knows", 0),
	                              .mask = script_value(s, "end") ? 0 : (2u << EVENT_GAP) - 2});
}

COMMAND(watching)
{
	struct buffer states = BUFFER(4096);
	struct message m = {.code = MSG_watching};

	watched_states(s, &m.watching, &states);
	receive(p, &m);
	buffer_free(&states);
}

COMMAND(events)
{
	struct buffer events = BUFFER(LIMIT_FRAME);
	struct message m = {.code = MSG_events};

	watched_events(s, &m.events, &events);
	receive(p, &m);
	buffer_free(&events);
}

/* ---- requests ---- */

static void
set_op(struct script *s, struct op *op, uint64_t node, struct bytes contents)
{
	const uint64_t owner = script_value_number(s, "owner", 1);
	const uint64_t acquisition = script_value_number(s, "acquisition", 1);
	const char *value = script_value(s, "name");
	const struct bytes name = bytes_of(value ? value : "f");

	switch (op->code) {
	case OP_set_contents:
		op->set_contents = (struct op_set_contents){.node = node, .contents = contents};
		break;
	case OP_lookup:
		op->lookup = (struct op_lookup){.parent = node, .name = name};
		break;
	case OP_get_contents:
		op->get_contents.node = node;
		break;
	case OP_get_listing:
		op->get_listing.node = node;
		break;
	case OP_create:
		op->create = (struct op_create){.parent = node, .name = name, .kind = NODE_FILE};
		break;
	case OP_rename:
		op->rename = (struct op_rename){.parent = node,
		                                .name = name,
		                                .new_parent = node,
		                                .new_name = bytes_of("new")};
		break;
	case OP_delete:
		op->delete = (struct op_delete){.parent = node, .name = name, .kind = NODE_FILE};
		break;
	case OP_close_ephemeral:
		op->close_ephemeral.node = node;
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

static void
submit(struct player *p, const struct client_call *call)
{
	step(p, (struct client_event){.kind = CLIENT_REQUEST, .request = client_request_new(call)});
}

/* Requests for that many nodes, this one and the next ones. */
COMMAND(request)
{
	static const enum op_code codes[] = {OP_get_attr,       OP_set_contents, OP_set_mtime,
	                                     OP_acquire,        OP_release,      OP_cancel,
	                                     OP_lookup,         OP_get_contents, OP_get_listing,
	                                     OP_create,         OP_rename,       OP_delete,
	                                     OP_close_ephemeral};
	static const uint8_t zeros[LIMIT_CONTENTS];
	const char *name = script_word(s);
	const uint64_t node = script_number(s), n = script_value_number(s, "count", 1);
	const struct bytes contents = {zeros, script_value_number(s, "bytes", 0)};
	const char *user = script_value(s, "user");
	struct client_call call = {.ordered = script_value(s, "ordered") != NULL,
	                           .outlasts = script_value(s, "outlasts") != NULL,
	                           .guard.node = script_value_number(s, "guard", 0),
	                           .user = bytes_of(user != NULL ? user : "")};

	if (script_value(s, "opened") != NULL)
		call.opened = p->opened;
	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
		if (!strcmp(wire_op(codes[i])->name, name))
			call.op.code = codes[i];
	for (uint64_t i = 0; i < n; i++) {
		set_op(s, &call.op, node + i, contents);
		call.token = ++p->token;
		submit(p, &call);
	}
}

/* The caller of the request with this token is answered before it. */
COMMAND(given_up)
{
	submit(p, &(struct client_call){.token = script_number(s), .given_up = true});
}

/* Of this node, with contents of the generation that the command names. */
static void
set_result(struct player *p, struct result *r, uint64_t node)
{
	const char *contents = script_value(p->s, "contents");
	const struct attr attr = {.node = node,
	                          .content_generation = script_value_number(p->s, "version", 1),
	                          .rights = (uint8_t)script_value_number(p->s, "rights", 7)};

	if (r->kind == RESULT_attr)
		r->attr.attr = attr;
	if (r->kind == RESULT_created) {
		r->created.attr = attr;
		r->created.attr.kind = NODE_FILE;
		r->created.fresh = (uint8_t)script_value_number(p->s, "fresh", 0);
	}
	if (r->kind == RESULT_renamed)
		r->renamed.attr = attr;
	if (r->kind == RESULT_contents)
		r->contents =
		    (struct result_contents){.attr = attr,
		                             .contents = bytes_of(contents ? contents : "")};
	if (r->kind == RESULT_listing) {
		r->listing.attr = attr;
		r->listing.attr.kind = NODE_DIRECTORY;
		r->listing.more = script_value(p->s, "more") != NULL;
	}
}

static void
reply(struct player *p, uint64_t number, enum rc rc)
{
	const enum op_code op = p->ops[number % NUMBERS];
	const char *check = script_value(p->s, "check");
	struct buffer encoded = BUFFER(LIMIT_FRAME);
	struct result result = {.kind = wire_answer_kind(op, rc)};
	struct message m = {.code = MSG_reply,
	                    .reply = {.number = number,
	                              .rc = (uint8_t)rc,
	                              .index = script_value_number(p->s, "index", 40 + number),
	                              .generation =
	                                  script_value_number(p->s, "generation", p->generation),
	                              .leave = script_value_number(p->s, "leave", 0),
	                              .check = bytes_of(check != NULL ? check : "")}};

	set_result(p, &result, script_value_number(p->s, "node", 9));
	if (rc == RC_QUEUED)
		result.acquired.ticket = (struct ticket){.epoch = EPOCH, .place = 11};
	else if (op == OP_acquire)
		result.acquired = (struct result_acquired){.lock_generation = 4, .fence = 44};
	wire_put_result(&encoded, &result);
	m.reply.result = buffer_view(&encoded);
	receive(p, &m);
	buffer_free(&encoded);
}

/* A reply to each request from this number on. */
COMMAND(reply)
{
	const uint64_t number = script_number(s), n = script_value_number(s, "count", 1);
	const enum rc rc = script_rc(s, script_value(s, "rc"));

	for (uint64_t i = 0; i < n; i++)
		reply(p, number + i, rc);
}

/* That many requests, each answered at once. */
COMMAND(answered)
{
	struct client_call call = {.op = {.code = OP_get_attr, .get_attr = {.node = 1}}};

	for (uint64_t i = script_number(s); i > 0; i--) {
		call.token = ++p->token;
		submit(p, &call);
		reply(p, p->number, RC_OK);
	}
}

/* That many nodes are cached: this one and the next ones. */
COMMAND(cached)
{
	const uint64_t node = script_number(s), n = script_number(s);
	struct client_call call = {.op.code = OP_get_attr};

	for (uint64_t i = 0; i < n; i++) {
		struct result result = {.kind = RESULT_attr,
		                        .attr.attr = {.node = node + i, .rights = 7}};
		struct buffer encoded = BUFFER(1024);

		call.op.get_attr.node = node + i;
		call.token = ++p->token;
		submit(p, &call);
		wire_put_result(&encoded, &result);
		receive(p, &(struct message){.code = MSG_reply,
		                             .reply = {.number = p->number,
		                                       .index = 40,
		                                       .generation = p->generation,
		                                       .leave = i + 1,
		                                       .result = buffer_view(&encoded)}});
		buffer_free(&encoded);
	}
}

COMMAND(granted)
{
	receive(p, &(struct message){.code = MSG_granted,
	                             .granted = {.rc = (uint8_t)script_rc(s, script_value(s, "rc")),
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

	script_say(p->s,
	           "%s, session %llu of %s, epoch %llu, %zu in flight, %zu queued, lease %lld ms",
	           states[st.state], (unsigned long long)st.session, st.principal,
	           (unsigned long long)st.epoch, st.in_flight, st.queued,
	           -ms_since(p, st.lease_end));
	if (st.left_open)
		say(p, "left open");
	for (int i = 0; i < members->n; i++)
		say(p, "replica %u: %s, %s, key %u", members->list[i].id,
		    members->list[i].voter ? "voter" : "learner", members->list[i].address,
		    members->list[i].key[0]);
	if (mono_is_never(client_deadline(p->client)))
		say(p, "no deadline");
}

/* Prints what the client has counted. */
COMMAND(counts)
{
	const struct client_counts n = client_counts(p->client);

	(void)s;
	say(p, "%s, %zu nodes cached, %zu watched", n.connected ? "connected" : "not connected",
	    n.cached_nodes, n.watches);
	say(p, "reads: %llu from the cache, %llu from the cell; invalidations: %llu; drops: %llu",
	    (unsigned long long)n.hits, (unsigned long long)n.misses,
	    (unsigned long long)n.invalidations, (unsigned long long)n.drops);
	say(p, "%llu sessions on %llu connections, %llu fail-overs, %llu jeopardies",
	    (unsigned long long)n.sessions, (unsigned long long)n.connections,
	    (unsigned long long)n.fail_overs, (unsigned long long)n.jeopardies);
}

static void
clear(void *world)
{
	struct player *p = world;

	client_free(p->client);
	client_update_free(&p->update);
	trace_free(&p->trace);
}

static void
new_client(struct player *p)
{
	const int n = (int)script_value_number(p->s, "replicas", 0);
	const mono_t now = {1000000000};
	struct player fresh = {.s = p->s, .trace.on = true, .now = now, .began = now};
	struct client_config config = {.host = "here",
	                               .grace =
	                                   span_ms((int64_t)script_value_number(p->s, "grace", 0)),
	                               .drift_permille = 10,
	                               .seed = script_value_number(p->s, "seed", 1),
	                               .nonce = "0123456789abcde",
	                               .replicas_n = n,
	                               .caching = script_value(p->s, "caching") != NULL,
	                               .lasting = script_value(p->s, "lasting") != NULL,
	                               .trace = &p->trace,
	                               .earlier_session = script_value_number(p->s, "earlier", 0)};

	for (int i = 0; i < n; i++)
		config.replicas[i] = (uint8_t)(i + 1);
	memset(config.earlier_nonce, 'x', LIMIT_NONCE);
	memcpy(fresh.listens, p->listens, sizeof fresh.listens);
	clear(p);
	*p = fresh;
	p->client = client_new(&config, p->now);
}

COMMAND(client)
{
	new_client(p);
	connect_command(s, p);
	if (!script_value(s, "safe"))
		return;
	connected_command(s, p);
	opened_command(s, p);
	keepalive_command(s, p);
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

/* The replicas to which the clients listen that there were. */
COMMAND(spread)
{
	say(p, "%u listen to 1, %u to 2, %u to 3", p->listens[1], p->listens[2], p->listens[3]);
	memset(p->listens, 0, sizeof p->listens);
}

static const struct script_command commands[] = {
    {"client",
     "[safe=yes [leave=MS]] [caching=yes] [replicas=N] [seed=N] [grace=MS] [lasting=yes]\n"
     "       [earlier=SESSION]",
     run_client},
    {"connect", ": until the client wants a connection", run_connect},
    {"connected", "", run_connected},
    {"disconnected", "[standby=yes] [denied=yes]", run_disconnected},
    {"fail", "N: disconnected, connect", run_fail},
    {"reconnect", ": disconnected, connect, connected, opened", run_reconnect},
    {"opened", "[rc=CODE] [session=N] [epoch=N] [master=N]", run_opened},
    {"keepalive",
     "[rc=CODE] [lease=MS] [held=MS] [epoch=N] [sequence=N] [leave=MS] [generation=N] [grace=MS]\n"
     "       [datagram=yes]",
     run_keepalive},
    {"request",
     "OPERATION NODE [name=NAME] [count=N] [owner=N] [acquisition=N] [ordered=yes] [bytes=N] "
     "[guard=NODE] [user=NAME] [opened=yes] [outlasts=yes]",
     run_request},
    {"reply",
     "NUMBER [rc=CODE] [count=N] [index=N] [leave=N] [generation=N] [node=N] [version=N] "
     "[contents=TEXT] [more=yes] [rights=N] [fresh=1] [check=DIGITS]",
     run_reply},
    {"invalidation", "NOTICE NODE... [everything=yes] [generation=N]", run_invalidation},
    {"invalidated", "INVALIDATION: the driver reports it", run_invalidated},
    {"watch", "NODE [knows=GENERATION] [end=yes]", run_watch},
    {"watching", "NODE... [rc=CODE] [after=N] [version=N]", run_watching},
    {"events", "FIRST NODE kind=KIND [version=N] [name=NAME] [count=N]", run_events},
    {"answered", "N: requests that are answered at once", run_answered},
    {"cached", "NODE NODES: so many are read with leave", run_cached},
    {"given_up", "TOKEN", run_given_up},
    {"granted", "NODE [rc=CODE] [owner=N] [acquisition=N]", run_granted},
    {"redirect", "MASTER EPOCH [standby=yes]", run_redirect},
    {"members", "VERSION [voters=IDS] [learners=IDS] [removed=IDS] [standby=yes]", run_members},
    {"garbage", "[standby=yes]", run_garbage},
    {"wait", "MILLISECONDS", run_wait},
    {"sleep", "MILLISECONDS: the client takes no step meanwhile", run_sleep},
    {"close", "[expired=yes]", run_close},
    {"status", "", run_status},
    {"counts", "", run_counts},
    {"spread", ": of the clients that there were", run_spread},
    {0},
};

int
main(int argc, char **argv)
{
	static const struct script_player player = {"client", commands, sizeof(struct player), NULL,
	                                            clear};

	return script_main(argc, argv, &player);
}
