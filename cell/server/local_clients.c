#include "cell/server/internal.h"

#include <stdlib.h>

#include "cell/base/memory.h"

struct local_client {
	TAILQ_ENTRY(local_client) link;
	uint64_t conn;
	struct server_client callbacks;
};

static struct local_client *
find(const struct local_clients *l, uint64_t conn)
{
	struct local_client *c;

	TAILQ_FOREACH(c, &l->clients, link) {
		if (c->conn == conn)
			return c;
	}
	return NULL;
}

static void
forget(struct local_clients *l, struct local_client *c)
{
	TAILQ_REMOVE(&l->clients, c, link);
	free(c);
}

void
local_clients_clear(struct local_clients *l)
{
	while (!TAILQ_EMPTY(&l->clients))
		forget(l, TAILQ_FIRST(&l->clients));
	frame_queue_free(&l->outbox);
}

uint64_t
local_clients_connect(struct local_clients *l, const struct server_client *client)
{
	struct local_client *c = memory_zero(1, sizeof *c);

	c->conn = ++l->last;
	c->callbacks = *client;
	TAILQ_INSERT_TAIL(&l->clients, c, link);
	return c->conn;
}

bool
local_clients_disconnect(struct local_clients *l, uint64_t conn)
{
	struct local_client *c = find(l, conn);

	if (c != NULL)
		forget(l, c);
	return c != NULL;
}

void
local_clients_deliver(struct local_clients *l)
{
	struct server_client callbacks;
	struct local_client *c;
	struct queued_frame p;

	while (frame_queue_take(&l->outbox, &p)) {
		c = find(l, p.conn);
		if (c != NULL && !p.close) {
			c->callbacks.frame(c->callbacks.user, p.frame);
		} else if (c != NULL) {
			callbacks = c->callbacks;
			forget(l, c);
			callbacks.closed(callbacks.user);
		}
		queued_frame_free(&p);
	}
}
