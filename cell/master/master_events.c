/* One change is one shared event, however many sessions watch its node: a session keeps a pointer
 * and a number. */
#include "cell/master/master_events.h"

#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

struct shared_event {
	size_t refs;
	struct watch_event event; /* its name is owned */
};

void
m_event_init(struct master *m)
{
	TAILQ_INIT(&m->events.waiting);
}

/* ---- shared events ---- */

static struct shared_event *
event_new(const struct master *m, enum watch_event_kind kind, uint64_t node)
{
	struct shared_event *e = memory_zero(1, sizeof *e);

	e->refs = 1;
	e->event.node = node;
	e->event.kind = (uint8_t)kind;
	e->event.time_ns = m->missed.to != NULL ? m->missed.time_ns : m->wall_ns;
	return e;
}

static void
event_put(struct shared_event *e)
{
	must(e->refs > 0);
	if (--e->refs > 0)
		return;
	free((void *)e->event.name.data);
	free(e);
}

/* ---- the queue of a session ---- */

static void
forget_first(struct session_events *q, size_t n)
{
	must(n <= q->kept_n);
	for (size_t i = 0; i < n; i++)
		event_put(q->kept[i]);
	q->kept_n -= n;
	if (n > 0)
		memmove(q->kept, q->kept + n, q->kept_n * sizeof *q->kept);
}

static uint64_t
number_before(const struct session_events *q)
{
	return q->made - q->kept_n;
}

static void
wait_to_send(struct master *m, struct m_session *s)
{
	struct session_events *q = &s->events;

	if (q->waits || !q->resumed || q->sent == q->made)
		return;
	q->waits = true;
	TAILQ_INSERT_TAIL(&m->events.waiting, s, events.entry);
}

static void
wait_no_more(struct master *m, struct m_session *s)
{
	if (s->events.waits)
		TAILQ_REMOVE(&m->events.waiting, s, events.entry);
	s->events.waits = false;
}

static void
keep(struct session_events *q, struct shared_event *e)
{
	ARRAY_ROOM(q->kept, q->kept_n, q->kept_room);
	q->kept[q->kept_n++] = e;
	q->made++;
}

static void
give(struct master *m, struct m_session *s, struct shared_event *e)
{
	if (s->events.kept_n == LIMIT_EVENTS) {
		/* The client may receive the events that were sent; the others it never will. */
		struct session_events *q = &s->events;

		M_TRACE(m, "session %" PRIu64 " has %zu events: they become a gap", s->id,
		        q->kept_n);
		forget_first(q, q->kept_n);
		keep(q, event_new(m, EVENT_GAP, 0));
		q->sent = q->made - 1;
	} else {
		e->refs++;
		keep(&s->events, e);
	}
	wait_to_send(m, s);
}

void
m_event_gap(struct master *m, struct m_session *s)
{
	struct shared_event *gap = event_new(m, EVENT_GAP, 0);

	give(m, s, gap);
	event_put(gap);
}

/* ---- the watchers of a change ---- */

static bool
wants(const struct watcher *w, enum watch_event_kind kind)
{
	return (w->mask & 1u << kind) != 0;
}

/* Events tell of contents and names, as a read does. A watcher that may not read the node any more
 * is told that events are missing, and nothing but its end, until it may read it again; then it is
 * told so a second time. */
static void
tell_watcher(struct master *m, struct watcher *w, struct shared_event *e)
{
	const bool may =
	    e->event.kind == EVENT_HANDLE_INVALID || m_watch_may_read(m, w, w->node->node);

	if (w->silent == may)
		m_event_gap(m, w->session);
	w->silent = !may;
	if (may)
		give(m, w->session, e);
}

static void
tell_node(struct master *m, enum watch_event_kind kind, uint64_t node, uint64_t generation)
{
	struct watcher *w = m_watch_next(m, node, NULL);
	struct shared_event *e;

	if (w == NULL)
		return;
	e = event_new(m, kind, node);
	e->event.generation = generation;
	for (; w != NULL; w = m_watch_next(m, node, w))
		if (wants(w, kind))
			tell_watcher(m, w, e);
	event_put(e);
}

/* The way from a node up to the root, as far as it was gone. */
struct ascent {
	uint64_t passed[LIMIT_PATH / 2 + 1]; /* directories, from the lowest on */
	size_t depth;
	uint8_t path[LIMIT_PATH]; /* of the node, below the directory that comes next; at its end */
	size_t free;
};

static void
prepend(struct ascent *a, struct bytes text)
{
	must(text.len <= a->free);
	a->free -= text.len;
	memcpy(a->path + a->free, text.data, text.len);
}

/* A watcher is told nothing of what is below a directory that it may not read, nor of a gap. */
static bool
may_see(const struct master *m, const struct watcher *w, const struct ascent *a)
{
	for (size_t i = 0; i < a->depth; i++)
		if (!m_watch_may_read(m, w, a->passed[i]))
			return false;
	return true;
}

static void
tell_directory(struct master *m, const struct watch_event *event, uint64_t directory,
               const struct ascent *a)
{
	const bool trees = a->depth > 0 || event->kind == EVENT_LOCK_ACQUIRED;
	struct watcher *w = m_watch_next(m, directory, NULL);
	struct shared_event *e;

	if (w == NULL)
		return;
	e = event_new(m, event->kind, directory);
	e->event.generation = event->generation;
	e->event.name = bytes_copy((struct bytes){a->path + a->free, sizeof a->path - a->free});
	for (; w != NULL; w = m_watch_next(m, directory, w)) {
		if (trees && !(w->mask & WATCH_TREE))
			break;
		if (wants(w, event->kind) && may_see(m, w, a))
			tell_watcher(m, w, e);
	}
	event_put(e);
}

/* The directory of the node and its name, when the change had been made. */
static bool
find_name(const struct master *m, uint64_t node, uint64_t *directory, struct bytes *name)
{
	const uint64_t index = m->missed.to != NULL ? m->missed.index : m->applied;

	return tree_name_at(m->tree, node, index, directory, name);
}

/* An event of the node `name` in the directory, for those that watch that, or a tree in which it
 * is. */
static void
tell_above(struct master *m, const struct watch_event *event, uint64_t directory, struct bytes name)
{
	struct ascent a = {.free = sizeof a.path};

	prepend(&a, name);
	tell_directory(m, event, directory, &a);
	a.passed[a.depth++] = directory;
	while (find_name(m, directory, &directory, &name)) {
		prepend(&a, bytes_of("/"));
		prepend(&a, name);
		tell_directory(m, event, directory, &a);
		must(a.depth < sizeof a.passed / sizeof *a.passed);
		a.passed[a.depth++] = directory;
	}
}

static bool
holds(const struct master *m, const struct m_session *s, uint64_t node)
{
	uint64_t held;

	return tree_session_lock_after(m->tree, s->id, node - 1, &held) && held == node;
}

void
m_event_conflict_with(struct master *m, struct watcher *w)
{
	struct shared_event *e;

	if (!wants(w, EVENT_CONFLICTING_LOCK) || !holds(m, w->session, w->node->node))
		return;
	e = event_new(m, EVENT_CONFLICTING_LOCK, w->node->node);
	give(m, w->session, e);
	event_put(e);
}

void
m_event_conflict(struct master *m, uint64_t node)
{
	struct watched_node *watched = m_watch_find(m, node);
	struct watcher *w;

	if (watched != NULL)
		TAILQ_FOREACH(w, &watched->watchers, of_node)
			m_event_conflict_with(m, w);
}

/* Others may wait already. A grant to one of them that is under way comes too late for the lock. */
static void
lock_taken(struct master *m, const struct tree_note *note)
{
	const struct watch_event acquired = {.kind = EVENT_LOCK_ACQUIRED,
	                                     .generation = note->lock_generation};
	struct bytes name;
	uint64_t parent;

	tell_node(m, EVENT_LOCK_ACQUIRED, note->node, note->lock_generation);
	if (find_name(m, note->node, &parent, &name))
		tell_above(m, &acquired, parent, name);
	if (m->missed.to == NULL && m_queue_find(m, note->node) != NULL)
		m_event_conflict(m, note->node);
}

void
m_event_noted(struct master *m, const struct tree_note *note)
{
	struct watch_event of_child = {.kind = EVENT_CHILD_MODIFIED};
	struct watcher *w;

	switch (note->kind) {
	case TREE_NODE_CHANGED:
		if (note->generation != 0)
			tell_node(m, EVENT_CONTENTS_MODIFIED, note->node, note->generation);
		tell_above(m, &of_child, note->parent, note->name);
		return;
	case TREE_NODE_CREATED:
		of_child.kind = EVENT_CHILD_ADDED;
		tell_above(m, &of_child, note->parent, note->name);
		return;
	case TREE_NODE_DELETED:
		of_child.kind = EVENT_CHILD_REMOVED;
		tell_above(m, &of_child, note->parent, note->name);
		tell_node(m, EVENT_HANDLE_INVALID, note->node, 0);
		while ((w = m_watch_next(m, note->node, NULL)) != NULL)
			m_watch_drop(m, w);
		return;
	case TREE_LOCK_TAKEN:
		lock_taken(m, note);
		return;
	default:
		return;
	}
}

/* ---- sending ---- */

/* All events are made of the changes of entries up to this index. */
static uint64_t
complete_upto(const struct master *m, const struct m_session *s)
{
	return s->missed.behind ? s->missed.upto : m->noted;
}

static void
send_events(struct master *m, struct m_session *s)
{
	struct session_events *q = &s->events;
	const size_t from = (size_t)(q->sent - number_before(q));
	struct buffer packed = BUFFER(LIMIT_FRAME);
	struct message msg = {.code = MSG_events, .events.first = q->sent + 1};

	q->shown = complete_upto(m, s);
	msg.events.upto = q->shown;
	for (size_t i = from; i < q->kept_n; i++)
		wire_put_watch_event(&packed, &q->kept[i]->event);
	must(!packed.failed);
	msg.events.events.count = (uint32_t)(q->kept_n - from);
	msg.events.events.packed = buffer_view(&packed);
	if (q->sent < q->made)
		M_TRACE(m, "session %" PRIu64 " is sent events %" PRIu64 " to %" PRIu64, s->id,
		        q->sent + 1, q->made);
	m_connection_send(m, s->connection, &msg);
	q->sent = q->made;
	buffer_free(&packed);
}

void
m_event_send(struct master *m)
{
	struct m_session *s;

	while (m_has_time(m) && (s = TAILQ_FIRST(&m->events.waiting)) != NULL) {
		wait_no_more(m, s);
		send_events(m, s);
	}
}

/* Without this message the index of a session whose nodes do not change would stay behind the
 * history. */
void
m_event_show_index(struct master *m, struct m_session *s)
{
	if (!s->events.resumed || s->watches.n == 0 || s->events.shown >= complete_upto(m, s))
		return;
	wait_no_more(m, s);
	send_events(m, s);
}

bool
m_event_heard(struct master *m, struct m_session *s, uint64_t upto)
{
	struct session_events *q = &s->events;
	const uint64_t before = number_before(q);

	if (upto > q->made) {
		m_connection_breach(m, s->connection,
		                    "an acknowledgement of an event that was not made");
		return false;
	}
	if (upto > before)
		forget_first(q, (size_t)(upto - before));
	if (q->sent < number_before(q))
		q->sent = number_before(q);
	m_missed_wait(m, s);
	return true;
}

void
m_event_resume(struct master *m, struct m_session *s)
{
	s->events.resumed = true;
	s->events.sent = number_before(&s->events);
	s->events.shown = 0;
	wait_to_send(m, s);
	m_missed_wait(m, s);
}

void
m_event_detach(struct master *m, struct m_session *s)
{
	wait_no_more(m, s);
	m_missed_wait_no_more(m, s);
	s->events.resumed = false;
}

void
m_event_forget(struct master *m, struct m_session *s)
{
	wait_no_more(m, s);
	m_missed_wait_no_more(m, s);
	forget_first(&s->events, s->events.kept_n);
	free(s->events.kept);
}
