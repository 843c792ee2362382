/* Reads are answered from the applied tree, under the master's lease, with the state that only the
 * master has: the waiters for a lock, the rest of a lock-delay, and the cell's signature. */
#include <stdlib.h>
#include "cell/base/must.h"
#include "cell/master/internal.h"
#include "cell/master/sequencer.h"

static int64_t
delay_left_s(struct master *m, uint64_t node, enum lock_state state)
{
	return state == LOCK_STATE_DELAYED ? m_delay_left_s(m, node) : 0;
}

static void
put_sequencer(struct master *m, struct bytes raw, struct buffer *to)
{
	struct buffer text = BUFFER(LIMIT_SEQUENCER);
	struct result result;

	must(wire_get_result(RESULT_sequencer, raw, &result) == RC_OK);
	sequencer_sign(result.sequencer.sequencer, m->config.keys.secret[0], &text);
	must(!text.failed);
	result.sequencer.sequencer = buffer_view(&text);
	wire_put_result(to, &result);
	buffer_free(&text);
}

static void
put_queue(struct master *m, struct bytes raw, struct buffer *to)
{
	struct buffer waiters = BUFFER(LIMIT_FRAME);
	struct lock_queue *q;
	struct result result;

	must(wire_get_result(RESULT_queue, raw, &result) == RC_OK);
	q = m_queue_find(m, result.queue.node);
	if (q != NULL)
		result.queue.waiters.count = m_queue_list(m, q, &waiters);
	result.queue.waiters.packed = buffer_view(&waiters);
	result.queue.delay_left_s = delay_left_s(m, result.queue.node, result.queue.state);
	wire_put_result(to, &result);
	buffer_free(&waiters);
}

static void
put_read(struct master *m, const struct op *op, struct bytes raw, struct buffer *to)
{
	if (op->code == OP_get_lock) {
		const struct lock_queue *q = m_queue_find(m, op->get_lock.node);
		struct result result;

		must(wire_get_result(RESULT_lock, raw, &result) == RC_OK);
		result.lock.waiters = q != NULL ? q->n : 0;
		result.lock.delay_left_s = delay_left_s(m, op->get_lock.node, result.lock.state);
		wire_put_result(to, &result);
	} else if (op->code == OP_get_sequencer)
		put_sequencer(m, raw, to);
	else
		put_queue(m, raw, to);
}

/* ---- the next lock ---- */

/* The first node above `after` whose lock is held, delayed or awaited. A queue whose node was
 * deleted is about to go. */
static bool
next_lock(struct master *m, uint64_t after, uint64_t *node)
{
	struct lock_queue *q = m_queue_after(m, after);
	bool found = tree_lock_after(m->tree, after, node);

	while (q != NULL && q->gone)
		q = m_queue_after(m, q->node);
	if (q == NULL || (found && *node <= q->node))
		return found;
	*node = q->node;
	return true;
}

bool
m_read_next_queue(struct master *m, struct bytes principal, uint64_t *node, struct buffer *result)
{
	const struct subject who = {.principal = principal};
	struct buffer raw = BUFFER(LIMIT_FRAME - 1024);
	bool found = next_lock(m, *node, node);

	found = found && tree_read_queue(m->tree, &who, *node, m->wall_ns, &raw) == RC_OK;
	if (found)
		put_queue(m, buffer_view(&raw), result);
	buffer_free(&raw);
	return found;
}

/* ---- sequencers ---- */

/* Ed25519: the public key is the second half of the secret one. */
static bool
is_signed(const struct master *m, const struct sequencer *s)
{
	for (int i = 0; i < m->config.keys.n; i++)
		if (sequencer_verify(s, m->config.keys.secret[i] + 32))
			return true;
	return false;
}

/* True while this replica lacks the key by which the cell may have signed the sequencer: whoever
 * asks tries again. */
static bool
is_undecided(const struct master *m, struct bytes text)
{
	struct sequencer s;

	return m->config.keys.incomplete && sequencer_parse(text, &s) && !is_signed(m, &s);
}

static const char *
check(struct master *m, struct bytes text, struct guard *g)
{
	struct sequencer s;

	if (!sequencer_parse(text, &s))
		return "not a sequencer";
	if (!is_signed(m, &s))
		return "not signed by this cell";
	*g = (struct guard){
	    .node = s.instance,
	    .lock_generation = s.lock_generation,
	    .mode = s.mode,
	    .fence = s.fence,
	};
	return tree_guard_stale(m->tree, g);
}

static void
put_checked(struct master *m, struct bytes text, struct buffer *to)
{
	struct result result = {.kind = RESULT_checked};
	const char *why = check(m, text, &result.checked.guard);

	if (why != NULL)
		result.checked.why = bytes_of(why);
	wire_put_result(to, &result);
}

void
m_read_check(struct master *m, const struct m_connection *c, const struct msg_check_sequencer *msg)
{
	struct message reply = {.code = MSG_sequencer_checked};
	struct guard guard;
	const char *why = check(m, msg->sequencer, &guard);

	if (is_undecided(m, msg->sequencer))
		reply = (struct message){.code = MSG_redirect, .redirect.epoch = m->epoch};
	else if (why != NULL)
		reply.sequencer_checked.why = bytes_of(why);
	m_connection_send(m, c, &reply);
}

/* ---- the answer ---- */

static enum rc
complete(struct master *m, const struct requester *who, const struct op *op, struct buffer *result)
{
	struct buffer raw = BUFFER(LIMIT_FRAME - 1024);
	enum rc rc = tree_read(m->tree, who, m->wall_ns, op, &raw);

	if (rc == RC_OK)
		put_read(m, op, buffer_view(&raw), result);
	buffer_free(&raw);
	return rc;
}

enum rc
m_read_answer(struct master *m, const struct requester *who, const struct guard *guard,
              const struct op *op, struct buffer *result)
{
	struct op queue = {.code = OP_get_queue};

	if (guard->node != 0 && tree_guard_stale(m->tree, guard) != NULL)
		return RC_GUARD;
	if (op->code == OP_check_sequencer) {
		if (is_undecided(m, op->check_sequencer.sequencer))
			return RC_OLD_EPOCH;
		put_checked(m, op->check_sequencer.sequencer, result);
		return RC_OK;
	}
	if (op->code == OP_get_queue && op->get_queue.next &&
	    next_lock(m, op->get_queue.node, &queue.get_queue.node))
		op = &queue;
	if (op->code == OP_get_lock || op->code == OP_get_sequencer || op->code == OP_get_queue)
		return complete(m, who, op, result);
	return tree_read(m->tree, who, m->wall_ns, op, result);
}
