/* What a replica's server stands on in the simulator (cell/server/server_io.h): a clock of its
 * own, a disk, connections. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/must.h"
#include "tests/sim/sim.h"

enum { LINES_MAX = 200, NO_ROOM_PERMILLE = 200 };

#define WALL_START (1700000000 * SECOND)

/* ---- clocks, log ---- */

/* What the turn has cost so far has passed. Then the clock may be made slower, but it never goes
 * back. The time of day is read once a step, at its beginning: a step takes its time. */
static mono_t
io_now(void *user, int64_t *wall_ns)
{
	struct host *n = user;

	n->shown = mono_max(n->shown, clock_local(&n->clock, n->sim->now + n->spent));
	if (wall_ns != NULL) {
		n->spent += n->sim->swarm.cost_ns;
		n->step_size = 0;
		n->deeds++;
		*wall_ns = WALL_START + n->sim->now + n->wall_off;
	}
	return n->shown;
}

static void
io_random(void *user, void *to, size_t n)
{
	struct host *host = user;
	uint8_t *at = to;

	for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
		const uint64_t r = rng_next(&host->sim->rng);

		memcpy(at + i, &r, n - i < sizeof r ? n - i : sizeof r);
	}
}

/* The log is read by people. */
static void
count_line(struct host *n, const char *line)
{
	n->sim->quiet.lines++;
	if (++n->lines > LINES_MAX && n->sim->script == NULL)
		sim_fail(n->sim, "replica %d logs more than %d lines in a second, the last one: %s",
		         n->id, LINES_MAX, line);
}

static void
io_log(void *user, enum log_level level, const char *line)
{
	struct host *n = user;

	if (level != LEVEL_DEBUG)
		count_line(n, line);
	/* A faulty member's digest may be the only other one. */
	if (n->sim->script == NULL && n->sim->liar.id == 0 &&
	    strstr(line, "different states") != NULL)
		sim_fail(n->sim, "replica %d says so: %s", n->id, line);
	if (n->sim->script != NULL && !n->sim->script->bare)
		n->sim->script->said(n->sim->script->user, n->id, level, line);
	sim_trace(n->sim, "replica %d says: %s", n->id, line);
}

static void
count_step(struct host *n, size_t more)
{
	n->step_size += more;
	if (n->step_size > LIMIT_STEP)
		sim_fail(n->sim, "a step of replica %d changes and sends %zu rows and frames",
		         n->id, n->step_size);
}

/* ---- the disk ---- */

static bool
put_off_until(struct sim *s, const struct host *n, struct event *e, int64_t until)
{
	if (until <= s->now)
		return host_puts_off(s, n, e);
	heap_again(&s->heap, e, until);
	return true;
}

/* What the disk reports comes when the disk can write and the process is there to hear it. */
bool
disk_puts_off(struct sim *s, const struct host *n, struct event *e)
{
	return put_off_until(s, n, e, n->disk.stuck_until);
}

static bool
state_puts_off(struct sim *s, const struct host *n, struct event *e)
{
	const struct disk *d = &n->disk;
	const bool state = d->state_stuck_until > d->stuck_until;

	return put_off_until(s, n, e, state ? d->state_stuck_until : d->stuck_until);
}

/* What was put off for the time that it was stuck happens now. */
void
host_disk_goes_on(struct sim *s, struct host *n)
{
	const int64_t log = n->disk.stuck_until, state = n->disk.state_stuck_until;

	n->disk.stuck_until = n->disk.state_stuck_until = s->now;
	for (size_t i = 0; i < s->heap.n; i++) {
		struct event *e = &s->heap.events[i];

		if (e->at > s->now && (e->at == log || e->at == state) && e->who == n->id - 1)
			e->at = s->now;
	}
	heap_sort(&s->heap);
}

static bool
is_broken(struct sim *s, struct host *n)
{
	if (!n->disk.broken || n->disk_failed)
		return n->disk.broken;
	n->disk_failed = true;
	server_disk_failed(n->server, "a sync has failed");
	host_settle(s, n);
	return true;
}

static void
run_persisted(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];

	if (!n->up || n->life != e->life || disk_puts_off(s, n, e) || is_broken(s, n) ||
	    !disk_log_done(&n->disk, e->a))
		return;
	n->step_size = 0;
	n->acceptances = 0;
	if (n->persisted_at != s->now)
		n->promises = 0;
	n->persisted_at = s->now;
	server_persisted(n->server, e->a);
	/* Of those that waited for the write the last one says all. */
	if (n->acceptances > 2 * s->hosts_n)
		sim_fail(s, "replica %d sends %d acceptances of one write", n->id, n->acceptances);
	if (n->promises > s->hosts_n)
		sim_fail(s, "replica %d has held %d promises", n->id, n->promises);
	host_settle(s, n);
}

static void
run_saved(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];

	if (!n->up || n->life != e->life || state_puts_off(s, n, e) || is_broken(s, n) ||
	    !disk_state_done(&n->disk, e->a))
		return;
	server_saved(n->server, e->a, n->disk.unsaved);
	host_settle(s, n);
}

static void
io_append(struct store *store, uint64_t write, const struct px_record *records, size_t records_n)
{
	struct host *n = (struct host *)store;
	struct sim *s = n->sim;

	s->quiet.writes++;
	heap_push(&s->heap,
	          (struct event){.at = disk_write_log(s, &n->disk, write, records, records_n),
	                         .run = run_persisted,
	                         .who = n->id - 1,
	                         .life = n->life,
	                         .a = write});
	adversary_recorded(s, n, records, records_n);
}

static size_t
io_save(struct store *store, uint64_t applied, struct row_list *rows)
{
	struct host *n = (struct host *)store;
	struct sim *s = n->sim;

	count_step(n, rows->n);
	s->quiet.writes++;
	heap_push(&s->heap, (struct event){.at = disk_write_state(s, &n->disk, applied, rows),
	                                   .run = run_saved,
	                                   .who = n->id - 1,
	                                   .life = n->life,
	                                   .a = applied});
	return n->disk.unsaved;
}

static void
io_fail(struct store *store, const char *why)
{
	const struct host *n = (const struct host *)store;

	sim_fail(n->sim, "replica %d: nothing else of its disk fails: %s", n->id, why);
}

/* A full disk; sometimes there is no room for just that. */
static bool
has_no_room(const struct sim *s, const struct host *n, struct rng *own)
{
	return n->full || (!s->calm && rng_chance(own, NO_ROOM_PERMILLE));
}

/* The keys are files of their own, and are written first. */
static void
run_cell_file(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];
	struct rng own = rng_seeded(s->seed + (uint64_t)s->now); /* other runs are what they were */
	bool keys_kept;

	if (!n->up || n->life != e->life || disk_puts_off(s, n, e))
		return;
	if (s->script == NULL && has_no_room(s, n, &own)) {
		keys_kept = rng_chance(&own, 300);
		if (keys_kept)
			n->disk.keys.keys = n->writing_keys.keys;
		fault(s, FAULT_NO_ROOM, "replica %d has no room for its cell file", n->id);
		server_cell_file_written(n->server, RC_NOSPC, keys_kept, "no room");
	} else {
		n->disk.file = n->writing;
		n->disk.keys = n->writing_keys;
		server_cell_file_written(n->server, RC_OK, true, NULL);
	}
	host_settle(s, n);
}

static void
io_write_cell_file(void *user, const struct cell_file *cell_file, const struct sign_keys *keys)
{
	struct host *n = user;
	struct sim *s = n->sim;

	if (cell_file->version > n->disk.applied && cell_file->version != n->disk.file.version)
		sim_fail(s, "the cell file of replica %d has list %lu, and its state is of %lu",
		         n->id, (unsigned long)cell_file->version, (unsigned long)n->disk.applied);
	seats_of_cell_file(&n->writing, cell_file);
	if (cell_file->key_version < n->disk.keys.version)
		sim_fail(s, "the cell file of replica %d goes back to older signing keys", n->id);
	n->writing_keys = (struct key_files){.keys = *keys,
	                                     .named = cell_file->has_former,
	                                     .version = cell_file->key_version};
	memcpy(n->writing_keys.newest, cell_file->signing_public, SIGN_PUBLIC);
	memcpy(n->writing_keys.former, cell_file->former_public, SIGN_PUBLIC);
	signing_keys_check_written(s, n, keys);
	if (keys->n > 0 && n->disk.keys.keys.n == 0)
		adversary_joining(s, n);
	heap_push(&s->heap,
	          (struct event){.at =
	                             s->now + 1000 * sim_between(s, 50, 50 + 10 * s->swarm.disk_us),
	                         .run = run_cell_file,
	                         .who = n->id - 1,
	                         .life = n->life});
}

/* ---- connections: of replicas, or of clients ---- */

static uint64_t
io_connect(struct transport *transport, const char *address, enum channel_role role,
           const uint8_t key[NOISE_KEY])
{
	struct host *n = (struct host *)transport;

	n->deeds++;
	return link_dial(n->sim, n->id, address, role == CHANNEL_BULK, key);
}

static void
io_send(struct transport *transport, uint64_t conn, struct bytes frame)
{
	struct host *n = (struct host *)transport;

	count_step(n, 1);
	n->deeds++;
	n->acceptances += wire_frame_code(frame) == MSG_accepted;
	n->promises += wire_frame_code(frame) == MSG_promise;
	if (link_is(conn))
		link_send(n->sim, conn, frame);
	else
		net_to_client(n->sim, conn, frame);
}

static void
io_send_datagram(struct transport *transport, uint64_t conn, struct bytes frame)
{
	struct host *n = (struct host *)transport;

	count_step(n, 1);
	n->deeds++;
	must(!link_is(conn));
	net_datagram_to_client(n->sim, conn, frame);
}

static void
io_hold(struct transport *transport, uint64_t conn, bool on)
{
	const struct host *n = (const struct host *)transport;

	must(!link_is(conn));
	net_hold(n->sim, conn, on);
}

static size_t
io_unsent(struct transport *transport, uint64_t conn)
{
	const struct host *n = (const struct host *)transport;

	must(!link_is(conn));
	return net_unsent(n->sim, conn);
}

static const uint8_t *
io_key(struct transport *transport, uint64_t conn)
{
	const struct host *n = (const struct host *)transport;

	if (link_is(conn))
		return link_key(n->sim, conn);
	return net_is_open(n->sim, conn) ? seat_key(n->sim->net.conns[conn - 1]->seat) : NULL;
}

static bool
io_close(struct transport *transport, uint64_t conn)
{
	struct host *n = (struct host *)transport;

	n->deeds++;
	return link_is(conn) ? link_close(n->sim, conn) : net_node_closes(n->sim, conn);
}

struct server_io
host_io(struct host *n)
{
	return (struct server_io){
	    .clock = {io_now, io_random, io_log, n},
	    .store = {io_append, io_save, io_fail, (struct store *)n},
	    .directory = {.write_cell_file = io_write_cell_file, .user = n},
	    .copies = copies_io(n),
	    .network = {io_connect, io_send, io_send_datagram, io_hold, io_unsent, io_key, io_close,
	                (struct transport *)n},
	};
}
