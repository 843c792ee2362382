#include "tests/transcripts/px_world.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/wire/codec.h"

#define BEGIN ((mono_t){1000000000})

static int64_t
milliseconds(mono_t t)
{
	return span_to_ms(mono_since(t, BEGIN));
}

static void
pending_free(struct pending *p)
{
	for (size_t i = 0; i < p->n; i++)
		free((void *)p->records[i].payload.data);
	free(p->records);
}

/* The writes up to this one become durable. */
void
px_world_sync(struct script *s, struct world *w, struct replica *r, uint64_t write)
{
	size_t n = 0;

	for (; n < r->pending_n && r->pending[n].write <= write; n++) {
		for (size_t i = 0; i < r->pending[n].n; i++)
			px_disk_write(&r->disk, &r->pending[n].records[i]);
		r->durable = r->pending[n].write;
		pending_free(&r->pending[n]);
	}
	if (n == 0)
		return;
	r->pending_n -= n;
	memmove(r->pending, r->pending + n, r->pending_n * sizeof *r->pending);
	px_world_step(s, w, r, (struct px_event){.kind = PX_PERSISTED, .write = r->durable});
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
	script_say_buffer(s, &line);
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
	script_say_buffer(s, &line);
	return same;
}

/* True when the step asks for votes that are not to be shown. */
static bool
asks_for_votes(const struct world *w, const struct replica *r)
{
	struct message m;

	if (w->votes || r->update.sends_n == 0)
		return false;
	must(wire_get_frame(r->update.sends[0].frame, &m) == RC_OK);
	return m.code == MSG_pre_vote;
}

/* All others vote for it at once. */
static void
give_votes(struct script *s, struct world *w, struct replica *r)
{
	uint8_t from[LIMIT_REPLICA_ID];
	size_t n = 0;
	struct message m;

	must(wire_get_frame(r->update.sends[0].frame, &m) == RC_OK);
	m = (struct message){.code = MSG_pre_voted,
	                     .pre_voted = {m.pre_vote.ballot, m.pre_vote.sequence}};
	while (n < r->update.sends_n) {
		from[n] = r->update.sends[n].to;
		n++;
	}
	for (size_t i = 0; i < n && px_role(r->px) == PX_FOLLOWER; i++)
		px_world_receive(s, w, from[i], r->id, &m);
}

void
px_world_step(struct script *s, struct world *w, struct replica *r, struct px_event e)
{
	e.now = w->now;
	px_step(r->px, &e, &r->update);
	script_say_traces(s, r->name, &r->trace);
	take_records(s, w, r);
	if (asks_for_votes(w, r)) {
		give_votes(s, w, r);
		return;
	}
	for (size_t i = 0; i < r->update.sends_n; i++)
		put_under_way(w, r, &r->update.sends[i]);
	for (size_t i = 0; i < r->update.sends_n;)
		i += say_sends(s, w, r, &r->update.sends[i], r->update.sends_n - i);
	if (px_status(r->px)->unsent)
		px_world_step(s, w, r, (struct px_event){.kind = PX_SEND});
	else if (!r->slow)
		px_world_sync(s, w, r, UINT64_MAX);
}

void
px_world_receive(struct script *s, struct world *w, uint8_t from, uint8_t to,
                 const struct message *m)
{
	px_world_step(s, w, &w->replicas[to],
	              (struct px_event){.kind = PX_RECEIVE, .from = from, .message = m});
}

/* ---- processes ---- */

void
px_world_begin(void *world)
{
	struct world *w = world;

	*w = (struct world){.now = BEGIN};
	for (uint8_t i = 0; i <= REPLICAS; i++) {
		w->replicas[i].id = i;
		w->replicas[i].name[0] = (char)('0' + i);
		w->replicas[i].trace.on = true;
	}
}

void
px_world_end(void *world)
{
	struct world *w = world;

	for (int i = 0; i <= REPLICAS; i++) {
		struct replica *r = &w->replicas[i];

		px_free(r->px);
		px_update_free(&r->update);
		trace_free(&r->trace);
		px_disk_free(&r->disk);
		for (size_t j = 0; j < r->pending_n; j++)
			pending_free(&r->pending[j]);
		free(r->pending);
	}
	for (size_t i = 0; i < w->flights_n; i++)
		free((void *)w->flights[i].frame.data);
	free(w->flights);
	px_text_free(&w->text);
}

/* `number`: of the start; 0: one of the replica's number and the incarnation. */
void
px_world_start(struct script *s, struct world *w, struct replica *r, uint64_t number)
{
	struct px_config config = w->config;
	struct mark marks[LIMIT_REPLICA_ID + 1];
	struct px_recovered had;

	if (r->px != NULL)
		script_misuse(s, "replica %u is started already", r->id);
	had = px_disk_read(&r->disk, marks);
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

void
px_world_crash(struct world *w, struct replica *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->flights_n; i++) {
		struct flight *f = &w->flights[i];

		if (f->to == r->id || (f->from == r->id && f->after > r->durable)) {
			free((void *)f->frame.data);
			continue;
		}
		if (f->from == r->id)
			f->after = 0;
		w->flights[kept++] = *f;
	}
	w->flights_n = kept;
	for (size_t i = 0; i < r->pending_n; i++)
		pending_free(&r->pending[i]);
	r->pending_n = 0;
	px_free(r->px);
	r->px = NULL;
}

/* ---- the network, and time ---- */

static bool
arrives(const struct world *w, const struct flight *f, uint8_t from, uint8_t to)
{
	return (from == 0 || f->from == from) && (to == 0 || f->to == to) &&
	       f->after <= w->replicas[f->from].durable;
}

/* Takes the messages out that are under way now (0: any), and delivers them, or drops them. */
size_t
px_world_take(struct script *s, struct world *w, uint8_t from, uint8_t to, bool deliver)
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
			px_world_receive(s, w, taken[i].from, taken[i].to, &m);
		free((void *)taken[i].frame.data);
	}
	free(taken);
	return n;
}

void
px_world_time_out(struct script *s, struct world *w, struct replica *r)
{
	script_say(s, "%u times out at %" PRId64 " ms", r->id, milliseconds(w->now));
	px_world_step(s, w, r, (struct px_event){.kind = PX_TIMEOUT});
}

/* The started replica whose deadline is the earliest; NULL: none has one. */
struct replica *
px_world_next(struct world *w)
{
	struct replica *next = NULL;

	for (int i = 1; i <= REPLICAS; i++) {
		struct replica *r = &w->replicas[i];

		if (r->px != NULL && !mono_is_never(px_status(r->px)->deadline) &&
		    (next == NULL ||
		     mono_before(px_status(r->px)->deadline, px_status(next->px)->deadline)))
			next = r;
	}
	return next;
}
