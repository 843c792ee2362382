#include "cell/base/must.h"
#include "cell/master/internal.h"

/* Locks are not cached, nor who has a file open. */
static bool
is_bounded(const struct m_request *r)
{
	return !r->read && r->code != OP_acquire && r->code != OP_release && r->code != OP_cancel &&
	       r->code != OP_open_ephemeral;
}

static struct gate_pass *
pass_new(struct m_request *r)
{
	return r != NULL ? gate_pass_new(r, r->session->id, r->number) : gate_pass_new(NULL, 0, 0);
}

void
m_admission_note_dropped(struct m_request *r, const struct wire_list *nodes)
{
	struct cursor at = cursor_of(nodes->packed);
	struct node_key node;

	if (!is_bounded(r))
		return;
	r->pass = pass_new(r);
	for (uint32_t i = 0; i < nodes->count && wire_next_node_key(&at, &node); i++)
		footprint_add(&r->pass->dropped, node.node);
}

struct gate_pass *
m_admission_end(struct master *m, struct m_request *r, const struct op *op)
{
	struct gate_pass *p = pass_new(r);
	struct footprint changes = {0};

	tree_changes(m->tree, &(struct requester){0}, op, 0, &changes);
	if (m->barrier.stands || !gate_is_free(&m->gate, &changes))
		footprint_free(&changes);
	if (gate_enter(&m->gate, p, &changes))
		return p;
	gate_leave(&m->gate, p);
	p = pass_new(r);
	must(gate_enter(&m->gate, p, &changes));
	return p;
}

struct request_list *
m_admission_wait_list(struct master *m, struct m_request *r, const struct op *op)
{
	struct footprint changes = {0};

	if (!is_bounded(r))
		return NULL;
	if (op->code == OP_end_session) {
		if (r->pass != NULL)
			gate_leave(&m->gate, r->pass);
		r->pass = m_admission_end(m, r, op);
		return NULL;
	}
	if (r->pass == NULL)
		r->pass = pass_new(r);
	tree_changes(m->tree, &r->requester, op, r->node, &changes);
	return gate_enter(&m->gate, r->pass, &changes) ? NULL : &m->order.at_gate;
}

/* True if these changes of a command stay all that it can change, whatever is applied before it. */
static bool
are_final(const struct footprint *changes, enum op_code code)
{
	return changes->n > 0 && code != OP_delete && code != OP_rename &&
	       code != OP_close_ephemeral;
}

bool
m_admission_revocable(const struct m_request *r)
{
	return r->pass != NULL && r->code != OP_end_session &&
	       !are_final(&r->pass->changes, r->code);
}

struct m_request *
m_admission_next(struct master *m)
{
	return gate_ready(&m->gate);
}

bool
m_admission_applied(struct master *m, struct m_request *r, const struct tree_answer *answer)
{
	struct gate_pass *p = r != NULL ? r->pass : NULL;

	if (r == NULL)
		p = gate_abandoned(&m->gate, answer->session, answer->number);
	if (r != NULL && answer->rc == RC_AGAIN) {
		M_TRACE(m, "request %" PRIu64 ".%" PRIu64 " would change other nodes by now",
		        r->session->id, r->number);
		gate_refused(&m->gate, p);
		return true;
	}
	if (p != NULL)
		gate_leave(&m->gate, p);
	if (r != NULL)
		r->pass = NULL;
	return false;
}
