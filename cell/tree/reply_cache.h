/* Exactly once: the answers to a session's requests are kept until the session says that they have
 * arrived. A request that is received again, however late and on whatever way, gets the answer that
 * it had. */
#ifndef LSFS_TREE_REPLY_CACHE_H
#define LSFS_TREE_REPLY_CACHE_H

#include <bsd/sys/tree.h>
#include "cell/tree/tree.h"
#include "cell/wire/codec.h"

struct session;

/* The answer to a numbered request. */
struct cached_reply {
	RB_ENTRY(cached_reply) in_session; /* by number */
	uint64_t number;
	enum op_code op;
	enum rc rc;
	struct bytes result;
};

RB_HEAD(session_replies, cached_reply);
RB_PROTOTYPE(session_replies, cached_reply, in_session, )

/* Compares a request with the session's earlier ones: RC_OK (*cached is the answer that it had;
 * NULL: it is to be executed now), RC_OLD_REQUEST, RC_INVAL. Forgets answers below `below`. */
enum rc reply_cache_look(struct tree *t, struct session *s, const struct command *c,
                         enum op_code op, const struct cached_reply **cached);
/* Keeps the answer; `result` is copied. */
void reply_cache_keep(struct tree *t, struct session *s, uint64_t number, enum op_code op,
                      enum rc rc, struct bytes result);
/* The answer to the request of this number; NULL when none is kept. */
struct cached_reply *reply_cache_find(const struct session *s, uint64_t number);
/* Forgets the answer. */
void reply_cache_drop(struct tree *t, struct session *s, struct cached_reply *k);

#endif
