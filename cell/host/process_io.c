#include "cell/host/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cell/base/must.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"

/* ---- randomness, log ---- */

static void
io_random(void *user, void *to, size_t n)
{
	(void)user;
	random_fill(to, n);
}

static void
io_log(void *user, enum server_level level, const char *line)
{
	(void)user;
	switch (level) {
	case SERVER_ERROR:
		log_error("%s", line);
		return;
	case SERVER_WARN:
		log_warn("%s", line);
		return;
	case SERVER_INFO:
		log_info("%s", line);
		return;
	case SERVER_DEBUG:
		log_debug("%s", line);
		return;
	}
}

/* ---- the store ---- */

static void
io_append(void *user, uint64_t write, const struct px_record *records, size_t n)
{
	store_log(((struct server_process *)user)->store, write, records, n);
}

static size_t
io_save(void *user, uint64_t applied, struct row_list *rows)
{
	return store_state(((struct server_process *)user)->store, applied, rows);
}

static void
io_fail(void *user, const char *why)
{
	store_fail(((struct server_process *)user)->store, why);
}

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
}

struct store_callbacks
process_io_store(struct server_process *p)
{
	return (struct store_callbacks){
	    .persisted = on_persisted,
	    .saved = on_saved,
	    .full = on_full,
	    .failed = on_failed,
	    .user = p,
	};
}

/* ---- the cell file ---- */

static void
write_cell_file(uv_work_t *work)
{
	struct server_process *p = work->data;

	p->cell_file_rc = identity_replace(p->directory, &p->keys, &p->cell_file, &p->keys_on_disk,
	                                   p->cell_file_why, sizeof p->cell_file_why);
}

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
		server_process_part_closed(p);
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

static uint64_t
io_connect(void *user, const char *address, enum channel_role role, const uint8_t key[NOISE_KEY])
{
	return transport_connect(((struct server_process *)user)->transport, address, role, key);
}

static void
io_send(void *user, uint64_t conn, struct bytes frames)
{
	transport_send(((struct server_process *)user)->transport, conn, frames);
}

static void
io_send_datagram(void *user, uint64_t conn, struct bytes frame)
{
	transport_send_datagram(((struct server_process *)user)->transport, conn, frame);
}

static void
io_hold(void *user, uint64_t conn, bool on)
{
	transport_hold(((struct server_process *)user)->transport, conn, on);
}

static size_t
io_unsent(void *user, uint64_t conn)
{
	return transport_unsent_bytes(((struct server_process *)user)->transport, conn);
}

static const uint8_t *
io_key(void *user, uint64_t conn)
{
	return transport_key(((struct server_process *)user)->transport, conn);
}

static bool
io_close(void *user, uint64_t conn)
{
	return transport_close(((struct server_process *)user)->transport, conn);
}

static bool
on_opened(void *user, uint64_t conn, enum channel_role role, const uint8_t key[NOISE_KEY])
{
	struct server_process *p = user;

	return p->joining != NULL ? joining_opened(p->joining, conn, role, key)
	                          : server_opened(p->server, conn, role, key);
}

static void
on_frame(void *user, uint64_t conn, struct bytes frame)
{
	struct server_process *p = user;

	if (p->joining != NULL)
		joining_frame(p->joining, conn, frame);
	else
		server_frame(p->server, conn, frame);
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
	struct server_process *p = user;

	if (p->joining != NULL)
		joining_closed(p->joining, conn, why);
	else
		server_closed(p->server, conn, why);
}

/* A replica that joins knows nobody yet. */
static bool
on_claimed(void *user, const uint8_t key[NOISE_KEY])
{
	const struct server_process *p = user;

	return p->server != NULL && server_knows(p->server, key);
}

struct transport_callbacks
process_io_transport(struct server_process *p)
{
	return (struct transport_callbacks){
	    .opened = on_opened,
	    .frame = on_frame,
	    .closed = on_closed,
	    .datagram = on_datagram,
	    .knows = on_claimed,
	    .user = p,
	};
}

/* ---- all of it ---- */

struct server_io
process_io(struct server_process *p)
{
	return (struct server_io){
	    .now = clock_read,
	    .random = io_random,
	    .log = io_log,
	    .append = io_append,
	    .save = io_save,
	    .fail = io_fail,
	    .write_cell_file = io_write_cell_file,
	    .copies = copy_files_io(&p->files),
	    .connect = io_connect,
	    .send = io_send,
	    .send_datagram = io_send_datagram,
	    .hold = io_hold,
	    .unsent = io_unsent,
	    .key = io_key,
	    .close = io_close,
	    .user = p,
	};
}

void
process_io_expelled(void *user)
{
	((struct server_process *)user)->expelled = true;
}

void
process_io_keep_key(void *user, struct bytes key)
{
	struct server_process *p = user;
	char path[PATH_MAX];
	int rc;

	must(key.len == SIGN_SECRET);
	snprintf(path, sizeof path, "%s/signing.key", p->directory);
	rc = key_file_copy_signing(path, key.data);
	p->key_kept = true;
	if (rc < 0)
		snprintf(p->key_error, sizeof p->key_error, "%.200s: %s", path, strerror(-rc));
}
