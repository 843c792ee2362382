/* The cell's replicas, as it sends them on every connection: the list in the client's configuration
 * is only the first one. The newest list counts, whichever replica sends it. */
#include <string.h>
#include "cell/client/internal.h"

/* False when the member was removed, or its address or key is malformed. */
static bool
read_member(const struct member *m, struct client_replica *to)
{
	if (m->id == 0 || (m->role != MEMBER_VOTER && m->role != MEMBER_LEARNER))
		return false;
	if (m->address.len == 0 || m->key.len != sizeof to->key)
		return false;
	*to = (struct client_replica){.id = m->id, .voter = m->role == MEMBER_VOTER};
	memcpy(to->address, m->address.data, m->address.len);
	memcpy(to->key, m->key.data, m->key.len);
	return true;
}

static void
read_list(const struct msg_members *m, bool voters, struct client_members *to)
{
	struct cursor rest = cursor_of(m->members.packed);
	struct client_replica replica;
	struct member member;

	while (to->n < LIMIT_REPLICAS && wire_next_member(&rest, &member))
		if (read_member(&member, &replica) && replica.voter == voters)
			to->list[to->n++] = replica;
}

/* A list without an address is that of a cell in one process, which no other machine can reach. */
void
client_replica_list_received(struct client *c, const struct msg_members *m)
{
	struct client_members told = {.version = m->version};

	if (c->members.n > 0 && m->version <= c->members.version)
		return;
	read_list(m, true, &told);
	if (told.n == 0)
		return;
	read_list(m, false, &told);
	CLIENT_TRACE(c, "list of members %llu: replicas: %d", (unsigned long long)m->version,
	             told.n);
	c->members = told;
	c->config.replicas_n = told.n;
	for (int i = 0; i < told.n; i++)
		c->config.replicas[i] = told.list[i].id;
	c->update->members_changed = true;
	client_connection_members(c);
	client_standby_members(c);
}

const struct client_members *
client_members(const struct client *c)
{
	return &c->members;
}
