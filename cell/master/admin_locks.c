/* The list of all locks, for people. */
#include "cell/master/internal.h"

enum { PAGE = 256 * 1024 }; /* bytes of a message, but for a lock that is longer */

void
m_admin_list_locks(struct master *m, const struct m_connection *c,
                   const struct msg_locks_request *msg)
{
	struct buffer rows = BUFFER(LIMIT_FRAME), queue = BUFFER(LIMIT_FRAME - 1024);
	struct message reply = {.code = MSG_locks};
	uint64_t node = msg->after;

	while (!reply.locks.more && m_read_next_queue(m, c->principal, &node, &queue)) {
		struct lock_row row = {.queue = buffer_view(&queue)};

		reply.locks.more = rows.len > 0 && rows.len + queue.len > PAGE;
		if (reply.locks.more)
			break;
		wire_put_lock_row(&rows, &row);
		reply.locks.locks.count++;
		buffer_reset(&queue);
	}
	reply.locks.locks.packed = buffer_view(&rows);
	m_connection_send(m, c, &reply);
	buffer_free(&rows);
	buffer_free(&queue);
}
