/* The nodes that sessions watch, and the message by which they say so. */
#include <stdlib.h>

#include "cell/base/keyed.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

enum { WATCH_WORK = 128 }; /* for each watcher that is looked at, and for each right */

KEYED_TREE(watched_nodes, watched_node, link, node)
KEYED_GENERATE(session_watchers, watcher, of_session, node->node)

struct watched_node *
m_watch_find(const struct master *m, uint64_t node)
{
	return watched_nodes_find(&m->watches.nodes, node);
}

static struct watcher *
watcher_find(struct m_session *s, uint64_t node)
{
	return session_watchers_find(&s->watches.by_node, node);
}

void
m_watch_drop(struct master *m, struct watcher *w)
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
		m_watch_drop(m, w);
}

static bool
is_told(const struct master *m, const struct watcher *w)
{
	const struct session_missed *q = &w->session->missed;

	return w->since < m->telling.index &&
	       (m->telling.to != NULL || (!q->behind && q->upto < m->telling.index));
}

struct watcher *
m_watch_next(struct master *m, uint64_t node, const struct watcher *before)
{
	const struct watched_node *watched;
	struct watcher *w;

	if (m->telling.to != NULL) {
		w = before == NULL ? watcher_find(m->telling.to, node) : NULL;
		return w != NULL && is_told(m, w) ? w : NULL;
	}
	watched = before == NULL ? m_watch_find(m, node) : NULL;
	if (before != NULL)
		w = TAILQ_NEXT(before, of_node);
	else
		w = watched == NULL ? NULL : TAILQ_FIRST(&watched->watchers);
	for (; w != NULL && !is_told(m, w); w = TAILQ_NEXT(w, of_node))
		m->work += WATCH_WORK;
	m->work += WATCH_WORK;
	return w;
}

static bool
may_read(const struct master *m, const struct m_session *s, struct bytes user, uint64_t node)
{
	return tree_may_read(m->tree, &(struct requester){s->id, user, 0}, node);
}

bool
m_watch_may_read(struct master *m, const struct watcher *w, uint64_t node)
{
	m->work += WATCH_WORK;
	return may_read(m, w->session, w->user, node);
}

/* ---- the message ---- */

/* The watcher of the node, one that stood already or a new one; NULL: there are too many. */
static struct watcher *
watch_take(struct master *m, struct m_session *s, const struct watch *watch)
{
	struct watched_node *node = m_watch_find(m, watch->node);
	struct watcher *w = watcher_find(s, watch->node);

	if (w == NULL && s->watches.n == LIMIT_WATCHES)
		return NULL;
	if (node == NULL) {
		node = memory_zero(1, sizeof *node);
		node->node = watch->node;
		TAILQ_INIT(&node->watchers);
		RB_INSERT(watched_nodes, &m->watches.nodes, node);
	}
	if (w == NULL) {
		w = memory_zero(1, sizeof *w);
		w->session = s;
		w->node = node;
		w->after = s->events.made;
		w->since = m->applied;
		TAILQ_INSERT_TAIL(&node->watchers, w, of_node);
		RB_INSERT(session_watchers, &s->watches.by_node, w);
		s->watches.n++;
	}
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
		m_watch_drop(m, w);
}

/* The watch begins at this point of the log, unless it stands, or stood at an earlier master: then
 * the events are made that are missing, also of a node that was deleted meanwhile. A session that
 * this master has made has missed none, but its events may be yet to be made. */
static void
watch_begin(struct master *m, struct m_session *s, const struct watch *watch, struct buffer *states)
{
	struct buffer path = BUFFER(2 * LIMIT_PATH);
	struct watch_state state = {.node = watch->node, .rc = RC_STALE};
	const bool there = tree_path(m->tree, watch->node, &path);
	const uint64_t since = s->id <= m->sessions.inherit_to ? watch->since : 0;
	struct watcher *w = watcher_find(s, watch->node);
	const uint64_t told = w != NULL ? m_event_upto(m, s) : since;
	struct bytes name;
	uint64_t parent;
	const bool ends =
	    !there && told != 0 && tree_name_at(m->tree, watch->node, told, &parent, &name);

	if (there ? !may_read(m, s, watch->user, watch->node) : !ends) {
		watch_end(m, s, watch->node);
		w = NULL;
		state.rc = there ? RC_ACCES : RC_STALE;
	} else if (ends && w == NULL && s->watches.known) {
		state.rc = RC_OK; /* the event of its end is made */
	} else {
		w = watch_take(m, s, watch);
		state.rc = w != NULL ? RC_OK : RC_FULL;
	}
	if (w != NULL && !s->watches.known && since != 0) {
		w->since = since < w->since ? since : w->since;
		m_missed_begin(m, s, w->since);
	}
	if (w != NULL) {
		state.after = w->after;
		state.since = w->since;
	}
	if (state.rc == RC_OK) {
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
	s->watches.known = true;
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
				m_watch_drop(m, w);
			else
				w->shown = false;
		}
	}
	if (msg->all || msg->watches.count > 0)
		watches_handle(m, s, msg);
	if (msg->all || !s->events.resumed)
		m_event_resume(m, s);
}
