/* The nodes that sessions watch, and the events that they get when these change. */
#ifndef LSFS_MASTER_MASTER_EVENTS_H
#define LSFS_MASTER_MASTER_EVENTS_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>

#include "cell/base/keyed.h"
#include "cell/tree/tree.h"

struct m_connection;
struct m_session;
struct master;
struct shared_event;

/* ---- watch_table.c ----
 *
 * Watches: the nodes of whose changes sessions want to know (Chubby, section 2.5). They are
 * volatile: a session shows all of its watches again on each connection, to a new master with the
 * index of the log up to which it has received their events. */

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
	uint64_t since;    /* it gets events of the changes above this index of the log */
	bool shown;        /* in the message that shows all of them */
};

struct watch_table {
	RB_HEAD(watched_nodes, watched_node) nodes;
};

struct session_watches {
	RB_HEAD(session_watchers, watcher) by_node;
	size_t n;
	bool known; /* the session has shown its watches in this epoch */
};

KEYED_PROTOTYPE(session_watchers, watcher, of_session)

/* Begins and ends watches as the message says, and answers it. A watch that cannot be taken is
 * refused in the answer. */
void m_watch_receive(struct master *m, struct m_connection *c, const struct msg_watch *msg);
/* Those that watch the node; NULL if none does. */
struct watched_node *m_watch_find(const struct master *m, uint64_t node);
/* The next watcher of the node that gets an event of the change that is being told, after `before`;
 * NULL as `before`: the first one. A session that is behind gets the event later. */
struct watcher *m_watch_next(struct master *m, uint64_t node, const struct watcher *before);
/* True if the watcher's subject may read the node, or could when that was deleted. */
bool m_watch_may_read(struct master *m, const struct watcher *w, uint64_t node);
/* Ends the watch. */
void m_watch_drop(struct master *m, struct watcher *w);
/* Ends all watches of the session. */
void m_watch_drop_all(struct master *m, struct m_session *s);

/* ---- master_events.c ----
 *
 * Events for sessions that watch nodes: made of the history of changes when a change is applied, or
 * later when there is more than a step has time for, numbered in each session, sent, and kept until
 * the client has acknowledged them. After a reconnect those that the client has not received are
 * sent again, so none is lost within a session and epoch. A session with LIMIT_EVENTS events loses
 * all of them, and gets one event that says so: a gap. */

struct session_events {
	TAILQ_ENTRY(m_session) entry; /* while `waits` */
	bool waits;                   /* it has events that are not sent, and may be sent any */
	bool resumed;                 /* it has shown on its connection what it has received */
	struct shared_event **kept; /* not acknowledged, in order; the last has the number `made` */
	size_t kept_n, kept_room;
	uint64_t made, sent; /* numbers; `sent`: on this connection */
	uint64_t shown;      /* the index of the log that went with these */
};

TAILQ_HEAD(event_sessions, m_session);

struct event_queues {
	struct event_sessions waiting;
	/* Of the entry after the last one of which all changes were told: so many changes, and of
	 * the change after those the watchers of so many nodes. */
	size_t changes, nodes;
};

/* The change that is being told. */
struct telling {
	struct m_session *to; /* NULL: all sessions that are not behind are told */
	uint64_t index;       /* of its entry */
	int64_t time_ns;      /* likewise */
	size_t nodes;         /* on its way so far, */
	size_t told;          /* and those whose watchers were told */
};

/* Initializes the queues of a new master. */
void m_event_init(struct master *m);
/* A mastership begins, or all have a gap: nobody is to be told of what was applied before. */
void m_event_begin(struct master *m);
/* Tells of the changes that were applied, as far as the step has time: those that watch a change's
 * node, its directory, or a tree in which it is, get an event. */
void m_event_make(struct master *m);
/* Tells the session of a change of the history. */
void m_event_tell(struct master *m, struct m_session *s, const struct past_change *c);
/* The session's events are made of the changes of all entries up to this index. */
uint64_t m_event_upto(const struct master *m, const struct m_session *s);
/* An acquire joins the queue of the node's lock: its holders get an event. */
void m_event_conflict(struct master *m, uint64_t node);
/* The watcher's session gets that event, if it holds the lock. */
void m_event_conflict_with(struct master *m, struct watcher *w);
/* The session gets a gap. */
void m_event_gap(struct master *m, struct m_session *s);
/* The session waits to be sent events, if it has any that may be. */
void m_event_wait(struct master *m, struct m_session *s);
/* A KeepAlive of the session is answered: it is sent the index up to which it has all events, if
 * that has grown. */
void m_event_show_index(struct master *m, struct m_session *s);
/* Sends the events that wait, as many as the step has time for. */
void m_event_send(struct master *m);
/* The client has received all events up to this number. False: there is none of it, and the
 * connection is closed. */
bool m_event_heard(struct master *m, struct m_session *s, uint64_t upto);
/* The client has shown on this connection what it has received: the rest is sent. */
void m_event_resume(struct master *m, struct m_session *s);
/* The session has no connection any more. */
void m_event_detach(struct master *m, struct m_session *s);
/* The session's record goes. */
void m_event_forget(struct master *m, struct m_session *s);

/* ---- missed_events.c ----
 *
 * A new master makes the events that a session has missed once more, from the history of changes:
 * the same events in the same order. Until the session has them it is sent no event of a new
 * change, which is in the history, too, and comes in its turn. */

struct session_missed {
	bool behind;    /* the session gets its events from the history, */
	uint64_t upto;  /* and has those up to this index of the log, also when it is not behind, */
	size_t changes; /* and of so many changes of the next entry that has any */
	TAILQ_ENTRY(m_session) entry; /* while `waits` */
	bool waits;                   /* it has room for those of another entry */
};

struct missed_events {
	struct event_sessions waiting;
};

/* No session is behind: none has connected yet. */
void m_missed_init(struct master *m);
/* The session has shown its watches to this master for the first time, and has the events of all
 * changes up to the index. */
void m_missed_begin(struct master *m, struct m_session *s, uint64_t upto);
/* The session has connected or acknowledged events: if it is behind, it waits for further ones. */
void m_missed_wait(struct master *m, struct m_session *s);
/* The session's connection or record is gone. */
void m_missed_wait_no_more(struct master *m, struct m_session *s);
/* True if only some of an entry's events are made for the session: it is sent none. */
bool m_missed_is_within_entry(const struct m_session *s);
/* Makes missed events, as many as the step has time for. */
void m_missed_run(struct master *m);

#endif
