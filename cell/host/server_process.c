#include "cell/host/internal.h"

#include <netinet/in.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
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

static bool
open_store(struct server_process *p, char *why, size_t why_size)
{
	p->store = store_open(p->directory, p->identity->cell_file.name, p->identity->replica,
	                      p->identity->cell_file.replicas_n > 1, &p->tree, &p->recovered, why,
	                      why_size);
	return p->store != NULL;
}

static bool
open_directory(struct server_process *p, char *why, size_t why_size)
{
	if (!identity_read(p->directory, p->identity, why, why_size))
		return false;
	p->keys_on_disk = p->identity->signing;
	if (p->identity->signing.n > 0)
		return open_store(p, why, why_size);
	if (p->config.restart != NULL)
		return dir_lock_take(&p->lock, p->directory, why, why_size);
	snprintf(why, why_size, "%s/signing.key: missing", p->directory);
	return false;
}

struct server_process *
server_process_open(const struct server_process_config *config, char *why, size_t why_size)
{
	struct server_process *p = memory_zero(1, sizeof *p);

	p->config = *config;
	p->identity = secret_new(sizeof *p->identity);
	p->directory = bytes_to_text(bytes_of(config->directory));
	p->armed = MONO_NEVER;
	if (open_directory(p, why, why_size))
		return p;
	process_free(p);
	return NULL;
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

static mono_t
deadline(const struct server_process *p)
{
	if (p->due || (p->joining != NULL && (p->key_kept || p->expelled)))
		return (mono_t){0};
	return p->joining != NULL ? joining_deadline(p->joining) : server_deadline(p->server);
}

static void
arm(struct server_process *p, mono_t at)
{
	int64_t left = mono_since(at, clock_now()).ns;

	p->armed = at;
	uv_update_time(p->loop);
	must(uv_timer_start(&p->timer, on_timer, left <= 0 ? 0 : (uint64_t)(left / 1000000 + 1),
	                    0) == 0);
}

/* Most work arises in the poll, and the check handle takes a turn behind it. While there is other
 * work, an idle handle keeps the poll from sleeping. A timer that is set for an earlier time is
 * left alone: waking up once too early is cheaper than setting it in every turn. */
static void
on_prepare(uv_prepare_t *handle)
{
	struct server_process *p = handle->data;
	mono_t at;

	if (p->closing)
		return;
	at = deadline(p);
	if (at.ns == 0) {
		must(uv_idle_start(&p->idle, on_idle) == 0);
	} else {
		must(uv_idle_stop(&p->idle) == 0);
		if (mono_before(at, p->armed))
			arm(p, at);
	}
}

static void close_all(struct server_process *p);

static void
turn_joining(struct server_process *p)
{
	if (p->due)
		joining_timeout(p->joining);
	p->due = false;
	if (p->key_error[0] != '\0')
		log_error("%s", p->key_error);
	if (p->expelled || p->key_error[0] != '\0')
		p->config.failed(p->config.user);
	else if (p->key_kept)
		p->config.restart(p->config.user);
}

static void
turn_server(struct server_process *p)
{
	if (p->due)
		server_timeout(p->server);
	p->due = false;
	switch (server_turn(p->server)) {
	case SERVER_GOES_ON:
		return;
	case SERVER_FAILED:
		if (p->config.failed != NULL)
			p->config.failed(p->config.user);
		return;
	case SERVER_DIVERGED:
		p->diverged = true;
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

static void
on_check(uv_check_t *handle)
{
	struct server_process *p = handle->data;

	if (p->closing)
		return;
	if (p->joining != NULL)
		turn_joining(p);
	else
		turn_server(p);
}

/* ---- starting ---- */

/* True if the address is a host name that means this machine. Numbers and "localhost" were chosen
 * on purpose; but Debian gives a machine's own name an address that no other machine can reach. */
static bool
is_own_name(const char *address)
{
	return strspn(address, "0123456789.:[]") != strlen(address) && address[0] != '[' &&
	       strncmp(address, "localhost:", 10) != 0;
}

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
	log_info("replica %u listens on %s", p->identity->replica, where);
	if (loopback && is_own_name(at))
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
	    .callbacks = process_io_transport(p),
	};
	int rc;

	if (cell_file_is_standalone(cell_file))
		return true;
	memcpy(config.cell_id, cell_file->id, sizeof config.cell_id);
	rc = transport_new(&p->transport, p->loop, &config);
	if (rc < 0) {
		snprintf(why, why_size, "the network: %s", uv_strerror(rc));
		return false;
	}
	for (int i = 0; i < cell_file->replicas_n; i++)
		if (cell_file->replicas[i].id == p->identity->replica &&
		    !start_listening(p, cell_file->replicas[i].address, why, why_size))
			return false;
	return true;
}

static bool
start_store(struct server_process *p, char *why, size_t why_size)
{
	const struct store_callbacks callbacks = process_io_store(p);
	int rc = store_start(p->store, p->loop, &callbacks);

	if (rc < 0) {
		snprintf(why, why_size, "%s: cannot start: %s", p->directory, uv_strerror(rc));
		return false;
	}
	copy_files_init(&p->files, p->loop, p->store, p->directory, p->identity->cell_file.name);
	p->files_open = true;
	return true;
}

static size_t
most_clients(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur == RLIM_INFINITY)
		return SIZE_MAX;
	return files.rlim_cur > 2 * FILES_KEPT ? (size_t)files.rlim_cur - FILES_KEPT
	                                       : (size_t)files.rlim_cur / 2;
}

static void
start_server(struct server_process *p)
{
	const struct server_io io = process_io(p);

	p->server = server_new(
	    &(struct server_config){
	        .identity = p->identity,
	        .directory = p->directory,
	        .tree = p->tree,
	        .recovered = &p->recovered,
	        .minor = WIRE_MINOR,
	        .clients_max = most_clients(),
	        .debug = log_prints(LEVEL_DEBUG),
	    },
	    &io);
	p->tree = NULL;
	store_recovered_free(&p->recovered);
	p->files.server = p->server;
}

static void
start_joining(struct server_process *p)
{
	const struct server_io io = process_io(p);

	p->joining = joining_new(&io, &(struct joining_config){.identity = p->identity,
	                                                       .keep = process_io_keep_key,
	                                                       .expelled = process_io_expelled,
	                                                       .user = p});
}

static void
start_handles(struct server_process *p)
{
	must(uv_timer_init(p->loop, &p->timer) == 0);
	must(uv_prepare_init(p->loop, &p->prepare) == 0);
	must(uv_check_init(p->loop, &p->check) == 0);
	must(uv_idle_init(p->loop, &p->idle) == 0);
	p->timer.data = p->prepare.data = p->check.data = p->idle.data = p;
	must(uv_prepare_start(&p->prepare, on_prepare) == 0);
	must(uv_check_start(&p->check, on_check) == 0);
	p->on_loop = true;
}

bool
server_process_start(struct server_process *p, uv_loop_t *loop, char *why, size_t why_size)
{
	must(p->loop == NULL);
	p->loop = loop;
	if (!start_transport(p, why, why_size) ||
	    (p->store != NULL && !start_store(p, why, why_size)))
		return false;
	if (p->store != NULL)
		start_server(p);
	else
		start_joining(p);
	start_handles(p);
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
	stopped(user);
}

static void
on_handle_closed(uv_handle_t *handle)
{
	struct server_process *p = handle->data;

	if (--p->open_handles == 0)
		end(p);
}

/* Closes the handles; a state that has diverged is set aside now, when it is no longer open. */
static void
close_handles(struct server_process *p)
{
	int rc = p->diverged ? store_set_state_aside(p->directory) : 0;

	if (rc < 0)
		log_error("%s: cannot set the state aside: %s", p->directory, uv_strerror(rc));
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

void
server_process_part_closed(void *user)
{
	struct server_process *p = user;

	if (--p->open_parts > 0)
		return;
	if (p->files_open)
		copy_files_fini(&p->files);
	if (p->store == NULL)
		dir_lock_release(&p->lock);
	close_handles(p);
}

/* Stops the copies' files and the store. The network stays a part until both are counted: a write
 * of the cell file may end at any time. */
static void
on_network_closed(void *user)
{
	struct server_process *p = user;

	p->open_parts += (p->store != NULL) + p->files_open;
	if (p->files_open)
		copy_files_stop(&p->files, server_process_part_closed, p);
	if (p->store != NULL)
		store_close(p->store, server_process_part_closed, p);
	server_process_part_closed(p);
}

static void
close_all(struct server_process *p)
{
	p->closing = true;
	p->open_parts = 1 + p->writes_cell_file;
	joining_free(p->joining);
	server_free(p->server);
	p->joining = NULL;
	p->server = p->files.server = NULL;
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
	must(!p->stopping && stopped != NULL);
	p->stopping = true;
	p->stopped = stopped;
	p->stopped_user = user;
	if (p->server != NULL)
		server_stop(p->server);
	else
		close_all(p);
}
