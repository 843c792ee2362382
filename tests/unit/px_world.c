/* The world: events, disks, network, and what must always hold. */
#include "tests/unit/px_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/checksum.h"
#include "cell/base/memory.h"
#include "cell/paxos/ballot.h"
#include "cell/wire/codec.h"

#define COPY_TIME (300 * 1000000) /* ns, at most */

void
world_check(const struct world *w, bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "seed %llu at %lld ms: broken: %s\nrerun: tests/unit/test_px_sim %llu\n",
	        (unsigned long long)w->seed, (long long)(w->now / 1000000), what,
	        (unsigned long long)w->seed);
	exit(1);
}

void
world_tell(const struct world *w, uint8_t id, const char *what)
{
	if (w->tell)
		printf("%6lld ms  %u %s\n", (long long)(w->now / 1000000), id, what);
}

struct node *
world_node(struct world *w, uint8_t id)
{
	return &w->nodes[id - 1];
}

/* ---- events ---- */

static bool
sooner(const struct world_event *a, const struct world_event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void
push(struct world *w, struct world_event e)
{
	size_t i = w->events_n;

	e.order = ++w->order;
	ARRAY_ROOM(w->events, w->events_n, w->events_room);
	w->events_n++;
	for (; i > 0 && sooner(&e, &w->events[(i - 1) / 2]); i = (i - 1) / 2)
		w->events[i] = w->events[(i - 1) / 2];
	w->events[i] = e;
}

static struct world_event
pop(struct world *w)
{
	struct world_event top = w->events[0], last = w->events[--w->events_n];
	size_t i = 0;

	for (size_t child = 1; child < w->events_n; child = 2 * i + 1) {
		if (child + 1 < w->events_n && sooner(&w->events[child + 1], &w->events[child]))
			child++;
		if (sooner(&last, &w->events[child]))
			break;
		w->events[i] = w->events[child];
		i = child;
	}
	w->events[i] = last;
	return top;
}

/* ---- clocks ---- */

mono_t
world_clock(const struct world *w, const struct node *node)
{
	return (mono_t){node->offset + w->now + w->now / 1000000 * node->rate_ppm};
}

static int64_t
true_time(const struct world *w, const struct node *node, mono_t local)
{
	int64_t left = mono_since(local, world_clock(w, node)).ns;

	if (left <= 0)
		return w->now;
	return w->now + (int64_t)((double)left / (1 + (double)node->rate_ppm / 1e6)) + 1000000;
}

/* ---- disks ---- */

/* Writes the first transaction of the queue, or only forgets it. */
static void
shift_queue(struct node *node, bool write)
{
	struct transaction *t = &node->queue[0];

	for (size_t i = 0; i < t->records_n; i++) {
		if (write)
			world_disk_write(&node->disk, &t->records[i]);
		free((void *)t->records[i].payload.data);
	}
	free(t->records);
	node->queue_n--;
	memmove(node->queue, node->queue + 1, node->queue_n * sizeof node->queue[0]);
}

/* What waited while the last sync ran shares the next one. */
static void
start_sync(struct world *w, uint8_t id)
{
	struct node *node = world_node(w, id);
	int64_t start = w->now < node->disk_stuck_until ? node->disk_stuck_until : w->now;

	if (node->syncing > 0 || node->queue_n == 0)
		return;
	node->syncing = node->queue_n;
	push(w, (struct world_event){
		.at = start + (int64_t)rng_below(&w->rng, (uint64_t)w->disk_delay),
		.kind = EVENT_DISK, .node = id, .incarnation = node->incarnation});
}

/* Writes what the sync was for; the last one's ticket. */
static uint64_t
finish_sync(struct world *w, uint8_t id)
{
	struct node *node = world_node(w, id);
	uint64_t ticket = 0;

	for (; node->syncing > 0; node->syncing--) {
		ticket = node->queue[0].ticket;
		shift_queue(node, true);
	}
	start_sync(w, id);
	return ticket;
}

static void
enqueue(struct world *w, uint8_t id, const struct px_update *u)
{
	struct node *node = world_node(w, id);
	struct transaction *t;

	if (u->records_n == 0)
		return;
	ARRAY_ROOM(node->queue, node->queue_n, node->queue_room);
	t = &node->queue[node->queue_n++];
	*t = (struct transaction){.ticket = u->write, .records_n = u->records_n};
	t->records = memory_zero(u->records_n, sizeof *t->records);
	for (size_t i = 0; i < u->records_n; i++) {
		t->records[i] = u->records[i];
		t->records[i].payload = bytes_copy(u->records[i].payload);
	}
	start_sync(w, id);
}

/* ---- what must hold ---- */

/* What an answer claims is on the disk of its sender: looked up there. (While an acceptance
 * waited for its sync, a higher ballot may have been accepted in the same one.) */
static void
check_claim(struct world *w, struct node *node, uint8_t to, struct bytes frame)
{
	struct message m;
	struct ballot highest = node->disk.promised;

	world_check(w, wire_get_frame(frame, &m) == RC_OK, "a frame decodes");
	world_check(w, !node->lost || m.code == MSG_hello || m.code == MSG_welcome,
	            "a replica whose disk was emptied or is an old copy has no vote");
	for (size_t i = node->disk.trimmed; m.code == MSG_promise && i < node->disk.entries_n; i++)
		highest = ballot_max(highest, node->disk.entries[i].ballot);
	if (m.code == MSG_accept)
		world_check(w, !ballot_less(highest, m.accept.ballot),
		            "a master's own promise is durable");
	if (m.code == MSG_promise) {
		world_check(w, !ballot_less(highest, m.promise.ballot), "a promise is durable");
		world_check(w, node->disk.rotten == 0,
		            "a damaged log promises nothing before it is repaired");
		node->promised = ballot_max(node->promised, m.promise.ballot);
	}
	if (m.code == MSG_welcome && m.welcome.remembered.incarnation > 0)
		node->welcomed[to] = true;
	if (m.code == MSG_accepted)
		world_check(w, !ballot_less(m.accepted.ballot, node->promised),
		            "a promise is kept");
	if (m.code == MSG_heartbeat_reply)
		world_check(w, node->disk.lease.ns > 0, "the lease's length is durable");
	if (m.code != MSG_accepted)
		return;
	for (uint64_t slot = m.accepted.upto; slot > node->disk.trimmed; slot--) {
		const struct log_entry *e = world_disk_entry(&node->disk, slot);

		if (slot == node->disk.rotten)
			e = NULL;
		if (m.accepted.upto - slot == 64)
			break; /* older ones were looked at before */
		world_check(w, e && (slot <= px_chosen(node->px) ||
		                     !ballot_less(e->ballot, m.accepted.ballot)),
		            "an acceptance is durable");
	}
}

/* A client's command takes effect behind its predecessor; the same one may do so twice. */
static void
check_order(struct world *w, struct bytes payload)
{
	struct cursor c = cursor_of(payload);
	uint8_t client = cursor_u8(&c);
	uint64_t number = cursor_u64(&c);
	struct op_set_members change;

	if (payload.len == 0 || client == 0 || wire_entry_members(payload, &change))
		return;
	world_check(w, number <= w->clients[client - 1].applied + 1,
	            "a command is chosen behind its predecessor");
	if (number == w->clients[client - 1].applied + 1)
		w->clients[client - 1].applied = number;
}

/* The first one to know a slot as chosen: is it on the disks of a majority of the voters of its
 * time? (It was on those that were damaged or emptied meanwhile.) */
static void
check_durable(struct world *w, uint64_t slot, uint64_t sum)
{
	const struct px_members *members = world_members(w, slot - 1);
	int copies = 0;

	for (int i = 0; i < members->n; i++) {
		const struct disk *d = &world_node(w, members->list[i].id)->disk;
		const struct log_entry *e = world_disk_entry(d, slot);

		if (members->list[i].voter)
			copies += e ? e->checksum == sum
			            : d->trimmed >= slot ||
			                  world_node(w, members->list[i].id)->lost;
	}
	world_check(w, world_is_majority(members, copies),
	            "what is chosen is durable on a majority");
}

static void
check_chosen(struct world *w, struct node *node)
{
	world_check(w, px_chosen(node->px) >= node->checked, "chosen never falls");
	while (node->checked < px_chosen(node->px)) {
		uint64_t slot = ++node->checked;

		if (slot < px_first(node->px))
			continue;
		struct bytes payload = px_payload(node->px, slot);
		uint64_t sum = checksum(payload);

		if (slot <= w->sums_n) {
			world_check(w, w->sums[slot - 1] == sum, "one value per slot");
			continue;
		}
		world_check(w, slot == w->sums_n + 1, "chosen slots leave no gap");
		check_durable(w, slot, sum);
		check_order(w, payload);
		world_note_change(w, slot, payload);
		ARRAY_ROOM(w->sums, w->sums_n, w->sums_room);
		w->sums[w->sums_n++] = sum;
	}
}

uint8_t
world_serving(struct world *w)
{
	uint8_t serving = 0;
	int valid = 0;

	for (int i = 0; i < w->n; i++) {
		struct node *node = &w->nodes[i];

		if (!node->px || !px_lease_valid(node->px, world_clock(w, node)))
			continue;
		valid++;
		if (px_role(node->px) == PX_MASTER && node->epoch_slot > 0 &&
		    px_chosen(node->px) >= node->epoch_slot) {
			serving = (uint8_t)(i + 1);
			world_check(w, px_chosen(node->px) == w->sums_n,
			            "who may serve reads knows all that is chosen");
		}
	}
	world_check(w, valid <= 1, "at most one lease is valid");
	return serving;
}

/* ---- network ---- */

static void
transmit(struct world *w, uint8_t from, uint8_t to, struct bytes frame)
{
	int copies = rng_chance(&w->rng, w->lose) ? 0 : rng_chance(&w->rng, w->twice) ? 2 : 1;

	check_claim(w, world_node(w, from), to, frame);
	if (w->cut[from][to])
		return;
	for (int i = 0; i < copies; i++) {
		int64_t delay = rng_chance(&w->rng, w->late) ? w->late_delay : w->delay;
		int64_t at = w->now + (int64_t)rng_below(&w->rng, (uint64_t)delay);

		if (w->in_order && at < w->arrived[from][to])
			at = w->arrived[from][to];
		if (at > w->arrived[from][to])
			w->arrived[from][to] = at;
		push(w, (struct world_event){
			.at = at,
			.kind = EVENT_DELIVER, .node = to, .from = from,
			.frame = bytes_copy(frame)});
	}
}

/* Sends those whose ticket is durable. */
static void
release(struct world *w, uint8_t id, uint64_t ticket)
{
	struct node *node = world_node(w, id);
	size_t kept = 0;

	for (size_t i = 0; i < node->held_n; i++) {
		if (node->held[i].after > ticket) {
			node->held[kept++] = node->held[i];
			continue;
		}
		transmit(w, id, node->held[i].to, node->held[i].frame);
		free((void *)node->held[i].frame.data);
	}
	node->held_n = kept;
}

/* ---- nodes ---- */

/* A master's first proposal: its epoch. */
static void
begin_epoch(struct world *w, uint8_t id)
{
	struct node *node = world_node(w, id);
	static const uint8_t epoch[1] = {0};

	if (px_role(node->px) != PX_MASTER)
		node->epoch_slot = 0;
	if (!px_room(node->px) || ballot_equal(node->term, px_master(node->px)))
		return;
	node->term = px_master(node->px);
	node->epoch_slot = px_last(node->px) + 1;
	w->masterships++;
	world_step(w, id, (struct px_event){.kind = PX_PROPOSE, .payload = {epoch, 1}});
}

void
world_step(struct world *w, uint8_t id, struct px_event e)
{
	struct node *node = world_node(w, id);
	struct px_update *u = &node->update;

	static const char *const roles[] = {"follows", "stands", "is master"};
	enum px_role role = px_role(node->px);

	e.now = world_clock(w, node);
	px_step(node->px, &e, u);
	if (px_role(node->px) != role)
		world_tell(w, id, roles[px_role(node->px)]);
	if (px_role(node->px) == PX_MASTER && role != PX_MASTER)
		world_check_elected(w, id);
	enqueue(w, id, u);
	for (size_t i = 0; i < u->sends_n; i++) {
		if (u->sends[i].after == 0) {
			transmit(w, id, u->sends[i].to, u->sends[i].frame);
			continue;
		}
		ARRAY_ROOM(node->held, node->held_n, node->held_room);
		node->held[node->held_n++] = (struct held){
			u->sends[i].to, u->sends[i].after, bytes_copy(u->sends[i].frame)};
	}
	check_chosen(w, node);
	world_check_members(w, id);
	world_check(w, px_condition(node->px) != CONDITION_LOST || node->lost,
	            "whose disk has all that it told keeps its vote");
	world_check(w, px_role(node->px) == PX_FOLLOWER ||
	                   node->disk.applied + 1 >= px_first(node->px),
	            "who lacks a part of the state does not stand for election");
	begin_epoch(w, id);
	if (px_behind(node->px) != 0 && !node->copying) {
		node->copying = true;
		push(w, (struct world_event){.at = w->now + 1 +
		                                   (int64_t)rng_below(&w->rng, COPY_TIME),
		                             .kind = EVENT_COPY, .node = id,
		                             .incarnation = node->incarnation});
	}
	if (!mono_is_never(px_deadline(node->px))) {
		node->timer_at = true_time(w, node, px_deadline(node->px));
		push(w, (struct world_event){.at = node->timer_at, .kind = EVENT_TIMER,
		                             .node = id, .incarnation = node->incarnation});
	}
}

void
world_boot(struct world *w, uint8_t id)
{
	struct node *node = world_node(w, id);
	struct disk *d = world_disk_open(&node->disk);
	struct px_recovered recovered = {
		.incarnation = ++d->incarnation,
		.promised = d->promised,
		.chosen = d->chosen > d->trimmed ? d->chosen : d->trimmed,
		.trimmed = d->trimmed,
		.wait = d->lease,
		.entries = d->entries + d->trimmed,
		.entries_n = (d->rotten ? d->rotten - 1 : d->entries_n) - d->trimmed,
		.damaged = d->rotten ? d->entries_n : 0,
		.state_lost = d->state_lost,
		.applied = d->applied,
		.applied_origin = d->applied_origin,
		.marks = d->marks,
		.marks_n = WORLD_NODES + 1,
	};
	struct px_config config = {
		.self = id,
		.members = world_members_at_start(w, id),
		.lease = span_ms(500),
		.heartbeat = span_ms(100),
		.drift_permille = w->drift_permille,
		.log_entries = w->log_entries,
		.start = rng_next(&w->rng),
		.seed = rng_next(&w->rng),
	};

	node->incarnation++;
	node->px = px_new(&config, &recovered, world_clock(w, node));
	node->checked = d->trimmed;
	node->term = BALLOT_NONE;
	node->epoch_slot = 0;
	node->restart_at = 0;
	world_tell(w, id, "starts");
	world_check(w, px_first(node->px) <= d->applied + 1 || d->state_lost,
	            "what is not applied is in the log");
	world_step(w, id, (struct px_event){.kind = PX_TIMEOUT});
}

static void
forget(struct node *node)
{
	px_free(node->px);
	node->px = NULL;
	px_update_free(&node->update);
	while (node->queue_n > 0)
		shift_queue(node, false);
	for (size_t i = 0; i < node->held_n; i++)
		free((void *)node->held[i].frame.data);
	node->held_n = 0;
	node->paused_until = 0;
	node->syncing = 0;
	node->copying = false;
}

void
world_crash(struct world *w, uint8_t id)
{
	struct node *node = world_node(w, id);

	if (!node->px)
		return;
	for (uint64_t n = rng_below(&w->rng, node->queue_n + 1); n > 0; n--)
		shift_queue(node, true);
	forget(node);
	w->crashes++;
	world_tell(w, id, "crashes");
}

void
world_pause(struct world *w, uint8_t id, int64_t length)
{
	world_node(w, id)->paused_until = w->now + length;
	world_tell(w, id, "pauses");
}

void
world_save(struct world *w, uint8_t id)
{
	struct node *node = world_node(w, id);

	if (!node->px || w->now < node->paused_until)
		return;
	if (node->disk.applied + 1 < px_first(node->px))
		return; /* its log begins behind its state */
	if (node->disk.applied < px_chosen(node->px)) {
		node->disk.applied = px_chosen(node->px);
		node->disk.applied_origin = px_origin(node->px, node->disk.applied);
	}
	world_step(w, id, (struct px_event){.kind = PX_APPLIED, .slot = node->disk.applied});
}

bool
world_is_open(struct world *w, uint8_t id)
{
	if (id == 0)
		return false;
	const struct node *node = world_node(w, id);

	return node->px && w->now >= node->paused_until && px_open(node->px) &&
	       px_room(node->px);
}

void
world_propose(struct world *w, unsigned client)
{
	const struct px_members *members = world_members(w, w->sums_n);
	struct client *c = &w->clients[client];
	struct buffer b = BUFFER(LIMIT_ENTRY);
	static const uint8_t filler[LIMIT_ENTRY];

	if (!world_is_open(w, c->node) || rng_chance(&w->rng, 20) ||
	    !ballot_equal(c->term, px_master(world_node(w, c->node)->px))) {
		c->node = members->list[rng_below(&w->rng, (uint64_t)members->n)].id;
		if (!world_is_open(w, c->node))
			return;
		c->term = px_master(world_node(w, c->node)->px);
		c->next = c->applied + 1;
	}
	if (c->next > c->applied + 30)
		return;
	buffer_put_u8(&b, (uint8_t)(client + 1));
	buffer_put_u64(&b, c->next++);
	buffer_put(&b, filler, (size_t)rng_below(&w->rng, rng_chance(&w->rng, w->large)
	                                                  ? sizeof filler - 9 : 64));
	w->proposals++;
	world_step(w, c->node, (struct px_event){.kind = PX_PROPOSE, .payload = buffer_view(&b)});
	buffer_free(&b);
}

/* ---- the run ---- */

static void
deliver(struct world *w, const struct world_event *e)
{
	struct message m;

	if (wire_get_frame(e->frame, &m) != RC_OK)
		world_check(w, false, "a frame decodes");
	world_step(w, e->node, (struct px_event){.kind = PX_RECEIVE, .from = e->from,
	                                         .message = &m});
}

static void
persisted(struct world *w, const struct world_event *e)
{
	world_step(w, e->node, (struct px_event){.kind = PX_PERSISTED, .write = e->ticket});
	release(w, e->node, e->ticket);
}

/* Who is behind replaces its state by a copy of another's, and starts anew with it. */
static void
copy_state(struct world *w, uint8_t id)
{
	struct node *node = world_node(w, id);
	uint8_t from = px_behind(node->px);
	const struct node *source;

	node->copying = false;
	if (from == 0)
		return;
	world_check(w, from != id && from <= w->n, "the state comes from another replica");
	source = world_node(w, from);
	if (!source->px || w->cut[from][id] || source->disk.applied <= node->disk.applied)
		return;
	world_crash(w, id);
	node->disk.applied = source->disk.applied;
	node->disk.applied_origin = source->disk.applied_origin;
	node->disk.state_lost = node->disk.applied < node->disk.trimmed;
	w->copies++;
	world_tell(w, id, "has a copy of the state");
	world_boot(w, id);
}

static void
handle(struct world *w, struct world_event e)
{
	struct node *node = world_node(w, e.node);

	if (!node->px || (e.incarnation != node->incarnation && e.kind != EVENT_DELIVER))
		return;
	if (e.kind == EVENT_DISK) { /* the disk works on while its process is stopped */
		e.kind = EVENT_PERSISTED;
		e.ticket = finish_sync(w, e.node);
	}
	if (e.kind == EVENT_TIMER && e.at != node->timer_at)
		return;
	if (w->now < node->paused_until) {
		e.at = node->paused_until;
		if (e.kind == EVENT_TIMER)
			node->timer_at = e.at;
		if (e.frame.data)
			e.frame = bytes_copy(e.frame);
		push(w, e);
		return;
	}
	if (e.kind == EVENT_DELIVER)
		deliver(w, &e);
	else if (e.kind == EVENT_COPY)
		copy_state(w, e.node);
	else if (e.kind == EVENT_PERSISTED)
		persisted(w, &e);
	else
		world_step(w, e.node, (struct px_event){.kind = PX_TIMEOUT});
}

void
world_run(struct world *w, int64_t until)
{
	while (w->events_n > 0 && w->events[0].at <= until) {
		struct world_event e = pop(w);

		w->now = e.at;
		handle(w, e);
		free((void *)e.frame.data);
		world_serving(w);
	}
	w->now = until;
}

void
world_start(struct world *w, uint64_t seed, int n)
{
	w->n = n;
	w->seed = seed;
	world_first_members(w, n);
	for (int i = 0; i < WORLD_NODES; i++) {
		int64_t bound = w->drift_permille * 1000 / 2 * 99 / 100;

		w->nodes[i].rate_ppm = (int64_t)rng_below(&w->rng, (uint64_t)(2 * bound)) - bound;
		w->nodes[i].offset = (int64_t)rng_below(&w->rng, 1000000000000);
	}
	for (int i = 0; i < n; i++)
		world_boot(w, (uint8_t)(i + 1));
}

void
world_free(struct world *w)
{
	for (int i = 0; i < w->n; i++) {
		struct node *node = &w->nodes[i];

		forget(node);
		world_disk_free(&node->disk);
		world_disk_free(&node->backup);
		free(node->queue);
		free(node->held);
	}
	for (size_t i = 0; i < w->events_n; i++)
		free((void *)w->events[i].frame.data);
	free(w->events);
	free(w->sums);
	free(w->lists);
}
