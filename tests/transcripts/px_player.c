/* Plays the transcripts of paxos (tests/transcripts/paxos): replicas with a clock, disks and a
 * network that the script moves. Replicas that the script does not start exist only in what it
 * injects.
 *
 *   1: ...               a verdict of replica 1
 *   1 writes #3: ...     records, which write number 3 makes durable
 *   1 > 2: ...           sends a message to replica 2; after #3: when that write is durable
 *   2 < 1: ...           a message that is delivered to replica 2
 *   1 times out at ...   the deadline is reached, in milliseconds since the beginning
 *
 * A write is durable at once, unless `slow` has made the disk slow; then `sync` makes it so. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/paxos/ballot.h"
#include "cell/wire/codec.h"
#include "tests/transcripts/px_text.h"

enum { REPLICAS = 9, TIMEOUTS_MAX = 1000 };

#define BEGIN ((mono_t){1000000000})

/* A write that is not durable yet. */
struct pending {
	uint64_t write;
	struct px_record *records; /* with their payloads, owned */
	size_t n;
};

/* The content of a disk; `had.entries` and `had.marks` are set at a start. */
struct disk {
	struct px_recovered had;
	struct log_entry *entries; /* from had.trimmed + 1 on; payloads owned */
	size_t n, room;
	struct mark marks[LIMIT_REPLICA_ID + 1];
};

struct replica {
	uint8_t id;
	char name[2];
	struct px *px; /* NULL: not started */
	struct px_update update;
	struct trace trace;
	struct disk disk;
	uint64_t start;
	struct ballot ballot; /* of its last Prepare */
	struct pending *pending;
	size_t pending_n, pending_room;
	uint64_t durable;
	bool slow;
};

/* A message under way between two started replicas. */
struct flight {
	uint8_t from, to;
	uint64_t after;
	struct bytes frame;
};

struct world {
	struct px_config config; /* of all */
	struct replica replicas[REPLICAS + 1];
	struct flight *flights;
	size_t flights_n, flights_room;
	mono_t now;
	bool marks; /* are printed */
	struct px_text text;
};

static void step(struct script *s, struct world *w, struct replica *r, struct px_event e);

static int64_t
milliseconds(mono_t t)
{
	return span_to_ms(mono_since(t, BEGIN));
}

/* ---- disks ---- */

static void
disk_put(struct disk *d, const struct log_entry *e)
{
	const size_t at = e->slot - d->had.trimmed - 1;

	must(e->slot > d->had.trimmed && at <= d->n);
	if (at == d->n) {
		ARRAY_ROOM(d->entries, d->n, d->room);
		d->n++;
	} else {
		free((void *)d->entries[at].payload.data);
	}
	d->entries[at] = *e;
	d->entries[at].payload = bytes_copy(e->payload);
}

static void
disk_trim(struct disk *d, uint64_t slot)
{
	size_t n = slot - d->had.trimmed < d->n ? slot - d->had.trimmed : d->n;

	for (size_t i = 0; i < n; i++)
		free((void *)d->entries[i].payload.data);
	d->n -= n;
	if (d->n > 0)
		memmove(d->entries, d->entries + n, d->n * sizeof *d->entries);
	d->had.trimmed = slot;
}

static void
disk_write(struct disk *d, const struct px_record *r)
{
	switch (r->kind) {
	case PX_RECORD_PROMISE:
		d->had.promised = r->ballot;
		break;
	case PX_RECORD_ENTRY:
		disk_put(d, &(struct log_entry){r->slot, r->ballot, r->origin, r->checksum,
		                                r->payload, r->before});
		break;
	case PX_RECORD_CHOSEN:
		d->had.chosen = r->slot;
		break;
	case PX_RECORD_TRIM:
		disk_trim(d, r->slot);
		break;
	case PX_RECORD_LEASE:
		d->had.wait = r->length;
		break;
	case PX_RECORD_MARK:
		d->marks[r->mark.replica] = r->mark;
		break;
	}
}

/* What a start finds; the marks are put into `marks`. */
static struct px_recovered
disk_read(struct disk *d, struct mark marks[LIMIT_REPLICA_ID + 1])
{
	struct px_recovered had = d->had;

	for (int i = 1; i <= LIMIT_REPLICA_ID; i++)
		if (d->marks[i].replica != 0)
			marks[had.marks_n++] = d->marks[i];
	had.incarnation = ++d->had.incarnation;
	had.marks = marks;
	had.entries = d->entries;
	had.entries_n = d->n;
	return had;
}

static void
pending_free(struct pending *p)
{
	for (size_t i = 0; i < p->n; i++)
		free((void *)p->records[i].payload.data);
	free(p->records);
}

/* The writes up to this one become durable. */
static void
sync_disk(struct script *s, struct world *w, struct replica *r, uint64_t write)
{
	size_t n = 0;

	for (; n < r->pending_n && r->pending[n].write <= write; n++) {
		for (size_t i = 0; i < r->pending[n].n; i++)
			disk_write(&r->disk, &r->pending[n].records[i]);
		r->durable = r->pending[n].write;
		pending_free(&r->pending[n]);
	}
	if (n == 0)
		return;
	r->pending_n -= n;
	memmove(r->pending, r->pending + n, r->pending_n * sizeof *r->pending);
	step(s, w, r, (struct px_event){.kind = PX_PERSISTED, .write = r->durable});
}

/* ---- a step ---- */

static void
say_buffer(struct script *s, struct buffer *line)
{
	buffer_put_u8(line, 0);
	script_say(s, "%s", (char *)line->data);
	buffer_free(line);
}

static void
take_records(struct script *s, struct world *w, struct replica *r)
{
	const struct px_update *u = &r->update;
	struct pending p = {.write = u->write, .n = u->records_n};
	struct buffer line = BUFFER(1 << 20);

	if (u->records_n == 0)
		return;
	p.records = memory_zero(p.n, sizeof *p.records);
	buffer_printf(&line, "%u writes #%" PRIu64, r->id, u->write);
	for (size_t i = 0; i < p.n; i++) {
		p.records[i] = u->records[i];
		p.records[i].payload = bytes_copy(u->records[i].payload);
		buffer_printf(&line, "%s ", i == 0 ? ":" : ",");
		if (u->records[i].kind == PX_RECORD_MARK && !w->marks)
			buffer_printf(&line, "mark of %u", u->records[i].mark.replica);
		else
			px_print_record(&line, &u->records[i]);
	}
	say_buffer(s, &line);
	ARRAY_ROOM(r->pending, r->pending_n, r->pending_room);
	r->pending[r->pending_n++] = p;
}

/* Puts the message under way, if a started replica is there to receive it. */
static void
put_under_way(struct world *w, const struct replica *r, const struct px_send *send)
{
	if (send->to > REPLICAS || w->replicas[send->to].px == NULL)
		return;
	ARRAY_ROOM(w->flights, w->flights_n, w->flights_room);
	w->flights[w->flights_n++] =
	    (struct flight){r->id, send->to, send->after, bytes_copy(send->frame)};
}

/* Says which message is sent; one that goes to several in a row is said once. Returns how many they
 * are. */
static size_t
say_sends(struct script *s, struct world *w, struct replica *r, const struct px_send *send,
          size_t n)
{
	struct buffer line = BUFFER(1 << 20);
	struct message m;
	size_t same;

	must(wire_get_frame(send->frame, &m) == RC_OK);
	if (m.code == MSG_prepare)
		r->ballot = m.prepare.ballot;
	buffer_printf(&line, "%u >", r->id);
	for (same = 0; same < n && send[same].after == send->after &&
	               bytes_equal(send[same].frame, send->frame);
	     same++)
		buffer_printf(&line, " %u", send[same].to);
	if (send->after != 0)
		buffer_printf(&line, " after #%" PRIu64, send->after);
	buffer_printf(&line, ": ");
	px_print_message(&line, &m, w->marks);
	say_buffer(s, &line);
	return same;
}

static void
step(struct script *s, struct world *w, struct replica *r, struct px_event e)
{
	e.now = w->now;
	px_step(r->px, &e, &r->update);
	script_say_traces(s, r->name, &r->trace);
	take_records(s, w, r);
	for (size_t i = 0; i < r->update.sends_n; i++)
		put_under_way(w, r, &r->update.sends[i]);
	for (size_t i = 0; i < r->update.sends_n;)
		i += say_sends(s, w, r, &r->update.sends[i], r->update.sends_n - i);
	if (!r->slow)
		sync_disk(s, w, r, UINT64_MAX);
}

static void
receive(struct script *s, struct world *w, uint8_t from, uint8_t to, const struct message *m)
{
	step(s, w, &w->replicas[to],
	     (struct px_event){.kind = PX_RECEIVE, .from = from, .message = m});
}

/* ---- arguments ---- */

static uint8_t
id_argument(struct script *s)
{
	const uint64_t id = script_number(s);

	if (id == 0 || id > REPLICAS)
		script_misuse(s, "replicas have the numbers 1 to %d", REPLICAS);
	return (uint8_t)id;
}

static struct replica *
started(struct script *s, struct world *w)
{
	struct replica *r = &w->replicas[id_argument(s)];

	if (r->px == NULL)
		script_misuse(s, "replica %u is not started", r->id);
	return r;
}

/* ---- the cell ---- */

static void
read_member(struct script *s, struct px_members *m, const char *word)
{
	if (word[0] < '1' || word[0] > '9' || (word[1] != 'v' && word[1] != 'l') || word[2] != '\0')
		script_misuse(s, "\"%s\" is no member: 1v (a voter) or 1l (a learner)", word);
	m->list[m->n++] = (struct px_member){(uint8_t)(word[0] - '0'), word[1] == 'v'};
}

static void
run_cell(struct script *s, void *world)
{
	struct world *w = world;
	struct px_config *c = &w->config;
	const uint64_t removed = script_value_number(s, "removed", 0);
	const char *word;

	*c = (struct px_config){
	    .members.version = script_value_number(s, "version", 0),
	    .lease = span_ms((int64_t)script_value_number(s, "lease", 500)),
	    .heartbeat = span_ms((int64_t)script_value_number(s, "heartbeat", 100)),
	    .drift_permille = 20,
	    .log_entries = script_value_number(s, "log_entries", 0),
	    .log_bytes = script_value_number(s, "log_bytes", 0),
	};
	while ((word = script_word(s)) != NULL)
		read_member(s, &c->members, word);
	if (removed != 0)
		c->members.removed[0] |= UINT64_C(1) << removed;
}

static void
world_clear(struct world *w)
{
	for (int i = 0; i <= REPLICAS; i++) {
		struct replica *r = &w->replicas[i];

		px_free(r->px);
		px_update_free(&r->update);
		trace_free(&r->trace);
		disk_trim(&r->disk, r->disk.had.trimmed + r->disk.n);
		free(r->disk.entries);
		for (size_t j = 0; j < r->pending_n; j++)
			pending_free(&r->pending[j]);
		free(r->pending);
	}
	for (size_t i = 0; i < w->flights_n; i++)
		free((void *)w->flights[i].frame.data);
	free(w->flights);
	px_text_free(&w->text);
}

static void
world_begin(struct world *w)
{
	*w = (struct world){.now = BEGIN};
	for (uint8_t i = 0; i <= REPLICAS; i++) {
		w->replicas[i].id = i;
		w->replicas[i].name[0] = (char)('0' + i);
		w->replicas[i].trace.on = true;
	}
}

static void
run_disk(struct script *s, void *world)
{
	struct world *w = world;
	struct disk *d = &w->replicas[id_argument(s)].disk;
	struct px_recovered *had = &d->had;
	const char *marks = script_value(s, "marks");
	size_t n;
	const struct log_entry *e = px_read_entries(s, &w->text, script_value(s, "entries"), &n);

	had->incarnation = script_value_number(s, "incarnation", had->incarnation);
	had->promised = px_read_ballot(s, script_value(s, "promised"));
	had->trimmed = script_value_number(s, "trimmed", 0);
	had->chosen = script_value_number(s, "chosen", 0);
	had->applied = script_value_number(s, "applied", 0);
	had->applied_origin = px_read_ballot(s, script_value(s, "origin"));
	had->damaged = script_value_number(s, "damaged", 0);
	had->state_lost = script_value_number(s, "state_lost", 0);
	had->wait = span_ms((int64_t)script_value_number(s, "wait", 0));
	if (marks != NULL) {
		const struct mark m = px_read_mark(s, marks);

		d->marks[m.replica] = m;
	}
	for (size_t i = 0; i < n; i++)
		disk_put(d, &e[i]);
}

static void
welcome_all(struct script *s, struct world *w, struct replica *r)
{
	const struct px_members *m = &w->config.members;

	for (int i = 0; i < m->n; i++)
		if (m->list[i].id != r->id)
			receive(s, w, m->list[i].id, r->id,
			        &(struct message){.code = MSG_welcome,
			                          .welcome = {.ballot = {1, 0},
			                                      .start = r->start,
			                                      .incarnation =
			                                          r->disk.had.incarnation}});
}

/* `number`: of the start; 0: one of the replica's number and the incarnation. */
static void
start(struct script *s, struct world *w, struct replica *r, uint64_t number)
{
	struct px_config config = w->config;
	struct mark marks[LIMIT_REPLICA_ID + 1];
	struct px_recovered had;

	if (r->px != NULL)
		script_misuse(s, "replica %u is started already", r->id);
	had = disk_read(&r->disk, marks);
	r->start = number != 0 ? number : r->id * 100 + had.incarnation;
	config.self = r->id;
	config.seed = r->id;
	config.start = r->start;
	config.trace = &r->trace;
	px_text_key(config.key, r->id);
	r->px = px_new(&config, &had, w->now);
	r->durable = 0;
	script_say_traces(s, r->name, &r->trace);
}

static void
run_start(struct script *s, void *world)
{
	struct world *w = world;
	struct replica *r = &w->replicas[id_argument(s)];
	const char *word = script_word(s);

	start(s, w, r, script_value_number(s, "start", 0));
	if (word != NULL && strcmp(word, "welcomed") == 0)
		welcome_all(s, w, r);
	else if (word != NULL)
		script_misuse(s, "unexpected \"%s\"", word);
}

/* The process ends: its writes that are not durable, and messages that wait for them, are lost. */
static void
run_crash(struct script *s, void *world)
{
	struct world *w = world;
	struct replica *r = started(s, w);
	size_t kept = 0;

	for (size_t i = 0; i < w->flights_n; i++) {
		const struct flight *f = &w->flights[i];

		if (f->to == r->id || (f->from == r->id && f->after > r->durable))
			free((void *)f->frame.data);
		else
			w->flights[kept++] = *f;
		if (f->from == r->id)
			w->flights[kept - (kept > 0)].after = 0;
	}
	w->flights_n = kept;
	for (size_t i = 0; i < r->pending_n; i++)
		pending_free(&r->pending[i]);
	r->pending_n = 0;
	px_free(r->px);
	r->px = NULL;
}

static void
run_slow(struct script *s, void *world)
{
	((struct world *)world)->replicas[id_argument(s)].slow = true;
}

static void
run_sync(struct script *s, void *world)
{
	struct replica *r = started(s, world);

	sync_disk(s, world, r, script_value_number(s, "write", UINT64_MAX));
}

/* ---- the network ---- */

static bool
arrives(const struct world *w, const struct flight *f, uint8_t from, uint8_t to)
{
	return (from == 0 || f->from == from) && (to == 0 || f->to == to) &&
	       f->after <= w->replicas[f->from].durable;
}

/* Takes the messages out that are under way now (0: any), and delivers them, or drops them. */
static size_t
take_flights(struct script *s, struct world *w, uint8_t from, uint8_t to, bool deliver)
{
	struct flight *taken = memory_zero(w->flights_n + 1, sizeof *taken);
	size_t n = 0, kept = 0;

	for (size_t i = 0; i < w->flights_n; i++)
		if (arrives(w, &w->flights[i], from, to))
			taken[n++] = w->flights[i];
		else
			w->flights[kept++] = w->flights[i];
	w->flights_n = kept;
	for (size_t i = 0; i < n; i++) {
		struct message m;
		struct buffer name = BUFFER(1 << 20);

		must(wire_get_frame(taken[i].frame, &m) == RC_OK);
		px_print_message(&name, &m, false);
		script_say(s, "%u < %u: %.*s", taken[i].to, taken[i].from,
		           (int)strcspn((char *)name.data, " "), (char *)name.data);
		buffer_free(&name);
		if (deliver && w->replicas[taken[i].to].px != NULL)
			receive(s, w, taken[i].from, taken[i].to, &m);
		free((void *)taken[i].frame.data);
	}
	free(taken);
	return n;
}

static void
run_deliver(struct script *s, void *world)
{
	const uint8_t from = (uint8_t)script_value_number(s, "from", 0);
	const uint8_t to = (uint8_t)script_value_number(s, "to", 0);

	take_flights(s, world, from, to, true);
}

static void
run_drop(struct script *s, void *world)
{
	const uint8_t from = (uint8_t)script_value_number(s, "from", 0);
	const uint8_t to = (uint8_t)script_value_number(s, "to", 0);

	if (take_flights(s, world, from, to, false) == 0)
		script_misuse(s, "no such message is under way");
}

static void
run_settle(struct script *s, void *world)
{
	while (take_flights(s, world, 0, 0, true) > 0)
		continue;
}

/* Fields that the script need not give. */
static void
complete(struct script *s, const struct replica *to, struct message *m)
{
	struct slot_header h;
	struct log_entry e;
	struct cursor c;

	if (m->code == MSG_hello || m->code == MSG_welcome) {
		if (m->hello.ballot.round == 0)
			m->hello.ballot.round = 1;
		if (m->code == MSG_welcome && m->welcome.incarnation == 0)
			m->welcome.incarnation = to->disk.had.incarnation;
		if (m->code == MSG_welcome && m->welcome.start == 0)
			m->welcome.start = to->start;
	} else if (m->code == MSG_heartbeat && script_value(s, "lease_ms") == NULL) {
		m->heartbeat.lease_ms = 500;
	} else if (m->code == MSG_accept && m->accept.first == 0) {
		c = cursor_of(m->accept.named.packed);
		if (wire_next_slot_header(&c, &h))
			m->accept.first = h.slot;
		c = cursor_of(m->accept.entries.packed);
		if (m->accept.first == 0 && wire_next_log_entry(&c, &e))
			m->accept.first = e.slot;
	}
}

static void
run_inject(struct script *s, void *world)
{
	struct world *w = world;
	const uint8_t from = id_argument(s);
	struct replica *to = started(s, w);
	struct message m = px_read_message(s, &w->text);

	complete(s, to, &m);
	receive(s, w, from, to->id, &m);
	px_text_free(&w->text);
}

/* ---- time ---- */

static void
time_out(struct script *s, struct world *w, struct replica *r)
{
	script_say(s, "%u times out at %" PRId64 " ms", r->id, milliseconds(w->now));
	step(s, w, r, (struct px_event){.kind = PX_TIMEOUT});
}

/* The started replica whose deadline is the earliest; NULL: none has one. */
static struct replica *
next_replica(struct world *w)
{
	struct replica *next = NULL;

	for (int i = 1; i <= REPLICAS; i++) {
		struct replica *r = &w->replicas[i];

		if (r->px != NULL && !mono_is_never(px_deadline(r->px)) &&
		    (next == NULL || mono_before(px_deadline(r->px), px_deadline(next->px))))
			next = r;
	}
	return next;
}

static void
run_time(struct script *s, void *world)
{
	struct world *w = world;
	const mono_t end = mono_add(w->now, span_ms((int64_t)script_number(s)));
	struct replica *r;
	int n = 0;

	while ((r = next_replica(w)) != NULL && mono_reached(end, px_deadline(r->px))) {
		if (n++ == TIMEOUTS_MAX)
			script_misuse(s, "too many deadlines");
		w->now = mono_max(w->now, px_deadline(r->px));
		time_out(s, w, r);
	}
	w->now = end;
}

static void
run_sleep(struct script *s, void *world)
{
	struct world *w = world;

	w->now = mono_add(w->now, span_ms((int64_t)script_number(s)));
}

static void
run_timeout(struct script *s, void *world)
{
	struct world *w = world;
	struct replica *r = started(s, w);

	if (mono_is_never(px_deadline(r->px)))
		script_misuse(s, "replica %u has no deadline", r->id);
	w->now = mono_max(w->now, px_deadline(r->px));
	time_out(s, w, r);
}

/* ---- events of the driver ---- */

static void
run_propose(struct script *s, void *world)
{
	struct world *w = world;
	struct replica *r = started(s, w);
	uint64_t times = script_value_number(s, "times", 1);
	const char *word = script_word(s);

	if (word == NULL)
		script_misuse(s, "a value is missing");
	for (; times > 0; times--)
		step(s, w, r,
		     (struct px_event){.kind = PX_PROPOSE,
		                       .payload = px_read_value(s, &w->text, word)});
	px_text_free(&w->text);
}

static void
run_applied(struct script *s, void *world)
{
	struct world *w = world;
	struct replica *r = started(s, w);
	const uint64_t slot = script_value_number(s, "slot", px_chosen(r->px));

	r->disk.had.applied = slot;
	r->disk.had.applied_origin = px_origin(r->px, slot);
	step(s, w, r, (struct px_event){.kind = PX_APPLIED, .slot = slot});
}

static void
run_step_down(struct script *s, void *world)
{
	struct replica *r = started(s, world);

	step(s, world, r,
	     (struct px_event){.kind = PX_STEP_DOWN,
	                       .to = (uint8_t)script_value_number(s, "to", 0)});
}

static void
run_close(struct script *s, void *world)
{
	struct replica *r = started(s, world);

	step(s, world, r, (struct px_event){.kind = PX_CLOSE});
}

static void
run_full(struct script *s, void *world)
{
	struct replica *r = started(s, world);

	step(s, world, r,
	     (struct px_event){.kind = PX_FULL, .on = script_value_number(s, "on", 1) != 0});
}

static void
run_copy(struct script *s, void *world)
{
	struct replica *r = started(s, world);

	step(s, world, r, (struct px_event){.kind = PX_COPY_BEGUN, .from = id_argument(s)});
}

static void
run_lease(struct script *s, void *world)
{
	struct replica *r = started(s, world);
	const int64_t lease = (int64_t)script_number(s), beat = (int64_t)script_number(s);

	px_set_lease(r->px, span_ms(lease), span_ms(beat));
}

/* Its deadline comes, and replica 2 promises: it is master. */
static void
elect(struct script *s, struct world *w, struct replica *r)
{
	w->now = mono_max(w->now, px_deadline(r->px));
	time_out(s, w, r);
	if (px_role(r->px) == PX_CANDIDATE)
		receive(s, w, 2, r->id,
		        &(struct message){.code = MSG_promise, .promise = {.ballot = r->ballot}});
	if (px_role(r->px) != PX_MASTER)
		script_misuse(s, "replica %u is not elected", r->id);
}

/* A new cell, for the next subject. */
static void
run_new(struct script *s, void *world)
{
	struct world *w = world;
	const uint64_t master = script_value_number(s, "master", 0);
	const uint64_t id = script_value_number(s, "start", master);

	if (id > REPLICAS)
		script_misuse(s, "replicas have the numbers 1 to %d", REPLICAS);
	world_clear(w);
	world_begin(w);
	run_cell(s, w);
	if (id == 0)
		return;
	start(s, w, &w->replicas[id], 0);
	welcome_all(s, w, &w->replicas[id]);
	if (master != 0)
		elect(s, w, &w->replicas[id]);
}

/* ---- looking ---- */

static const char *const roles[] = {"follower", "candidate", "master"};
static const char *const conditions[] = {"voting",  "joining", "repairing",
                                         "learner", "lost",    "expelled"};

static void
run_show(struct script *s, void *world)
{
	struct world *w = world;
	const struct px *px = started(s, w)->px;
	struct buffer line = BUFFER(4096);

	buffer_printf(&line, "%s, %s, log %" PRIu64 "-%" PRIu64 ", chosen %" PRIu64,
	              roles[px_role(px)], conditions[px_condition(px)], px_first(px), px_last(px),
	              px_chosen(px));
	if (px_master(px).round > 0) {
		buffer_printf(&line, ", master ");
		px_print_ballot(&line, px_master(px));
	}
	buffer_printf(&line, "%s%s%s%s", px_lease_valid(px, w->now) ? ", has the lease" : "",
	              px_open(px) ? ", open" : "", px_room(px) ? ", has room" : "",
	              px_closed(px) ? ", closed" : "");
	if (px_has_master(px, w->now) && px_role(px) != PX_MASTER)
		buffer_printf(&line, ", bound");
	if (px_behind(px) != 0)
		buffer_printf(&line, ", behind %u", px_behind(px));
	if (mono_is_never(px_deadline(px)))
		buffer_printf(&line, ", no timeout");
	else if (mono_reached(w->now, px_deadline(px)))
		buffer_printf(&line, ", timeout due");
	else
		buffer_printf(&line, ", timeout in %" PRId64 " ms",
		              span_to_ms(mono_since(px_deadline(px), w->now)));
	say_buffer(s, &line);
}

static void
run_log(struct script *s, void *world)
{
	const struct px *px = started(s, world)->px;

	for (uint64_t slot = px_first(px); slot <= px_last(px); slot++)
		script_say(s, "slot %" PRIu64 ": %.*s", slot, (int)px_payload(px, slot).len,
		           (const char *)px_payload(px, slot).data);
}

static void
run_members(struct script *s, void *world)
{
	const struct px_members *m = px_members(started(s, world)->px);
	struct buffer line = BUFFER(4096);

	buffer_printf(&line, "version %" PRIu64 ":", m->version);
	for (int i = 0; i < m->n; i++)
		buffer_printf(&line, " %u%c", m->list[i].id, m->list[i].voter ? 'v' : 'l');
	for (unsigned i = 1; i <= REPLICAS; i++)
		if (m->removed[0] >> i & 1)
			buffer_printf(&line, " %ur", i);
	say_buffer(s, &line);
}

static void
run_progress(struct script *s, void *world)
{
	const struct px *px = started(s, world)->px;
	const uint8_t id = id_argument(s);
	struct px_progress p;

	if (!px_progress(px, id, &p))
		script_say(s, "replica %u is no member", id);
	else
		script_say(s, "log up to %" PRIu64 ", state up to %" PRIu64 ", %s%s, minor %u",
		           p.match, p.applied,
		           p.answered_at.ns == INT64_MIN ? "has never answered" : "answers",
		           p.full ? ", its disk is full" : "", p.minor);
}

static void
run_marks(struct script *s, void *world)
{
	const char *word = script_word(s);

	((struct world *)world)->marks = word == NULL || strcmp(word, "off") != 0;
}

static const struct script_command commands[] = {
    {"cell",
     "1v 2v 3l... [version=N] [removed=ID] [lease=MS] [heartbeat=MS] [log_entries=N] "
     "[log_bytes=N] [start=ID | master=ID]",
     run_new},
    {"disk",
     "ID [promised=BALLOT] [entries=ENTRIES] [chosen=N] [trimmed=N] [applied=N] "
     "[origin=BALLOT] [damaged=N] [wait=MS] [marks=MARK] [incarnation=N] "
     "[state_lost=1]",
     run_disk},
    {"start", "ID [welcomed] [start=N]", run_start},
    {"crash", "ID", run_crash},
    {"slow", "ID", run_slow},
    {"sync", "ID [write=N]", run_sync},
    {"deliver", "[from=ID] [to=ID]", run_deliver},
    {"drop", "[from=ID] [to=ID]", run_drop},
    {"settle", "", run_settle},
    {"inject", "FROM TO MESSAGE [FIELD=VALUE]...", run_inject},
    {"time", "MS", run_time},
    {"sleep", "MS", run_sleep},
    {"timeout", "ID", run_timeout},
    {"propose", "ID VALUE [times=N]", run_propose},
    {"applied", "ID [slot=N]", run_applied},
    {"step-down", "ID [to=ID]", run_step_down},
    {"close", "ID", run_close},
    {"full", "ID [on=0]", run_full},
    {"copy", "ID READER", run_copy},
    {"lease", "ID LEASE_MS HEARTBEAT_MS", run_lease},
    {"show", "ID", run_show},
    {"log", "ID", run_log},
    {"members", "ID", run_members},
    {"progress", "ID OF", run_progress},
    {"marks", "[off]", run_marks},
    {0},
};

static void *
begin(void)
{
	struct world *w = memory_zero(1, sizeof *w);

	world_begin(w);
	return w;
}

static void
end(void *world)
{
	world_clear(world);
	free(world);
}

int
main(int argc, char **argv)
{
	return script_main(argc, argv, &(struct script_player){"paxos", commands, begin, end});
}
