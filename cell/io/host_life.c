/* How a host begins and ends: data directory, store, network, handles on the loop, and all of it
 * closed again in the opposite order. */
#include "cell/io/host_state.h"

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
configure(struct host *h)
{
	struct px_config *paxos = &h->replica_config.paxos;
	struct master_config *master = &h->replica_config.master;
	const struct cell_file *cell_file = &h->identity.cell_file;

	paxos->self = h->identity.replica;
	make_key(paxos->key, &h->identity);
	for (int i = 0; i < cell_file->replicas_n; i++)
		h->members[i] = member_of(&cell_file->replicas[i]);
	h->replica_config.members = h->members;
	h->replica_config.members_n = cell_file->replicas_n;
	h->replica_config.members_version = cell_file->version;
	h->replica_config.settings = cell_file->settings;
	paxos->drift_permille = DRIFT_PERMILLE;
	random_fill(&paxos->seed, sizeof paxos->seed);
	random_fill(&paxos->start, sizeof paxos->start);
	master->cell = cell_file->name;
	memcpy(master->signing_key, h->identity.signing, sizeof master->signing_key);
	master->drift_permille = DRIFT_PERMILLE;
}

static void
host_free(struct host *h)
{
	if (h->replica != NULL)
		replica_free(h->replica);
	else if (h->tree != NULL)
		tree_free(h->tree);
	store_recovered_free(&h->recovered);
	replica_update_free(&h->update);
	parcels_free(&h->gate);
	inbox_free(&h->inbox);
	local_clear(&h->local);
	sodium_memzero(&h->replica_config, sizeof h->replica_config);
	identity_forget(&h->identity);
	free(h->directory);
	free(h);
}

/* One that joins a cell has to be given the key first (join.h). */
static bool
read_identity(struct host *h, char *why, size_t why_size)
{
	if (!identity_read(h->directory, &h->identity, why, why_size))
		return false;
	if (!h->identity.has_signing)
		snprintf(why, why_size, "%s/signing.key: missing", h->directory);
	return h->identity.has_signing;
}

struct host *
host_open(const struct host_config *config, char *why, size_t why_size)
{
	struct host *h = memory_zero(1, sizeof *h);

	h->config = *config;
	h->directory = bytes_to_text(bytes_of(config->directory));
	h->armed = h->leave_by = MONO_NEVER;
	local_init(&h->local);
	TAILQ_INIT(&h->gate);
	inbox_init(&h->inbox);
	if (read_identity(h, why, why_size)) {
		configure(h);
		h->store = store_open(h->directory, h->identity.cell_file.name, h->identity.replica,
		                      h->identity.cell_file.replicas_n > 1, &h->tree, &h->recovered,
		                      why, why_size);
	}
	if (h->store != NULL)
		return h;
	host_free(h);
	return NULL;
}

/* ---- starting ---- */

static bool
start_gateway(struct host *h, uv_loop_t *loop, char *why, size_t why_size)
{
	struct gateway_callbacks callbacks = host_gateway_callbacks;

	if (cell_file_is_standalone(&h->identity.cell_file))
		return true;
	callbacks.user = h;
	h->gateway = gateway_new(loop, &h->identity, &callbacks, why, why_size);
	if (h->gateway == NULL)
		return false;
	host_follow_members(h);
	return gateway_start(h->gateway, why, why_size);
}

static bool
start_store(struct host *h, uv_loop_t *loop, char *why, size_t why_size)
{
	struct store_callbacks callbacks = host_store_callbacks;
	int rc;

	callbacks.user = h;
	rc = store_start(h->store, loop, &callbacks);
	if (rc < 0)
		snprintf(why, why_size, "%s: cannot start: %s", h->directory, uv_strerror(rc));
	return rc == 0;
}

static void
on_ready(void *user)
{
	host_tell(user, HOST_RESTART);
}

static struct exchange *
start_exchange(struct host *h, uv_loop_t *loop)
{
	if (h->gateway == NULL)
		return NULL;
	return exchange_new(&(struct exchange_config){
		.loop = loop, .store = h->store, .directory = h->directory,
		.identity = &h->identity, .send = host_exchange_send,
		.copy_begun = host_copy_begun, .ready = on_ready, .user = h,
	});
}

static void
on_cellfile_failed(void *user, const char *why)
{
	struct host *h = user;

	store_fail(h->store, why);
}

bool
host_start(struct host *h, uv_loop_t *loop, char *why, size_t why_size)
{
	mono_t now = clock_now();

	must(!h->started && h->replica == NULL);
	h->replica = replica_new(&h->replica_config, h->tree, &h->recovered, now);
	h->tree = NULL;
	store_recovered_free(&h->recovered);
	if (!start_gateway(h, loop, why, why_size) || !start_store(h, loop, why, why_size))
		return false;
	h->exchange = start_exchange(h, loop);
	if (h->gateway != NULL)
		h->cell_file_writer = cell_file_writer_new(loop, &(struct cellfile_config){
			.directory = h->directory, .cell_file = &h->identity.cell_file,
			.self = h->identity.replica, .failed = on_cellfile_failed, .user = h,
		});
	host_keep_cell_file(h, tree_applied(replica_tree(h->replica)));
	host_start_handles(h, loop);
	h->started = true;
	host_arm(h, now);
	return true;
}

/* ---- stopping ---- */

static void
on_handle_closed(uv_handle_t *handle)
{
	struct host *h = handle->data;
	void (*stopped)(void *user) = h->stopped;
	void *user = h->stopped_user;

	if (--h->open_handles > 0)
		return;
	host_free(h);
	stopped(user);
}

/* A state that is wrong is set aside when nobody has it open any more. */
static void
close_handles(struct host *h)
{
	int rc = h->set_state_aside ? store_set_state_aside(h->directory) : 0;

	if (rc < 0)
		log_error("%s: cannot set the state aside: %s", h->directory, uv_strerror(rc));
	h->open_handles = LOOP_HANDLES;
	uv_close((uv_handle_t *)&h->timer, on_handle_closed);
	uv_close((uv_handle_t *)&h->prepare, on_handle_closed);
	uv_close((uv_handle_t *)&h->check, on_handle_closed);
	uv_close((uv_handle_t *)&h->idle, on_handle_closed);
}

/* The exchange, the cell file or the store. */
static void
on_part_stopped(void *user)
{
	struct host *h = user;
	void (*stopped)(void *user_) = h->stopped;
	void *stopped_user = h->stopped_user;

	if (--h->open_parts > 0)
		return;
	if (h->started) {
		close_handles(h);
		return;
	}
	host_free(h);
	stopped(stopped_user);
}

/* A copy of the state that is being made ends when the store does. */
static void
on_gateway_stopped(void *user)
{
	struct host *h = user;

	h->gateway = NULL;
	h->open_parts = 1;
	if (h->exchange != NULL) {
		h->open_parts++;
		exchange_stop(h->exchange, on_part_stopped, h);
	}
	if (h->cell_file_writer != NULL) {
		h->open_parts++;
		cell_file_writer_stop(h->cell_file_writer, on_part_stopped, h);
		h->cell_file_writer = NULL;
	}
	store_close(h->store, on_part_stopped, h);
}

static void
stop_now(struct host *h)
{
	h->stopping = true;
	parcels_free(&h->gate);
	if (h->started)
		must(uv_idle_stop(&h->idle) == 0);
	if (h->gateway != NULL)
		gateway_stop(h->gateway, on_gateway_stopped, h);
	else
		on_gateway_stopped(h);
}

/* The others have to hear that we go, so that one of them follows at once. */
void
host_stop_if_left(struct host *h)
{
	bool left = replica_left(h->replica, h->leave_by) && TAILQ_EMPTY(&h->gate);

	if (!mono_is_never(h->leave_by) &&
	    (left || h->failed || mono_reached(clock_now(), h->leave_by)))
		stop_now(h);
}

void
host_stop(struct host *h, void (*stopped)(void *user), void *user)
{
	must(!h->stopping && !h->stepping && stopped != NULL && mono_is_never(h->leave_by));
	h->stopped = stopped;
	h->stopped_user = user;
	local_clear(&h->local);
	if (h->started)
		host_step(h, (struct replica_event){.kind = REPLICA_STOP});
	if (!h->started || h->gateway == NULL || h->failed) {
		stop_now(h);
		return;
	}
	h->leave_by = mono_add(clock_now(), span_ms(LEAVE_MS));
	host_arm(h, clock_now());
	host_stay_awake(h);
}
