/* The nodes that sessions watch, and the events that they get when these change. */
#ifndef LSFS_MASTER_MASTER_EVENTS_H
#define LSFS_MASTER_MASTER_EVENTS_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>

#include "cell/tree/tree.h"
#include "cell/wire/codec.h"

struct m_connection;
struct m_session;
struct master;
struct shared_event;

/* ---- master_events.c: watches ----
 *
 * Watches: the nodes of whose changes sessions want to know (Chubby, section 2.5). They are
 * volatile: a session shows all of its watches again on each connection, so a new master knows them
 * from the moment in which it takes them, and the client says that events before it may be missing.
 */

/* A node that sessions watch. */
struct watched_node {
	RB_ENTRY(watched_node) link;
	uint64_t node;
	TAILQ_HEAD(watchers, watcher) watchers; /* at least one; those of its tree come first */
};

/* A session that watches a node. */
struct watcher {
	RB_ENTRY(watcher) of_session; /* by node */
	TAILQ_ENTRY(watcher) of_node;
	struct m_session *session;
	struct watched_node *node;
	uint32_t mask;     /* of the kinds of events that it wants, and WATCH_TREE */
	struct bytes user; /* for which it watches; owned */
	bool silent;       /* events were left out: its right to read was taken */
	uint64_t after;    /* the session's last event before it began */
	bool shown;        /* in the message that shows all of them */
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
/* True if the subject that watches may read the node now: events tell of contents and names, as a
 * read does. */
bool m_watch_may_read(const struct master *m, const struct watcher *w);
/* Those that watch the node; NULL if none does. */
struct watched_node *m_watch_find(struct master *m, uint64_t node);
/* Ends all watches of the session. */
void m_watch_drop_all(struct master *m, struct m_session *s);

/* ---- master_events.c: events ----
 *
 * Events for sessions that watch nodes: made when a change is applied, numbered in each session,
 * sent at the end of the step, and kept until the client has acknowledged them. After a reconnect
 * those that the client has not received are sent again, so none is lost within a session and
 * epoch. A session with LIMIT_EVENTS events loses all of them, and gets one event that says so: a
 * gap. */

struct session_events {
	TAILQ_ENTRY(m_session) entry; /* while `waits` */
	bool waits;                   /* it has events that are not sent, and may be sent any */
	bool resumed;                 /* it has shown on its connection what it has received */
	struct shared_event **kept; /* not acknowledged, in order; the last has the number `made` */
	size_t kept_n, kept_room;
	uint64_t made, sent; /* numbers; `sent`: on this connection */
};

struct event_queues {
	TAILQ_HEAD(event_sessions, m_session) waiting;
};

/* Initializes the queues of a new master. */
void m_event_init(struct master *m);
/* A change was applied: those that watch its node, its directory, or a tree in which it is, get an
 * event. */
void m_event_noted(struct master *m, const struct tree_note *note);
/* An acquire joins the queue of the node's lock: its holders get an event. */
void m_event_conflict(struct master *m, uint64_t node);
/* Sends the events that wait, as many as the step has time for. */
void m_event_send(struct master *m);
/* The client has received all events up to this number. False: there is none of it, and the
 * connection is closed. */
bool m_event_heard(struct master *m, struct m_session *s, uint64_t upto);
/* The session has no connection any more. */
void m_event_detach(struct master *m, struct m_session *s);
/* The session's record goes. */
void m_event_forget(struct master *m, struct m_session *s);

#endif
