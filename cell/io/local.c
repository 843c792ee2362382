#include "cell/io/local.h"

#include <stdlib.h>

#include "cell/base/memory.h"

struct local_client {
	TAILQ_ENTRY(local_client) link;
	uint64_t conn;
	struct host_client callbacks;
};

void
local_init(struct local *l)
{
	TAILQ_INIT(&l->clients);
	TAILQ_INIT(&l->outbox);
}

static struct local_client *
find(const struct local *l, uint64_t conn)
{
	struct local_client *c;

	TAILQ_FOREACH(c, &l->clients, link) {
		if (c->conn == conn)
			return c;
	}
	return NULL;
}

static void
forget(struct local *l, struct local_client *c)
{
	TAILQ_REMOVE(&l->clients, c, link);
	free(c);
}

void
local_clear(struct local *l)
{
	while (!TAILQ_EMPTY(&l->clients))
		forget(l, TAILQ_FIRST(&l->clients));
	parcels_free(&l->outbox);
}

uint64_t
local_connect(struct local *l, const struct host_client *client)
{
	struct local_client *c = memory_zero(1, sizeof *c);

	c->conn = ++l->last;
	c->callbacks = *client;
	TAILQ_INSERT_TAIL(&l->clients, c, link);
	return c->conn;
}

bool
local_disconnect(struct local *l, uint64_t conn)
{
	struct local_client *c = find(l, conn);

	if (c != NULL)
		forget(l, c);
	return c != NULL;
}

bool
local_has(const struct local *l, uint64_t conn)
{
	return find(l, conn) != NULL;
}

void
local_post(struct local *l, struct parcel parcel)
{
	parcel_put(&l->outbox, parcel);
}

static void
deliver_one(struct local *l, const struct parcel *p)
{
	struct local_client *c = find(l, p->conn);
	struct host_client callbacks;

	if (c == NULL)
		return;
	callbacks = c->callbacks;
	if (!p->close) {
		callbacks.frame(callbacks.user, p->frame);
		return;
	}
	forget(l, c);
	callbacks.closed(callbacks.user);
}

void
local_deliver(struct local *l)
{
	struct parcel p;

	while (parcel_take(&l->outbox, &p)) {
		deliver_one(l, &p);
		parcel_free(&p);
	}
}
