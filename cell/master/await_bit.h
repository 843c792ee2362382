/* The await bits. Each session that may cache, or that waits for a lock, has a bit in the tree: a
 * new master waits for the sessions whose bits are raised. */
#ifndef LSFS_MASTER_AWAIT_BIT_H
#define LSFS_MASTER_AWAIT_BIT_H

#include <bsd/sys/queue.h>
#include <stdbool.h>
#include "cell/master/timer.h"

struct m_session;
struct own_command;

struct session_await {
	bool bit;            /* as it will be when all that is proposed of it is applied */
	unsigned proposed_n; /* changes of the bit that are proposed, and not applied */
	bool caching;        /* the session has asked for leave to cache */
	bool idle;           /* it has neither leave to cache nor a waiter, */
	mono_t idle_since;   /* from then on */
	TAILQ_ENTRY(m_session) entry;
};

struct awaits {
	TAILQ_HEAD(idle_list, m_session) idle; /* with a raised bit; the longest idle first */
	struct timer timer;
};

/* Initializes the await bits of a new master. */
void m_await_init(struct master *m);
/* The bit of a session that is recorded now, as the tree has it. */
void m_await_begin(struct m_session *s, bool bit);
/* The session has, or has not, asked for leave to cache. */
void m_await_set_caching(struct m_session *s, bool caching);
/* The session is about to get leave to cache, or a ticket: returns true when its bit is raised. If
 * not, that is proposed, and m_lock_reply_queued called when it is applied. */
bool m_await_raise(struct master *m, struct m_session *s);
/* A change of a bit was applied. */
void m_await_applied(struct master *m, const struct own_command *own);
/* The session may be idle now. */
void m_await_idle(struct master *m, struct m_session *s);
/* The timer of the idle sessions has expired. */
void m_await_timeout(struct master *m);
/* The session's record goes. */
void m_await_forget(struct master *m, struct m_session *s);

#endif
