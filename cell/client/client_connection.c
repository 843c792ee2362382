/* When to connect and to which replica, and when to give a connection up. The driver makes
 * connections, one at a time.
 *
 * The client tries one replica after the other, beginning with the one that was named as master; a
 * replica that is not the master names it. A master that crashes closes its connections and is left
 * at once; one that stops answering only after a while, unless its successor is announced on the
 * second connection, the standby: that one is idle, and leads to a replica that is not the master.
 * So a client leaves a master that hangs while its connections stay open as soon as there is
 * another, and not only when it notices the silence. */
#include <string.h>
#include "cell/base/must.h"
#include "cell/client/internal.h"

enum {
	RETRY_FIRST_MS = 10,
	RETRY_MAX_MS = 1000,
	/* To connect, to open the session and to get the first lease; doubled each time all have
	 * failed, */
	ATTEMPT_ONLY_MS = 2000,
	ATTEMPT_FIRST_MS = 500, /* when there are other replicas to try; */
	ATTEMPT_GROWTH = 8,     /* at most by this: two that are dead must not cost a session */
	STANDBY_FIRST_MS = 50,
	STANDBY_MAX_MS = 2000,
};

static unsigned
replicas(const struct client *c)
{
	return c->config.replicas_n > 1 ? (unsigned)c->config.replicas_n : 1;
}

static int64_t
doubled(int64_t ms, unsigned times, int64_t max)
{
	for (unsigned i = 0; i < times && ms < max; i++)
		ms *= 2;
	return ms < max ? ms : max;
}

/* Doubled each time that every replica was tried. */
static int64_t
grown_ms(const struct client *c, int64_t first, int64_t max)
{
	return doubled(first, c->connection.failures / replicas(c), max);
}

void
client_connection_begin(struct client *c)
{
	c->connection.due = c->standby.due = c->now;
	c->connection.turn = (int)rng_below(&c->rng, (uint64_t)c->config.replicas_n);
}

span_t
client_connection_patience(const struct client *c)
{
	int64_t first = replicas(c) > 1 ? ATTEMPT_FIRST_MS : ATTEMPT_ONLY_MS;

	return span_ms(grown_ms(c, first, ATTEMPT_GROWTH * first));
}

/* Half of the pause is random: the clients of a master that crashed must not reconnect at the same
 * time. */
void
client_connection_drop(struct client *c)
{
	const int64_t pause_ms = grown_ms(c, RETRY_FIRST_MS, RETRY_MAX_MS);
	const int64_t half = span_ms(pause_ms).ns / 2;

	if (c->connection.state == CONNECTION_NONE)
		return;
	c->connection.state = CONNECTION_NONE;
	c->connection.due =
	    mono_add(c->now, (span_t){half + (int64_t)rng_below(&c->rng, (uint64_t)half)});
	c->connection.failures++;
	CLIENT_TRACE(c, "the connection to replica %u is given up: attempt %u within %lld ms",
	             c->connection.replica, c->connection.failures + 1, (long long)pause_ms);
}

/* The other replicas may take longer to notice its failure, and still name it. */
static void
avoid(struct client *c)
{
	c->connection.avoid = c->connection.replica;
	c->connection.avoid_epoch = c->session.epoch;
}

void
client_connection_failed(struct client *c)
{
	avoid(c);
	client_connection_drop(c);
}

/* ---- the master ---- */

static bool
is_known(const struct client *c, uint8_t replica)
{
	for (int i = 0; i < c->config.replicas_n; i++)
		if (c->config.replicas[i] == replica)
			return true;
	return false;
}

/* True when a message that names this master is news: it names a later epoch, or, in the known
 * epoch, a replica that the client has not left in that epoch. */
static bool
is_news(const struct client *c, const struct msg_redirect *m)
{
	if (!is_known(c, m->master) || m->epoch < c->session.epoch)
		return false;
	return m->master != c->connection.avoid || m->epoch > c->connection.avoid_epoch;
}

/* The first message that names the master of a new epoch is followed at once, others after a pause:
 * two replicas may each name the other as master. */
void
client_connection_elsewhere(struct client *c, const struct msg_redirect *m)
{
	bool own = m->master == c->connection.replica && m->master != 0;

	if (own && (c->connection.state != CONNECTION_OPEN || m->epoch <= c->session.epoch))
		return; /* the replica announces its mastership to all clients, and will answer
		         * soon */
	CLIENT_TRACE(c, "replica %u is not the master%s %u of epoch %llu", c->connection.replica,
	             is_news(c, m) ? ", and names" : "; it names, which is no news,", m->master,
	             (unsigned long long)m->epoch);
	client_connection_drop(c);
	if (!is_news(c, m))
		return;
	c->connection.prefer = m->master;
	if (c->connection.failures <= replicas(c) || m->epoch > c->connection.named_epoch)
		c->connection.due = c->now;
	if (m->epoch > c->connection.named_epoch)
		c->connection.named_epoch = m->epoch;
}

/* An announced master is connected to at once, without a pause. */
void
client_connection_announced(struct client *c, const struct msg_redirect *m)
{
	CLIENT_TRACE(c, "replica %u is announced as master of epoch %llu%s", m->master,
	             (unsigned long long)m->epoch, is_news(c, m) ? "" : ": no news");
	if (!is_news(c, m))
		return;
	if (m->master == c->connection.replica && c->connection.state != CONNECTION_NONE &&
	    (c->connection.state != CONNECTION_OPEN || m->epoch <= c->session.epoch))
		return; /* it is connected to that master already */
	if (m->master != c->connection.replica && c->connection.state != CONNECTION_NONE)
		avoid(c);
	client_connection_drop(c);
	c->connection.prefer = m->master;
	c->connection.due = c->now;
}

/* ---- the connection ---- */

void
client_connection_on_connected(struct client *c)
{
	if (c->connection.state == CONNECTION_CONNECTING)
		client_session_open(c);
}

/* A connection that was open is tried again: perhaps only the connection failed, not the
 * replica. */
void
client_connection_on_disconnected(struct client *c)
{
	bool open = c->connection.state == CONNECTION_OPEN;

	if (c->connection.state == CONNECTION_NONE)
		return;
	client_connection_failed(c);
	if (open)
		c->connection.prefer = c->connection.replica;
}

void
client_connection_opening(struct client *c)
{
	must(c->connection.state != CONNECTION_NONE);
	c->connection.state = CONNECTION_OPENING;
	c->connection.due = mono_add(c->now, client_connection_patience(c));
}

void
client_connection_opened(struct client *c)
{
	c->connection.state = CONNECTION_OPEN;
}

void
client_connection_proven(struct client *c)
{
	c->connection.failures = 0;
}

void
client_connection_end(struct client *c)
{
	c->connection.state = CONNECTION_NONE;
}

/* The replica that was named, else the next one in turn. */
static uint8_t
choose(struct client *c)
{
	const struct client_config *config = &c->config;

	if (config->replicas_n == 0)
		return 0;
	c->connection.turn = (c->connection.turn + 1) % config->replicas_n;
	for (int i = 0; i < config->replicas_n; i++)
		if (config->replicas[i] == c->connection.prefer)
			c->connection.turn = i;
	c->connection.prefer = 0;
	return config->replicas[c->connection.turn];
}

void
client_connection_tick(struct client *c)
{
	if (c->connection.state == CONNECTION_OPEN || !mono_reached(c->now, c->connection.due))
		return;
	if (c->connection.state != CONNECTION_NONE) {
		CLIENT_TRACE(c, "replica %u does not answer", c->connection.replica);
		client_connection_failed(c);
		return;
	}
	c->connection.state = CONNECTION_CONNECTING;
	c->connection.due = mono_add(c->now, client_connection_patience(c));
	c->connection.replica = choose(c);
	MESSAGE_TRACE(c->config.trace, "connects to replica %u", c->connection.replica);
	c->update->connect = true;
	c->update->replica = c->connection.replica;
	buffer_reset(&c->update->frames);
	buffer_reset(&c->update->datagram);
}

mono_t
client_connection_deadline(const struct client *c)
{
	return c->connection.state == CONNECTION_OPEN ? MONO_NEVER : c->connection.due;
}

void
client_send(struct client *c, const struct message *m)
{
	must(c->connection.state != CONNECTION_NONE);
	wire_put_frame(&c->update->frames, m);
}

/* ---- the standby ---- */

/* Chooses any of the other replicas, so that clients are spread evenly; not the one that failed
 * last, if there is a choice. */
static uint8_t
choose_standby(struct client *c)
{
	uint8_t others[LIMIT_REPLICAS];
	uint64_t n = 0;

	for (int i = 0; i < c->config.replicas_n; i++) {
		uint8_t replica = c->config.replicas[i];

		if (replica == c->connection.replica ||
		    (replica == c->standby.failed && c->config.replicas_n > 2))
			continue;
		others[n++] = replica;
	}
	must(n > 0);
	return others[rng_below(&c->rng, n)];
}

/* Requests the second connection to this replica; 0: to none. */
static void
listen_to(struct client *c, uint8_t replica)
{
	c->standby.replica = replica;
	c->update->listen = true;
	c->update->listen_to = replica;
}

static void
standby_failed(struct client *c)
{
	const int64_t ms = doubled(STANDBY_FIRST_MS, c->standby.failures, STANDBY_MAX_MS);

	CLIENT_TRACE(c, "the second connection, to replica %u, has failed: next within %lld ms",
	             c->standby.replica, (long long)ms);
	c->standby.failures++;
	c->standby.failed = c->standby.replica;
	c->standby.replica = 0;
	c->standby.due =
	    mono_add(c->now, (span_t){(int64_t)rng_below(&c->rng, (uint64_t)span_ms(ms).ns)});
}

void
client_standby_on_disconnected(struct client *c)
{
	if (c->standby.replica != 0)
		standby_failed(c);
}

/* Only the name of a master and the list of members are valid messages on it; any other ends it. */
void
client_standby_on_frame(struct client *c, struct bytes frame)
{
	struct message m;

	if (wire_get_frame(frame, &m) != RC_OK ||
	    (m.code != MSG_redirect && m.code != MSG_members)) {
		standby_failed(c);
		listen_to(c, 0);
		return;
	}
	c->standby.failures = 0;
	if (m.code == MSG_members)
		client_replica_list_received(c, &m.members);
	else
		client_connection_announced(c, &m.redirect);
}

static void
standby_leave(struct client *c, const char *why)
{
	CLIENT_TRACE(c, "the second connection leaves replica %u: %s", c->standby.replica, why);
	c->standby.due = c->now;
	listen_to(c, 0);
}

static bool
is_first(const struct client *c)
{
	return c->standby.replica == c->connection.replica &&
	       c->connection.state == CONNECTION_OPEN;
}

/* A replica admits a limited number of connections: where there is only one, a client has no second
 * connection to it. */
static bool
is_needless(const struct client *c)
{
	return c->config.replicas_n < 2 && c->standby.replica != 0 && is_first(c);
}

/* The connection is wanted from the first session on. While the client looks for a new master it
 * stays where it is: that is when it is needed. */
static bool
is_wanted(const struct client *c)
{
	if (c->config.replicas_n < 2 || c->session.id == 0)
		return false;
	return c->standby.replica == 0 || is_first(c);
}

void
client_standby_tick(struct client *c)
{
	if (is_needless(c))
		standby_leave(c, "there is no other");
	if (!is_wanted(c) || !mono_reached(c->now, c->standby.due))
		return;
	listen_to(c, choose_standby(c));
	MESSAGE_TRACE(c->config.trace, "listens to replica %u", c->standby.replica);
}

mono_t
client_standby_deadline(const struct client *c)
{
	if (is_needless(c))
		return c->now;
	return is_wanted(c) ? c->standby.due : MONO_NEVER;
}

/* ---- the list of replicas ---- */

/* The cell's replicas, as it sends them on every connection: the list in the client's configuration
 * is only the first one. The newest list counts, whichever replica sends it. */

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

static bool
is_in_list(const struct client_members *list, uint8_t id)
{
	for (int i = 0; i < list->n; i++)
		if (list->list[i].id == id)
			return true;
	return false;
}

/* Of members with one id the first one counts: a client chooses among replicas by their ids. */
static void
read_list(const struct msg_members *m, bool voters, struct client_members *to)
{
	struct cursor rest = cursor_of(m->members.packed);
	struct client_replica replica;
	struct member member;

	while (to->n < LIMIT_REPLICAS && wire_next_member(&rest, &member))
		if (read_member(&member, &replica) && replica.voter == voters &&
		    !is_in_list(to, replica.id))
			to->list[to->n++] = replica;
}

/* The ids to try are those of the list; the turn is that of the replica that was tried last. */
static void
list_follow(struct client *c)
{
	c->config.replicas_n = c->members.n;
	for (int i = 0; i < c->members.n; i++)
		c->config.replicas[i] = c->members.list[i].id;
	c->connection.turn %= c->config.replicas_n;
	for (int i = 0; i < c->config.replicas_n; i++)
		if (c->config.replicas[i] == c->connection.replica)
			c->connection.turn = i;
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
	list_follow(c);
	c->update->members_changed = true;
	/* A replica that is no member learns of no master. */
	if (c->standby.replica != 0 && !is_known(c, c->standby.replica))
		standby_leave(c, "it is no member");
}

const struct client_members *
client_members(const struct client *c)
{
	return &c->members;
}

/* ---- the image ---- */

/* The members; the first connection is made to the master that the other process had. */
void
client_connection_image(struct client *c, struct image *i)
{
	struct client_members *m = &c->members;

	IMAGE(i, m->version);
	IMAGE(i, m->n);
	if (m->n < 0 || m->n > LIMIT_REPLICAS) {
		m->n = 0;
		image_refuse(i);
	}
	for (int n = 0; n < m->n; n++) {
		struct client_replica *r = &m->list[n];

		IMAGE(i, r->id);
		IMAGE(i, r->voter);
		image_array(i, r->address, sizeof r->address);
		image_array(i, r->key, sizeof r->key);
		if (memchr(r->address, '\0', sizeof r->address) == NULL)
			image_refuse(i);
	}
	if (!image_reads(i))
		return;
	if (m->n > 0)
		list_follow(c);
	c->connection.prefer = c->session.master;
}
