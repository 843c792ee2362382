/* A restored cell in one process, and its client: no faults and no delays. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/sim/restored.h"
#include "tests/sim/sim.h"

/* ---- the new cell ---- */

static void
deliver(struct restored *r, bool to_replica, uint64_t conn, struct bytes frame)
{
	ARRAY_ROOM(r->parcels, r->n, r->room);
	r->parcels[r->n++] = (struct queued_frame){.to_replica = to_replica,
	                                           .conn = conn,
	                                           .frame = bytes_copy(frame)};
}

static mono_t
io_now(void *user, int64_t *wall_ns)
{
	const struct restored *r = user;

	if (wall_ns != NULL)
		*wall_ns = r->now.ns;
	return r->now;
}

static void
io_random(void *user, void *to, size_t n)
{
	struct restored *r = user;
	uint8_t *at = to;

	for (size_t i = 0; i < n; i++)
		at[i] = (uint8_t)rng_next(&r->s->rng);
}

static void
io_append(struct store *store, uint64_t write, const struct px_record *records, size_t n)
{
	struct restored *r = (struct restored *)store;

	(void)disk_write_log(r->s, &r->disk, write, records, n);
	(void)disk_log_done(&r->disk, write);
	r->written = write;
}

static size_t
io_save(struct store *store, uint64_t applied, struct row_list *rows)
{
	struct restored *r = (struct restored *)store;

	disk_save(&r->disk, rows, applied);
	row_list_free(rows);
	r->saved = applied;
	return 0;
}

static void
io_fail(struct store *store, const char *why)
{
	sim_fail(((struct restored *)store)->s, "after a restore a disk fails: %s", why);
}

/* What the disk has written is reported, until there is nothing for the server to do. */
static void
turn(struct restored *r)
{
	do {
		const uint64_t written = r->written, saved = r->saved;

		r->written = r->saved = 0;
		if (written != 0)
			server_persisted(r->server, written);
		if (saved != 0)
			server_saved(r->server, saved, 0);
		if (server_turn(r->server) != SERVER_GOES_ON)
			sim_fail(r->s, "after a restore the server ends");
	} while (r->written != 0 || r->saved != 0 || server_deadline(r->server).ns == 0);
}

void
restored_begins(struct restored *r)
{
	const struct server_io io = {
	    .clock = {.now = io_now, .random = io_random, .user = r},
	    .store = {io_append, io_save, io_fail, (struct store *)r},
	};
	struct px_recovered recovered;
	struct tree *t = disk_recover(r->s, &r->disk, &recovered);

	strcpy(r->identity.cell_file.name, "sim");
	r->identity.cell_file.replicas_n = 1;
	r->identity.cell_file.replicas[0].id = r->identity.replica = 1;
	r->identity.cell_file.replicas[0].role = MEMBER_VOTER;
	r->identity.signing.n = 1;
	r->server = server_new(
	    &(struct server_config){
	        .identity = &r->identity,
	        .directory = "the new cell",
	        .tree = t,
	        .recovered = &recovered,
	        .clients_max = SIZE_MAX,
	        .minor = MINOR_NEWEST,
	    },
	    &io);
	free((void *)recovered.entries);
	turn(r);
}

/* ---- its client ---- */

static void
on_frame(void *user, struct bytes frame)
{
	const struct restored_end *end = user;

	deliver(end->of, false, end->conn, frame);
}

static void
on_closed(void *user)
{
	struct restored_end *end = user;

	end->conn = 0;
	restored_client_hears(end->of, (struct client_event){.kind = CLIENT_DISCONNECTED,
	                                                     .standby = end->standby});
}

static void
connect(struct restored *r, struct restored_end *end, uint8_t replica)
{
	const struct server_client client = {on_frame, on_closed, end};

	if (end->conn != 0)
		server_disconnect(r->server, end->conn);
	end->conn =
	    replica != 0 && replica == r->at ? server_connect(r->server, &client, "admin") : 0;
	if (!end->standby || end->conn == 0)
		restored_client_hears(r, (struct client_event){.kind = end->conn != 0
		                                                           ? CLIENT_CONNECTED
		                                                           : CLIENT_DISCONNECTED,
		                                               .standby = end->standby});
}

static void
send_frames(struct restored *r)
{
	struct bytes rest = buffer_view(&r->m->update.frames);

	while (rest.len > 0) {
		struct bytes frame = {rest.data, (size_t)wire_frame_length(rest)};

		must(frame.len > 0 && frame.len <= rest.len);
		deliver(r, true, r->main.conn, frame);
		rest.data += frame.len;
		rest.len -= frame.len;
	}
}

void
restored_client_hears(struct restored *r, struct client_event event)
{
	struct client_update *u = &r->m->update;
	uint64_t invalidation;
	bool connects, listens;
	uint8_t to, listen_to;

	event.now = r->now;
	client_step(r->m->client, &event, u);
	send_frames(r);
	for (size_t i = 0; i < u->answers_n; i++) {
		if (u->answers[i].token != r->tokens)
			continue;
		r->answered = true;
		r->answer = u->answers[i];
	}
	r->expired =
	    r->expired || (u->state_changed && client_status(r->m->client).state == CLIENT_EXPIRED);
	connects = u->connect;
	to = u->replica;
	listens = u->listen;
	listen_to = u->listen_to;
	invalidation = u->invalidation;
	if (listens)
		connect(r, &r->standby, listen_to);
	if (connects)
		connect(r, &r->main, to);
	if (invalidation != 0)
		restored_client_hears(r, (struct client_event){.kind = CLIENT_INVALIDATED,
		                                               .invalidation = invalidation});
}

/* ---- time ---- */

static void
next_parcel(struct restored *r)
{
	struct queued_frame p = r->parcels[r->next++];

	if (p.to_replica && p.conn != 0 && p.conn == r->main.conn)
		server_send(r->server, p.conn, p.frame);
	else if (!p.to_replica && p.conn != 0 &&
	         (p.conn == r->main.conn || p.conn == r->standby.conn))
		restored_client_hears(r,
		                      (struct client_event){.kind = CLIENT_FRAME,
		                                            .frame = p.frame,
		                                            .standby = p.conn == r->standby.conn});
	free((void *)p.frame.data);
}

void
restored_step(struct restored *r)
{
	mono_t server, client;

	if (r->next < r->n) {
		next_parcel(r);
		turn(r);
		return;
	}
	server = server_deadline(r->server);
	client = client_deadline(r->m->client);
	r->now = mono_max(r->now, mono_min(server, client));
	if (mono_reached(r->now, server))
		server_timeout(r->server);
	if (mono_reached(r->now, client))
		restored_client_hears(r, (struct client_event){.kind = CLIENT_TIMEOUT});
	turn(r);
}

enum rc
restored_ask(struct restored *r, const struct op *op)
{
	const struct client_call call = {.token = ++r->tokens, .op = *op};

	r->answered = false;
	restored_client_hears(r, (struct client_event){.kind = CLIENT_REQUEST,
	                                               .request = client_request_new(&call)});
	for (int i = 0; !r->answered; i++) {
		if (i == STEPS_MAX)
			sim_fail(r->s, "after a restore %s is never answered",
			         wire_op(op->code)->name);
		restored_step(r);
	}
	r->result = r->answer.result;
	return r->answer.rc;
}

/* ---- its end ---- */

void
restored_free(struct restored *r)
{
	for (; r->next < r->n; r->next++)
		free((void *)r->parcels[r->next].frame.data);
	free(r->parcels);
	server_free(r->server);
	disk_free(&r->disk);
}
