/* The beginning and end of a server. */
#include "cell/server/internal.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"

enum {
	DRIFT_PERMILLE = 10,
	LEAVE_MS = 2000, /* to hand the mastership over and to send what waits for the log */

	BACKLOG_HIGH = 32 * 1024 * 1024,
	UNSAVED_HIGH = 64 * 1024 * 1024,
	UNSENT_HIGH = 4 * 1024 * 1024,
	FLOOD = 6 * 1024 * 1024, /* more than the 4 MiB that a client may have in flight */
	INBOX_MAX = 256 * 1024 * 1024,
	BUDGET = 64,
};

/* ---- the beginning ---- */

/* Makes a key for marks from the replica's secret key. The secret key can't be derived from it. */
static void
make_key(uint8_t key[PX_KEY], const struct identity *identity)
{
	static const char purpose[] = "lsfs marks";

	must(crypto_generichash(key, PX_KEY, (const uint8_t *)purpose, sizeof purpose,
	                        identity->pair.secret, sizeof identity->pair.secret) == 0);
}

static void
start_replica(struct server *s)
{
	const struct identity *identity = s->config.identity;
	const struct cell_file *cell_file = &identity->cell_file;
	struct member members[LIMIT_REPLICAS];
	struct replica_config config = {.members = members, .trace = &s->trace};

	for (int i = 0; i < cell_file->replicas_n; i++) {
		const struct cell_file_replica *r = &cell_file->replicas[i];

		members[i] =
		    (struct member){.id = r->id, .role = r->role, .address = bytes_of(r->address)};
		/* A cell in one process has neither addresses nor keys. */
		if (members[i].address.len > 0)
			members[i].key = (struct bytes){r->public_key, sizeof r->public_key};
	}
	config.paxos.self = identity->replica;
	make_key(config.paxos.key, identity);
	config.members_n = cell_file->replicas_n;
	config.members_version = cell_file->version;
	if (cell_file->has_admin)
		config.admin_key =
		    (struct bytes){cell_file->admin_public, sizeof cell_file->admin_public};
	config.closed = cell_file->is_private;
	config.settings = cell_file->settings;
	config.digest_every = s->config.digest_every;
	config.paxos.minor = s->config.minor;
	config.version = s->config.version;
	config.paxos.drift_permille = DRIFT_PERMILLE;
	config.paxos.log_entries = s->config.log_entries;
	config.paxos.batch_entries = s->config.batch_entries;
	s->io.clock.random(s->io.clock.user, &config.paxos.seed, sizeof config.paxos.seed);
	s->io.clock.random(s->io.clock.user, &config.paxos.start, sizeof config.paxos.start);
	config.master.cell = cell_file->name;
	memcpy(config.master.keys.secret[0], identity->signing.secret[0], SIGN_SECRET);
	config.master.keys.n = identity->signing.n > 0;
	config.master.drift_permille = DRIFT_PERMILLE;
	config.master.step_work = s->config.limits.step;
	config.master.keepalives = s->config.limits.keepalives;

	s->replica =
	    replica_new(&config, s->config.tree, s->config.recovered, clock_io_now(&s->io.clock));
	sodium_memzero(&config, sizeof config);
	s->config.tree = NULL;
	s->config.recovered = NULL;
	s->deadline = replica_deadline(s->replica);
}

static void
on_ready(void *user)
{
	server_tell(user, SERVER_RESTARTS);
}

struct server *
server_new(const struct server_config *config, const struct server_io *io)
{
	const struct identity *identity = config->identity;
	struct server *s = memory_zero(1, sizeof *s);
	struct server_limits *l = &s->config.limits;

	s->io = *io;
	s->config = *config;
	l->backlog = l->backlog != 0 ? l->backlog : BACKLOG_HIGH;
	l->unsaved = l->unsaved != 0 ? l->unsaved : UNSAVED_HIGH;
	l->unsent = l->unsent != 0 ? l->unsent : UNSENT_HIGH;
	l->flood = l->flood != 0 ? l->flood : FLOOD;
	l->inbox = l->inbox != 0 ? l->inbox : INBOX_MAX;
	l->budget = l->budget != 0 ? l->budget : BUDGET;
	s->trace.on = config->debug;
	s->leave_by = MONO_NEVER;
	TAILQ_INIT(&s->clients.clients);
	TAILQ_INIT(&s->clients.outbox);
	TAILQ_INIT(&s->gate);
	inbox_init(&s->inbox, l->budget);
	start_replica(s);
	if (!cell_file_is_standalone(&identity->cell_file)) {
		s->gateway = gateway_new(s);
		s->transfer = state_transfer_new(
		    &(struct state_transfer_config){.clock = &s->io.clock,
		                                    .files = &s->io.copies,
		                                    .part_max = s->config.limits.part,
		                                    .patience = s->config.limits.patience,
		                                    .send = server_transfer_send,
		                                    .copy_begun = server_copy_begun,
		                                    .ready = on_ready,
		                                    .user = s});
		s->cell_file_writer = cell_file_writer_new(&s->io, identity);
		s->key_rotation =
		    key_rotation_new(&(struct key_rotation_config){.clock = &s->io.clock,
		                                                   .identity = s->config.identity,
		                                                   .tree = replica_tree(s->replica),
		                                                   .writer = s->cell_file_writer,
		                                                   .send = server_transfer_send,
		                                                   .agreed = server_keys_agreed,
		                                                   .changed = server_keys_changed,
		                                                   .user = s});
		server_keys_changed(s);
	}
	server_keep_cell_file(s, tree_applied(replica_tree(s->replica)));
	return s;
}

/* ---- the end ---- */

void
server_free(struct server *s)
{
	if (s == NULL)
		return;
	gateway_free(s->gateway);
	state_transfer_free(s->transfer);
	key_rotation_free(s->key_rotation);
	cell_file_writer_free(s->cell_file_writer);
	replica_free(s->replica);
	replica_update_free(&s->update);
	trace_free(&s->trace);
	frame_queue_free(&s->gate);
	inbox_free(&s->inbox);
	local_clients_clear(&s->clients);
	free(s);
}

/* The other replicas must have been sent the news that this one stops, so that one of them takes
 * over at once. */
bool
server_has_left(const struct server *s)
{
	must(!mono_is_never(s->leave_by));
	return s->failed || s->gateway == NULL ||
	       (replica_left(s->replica, s->leave_by) && TAILQ_EMPTY(&s->gate)) ||
	       mono_reached(clock_io_now(&s->io.clock), s->leave_by);
}

void
server_stop(struct server *s)
{
	must(!s->stepping && mono_is_never(s->leave_by));
	local_clients_clear(&s->clients);
	SERVER_STEP(s, .kind = REPLICA_STOP);
	s->leave_by = mono_add(clock_io_now(&s->io.clock), span_ms(LEAVE_MS));
}
