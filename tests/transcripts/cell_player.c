/* Plays the transcripts of the master and of the replica: the simulated world under a script. */
#include "tests/transcripts/cell_player.h"
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/transcripts/cell_damage.h"

enum { NEVER_S = 1000000 };

/* Begins a command's function, with its arguments `w` and the player `p`; what it brings about
 * comes to its end. */
#define COMMAND(name)                                                   \
	static void name##_command(struct script *w, struct player *p); \
	static void run_##name(struct script *w, void *world)           \
	{                                                               \
		struct player *p = world;                               \
                                                                        \
		command_begins(p, w);                                   \
		name##_command(w, p);                                   \
		sim_settle(p->s, MS);                                   \
	}                                                               \
	static void name##_command(struct script *w, struct player *p)

static void
command_begins(struct player *p, struct script *w)
{
	if (p->s == NULL && strcmp(script_name(w), "cell") != 0)
		script_misuse(w, "there is no cell yet");
	p->words = w;
	p->times = false;
	p->began = p->s == NULL ? 0 : p->s->now;
}

/* ---- who is meant ---- */

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
player_connect(struct player *p, int client, int at, uint8_t seat)
{
	const struct host *n = player_master(p);
	uint64_t conn;

	must(at <= HOSTS_MAX && (at > 0 || n != NULL));
	conn = net_connect(p->s, client, (at > 0 ? at : n->id) - 1, false, seat);
	sim_settle(p->s, 0);
	return conn;
}

struct machine *
player_client(struct player *p, const char *name)
{
	for (int i = 0; i < p->s->machines_n; i++)
		if (strcmp(p->clients[i], name) == 0)
			return &p->s->machines[i];
	return NULL;
}

struct host *
player_take_host(struct player *p, struct script *w)
{
	uint64_t id;

	if (script_take(w, "master"))
		return sim_serving(p->s);
	if (!script_take_number(w, &id))
		return NULL;
	if (id == 0 || id > (uint64_t)p->s->hosts_n)
		script_misuse(w, "there is no replica %lu", (unsigned long)id);
	return &p->s->hosts[id - 1];
}

static struct host *
next_host(struct player *p, struct script *w)
{
	struct host *n = player_take_host(p, w);

	if (n == NULL)
		script_misuse(w, "a replica is missing");
	return n;
}

struct machine *
player_next_client(struct player *p, struct script *w)
{
	struct machine *m = player_client(p, script_needed(w));

	if (m == NULL)
		script_misuse(w, "there is no such replica or client");
	return m;
}

/* ---- faults ---- */

static void
expect_running(struct script *w, const struct host *n, bool runs)
{
	if (n->up != runs)
		script_misuse(w, runs ? "it does not run" : "it runs already");
}

COMMAND(cut)
{
	const bool both = strcmp(script_name(w), "cut") == 0;
	const struct host *n = next_host(p, w), *other = player_take_host(p, w);
	const int64_t until = p->s->now + NEVER_S * SECOND;

	for (int i = 0; i < HOSTS_MAX; i++) {
		const int end = end_of_host(n->id);

		if (i == end || (other != NULL && end_of_host(other->id) != i))
			continue;
		if (both)
			net_cut_both(p->s, end, i, until);
		else
			net_cut(p->s, i, end, until);
	}
}

/* Messages that were sent before arrive now. */
COMMAND(heal)
{
	(void)w;
	for (int a = 1; a <= p->s->hosts_n; a++)
		for (int b = 1; b <= p->s->hosts_n; b++)
			if (a != b)
				link_heal(p->s, a, b);
	net_heal(p->s);
}

COMMAND(disk)
{
	struct host *n = next_host(p, w);
	int64_t time = NEVER_S * SECOND;

	if (script_take(w, "writes")) {
		host_disk_goes_on(p->s, n);
	} else if (script_take(w, "full")) {
		host_full(p->s, n, true);
	} else if (script_take(w, "free")) {
		host_full(p->s, n, false);
	} else if (script_take(w, "stuck")) {
		words_take_time(w, &time);
		n->disk.stuck_until = p->s->now + time;
	} else if (script_take(w, "copied")) {
		disk_copy(&n->copy, &n->disk);
	} else if (script_take(w, "old")) {
		expect_running(w, n, false);
		disk_copy(&n->disk, &n->copy);
		n->disk.replaced = true;
	} else if (script_take(w, "stateless")) {
		expect_running(w, n, false);
		disk_rot_state(&n->disk);
	} else {
		script_misuse(w, "a disk does no such thing");
	}
}

COMMAND(speaks)
{
	struct host *n = next_host(p, w);

	n->minor = (uint32_t)script_number(w);
}

COMMAND(crash)
{
	struct host *n = next_host(p, w);

	expect_running(w, n, true);
	host_crash_for(p->s, n, script_take(w, "late") ? LOSE_ALL : LOSE_NOTHING, NEVER_S * SECOND);
}

COMMAND(start)
{
	struct host *n = next_host(p, w);

	expect_running(w, n, false);
	n->gone = false;
	host_start(p->s, n);
}

COMMAND(stop)
{
	struct host *n = next_host(p, w);

	expect_running(w, n, true);
	host_stop(p->s, n, NEVER_S * SECOND);
}

COMMAND(freeze)
{
	struct host *n = player_take_host(p, w);
	struct machine *m = n == NULL ? player_next_client(p, w) : NULL;
	const int64_t until = p->s->now + words_time(w);

	if (n != NULL)
		host_pause(p->s, n, until);
	else
		machine_pause(p->s, m, until);
}

COMMAND(damage)
{
	struct host *n = next_host(p, w);

	if (script_take(w, "all")) {
		words_expect(w, "keys");
		n->disk.keys = (struct key_files){0};
	} else if (script_take(w, "keys"))
		signing_keys_first(&n->disk.keys);
	else if (script_take(w, "list"))
		n->disk.file.version = script_number(w);
	else if (script_take(w, "history"))
		damage_history(replica_tree(n->replica));
	else if (!damage_contents(replica_tree(n->replica),
	                          names_find(p->s, &p->names, script_needed(w))))
		script_misuse(w, "there are no such contents");
}

/* A message that one replica did not send arrives at another one as if it had. */
COMMAND(replica)
{
	struct buffer packed = BUFFER(LIMIT_FRAME), frame = BUFFER(LIMIT_FRAME);
	struct message m = {.code = MSG_members};
	const int from = (int)script_number(w),
	          to = (words_expect(w, "tells"), (int)script_number(w));
	uint64_t id;

	words_expect(w, "members");
	words_expect(w, "of");
	for (m.members.version = script_number(w); script_take_number(w, &id);
	     m.members.members.count++) {
		const struct member member =
		    seat_member((struct seat){(uint8_t)id, MEMBER_VOTER, (uint8_t)id});

		wire_put_member(&packed, &member);
	}
	m.members.members.packed = buffer_view(&packed);
	wire_put_frame(&frame, &m);
	link_put(p->s, from, to, buffer_view(&frame));
	buffer_free(&packed);
	buffer_free(&frame);
}

/* ---- looking ---- */

/* The members that it connects to. */
COMMAND(list)
{
	const struct host *n = next_host(p, w);
	struct buffer text = BUFFER(1000);
	struct msg_members told;
	struct seats seats;

	expect_running(w, n, true);
	told = replica_members(n->replica);
	seats_of_list(&seats, told.version, told.members);
	for (int i = 0; i < seats.n; i++)
		if (seats.list[i].role != MEMBER_REMOVED)
			buffer_printf(&text, " %u", seats.list[i].id);
	player_say(p, "%d: goes by list %lu:%.*s", n->id, (unsigned long)told.version,
	           (int)text.len, (const char *)text.data);
	buffer_free(&text);
}

COMMAND(show)
{
	const bool on = strcmp(script_name(w), "show") == 0;

	if (script_take(w, "log"))
		p->show_log = on;
	else
		words_expect(w, "all"), p->show_all = on;
}

/* ---- time ---- */

COMMAND(run)
{
	const uint64_t events = p->s->stats.events;
	const uint64_t most = script_value_number(w, "events", UINT64_MAX);

	p->times = true;
	sim_run_until(p->s, p->s->now + words_time(w));
	if (p->s->stats.events - events > most)
		script_misuse(w, "%lu things have happened",
		              (unsigned long)(p->s->stats.events - events));
}

COMMAND(until)
{
	player_until(p, w);
}

/* ---- the world ---- */

/* Nothing is left of the world before. */
static void
forget_world(void *world)
{
	struct player *p = world;

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

COMMAND(cell)
{
	const uint64_t replicas = script_number(w);
	const uint64_t seed = script_take(w, "seed") ? script_number(w) : 1;

	if (replicas == 0 || replicas > LIMIT_REPLICAS)
		script_misuse(w, "a cell has 1 to %d replicas", LIMIT_REPLICAS);
	forget_world(p);
	player_listen(&p->script, p);
	p->s = sim_stage(&p->script, seed);
	if (script_take(w, "digests"))
		p->s->swarm.digest_every = script_number(w);
	if (script_take(w, "log"))
		p->s->swarm.log_entries = script_number(w);
	if (script_take(w, "keepalives"))
		p->s->swarm.limits.keepalives = (unsigned)script_number(w);
	if (script_take(w, "budget"))
		p->s->swarm.limits.budget = (unsigned)script_number(w);
	sim_stage_cell(p->s, (int)replicas);
	while (sim_serving(p->s) == NULL)
		sim_run_until(p->s, p->s->now + MS);
	sim_run_until(p->s, p->s->now + 300 * MS);
}

COMMAND(client)
{
	const char *name = script_needed(w);

	must(strlen(name) < WORD_ROOM);
	strcpy(p->clients[p->s->machines_n], name);
	sim_stage_client(p->s, script_take(w, "caching"));
}

COMMAND(new_bare)
{
	bare_new(p, w);
}

static void
client_does(struct player *p, struct machine *m, struct script *w)
{
	struct op op;

	if (script_take(w, "close")) {
		machine_close(p->s, m);
	} else if (script_take(w, "start")) {
		machine_start(p->s, m, 0);
	} else if (script_take(w, "die")) {
		machine_crash(p->s, m);
	} else if (script_take(w, "watch")) {
		watches_command(p, m, w, true);
	} else if (script_take(w, "unwatch")) {
		watches_command(p, m, w, false);
	} else {
		words_op(p->s, &p->names, &p->locks[m->id], w, script_needed(w), &op);
		p->open[m->id]++;
		machine_request(p->s, m, PROCESS_SCRIPT, &op, false);
	}
}

/* "a: ..." or "operator [at 2]: ...". */
COMMAND(spoken)
{
	char name[WORD_ROOM] = "";
	const size_t len = strlen(script_name(w));
	struct machine *m;
	struct bare *b;

	if (len < sizeof name)
		memcpy(name, script_name(w), len - 1);
	if (script_name(w)[len - 1] != ':')
		script_misuse(w, "neither a command nor somebody who does something");
	if (strcmp(name, "operator") == 0)
		operator_command(p, w);
	else if ((b = bare_find(p, name)) != NULL)
		bare_command(p, b, w);
	else if ((m = player_client(p, name)) != NULL)
		client_does(p, m, w);
	else
		script_misuse(w, "there is no client \"%s\"", name);
}

static const struct script_command commands[] = {
    {"bare", "NAME [caching] [lasting] [as PRINCIPAL]", run_new_bare},
    {"cell", "REPLICAS [seed N] [digests N] [log N] [keepalives N]", run_cell},
    {"client", "NAME [caching]", run_client},
    {"crash", "REPLICA [late]", run_crash},
    {"cut", "REPLICA [REPLICA]", run_cut},
    {"damage", "REPLICA history|[all] keys|FILE", run_damage},
    {"deaf", "REPLICA [REPLICA]", run_cut},
    {"disk", "REPLICA writes|full|free|stuck [TIME]|copied|old|stateless", run_disk},
    {"freeze", "REPLICA|CLIENT TIME", run_freeze},
    {"heal", "", run_heal},
    {"hide", "log|all", run_show},
    {"list", "REPLICA", run_list},
    {"replica", "ID tells ID members of VERSION ID...", run_replica},
    {"run", "TIME [events=N]", run_run},
    {"show", "log|all", run_show},
    {"speaks", "REPLICA MINOR", run_speaks},
    {"start", "REPLICA", run_start},
    {"stop", "REPLICA", run_stop},
    {"until", "master|REPLICA votes|NAME is STATE", run_until},
    {NULL, "see cell_player.h", run_spoken},
};

int
main(int argc, char **argv)
{
	static const struct script_player player = {"cell", commands, sizeof(struct player), NULL,
	                                            forget_world};

	return script_main(argc, argv, &player);
}
