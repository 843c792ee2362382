/* Entries for the log. Commands are put together until the entry is complete: a release and the
 * grant that follows from it are one entry, so a lock changes hands with one commit. */
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

enum {
	COMMAND_HEAD = 64, /* more than a command's fields without its operation */
	ENTRY_HEAD = 64,
};

static void
commands_add(struct master *m, const struct command *command)
{
	struct buffer *b = &m->commands;

	if (m->commands_n == LIMIT_ENTRY_COMMANDS ||
	    b->len + command->op.len + COMMAND_HEAD + ENTRY_HEAD > LIMIT_ENTRY)
		m_propose_flush(m);
	wire_put_command(b, command);
	must(!b->failed);
	m->commands_n++;
}

void
m_propose_request(struct master *m, const struct m_session *s, const struct m_request *r)
{
	struct command command = {
	    .stamp_ns = m->wall_ns,
	    .session = s->id,
	    .number = r->number,
	    .below = r->below,
	    .op = r->op,
	};

	must(r->number != 0);
	commands_add(m, &command);
}

struct flight *
m_propose(struct master *m, uint64_t session, const struct op *op)
{
	struct buffer encoded = BUFFER(LIMIT_ENTRY);
	struct flight *f = memory_zero(1, sizeof *f);
	struct command command = {.stamp_ns = m->wall_ns, .session = session};

	wire_put_op(&encoded, op);
	must(!encoded.failed);
	command.op = buffer_view(&encoded);
	commands_add(m, &command);
	buffer_free(&encoded);
	f->op = op->code;
	TAILQ_INSERT_TAIL(&m->flights, f, entry);
	return f;
}

void
m_propose_flush(struct master *m)
{
	struct master_update *u = m->u;
	struct buffer payload = BUFFER(LIMIT_ENTRY);
	struct entry entry = {.commands = {buffer_view(&m->commands), m->commands_n}};

	if (m->commands_n == 0)
		return;
	wire_put_entry(&payload, &entry);
	must(!payload.failed);
	ARRAY_ROOM(u->proposals, u->proposals_n, u->proposals_room);
	u->proposals[u->proposals_n++] = buffer_take(&payload);
	buffer_reset(&m->commands);
	m->commands_n = 0;
}

struct flight *
m_flight_land(struct master *m, enum op_code op)
{
	struct flight *f = TAILQ_FIRST(&m->flights);

	must(f != NULL && f->op == op);
	TAILQ_REMOVE(&m->flights, f, entry);
	return f;
}
