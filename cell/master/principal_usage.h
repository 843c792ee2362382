/* The sessions, waiters and unanswered requests of a principal have limits together, beside the
 * limits of each session: so that a principal with many sessions cannot fill the master's memory.
 * Its connections have one, too, which the server holds (LIMIT_PRINCIPAL_CONNECTIONS). */
#ifndef LSFS_MASTER_PRINCIPAL_USAGE_H
#define LSFS_MASTER_PRINCIPAL_USAGE_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include "cell/wire/types.h"

struct master;
struct m_connection;
struct m_session;

enum { USAGE_LIMITS = 4 };

struct principal_usage {
	RB_ENTRY(principal_usage) link;
	struct bytes principal; /* owned */
	size_t connections, sessions;
	size_t waiters;          /* for locks */
	size_t requests, window; /* without a reply, and their bytes */
};

RB_HEAD(principal_usages, principal_usage);

/* How near the limits are: of each the principal that is nearest to it, or only the named one. Its
 * name is a view. */
void m_usage_limits(const struct master *m, struct bytes only, struct limit_row rows[USAGE_LIMITS]);
/* Counts a connection that begins; one of no principal is not counted. */
void m_usage_connect(struct master *m, struct m_connection *c);
/* Counts it no longer. */
void m_usage_disconnect(struct master *m, struct m_connection *c);
/* Counts a session, whose record begins. */
void m_usage_join(struct master *m, struct m_session *s, struct bytes principal);
/* Counts it no longer. Nothing of it is counted any more. */
void m_usage_part(struct master *m, struct m_session *s);
/* May the principal have one more session? */
bool m_usage_session_fits(struct master *m, struct bytes principal);
/* May the session's principal have one more waiter? */
bool m_usage_waiter_fits(const struct m_session *s);
/* Counts a waiter. */
void m_usage_add_waiter(struct m_session *s);
/* Counts a request, and its bytes; false: its principal may not have so many more without a reply.
 */
bool m_usage_take_request(struct m_session *s, size_t bytes);
/* Counts a waiter no longer. */
void m_usage_drop_waiter(struct m_session *s);
/* Counts it no longer. */
void m_usage_drop_request(struct m_session *s, size_t bytes);

#endif
