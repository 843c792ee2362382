/* Copies of states, as files that a replica gives to another one: made of what is saved, read and
 * written in parts, checked as a whole, and put in the place of the state at the next start. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/checksum.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/sim/sim.h"

enum { COPY_MAX = 256 * 1024 * 1024 };

/* ---- the file ---- */

static void
put_row(void *user, const struct row *row)
{
	struct buffer *to = user;
	const struct row_table_info *info = row_table_info(row->table);

	buffer_put_u8(to, (uint8_t)row->table);
	for (int c = 0; c < info->columns; c++) {
		const struct row_value *v = &row->values[c];

		if (info->column[c].kind == 'i') {
			buffer_put_u64(to, (uint64_t)v->number);
		} else {
			buffer_put_u32(to, (uint32_t)v->bytes.len);
			buffer_put_bytes(to, v->bytes);
		}
	}
}

static struct bytes
copy_of(const struct disk *d)
{
	struct buffer to = BUFFER(COPY_MAX);

	buffer_put_u64(&to, d->applied);
	disk_each_row(d, put_row, &to);
	buffer_put_u64(&to, checksum(buffer_view(&to)));
	must(!to.failed);
	return buffer_take(&to);
}

static struct row
get_row(struct cursor *from)
{
	struct row row = {.table = (enum row_table)cursor_u8(from)};
	const struct row_table_info *info;

	must(row.table < ROW_TABLES);
	info = row_table_info(row.table);
	for (int c = 0; c < info->columns; c++) {
		if (info->column[c].kind == 'i')
			row.values[c].number = (int64_t)cursor_u64(from);
		else
			row.values[c].bytes = cursor_bytes(from, cursor_u32(from));
	}
	return row;
}

static bool
is_whole(struct bytes copy)
{
	struct cursor end;

	if (copy.len < 16)
		return false;
	end = cursor_of((struct bytes){copy.data + copy.len - 8, 8});
	return cursor_u64(&end) == checksum((struct bytes){copy.data, copy.len - 8});
}

static uint64_t
applied_of(struct bytes copy)
{
	struct cursor from = cursor_of(copy);

	return cursor_u64(&from);
}

void
copies_check_newer(const struct host *n)
{
	const uint64_t own = tree_applied(replica_tree(n->replica));
	const uint64_t first = px_status(replica_px(n->replica))->first;

	if (applied_of(n->copies.ready) <= own || applied_of(n->copies.ready) + 1 < first)
		sim_fail(n->sim,
		         "replica %d: a copy as of %lu replaces its state as of %lu, before a log "
		         "from %lu",
		         n->id, (unsigned long)applied_of(n->copies.ready), (unsigned long)own,
		         (unsigned long)first);
}

/* As the store does: the state may have advanced beyond a copy that waited for the next start. */
void
copies_swap_in(struct host *n)
{
	struct bytes *copy = &n->copies.ready;
	struct row_list rows = {0};
	struct cursor from;
	uint64_t applied;

	if (copy->data != NULL && applied_of(*copy) < n->disk.applied)
		copies_forget_ready(n);
	if (copy->data == NULL)
		return;
	from = cursor_of((struct bytes){copy->data, copy->len - 8});
	applied = cursor_u64(&from);
	while (cursor_left(&from) > 0) {
		const struct row row = get_row(&from);

		row_list_add(&rows, &row);
	}
	must(!from.failed);
	disk_replace_state(&n->disk, &rows, applied);
	row_list_free(&rows);
	copies_forget_ready(n);
}

void
copies_forget_ready(struct host *n)
{
	free((void *)n->copies.ready.data);
	n->copies.ready = (struct bytes){NULL, 0};
}

/* ---- what is asked of it ---- */

static void
run_made(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];
	const struct bytes *copy = &n->copies.made[e->a];

	if (!n->up || n->life != e->life || disk_puts_off(s, n, e))
		return;
	if (copy->data == NULL)
		server_copy_made(n->server, (enum rc)e->b, 0, 0, "there is no copy");
	else
		server_copy_made(n->server, RC_OK, e->b, copy->len, NULL);
	host_settle(s, n);
}

/* It has no room for a file, or cannot read or write it; `what` is told to the server. */
static bool
fails(struct sim *s, const struct host *n, const char *what)
{
	if (s->swarm.rates[FAULT_COPY] == 0 || !fault_strikes(s, FAULT_COPY))
		return false;
	fault(s, FAULT_COPY, "replica %d %s", n->id, what);
	return true;
}

static void
make_copy(void *user, int place)
{
	struct host *n = user;
	struct sim *s = n->sim;
	struct bytes *copy = &n->copies.made[place];
	uint64_t made = RC_NODATA;

	must(copy->data == NULL);
	if (fails(s, n, "cannot make a copy"))
		made = s->now % 2 == 0 ? RC_NOSPC : RC_IO;
	else if ((made = n->disk.applied) > 0)
		*copy = copy_of(&n->disk);
	else
		made = RC_NODATA;
	heap_push(&s->heap, (struct event){.at = s->now + sim_between(s, MS, 300 * MS),
	                                   .run = run_made,
	                                   .who = n->id - 1,
	                                   .life = n->life,
	                                   .a = (uint64_t)place,
	                                   .b = made});
}

static const char *
read_copy(void *user, int place, uint64_t offset, uint8_t *to, size_t len)
{
	const struct host *n = user;
	const struct bytes *copy = &n->copies.made[place];

	must(copy->data != NULL && offset + len <= copy->len);
	memcpy(to, copy->data + offset, len);
	if (!fails(n->sim, n, "cannot read a copy"))
		return NULL;
	memset(to, 0, len);
	return "an error of the disk";
}

static void
drop_copy(void *user, int place)
{
	struct host *n = user;

	free((void *)n->copies.made[place].data);
	n->copies.made[place] = (struct bytes){NULL, 0};
}

/* Nothing is gone from any log that a member lacks: no log has a limit that would be reached,
 * nobody came later, nothing was damaged; and no crash took entries that a state already had, whose
 * log then begins after them. */
static bool
keeps_logs(const struct sim *s)
{
	const uint64_t *struck = s->stats.faults;

	return s->script == NULL && s->swarm.log_entries == 0 && s->swarm.operators == 0 &&
	       struck[FAULT_ROT_LOG] + struck[FAULT_ROT_STATE] + struck[FAULT_WIPED] +
	               struck[FAULT_OLD_COPY] + struck[FAULT_WRITES_LOST] + struck[FAULT_FSYNC] ==
	           0;
}

static const char *
begin_fetch(void *user)
{
	struct host *n = user;
	struct sim *s = n->sim;

	if (keeps_logs(s) && n->id != s->liar.id) /* which misleads those that answer it, too */
		sim_fail(s, "replica %d needs a copy, and no log is over its limit", n->id);
	adversary_joining(s, n);
	must(!n->copies.fetching);
	if (fails(s, n, "has no room for a copy"))
		return "no room";
	n->copies.fetching = true;
	n->copies.fetched = BUFFER(COPY_MAX);
	return NULL;
}

static const char *
write_fetch(void *user, uint64_t offset, struct bytes data)
{
	struct host *n = user;
	struct sim *s = n->sim;
	struct buffer *fetched = &n->copies.fetched;

	if (!n->copies.fetching || offset != fetched->len)
		sim_fail(s, "replica %d writes part %lu of a copy behind %lu", n->id,
		         (unsigned long)offset, (unsigned long)fetched->len);
	if (fails(s, n, "has no more room for a copy"))
		return "no room";
	buffer_put_bytes(fetched, data);
	return NULL;
}

static void
drop_fetch(void *user)
{
	struct host *n = user;

	buffer_free(&n->copies.fetched);
	n->copies.fetching = false;
}

/* And a checked one: nothing is left that the next start would take for the newer state. */
static void
drop_checked(void *user)
{
	drop_fetch(user);
	copies_forget_ready(user);
}

static void
run_checked(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];

	if (!n->up || n->life != e->life || host_puts_off(s, n, e))
		return;
	if (!is_whole(buffer_view(&n->copies.fetched)))
		sim_fail(s, "replica %d has fetched a copy that is none", n->id);
	if (fails(s, n, "finds a fetched copy damaged")) {
		drop_fetch(n);
		server_fetch_checked(n->server, "it is damaged");
		host_settle(s, n);
		return;
	}
	copies_forget_ready(n);
	n->copies.ready = buffer_take(&n->copies.fetched);
	n->copies.fetching = false;
	sim_trace(s, "replica %d has a copy of the state of another one", n->id);
	server_fetch_checked(n->server, NULL);
	host_settle(s, n);
}

/* A large state takes long; meanwhile the log may bring this replica farther. */
static void
check_fetch(void *user)
{
	struct host *n = user;
	struct sim *s = n->sim;
	const int64_t longest = s->seed % 2 == 0 ? 50 * MS : 500 * MS;

	heap_push(&s->heap, (struct event){.at = s->now + sim_between(s, 0, longest),
	                                   .run = run_checked,
	                                   .who = n->id - 1,
	                                   .life = n->life});
	adversary_joining(s, n);
}

struct copy_io
copies_io(struct host *n)
{
	return (struct copy_io){make_copy,   read_copy,   drop_copy,    begin_fetch,
	                        write_fetch, check_fetch, drop_checked, n};
}

/* The process is gone, and with it what has no name. */
void
copies_free(struct host *n)
{
	for (int i = 0; i < STATE_SENDER_MAX; i++)
		drop_copy(n, i);
	drop_fetch(n);
}
