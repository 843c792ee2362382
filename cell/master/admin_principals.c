/* The administrators' list of principals. */
#include "cell/master/internal.h"

enum { LIST_ROWS = 1000 };

static void
put_rows(const struct master *m, struct bytes after, struct msg_principals *list,
         struct buffer *rows)
{
	struct tree_principal p = {.name = after};

	while (!list->more && tree_principal_after(m->tree, p.name, &p)) {
		list->more = list->principals.count == LIST_ROWS;
		if (list->more)
			return;
		wire_put_principal_row(rows, &(struct principal_row){p.name, p.key});
		list->principals.count++;
	}
}

void
m_admin_list_principals(struct master *m, const struct m_connection *c,
                        const struct msg_principals_request *msg)
{
	struct buffer rows = BUFFER(LIMIT_FRAME);
	struct message reply = {.code = MSG_principals, .principals.rc = RC_PERM};

	if (m_connection_administers(m, c)) {
		reply.principals.rc = RC_OK;
		put_rows(m, msg->after, &reply.principals, &rows);
	}
	reply.principals.principals.packed = buffer_view(&rows);
	m_connection_send(m, c, &reply);
	buffer_free(&rows);
}
