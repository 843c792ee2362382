/* Clients that watch nodes. Of each file the generations of its contents come one after the other,
 * over fail-overs, too: one that is left out was announced, by a gap, or is known to the client
 * before its watch begins; none comes twice, none that does not exist; and in the end each client
 * knows the last one. So do the names that come, go and change in a directory, and the acquisitions
 * of a lock: from the first that a client is told of on, or the first after a gap, they are those
 * that the log has decided, and none is left out. There is no gap while the history of changes is
 * whole and short. The holder of a lock is told when another one waits for it. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "tests/sim/sim.h"

enum {
	WATCHES_PERMILLE = 300,
	BEGIN_PERMILLE = 150,
	END_PERMILLE = 60,
	RESTLESS_PERMILLE = 250, /* runs in which most watches end soon */
	RESTLESS_END_PERMILLE = 600,
	TOLD_PERMILLE = 200, /* events after which, in such a run, a watch ends at once */
	ROOT_PERMILLE = 200,
	WATCHES_MOST = 8,
	HESITATION_MS = 500,
	AGAIN_PERMILLE = 700, /* one that has ended begins again within a round trip */
	AGAIN_MS = 5,
};

#define EVERY_KIND ((2u << EVENT_GAP) - 2)
#define END UINT64_MAX /* instead of a generation */

void
watches_init(struct sim *s)
{
	s->watching = rng_seeded(s->seed ^ 0x77617463);
	s->swarm.watches = s->script == NULL && rng_chance(&s->watching, WATCHES_PERMILLE);
	s->swarm.unwatch =
	    rng_chance(&s->watching, RESTLESS_PERMILLE) ? RESTLESS_END_PERMILLE : END_PERMILLE;
}

void
watches_clear(struct machine *m)
{
	m->watched_n = 0;
}

static struct watched *
find(struct machine *m, uint64_t node)
{
	for (size_t i = 0; i < m->watched_n; i++)
		if (m->watched[i].node == node && !m->watched[i].ended)
			return &m->watched[i];
	return NULL;
}

/* It was watched before, or not. */
static struct watched *
find_room(struct machine *m, uint64_t node)
{
	for (size_t i = 0; i < m->watched_n; i++)
		if (m->watched[i].node == node)
			return &m->watched[i];
	ARRAY_ROOM(m->watched, m->watched_n, m->watched_room);
	m->watched[m->watched_n] = (struct watched){0};
	return &m->watched[m->watched_n++];
}

static void
watch(struct sim *s, struct machine *m, uint64_t node, uint64_t generation, uint32_t mask)
{
	sim_trace(s, "client %d %s %s, generation %lu", m->id + 1,
	          mask ? "watches" : "watches no more", trace_path(s, node),
	          (unsigned long)generation);
	machine_event(s, m,
	              (struct client_event){.kind = CLIENT_WATCH,
	                                    .node = node,
	                                    .mask = mask,
	                                    .generation = generation});
}

static void
end_one(struct sim *s, struct machine *m, struct watched *w)
{
	w->ended = true;
	watch(s, m, w->node, 0, 0);
}

static void
begin_one(struct sim *s, struct machine *m, uint64_t node, uint64_t generation)
{
	struct watched *w = find_room(m, node);
	const size_t first = w->first + w->told;
	const bool tree = node == NODE_ROOT && m->id % 2 == 0 && !s->rights.on && !s->swarm.mounts;

	*w = (struct watched){node,           generation,  .known_from = s->now, .announced = true,
	                      .first = first, .tree = tree};
	watch(s, m, node, generation, EVERY_KIND | (tree ? WATCH_TREE : 0));
}

void
watches_wanted(struct sim *s, struct machine *m, const struct mount_watch *wanted)
{
	struct watched *w = find(m, wanted->node);

	if (wanted->mask != 0)
		begin_one(s, m, wanted->node, wanted->generation);
	else if (w != NULL)
		end_one(s, m, w);
	else
		watch(s, m, wanted->node, 0, 0);
}

static void run_watch(struct sim *s, struct event *e);

static void
watch_in(struct sim *s, struct machine *m, uint64_t node, uint64_t generation, int ms)
{
	const int64_t delay = (int64_t)rng_below(&s->watching, (uint64_t)ms * 1000) * (MS / 1000);

	heap_push(&s->heap, (struct event){.at = s->now + delay,
	                                   .run = run_watch,
	                                   .who = m->id,
	                                   .life = m->life,
	                                   .a = node,
	                                   .b = generation});
}

static void
run_watch(struct sim *s, struct event *e)
{
	struct machine *m = &s->machines[e->who];
	struct watched *w = find(m, e->a);

	if (!m->up || m->life != e->life || m->closing || m->paused_until > s->now)
		return;
	if (m->session != m->watching || m->state == CLIENT_EXPIRED)
		return; /* nothing is known to the next session */
	if (e->b == END && w != NULL) {
		end_one(s, m, w);
		if (rng_chance(&s->watching, AGAIN_PERMILLE))
			watch_in(s, m, e->a, w->known, AGAIN_MS);
	} else if (e->b != END && w == NULL && m->watched_n < WATCHES_MOST)
		begin_one(s, m, e->a, e->b);
}

/* Between what it has read and the beginning of the watch anything may happen. */
static void
decide(struct sim *s, struct machine *m, uint64_t node, uint64_t generation)
{
	m->watching = m->session;
	watch_in(s, m, node, generation, HESITATION_MS);
}

/* What a client has been told of it sees when it reads. */
static void
check_read(struct sim *s, struct machine *m, const struct attr *attr, const struct record *r)
{
	const struct watched *w = find(m, attr->node);

	if (w != NULL && attr->kind == NODE_FILE && r->made > w->known_from &&
	    attr->content_generation < w->known && sim_leases_hold(s))
		sim_fail(s, "client %d reads generation %lu of %s, and was told of %lu before",
		         m->id + 1, (unsigned long)attr->content_generation, trace_path(s, w->node),
		         (unsigned long)w->known);
}

static void
consider(struct sim *s, struct machine *m, uint64_t node, uint64_t generation)
{
	const struct watched *w = find(m, node);

	if (w != NULL && rng_chance(&s->watching, s->swarm.unwatch))
		decide(s, m, node, END);
	else if (w == NULL && !s->calm && rng_chance(&s->watching, BEGIN_PERMILLE))
		decide(s, m, node, generation);
}

void
watches_answered(struct sim *s, struct machine *m, const struct client_answer *a)
{
	const struct attr attr = a->rc == RC_OK && a->result.kind == RESULT_attr
	                             ? a->result.attr.attr
	                             : (struct attr){0};

	if (!s->swarm.watches || s->swarm.mounts || m->closing)
		return;
	check_read(s, m, &attr, s->history.records[a->token - 1]);
	if (attr.kind == NODE_FILE)
		consider(s, m, attr.node, attr.content_generation);
	if (a->rc == RC_OK && rng_chance(&s->watching, ROOT_PERMILLE))
		consider(s, m, NODE_ROOT, 0);
}

/* ---- events ---- */

static uint64_t
generation_now(struct sim *s, uint64_t node)
{
	struct item *it = model_item(&s->model, node);

	if (it == NULL || !model_item_alive(it) || it->kind != NODE_FILE)
		return 0;
	return model_latest(it)->generation;
}

/* With an event that was due the client may have lost the right since; a watch that begins tells of
 * a generation that it might not read when that was new. */
static bool
was_readable(struct sim *s, const struct machine *m, const struct item *it, uint64_t generation)
{
	const struct bytes nobody = {0};
	size_t i = it->versions_n;

	while (i > 0 && it->versions[i - 1].generation > generation)
		i--;
	if (s->swarm.mounts || i == 0)
		return true;
	for (uint64_t at = it->versions[i - 1].index; at <= s->model.applied; at++)
		if (model_has_right(s, it, at, m->session, nobody, RIGHT_READ))
			return true;
	return false;
}

static void
modified(struct sim *s, struct machine *m, struct watched *w, uint64_t generation)
{
	const struct item *it = model_item(&s->model, w->node);

	if (it == NULL || model_latest(it)->generation < generation)
		sim_fail(s, "client %d is told of generation %lu of %s, which does not exist",
		         m->id + 1, (unsigned long)generation, trace_path(s, w->node));
	if (!was_readable(s, m, it, generation))
		sim_fail(s, "client %d is told of generation %lu of %s, which it may not read",
		         m->id + 1, (unsigned long)generation, trace_path(s, w->node));
	if (generation <= w->known)
		sim_fail(s, "client %d is told of generation %lu of %s, and knows %lu", m->id + 1,
		         (unsigned long)generation, trace_path(s, w->node),
		         (unsigned long)w->known);
	if (generation != w->known + 1 && !w->announced)
		sim_fail(s, "client %d is told of generation %lu of %s after %lu: events are lost",
		         m->id + 1, (unsigned long)generation, trace_path(s, w->node),
		         (unsigned long)w->known);
	w->known = generation;
	w->known_from = s->now;
	w->announced = false;
}

static bool
is_happening(const struct happening *h, const struct client_watched *e)
{
	return h->kind == e->kind && h->generation == e->generation &&
	       bytes_equal(bytes_of(h->name), e->name);
}

static const struct happenings *
happenings_of(struct sim *s, const struct watched *w)
{
	struct item *it = model_item(&s->model, w->node);

	if (w->tree)
		return &s->model.tree;
	return it != NULL ? &it->happened : NULL;
}

/* Are those that were told since the first one as those from here on? */
static bool
is_repeated(const struct happenings *all, const struct watched *w, size_t at)
{
	const struct happening *first = all->all + w->first, *other = all->all + at;

	for (size_t i = 0; i < w->told; i++)
		if (first[i].kind != other[i].kind || first[i].generation != other[i].generation ||
		    strcmp(first[i].name, other[i].name) != 0)
			return false;
	return true;
}

/* Events come in their order: one that is owed comes before those of what was decided later. */
static void
check_owed(struct sim *s, const struct machine *m, const struct watched *w, int64_t decided)
{
	if (w->owed_from != 0 && w->owed_from < decided)
		sim_fail(s, "client %d was not told that another one waits for the lock of %s",
		         m->id + 1, trace_path(s, w->node));
}

/* Which one is the first that was told shows only when enough of them were. */
static void
happened(struct sim *s, struct machine *m, struct watched *w, const struct client_watched *e)
{
	const struct happenings *all = happenings_of(s, w);

	for (size_t at = w->first; all != NULL && at + w->told < all->n; at++) {
		if (!is_happening(&all->all[at + w->told], e) || !is_repeated(all, w, at))
			continue;
		check_owed(s, m, w, all->all[at + w->told].at);
		if (w->told == 0 || w->told_from == INT64_MAX)
			w->told_from = s->now;
		w->first = at;
		w->told++;
		return;
	}
	sim_fail(s, "client %d is told event %d of %s, '%.*s' generation %lu: not what follows",
	         m->id + 1, e->kind, trace_path(s, w->node), (int)e->name.len,
	         (const char *)e->name.data, (unsigned long)e->generation);
}

/* Another master knows of a watch when it tells of it. */
static void
announced(struct sim *s, struct machine *m, bool gap)
{
	if (gap && !s->rights.on && s->model.past.n < LIMIT_EVENTS / 2 &&
	    model_past_is_whole(&s->model))
		sim_fail(s, "client %d is told that events are missing, and they are kept",
		         m->id + 1);
	for (size_t i = 0; i < m->watched_n; i++) {
		struct watched *w = &m->watched[i];

		w->told_from = INT64_MAX;
		w->owed_from = 0;
		if (!gap)
			continue;
		w->announced = true;
		w->first += w->told;
		w->told = 0;
	}
}

/* ---- somebody waits for a lock ---- */

static bool
has_held_since(const struct machine *m, uint64_t node, int64_t since)
{
	for (size_t i = 0; i < m->holds_n; i++)
		if (m->holds[i].node == node && m->holds[i].since <= since)
			return true;
	return false;
}

/* Did the master that put the acquire into the queue know, as it came, that the client has the lock
 * and watches it? An event that was told since may be of another acquire. */
static bool
is_to_be_told(struct sim *s, struct machine *m, const struct watched *w, const struct record *r)
{
	return m->up && !m->closing && w != NULL && w->told > 0 && w->told_from <= r->made &&
	       w->conflict < r->made && r->queued_epoch == s->model.epoch &&
	       s->model.epoch_from <= r->made && model_alive(&s->model, m->session) &&
	       has_held_since(m, w->node, r->made);
}

static void
owe(const struct sim *s, struct watched *w)
{
	if (w->owed_from == 0)
		w->owed_from = s->now;
}

void
watches_waits(struct sim *s, const struct record *r)
{
	for (int i = 0; i < s->machines_n; i++) {
		struct machine *m = &s->machines[i];
		struct watched *w = find(m, r->op.acquire.acquire.node);

		if (is_to_be_told(s, m, w, r))
			owe(s, w);
	}
}

/* Others may have waited for the lock as it came to this client. */
void
watches_holds(struct sim *s, struct machine *m, const struct hold *h)
{
	const struct item *it = model_item(&s->model, h->node);
	struct watched *w = find(m, h->node);
	int64_t since;

	if (w == NULL || it == NULL)
		return;
	since = locks_blocked_since(s, it, m->session, h->owner);
	if (since != INT64_MAX && w->told > 0 && w->told_from <= since && w->conflict < since &&
	    s->model.epoch_from <= since)
		owe(s, w);
}

static void
conflicts(struct sim *s, struct watched *w)
{
	w->conflict = s->now;
	w->owed_from = 0;
}

static void
gone(struct sim *s, struct machine *m, struct watched *w)
{
	const struct item *it = model_item(&s->model, w->node);

	if (model_item_alive(it))
		sim_fail(s, "client %d is told that %s is gone", m->id + 1, trace_path(s, w->node));
	if (!w->announced && model_latest(it)->generation != w->known &&
	    model_past_is_whole(&s->model))
		sim_fail(s, "client %d is told that %s is gone, and not of its last contents",
		         m->id + 1, trace_path(s, w->node));
	w->ended = true;
}

void
watches_told(struct sim *s, struct machine *m, const struct client_watched *e)
{
	struct watched *w = find(m, e->node);

	if (m->closing)
		return;
	sim_trace(s, "client %d is told event %d of %s, generation %lu", m->id + 1, e->kind,
	          trace_path(s, e->node), (unsigned long)e->generation);
	if (e->kind == EVENT_EXPIRED)
		watches_clear(m);
	else if (e->kind == EVENT_GAP && w != NULL && s->rights.on)
		*w = m->watched[--m->watched_n]; /* it may not read that file any more */
	else if (e->kind == EVENT_GAP || e->kind == EVENT_MASTER_FAILED_OVER)
		announced(s, m, e->kind == EVENT_GAP);
	else if (w != NULL && e->kind == EVENT_CONTENTS_MODIFIED)
		modified(s, m, w, e->generation);
	else if (w != NULL && e->kind == EVENT_HANDLE_INVALID)
		gone(s, m, w);
	else if (w != NULL && e->kind == EVENT_CONFLICTING_LOCK)
		conflicts(s, w);
	else if (w != NULL) {
		happened(s, m, w, e);
		if (!s->calm && s->swarm.unwatch == RESTLESS_END_PERMILLE &&
		    rng_chance(&s->watching, TOLD_PERMILLE))
			watch_in(s, m, e->node, END, AGAIN_MS); /* others may be on their way */
	} else if (w == NULL && e->node != 0)
		sim_fail(s, "client %d is told of %s, which it does not watch", m->id + 1,
		         trace_path(s, e->node));
}

/* ---- the end ---- */

static void
check_last(struct sim *s, const struct machine *m, const struct watched *w)
{
	const struct item *it = model_item(&s->model, w->node);
	const struct happenings *all = happenings_of(s, w);
	const uint64_t now = generation_now(s, w->node);

	if (!model_item_alive(it))
		sim_fail(s, "client %d was not told that %s is gone", m->id + 1,
		         trace_path(s, w->node));
	if (w->known != now && w->known != 0)
		sim_fail(s,
		         "client %d was told last of generation %lu of %s, and it is %lu: an event "
		         "is lost",
		         m->id + 1, (unsigned long)w->known, trace_path(s, w->node),
		         (unsigned long)now);
	check_owed(s, m, w, INT64_MAX);
	if (w->told > 0 && !is_repeated(all, w, all->n - w->told))
		sim_fail(s, "client %d was not told of the last events of %s", m->id + 1,
		         trace_path(s, w->node));
}

void
watches_check_end(struct sim *s)
{
	for (int i = 0; i < s->machines_n; i++) {
		const struct machine *m = &s->machines[i];

		for (size_t k = 0; m->up && m->state == CLIENT_SAFE && k < m->watched_n; k++)
			if (!m->watched[k].ended)
				check_last(s, m, &m->watched[k]);
	}
}
