/* One change is one shared event, however many sessions watch its node: a session keeps a pointer
 * and a number.
 *
 * A change is told to all who watch one node, then to all who watch the next one on its way up. A
 * step may end between two nodes: none has more watchers than there are sessions. Events are sent
 * when all of an entry's are made. */
#include "cell/master/master_events.h"

#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

enum {
	CHANGE_WORK = 1024, /* for each change that is told, */
	NODE_WORK = 128,    /* and for each node on its way up */
};

struct shared_event {
	size_t refs;
	struct watch_event event; /* its name is owned */
};

void
m_event_init(struct master *m)
{
	TAILQ_INIT(&m->events.waiting);
}

void
m_event_begin(struct master *m)
{
	m->noted = m->applied;
	m->events.changes = m->events.nodes = 0;
}

/* ---- shared events ---- */

static struct shared_event *
event_new(const struct master *m, enum watch_event_kind kind, uint64_t node)
{
	struct shared_event *e = memory_zero(1, sizeof *e);

	e->refs = 1;
	e->event.node = node;
	e->event.kind = (uint8_t)kind;
	e->event.time_ns = m->wall_ns;
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

void
m_event_wait(struct master *m, struct m_session *s)
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
	m_event_wait(m, s);
}

void
m_event_gap(struct master *m, struct m_session *s)
{
	struct shared_event *gap = event_new(m, EVENT_GAP, 0);

	give(m, s, gap);
	event_put(gap);
}

/* ---- the watchers of a change ---- */

/* True if the watchers of the next node on the way of the change are told now: those of the nodes
 * before it were, in this step or in an earlier one. */
static bool
is_next(struct master *m)
{
	struct telling *t = &m->telling;

	if (t->nodes++ != t->told || (t->to == NULL && !m_has_time(m)))
		return false;
	m->work += NODE_WORK;
	t->told++;
	return true;
}

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
	struct watcher *w = is_next(m) ? m_watch_next(m, node, NULL) : NULL;
	struct shared_event *e;

	if (w == NULL)
		return;
	e = event_new(m, kind, node);
	e->event.generation = generation;
	e->event.time_ns = m->telling.time_ns;
	for (; w != NULL; w = m_watch_next(m, node, w))
		if (wants(w, kind))
			tell_watcher(m, w, e);
	event_put(e);
}

/* The way from a node up to the root, as far as it was gone. */
struct ascent {
	/* Directories: of those that the same subjects may read the lowest one. */
	struct passed {
		uint64_t node;
		struct bytes acl_read; /* a view */
	} passed[LIMIT_PATH / 2 + 1];
	size_t passed_n;
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
may_see(struct master *m, const struct watcher *w, const struct ascent *a)
{
	for (size_t i = 0; i < a->passed_n; i++)
		if (!m_watch_may_read(m, w, a->passed[i].node))
			return false;
	return true;
}

static void
pass(const struct master *m, struct ascent *a, uint64_t directory)
{
	const struct bytes acl_read = tree_acl_read(m->tree, directory);

	for (size_t i = 0; i < a->passed_n; i++)
		if (bytes_equal(a->passed[i].acl_read, acl_read))
			return;
	must(a->passed_n < sizeof a->passed / sizeof *a->passed);
	a->passed[a->passed_n++] = (struct passed){directory, acl_read};
}

static void
tell_directory(struct master *m, const struct watch_event *event, uint64_t directory,
               const struct ascent *a)
{
	const bool trees = a->passed_n > 0 || event->kind == EVENT_LOCK_ACQUIRED;
	struct watcher *w = is_next(m) ? m_watch_next(m, directory, NULL) : NULL;
	struct shared_event *e;

	if (w == NULL)
		return;
	e = event_new(m, event->kind, directory);
	e->event.generation = event->generation;
	e->event.time_ns = m->telling.time_ns;
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
	return tree_name_at(m->tree, node, m->telling.index, directory, name);
}

/* An event of the node `name` in the directory, for those that watch that, or a tree in which it
 * is. */
static void
tell_above(struct master *m, const struct watch_event *event, uint64_t directory, struct bytes name)
{
	struct ascent a = {.free = sizeof a.path};

	prepend(&a, name);
	tell_directory(m, event, directory, &a);
	pass(m, &a, directory);
	while (find_name(m, directory, &directory, &name)) {
		prepend(&a, bytes_of("/"));
		prepend(&a, name);
		tell_directory(m, event, directory, &a);
		pass(m, &a, directory);
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
	if (m->telling.to == NULL && is_next(m) && m_queue_find(m, note->node) != NULL)
		m_event_conflict(m, note->node);
}

/* The same note of which apply has made the change. */
static struct tree_note
note_of(const struct master *m, const struct past_change *c)
{
	static const enum tree_note_kind kinds[] = {
	    [CHANGE_CREATED] = TREE_NODE_CREATED,    [CHANGE_CONTENTS] = TREE_NODE_CHANGED,
	    [CHANGE_ATTRIBUTES] = TREE_NODE_CHANGED, [CHANGE_DELETED] = TREE_NODE_DELETED,
	    [CHANGE_LOCK] = TREE_LOCK_TAKEN,
	};
	struct tree_note note = {.kind = kinds[c->kind],
	                         .node = c->node,
	                         .generation = c->generation,
	                         .lock_generation = c->generation};

	tree_name_at(m->tree, c->node, c->index - 1, &note.parent, &note.name);
	return note;
}

static void
tell_change(struct master *m, const struct tree_note *note)
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
		if (is_next(m))
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

/* All of it to one session; or to all that are not behind, as far as the step has time, from where
 * the last one ended. False: something is left. */
static bool
tell(struct master *m, struct m_session *to, const struct past_change *c)
{
	const struct tree_note note = note_of(m, c);
	bool done;

	m->telling = (struct telling){.to = to,
	                              .index = c->index,
	                              .time_ns = c->time_ns,
	                              .told = m->events.nodes};
	if (to != NULL)
		m->telling.told = 0;
	tell_change(m, &note);
	done = m->telling.told == m->telling.nodes;
	if (to == NULL)
		m->events.nodes = done ? 0 : m->telling.told;
	m->telling = (struct telling){0};
	m->work += CHANGE_WORK;
	return done;
}

void
m_event_tell(struct master *m, struct m_session *s, const struct past_change *c)
{
	must(tell(m, s, c));
}

uint64_t
m_event_upto(const struct master *m, const struct m_session *s)
{
	if (s->missed.behind || s->missed.upto > m->noted)
		return s->missed.upto;
	return m->noted;
}

void
m_event_make(struct master *m)
{
	struct past_change c;
	struct m_session *s;
	uint64_t number;

	if (m->noted < tree_compacted(m->tree)) {
		/* Changes are lost of which nobody was told. Nor is anybody told of those that are
		 * left: the next ones would be lost meanwhile, and each entry would be a gap. */
		RB_FOREACH(s, m_session_tree, &m->sessions.by_id) {
			m->work += SESSION_WORK;
			if (s->watches.n > 0 && !s->missed.behind &&
			    m_event_upto(m, s) < m->applied)
				m_event_gap(m, s);
		}
		m_event_begin(m);
		return;
	}
	number = tree_change_number(m->tree, m->noted) + m->events.changes;
	while (tree_change_after(m->tree, &number, &c)) {
		if (c.index - 1 > m->noted) {
			m->noted = c.index - 1;
			m->events.changes = 0;
		}
		if (!m_has_time(m) || !tell(m, NULL, &c))
			return;
		m->events.changes++;
	}
	m->noted = m->applied;
	m->events.changes = 0;
}

/* ---- sending ----
 *
 * With events goes the index up to which the session has them all, and from there another master
 * goes on. So none is sent while only some of an entry's are made. */

static bool
is_within_entry(const struct master *m)
{
	return m->events.changes > 0 || m->events.nodes > 0;
}

static void
send_events(struct master *m, struct m_session *s)
{
	struct session_events *q = &s->events;
	const size_t from = (size_t)(q->sent - number_before(q));
	struct buffer packed = BUFFER(LIMIT_FRAME);
	struct message msg = {.code = MSG_events, .events.first = q->sent + 1};

	q->shown = m_event_upto(m, s);
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

	if (is_within_entry(m))
		return;
	while (m_has_time(m) && (s = TAILQ_FIRST(&m->events.waiting)) != NULL) {
		wait_no_more(m, s);
		if (!m_missed_is_within_entry(s))
			send_events(m, s);
	}
}

/* Without this message the index of a session whose nodes do not change would stay behind the
 * history. */
void
m_event_show_index(struct master *m, struct m_session *s)
{
	if (!s->events.resumed || s->watches.n == 0 || s->events.shown >= m_event_upto(m, s) ||
	    is_within_entry(m) || m_missed_is_within_entry(s))
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
	m_event_wait(m, s);
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
