/* The cache of a session, pure: what the cell's answers have said, by node number, and the answers
 * that can be given from it.
 *
 * The key of everything is a node number. A node's entry has its attributes, the rights of the
 * subjects that asked for them, each by its user, its contents and, of a directory, its whole
 * listing and the names that were looked up in it, absent ones too. The answer to one user is
 * served to another user only with the rights of that user, and as far as these allow it. The state
 * of locks is never kept. The master has registered the session for the key of every entry, and
 * sends an invalidation before it proposes a command that changes anything of it; so an entry is
 * true until it is dropped. How long that holds is not decided here: leave to cache, and its end,
 * are those of caching.c.
 *
 * Three rules keep a reply out that was read before something was dropped, and arrives after it:
 *  - while a command of this session that drops a node is not answered, nothing of that node is
 *    kept; afterwards only from a reply whose index is at least that of the command's answer, or
 *    whose request was sent after that answer (the master does not invalidate for the requester
 *    what the requester has dropped itself);
 *  - after an invalidation nothing is kept of its nodes from replies to earlier requests;
 *  - when all is dropped, nothing at all is kept from replies to earlier requests.
 *
 * Memory is bounded in entries and bytes; the least recently used entries are given back. */
#ifndef LSFS_CLIENT_CACHE_H
#define LSFS_CLIENT_CACHE_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include "cell/wire/codec.h"

enum {
	CACHE_OWN = 4, /* nodes that a command's client knows that it changes */
};

static_assert((int)CACHE_OWN <= (int)LIMIT_DROPPED, "the cell takes all of them");

RB_HEAD(cache_entries, cache_entry);
TAILQ_HEAD(cache_uses, cache_entry);
RB_HEAD(cache_drops, cache_dropped);
TAILQ_HEAD(cache_settled, cache_dropped);

struct cache {
	struct cache_entries entries; /* by node */
	struct cache_uses uses;       /* the least recently used first */
	size_t entries_n, room, bytes;

	struct cache_drops dropped; /* the nodes that were dropped, by node */
	struct cache_settled
	    settled; /* those for which no command is under way, the oldest first */
	size_t settled_n;
	uint64_t all_below; /* replies to requests with lower numbers are not kept */
};

/* A copy of node numbers, of which the array is the owner's. */
struct cache_nodes {
	uint64_t *node;
	size_t n, room;
};

/* An empty cache with room for that many nodes. */
void cache_begin(struct cache *c, size_t room);
/* Frees all of it: the session is over, and numbers begin again. */
void cache_end(struct cache *c);

/* An answer: RC_OK with a result, whose views are valid until the cache changes, or RC_NOENT. */
struct cache_answer {
	enum rc rc;
	uint64_t index; /* of the log, at which it was read */
	struct result result;
	struct bytes check; /* digits of the rights in it; empty if there are none */
};

/* Answers the read of this user (empty: of the principal itself), which had these rights at the
 * open of its handle; false if the cache can't. */
bool cache_answer(struct cache *c, const struct op *op, struct bytes user, unsigned handle_rights,
                  struct cache_answer *a);
/* True if attributes of the node are cached, and were read at `index` or before. */
bool cache_knows(const struct cache *c, uint64_t node, uint64_t index);
/* True if a read may be answered from what is cached of the node. */
bool cache_has(const struct cache *c, uint64_t node);

struct cache_reply {
	uint64_t number;    /* of its request, */
	struct bytes user;  /* which acted for this user */
	struct bytes check; /* digits */
	enum rc rc;
	uint64_t index;
	const struct result *result; /* valid when `rc` is RC_OK */
	struct bytes encoded;        /* the same, as it was received */
};

/* Keeps what the reply to this operation says, as far as the rules allow. The session is registered
 * for its keys. True if the cache is larger than its limits now. */
bool cache_keep(struct cache *c, const struct op *op, const struct cache_reply *reply);

/* The nodes that the command changes, as far as the client knows, in ascending order: returns how
 * many. `node` is the operation's (wire_op_node). */
size_t cache_own(const struct cache *c, const struct op *op, uint64_t node,
                 uint64_t nodes[CACHE_OWN]);
/* A command that changes these nodes is submitted: they are dropped. */
void cache_submitted(struct cache *c, const uint64_t *nodes, size_t n);
/* That command is answered at `index`, 0 if that is not known; `next` is the number of the next
 * request. */
void cache_answered(struct cache *c, const uint64_t *nodes, size_t n, uint64_t index,
                    uint64_t next);

/* An invalidation names the node. */
void cache_drop(struct cache *c, uint64_t node, uint64_t next);
/* Everything is dropped. */
void cache_drop_all(struct cache *c, uint64_t next);
/* All requests with lower numbers than `oldest` are answered. */
void cache_settle(struct cache *c, uint64_t oldest);

/* Drops the least recently used entries, enough that a while passes until it is full again, and
 * appends them to `nodes`, which may be given back to the master. */
void cache_shrink(struct cache *c, struct cache_nodes *nodes);

#endif
