/* Exactly once: the answers of a session's requests are kept until it says that they have
 * arrived. A request that comes again, however late and by whatever way, gets the answer that it
 * had. */
#include <stdlib.h>
#include "cell/tree/internal.h"

static int
compare_number(const struct kept *a, const struct kept *b)
{
	return (a->number > b->number) - (a->number < b->number);
}

RB_GENERATE(session_kept, kept, in_session, compare_number)

struct kept *
kept_find(const struct session *s, uint64_t number)
{
	struct kept key = {.number = number};

	return RB_FIND(session_kept, (struct session_kept *)&s->kept, &key);
}

void
results_drop(struct tree *t, struct session *s, struct kept *k)
{
	changed_result(t, s->id, k->number);
	RB_REMOVE(session_kept, &s->kept, k);
	s->kept_n--;
	free((void *)k->result.data);
	free(k);
}

void
results_keep(struct tree *t, struct session *s, uint64_t number, enum op_code op, enum rc rc,
             struct bytes result)
{
	struct kept *k = memory_zero(1, sizeof *k);

	k->number = number;
	k->op = op;
	k->rc = rc;
	k->result = bytes_copy(result);
	must(RB_INSERT(session_kept, &s->kept, k) == NULL);
	s->kept_n++;
	changed_result(t, s->id, number);
}

static void
forget_below(struct tree *t, struct session *s, uint64_t below)
{
	struct kept *k;

	if (below <= s->below)
		return;
	s->below = below;
	changed_session(t, s->id);
	while ((k = RB_MIN(session_kept, &s->kept)) != NULL && k->number < below)
		results_drop(t, s, k);
}

enum rc
results_look(struct tree *t, struct session *s, const struct command *c, enum op_code op,
             const struct kept **kept)
{
	*kept = NULL;
	if (c->number == 0)
		return RC_OK;
	forget_below(t, s, c->below);
	if (c->number < s->below)
		return RC_OLD_REQUEST;
	*kept = kept_find(s, c->number);
	if (*kept != NULL)
		return (*kept)->op == op ? RC_OK : RC_INVAL;
	return c->number - s->below < LIMIT_NUMBERS ? RC_OK : RC_INVAL;
}

bool
tree_request_known(const struct tree *t, uint64_t session, uint64_t number)
{
	const struct session *s = session_find(t, session);

	return s != NULL && (number < s->below || kept_find(s, number) != NULL);
}
