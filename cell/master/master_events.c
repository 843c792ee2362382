/* One change is one shared event, however many sessions watch its node: a session keeps a pointer
 * and a number. */
#include "cell/master/master_events.h"

#include <stdlib.h>
#include <string.h>

#include "cell/base/keyed.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

/* ---- watch table ---- */

KEYED_TREE(watched_nodes, watched_node, link, node)
KEYED_TREE(session_watchers, watcher, of_session, node->node)

struct watched_node *
m_watch_find(struct master *m, uint64_t node)
{
	return watched_nodes_find(&m->watches.nodes, node);
}

static struct watcher *
watcher_find(struct m_session *s, uint64_t node)
{
	return session_watchers_find(&s->watches.by_node, node);
}

static struct watched_node *
node_take(struct master *m, uint64_t node)
{
	struct watched_node *w = m_watch_find(m, node);

	if (w != NULL)
		return w;
	w = memory_zero(1, sizeof *w);
	w->node = node;
	TAILQ_INIT(&w->watchers);
	RB_INSERT(watched_nodes, &m->watches.nodes, w);
	return w;
}

static struct watcher *
watcher_add(struct master *m, struct m_session *s, const struct watch *watch)
{
	struct watcher *w = memory_zero(1, sizeof *w);

	w->session = s;
	w->node = node_take(m, watch->node);
	w->mask = watch->mask;
	w->user = bytes_copy(watch->user);
	w->after = s->events.made;
	TAILQ_INSERT_TAIL(&w->node->watchers, w, of_node);
	RB_INSERT(session_watchers, &s->watches.by_node, w);
	s->watches.n++;
	return w;
}

static void
watcher_drop(struct master *m, struct watcher *w)
{
	struct watched_node *node = w->node;

	RB_REMOVE(session_watchers, &w->session->watches.by_node, w);
	w->session->watches.n--;
	TAILQ_REMOVE(&node->watchers, w, of_node);
	free((void *)w->user.data);
	free(w);
	if (!TAILQ_EMPTY(&node->watchers))
		return;
	RB_REMOVE(watched_nodes, &m->watches.nodes, node);
	free(node);
}

void
m_watch_drop_all(struct master *m, struct m_session *s)
{
	struct watcher *w;

	while ((w = RB_ROOT(&s->watches.by_node)) != NULL)
		watcher_drop(m, w);
}

/* Ends all watches of the node: it is deleted. */
static void
watch_gone(struct master *m, uint64_t node)
{
	struct watched_node *w;

	while ((w = m_watch_find(m, node)) != NULL)
		watcher_drop(m, TAILQ_FIRST(&w->watchers));
}

/* ---- events ---- */

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

/* ---- who gets it ---- */

static bool
wants(const struct watcher *w, enum watch_event_kind kind)
{
	return (w->mask & 1u << kind) != 0;
}

static bool
may_read(const struct master *m, uint64_t session, struct bytes user, uint64_t node)
{
	const struct op read = {.code = OP_get_contents, .get_contents.node = node};

	return tree_permits(m->tree, &(struct requester){session, user, 0}, &read);
}

bool
m_watch_may_read(const struct master *m, const struct watcher *w)
{
	return may_read(m, w->session->id, w->user, w->node->node);
}

/* A watcher that may not read the node any more is told that events are missing, and nothing else,
 * until it may read it again; then it is told so a second time. */
static void
tell_watcher(struct master *m, struct watcher *w, struct shared_event *e)
{
	const bool may = m_watch_may_read(m, w);

	if (w->silent == may) {
		struct shared_event *gap = event_new(m, EVENT_GAP, 0);

		give(m, w->session, gap);
		event_put(gap);
	}
	w->silent = !may;
	if (may)
		give(m, w->session, e);
}

static void
tell_node(struct master *m, enum watch_event_kind kind, uint64_t node, uint64_t generation)
{
	struct watched_node *watched = m_watch_find(m, node);
	struct shared_event *e;
	struct watcher *w;

	if (watched == NULL)
		return;
	e = event_new(m, kind, node);
	e->event.generation = generation;
	TAILQ_FOREACH(w, &watched->watchers, of_node)
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

/* A watcher is told nothing of what is below a directory that it may not read, and of that no gap.
 */
static bool
may_see(const struct master *m, const struct watcher *w, const struct ascent *a)
{
	for (size_t i = 0; i < a->depth; i++)
		if (!may_read(m, w->session->id, w->user, a->passed[i]))
			return false;
	return true;
}

static void
tell_directory(struct master *m, const struct watch_event *event, uint64_t directory,
               const struct ascent *a)
{
	const bool trees = a->depth > 0 || event->kind == EVENT_LOCK_ACQUIRED;
	struct watched_node *watched = m_watch_find(m, directory);
	struct shared_event *e;
	struct watcher *w;

	if (watched == NULL)
		return;
	e = event_new(m, event->kind, directory);
	e->event.generation = event->generation;
	e->event.name = bytes_copy((struct bytes){a->path + a->free, sizeof a->path - a->free});
	TAILQ_FOREACH(w, &watched->watchers, of_node) {
		if (trees && !(w->mask & WATCH_TREE))
			break;
		if (wants(w, event->kind) && may_see(m, w, a))
			tell_watcher(m, w, e);
	}
	event_put(e);
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
	while (tree_name(m->tree, directory, &directory, &name)) {
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
m_event_conflict(struct master *m, uint64_t node)
{
	struct watched_node *watched = m_watch_find(m, node);
	struct shared_event *e;
	struct watcher *w;

	if (watched == NULL)
		return;
	e = event_new(m, EVENT_CONFLICTING_LOCK, node);
	TAILQ_FOREACH(w, &watched->watchers, of_node)
		if (wants(w, EVENT_CONFLICTING_LOCK) && holds(m, w->session, node))
			give(m, w->session, e);
	event_put(e);
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
	if (tree_name(m->tree, note->node, &parent, &name))
		tell_above(m, &acquired, parent, name);
	if (m_queue_find(m, note->node) != NULL)
		m_event_conflict(m, note->node);
}

void
m_event_noted(struct master *m, const struct tree_note *note)
{
	struct watch_event of_child = {.kind = EVENT_CHILD_MODIFIED};

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
		watch_gone(m, note->node);
		return;
	case TREE_LOCK_TAKEN:
		lock_taken(m, note);
		return;
	default:
		return;
	}
}

/* ---- sending ---- */

static void
send_events(struct master *m, struct m_session *s)
{
	struct session_events *q = &s->events;
	const size_t from = (size_t)(q->sent - number_before(q));
	struct buffer packed = BUFFER(LIMIT_FRAME);
	struct message msg = {.code = MSG_events, .events.first = q->sent + 1};

	for (size_t i = from; i < q->kept_n; i++)
		wire_put_watch_event(&packed, &q->kept[i]->event);
	must(!packed.failed);
	msg.events.events.count = (uint32_t)(q->kept_n - from);
	msg.events.events.packed = buffer_view(&packed);
	M_TRACE(m, "session %" PRIu64 " is sent events %" PRIu64 " to %" PRIu64, s->id, q->sent + 1,
	        q->made);
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
	return true;
}

/* The client has shown on this connection what it has received: the rest is sent. */
static void
event_resume(struct master *m, struct m_session *s)
{
	s->events.resumed = true;
	s->events.sent = number_before(&s->events);
	wait_to_send(m, s);
}

void
m_event_detach(struct master *m, struct m_session *s)
{
	wait_no_more(m, s);
	s->events.resumed = false;
}

void
m_event_forget(struct master *m, struct m_session *s)
{
	wait_no_more(m, s);
	forget_first(&s->events, s->events.kept_n);
	free(s->events.kept);
}

/* ---- the message ---- */

/* The watcher of the node, one that stood already or a new one; NULL: there are too many. */
static struct watcher *
watch_take(struct master *m, struct m_session *s, const struct watch *watch)
{
	struct watcher *w = watcher_find(s, watch->node);

	if (w == NULL && s->watches.n == LIMIT_WATCHES)
		return NULL;
	if (w == NULL)
		w = watcher_add(m, s, watch);
	w->mask = watch->mask;
	TAILQ_REMOVE(&w->node->watchers, w, of_node);
	if (w->mask & WATCH_TREE)
		TAILQ_INSERT_HEAD(&w->node->watchers, w, of_node);
	else
		TAILQ_INSERT_TAIL(&w->node->watchers, w, of_node);
	bytes_set(&w->user, watch->user);
	return w;
}

static void
watch_end(struct master *m, struct m_session *s, uint64_t node)
{
	struct watcher *w = watcher_find(s, node);

	if (w != NULL)
		watcher_drop(m, w);
}

/* The watch begins at this point of the log, unless it stands. */
static void
watch_begin(struct master *m, struct m_session *s, const struct watch *watch, struct buffer *states)
{
	struct buffer path = BUFFER(2 * LIMIT_PATH);
	struct watch_state state = {.node = watch->node, .rc = RC_STALE};
	const struct watcher *w;

	if (!may_read(m, s->id, watch->user, watch->node)) {
		watch_end(m, s, watch->node);
		state.rc = RC_ACCES;
	} else if (tree_path(m->tree, watch->node, &path)) {
		w = watch_take(m, s, watch);
		state.rc = w != NULL ? RC_OK : RC_FULL;
		state.after = w != NULL ? w->after : 0;
		state.generation = tree_content_generation(m->tree, watch->node);
		state.path = buffer_view(&path);
	}
	wire_put_watch_state(states, &state);
	buffer_free(&path);
}

static void
watches_handle(struct master *m, struct m_session *s, const struct msg_watch *msg)
{
	struct buffer states = BUFFER(LIMIT_FRAME);
	struct message answer = {.code = MSG_watching};
	struct cursor at = cursor_of(msg->watches.packed);
	struct watch watch;

	while (wire_next_watch(&at, &watch)) {
		if (watch.mask == 0) {
			watch_end(m, s, watch.node);
			continue;
		}
		watch_begin(m, s, &watch, &states);
		answer.watching.states.count++;
	}
	must(!states.failed);
	answer.watching.states.packed = buffer_view(&states);
	M_TRACE(m, "session %" PRIu64 " watches %zu nodes", s->id, s->watches.n);
	if (answer.watching.states.count > 0)
		m_connection_send(m, s->connection, &answer);
	buffer_free(&states);
}

/* A client that has watched nothing on earlier connections begins without `all`. */
void
m_watch_receive(struct master *m, struct m_connection *c, const struct msg_watch *msg)
{
	struct m_session *s = c->session;

	if (s == NULL || s->id != msg->session || msg->epoch != m->epoch)
		return;
	if (!m_event_heard(m, s, msg->heard))
		return;
	if (msg->all) {
		/* The message shows all watches: others have ended, and their ends were lost. */
		struct cursor at = cursor_of(msg->watches.packed);
		struct watcher *w, *next;
		struct watch watch;

		while (wire_next_watch(&at, &watch))
			if ((w = watcher_find(s, watch.node)) != NULL)
				w->shown = true;
		RB_FOREACH_SAFE(w, session_watchers, &s->watches.by_node, next) {
			if (!w->shown)
				watcher_drop(m, w);
			else
				w->shown = false;
		}
	}
	if (msg->all || msg->watches.count > 0)
		watches_handle(m, s, msg);
	if (msg->all || !s->events.resumed)
		event_resume(m, s);
}
