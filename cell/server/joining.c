#include "cell/server/joining.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/server/backoff.h"
#include "cell/server/gateway.h"
#include "cell/wire/codec.h"

enum { ASK_FIRST_MS = 200, ASK_LONGEST_MS = 5000 };

struct joining {
	struct server_io io;
	struct joining_config config;
	struct gateway *gateway;
	struct backoff backoff;
	mono_t ask; /* when every connected member is asked; MONO_NEVER: they have answered */
	bool expelled_by[LIMIT_REPLICA_ID + 1];  /* the answer of each member */
	bool refused_from[LIMIT_REPLICA_ID + 1]; /* members that have sent another key, */
	bool told[LIMIT_REPLICA_ID + 1];         /* and of which the log has told that */
};

/* ---- asking ---- */

static void
ask(struct joining *j)
{
	static const struct message request = {.code = MSG_secret_request};
	const struct cell_file *cell_file = &j->config.identity->cell_file;
	struct buffer frame = BUFFER(64);

	wire_put_frame(&frame, &request);
	for (int i = 0; i < cell_file->replicas_n; i++)
		gateway_send_peer(j->gateway, cell_file->replicas[i].id, buffer_view(&frame));
	buffer_free(&frame);
}

/* Members send both keys in force, one behind the other, and the cell file need not name the first.
 * After two rotations the key that it names is out of use. */
static void
tell_refused(struct joining *j)
{
	for (int id = 1; id <= LIMIT_REPLICA_ID; id++) {
		if (!j->refused_from[id] || j->told[id])
			continue;
		j->told[id] = true;
		server_io_log(&j->io, SERVER_WARN,
		              "replica %d sends a signing key that the cell file does not name; if "
		              "the cell's key was rotated since, bring the cell file in the data "
		              "directory up to date (lsctl cell refresh), and start again",
		              id);
	}
}

mono_t
joining_deadline(const struct joining *j)
{
	return mono_min(j->ask, gateway_deadline(j->gateway));
}

void
joining_timeout(struct joining *j)
{
	const mono_t now = server_io_now(&j->io);

	gateway_timeout(j->gateway, now);
	if (!mono_reached(now, j->ask))
		return;
	tell_refused(j);
	ask(j);
	j->ask = backoff_next(&j->backoff, now);
}

/* The secret key must be that of the cell. It consists of its seed and the public half, which must
 * belong together, too. */
static bool
is_the_key(const struct joining *j, struct bytes key)
{
	const struct cell_file *cell_file = &j->config.identity->cell_file;
	uint8_t public_key[SIGN_PUBLIC], secret[SIGN_SECRET];
	bool good;

	if (key.len != SIGN_SECRET)
		return false;
	crypto_sign_seed_keypair(public_key, secret, key.data);
	good = memcmp(secret, key.data, SIGN_SECRET) == 0 &&
	       memcmp(public_key, cell_file->signing_public, SIGN_PUBLIC) == 0;
	sodium_memzero(secret, sizeof secret);
	return good;
}

static void
take_key(struct joining *j, uint8_t from, struct bytes key)
{
	if (!is_the_key(j, key)) {
		j->refused_from[from] = true;
		return;
	}
	server_io_log(&j->io, SERVER_INFO, "replica %u has given the cell's signing key", from);
	j->ask = MONO_NEVER;
	j->config.keep(j->config.user, key);
}

/* True when a majority has answered so. A single member may be mistaken. */
static bool
is_expelled(const struct joining *j)
{
	const struct cell_file *cell_file = &j->config.identity->cell_file;
	int others = 0, sure = 0;

	for (int i = 0; i < cell_file->replicas_n; i++) {
		const struct cell_file_replica *r = &cell_file->replicas[i];

		if (r->role != MEMBER_VOTER || r->id == j->config.identity->replica)
			continue;
		others++;
		sure += j->expelled_by[r->id];
	}
	return sure > others / 2;
}

static void
take_refusal(struct joining *j, uint8_t from)
{
	const unsigned self = j->config.identity->replica;

	j->expelled_by[from] = true;
	if (!is_expelled(j))
		return;
	server_io_log(&j->io, SERVER_ERROR, "replica %u is not a member of this cell any more",
	              self);
	j->ask = MONO_NEVER;
	j->config.expelled(j->config.user);
}

static void
on_peer(void *user, uint8_t replica, struct bytes frame)
{
	const uint32_t code = wire_frame_code(frame);
	struct joining *j = user;
	struct message m;

	if (mono_is_never(j->ask) || (code != MSG_secret && code != MSG_welcome) ||
	    wire_get_frame(frame, &m) != RC_OK)
		return;
	if (m.code == MSG_secret)
		take_key(j, replica, m.secret.key);
	else if (m.welcome.verdict == WELCOME_NO_MEMBER)
		take_refusal(j, replica);
}

/* Clients are refused: the replica is not running yet, and knows no principals. */
static enum rc
principal_of_key(void *user, enum channel_role role, const uint8_t key[NOISE_KEY],
                 struct bytes *name)
{
	(void)user;
	(void)role;
	(void)key;
	(void)name;
	return RC_NOT_MASTER;
}

static void
on_connected(void *user, uint64_t conn, struct bytes principal, struct bytes key)
{
	(void)principal;
	(void)key;
	gateway_close(((struct joining *)user)->gateway, conn);
}

static void
on_frame(void *user, uint64_t conn, struct bytes frame)
{
	(void)user;
	(void)conn;
	(void)frame;
}

static void
on_disconnected(void *user, uint64_t conn)
{
	(void)user;
	(void)conn;
}

bool
joining_opened(struct joining *j, uint64_t conn, enum channel_role role,
               const uint8_t key[NOISE_KEY])
{
	return gateway_opened(j->gateway, conn, role, key);
}

void
joining_frame(struct joining *j, uint64_t conn, struct bytes frame)
{
	gateway_frame(j->gateway, conn, frame);
}

void
joining_closed(struct joining *j, uint64_t conn, const char *why)
{
	gateway_closed(j->gateway, conn, why);
}

/* ---- life ---- */

struct joining *
joining_new(const struct server_io *io, const struct joining_config *config)
{
	struct joining *j = memory_zero(1, sizeof *j);
	const struct gateway_callbacks callbacks = {
	    on_peer, principal_of_key, on_connected, on_frame, on_disconnected, j,
	};

	j->io = *io;
	j->config = *config;
	j->ask = server_io_now(&j->io);
	backoff_init(&j->backoff, ASK_FIRST_MS, ASK_LONGEST_MS, config->identity->pair.public);
	j->gateway = gateway_new(&j->io,
	                         &(struct gateway_config){
	                             .cell_file = &config->identity->cell_file,
	                             .self = config->identity->replica,
	                             .clients_max = SIZE_MAX,
	                         },
	                         &callbacks);
	gateway_start(j->gateway);
	server_io_log(&j->io, SERVER_INFO, "asks the other replicas for the cell's signing key");
	return j;
}

void
joining_free(struct joining *j)
{
	if (j == NULL)
		return;
	gateway_free(j->gateway);
	free(j);
}
