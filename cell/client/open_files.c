/* Which files the driver has open. The cell asks before a permanent file becomes ephemeral, and
 * tells the session of which ephemeral files it is an opener; only the driver knows what is open.
 *
 * Answers that are held back may show a file as permanent that the driver then opens: so nothing is
 * answered before the session is SAFE. A create that finds the file, or a rename onto it, opens it
 * as well, and may be decided before the file becomes ephemeral: while any is in flight the answer
 * is yes. That answer may be wrong, and so may be what the cell tells: then the driver closes the
 * file, as soon as all requests are answered that the cell may have decided before. A file that the
 * driver closes by itself is not told to it: the session is an opener no more behind that. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/client/internal.h"

static void
send_answer(struct client *c, uint64_t question, bool open)
{
	const struct message m = {
	    .code = MSG_opens,
	    .opens = {.session = c->session.id,
	              .epoch = c->session.epoch,
	              .question = question,
	              .open = open},
	};

	MESSAGE_TRACE(c->config.trace, "sends opens: question %llu, %s",
	              (unsigned long long)question, open ? "open" : "not open");
	client_send(c, &m);
}

static bool
may_open_unseen(const struct client *c)
{
	const struct client_request *r;

	TAILQ_FOREACH(r, &c->requests.in_flight, entry)
		if (r->code == OP_create || r->code == OP_rename)
			return true;
	return false;
}

void
client_open_files_on_question(struct client *c, const struct msg_who_opens *m)
{
	c->open_files.question = m->question;
	c->open_files.node = m->node;
}

static bool
is_closing(const struct request_list *list, uint64_t node)
{
	const struct client_request *r;

	TAILQ_FOREACH(r, list, entry)
		if (r->code == OP_close_ephemeral && r->node == node)
			return true;
	return false;
}

void
client_open_files_closing(struct client *c, uint64_t node)
{
	struct client_open_files *o = &c->open_files;
	size_t n = 0;

	for (size_t i = 0; i < o->registered_n; i++)
		if (o->registered[i].node != node)
			o->registered[n++] = o->registered[i];
	o->registered_n = n;
}

void
client_open_files_on_registered(struct client *c, const struct msg_registered *m)
{
	struct client_open_files *o = &c->open_files;
	struct cursor rest = cursor_of(m->nodes.packed);
	struct node_key key;

	while (wire_next_node_key(&rest, &key)) {
		if (is_closing(&c->requests.in_flight, key.node) ||
		    is_closing(&c->requests.queue, key.node))
			continue;
		ARRAY_ROOM(o->registered, o->registered_n, o->registered_room);
		o->registered[o->registered_n++] =
		    (struct registered_file){key.node, c->requests.next_number};
	}
}

void
client_open_files_on_answer(struct client *c, uint64_t question, bool open)
{
	if (question != c->open_files.asked || c->connection.state != CONNECTION_OPEN)
		return;
	c->open_files.asked = 0;
	send_answer(c, question, open);
}

static void
ask(struct client *c)
{
	struct client_open_files *o = &c->open_files;
	const uint64_t question = o->question;

	o->question = 0;
	if (may_open_unseen(c)) {
		send_answer(c, question, true);
		return;
	}
	o->asked = c->update->question = question;
	c->update->asked_node = o->node;
}

static bool
is_due(const struct client *c, const struct registered_file *f)
{
	const struct client_request *oldest = TAILQ_FIRST(&c->requests.in_flight);

	return oldest == NULL || oldest->number >= f->bound;
}

static void
tell(struct client *c)
{
	struct client_open_files *o = &c->open_files;
	struct client_update *u = c->update;
	size_t n = 0;

	for (; n < o->registered_n && is_due(c, &o->registered[n]); n++) {
		ARRAY_ROOM(u->registered, u->registered_n, u->registered_room);
		u->registered[u->registered_n++] = o->registered[n].node;
	}
	if (n == 0)
		return;
	o->registered_n -= n;
	memmove(o->registered, o->registered + n, o->registered_n * sizeof *o->registered);
}

void
client_open_files_run(struct client *c)
{
	if (c->open_files.question != 0)
		ask(c);
	if (c->open_files.registered_n > 0)
		tell(c);
}

void
client_open_files_forget(struct client *c)
{
	c->open_files.question = c->open_files.asked = 0;
	c->open_files.registered_n = 0;
}

void
client_open_files_end(struct client *c)
{
	free(c->open_files.registered);
}
