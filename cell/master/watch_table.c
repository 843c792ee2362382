#include "cell/master/watch_table.h"
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

static int
node_compare(const struct watched_node *a, const struct watched_node *b)
{
	return (a->node > b->node) - (a->node < b->node);
}

static int
watcher_compare(const struct watcher *a, const struct watcher *b)
{
	return node_compare(a->node, b->node);
}

RB_GENERATE_INTERNAL(watched_nodes, watched_node, link, node_compare,
                     static __attribute__((unused)))
RB_GENERATE_INTERNAL(session_watchers, watcher, of_session, watcher_compare,
                     static __attribute__((unused)))

struct watched_node *
m_watch_find(struct master *m, uint64_t node)
{
	struct watched_node like = {.node = node};

	return RB_FIND(watched_nodes, &m->watches.nodes, &like);
}

static struct watcher *
watcher_find(struct m_session *s, uint64_t node)
{
	struct watched_node like_node = {.node = node};
	struct watcher like = {.node = &like_node};

	return RB_FIND(session_watchers, &s->watches.by_node, &like);
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

static void
watcher_add(struct master *m, struct m_session *s, const struct watch *watch)
{
	struct watcher *w = memory_zero(1, sizeof *w);

	w->session = s;
	w->node = node_take(m, watch->node);
	w->mask = watch->mask;
	TAILQ_INSERT_TAIL(&w->node->watchers, w, of_node);
	RB_INSERT(session_watchers, &s->watches.by_node, w);
	s->watches.n++;
}

static void
watcher_drop(struct master *m, struct watcher *w)
{
	struct watched_node *node = w->node;

	RB_REMOVE(session_watchers, &w->session->watches.by_node, w);
	w->session->watches.n--;
	TAILQ_REMOVE(&node->watchers, w, of_node);
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

void
m_watch_gone(struct master *m, uint64_t node)
{
	struct watched_node *w;

	while ((w = m_watch_find(m, node)) != NULL)
		watcher_drop(m, TAILQ_FIRST(&w->watchers));
}

/* ---- the message ---- */

static enum rc
watch_take(struct master *m, struct m_session *s, const struct watch *watch)
{
	struct watcher *w = watcher_find(s, watch->node);

	if (w != NULL) {
		w->mask = watch->mask;
		return RC_OK;
	}
	if (s->watches.n == LIMIT_WATCHES)
		return RC_FULL;
	watcher_add(m, s, watch);
	return RC_OK;
}

/* The watch begins at this point of the log. Events tell of contents and names, as a read does. */
static void
watch_begin(struct master *m, struct m_session *s, const struct watch *watch, struct buffer *states)
{
	const struct op read = {.code = OP_get_contents, .get_contents.node = watch->node};
	struct buffer path = BUFFER(2 * LIMIT_PATH);
	struct watch_state state = {.node = watch->node, .rc = RC_STALE};

	if (!tree_permits(m->tree, &(struct requester){s->id, watch->user, 0}, &read))
		state.rc = RC_ACCES;
	else if (tree_path(m->tree, watch->node, &path)) {
		state.rc = (uint8_t)watch_take(m, s, watch);
		state.generation = tree_content_generation(m->tree, watch->node);
		state.path = buffer_view(&path);
	}
	wire_put_watch_state(states, &state);
	buffer_free(&path);
}

static void
watch_end(struct master *m, struct m_session *s, uint64_t node)
{
	struct watcher *w = watcher_find(s, node);

	if (w != NULL)
		watcher_drop(m, w);
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
	if (msg->all)
		m_watch_drop_all(m, s);
	if (msg->all || msg->watches.count > 0)
		watches_handle(m, s, msg);
	if (msg->all || !s->events.resumed)
		m_event_resume(m, s);
}
