/* How a server begins and ends: data directory, store, network, handles on the loop, and all of it
 * closed again in the opposite order. */
#include "cell/server/internal.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"

enum {
	DRIFT_PERMILLE = 10,
	LOOP_HANDLES = 4,
	LEAVE_MS = 2000, /* to hand the mastership over and to send what waits for the log */
};

/* ---- opening ---- */

/* A cell in one process has neither addresses nor keys. */
static struct member
member_of(const struct cell_file_replica *from)
{
	struct member m = {.id = from->id, .role = from->role, .address = bytes_of(from->address)};

	if (m.address.len > 0)
		m.key = (struct bytes){from->public_key, sizeof from->public_key};
	return m;
}

/* It tells nothing of the secret that it comes from. */
static void
make_key(uint8_t key[PX_KEY], const struct identity *identity)
{
	static const char purpose[] = "lsfs marks";

	must(crypto_generichash(key, PX_KEY, (const uint8_t *)purpose, sizeof purpose,
	                        identity->pair.secret, sizeof identity->pair.secret) == 0);
}

static void
configure(struct server *s)
{
	struct px_config *paxos = &s->replica_config.paxos;
	struct master_config *master = &s->replica_config.master;
	const struct cell_file *cell_file = &s->identity.cell_file;

	paxos->self = s->identity.replica;
	make_key(paxos->key, &s->identity);
	for (int i = 0; i < cell_file->replicas_n; i++)
		s->members[i] = member_of(&cell_file->replicas[i]);
	s->replica_config.members = s->members;
	s->replica_config.members_n = cell_file->replicas_n;
	s->replica_config.members_version = cell_file->version;
	s->replica_config.settings = cell_file->settings;
	paxos->drift_permille = DRIFT_PERMILLE;
	random_fill(&paxos->seed, sizeof paxos->seed);
	random_fill(&paxos->start, sizeof paxos->start);
	master->cell = cell_file->name;
	memcpy(master->signing_key, s->identity.signing, sizeof master->signing_key);
	master->drift_permille = DRIFT_PERMILLE;
}

static void
server_free(struct server *s)
{
	if (s->replica != NULL)
		replica_free(s->replica);
	else if (s->tree != NULL)
		tree_free(s->tree);
	store_recovered_free(&s->recovered);
	replica_update_free(&s->update);
	frame_queue_free(&s->gate);
	inbox_free(&s->inbox);
	local_clients_clear(&s->clients);
	sodium_memzero(&s->replica_config, sizeof s->replica_config);
	identity_forget(&s->identity);
	free(s->directory);
	free(s);
}

/* One that joins a cell has to be given the key first (joining.h). */
static bool
read_identity(struct server *s, char *why, size_t why_size)
{
	if (!identity_read(s->directory, &s->identity, why, why_size))
		return false;
	if (!s->identity.has_signing)
		snprintf(why, why_size, "%s/signing.key: missing", s->directory);
	return s->identity.has_signing;
}

struct server *
server_open(const struct server_config *config, char *why, size_t why_size)
{
	struct server *s = memory_zero(1, sizeof *s);

	s->config = *config;
	s->directory = bytes_to_text(bytes_of(config->directory));
	s->armed = s->leave_by = MONO_NEVER;
	local_clients_init(&s->clients);
	TAILQ_INIT(&s->gate);
	inbox_init(&s->inbox);
	if (read_identity(s, why, why_size)) {
		configure(s);
		s->store = store_open(s->directory, s->identity.cell_file.name, s->identity.replica,
		                      s->identity.cell_file.replicas_n > 1, &s->tree, &s->recovered,
		                      why, why_size);
	}
	if (s->store != NULL)
		return s;
	server_free(s);
	return NULL;
}

/* ---- starting ---- */

static bool
start_gateway(struct server *s, uv_loop_t *loop, char *why, size_t why_size)
{
	struct gateway_callbacks callbacks = server_gateway_callbacks;

	if (cell_file_is_standalone(&s->identity.cell_file))
		return true;
	callbacks.user = s;
	s->gateway = gateway_new(loop, &s->identity, &callbacks, why, why_size);
	if (s->gateway == NULL)
		return false;
	server_follow_members(s);
	return gateway_start(s->gateway, why, why_size);
}

static bool
start_store(struct server *s, uv_loop_t *loop, char *why, size_t why_size)
{
	struct store_callbacks callbacks = server_store_callbacks;
	int rc;

	callbacks.user = s;
	rc = store_start(s->store, loop, &callbacks);
	if (rc < 0)
		snprintf(why, why_size, "%s: cannot start: %s", s->directory, uv_strerror(rc));
	return rc == 0;
}

static void
on_ready(void *user)
{
	server_tell(user, SERVER_RESTART);
}

static struct state_transfer *
start_transfer(struct server *s, uv_loop_t *loop)
{
	if (s->gateway == NULL)
		return NULL;
	return state_transfer_new(&(struct state_transfer_config){
		.loop = loop, .store = s->store, .directory = s->directory,
		.identity = &s->identity, .send = server_transfer_send,
		.copy_begun = server_copy_begun, .ready = on_ready, .user = s,
	});
}

static void
on_cellfile_failed(void *user, const char *why)
{
	struct server *s = user;

	store_fail(s->store, why);
}

bool
server_start(struct server *s, uv_loop_t *loop, char *why, size_t why_size)
{
	mono_t now = clock_now();

	must(!s->started && s->replica == NULL);
	s->replica = replica_new(&s->replica_config, s->tree, &s->recovered, now);
	s->tree = NULL;
	store_recovered_free(&s->recovered);
	if (!start_gateway(s, loop, why, why_size) || !start_store(s, loop, why, why_size))
		return false;
	s->transfer = start_transfer(s, loop);
	if (s->gateway != NULL)
		s->cell_file_writer = cell_file_writer_new(loop, &(struct cell_file_writer_config){
			.directory = s->directory, .cell_file = &s->identity.cell_file,
			.self = s->identity.replica, .failed = on_cellfile_failed, .user = s,
		});
	server_keep_cell_file(s, tree_applied(replica_tree(s->replica)));
	server_start_handles(s, loop);
	s->started = true;
	server_arm(s, now);
	return true;
}

/* ---- stopping ---- */

static void
on_handle_closed(uv_handle_t *handle)
{
	struct server *s = handle->data;
	void (*stopped)(void *user) = s->stopped;
	void *user = s->stopped_user;

	if (--s->open_handles > 0)
		return;
	server_free(s);
	stopped(user);
}

/* A state that is wrong is set aside when nobody has it open any more. */
static void
close_handles(struct server *s)
{
	int rc = s->set_state_aside ? store_set_state_aside(s->directory) : 0;

	if (rc < 0)
		log_error("%s: cannot set the state aside: %s", s->directory, uv_strerror(rc));
	s->open_handles = LOOP_HANDLES;
	uv_close((uv_handle_t *)&s->timer, on_handle_closed);
	uv_close((uv_handle_t *)&s->prepare, on_handle_closed);
	uv_close((uv_handle_t *)&s->check, on_handle_closed);
	uv_close((uv_handle_t *)&s->idle, on_handle_closed);
}

/* The state transfer, the cell file or the store. */
static void
on_part_stopped(void *user)
{
	struct server *s = user;
	void (*stopped)(void *user_) = s->stopped;
	void *stopped_user = s->stopped_user;

	if (--s->open_parts > 0)
		return;
	if (s->started) {
		close_handles(s);
		return;
	}
	server_free(s);
	stopped(stopped_user);
}

/* A copy of the state that is being made ends when the store does. */
static void
on_gateway_stopped(void *user)
{
	struct server *s = user;

	s->gateway = NULL;
	s->open_parts = 1;
	if (s->transfer != NULL) {
		s->open_parts++;
		state_transfer_stop(s->transfer, on_part_stopped, s);
	}
	if (s->cell_file_writer != NULL) {
		s->open_parts++;
		cell_file_writer_stop(s->cell_file_writer, on_part_stopped, s);
		s->cell_file_writer = NULL;
	}
	store_close(s->store, on_part_stopped, s);
}

static void
stop_now(struct server *s)
{
	s->stopping = true;
	frame_queue_free(&s->gate);
	if (s->started)
		must(uv_idle_stop(&s->idle) == 0);
	if (s->gateway != NULL)
		gateway_stop(s->gateway, on_gateway_stopped, s);
	else
		on_gateway_stopped(s);
}

/* The others have to hear that we go, so that one of them follows at once. */
void
server_stop_if_left(struct server *s)
{
	bool left = replica_left(s->replica, s->leave_by) && TAILQ_EMPTY(&s->gate);

	if (!mono_is_never(s->leave_by) &&
	    (left || s->failed || mono_reached(clock_now(), s->leave_by)))
		stop_now(s);
}

void
server_stop(struct server *s, void (*stopped)(void *user), void *user)
{
	must(!s->stopping && !s->stepping && stopped != NULL && mono_is_never(s->leave_by));
	s->stopped = stopped;
	s->stopped_user = user;
	local_clients_clear(&s->clients);
	if (s->started)
		server_step(s, (struct replica_event){.kind = REPLICA_STOP});
	if (!s->started || s->gateway == NULL || s->failed) {
		stop_now(s);
		return;
	}
	s->leave_by = mono_add(clock_now(), span_ms(LEAVE_MS));
	server_arm(s, clock_now());
	server_stay_awake(s);
}
