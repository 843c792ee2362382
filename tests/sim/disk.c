/* A replica's disk. What was handed over becomes durable in order, after a while; at a crash a
 * random first part of what was still being written has made it. Rows are written after the log.
 */
#include <stdlib.h>
#include <string.h>
#include "cell/base/checksum.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/paxos/ballot.h"
#include "tests/sim/sim.h"

static int
slot_compare(const struct slot *a, const struct slot *b)
{
	return a->number < b->number ? -1 : a->number > b->number;
}

RB_GENERATE(slot_tree, slot, node, slot_compare)

static int
row_compare(const struct saved_row *a, const struct saved_row *b)
{
	if (a->row.table != b->row.table)
		return a->row.table < b->row.table ? -1 : 1;
	for (int i = 0; i < row_table_info(a->row.table)->keys; i++) {
		uint64_t x = (uint64_t)a->row.values[i].number,
		         y = (uint64_t)b->row.values[i].number;

		if (x != y)
			return x < y ? -1 : 1;
	}
	return 0;
}

RB_GENERATE(saved_rows, saved_row, node, row_compare)

void
disk_init(struct disk *d)
{
	RB_INIT(&d->slots);
	RB_INIT(&d->rows);
	TAILQ_INIT(&d->log);
	TAILQ_INIT(&d->state);
}

/* ---- the log ---- */

static void
slot_drop(struct disk *d, struct slot *slot)
{
	RB_REMOVE(slot_tree, &d->slots, slot);
	free((void *)slot->payload.data);
	free(slot);
}

static void
slot_put(struct disk *d, const struct px_record *r)
{
	struct slot like = {.number = r->slot}, *slot = RB_FIND(slot_tree, &d->slots, &like);

	if (slot != NULL)
		slot_drop(d, slot);
	slot = memory_zero(1, sizeof *slot);
	slot->number = r->slot;
	slot->ballot = r->ballot;
	slot->origin = r->origin;
	slot->before = r->before;
	slot->checksum = r->checksum;
	slot->payload = bytes_copy(r->payload);
	RB_INSERT(slot_tree, &d->slots, slot);
	if (d->highest < r->slot)
		d->highest = r->slot;
}

static void
log_trim(struct disk *d, uint64_t upto)
{
	struct slot *slot;

	d->trimmed = upto > d->trimmed ? upto : d->trimmed;
	while ((slot = RB_MIN(slot_tree, &d->slots)) != NULL && slot->number <= upto)
		slot_drop(d, slot);
}

static void
log_record(struct disk *d, const struct px_record *r)
{
	switch (r->kind) {
	case PX_RECORD_PROMISE:
		d->promised = r->ballot;
		return;
	case PX_RECORD_ENTRY:
		slot_put(d, r);
		return;
	case PX_RECORD_CHOSEN:
		d->chosen = r->slot > d->chosen ? r->slot : d->chosen;
		return;
	case PX_RECORD_TRIM:
		must(r->slot <= d->applied || d->state_lost); /* trim only what state.db has */
		log_trim(d, r->slot);
		return;
	case PX_RECORD_LEASE:
		if (r->length.ns > d->lease.ns)
			d->lease = r->length;
		d->free_of_leases = r->length.ns == 0 ? d->incarnation : 0;
		return;
	case PX_RECORD_MARK:
		d->marks[r->mark.replica] = r->mark;
		return;
	}
}

/* When a write that is handed over now is durable. All that waits while one transaction is written
 * shares the next. */
static int64_t
disk_done(struct sim *s, const struct disk *d, struct transactions *w, int64_t factor)
{
	if (w->begins > s->now)
		return w->busy;
	w->begins = sim_between(s, s->now, d->slow_until);
	if (w->begins < w->busy)
		w->begins = w->busy;
	w->busy = w->begins + factor * 1000 * sim_between(s, 50, 50 + s->swarm.disk_us);
	return w->busy;
}

static struct writing *
writing_new(struct writing_list *list, uint64_t ticket)
{
	struct writing *w = memory_zero(1, sizeof *w);

	w->ticket = ticket;
	TAILQ_INSERT_TAIL(list, w, entry);
	return w;
}

static void
writing_free(struct disk *d, struct writing_list *list, struct writing *w)
{
	must(w->size <= d->unsaved);
	d->unsaved -= w->size;
	TAILQ_REMOVE(list, w, entry);
	for (size_t i = 0; i < w->records_n; i++)
		free((void *)w->records[i].payload.data);
	free(w->records);
	row_list_free(&w->rows);
	free(w);
}

int64_t
disk_write_log(struct sim *s, struct disk *d, uint64_t ticket, const struct px_record *records,
               size_t n)
{
	struct writing *w = writing_new(&d->log, ticket);

	w->records = memory_zero(n, sizeof *records);
	w->records_n = n;
	for (size_t i = 0; i < n; i++) {
		w->records[i] = records[i];
		w->records[i].payload = bytes_copy(records[i].payload);
	}
	return disk_done(s, d, &d->log_under_way, 1);
}

static void
log_write(struct disk *d, struct writing *w)
{
	for (size_t i = 0; i < w->records_n; i++)
		log_record(d, &w->records[i]);
	writing_free(d, &d->log, w);
}

bool
disk_log_done(struct disk *d, uint64_t ticket)
{
	struct writing *w = TAILQ_FIRST(&d->log);
	bool any = w != NULL && w->ticket <= ticket;

	while ((w = TAILQ_FIRST(&d->log)) != NULL && w->ticket <= ticket)
		log_write(d, w);
	return any;
}

/* ---- the rows ---- */

static void
saved_row_drop(struct disk *d, struct saved_row *r)
{
	RB_REMOVE(saved_rows, &d->rows, r);
	for (int i = 0; i < ROW_COLUMNS_MAX; i++)
		free((void *)r->row.values[i].bytes.data);
	free(r);
}

static void
row_save(struct disk *d, const struct row *row)
{
	struct saved_row like = {.row = *row}, *r = RB_FIND(saved_rows, &d->rows, &like);

	if (r != NULL)
		saved_row_drop(d, r);
	if (row->deleted)
		return;
	r = memory_zero(1, sizeof *r);
	r->row = *row;
	for (int i = 0; i < ROW_COLUMNS_MAX; i++)
		r->row.values[i].bytes = bytes_copy(row->values[i].bytes);
	RB_INSERT(saved_rows, &d->rows, r);
}

static size_t
size_of(const struct row_list *rows)
{
	size_t size = rows->n * sizeof *rows->rows;

	for (size_t i = 0; i < rows->n; i++)
		for (int c = 0; c < ROW_COLUMNS_MAX; c++)
			size += rows->rows[i].values[c].bytes.len;
	return size;
}

int64_t
disk_write_state(struct sim *s, struct disk *d, uint64_t applied, struct row_list *rows)
{
	struct writing *w = writing_new(&d->state, applied);

	w->rows = *rows;
	w->size = size_of(rows);
	d->unsaved += w->size;
	*rows = (struct row_list){0};
	return disk_done(s, d, &d->state_under_way, s->swarm.keep_saved_back ? 20 : 1);
}

void
disk_save(struct disk *d, const struct row_list *rows, uint64_t applied)
{
	for (size_t i = 0; i < rows->n; i++)
		row_save(d, &rows->rows[i]);
	must(applied >= d->applied);
	d->applied = applied;
}

static void
state_write(struct disk *d, struct writing *w)
{
	disk_save(d, &w->rows, w->ticket);
	d->state_lost = d->state_lost && d->applied < d->trimmed;
	writing_free(d, &d->state, w);
}

bool
disk_state_done(struct disk *d, uint64_t applied)
{
	struct writing *w = TAILQ_FIRST(&d->state);
	bool any = w != NULL && w->ticket <= applied;

	while ((w = TAILQ_FIRST(&d->state)) != NULL && w->ticket <= applied)
		state_write(d, w);
	return any;
}

/* ---- a crash, and the start after it ---- */

bool
disk_crash(struct sim *s, struct disk *d, enum loss loss)
{
	unsigned permille = loss == LOSE_ALL ? 1000 : loss == LOSE_NOTHING ? 0 : 500;
	bool lost = false, any;
	struct writing *w;

	while ((w = TAILQ_FIRST(&d->log)) != NULL) {
		lost = lost || rng_chance(&s->rng, permille);
		if (lost)
			writing_free(d, &d->log, w);
		else
			log_write(d, w);
	}
	any = lost;
	lost = false;
	while ((w = TAILQ_FIRST(&d->state)) != NULL) {
		lost = lost || rng_chance(&s->rng, permille);
		if (lost)
			writing_free(d, &d->state, w);
		else
			state_write(d, w);
	}
	d->log_under_way = d->state_under_way = (struct transactions){0};
	return any || lost;
}

/* A clean end: everything is written. */
void
disk_finish(struct disk *d)
{
	while (!TAILQ_EMPTY(&d->state))
		state_write(d, TAILQ_FIRST(&d->state));
	while (!TAILQ_EMPTY(&d->log))
		log_write(d, TAILQ_FIRST(&d->log));
	d->log_under_way = d->state_under_way = (struct transactions){0};
}

/* ---- damage ---- */

uint64_t
disk_last_slot(const struct disk *d)
{
	const struct slot *last = RB_MAX(slot_tree, (struct slot_tree *)&d->slots);

	return last != NULL ? last->number : d->trimmed;
}

bool
disk_has(const struct disk *d, uint64_t slot, struct ballot origin)
{
	struct slot like = {.number = slot};
	const struct slot *has = RB_FIND(slot_tree, (struct slot_tree *)&d->slots, &like);

	/* An older copy may have another value, from before the one that was accepted and lost. */
	if (has != NULL && !d->replaced)
		return !ballot_less(has->origin, origin) && !ballot_less(origin, has->origin);
	return slot <= d->trimmed || slot <= d->applied || !disk_is_whole(d);
}

bool
disk_is_whole(const struct disk *d)
{
	return (disk_last_slot(d) >= d->highest || d->applied >= d->highest) && !d->state_lost &&
	       d->applied >= d->trimmed && !d->replaced;
}

/* What stands after a damaged entry may be of no use either, and is dropped with it. */
bool
disk_rot_log(struct sim *s, struct disk *d)
{
	uint64_t first = disk_last_slot(d);
	struct slot *slot;

	if (RB_EMPTY(&d->slots))
		return false;
	first -= rng_below(&s->rng, first - RB_MIN(slot_tree, &d->slots)->number + 1);
	while ((slot = RB_MAX(slot_tree, &d->slots)) != NULL && slot->number >= first)
		slot_drop(d, slot);
	return true;
}

bool
disk_rot_state(struct disk *d)
{
	if (d->applied == 0)
		return false;
	while (!RB_EMPTY(&d->rows))
		saved_row_drop(d, RB_ROOT(&d->rows));
	d->applied = 0;
	d->state_lost = true;
	return true;
}

void
disk_copy(struct disk *to, const struct disk *from)
{
	struct saved_row *row;
	struct slot *slot;

	const struct disk was = *to;

	must(TAILQ_EMPTY(&to->log) && TAILQ_EMPTY(&to->state));
	disk_free(to);
	*to = *from;
	disk_init(to);
	to->unsaved = 0;
	to->slow_until = was.slow_until;
	to->stuck_until = was.stuck_until;
	to->state_stuck_until = was.state_stuck_until;
	to->log_under_way = to->state_under_way = (struct transactions){0};
	RB_FOREACH(slot, slot_tree, (struct slot_tree *)&from->slots)
		slot_put(to, &(struct px_record){.slot = slot->number,
		                                 .ballot = slot->ballot,
		                                 .origin = slot->origin,
		                                 .before = slot->before,
		                                 .checksum = slot->checksum,
		                                 .payload = slot->payload});
	RB_FOREACH(row, saved_rows, (struct saved_rows *)&from->rows)
		row_save(to, &row->row);
}

/* A log that has more than the state is as good as the other way round. */
bool
disk_fail(struct sim *s, struct disk *d, struct disk *real)
{
	bool differ;

	while (!TAILQ_EMPTY(&d->log) && rng_chance(&s->rng, 500))
		log_write(d, TAILQ_FIRST(&d->log));
	while (!TAILQ_EMPTY(&d->state) && rng_chance(&s->rng, 500))
		state_write(d, TAILQ_FIRST(&d->state));
	disk_copy(real, d);
	differ = !TAILQ_EMPTY(&d->log) || !TAILQ_EMPTY(&d->state);
	disk_finish(d);
	return differ;
}

void
disk_each_row(const struct disk *d, void (*each)(void *user, const struct row *row), void *user)
{
	struct saved_row *r;

	RB_FOREACH(r, saved_rows, (struct saved_rows *)&d->rows)
		each(user, &r->row);
}

void
disk_replace_state(struct disk *d, const struct row_list *rows, uint64_t applied)
{
	while (!RB_EMPTY(&d->rows))
		saved_row_drop(d, RB_ROOT(&d->rows));
	for (size_t i = 0; i < rows->n; i++)
		row_save(d, &rows->rows[i]);
	d->applied = applied;
	d->state_lost = false;
}

void
disk_free(struct disk *d)
{
	while (!TAILQ_EMPTY(&d->log))
		writing_free(d, &d->log, TAILQ_FIRST(&d->log));
	while (!TAILQ_EMPTY(&d->state))
		writing_free(d, &d->state, TAILQ_FIRST(&d->state));
	while (!RB_EMPTY(&d->slots))
		slot_drop(d, RB_ROOT(&d->slots));
	while (!RB_EMPTY(&d->rows))
		saved_row_drop(d, RB_ROOT(&d->rows));
}
