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
#include "tests/transcripts/px_world.h"

enum { TIMEOUTS_MAX = 1000 };

#define COMMAND(name) SCRIPT_COMMAND(name, struct world)

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
read_cell(struct script *s, struct world *w)
{
	struct px_config *c = &w->config;
	const uint64_t removed = script_value_number(s, "removed", 0);
	const char *word;

	*c = (struct px_config){
	    .members.version = script_value_number(s, "version", 0),
	    .lease = script_value_ms(s, "lease", 500),
	    .heartbeat = script_value_ms(s, "heartbeat", 100),
	    .drift_permille = 20,
	    .log_entries = script_value_number(s, "log_entries", 0),
	    .log_bytes = script_value_number(s, "log_bytes", 0),
	};
	while ((word = script_word(s)) != NULL)
		read_member(s, &c->members, word);
	if (removed != 0)
		c->members.removed[0] |= UINT64_C(1) << removed;
}

COMMAND(disk)
{
	struct px_disk *d = &w->replicas[id_argument(s)].disk;
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
	had->wait = script_value_ms(s, "wait", 0);
	if (marks != NULL) {
		const struct mark m = px_read_mark(s, marks);

		d->marks[m.replica] = m;
	}
	for (size_t i = 0; i < n; i++)
		px_disk_put(d, &e[i]);
}

static void
welcome_all(struct script *s, struct world *w, struct replica *r)
{
	const struct px_members *m = &w->config.members;

	for (int i = 0; i < m->n; i++)
		if (m->list[i].id != r->id)
			px_world_receive(
			    s, w, m->list[i].id, r->id,
			    &(struct message){.code = MSG_welcome,
			                      .welcome = {.ballot = {1, 0},
			                                  .start = r->start,
			                                  .incarnation = r->disk.had.incarnation}});
}

/* VERSION:1v/2v/3l... */
static struct px_members
list_argument(struct script *s, const char *text)
{
	struct px_members m = {0};
	char list[64], *rest;

	if (text == NULL)
		return m;
	m.version = strtoull(text, &rest, 10);
	snprintf(list, sizeof list, "%s", *rest == ':' ? rest + 1 : rest);
	for (char *word = strtok(list, "/"); word != NULL; word = strtok(NULL, "/"))
		read_member(s, &m, word);
	return m;
}

COMMAND(start)
{
	struct replica *r = &w->replicas[id_argument(s)];

	w->config.newest = list_argument(s, script_value(s, "newest"));
	px_world_start(s, w, r, script_value_number(s, "start", 0));
	if (script_take(s, "welcomed"))
		welcome_all(s, w, r);
}

COMMAND(crash)
{
	px_world_crash(w, started(s, w));
}

COMMAND(slow)
{
	w->replicas[id_argument(s)].slow = true;
}

COMMAND(sync)
{
	struct replica *r = started(s, w);

	px_world_sync(s, w, r, script_value_number(s, "write", UINT64_MAX));
}

/* ---- the network ---- */

COMMAND(deliver)
{
	const uint8_t from = (uint8_t)script_value_number(s, "from", 0);
	const uint8_t to = (uint8_t)script_value_number(s, "to", 0);

	px_world_take(s, w, from, to, true);
}

COMMAND(drop)
{
	const uint8_t from = (uint8_t)script_value_number(s, "from", 0);
	const uint8_t to = (uint8_t)script_value_number(s, "to", 0);

	if (px_world_take(s, w, from, to, false) == 0)
		script_misuse(s, "no such message is under way");
}

COMMAND(settle)
{
	while (px_world_take(s, w, 0, 0, true) > 0)
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

COMMAND(inject)
{
	const uint8_t from = id_argument(s);
	struct replica *to = started(s, w);
	struct message m = px_read_message(s, &w->text);

	complete(s, to, &m);
	px_world_receive(s, w, from, to->id, &m);
	px_text_free(&w->text);
}

/* ---- time ---- */

COMMAND(time)
{
	const mono_t end = mono_add(w->now, script_ms(s));
	struct replica *r;
	int n = 0;

	while ((r = px_world_next(w)) != NULL && mono_reached(end, px_status(r->px)->deadline)) {
		if (n++ == TIMEOUTS_MAX)
			script_misuse(s, "too many deadlines");
		w->now = mono_max(w->now, px_status(r->px)->deadline);
		px_world_time_out(s, w, r);
	}
	w->now = end;
}

COMMAND(sleep)
{
	w->now = mono_add(w->now, script_ms(s));
}

COMMAND(timeout)
{
	struct replica *r = started(s, w);

	if (mono_is_never(px_status(r->px)->deadline))
		script_misuse(s, "replica %u has no deadline", r->id);
	w->now = mono_max(w->now, px_status(r->px)->deadline);
	px_world_time_out(s, w, r);
}

/* ---- events of the driver ---- */

COMMAND(propose)
{
	struct replica *r = started(s, w);
	const char *word = script_needed(s);

	px_world_step(s, w, r,
	              (struct px_event){.kind = PX_PROPOSE,
	                                .payload = px_read_value(s, &w->text, word)});
	px_text_free(&w->text);
}

COMMAND(applied)
{
	struct replica *r = started(s, w);
	const uint64_t slot = script_value_number(s, "slot", px_status(r->px)->chosen);

	r->disk.had.applied = slot;
	r->disk.had.applied_origin = px_origin(r->px, slot);
	px_world_step(s, w, r, (struct px_event){.kind = PX_APPLIED, .slot = slot});
}

COMMAND(step_down)
{
	struct replica *r = started(s, w);

	px_world_step(s, w, r,
	              (struct px_event){.kind = PX_STEP_DOWN,
	                                .why = "asked to",
	                                .to = (uint8_t)script_value_number(s, "to", 0)});
}

COMMAND(close)
{
	struct replica *r = started(s, w);

	px_world_step(s, w, r, (struct px_event){.kind = PX_CLOSE, .why = "it was stopped"});
}

COMMAND(full)
{
	struct replica *r = started(s, w);

	px_world_step(s, w, r,
	              (struct px_event){.kind = PX_FULL,
	                                .on = script_value_number(s, "on", 1) != 0});
}

COMMAND(copy)
{
	struct replica *r = started(s, w);

	px_world_step(s, w, r, (struct px_event){.kind = PX_COPY_BEGUN, .from = id_argument(s)});
}

COMMAND(lease)
{
	struct replica *r = started(s, w);
	const span_t lease = script_ms(s), beat = script_ms(s);

	px_set_lease(r->px, lease, beat);
}

/* Its deadline comes, and replica 2 promises: it is master. */
static void
elect(struct script *s, struct world *w, struct replica *r)
{
	w->now = mono_max(w->now, px_status(r->px)->deadline);
	px_world_time_out(s, w, r);
	if (px_role(r->px) == PX_CANDIDATE)
		px_world_receive(s, w, 2, r->id,
		                 &(struct message){.code = MSG_promise,
		                                   .promise = {.ballot = r->ballot}});
	if (px_role(r->px) != PX_MASTER)
		script_misuse(s, "replica %u is not elected", r->id);
}

/* A new cell, for the next subject. */
COMMAND(new)
{
	const uint64_t master = script_value_number(s, "master", 0);
	const uint64_t id = script_value_number(s, "start", master);

	if (id > REPLICAS)
		script_misuse(s, "replicas have the numbers 1 to %d", REPLICAS);
	px_world_end(w);
	px_world_begin(w);
	read_cell(s, w);
	if (id == 0)
		return;
	px_world_start(s, w, &w->replicas[id], 0);
	welcome_all(s, w, &w->replicas[id]);
	if (master != 0)
		elect(s, w, &w->replicas[id]);
}

/* ---- looking ---- */

static const char *const roles[] = {"follower", "candidate", "master"};
static const char *const conditions[] = {"voting",  "joining", "repairing",
                                         "learner", "lost",    "expelled"};

COMMAND(show)
{
	const struct px *px = started(s, w)->px;
	struct buffer line = BUFFER(4096);

	buffer_printf(&line, "%s, %s, log %" PRIu64 "-%" PRIu64 ", chosen %" PRIu64,
	              roles[px_role(px)], conditions[px_status(px)->condition],
	              px_status(px)->first, px_last(px), px_status(px)->chosen);
	if (px_status(px)->master.round > 0) {
		buffer_printf(&line, ", master ");
		px_print_ballot(&line, px_status(px)->master);
	}
	buffer_printf(&line, "%s%s%s%s", px_lease_valid(px, w->now) ? ", has the lease" : "",
	              px_status(px)->open ? ", open" : "", px_room(px) ? ", has room" : "",
	              px_closed(px) ? ", closed" : "");
	if (px_has_master(px, w->now) && px_role(px) != PX_MASTER)
		buffer_printf(&line, ", bound");
	if (px_status(px)->behind != 0)
		buffer_printf(&line, ", behind %u", px_status(px)->behind);
	if (mono_is_never(px_status(px)->deadline))
		buffer_printf(&line, ", no timeout");
	else if (mono_reached(w->now, px_status(px)->deadline))
		buffer_printf(&line, ", timeout due");
	else
		buffer_printf(&line, ", timeout in %" PRId64 " ms",
		              span_to_ms(mono_since(px_status(px)->deadline, w->now)));
	script_say_buffer(s, &line);
}

COMMAND(log)
{
	const struct px *px = started(s, w)->px;

	for (uint64_t slot = px_status(px)->first; slot <= px_last(px); slot++)
		script_say(s, "slot %" PRIu64 ": %.*s", slot, (int)px_payload(px, slot).len,
		           (const char *)px_payload(px, slot).data);
}

COMMAND(members)
{
	const struct px_members *m = px_members(started(s, w)->px);
	struct buffer line = BUFFER(4096);

	buffer_printf(&line, "version %" PRIu64 ":", m->version);
	for (int i = 0; i < m->n; i++)
		buffer_printf(&line, " %u%c", m->list[i].id, m->list[i].voter ? 'v' : 'l');
	for (unsigned i = 1; i <= REPLICAS; i++)
		if (m->removed[0] >> i & 1)
			buffer_printf(&line, " %ur", i);
	script_say_buffer(s, &line);
}

COMMAND(progress)
{
	const struct px *px = started(s, w)->px;
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

COMMAND(marks)
{
	w->marks = !script_take(s, "off");
}

COMMAND(votes)
{
	w->votes = !script_take(s, "off");
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
    {"start", "ID [welcomed] [start=N] [newest=VERSION:1v/2v/3l...]", run_start},
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
    {"propose", "ID VALUE", run_propose},
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
    {"votes", "[off]", run_votes},
    {0},
};

int
main(int argc, char **argv)
{
	static const struct script_player player = {"paxos", commands, sizeof(struct world),
	                                            px_world_begin, px_world_end};

	return script_main(argc, argv, &player);
}
