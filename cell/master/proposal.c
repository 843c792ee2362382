#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

enum {
	COMMAND_HEAD = 192, /* more than the fields of a command without operation and keys */
	ENTRY_HEAD = 64,
};

static_assert(LIMIT_OPERATION + 8 * LIMIT_KEYS + COMMAND_HEAD + ENTRY_HEAD <= LIMIT_ENTRY,
              "an entry holds each request, with all nodes that it declares to change");

void
m_proposals_init(struct master *m)
{
	m->proposals.commands = BUFFER(LIMIT_ENTRY);
	TAILQ_INIT(&m->proposals.own);
}

void
m_proposals_clear(struct master *m)
{
	struct proposals *p = &m->proposals;
	struct own_command *own;

	while ((own = TAILQ_FIRST(&p->own)) != NULL) {
		TAILQ_REMOVE(&p->own, own, entry);
		if (own->pass != NULL)
			gate_leave(&m->gate, own->pass);
		if (own->usage != NULL)
			m_usage_opened(m, own->usage);
		free(own);
	}
	buffer_reset(&p->commands);
	p->commands_n = p->weight = 0;
}

void
m_proposals_free(struct master *m)
{
	buffer_free(&m->proposals.commands);
}

/* An entry is applied in one step: the steps of a transaction count like commands. */
static void
commands_add(struct master *m, const struct command *command)
{
	struct buffer *b = &m->proposals.commands;
	uint32_t weight = 1;
	struct op op;

	if (command->op.data[0] == OP_transaction && wire_get_op(command->op, &op) == RC_OK)
		weight += op.transaction.steps.count;
	if (m->proposals.weight + weight > LIMIT_ENTRY_COMMANDS ||
	    b->len + command->op.len + command->keys.packed.len + COMMAND_HEAD + ENTRY_HEAD >
	        LIMIT_ENTRY)
		m_propose_flush(m);
	wire_put_command(b, command);
	must(!b->failed);
	m->proposals.commands_n++;
	m->proposals.weight += weight;
}

/* Makes the command declare the changes of its pass, and change nothing else. */
static void
bound(struct master *m, struct command *c, struct gate_pass *pass, struct buffer *keys)
{
	c->bounded = 1;
	for (size_t i = 0; i < pass->changes.n; i++)
		wire_put_node_key(keys, &(struct node_key){pass->changes.keys[i]});
	must(!keys->failed);
	c->keys = (struct wire_list){buffer_view(keys), (uint32_t)pass->changes.n};
	gate_proposed(&m->gate, pass);
}

/* A refused request stays refused once a later command of its session is decided. */
static void
log_refused(struct master *m, struct m_session *s)
{
	struct refused_request *refused;
	struct buffer op = BUFFER(LIMIT_ENTRY);

	TAILQ_FOREACH(refused, &s->refused, entry) {
		if (refused->logged)
			continue;
		refused->logged = true;
		buffer_reset(&op);
		wire_put_op(&op, &(struct op){.code = refused->code});
		must(!op.failed);
		commands_add(m, &(struct command){.stamp_ns = m->wall_ns,
		                                  .session = s->id,
		                                  .number = refused->number,
		                                  .op = buffer_view(&op),
		                                  .refused = RC_NOSPC});
	}
	buffer_free(&op);
}

void
m_propose_request(struct master *m, struct m_session *s, const struct m_request *r)
{
	struct buffer keys = BUFFER(LIMIT_ENTRY);
	struct command command = {
	    .stamp_ns = m->wall_ns,
	    .session = s->id,
	    .number = r->number,
	    .below = r->below,
	    .guard = r->guard,
	    .op = r->op,
	    .user = r->requester.user,
	    .handle_rights = r->requester.handle_rights,
	};

	must(r->number != 0);
	log_refused(m, s);
	if (r->pass != NULL)
		bound(m, &command, r->pass, &keys);
	commands_add(m, &command);
	buffer_free(&keys);
}

static struct own_command *
propose(struct master *m, struct command *command, const struct op *op, struct gate_pass *pass)
{
	struct buffer encoded = BUFFER(LIMIT_ENTRY), keys = BUFFER(LIMIT_ENTRY);
	struct own_command *own = memory_zero(1, sizeof *own);

	wire_put_op(&encoded, op);
	must(!encoded.failed);
	command->stamp_ns = m->wall_ns;
	command->op = buffer_view(&encoded);
	if (pass != NULL)
		bound(m, command, pass, &keys);
	commands_add(m, command);
	buffer_free(&encoded);
	buffer_free(&keys);
	own->pass = pass;
	own->op = op->code;
	TAILQ_INSERT_TAIL(&m->proposals.own, own, entry);
	return own;
}

struct own_command *
m_propose(struct master *m, uint64_t session, const struct op *op)
{
	return propose(m, &(struct command){.session = session}, op, NULL);
}

struct own_command *
m_propose_for(struct master *m, struct bytes user, const struct op *op)
{
	return propose(m, &(struct command){.user = user}, op, NULL);
}

struct own_command *
m_propose_bounded(struct master *m, uint64_t session, const struct op *op, struct gate_pass *pass)
{
	return propose(m, &(struct command){.session = session}, op, pass);
}

void
m_propose_flush(struct master *m)
{
	struct master_update *u = m->update;
	struct buffer payload = BUFFER(LIMIT_ENTRY);
	struct proposals *p = &m->proposals;
	struct entry entry = {.commands = {buffer_view(&p->commands), p->commands_n}};

	if (p->commands_n == 0)
		return;
	wire_put_entry(&payload, &entry);
	must(!payload.failed);
	ARRAY_ROOM(u->proposals, u->proposals_n, u->proposals_room);
	u->proposals[u->proposals_n++] = buffer_take(&payload);
	buffer_reset(&p->commands);
	p->commands_n = p->weight = 0;
}

struct own_command *
m_proposal_applied(struct master *m, enum op_code op)
{
	struct own_command *own = TAILQ_FIRST(&m->proposals.own);

	must(own != NULL && own->op == op);
	TAILQ_REMOVE(&m->proposals.own, own, entry);
	if (own->pass != NULL)
		gate_leave(&m->gate, own->pass);
	own->pass = NULL;
	return own;
}
