/* The simulated world under a script. */
#include "tests/transcripts/cell_player.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/transcripts/cell_damage.h"

enum { SAID_MAX = 1 << 22, LINE_MAX = 4096, UNTIL_S = 60, NEVER_S = 1000000 };

/* ---- output ---- */

void
player_say(struct player *p, const char *format, ...)
{
	const int64_t passed = p->s == NULL ? 0 : (p->s->now - p->began) / MS;
	va_list args;
	char line[LINE_MAX];

	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	if (p->times && passed > 0)
		buffer_printf(&p->said, "+%ld ms ", (long)passed);
	buffer_printf(&p->said, "%s\n", line);
}

/* Lines that repeat are said once, with a count. */
static void
fold(struct player *p)
{
	struct buffer folded = BUFFER(SAID_MAX);
	char *rest, *line, *before = NULL;
	int n = 0;

	buffer_put_u8(&p->said, 0);
	rest = (char *)p->said.data;
	while ((line = strsep(&rest, "\n")) != NULL) {
		if (before != NULL && strcmp(line, before) == 0) {
			n++;
			continue;
		}
		if (before != NULL)
			buffer_printf(&folded, "%s%s\n", before, n > 1 ? ", again and again" : "");
		before = line;
		n = 1;
	}
	buffer_free(&p->said);
	p->said = folded;
}

/* Verdicts begin with what they are about; those of paxos have transcripts of their own. */
static bool
is_shown(const struct player *p, enum server_level level, const char *line)
{
	static const char *const subjects[] = {"session ", "lock ",      "barrier",
	                                       "request ", "mastership", "member ",
	                                       "disk",     "digest",     "connection "};

	if (p->show_all)
		return true;
	if (level != SERVER_DEBUG) /* but for connections between replicas */
		return strstr(line, " at host") == NULL;
	for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
		if (strncmp(line, subjects[i], strlen(subjects[i])) == 0)
			return true;
	return false;
}

/* In place of the number of a connection stands whose it is, and of that of a lock's node its path.
 */
static void
on_line(void *user, int replica, enum server_level level, const char *line)
{
	const struct bare *b = NULL;
	struct player *p = user;
	uint64_t number;
	int n = 0;

	if (!is_shown(p, level, line))
		return;
	if (sscanf(line, "connection %lu%n", &number, &n) == 1)
		b = bare_of_conn(p, number & ~(1ull << 63));
	if (b != NULL)
		player_say(p, "%d: connection of %s%s", replica, b->name, line + n);
	else if (sscanf(line, "lock %lu%n", &number, &n) == 1)
		player_say(p, "%d: lock of %s%s", replica, trace_path(p->s, number), line + n);
	else
		player_say(p, "%d: %s", replica, line);
}

static void
put_client(const struct player *p, struct buffer *to, uint64_t session)
{
	for (int i = 0; i < p->bares_n; i++) {
		if (p->bares[i]->session == session) {
			buffer_printf(to, "%s: ", p->bares[i]->name);
			return;
		}
	}
	buffer_printf(to, "session %lu: ", (unsigned long)session);
}

static void
on_decided(void *user, uint64_t index, const struct op *op, const struct record *r,
           const struct outcome *want)
{
	struct player *p = user;
	struct buffer text = BUFFER(LINE_MAX);

	if (!p->show_log)
		return;
	if (r != NULL && r->process == PROCESS_SCRIPT && r->token != 0 && !r->own)
		buffer_printf(&text, "%s: ", p->clients[r->machine]);
	else if (r != NULL)
		put_client(p, &text, r->session);
	print_op(&text, p->s, op);
	if (want == NULL)
		buffer_printf(&text, ": nothing");
	else if (want->rc != RC_OK)
		buffer_printf(&text, ": %s", rc_name(want->rc));
	player_say(p, "log %lu: %.*s", (unsigned long)index, (int)text.len,
	           (const char *)text.data);
	buffer_free(&text);
}

static void
on_frame(void *user, uint64_t conn, enum client_event_kind kind, struct bytes frame)
{
	struct player *p = user;
	struct bare *b = bare_of_conn(p, conn);

	if (!operator_heard(p, conn, kind, frame) && b != NULL)
		bare_heard(p, b, conn, kind, frame);
}

/* ---- clients with the library ---- */

static void
on_answered(void *user, const struct record *r)
{
	struct player *p = user;
	struct buffer text = BUFFER(LINE_MAX);

	p->open[r->machine]--;
	print_op(&text, p->s, &r->op);
	buffer_printf(&text, ": %s",
	              r->rc == RC_OK       ? "ok"
	              : r->rc == RC_QUEUED ? "queued"
	                                   : rc_name(r->rc));
	if (r->contents.data != NULL)
		buffer_printf(&text, ", \"%.*s\"", (int)r->contents.len,
		              (const char *)r->contents.data);
	if (r->got.fence != 0)
		buffer_printf(&text, ", lock generation %lu, token %lu",
		              (unsigned long)r->got.lock_generation, (unsigned long)r->got.fence);
	player_say(p, "%s: %.*s", p->clients[r->machine], (int)text.len, (const char *)text.data);
	buffer_free(&text);
}

static void
on_granted(void *user, int machine, const struct client_grant *g)
{
	struct player *p = user;

	if (g->rc != RC_OK)
		player_say(p, "%s: not granted %s, acquisition %lu: %s", p->clients[machine],
		           trace_path(p->s, g->node) + 1, (unsigned long)g->acquisition,
		           rc_name(g->rc));
	else
		player_say(p, "%s: granted %s, acquisition %lu, lock generation %lu, token %lu",
		           p->clients[machine], trace_path(p->s, g->node) + 1,
		           (unsigned long)g->acquisition, (unsigned long)g->lock_generation,
		           (unsigned long)g->fence);
}

static void
on_state(void *user, int machine)
{
	static const char *const names[] = {[CLIENT_NEW] = "new",
	                                    [CLIENT_SAFE] = "safe",
	                                    [CLIENT_JEOPARDY] = "in jeopardy",
	                                    [CLIENT_EXPIRED] = "expired",
	                                    [CLIENT_CLOSED] = "closed"};
	struct player *p = user;
	const struct machine *m = &p->s->machines[machine];

	player_say(p, "%s: session %lu is %s", p->clients[machine], (unsigned long)m->session,
	           names[m->state]);
}

static bool
client_new_command(struct player *p, struct words *w)
{
	const char *name = words_next(w);

	must(strlen(name) < WORD_ROOM);
	strcpy(p->clients[p->s->machines_n], name);
	sim_stage_client(p->s, words_take(w, "caching"));
	return words_done(w);
}

static struct machine *
client_find(struct player *p, const char *name)
{
	for (int i = 0; i < p->s->machines_n; i++)
		if (strcmp(p->clients[i], name) == 0)
			return &p->s->machines[i];
	return NULL;
}

static bool
client_command(struct player *p, struct machine *m, struct words *w)
{
	struct op op;

	if (words_take(w, "close")) {
		machine_close(p->s, m);
		return true;
	}
	if (words_take(w, "start")) {
		machine_start(p->s, m, 0);
		return true;
	}
	if (words_take(w, "die")) {
		machine_crash(p->s, m);
		return true;
	}
	if (!words_op(p->s, &p->names, &p->locks[m->id], w, &op))
		return false;
	p->open[m->id]++;
	machine_request(p->s, m, PROCESS_SCRIPT, &op, false);
	return true;
}

/* ---- replicas ---- */

struct host *
player_master(struct player *p)
{
	struct host *n = sim_serving(p->s);

	for (int i = 0; n == NULL && i < p->s->hosts_n; i++)
		if (p->s->hosts[i].up)
			n = &p->s->hosts[i];
	return n;
}

uint64_t
player_connect(struct player *p, int client, int at)
{
	const struct host *n = player_master(p);
	uint64_t conn;

	must(at <= HOSTS_MAX && (at > 0 || n != NULL));
	conn = net_connect(p->s, client, (at > 0 ? at : n->id) - 1, false);
	sim_settle(p->s, 0);
	return conn;
}

static struct host *
take_host(struct player *p, struct words *w)
{
	uint64_t id;

	if (words_take(w, "master"))
		return sim_serving(p->s);
	if (!words_number(w, &id) || id == 0 || id > (uint64_t)p->s->hosts_n)
		return NULL;
	return &p->s->hosts[id - 1];
}

static void
cut(struct player *p, int a, int b)
{
	net_cut_both(p->s, a, b, p->s->now + NEVER_S * SECOND);
}

static bool
cut_command(struct player *p, struct words *w, const char *word)
{
	const struct host *n = take_host(p, w), *other = take_host(p, w);

	for (int i = 0; n != NULL && i < HOSTS_MAX; i++) {
		const int end = end_of_host(n->id);

		if (i == end || (other != NULL && end_of_host(other->id) != i))
			continue;
		if (strcmp(word, "cut") == 0)
			cut(p, end, i);
		else
			net_cut(p->s, i, end, p->s->now + NEVER_S * SECOND);
	}
	return n != NULL && words_done(w);
}

/* What was sent before arrives now. */
static bool
heal_command(struct player *p)
{
	for (int a = 1; a <= p->s->hosts_n; a++)
		for (int b = 1; b <= p->s->hosts_n; b++)
			if (a != b)
				link_heal(p->s, a, b);
	net_heal(p->s);
	return true;
}

static void
disk_goes_on(struct player *p, struct host *n)
{
	const int64_t was = n->disk.stuck_until;

	n->disk.stuck_until = p->s->now;
	for (size_t i = 0; i < p->s->heap.n; i++)
		if (p->s->heap.events[i].at == was && p->s->heap.events[i].who == n->id - 1)
			p->s->heap.events[i].at = p->s->now;
	heap_sort(&p->s->heap);
}

static bool
disk_command(struct player *p, struct words *w)
{
	struct host *n = take_host(p, w);
	int64_t time = NEVER_S * SECOND;

	if (n == NULL)
		return false;
	if (words_take(w, "writes"))
		disk_goes_on(p, n);
	else if (words_take(w, "full"))
		host_full(p->s, n, true);
	else if (words_take(w, "free"))
		host_full(p->s, n, false);
	else if (words_take(w, "stuck") && (words_done(w) || words_time(w, &time)))
		n->disk.stuck_until = p->s->now + time;
	else
		return false;
	return words_done(w);
}

static bool
speaks_command(struct player *p, struct words *w)
{
	struct host *n = take_host(p, w);
	uint64_t minor;

	if (n == NULL || !words_number(w, &minor))
		return false;
	n->minor = (uint32_t)minor;
	return words_done(w);
}

static bool
process_command(struct player *p, struct words *w, const char *word)
{
	struct host *n = take_host(p, w);

	if (n == NULL || (strcmp(word, "start") == 0) == host_runs(n))
		return false;
	if (strcmp(word, "crash") == 0) {
		host_crash_for(p->s, n, words_take(w, "late") ? LOSE_ALL : LOSE_NOTHING,
		               NEVER_S * SECOND);
	} else if (strcmp(word, "start") == 0) {
		n->gone = false;
		host_start(p->s, n);
	} else {
		host_stop(p->s, n, NEVER_S * SECOND);
	}
	return words_done(w);
}

static bool
freeze_command(struct player *p, struct words *w)
{
	struct host *n = take_host(p, w);
	struct machine *m = n == NULL ? client_find(p, words_next(w)) : NULL;
	int64_t time;

	if (!words_time(w, &time) || (n == NULL && m == NULL))
		return false;
	if (n != NULL)
		host_pause(p->s, n, p->s->now + time);
	else
		machine_pause(p->s, m, p->s->now + time);
	return words_done(w);
}

static bool
damage_command(struct player *p, struct words *w)
{
	const struct host *n = take_host(p, w);
	const struct tree *t = n == NULL ? NULL : replica_tree(n->replica);

	if (t == NULL)
		return false;
	if (words_take(w, "history"))
		return damage_history(t) && words_done(w);
	return damage_contents(t, names_find(p->s, &p->names, words_next(w)));
}

/* The members that it connects to. */
static bool
list_command(struct player *p, struct words *w)
{
	const struct host *n = take_host(p, w);
	struct buffer text = BUFFER(1000);
	struct msg_members told;
	struct seats seats;

	if (n == NULL || !n->up)
		return false;
	told = replica_members(n->replica);
	seats_of_list(&seats, told.version, told.members);
	for (int i = 0; i < seats.n; i++)
		if (seats.list[i].role != MEMBER_REMOVED)
			buffer_printf(&text, " %u", seats.list[i].id);
	player_say(p, "%d: goes by list %lu:%.*s", n->id, (unsigned long)told.version,
	           (int)text.len, (const char *)text.data);
	buffer_free(&text);
	return words_done(w);
}

/* A message that one replica did not send arrives at another one as if it had. */
static bool
peer_command(struct player *p, struct words *w)
{
	struct buffer packed = BUFFER(LIMIT_FRAME), frame = BUFFER(LIMIT_FRAME);
	struct message m = {.code = MSG_members};
	uint64_t from, to, id;
	bool good = words_number(w, &from) && words_take(w, "tells") && words_number(w, &to) &&
	            words_take(w, "members") && words_take(w, "of") &&
	            words_number(w, &m.members.version);

	for (; good && words_number(w, &id); m.members.members.count++) {
		const struct member member =
		    seat_member((struct seat){(uint8_t)id, MEMBER_VOTER, (uint8_t)id});

		wire_put_member(&packed, &member);
	}
	m.members.members.packed = buffer_view(&packed);
	wire_put_frame(&frame, &m);
	if (good)
		link_put(p->s, (int)from, (int)to, buffer_view(&frame));
	buffer_free(&packed);
	buffer_free(&frame);
	return good && words_done(w);
}

/* ---- time ---- */

static bool
run_command(struct player *p, struct words *w)
{
	int64_t time;

	if (!words_time(w, &time))
		return false;
	p->times = true;
	sim_run_until(p->s, p->s->now + time);
	return words_done(w);
}

/* What is waited for. */
struct wait {
	enum { FOR_MASTER, FOR_VOTE, FOR_EXPELLED, FOR_STATE, FOR_ANSWERS, FOR_OPERATOR } what;
	const struct host *host; /* NULL: any */
	const struct machine *machine;
	enum client_state state;
};

static bool
has_come(struct player *p, const struct wait *wait)
{
	const struct host *n = wait->host, *serving = sim_serving(p->s);

	switch (wait->what) {
	case FOR_MASTER:
		return serving != NULL && (n == NULL || serving == n);
	case FOR_VOTE:
		return n->up && replica_condition(n->replica) == CONDITION_VOTING &&
		       members_role(p->s, n->id) == MEMBER_VOTER;
	case FOR_EXPELLED:
		return !n->up && members_role(p->s, n->id) == MEMBER_REMOVED;
	case FOR_STATE:
		return wait->machine->state == wait->state;
	case FOR_OPERATOR:
		return !operator_waits(p);
	case FOR_ANSWERS:
		return p->open[wait->machine->id] == 0;
	}
	return true;
}

static bool
parse_wait(struct player *p, struct words *w, struct wait *wait)
{
	static const char *const states[] = {[CLIENT_SAFE] = "safe",
	                                     [CLIENT_JEOPARDY] = "jeopardy",
	                                     [CLIENT_EXPIRED] = "expired",
	                                     [CLIENT_CLOSED] = "closed"};

	*wait = (struct wait){.what = FOR_MASTER};
	if (w->n == 2 && words_take(w, "master"))
		return true;
	if (words_take(w, "operator")) {
		wait->what = FOR_OPERATOR;
		return words_take(w, "is") && words_take(w, "answered") && words_done(w);
	}
	wait->host = take_host(p, w);
	if (wait->host != NULL) {
		if (words_take(w, "votes"))
			wait->what = FOR_VOTE;
		else if (!words_take(w, "is"))
			return false;
		else if (words_take(w, "expelled"))
			wait->what = FOR_EXPELLED;
		else if (!words_take(w, "master"))
			return false;
		return words_done(w);
	}
	wait->what = FOR_STATE;
	wait->machine = client_find(p, words_next(w));
	words_take(w, "is");
	if (words_take(w, "answered"))
		wait->what = FOR_ANSWERS;
	else if (words_done(w))
		return false;
	for (int i = 0; wait->what == FOR_STATE && i < (int)(sizeof states / sizeof *states); i++)
		if (states[i] != NULL && words_take(w, states[i]))
			wait->state = (enum client_state)i;
	return wait->machine != NULL && words_done(w);
}

static bool
until_command(struct player *p, struct words *w)
{
	const int64_t end = p->s->now + UNTIL_S * SECOND;
	struct wait wait;

	if (!parse_wait(p, w, &wait))
		return false;
	while (!has_come(p, &wait) && p->s->now < end)
		sim_run_until(p->s, p->s->now + MS);
	if (!has_come(p, &wait))
		player_say(p, "in vain");
	return true;
}

/* ---- commands ---- */

/* Nothing is left of the world before. */
static void
forget_world(struct player *p)
{
	if (p->s != NULL)
		sim_free(p->s);
	free(p->s);
	p->s = NULL;
	for (int i = 0; i < p->bares_n; i++)
		free(p->bares[i]);
	p->bares_n = p->questions_n = 0;
	memset(p->questions, 0, sizeof p->questions);
	memset(p->locks, 0, sizeof p->locks);
	memset(p->open, 0, sizeof p->open);
	p->names.n = 0;
	p->began = 0;
}

static bool
cell_command(struct player *p, struct words *w)
{
	uint64_t replicas, seed = 1;
	struct wait wait = {.what = FOR_MASTER};

	if (!words_number(w, &replicas) || replicas == 0 || replicas > LIMIT_REPLICAS ||
	    (words_take(w, "seed") && !words_number(w, &seed)))
		return false;
	forget_world(p);
	p->s = sim_stage(&p->script, seed);
	if (words_take(w, "digests") && !words_number(w, &p->s->swarm.digest_every))
		return false;
	if (words_take(w, "log") && !words_number(w, &p->s->swarm.log_entries))
		return false;
	sim_stage_cell(p->s, (int)replicas);
	while (!has_come(p, &wait))
		sim_run_until(p->s, p->s->now + MS);
	sim_run_until(p->s, p->s->now + 300 * MS);
	return words_done(w);
}

static bool
show_command(struct player *p, struct words *w, bool on)
{
	if (words_take(w, "log"))
		p->show_log = on;
	else if (words_take(w, "all"))
		p->show_all = on;
	else
		return false;
	return words_done(w);
}

static bool
world_command(struct player *p, struct words *w, const char *word)
{
	static const char *const processes[] = {"crash", "start", "stop"};

	for (size_t i = 0; i < sizeof processes / sizeof *processes; i++)
		if (strcmp(word, processes[i]) == 0)
			return process_command(p, w, word);
	if (strcmp(word, "speaks") == 0)
		return speaks_command(p, w);
	if (strcmp(word, "run") == 0)
		return run_command(p, w);
	if (strcmp(word, "until") == 0)
		return until_command(p, w);
	if (strcmp(word, "freeze") == 0)
		return freeze_command(p, w);
	if (strcmp(word, "cut") == 0 || strcmp(word, "deaf") == 0)
		return cut_command(p, w, word);
	if (strcmp(word, "heal") == 0)
		return heal_command(p);
	if (strcmp(word, "disk") == 0)
		return disk_command(p, w);
	if (strcmp(word, "damage") == 0)
		return damage_command(p, w);
	if (strcmp(word, "list") == 0)
		return list_command(p, w);
	if (strcmp(word, "replica") == 0)
		return peer_command(p, w);
	if (strcmp(word, "client") == 0)
		return client_new_command(p, w);
	if (strcmp(word, "bare") == 0)
		return bare_new(p, w);
	return false;
}

/* "a: ..." or "operator [at 2]: ...". */
static bool
spoken_command(struct player *p, struct words *w, char *word)
{
	const size_t len = strlen(word);
	struct machine *m;
	struct bare *b;

	if (strcmp(word, "operator:") == 0 || strcmp(word, "operator") == 0)
		return operator_command(p, w);
	if (len == 0 || word[len - 1] != ':')
		return false;
	word[len - 1] = '\0';
	if ((b = bare_find(p, word)) != NULL)
		return bare_command(p, b, w);
	return (m = client_find(p, word)) != NULL && client_command(p, m, w);
}

static bool carry_out(struct player *p, struct words *w);

/* The same again and again; what is said again and again is shown once. */
static bool
times_command(struct player *p, struct words *w, uint64_t times)
{
	const int from = w->at;

	for (uint64_t i = 0; i < times; i++) {
		struct words again = *w;

		again.at = from;
		if (!carry_out(p, &again))
			return false;
		sim_settle(p->s, MS);
	}
	fold(p);
	w->at = w->n;
	return true;
}

static bool
carry_out(struct player *p, struct words *w)
{
	const int from = w->at;
	uint64_t times;
	char *word;

	if (words_number(w, &times) && words_take(w, "times"))
		return times_command(p, w, times);
	w->at = from;
	word = (char *)words_next(w);

	if (strcmp(word, "show") == 0 || strcmp(word, "hide") == 0)
		return show_command(p, w, *word == 's');
	if (strcmp(word, "cell") == 0)
		return cell_command(p, w);
	if (p->s == NULL)
		return false;
	return world_command(p, w, word) || spoken_command(p, w, word);
}

bool
player_command(struct player *p, const char *line)
{
	struct words w;

	buffer_reset(&p->said);
	p->times = false;
	p->began = p->s == NULL ? 0 : p->s->now;
	if (!words_split(&w, line) || !carry_out(p, &w) || !words_done(&w)) {
		player_say(p, "not understood");
		return false;
	}
	sim_settle(p->s, MS);
	return true;
}

const char *
player_do(struct player *p, const char *format, ...)
{
	char line[LINE_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	must(player_command(p, line));
	buffer_put_u8(&p->said, 0);
	must(!p->said.failed);
	return (const char *)p->said.data;
}

/* ---- life ---- */

struct player *
player_new(void)
{
	struct player *p = memory_zero(1, sizeof *p);

	p->said = BUFFER(SAID_MAX);
	p->script = (struct sim_script){.user = p,
	                                .said = on_line,
	                                .decided = on_decided,
	                                .heard = on_frame,
	                                .answered = on_answered,
	                                .granted = on_granted,
	                                .state = on_state};
	return p;
}

void
player_free(struct player *p)
{
	forget_world(p);
	buffer_free(&p->said);
	free(p);
}
