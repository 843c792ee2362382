/* Watches: the nodes of whose changes sessions want to know (Chubby, section 2.5). They are
 * volatile: a session shows all of its watches again on each connection, so a new master knows them
 * from the moment in which it takes them, and the client says that events before it may be missing.
 */
#ifndef LSFS_MASTER_WATCH_TABLE_H
#define LSFS_MASTER_WATCH_TABLE_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include "cell/wire/codec.h"

struct m_connection;
struct m_session;
struct master;

/* A node that sessions watch. */
struct watched_node {
	RB_ENTRY(watched_node) link;
	uint64_t node;
	TAILQ_HEAD(watchers, watcher) watchers; /* at least one */
};

/* A session that watches a node. */
struct watcher {
	RB_ENTRY(watcher) of_session; /* by node */
	TAILQ_ENTRY(watcher) of_node;
	struct m_session *session;
	struct watched_node *node;
	uint32_t mask; /* of the kinds of events that it wants */
};

struct watch_table {
	RB_HEAD(watched_nodes, watched_node) nodes;
};

struct session_watches {
	RB_HEAD(session_watchers, watcher) by_node;
	size_t n;
};

/* Begins and ends watches as the message says, and answers it. A watch that cannot be taken is
 * refused in the answer. */
void m_watch_receive(struct master *m, struct m_connection *c, const struct msg_watch *msg);
/* Those that watch the node; NULL: none does. */
struct watched_node *m_watch_find(struct master *m, uint64_t node);
/* Ends all watches of the node: it is deleted. */
void m_watch_gone(struct master *m, uint64_t node);
/* Ends all watches of the session. */
void m_watch_drop_all(struct master *m, struct m_session *s);

#endif
