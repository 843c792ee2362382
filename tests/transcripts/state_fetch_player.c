/* Plays transcripts of the fetching of a copy of a state: what the fetch is told, and what it asks
 * for, writes and gives up then. */

#include "cell/base/checksum.h"
#include "cell/copy/state_fetch.h"
#include "tests/transcripts/script.h"

enum { DATA_MAX = 4096 };

struct world {
	struct state_fetch fetch;
	mono_t now, due; /* due: as it was said last */
};

/* ---- what the fetch says ---- */

static void
say_news(struct script *s, const struct state_fetch_update *u)
{
	switch (u->news) {
	case STATE_FETCH_NO_NEWS:
		return;
	case STATE_FETCH_BEGUN:
		script_say(s, "begins with replica %u", u->source);
		return;
	case STATE_FETCH_WAITS:
		script_say(s, "still waits for replica %u", u->source);
		return;
	case STATE_FETCH_GIVEN_UP:
		script_say(s, "gives up replica %u: %s%s", u->source, u->why,
		           u->hopeless ? " (so would any other)" : "");
		return;
	case STATE_FETCH_UNNEEDED:
		script_say(s, "asks replica %u no more", u->source);
		return;
	case STATE_FETCH_FETCHED:
		script_say(s, "the state of replica %u is here", u->source);
		return;
	}
}

static void
say_due(struct script *s, struct world *w)
{
	if (w->fetch.due.ns == w->due.ns)
		return;
	w->due = w->fetch.due;
	if (mono_is_never(w->due))
		script_say(s, "waits");
	else
		script_say(s, "waits %lld ms", (long long)span_to_ms(mono_since(w->due, w->now)));
}

static void
step(struct script *s, struct world *w, struct state_fetch_event e)
{
	struct state_fetch_update u;

	e.now = w->now;
	state_fetch_step(&w->fetch, &e, &u);
	say_news(s, &u);
	if (u.drop)
		script_say(s, "drops what is written");
	if (u.begin)
		script_say(s, "begins an empty file");
	if (u.data.len > 0)
		script_say(s, "writes %zu bytes at %llu", u.data.len, (unsigned long long)u.offset);
	if (u.check)
		script_say(s, "checks the whole");
	if (u.to != 0)
		script_say(s, "asks replica %u for copy %llu at %llu", u.to,
		           (unsigned long long)u.request.copy,
		           (unsigned long long)u.request.offset);
	say_due(s, w);
}

/* ---- commands ---- */

#define COMMAND(name) SCRIPT_COMMAND(name, struct world)

COMMAND(policy)
{
	state_fetch_init(&w->fetch, &(struct state_fetch_policy){
	                                .patience = script_value_ms(s, "patience", 3000),
	                                .requests = (int)script_value_number(s, "requests", 4),
	                                .copies = (int)script_value_number(s, "copies", 1),
	                                .pause = script_value_ms(s, "pause", 500),
	                                .pause_max = script_value_ms(s, "pause_max", 30000)});
}

COMMAND(want)
{
	const uint8_t replica = (uint8_t)script_number(s);

	step(s, w,
	     (struct state_fetch_event){.kind = STATE_FETCH_WANT,
	                                .replica = replica,
	                                .least = script_value_number(s, "least", 0)});
}

COMMAND(part)
{
	static const uint8_t zeros[DATA_MAX];
	const uint8_t replica = (uint8_t)script_number(s);
	struct msg_state_part part = {
	    .copy = script_value_number(s, "copy", 5),
	    .applied = script_value_number(s, "applied", 77),
	    .size = script_value_number(s, "size", 300),
	    .offset = script_value_number(s, "at", 0),
	    .data = {zeros, script_value_number(s, "bytes", 100)},
	};

	if (part.data.len > DATA_MAX)
		script_misuse(s, "at most %d bytes", DATA_MAX);
	part.checksum = checksum(part.data) ^ script_value_number(s, "flipped", 0);
	step(s, w,
	     (struct state_fetch_event){.kind = STATE_FETCH_PART,
	                                .replica = replica,
	                                .part = &part});
}

COMMAND(refused)
{
	const uint8_t replica = (uint8_t)script_number(s);
	const struct msg_state_refused refused = {
	    .rc = (uint8_t)script_rc(s, script_needed(s)),
	    .copy = script_value_number(s, "copy", 0),
	};

	step(s, w,
	     (struct state_fetch_event){.kind = STATE_FETCH_REFUSED,
	                                .replica = replica,
	                                .refused = &refused});
}

COMMAND(lost)
{
	const uint8_t replica = (uint8_t)script_number(s);

	step(s, w,
	     (struct state_fetch_event){.kind = STATE_FETCH_LOST,
	                                .replica = replica,
	                                .why = script_word(s)});
}

COMMAND(unwritten)
{
	step(s, w,
	     (struct state_fetch_event){.kind = STATE_FETCH_UNWRITTEN, .why = script_word(s)});
}

COMMAND(checked)
{
	step(s, w, (struct state_fetch_event){.kind = STATE_FETCH_CHECKED, .why = script_word(s)});
}

static void
pass(struct script *s, struct world *w, span_t time)
{
	const mono_t end = mono_add(w->now, time);

	while (mono_reached(end, w->fetch.due)) {
		w->now = mono_max(w->now, w->fetch.due);
		step(s, w, (struct state_fetch_event){.kind = STATE_FETCH_TIME});
	}
	w->now = end;
}

COMMAND(after)
{
	pass(s, w, script_ms(s));
}

/* The time comes too early: the fetch was not due yet. */
COMMAND(early)
{
	step(s, w, (struct state_fetch_event){.kind = STATE_FETCH_TIME});
}

/* There is no place for a copy, and some time passes. */
COMMAND(crowded)
{
	const uint8_t replica = (uint8_t)script_number(s);
	const struct msg_state_refused refused = {
	    .rc = RC_BUSY,
	    .copy = script_value_number(s, "copy", 0),
	};

	step(s, w,
	     (struct state_fetch_event){.kind = STATE_FETCH_REFUSED,
	                                .replica = replica,
	                                .refused = &refused});
	pass(s, w, span_ms(50));
}

static const struct script_command commands[] = {
    {"policy", "[patience=MS] [requests=N] [copies=N] [pause=MS] [pause_max=MS]", run_policy},
    {"want", "REPLICA [least=INDEX]", run_want},
    {"part", "REPLICA [copy=N] [applied=INDEX] [size=N] [at=OFFSET] [bytes=N] [flipped=BITS]",
     run_part},
    {"refused", "REPLICA CODE [copy=N]", run_refused},
    {"crowded", "REPLICA [copy=N]", run_crowded},
    {"lost", "REPLICA WHY", run_lost},
    {"unwritten", "WHY", run_unwritten},
    {"checked", "[WHY]", run_checked},
    {"after", "MS", run_after},
    {"early", "", run_early},
    {0},
};

/* ---- the player ---- */

static void
begin(void *world)
{
	struct world *w = world;

	w->now = (mono_t){1000000000};
	w->due = MONO_NEVER;
}

int
main(int argc, char **argv)
{
	static const struct script_player player = {"state_fetch", commands, sizeof(struct world),
	                                            begin, NULL};

	return script_main(argc, argv, &player);
}
