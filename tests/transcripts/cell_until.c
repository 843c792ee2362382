/* Waiting in cell scripts until something has come about. */
#include "tests/transcripts/cell_player.h"

enum { UNTIL_S = 60 };

/* An event that is waited for. */
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

/* "votes", "is expelled", "is master" of a replica; "is safe" and so on of a client. */
static void
parse_state(struct player *p, struct script *w, struct wait *wait)
{
	static const char *const states[] = {[CLIENT_SAFE] = "safe",
	                                     [CLIENT_JEOPARDY] = "jeopardy",
	                                     [CLIENT_EXPIRED] = "expired",
	                                     [CLIENT_CLOSED] = "closed"};

	if (wait->host == NULL)
		wait->machine = player_next_client(p, w);
	if (wait->host != NULL && script_take(w, "votes")) {
		wait->what = FOR_VOTE;
		return;
	}
	words_expect(w, "is");
	if (wait->host != NULL && script_take(w, "expelled"))
		wait->what = FOR_EXPELLED;
	else if (wait->host != NULL)
		words_expect(w, "master");
	else if (script_take(w, "answered"))
		wait->what = FOR_ANSWERS;
	else
		*wait = (struct wait){.what = FOR_STATE,
		                      .machine = wait->machine,
		                      .state = (enum client_state)script_choice(w, script_needed(w),
		                                                                states,
		                                                                CLIENT_CLOSED + 1)};
}

void
player_until(struct player *p, struct script *w)
{
	const int64_t end = p->s->now + UNTIL_S * SECOND;
	struct wait wait = {.what = FOR_MASTER};

	if (script_take(w, "operator")) {
		wait.what = FOR_OPERATOR;
		words_expect(w, "is");
		words_expect(w, "answered");
	} else if (!script_take(w, "master")) {
		wait.host = player_take_host(p, w);
		parse_state(p, w, &wait);
	}
	while (!has_come(p, &wait) && p->s->now < end)
		sim_run_until(p->s, p->s->now + MS);
	if (!has_come(p, &wait))
		player_say(p, "in vain");
}
