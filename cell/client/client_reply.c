/* Replies and grants as they arrive, encoded. Chubby, section 2.8: in jeopardy no request is
 * answered, so that no program acts on a lock or a value while the session may be over; so they are
 * kept until the session is safe again. */
#include "cell/base/must.h"
#include "cell/client/internal.h"

enum { KEEP = 1024 * 1024 }; /* bytes of the buffer that stay allocated between steps */

void
client_reply_begin(struct client *c)
{
	c->replies.kept = BUFFER(4 * (size_t)LIMIT_FRAME);
}

void
client_reply_end(struct client *c)
{
	buffer_free(&c->replies.kept);
}

static void
handle(struct client *c, const struct message *m)
{
	if (m->code == MSG_reply)
		client_request_on_reply(c, &m->reply);
	else
		client_lock_waits_on_granted(c, &m->granted);
}

void
client_reply_on_frame(struct client *c, struct bytes frame)
{
	c->replies.held = c->session.state != CLIENT_SAFE;
	buffer_put_bytes(&c->replies.kept, frame);
	if (c->replies.kept.failed) {
		c->replies.spent = true;
		client_connection_drop(c);
		return;
	}
	if (c->session.state == CLIENT_SAFE)
		client_reply_flush(c);
	else
		CLIENT_TRACE(c, "a reply is held back until the session is safe");
}

void
client_reply_flush(struct client *c)
{
	struct bytes rest = buffer_view(&c->replies.kept);
	struct message m;

	c->replies.spent = true;
	while (rest.len > 0 && c->session.state == CLIENT_SAFE &&
	       c->connection.state == CONNECTION_OPEN) {
		long len = wire_frame_length(rest);

		must(len > 0 && (size_t)len <= rest.len);
		if (wire_get_frame((struct bytes){rest.data, (size_t)len}, &m) != RC_OK) {
			CLIENT_TRACE(c, "a reply is malformed");
			client_connection_drop(c);
			return;
		}
		handle(c, &m);
		rest.data += len;
		rest.len -= (size_t)len;
	}
}

void
client_reply_spend(struct client *c)
{
	must(c->replies.spent);
	c->replies.spent = false;
	if (c->replies.kept.room > KEEP)
		buffer_free(&c->replies.kept);
	buffer_reset(&c->replies.kept);
}

void
client_reply_forget(struct client *c)
{
	if (!c->replies.spent)
		buffer_reset(&c->replies.kept);
}
