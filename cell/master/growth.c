/* When a majority of the disks is full, requests that need room are refused before they get into
 * the log. Requests that give room back, and those that need none, are served.
 *
 * A later request of the session goes on as if the refused one had been decided: a release does
 * though the write before it was refused. A client that has not heard of the refusal repeats the
 * refused request, and it must not take effect then, after the release. So it stays refused, and
 * the log says so before it has the next command of the session. */
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/master/internal.h"

/* The node's attributes, if the session can see them. */
static bool
look(const struct master *m, const struct m_session *s, const struct op *read, struct attr *attr)
{
	const struct requester who = {.session = s->id};
	struct buffer scratch = BUFFER(LIMIT_FRAME); /* attributes need none */
	struct result result;

	if (tree_read(m->tree, &who, m->wall_ns, read, &result, &scratch) != RC_OK)
		return false;
	*attr = result.attr.attr;
	return true;
}

static bool
grows(const struct master *m, const struct m_session *s, const struct op *op)
{
	struct cursor from;
	struct step step;
	struct op read;
	struct attr attr;

	switch (op->code) {
	case OP_create:
		read =
		    (struct op){.code = OP_lookup, .lookup = {op->create.parent, op->create.name}};
		return !look(m, s, &read, &attr);
	case OP_set_contents:
		read = (struct op){.code = OP_get_attr, .get_attr = {op->set_contents.node}};
		return look(m, s, &read, &attr) && op->set_contents.contents.len > attr.size;
	case OP_number:
		return true;
	case OP_append:
		return op->append.data.len > 0;
	case OP_transaction:
		/* Which of its operations will be done is not known. */
		from = cursor_of(op->transaction.steps.packed);
		while (wire_next_step(&from, &step))
			if (step.kind == STEP_DO && wire_get_op(step.op, &read) == RC_OK &&
			    (read.code == OP_create || read.code == OP_set_contents ||
			     read.code == OP_append))
				return true;
		return false;
	default:
		return false;
	}
}

/* A request that took effect under an earlier master has its answer already. */
bool
m_growth_refuse(struct master *m, struct m_session *s, struct m_request *r, const struct op *op)
{
	struct refused_request *refused;

	if (!grows(m, s, op) || tree_request_known(m->tree, s->id, r->number))
		return false;
	M_TRACE(m, "request %" PRIu64 ".%" PRIu64 " is refused: most disks are full", s->id,
	        r->number);
	refused = memory_zero(1, sizeof *refused);
	refused->number = r->number;
	refused->code = r->code;
	TAILQ_INSERT_TAIL(&s->refused, refused, entry);
	m_request_reply(m, s, r, RC_NOSPC, NULL);
	return true;
}

bool
m_growth_refuse_again(struct master *m, struct m_session *s, uint64_t number)
{
	const struct message reply =
	    MESSAGE(reply, .number = number, .rc = RC_NOSPC, .index = m->applied);
	const struct refused_request *refused;

	TAILQ_FOREACH(refused, &s->refused, entry) {
		if (refused->number != number)
			continue;
		m_connection_send(m, s->connection, &reply);
		return true;
	}
	return false;
}

static void
forget(struct m_session *s, struct refused_request *refused)
{
	TAILQ_REMOVE(&s->refused, refused, entry);
	free(refused);
}

/* Until the log has one that was proposed with a later command, its number is not free. */
void
m_growth_forget(const struct master *m, struct m_session *s, uint64_t below)
{
	struct refused_request *refused, *next;

	TAILQ_FOREACH_SAFE(refused, &s->refused, entry, next)
		if (refused->number < below &&
		    (!refused->logged || tree_request_known(m->tree, s->id, refused->number)))
			forget(s, refused);
}

void
m_growth_forget_all(struct m_session *s)
{
	struct refused_request *refused;

	while ((refused = TAILQ_FIRST(&s->refused)) != NULL)
		forget(s, refused);
}
