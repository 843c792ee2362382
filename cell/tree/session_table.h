/* Sessions, and the answers kept for them. */
#ifndef LSFS_TREE_SESSION_TABLE_H
#define LSFS_TREE_SESSION_TABLE_H

#include <bsd/sys/tree.h>

#include "cell/base/keyed.h"
#include "cell/tree/apply.h"
#include "cell/tree/lock_table.h"
#include "cell/tree/node.h"
#include "cell/tree/tree.h"

struct session;

/* ---- session_table.c: kept answers ----
 *
 * Exactly once: the answers to a session's requests are kept until the session says that they have
 * arrived. A request that is received again, however late and on whichever connection, gets the
 * answer that it had. */

/* The answer to a numbered request. */
struct cached_reply {
	RB_ENTRY(cached_reply) in_session; /* by number */
	uint64_t number;
	enum op_code op;
	enum rc rc;
	uint64_t index; /* of the entry that it answers */
	struct bytes result;
};

RB_HEAD(session_replies, cached_reply);
KEYED_PROTOTYPE(session_replies, cached_reply, in_session)

/* Compares a request with the session's earlier ones: RC_OK (*cached is the answer that it had;
 * NULL: it is to be executed now), RC_OLD_REQUEST, RC_INVAL. Forgets answers below `below`. */
enum rc reply_cache_look(struct tree *t, struct session *s, const struct command *c,
                         enum op_code op, const struct cached_reply **cached);
/* Keeps the answer; its result is copied. */
void reply_cache_keep(struct tree *t, struct session *s, const struct cached_reply *from);
/* The answer to the request of this number; NULL when none is kept. */
struct cached_reply *reply_cache_find(const struct session *s, uint64_t number);

/* ---- session_table.c ----
 *
 * Sessions: they own locks and opens of ephemeral files. Their leases are the master's business;
 * here they begin and end. */

/* A session that has ended is found by its id alone; what it still has goes part by part. */
struct session {
	RB_ENTRY(session) in_tree; /* by id */
	RB_ENTRY(session) by_nonce;
	RB_ENTRY(session) by_principal; /* and by id */
	RB_ENTRY(session) in_ended;     /* by id */
	uint64_t id;
	enum end_cause ending; /* 0: it is live */
	struct bytes nonce, principal, host;
	uint64_t principal_generation; /* of the principal of that name that opened it */
	bool awaited;   /* a new master waits for it: it may cache, or waits for a lock */
	bool lasting;   /* it never expires */
	uint64_t below; /* replies to all numbers below this have arrived */
	struct session_openers openers;
	size_t openers_n;
	struct session_holders holders;
	size_t holders_n;
	struct session_directories directories; /* whose creator it is */
	struct session_replies replies;
	size_t replies_n;
};

RB_HEAD(sessions, session);
RB_HEAD(nonces, session);
RB_HEAD(principal_sessions, session);
RB_HEAD(ended_sessions, session);
KEYED_PROTOTYPE(sessions, session, in_tree)

RB_PROTOTYPE(principal_sessions, session, by_principal, )

struct tree_sessions {
	struct sessions by_id;
	struct nonces by_nonce;                 /* the live ones */
	struct principal_sessions by_principal; /* the live ones, too */
	struct ended_sessions ended;
	size_t n;          /* of all */
	size_t ended_most; /* pieces that one command takes away from an ended session */
};

/* Initializes the sessions of a new tree: none. */
void session_table_init(struct tree *t);
/* The session, live or ended; NULL when there is none. */
struct session *session_find(const struct tree *t, uint64_t id);
/* The live session; NULL when there is none. */
struct session *session_live(const struct tree *t, uint64_t id);
/* The subject for which the requester acts; an empty principal: its session is not live, or its
 * principal was removed. */
struct subject session_subject_of(const struct tree *t, const struct requester *who);
/* The same for a user of the live session `s`; NULL if there is none. */
struct subject session_subject(const struct tree *t, const struct session *s, struct bytes user);
/* The live session of this nonce; NULL when there is none. */
struct session *session_by_nonce(const struct tree *t, struct bytes nonce);
/* A new session; its texts are copied. */
struct session *session_add(struct tree *t, const struct tree_session *from);
/* Frees all sessions: the tree ends. */
void session_table_free(struct tree *t);
/* The session is no longer live, and the first part of its locks and files is removed. */
void session_end(struct execution *x, struct session *s, enum end_cause cause);
/* Removes the next part of what an ended session has; true if it was the last one, and the session
 * is removed, too. */
bool session_finish(struct execution *x, struct session *s);

#endif
