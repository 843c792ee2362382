/* Reads are answered from the applied tree, under the master's lease, with the state that only the
 * master has: the waiters for a lock, the rest of a lock-delay, and the cell's signature. */
#include "cell/base/must.h"
#include "cell/master/internal.h"
#include "cell/master/sequencer.h"

/* `whole`: of a delay, as the tree has it; that of a shared lock may stand beside its holders. */
static int64_t
delay_left_s(const struct master *m, uint64_t node, int64_t whole)
{
	return whole > 0 ? m_delay_left_s(&m->delays, m->now, node) : 0;
}

static void
sign(struct master *m, struct result_sequencer *r, struct buffer *scratch)
{
	struct buffer text = BUFFER(LIMIT_SEQUENCER);

	sequencer_sign(r->sequencer, m->config.keys.secret[0], &text);
	must(!text.failed);
	buffer_free(scratch);
	*scratch = text;
	r->sequencer = buffer_view(scratch);
}

/* The waiters stand in `scratch` after the path and the holders. */
static void
add_waiters(struct master *m, struct result *r, struct buffer *scratch)
{
	const size_t before = scratch->len;
	struct lock_queue *q = m_queue_find(m, r->queue.node);

	if (q != NULL)
		r->queue.waiters.count = m_queue_list(m, q, scratch);
	must(!scratch->failed);
	r->queue.path.data = scratch->data;
	r->queue.holders.packed.data = scratch->data + r->queue.path.len;
	r->queue.waiters.packed = (struct bytes){scratch->data + before, scratch->len - before};
	r->queue.delay_left_s = delay_left_s(m, r->queue.node, r->queue.delay_left_s);
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
	struct buffer scratch = BUFFER(LIMIT_FRAME);
	bool found = next_lock(m, *node, node);
	struct result r;

	found = found && tree_read_queue(m->tree, &who, *node, m->wall_ns, &r, &scratch) == RC_OK;
	if (found) {
		add_waiters(m, &r, &scratch);
		wire_put_result(result, &r);
	}
	buffer_free(&scratch);
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

/* True while this replica lacks the key by which the cell may have signed the sequencer: the
 * request is repeated. */
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

enum rc
m_read_answer(struct master *m, const struct requester *who, const struct guard *guard,
              const struct op *op, struct result *r, struct buffer *scratch)
{
	struct op queue = {.code = OP_get_queue};
	const struct lock_queue *q;
	const char *why;
	enum rc rc;

	if (guard->node != 0 && tree_guard_stale(m->tree, guard) != NULL)
		return RC_GUARD;
	if (op->code == OP_check_sequencer) {
		if (is_undecided(m, op->check_sequencer.sequencer))
			return RC_OLD_EPOCH;
		*r = (struct result){.kind = RESULT_checked};
		why = check(m, op->check_sequencer.sequencer, &r->checked.guard);
		if (why != NULL)
			r->checked.why = bytes_of(why);
		return RC_OK;
	}
	if (op->code == OP_get_queue && op->get_queue.next &&
	    next_lock(m, op->get_queue.node, &queue.get_queue.node))
		op = &queue;
	rc = tree_read(m->tree, who, m->wall_ns, op, r, scratch);
	if (rc != RC_OK)
		return rc;
	if (op->code == OP_get_lock) {
		q = m_queue_find(m, op->get_lock.node);
		r->lock.waiters = q != NULL ? q->n : 0;
		r->lock.delay_left_s = delay_left_s(m, op->get_lock.node, r->lock.delay_left_s);
		if (r->lock.ttl_left_s > 0)
			r->lock.ttl_left_s =
			    (uint32_t)m_delay_left_s(&m->lives, m->now, op->get_lock.node);
	} else if (op->code == OP_get_sequencer) {
		sign(m, &r->sequencer, scratch);
	} else if (op->code == OP_get_queue) {
		add_waiters(m, r, scratch);
	}
	return RC_OK;
}
