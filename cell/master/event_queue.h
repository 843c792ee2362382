/* Events for sessions that watch nodes: made when a change is applied, numbered in each session,
 * sent at the end of the step, and kept until the client has acknowledged them. After a reconnect
 * those that the client has not received are sent again, so none is lost within a session and
 * epoch. A session with LIMIT_EVENTS events loses all of them, and gets one event that says so: a
 * gap. */
#ifndef LSFS_MASTER_EVENT_QUEUE_H
#define LSFS_MASTER_EVENT_QUEUE_H

#include <bsd/sys/queue.h>
#include "cell/tree/tree.h"
#include "cell/wire/codec.h"

struct m_session;
struct master;
struct shared_event;

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
/* A change was applied: those that watch its node, or its directory, get an event. */
void m_event_noted(struct master *m, const struct tree_note *note);
/* An acquire joins the queue of the node's lock: its holders get an event. */
void m_event_conflict(struct master *m, uint64_t node);
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

#endif
