/* Reads are answered from the applied tree, under the master's lease, with the state that only the
 * master has: the number of waiters, the rest of a lock-delay, and the cell's signature. */
#include <stdlib.h>
#include "cell/base/must.h"
#include "cell/master/internal.h"
#include "cell/master/sequencer.h"

static void
put_lock(struct master *m, uint64_t node, struct bytes raw, struct buffer *to)
{
	const struct lock_queue *q = m_queue_find(m, node);
	struct result result;

	must(wire_get_result(RESULT_lock, raw, &result) == RC_OK);
	result.lock.waiters = q != NULL ? q->n : 0;
	result.lock.delay_left_s =
	    result.lock.state == LOCK_STATE_DELAYED ? m_delay_left_s(m, node) : 0;
	wire_put_result(to, &result);
}

static void
put_sequencer(struct master *m, struct bytes raw, struct buffer *to)
{
	struct buffer text = BUFFER(LIMIT_SEQUENCER);
	struct result result;

	must(wire_get_result(RESULT_sequencer, raw, &result) == RC_OK);
	sequencer_sign(result.sequencer.sequencer, m->config.signing_key, &text);
	must(!text.failed);
	result.sequencer.sequencer = buffer_view(&text);
	wire_put_result(to, &result);
	buffer_free(&text);
}

enum rc
m_read_answer(struct master *m, uint64_t session, const struct op *op, struct buffer *result)
{
	struct buffer raw = BUFFER(LIMIT_FRAME - 1024);
	enum rc rc;

	if (op->code != OP_get_lock && op->code != OP_get_sequencer)
		return tree_read(m->tree, session, m->wall_ns, op, result);
	rc = tree_read(m->tree, session, m->wall_ns, op, &raw);
	if (rc == RC_OK && op->code == OP_get_lock)
		put_lock(m, op->get_lock.node, buffer_view(&raw), result);
	else if (rc == RC_OK)
		put_sequencer(m, buffer_view(&raw), result);
	buffer_free(&raw);
	return rc;
}
