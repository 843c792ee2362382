#include <stdlib.h>
#include "cell/tree/internal.h"

static int
compare_number(const struct cached_reply *a, const struct cached_reply *b)
{
	return (a->number > b->number) - (a->number < b->number);
}

RB_GENERATE(session_replies, cached_reply, in_session, compare_number)

struct cached_reply *
reply_cache_find(const struct session *s, uint64_t number)
{
	struct cached_reply key = {.number = number};

	return RB_FIND(session_replies, (struct session_replies *)&s->replies, &key);
}

void
reply_cache_drop(struct tree *t, struct session *s, struct cached_reply *k)
{
	dirty_result_gone(t, s->id, k->number);
	RB_REMOVE(session_replies, &s->replies, k);
	s->replies_n--;
	free((void *)k->result.data);
	free(k);
}

void
reply_cache_keep(struct tree *t, struct session *s, uint64_t number, enum op_code op, enum rc rc,
                 struct bytes result)
{
	struct cached_reply *k = memory_zero(1, sizeof *k);

	k->number = number;
	k->op = op;
	k->rc = rc;
	k->result = bytes_copy(result);
	must(RB_INSERT(session_replies, &s->replies, k) == NULL);
	s->replies_n++;
	dirty_result(t, s->id, k);
}

static void
forget_below(struct tree *t, struct session *s, uint64_t below)
{
	struct cached_reply *k;

	if (below <= s->below)
		return;
	s->below = below;
	dirty_session(t, s);
	while ((k = RB_MIN(session_replies, &s->replies)) != NULL && k->number < below)
		reply_cache_drop(t, s, k);
}

enum rc
reply_cache_look(struct tree *t, struct session *s, const struct command *c, enum op_code op,
                 const struct cached_reply **cached)
{
	*cached = NULL;
	if (c->number == 0)
		return RC_OK;
	forget_below(t, s, c->below);
	if (c->number < s->below)
		return RC_OLD_REQUEST;
	*cached = reply_cache_find(s, c->number);
	if (*cached != NULL)
		return (*cached)->op == op ? RC_OK : RC_INVAL;
	return c->number - s->below < LIMIT_NUMBERS ? RC_OK : RC_INVAL;
}

bool
tree_request_known(const struct tree *t, uint64_t session, uint64_t number)
{
	const struct session *s = session_live(t, session);

	return s != NULL && (number < s->below || reply_cache_find(s, number) != NULL);
}
