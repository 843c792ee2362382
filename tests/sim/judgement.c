/* What clients were told, as calls, and what the log decided, as the writes of these calls: the
 * judgement that torture uses (tests/calls) finds whether the one explains the other. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/sim/sim.h"

/* Decisions of one entry of the log are told apart, and stand before what a read at this index
 * shows; nothing is at 0. */
enum { ENTRY = 256, LAST = ENTRY - 1 };

static uint64_t
place_of(uint64_t index, uint64_t within)
{
	return ENTRY * index + (within < LAST ? within : LAST) + 1;
}

static const char *
node_path(struct calls *c, uint64_t node)
{
	return calls_text(c, "node %lu", (unsigned long)node);
}

static const char *
name_path(struct calls *c, uint64_t parent, struct bytes name)
{
	return calls_text(c, "%.*s in %lu", (int)name.len, (const char *)name.data,
	                  (unsigned long)parent);
}

static struct bytes
number_text(struct calls *c, uint64_t node)
{
	return bytes_of(node == 0 ? "" : calls_text(c, "%lu", (unsigned long)node));
}

static const char *
lock_path(struct sim *s, uint64_t node)
{
	return calls_text(&s->history.calls, "lock of %s (node %lu)", trace_path(s, node),
	                  (unsigned long)node);
}

/* ---- what is told while the run lasts ---- */

static int
owner_of(struct history *h, uint64_t session, uint64_t owner)
{
	size_t i = 0;

	while (i < h->owners_n && (h->owners[i].session != session || h->owners[i].owner != owner))
		i++;
	if (i == h->owners_n) {
		ARRAY_ROOM(h->owners, h->owners_n, h->owners_room);
		h->owners[h->owners_n++] = (struct owner){session, owner};
	}
	return (int)i;
}

void
judgement_locked(struct sim *s, const struct record *r, uint64_t generation, uint64_t fence)
{
	const struct acquire *a = &r->op.acquire.acquire;
	struct calls *c = &s->history.calls;

	calls_add(c, (struct call){
	                 .process = owner_of(&s->history, r->session, a->owner),
	                 .source = r->token,
	                 .kind = a->mode == LOCK_EXCLUSIVE ? CALL_LOCK : CALL_SHARE,
	                 .path = lock_path(s, a->node),
	                 .value = number_text(c, fence),
	                 .generation = generation,
	                 .again = true,
	                 .begin = r->begun,
	                 .end = history_moment(s),
	             });
}

void
judgement_held(struct sim *s, const struct record *r)
{
	const struct acquire *a = &r->op.acquire.acquire;
	struct calls *c = &s->history.calls;
	const int64_t now = history_moment(s);

	calls_add(c, (struct call){
	                 .process = owner_of(&s->history, r->session, a->owner),
	                 .source = r->token,
	                 .kind = CALL_HOLD,
	                 .path = lock_path(s, a->node),
	                 .begin = now,
	                 .end = now,
	             });
}

size_t
judgement_line(struct sim *s, int machine, uint64_t line)
{
	struct calls *c = &s->history.calls;

	calls_add(c, (struct call){
	                 .process = machine,
	                 .kind = CALL_APPEND,
	                 .outcome = CALL_OPEN,
	                 .path = "lines",
	                 .value = bytes_of(calls_text(c, "v%lu", (unsigned long)line)),
	                 .begin = history_moment(s),
	                 .end = INT64_MAX,
	             });
	return c->n;
}

void
judgement_line_taken(struct sim *s, size_t call)
{
	struct call *line = &s->history.calls.list[call - 1];

	must(line->kind == CALL_APPEND);
	line->outcome = CALL_OK;
	line->end = history_moment(s);
}

/* ---- what the log decided ---- */

/* Of nobody's request: some time before it could be seen, and nobody is told. */
static struct call
decision(const char *path, struct bytes value, uint64_t place, const struct record *by)
{
	return (struct call){
	    .kind = CALL_WRITE,
	    .outcome = CALL_OPEN,
	    .process = by != NULL ? by->machine : -1,
	    .source = by != NULL ? by->token : 0,
	    .path = path,
	    .value = value,
	    .place = place,
	    .begin = by != NULL ? by->begun : 0,
	    .end = by != NULL && by->settled != 0 ? by->settled : INT64_MAX,
	};
}

/* A node that is gone has no contents, and there is no generation of that. */
static void
add_versions(struct calls *c, const struct item *it)
{
	const char *path = node_path(c, it->node);
	uint64_t within = 0;

	for (size_t i = 0; i < it->versions_n; i++) {
		const struct version *v = &it->versions[i];
		struct call write;

		within = i > 0 && it->versions[i - 1].index == v->index ? within + 1 : 0;
		write = decision(path, v->contents, place_of(v->index, within), v->by);
		write.generation = v->generation;
		calls_add(c, write);
	}
	if (it->died != 0)
		calls_add(c, decision(path, bytes_of("(gone)"), place_of(it->died, LAST - 1),
		                      it->died_by));
}

/* Before the first change nothing has the name. */
static void
add_names(struct calls *c, const struct model *m)
{
	uint64_t within = 0;

	for (size_t i = 0; i < m->names_n; i++) {
		const struct name_change *n = &m->names[i];
		const struct bytes name = bytes_of(n->name);

		within = i > 0 && m->names[i - 1].index == n->index ? within + 1 : 0;
		calls_add(c, decision(name_path(c, n->parent, name), number_text(c, n->node),
		                      place_of(n->index, within + 1), n->by));
	}
}

/* ---- what clients were told ---- */

static void
add_read(struct calls *c, const struct record *r, struct call call)
{
	const bool whole = r->op.code == OP_get_contents && !r->got.same;

	call.kind = CALL_READ;
	if (r->op.code == OP_lookup) {
		call.path = name_path(c, r->op.lookup.parent, r->op.lookup.name);
		call.value = number_text(c, r->rc == RC_OK ? r->got.node : 0);
		calls_add(c, decision(call.path, bytes_of(""), place_of(0, 0), NULL));
	} else if (r->rc == RC_OK && r->got.generation != 0 &&
	           (r->op.code == OP_get_contents || r->op.code == OP_get_attr)) {
		call.path = node_path(c, r->got.node);
		call.value = r->contents;
		call.unseen = !whole;
		call.generation = r->got.generation;
	} else {
		call.kind = CALL_OTHER;
		if (c->stale_reads)
			call.place = 0; /* a refusal may be as old as what a read shows */
	}
	calls_add(c, call);
}

/* An acquire that was queued took effect, if it did, later than its answer; so did one that was
 * given up as its grant was under way, and that grant ends with the cancel. */
static bool
is_open(const struct record *r)
{
	return r->settled == 0 || r->rc == RC_QUEUED ||
	       (r->op.code == OP_acquire && r->rc == RC_INTR);
}

static void
add_record(struct calls *c, const struct record *r)
{
	const bool read = wire_op(r->op.code)->class == OP_CLASS_READ;
	struct call call = {
	    .kind = CALL_OTHER,
	    .process = r->machine,
	    .source = r->token,
	    .path = wire_op(r->op.code)->name,
	    .begin = r->begun,
	    .end = r->settled,
	};

	if (is_open(r))
		return;
	if ((read ? r->index : r->executed) != 0 && !r->refused)
		call.place = place_of(read ? r->index : r->executed, read ? LAST : 0);
	if (read)
		add_read(c, r, call);
	else
		calls_add(c, call);
}

static void
add_lines_at_end(struct sim *s)
{
	const struct item *it = model_child(&s->model, NODE_ROOT, bytes_of("log"));
	struct call final = {.kind = CALL_FINAL, .path = "lines", .end = INT64_MAX};

	if (it != NULL)
		final.value = model_latest(it)->contents;
	calls_add(&s->history.calls, final);
}

void
judgement_check(struct sim *s)
{
	struct calls *c = &s->history.calls;

	c->stale_reads = !sim_leases_hold(s);
	for (size_t i = 0; i < s->history.n; i++)
		add_record(c, s->history.records[i]);
	for (size_t i = 0; i < s->model.items_n; i++)
		add_versions(c, s->model.items[i]);
	add_names(c, &s->model);
	if (s->machines[0].mount != NULL)
		add_lines_at_end(s);
	calls_check(c);
	if (c->violations > 0)
		sim_fail(s, "%.*s, and %d more", (int)strcspn((const char *)c->found.data, "\n"),
		         (const char *)c->found.data, c->violations - 1);
}
