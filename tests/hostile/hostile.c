/* hostile CELLFILE KEYFILE SECONDS SECRET [MASTER NODE...]: a client that means harm, against a
 * real cell, for so long.
 *
 * HALF connections (10,000) prove no key. SESSIONS others (100) prove theirs, and each goes on in
 * one of the ways below, against the replica MASTER or, where the key is a stranger's, against all.
 * NODEs are files that the key's principal may write: the contents of the first are written and
 * read, the locks of the others waited for, PARKED times (60,000). No answer to anybody may hold
 * SECRET. MANNER names the only way, of `manners` below. The SECONDS begin when so many wait and
 * OPENED connections (none) were opened, which is told by a line `all wait`. At the end one line
 *
 *   half N standing N opened N sessions N denied N parked N answers N learnt N */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/base/rng.h"
#include "cell/sys/clock.h"
#include "cell/wire/codec.h"
#include "tests/e2e/loader.h"
#include "tests/hostile/half_open.h"
#include "tests/unit/wire_values.h"

enum {
	TICK_MS = 10,
	NODES_MAX = 16,
	GUESSES = 64,
	PARKED_AT_ONCE = 200,
	PARKED_EACH = 1000,
	PULSES = 100
};

enum manner {
	IDLE,      /* has a session, and keeps it */
	PARKING,   /* waits for locks, again and again */
	FLOODING,  /* has as many requests under way as it may */
	DEAF,      /* as many, and reads no answer */
	GARBLED,   /* well-formed messages, damaged */
	REPEATING, /* numbers that were used, epochs and sessions that are not its own */
	SLOW,      /* a long message, some bytes at a time */
	CURIOUS,   /* asks for what others have */
	PULSING,   /* KeepAlives, as many as the connection takes */
	KNOCKING,  /* proves its key, and comes anew */
	HOARDING,  /* nearly all of a long message, without a session */
	MANNERS
};

static const char *const manners[MANNERS] = {"idle",    "parking",   "flooding", "deaf",
                                             "garbled", "repeating", "slow",     "curious",
                                             "pulsing", "knocking",  "hoarding"};

struct attacker {
	struct hostile_line line;
	struct assault *assault;
	enum manner manner;
	uint64_t session, epoch, number, sequence, unanswered[2], asked;
	uint8_t nonce[LIMIT_NONCE];
	bool is_read[LIMIT_NUMBERS]; /* by number: what was asked under it */
};

struct assault {
	uv_loop_t loop;
	uv_timer_t tick, end;
	struct noise_pair own;
	struct hostile_target targets[LIMIT_REPLICAS];
	struct half_open *half;
	struct attacker *attackers;
	struct values values;
	uint64_t nodes[NODES_MAX];
	size_t targets_n, nodes_n, attackers_n, parkers, begun, most_parked, least_opened, seconds;
	uint64_t opened, sessions, denied, parked, answers;
};

/* ---- what is sent ---- */

static bool
send_message(struct attacker *a, const struct message *m)
{
	struct buffer frame = BUFFER(LIMIT_FRAME);
	bool sent;

	wire_put_frame(&frame, m);
	must(!frame.failed);
	sent = hostile_line_send(&a->line, buffer_view(&frame));
	buffer_free(&frame);
	return sent;
}

static void
send_opening(struct attacker *a)
{
	struct message m = {.code = MSG_open_session};

	random_fill(a->nonce, sizeof a->nonce);
	m.open_session = (struct msg_open_session){.nonce = {a->nonce, sizeof a->nonce},
	                                           .host = bytes_of("hostile"),
	                                           .caching = a->manner % 2};
	send_message(a, &m);
}

static bool
send_keepalive(struct attacker *a)
{
	struct message m = {.code = MSG_keepalive};

	m.keepalive = (struct msg_keepalive){.session = a->session,
	                                     .epoch = a->epoch,
	                                     .sequence = ++a->sequence};
	return send_message(a, &m);
}

/* As a request of that session, in that epoch. */
static bool
send_as(struct attacker *a, uint64_t session, uint64_t epoch, uint64_t number, const struct op *op)
{
	struct buffer encoded = BUFFER(LIMIT_ENTRY);
	struct message m = {.code = MSG_request};
	bool sent;

	wire_put_op(&encoded, op);
	must(!encoded.failed);
	m.request = (struct msg_request){.session = session,
	                                 .epoch = epoch,
	                                 .number = number,
	                                 .below = 1,
	                                 .op = buffer_view(&encoded)};
	if (number > LIMIT_NUMBERS / 2)
		m.request.below = number - LIMIT_NUMBERS / 2;
	sent = send_message(a, &m);
	buffer_free(&encoded);
	return sent;
}

static bool
send_request(struct attacker *a, const struct op *op)
{
	const bool read = wire_op(op->code)->class == OP_CLASS_READ;

	if (a->session == 0 || !send_as(a, a->session, a->epoch, a->number + 1, op))
		return false;
	a->number++;
	a->unanswered[read]++;
	a->is_read[a->number % LIMIT_NUMBERS] = read;
	return true;
}

/* ---- manners ---- */

static uint64_t
draw(struct attacker *a, uint64_t bound)
{
	return rng_below(&a->assault->values.rng, bound);
}

static void
park(struct attacker *a)
{
	struct assault *s = a->assault;
	struct op op = {.code = OP_acquire};

	while (s->nodes_n > 1 && a->unanswered[false] < PARKED_AT_ONCE &&
	       a->asked < LIMIT_SESSION_WAITERS && s->parked < s->most_parked) {
		a->asked++;
		op.acquire.acquire =
		    (struct acquire){.node = s->nodes[1 + a->asked % (s->nodes_n - 1)],
		                     .owner = a->asked,
		                     .acquisition = a->asked,
		                     .mode = LOCK_EXCLUSIVE,
		                     .wait = 1,
		                     .delay_s = 0};
		if (!send_request(a, &op))
			return;
	}
}

static void
flood(struct attacker *a)
{
	static const uint8_t text[8192];
	const uint64_t node = a->assault->nodes_n > 0 ? a->assault->nodes[0] : NODE_ROOT;
	const struct op write = {.code = OP_set_contents,
	                         .set_contents = {.node = node, .contents = {text, sizeof text}}};
	const struct op read = {.code = OP_get_contents, .get_contents = {.node = node}};

	while (a->unanswered[false] < LIMIT_IN_FLIGHT && send_request(a, &write))
		continue;
	while (a->unanswered[true] < LIMIT_IN_FLIGHT && send_request(a, &read))
		continue;
}

static struct bytes
some_frame(struct attacker *a, struct buffer *frame)
{
	struct message m;

	if (values_message(&a->assault->values, 1 + (unsigned)draw(a, 66), &m))
		wire_put_frame(frame, &m);
	values_free(&a->assault->values);
	return buffer_view(frame);
}

/* The whole, a part, one with other bytes in it, or with a length that is not its own. */
static void
garble(struct attacker *a)
{
	struct buffer frame = BUFFER(LIMIT_FRAME);
	struct bytes b = some_frame(a, &frame);

	if (b.len > 5 && draw(a, 4) == 0)
		frame.data[5 + draw(a, b.len - 5)] = (uint8_t)draw(a, 256);
	if (b.len > 5 && draw(a, 16) == 0)
		frame.data[draw(a, 4)] = (uint8_t)draw(a, 256);
	if (b.len > 5 && draw(a, 16) == 0)
		b.len -= draw(a, b.len);
	hostile_line_send(&a->line, b);
	buffer_free(&frame);
}

static void
repeat(struct attacker *a)
{
	struct op op = {0};

	if (a->session == 0)
		return;
	if (!values_op(&a->assault->values, 1 + (unsigned)draw(a, 78), &op))
		op = (struct op){.code = OP_get_usage};
	send_as(a, a->session - (draw(a, 50) == 0), a->epoch - (draw(a, 20) == 0), 1 + draw(a, 100),
	        &op);
	values_free(&a->assault->values);
}

static void
drip(struct attacker *a)
{
	static const uint8_t bytes[16] = {0, 0, 16, 0, MSG_request}; /* of 1 MiB */
	const size_t len = a->asked == 0 ? sizeof bytes : 1;

	if (hostile_line_send(&a->line, (struct bytes){bytes, len}))
		a->asked++;
}

static void
hoard(struct attacker *a)
{
	enum { LONG = 1024 * 1024, KEPT_BACK = 100 };
	static uint8_t bytes[LONG + 4 - KEPT_BACK] = {0, 0, 16, 0, MSG_request};

	if (a->asked == 0 && hostile_line_send(&a->line, (struct bytes){bytes, sizeof bytes}))
		a->asked++;
}

static void
ask_for_node(struct attacker *a, uint64_t node)
{
	const struct op ops[] = {
	    {.code = OP_get_listing, .get_listing = {.node = node}},
	    {.code = OP_get_contents, .get_contents = {.node = node}},
	    {.code = OP_get_attr, .get_attr = {.node = node}},
	    {.code = OP_get_lock, .get_lock = {.node = node}},
	    {.code = OP_get_queue, .get_queue = {node, 1}},
	    {.code = OP_get_sequencer, .get_sequencer = {.node = node}},
	    {.code = OP_open_ephemeral, .open_ephemeral = {node}},
	    {.code = OP_rename,
	     .rename = {NODE_ROOT, bytes_of("acl"), NODE_ROOT, bytes_of("mine"), 0}},
	};

	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
		send_request(a, &ops[i]);
}

static void
ask_for_all(struct attacker *a, uint64_t after)
{
	struct buffer watches = BUFFER(LIMIT_FRAME);
	struct message m = {.code = MSG_watch};

	wire_put_watch(&watches,
	               &(struct watch){.node = after, .mask = UINT32_MAX, .since = after});
	m.watch = (struct msg_watch){.session = a->session,
	                             .epoch = a->epoch,
	                             .watches = {buffer_view(&watches), 1}};
	send_message(a, &m);
	buffer_free(&watches);
	m = (struct message){.code = MSG_locks_request, .locks_request = {after}};
	send_message(a, &m);
	m = (struct message){.code = MSG_sessions_request, .sessions_request = {after}};
	send_message(a, &m);
	m = (struct message){.code = MSG_principals_request};
	send_message(a, &m);
	m = (struct message){.code = MSG_state_request};
	send_message(a, &m);
	m = (struct message){.code = MSG_operate,
	                     .operate = {.what = OPERATION_ADD_PRINCIPAL,
	                                 .name = bytes_of("mallory"),
	                                 .key = {a->line.target->key, NOISE_KEY}}};
	send_message(a, &m);
}

static void
pry(struct attacker *a)
{
	if (a->session == 0 || a->unanswered[true] > 16)
		return;
	ask_for_node(a, 1 + a->asked % GUESSES);
	ask_for_all(a, a->asked % GUESSES);
	a->asked++;
}

static void
pulse(struct attacker *a)
{
	for (int i = 0; i < PULSES && a->session != 0 && send_keepalive(a); i++)
		continue;
}

static void
act(struct attacker *a)
{
	switch (a->manner) {
	case PARKING:
		park(a);
		break;
	case FLOODING:
	case DEAF:
		flood(a);
		break;
	case GARBLED:
		garble(a);
		break;
	case REPEATING:
		repeat(a);
		break;
	case SLOW:
		drip(a);
		break;
	case HOARDING:
		hoard(a);
		break;
	case CURIOUS:
		pry(a);
		break;
	case PULSING:
		pulse(a);
		break;
	default:
		break;
	}
}

/* ---- what is heard ---- */

static void
on_opened(struct hostile_line *l)
{
	struct attacker *a = l->user;

	a->assault->opened++;
	if (a->manner == KNOCKING)
		hostile_line_end(l);
	else if (a->manner != GARBLED && a->manner != SLOW && a->manner != HOARDING)
		send_opening(a);
}

static void
hear_opened(struct attacker *a, const struct msg_session_opened *m)
{
	if (m->rc != RC_OK)
		return;
	a->assault->sessions++;
	a->session = m->session;
	a->epoch = m->epoch;
	send_keepalive(a);
	if (a->manner == DEAF) {
		flood(a);
		hostile_line_stop_reading(&a->line);
	}
}

static void
hear_reply(struct attacker *a, const struct msg_reply *m)
{
	const bool read = a->is_read[m->number % LIMIT_NUMBERS];

	a->assault->answers++;
	a->assault->parked += m->rc == RC_QUEUED;
	if (a->unanswered[read] > 0)
		a->unanswered[read]--;
}

static void
on_frame(struct hostile_line *l, struct bytes frame)
{
	struct attacker *a = l->user;
	struct message m;

	if (wire_get_frame(frame, &m) != RC_OK)
		return;
	if (m.code == MSG_denied)
		a->assault->denied++;
	else if (m.code == MSG_session_opened)
		hear_opened(a, &m.session_opened);
	else if (m.code == MSG_keepalive_reply && a->manner != PULSING)
		send_keepalive(a);
	else if (m.code == MSG_reply)
		hear_reply(a, &m.reply);
}

static void
attack(struct attacker *a)
{
	a->session = a->number = a->sequence = a->asked = 0;
	a->unanswered[false] = a->unanswered[true] = 0;
	hostile_line_begin(&a->line);
}

static void
on_closed(struct hostile_line *l)
{
	attack(l->user);
}

/* ---- life ---- */

static void on_end(uv_timer_t *end);

static bool
all_wait(const struct assault *s)
{
	return s->opened >= s->least_opened &&
	       (s->parkers == 0 || s->nodes_n < 2 || s->parked >= s->most_parked);
}

static void
begin_seconds(struct assault *s)
{
	printf("all wait\n");
	fflush(stdout);
	must(uv_timer_start(&s->end, on_end, 1000 * s->seconds, 0) == 0);
}

static void
on_tick(uv_timer_t *tick)
{
	struct assault *s = tick->data;

	if (!uv_is_active((uv_handle_t *)&s->end) && all_wait(s))
		begin_seconds(s);
	half_open_tick(s->half);
	for (int i = 0; i < 16 && s->begun < s->attackers_n; i++)
		attack(&s->attackers[s->begun++]);
	for (size_t i = 0; i < s->begun; i++)
		if (s->attackers[i].line.is_open && !s->attackers[i].line.is_closing)
			act(&s->attackers[i]);
}

static void
on_end(uv_timer_t *end)
{
	const struct assault *s = end->data;

	printf("half %zu standing %zu opened %llu sessions %llu denied %llu parked %llu "
	       "answers %llu learnt %llu\n",
	       half_open_made(s->half), half_open_standing(s->half), (unsigned long long)s->opened,
	       (unsigned long long)s->sessions, (unsigned long long)s->denied,
	       (unsigned long long)s->parked, (unsigned long long)s->answers,
	       (unsigned long long)hostile_learnt);
	exit(0);
}

static size_t
wanted(const char *name, size_t otherwise)
{
	const char *text = getenv(name);

	return text != NULL ? (size_t)strtoull(text, NULL, 10) : otherwise;
}

static void
aim(struct assault *s, const struct cell_file *cell, unsigned long master)
{
	for (int i = 0; i < cell->replicas_n; i++) {
		const struct cell_file_replica *r = &cell->replicas[i];
		struct hostile_target *t = &s->targets[s->targets_n++];
		char host[sizeof r->address];
		const char *colon = strrchr(r->address, ':');

		must(colon != NULL);
		snprintf(host, sizeof host, "%.*s", (int)(colon - r->address), r->address);
		must(uv_ip4_addr(host, atoi(colon + 1), &t->address) == 0);
		memcpy(t->key, r->public_key, sizeof t->key);
		memcpy(t->cell_id, cell->id, sizeof t->cell_id);
		t->loop = &s->loop;
		t->own = &s->own;
		if (r->id == master) { /* comes first */
			const struct hostile_target first = s->targets[0];

			s->targets[0] = *t;
			*t = first;
		}
	}
}

/* Ten go on in each manner, and so many more wait for locks that nobody waits for very many. */
static enum manner
manner_of(const struct assault *s, size_t i)
{
	const char *only = getenv("MANNER");

	for (int k = 0; k < MANNERS && only != NULL; k++)
		if (strcmp(manners[k], only) == 0)
			return (enum manner)k;
	if (i < 10 * MANNERS)
		return (enum manner)(i % MANNERS);
	return i < 10 * MANNERS + s->most_parked / PARKED_EACH ? PARKING : IDLE;
}

static void
muster(struct assault *s, bool at_all)
{
	s->attackers_n = wanted("SESSIONS", 100);
	s->attackers = memory_zero(s->attackers_n, sizeof *s->attackers);
	for (size_t i = 0; i < s->attackers_n; i++) {
		struct attacker *a = &s->attackers[i];

		a->assault = s;
		a->manner = manner_of(s, i);
		s->parkers += a->manner == PARKING;
		a->line.target = &s->targets[at_all ? i % s->targets_n : 0];
		a->line.opened = on_opened;
		a->line.frame = on_frame;
		a->line.closed = on_closed;
		a->line.user = a;
	}
}

static void
allow_many_files(void)
{
	struct rlimit limit;

	must(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	limit.rlim_cur = limit.rlim_max;
	must(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

int
main(int argc, char **argv)
{
	static struct assault s;
	struct cell_file cell;

	if (argc < 5) {
		fprintf(stderr,
		        "usage: hostile CELLFILE KEYFILE SECONDS SECRET [MASTER NODE...]\n");
		return 2;
	}
	allow_many_files();
	load_files(argv[1], argv[2], &cell, &s.own);
	hostile_secret = argv[4];
	for (int i = 6; i < argc && s.nodes_n < NODES_MAX; i++)
		s.nodes[s.nodes_n++] = strtoull(argv[i], NULL, 10);
	must(uv_loop_init(&s.loop) == 0);
	must(uv_timer_init(&s.loop, &s.tick) == 0 && uv_timer_init(&s.loop, &s.end) == 0);
	s.tick.data = s.end.data = &s;
	s.values.rng = rng_seeded(1);
	s.seconds = strtoull(argv[3], NULL, 10);
	s.most_parked = wanted("PARKED", 60000);
	s.least_opened = wanted("OPENED", 0);
	aim(&s, &cell, argc > 5 ? strtoul(argv[5], NULL, 10) : 0);
	muster(&s, argc <= 5);
	s.half = half_open_new(s.targets, s.targets_n, wanted("HALF", 10000));
	must(uv_timer_start(&s.tick, on_tick, 0, TICK_MS) == 0);
	return uv_run(&s.loop, UV_RUN_DEFAULT);
}
