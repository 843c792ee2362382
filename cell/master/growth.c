/* When a majority of the disks is full, requests that need room are refused before they get into
 * the log. Requests that give room back, and those that need none, are served. */
#include "cell/base/must.h"
#include "cell/master/internal.h"

/* The node's attributes, if the session can see them. */
static bool
look(const struct master *m, const struct m_session *s, const struct op *read, struct attr *attr,
     struct buffer *to)
{
	const struct requester who = {.session = s->id};
	struct result result;

	if (tree_read(m->tree, &who, m->wall_ns, read, to) != RC_OK)
		return false;
	must(wire_get_result(RESULT_attr, buffer_view(to), &result) == RC_OK);
	*attr = result.attr.attr;
	return true;
}

static bool
is_there(const struct master *m, const struct m_session *s, const struct op_create *o)
{
	struct op lookup = {.code = OP_lookup, .lookup = {o->parent, o->name}};
	struct buffer result = BUFFER(LIMIT_FRAME);
	struct attr attr;
	bool found = look(m, s, &lookup, &attr, &result);

	buffer_free(&result);
	return found;
}

static bool
is_larger(const struct master *m, const struct m_session *s, const struct op_set_contents *o)
{
	struct op get = {.code = OP_get_attr, .get_attr = {o->node}};
	struct buffer result = BUFFER(LIMIT_FRAME);
	struct attr attr;
	bool larger = look(m, s, &get, &attr, &result) && o->contents.len > attr.size;

	buffer_free(&result);
	return larger;
}

static bool
grows(const struct master *m, const struct m_session *s, const struct op *op)
{
	switch (op->code) {
	case OP_create:
		return !is_there(m, s, &op->create);
	case OP_set_contents:
		return is_larger(m, s, &op->set_contents);
	case OP_append:
		return op->append.data.len > 0;
	default:
		return false;
	}
}

/* A request that took effect under an earlier master has its answer already. */
bool
m_growth_refused(const struct master *m, const struct m_session *s, const struct m_request *r,
                 const struct op *op)
{
	return grows(m, s, op) && !tree_request_known(m->tree, s->id, r->number);
}
