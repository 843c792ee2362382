#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/host/internal.h"
#include "cell/replica/replica.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"
#include "cell/sys/secret.h"

enum { LOOP_HANDLES = 4 };

/* Files that are not available to clients: they are for replicas, databases, and connections whose
 * peer has not proved a key yet. */
enum { FILES_KEPT = TRANSPORT_UNPROVED_MAX + 64 };

/* ---- opening ---- */

static void
process_free(struct server_process *p)
{
	if (p->tree != NULL)
		tree_free(p->tree);
	store_recovered_free(&p->recovered);
	secret_free(p->identity);
	sodium_memzero(&p->keys, sizeof p->keys);
	sodium_memzero(&p->keys_on_disk, sizeof p->keys_on_disk);
	free(p->directory);
	free(p);
}

struct server_process *
server_process_open(const struct server_process_config *config, char *why, size_t why_size)
{
	struct server_process *p = memory_zero(1, sizeof *p);

	p->config = *config;
	p->identity = secret_new(sizeof *p->identity);
	p->directory = bytes_to_text(bytes_of(config->directory));
	p->armed = MONO_NEVER;
	if (identity_read(p->directory, p->identity, why, why_size)) {
		p->keys_on_disk = p->identity->signing;
		p->store = store_open(p->directory, p->identity->cell_file.name,
		                      p->identity->replica, p->identity->cell_file.replicas_n > 1,
		                      &p->tree, &p->recovered, why, why_size);
	}
	if (p->store != NULL)
		return p;
	process_free(p);
	return NULL;
}

/* ---- the store ---- */

static void
on_persisted(void *user, uint64_t write)
{
	struct server_process *p = user;

	if (p->server != NULL)
		server_persisted(p->server, write);
}

static void
on_saved(void *user, uint64_t applied, size_t unsaved)
{
	struct server_process *p = user;

	if (p->server != NULL)
		server_saved(p->server, applied, unsaved);
}

static void
on_full(void *user, bool full)
{
	struct server_process *p = user;

	if (p->server != NULL)
		server_full(p->server, full);
}

static void
on_failed(void *user, const char *why)
{
	struct server_process *p = user;

	if (p->server != NULL)
		server_disk_failed(p->server, why);
	else
		log_error("%s: %s", p->directory, why);
	/* A server that is being stopped gives no such verdict any more. */
	if (p->stopping && p->config.failed != NULL)
		p->config.failed(p->config.user);
}

/* As df(1) shows it. The call reads counters in memory. */
static void
io_disk(void *user, uint64_t *used, uint64_t *size)
{
	const struct server_process *p = user;
	struct statvfs fs;

	*used = *size = 0;
	if (statvfs(p->directory, &fs) < 0)
		return;
	*used = (uint64_t)(fs.f_blocks - fs.f_bfree) * fs.f_frsize;
	*size = *used + (uint64_t)fs.f_bavail * fs.f_frsize;
}

/* ---- the cell file ---- */

static void
write_cell_file(uv_work_t *work)
{
	struct server_process *p = work->data;

	p->cell_file_rc = identity_replace(p->directory, &p->keys, &p->cell_file, &p->keys_on_disk,
	                                   p->cell_file_why, sizeof p->cell_file_why);
}

static void part_closed(void *user);

static void
on_cell_file_written(uv_work_t *work, int status)
{
	struct server_process *p = work->data;
	const int error = -p->cell_file_rc;
	const bool keys_kept = memcmp(&p->keys, &p->keys_on_disk, sizeof p->keys) == 0;

	must(status == 0);
	p->writes_cell_file = false;
	if (p->server != NULL)
		server_cell_file_written(p->server,
		                         error == 0                       ? RC_OK
		                         : error == EIO || error == EROFS ? RC_IO
		                                                          : RC_NOSPC,
		                         keys_kept, p->cell_file_why);
	else if (p->closing)
		part_closed(p);
}

static void
io_write_cell_file(void *user, const struct cell_file *cell_file, const struct sign_keys *keys)
{
	struct server_process *p = user;

	must(!p->writes_cell_file);
	p->writes_cell_file = true;
	p->cell_file = *cell_file;
	p->keys = *keys;
	p->writing.data = p;
	must(uv_queue_work(p->loop, &p->writing, write_cell_file, on_cell_file_written) == 0);
}

/* ---- the network ---- */

static bool
on_opened(void *user, uint64_t conn, enum channel_role role, const uint8_t key[NOISE_KEY])
{
	return server_opened(((struct server_process *)user)->server, conn, role, key);
}

static void
on_frame(void *user, uint64_t conn, struct bytes frame)
{
	server_frame(((struct server_process *)user)->server, conn, frame);
}

static void
on_unfinished(void *user, uint64_t conn, size_t bytes, bool fresh)
{
	struct server_process *p = user;

	if (p->server != NULL)
		server_unfinished(p->server, conn, bytes, fresh);
}

static void
on_datagram(void *user, uint64_t conn, struct bytes frame)
{
	struct server_process *p = user;

	if (p->server != NULL)
		server_datagram(p->server, conn, frame);
}

static void
on_closed(void *user, uint64_t conn, const char *why)
{
	server_closed(((struct server_process *)user)->server, conn, why);
}

static bool
on_claimed(void *user, const uint8_t key[NOISE_KEY])
{
	return server_knows(((struct server_process *)user)->server, key);
}

/* ---- all of it ---- */

static void
io_random(void *user, void *to, size_t n)
{
	(void)user;
	random_fill(to, n);
}

struct server_io
process_io(struct server_process *p)
{
	return (struct server_io){
	    .clock = {clock_read, io_random, log_line, NULL},
	    .store = {store_log, store_state, store_fail, p->store},
	    .directory = {io_write_cell_file, io_disk, p},
	    .copies = copy_files_io(&p->files),
	    .network = {transport_connect, transport_send, transport_send_datagram, transport_hold,
	                transport_unsent_bytes, transport_key, transport_close, p->transport},
	};
}

/* ---- turns ---- */

/* libuv's timer only ends the poll; whether a deadline is reached is decided by our clock. The
 * deadline is handled after the poll, not here: input that arrived before it is processed first,
 * even after a long pause of the process. */
static void
on_timer(uv_timer_t *timer)
{
	struct server_process *p = timer->data;

	p->armed = MONO_NEVER;
	p->due = true;
}

static void
on_idle(uv_idle_t *handle)
{
	(void)handle; /* an active idle handle keeps the loop from sleeping */
}

/* Most work arises in the poll, and the check handle takes a turn after it. While there is other
 * work, an idle handle keeps the poll from sleeping. A timer that is set for an earlier time is
 * left alone: waking up once too early is cheaper than setting it in every turn. */
static void
on_prepare(uv_prepare_t *handle)
{
	struct server_process *p = handle->data;
	mono_t at;

	if (p->closing)
		return;
	at = p->due ? (mono_t){0} : server_deadline(p->server);
	if (at.ns == 0) {
		must(uv_idle_start(&p->idle, on_idle) == 0);
	} else {
		must(uv_idle_stop(&p->idle) == 0);
		if (mono_before(at, p->armed)) {
			int64_t left = mono_since(at, clock_now()).ns;

			p->armed = at;
			uv_update_time(p->loop);
			must(uv_timer_start(&p->timer, on_timer,
			                    left <= 0 ? 0 : (uint64_t)(left / 1000000 + 1),
			                    0) == 0);
		}
	}
}

static void close_all(struct server_process *p);

static void
on_check(uv_check_t *handle)
{
	struct server_process *p = handle->data;
	enum voting_condition now;

	if (p->closing)
		return;
	if (p->due)
		server_timeout(p->server);
	p->due = false;
	switch (server_turn(p->server)) {
	case SERVER_GOES_ON:
		if (p->ready || p->config.ready == NULL)
			return;
		now = replica_condition(server_replica(p->server));
		if (now == CONDITION_VOTING || now == CONDITION_LEARNER) {
			p->ready = true;
			p->config.ready(p->config.user);
		}
		return;
	case SERVER_FAILED:
		if (p->config.failed != NULL)
			p->config.failed(p->config.user);
		return;
	case SERVER_DIVERGED:
		store_set_state_aside(p->store);
		/* fall through */
	case SERVER_RESTARTS:
		if (p->config.restart != NULL)
			p->config.restart(p->config.user);
		return;
	case SERVER_LEFT:
		close_all(p);
		return;
	}
}

/* ---- starting ---- */

static bool
start_listening(struct server_process *p, const char *address, char *why, size_t why_size)
{
	const char *own = p->identity->cell_file.listen;
	const char *at = own[0] != '\0' ? own : address;
	char where[INET6_ADDRSTRLEN + 16];
	bool loopback;

	if (!transport_listen(p->transport, at, why, why_size))
		return false;
	loopback = transport_listening(p->transport, where, sizeof where);
	log_about(p->identity->cell_file.name, p->identity->replica);
	log_info("replica %u listens on %s", p->identity->replica, where);
	/* Numbers and "localhost" were chosen on purpose; but Debian gives a machine's own name an
	 * address that no other machine can reach. */
	if (loopback && strspn(at, "0123456789.:[]") != strlen(at) && at[0] != '[' &&
	    strncmp(at, "localhost:", 10) != 0)
		log_warn("%s is %s here: no other machine can connect; set `listen' in the data "
		         "directory's cell.conf, or mend /etc/hosts",
		         at, where);
	return true;
}

static bool
start_transport(struct server_process *p, char *why, size_t why_size)
{
	const struct cell_file *cell_file = &p->identity->cell_file;
	struct transport_config config = {
	    .own = &p->identity->pair,
	    .callbacks = {.opened = on_opened,
	                  .frame = on_frame,
	                  .unfinished = on_unfinished,
	                  .closed = on_closed,
	                  .datagram = on_datagram,
	                  .knows = on_claimed,
	                  .user = p},
	};
	int own, rc;

	if (cell_file_is_standalone(cell_file))
		return true;
	memcpy(config.cell_id, cell_file->id, sizeof config.cell_id);
	rc = transport_new(&p->transport, p->loop, &config);
	if (rc < 0) {
		snprintf(why, why_size, "the network: %s", uv_strerror(rc));
		return false;
	}
	own = cell_file_find(cell_file, p->identity->replica);
	return own < 0 || start_listening(p, cell_file->replicas[own].address, why, why_size);
}

static bool
start_store(struct server_process *p, char *why, size_t why_size)
{
	const struct store_callbacks callbacks = {
	    .persisted = on_persisted,
	    .saved = on_saved,
	    .full = on_full,
	    .failed = on_failed,
	    .user = p,
	};
	int rc = store_start(p->store, p->loop, &callbacks);

	if (rc < 0) {
		snprintf(why, why_size, "%s: cannot start: %s", p->directory, uv_strerror(rc));
		return false;
	}
	copy_files_init(&p->files, p->loop, p->directory, p->identity->cell_file.name);
	p->files_open = true;
	return true;
}

bool
server_process_start(struct server_process *p, uv_loop_t *loop, char *why, size_t why_size)
{
	const size_t kept = FILES_KEPT + p->config.other_files;
	size_t clients_max = SIZE_MAX;
	struct rlimit files;
	struct server_io io;

	must(p->loop == NULL);
	p->loop = loop;
	if (!start_transport(p, why, why_size) || !start_store(p, why, why_size))
		return false;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY)
		clients_max = files.rlim_cur > 2 * kept ? (size_t)files.rlim_cur - kept
		                                        : (size_t)files.rlim_cur / 2;

	io = process_io(p);
	p->server = server_new(
	    &(struct server_config){
	        .identity = p->identity,
	        .directory = p->directory,
	        .tree = p->tree,
	        .recovered = &p->recovered,
	        .minor = WIRE_MINOR,
	        .version = bytes_of(PACKAGE_VERSION),
	        .clients_max = clients_max,
	        .debug = log_prints(LEVEL_DEBUG),
	    },
	    &io);
	p->tree = NULL;
	store_recovered_free(&p->recovered);
	p->files.results = (struct copy_results){server_copy_made, server_fetch_checked, p->server};

	must(uv_timer_init(p->loop, &p->timer) == 0);
	must(uv_prepare_init(p->loop, &p->prepare) == 0);
	must(uv_check_init(p->loop, &p->check) == 0);
	must(uv_idle_init(p->loop, &p->idle) == 0);
	p->timer.data = p->prepare.data = p->check.data = p->idle.data = p;
	must(uv_prepare_start(&p->prepare, on_prepare) == 0);
	must(uv_check_start(&p->check, on_check) == 0);
	p->on_loop = true;
	return true;
}

struct server *
server_process_server(struct server_process *p)
{
	return p->server;
}

/* ---- stopping ---- */

static void
end(struct server_process *p)
{
	void (*stopped)(void *user) = p->stopped;
	void *user = p->stopped_user;

	process_free(p);
	if (stopped != NULL)
		stopped(user);
}

static void
on_handle_closed(uv_handle_t *handle)
{
	struct server_process *p = handle->data;

	if (--p->open_handles == 0)
		end(p);
}

/* After the last part the handles on the loop are closed. */
static void
part_closed(void *user)
{
	struct server_process *p = user;

	if (--p->open_parts > 0)
		return;
	if (p->files_open)
		copy_files_fini(&p->files);

	if (!p->on_loop) {
		end(p);
		return;
	}
	p->open_handles = LOOP_HANDLES;
	uv_close((uv_handle_t *)&p->timer, on_handle_closed);
	uv_close((uv_handle_t *)&p->prepare, on_handle_closed);
	uv_close((uv_handle_t *)&p->check, on_handle_closed);
	uv_close((uv_handle_t *)&p->idle, on_handle_closed);
}

static void
on_copies_stopped(void *user)
{
	struct server_process *p = user;

	store_close(p->store, part_closed, p);
}

/* The network, the copies and the store stop one after the other; they are one part. */
static void
on_network_closed(void *user)
{
	struct server_process *p = user;

	if (p->files_open)
		copy_files_stop(&p->files, on_copies_stopped, p);
	else
		on_copies_stopped(p);
}

static void
close_all(struct server_process *p)
{
	p->closing = true;
	p->open_parts = 1 + p->writes_cell_file;
	server_free(p->server);
	p->server = p->files.results.server = NULL;
	if (p->on_loop)
		must(uv_idle_stop(&p->idle) == 0 && uv_timer_stop(&p->timer) == 0);
	if (p->transport != NULL)
		transport_stop(p->transport, on_network_closed, p);
	else
		on_network_closed(p);
}

void
server_process_stop(struct server_process *p, void (*stopped)(void *user), void *user)
{
	must(!p->stopping);
	p->stopping = true;
	p->stopped = stopped;
	p->stopped_user = user;
	if (p->server != NULL)
		server_stop(p->server);
	else
		close_all(p);
}
