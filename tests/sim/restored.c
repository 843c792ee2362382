/* A restore at the end of a run: the state of a replica, or an older copy of it, becomes a cell of
 * its own, as `lsctl restore` makes it: a cell in one process, which runs cell/server. A client of
 * the old cell goes on in it. Whatever the new cell counts is greater than anything that the old
 * one ever gave out, and nothing of an old session is worth anything. There are no faults and no
 * delays. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/must.h"
#include "tests/sim/restored.h"
#include "tests/sim/sim.h"

enum { FILES_TRIED = 3 };

static void
above(struct restored *r, const char *what, uint64_t number, uint64_t old)
{
	if (number <= old)
		sim_fail(r->s, "after a restore %s is %lu, and the old cell had %lu", what,
		         (unsigned long)number, (unsigned long)old);
}

/* ---- what has to hold ---- */

static uint64_t
newest_generation(const struct item *it)
{
	return it->versions[it->versions_n - 1].generation;
}

static void
check_session(struct restored *r)
{
	struct client_status status;
	int i = 0;

	do {
		restored_step(r);
		status = client_status(r->m->client);
		if (++i == STEPS_MAX)
			sim_fail(r->s, "after a restore client %d gets no session", r->m->id + 1);
	} while (status.state != CLIENT_SAFE || (status.session == r->m->session && !r->expired));
	if (!r->expired)
		sim_fail(r->s, "after a restore client %d has its old session", r->m->id + 1);
	above(r, "a session", status.session, r->s->model.next - 1);
	above(r, "the epoch", status.epoch, r->s->model.epoch);
}

static void
check_new_file(struct restored *r)
{
	struct op op = {.code = OP_create,
	                .create = {.parent = NODE_ROOT,
	                           .name = bytes_of("restored"),
	                           .kind = NODE_FILE,
	                           .exclusive = 1}};

	if (restored_ask(r, &op) != RC_OK)
		sim_fail(r->s, "after a restore a file can't be made");
	above(r, "an instance", r->result.created.attr.node, r->s->model.next - 1);
}

/* A lock that stands delayed in the copy is nobody's yet; its generation can be read. */
static void
check_lock(struct restored *r, const struct item *it)
{
	struct op op = {.code = OP_acquire,
	                .acquire = {.acquire = {.node = it->node,
	                                        .owner = 1,
	                                        .acquisition = r->tokens + 1,
	                                        .mode = LOCK_EXCLUSIVE,
	                                        .delay_s = -1}}};
	enum rc rc = restored_ask(r, &op);

	if (rc == RC_OK) {
		above(r, "a fencing token", r->result.acquired.fence, r->s->model.last_fence);
		above(r, "a lock generation", r->result.acquired.lock_generation,
		      it->lock_generation);
	} else if (rc != RC_BUSY_LOCK) {
		sim_fail(r->s, "after a restore a lock can't be taken: %s", rc_name(rc));
	}
	op = (struct op){.code = OP_get_lock, .get_lock = {.node = it->node}};
	if (restored_ask(r, &op) != RC_OK)
		sim_fail(r->s, "after a restore a lock can't be read");
	if (rc == RC_BUSY_LOCK && r->result.lock.state != LOCK_STATE_DELAYED)
		sim_fail(r->s, "after a restore the lock of %s is still held", it->name);
	above(r, "a lock generation", r->result.lock.lock_generation, it->lock_generation);
}

static void
check_file(struct restored *r, const struct item *it)
{
	struct op op = {.code = OP_set_contents,
	                .set_contents = {.node = it->node, .contents = bytes_of("restored")}};
	enum rc rc = restored_ask(r, &op);

	if (rc == RC_STALE || rc == RC_DQUOT)
		return; /* it was made after the copy, or had gone before; its directory is full */
	if (rc != RC_OK)
		sim_fail(r->s, "after a restore a file can't be written: %s", rc_name(rc));
	above(r, "a content generation", r->result.attr.attr.content_generation,
	      newest_generation(it));
	check_lock(r, it);
}

/* Who waited in the old cell has no place in the queues of the new one. */
static void
check_ticket(struct restored *r)
{
	for (size_t i = r->s->history.acquires_n; i-- > 0;) {
		const struct record *old = r->s->history.acquires[i];
		struct op op = old->op;

		if (old->ticket.epoch == 0)
			continue;
		op.acquire.acquire.ticket = old->ticket;
		if (restored_ask(r, &op) != RC_PERM)
			sim_fail(r->s, "after a restore a place in a queue is taken for one");
		return;
	}
}

/* ---- the copy ---- */

/* The state of a replica as it is, or as it was earlier. */
static const struct disk *
choose(struct sim *s)
{
	const struct host *n = &s->hosts[rng_below(&s->rng, (uint64_t)s->hosts_n)];
	const struct disk *d = rng_chance(&s->rng, 700) ? &n->copy : &n->disk;

	return d->applied > 0 && !d->state_lost ? d : NULL;
}

static void
add_row(void *user, const struct row *row)
{
	row_list_add(user, row);
}

/* Only the state goes into the new cell: its log is empty, and what it has promised is gone. */
static void
make_cell(struct restored *r, const struct disk *from)
{
	struct row_list rows = {0};
	struct tree_session session;
	struct px_recovered recovered;
	struct tree *t;

	disk_init(&r->disk);
	disk_each_row(from, add_row, &rows);
	disk_replace_state(&r->disk, &rows, from->applied);
	row_list_free(&rows);
	t = disk_recover(r->s, &r->disk, &recovered);
	free((void *)recovered.entries);
	if (tree_restore(t, r->s->now) != RC_OK)
		sim_fail(r->s, "a restore is refused");
	if (tree_session_after(t, 0, &session))
		sim_fail(r->s, "session %lu outlives a restore", (unsigned long)session.id);
	tree_dirty_rows(t, &rows);
	disk_save(&r->disk, &rows, tree_applied(t));
	row_list_free(&rows);
	tree_free(t);
}

static uint8_t
known_to(const struct machine *m)
{
	const struct client_members *told = client_members(m->client);
	const struct seat *seat = m->cell_file.list;

	while (seat->role == MEMBER_REMOVED)
		seat++;
	return told->n > 0 ? told->list[0].id : seat->id;
}

/* What its driver was still to invalidate. */
static void
invalidate(struct restored *r)
{
	const struct kernel *k = &r->m->kernel;

	if (k->due_n > 0)
		restored_client_hears(r, (struct client_event){.kind = CLIENT_INVALIDATED,
		                                               .invalidation =
		                                                   k->due[k->due_n - 1].number});
}

/* The machine's client is of no use to the old cell any more. */
void
restored_check(struct sim *s)
{
	struct restored r = {.s = s, .m = &s->machines[0]};
	const struct disk *from = s->swarm.restore ? choose(s) : NULL;

	if (from == NULL)
		return;
	fault(s, FAULT_RESTORED, "a copy of log %lu becomes a new cell",
	      (unsigned long)from->applied);
	r.main.of = r.standby.of = &r;
	r.standby.standby = true;
	r.now = clock_local(&r.m->clock, s->now);
	r.at = known_to(r.m);
	r.tokens = UINT64_C(1) << 62; /* not the history's */
	make_cell(&r, from);
	restored_begins(&r);
	restored_client_hears(&r, (struct client_event){.kind = CLIENT_DISCONNECTED});
	invalidate(&r);
	check_session(&r);
	check_new_file(&r);
	for (int i = 0; i < FILES_TRIED; i++) {
		const struct item *it = s->model.items[rng_below(&s->rng, s->model.items_n)];

		if (it->kind == NODE_FILE && it->parent != NODE_ACL &&
		    strcmp(it->name, "guarded") != 0 && strcmp(it->name, "taken") != 0)
			check_file(&r, it);
	}
	check_ticket(&r);
	restored_free(&r);
}
