/* The tree: the replicated state of a cell, and the deterministic function that changes it.
 *
 * tree_apply(index, entry) decides each command of a chosen log entry and answers with results and
 * with what the master has to know. It reads no clock and draws no random number: two trees that
 * applied the same entries are equal, their digests too (DESIGN R10). Reads come from memory.
 *
 * Everything that apply reads or writes is in the rows that tree_changes hands out, so a tree that
 * is loaded from its rows goes on exactly where it was (DESIGN: Storage). */
#ifndef LSFS_TREE_TREE_H
#define LSFS_TREE_TREE_H

#include "cell/tree/rows.h"
#include "cell/wire/types.h"

struct tree;

/* An empty tree: no node, index 0. A new cell's nodes (root, /acl, /acl/admin, /acl/everyone, as
 * CONTRACT says) are made by the first begin_epoch that is applied to an empty tree.
 * `cell` is the cell's name (copied), for paths in sequencers and messages. */
struct tree *tree_new(const char *cell);
void tree_free(struct tree *t);

/* ---- apply ---- */

/* What became of one command of the entry. Views belong to the outcome. */
struct tree_answer {
	uint64_t session, number;  /* whose request; 0, 0 for the master's own */
	enum op_code op;
	enum rc rc;
	bool replayed;             /* an answer kept from the first time: nothing changed */
	bool kept;                 /* the result is kept for the case that the request comes again */
	struct bytes result;       /* encoded result of kind wire_op_result(op) */
};

/* What the master has to look at after an apply. */
enum tree_note_kind {
	TREE_LOCK_CHANGED,    /* node: its lock was freed, shared, or its delay ended */
	TREE_DELAY_BEGAN,     /* node, lock_generation, index (= began), seconds */
	TREE_LOCK_GONE,       /* node: deleted; whoever waits for its lock is answered RC_STALE */
	TREE_GRANTED,         /* node, session, owner, acquisition, lock_generation, fence: by a grant */
	TREE_SESSION_CREATED, /* session */
	TREE_SESSION_ENDED,   /* session, cause */
	TREE_EPOCH_BEGAN,     /* epoch, ballot: of the begin_epoch, so that its master knows it */
	TREE_NODE_CHANGED,    /* node: contents or attributes */
	TREE_NODE_CREATED,    /* node, parent */
	TREE_NODE_DELETED,    /* node, parent */
};

struct tree_note {
	enum tree_note_kind kind;
	uint64_t node, parent, session, owner, acquisition, lock_generation, fence, index, epoch;
	int64_t seconds;
	enum session_end cause;
	struct ballot ballot;
};

struct tree_outcome {
	struct tree_answer *answers;
	size_t answers_n, answers_room;
	struct tree_note *notes;
	size_t notes_n, notes_room;
	struct buffer results; /* where the answers' views lie */
};

/* Applies the entry of slot `index`, which must be tree_applied() + 1. An empty payload is a no-op.
 * A payload that does not decode changes nothing but the applied index (every replica sees the same
 * bytes, so all agree); its outcome is empty and the return value RC_BAD_MESSAGE.
 *
 * The rules, per command (sources in the sections named):
 * - A command with a number of a session: not live -> RC_NO_SESSION; number < its `below` ->
 *   RC_OLD_REQUEST; a kept result -> that answer again (R11; seeds: mutual exclusion). Results below
 *   `below` are forgotten.
 * - Names: 1..255 bytes (RC_NAMETOOLONG), path <= 1,024 (RC_NAMETOOLONG), no control characters, no
 *   '/', not "." or ".." (RC_INVAL); ".cell" in the root: RC_PERM.
 * - Quota: creating and growing beyond it is RC_NOSPC; deleting, releasing, shrinking never is.
 * - create: an existing node is RC_EXIST if `exclusive` or of the other kind (RC_ISDIR / RC_NOTDIR
 *   when not exclusive), else the answer with fresh = 0. ACL names come from the parent.
 * - rename: see CONTRACT. Source a directory: RC_XDEV; target a directory: RC_ISDIR; source and
 *   target the same node: nothing happens. Target keeps instance, ACLs, locks and openers; if it did
 *   not exist it is created, ephemeral if the source was, with the source's openers and ACL names.
 *   Locks of the source end as at a deletion.
 * - delete: RC_NOTEMPTY, RC_ISDIR / RC_NOTDIR for the wrong kind, the root and "acl": RC_BUSY.
 *   Deleting an ephemeral directory's last child deletes it as well.
 * - content generation starts at 1 and grows by one with each set_contents, append, rename onto it.
 *   mtime = max(stamp, mtime + 1 ns). An append whose result is over the limit: RC_FBIG.
 * - acquire: the holder (session, owner) again with the same acquisition: the same answer. With a
 *   new one: a conversion; granted if no other holder is in the way. Else granted if the lock is
 *   free, or shared and `shared` is asked, and no delay stands against it (a delay left by an
 *   exclusive holder stands against both modes, by a shared one against exclusive). Not granted ->
 *   RC_BUSY_LOCK, and no result is kept if `wait` (the master queues it). Free to held: the lock
 *   generation grows by one and the fence is `index`; who joins a shared lock gets its fence.
 *   The delay of the holder is fixed here: delay_s, else the node's, else default_delay_s.
 * - grant: as acquire for its session; nothing if that session has ended or holds it by that
 *   acquisition already (then the answer is the grant's).
 * - release: frees if the holder (session, owner) has that acquisition; else nothing. Always RC_OK.
 * - cancel: holder by that acquisition: back to what its conversion found (mode and acquisition) or
 *   freed; else nothing. Always RC_OK.
 * - end_session: `expired` and `closed` of itself, or with the right nonce; the epoch of an expiry
 *   that the master decided (session 0 in the command) must be the current one, else RC_OLD_EPOCH.
 *   Its locks are freed, after a delay if `expired`; its opens end; its ephemeral nodes go with
 *   their last opener; its kept results go.
 * - delay_over: only if node, lock generation and `began` are those of the standing delay.
 * - begin_epoch: the epoch grows by one. (Not the ballot's round: two masters may share that.)
 * - create_session: a live session with that nonce is the answer; LIMIT_SESSIONS: RC_FULL. The
 *   session's number comes from the same counter as instance numbers.
 *
 * `out` is cleared first; free it with tree_outcome_free. */
enum rc tree_apply(struct tree *t, uint64_t index, struct bytes payload, struct tree_outcome *out);
void tree_outcome_free(struct tree_outcome *out);

/* ---- reads ---- */

/* Answers one READ operation from the applied tree on behalf of `session` (RC_NO_SESSION if it is
 * not live). The encoded result is appended to `result` when RC_OK. get_sequencer is answered with
 * the unsigned text and its fence: who has the key adds ":SIGNATURE" (master/sequencer.h). */
enum rc tree_read(const struct tree *t, uint64_t session, int64_t now_ns, const struct op *op,
                  struct buffer *result);

uint64_t tree_applied(const struct tree *t);
uint64_t tree_epoch(const struct tree *t);
uint64_t tree_digest(const struct tree *t); /* of all (index, payload, results) so far */

struct tree_session {
	uint64_t id;
	uint32_t lease_ms;
	bool caching;
	struct bytes nonce, principal, host; /* views into the tree */
};

/* The live session `id`, or the first one with an id greater than it; false when there is none. */
bool tree_session(const struct tree *t, uint64_t id, struct tree_session *s);
bool tree_session_after(const struct tree *t, uint64_t id, struct tree_session *s);
/* The live session that was created with this nonce, 0 if none. */
uint64_t tree_session_by_nonce(const struct tree *t, struct bytes nonce);

/* Could this acquire be granted to (session) now? RC_OK, RC_BUSY_LOCK or RC_STALE (no such node).
 * `held` tells the mode that (session, owner) holds already. */
enum rc tree_lock_probe(const struct tree *t, uint64_t session, const struct acquire *a,
                        enum lock_mode *held);
/* Does (session, owner) hold it by this acquisition? Then *g is the answer that its grant had. */
bool tree_lock_held_by(const struct tree *t, uint64_t session, uint64_t owner,
                       uint64_t acquisition, uint64_t node, struct result_acquired *g);

/* A standing lock-delay, for a master that takes office: the first one on a node greater than
 * `after`; false when there is none. */
bool tree_delay_after(const struct tree *t, uint64_t after, struct tree_note *delay);

/* "/a/b" of a node into `path`; false if it does not exist. */
bool tree_path(const struct tree *t, uint64_t node, struct buffer *path);

/* ---- persistence ---- */

/* Moves the rows changed since the last call into `changes` (an empty row list), the `meta` row with
 * the applied index among them. */
void tree_changes(struct tree *t, struct row_list *changes);

/* Gives a row read back from the store to a new tree. RC_CORRUPT when it makes no sense. */
enum rc tree_load_row(struct tree *t, const struct row *row);
/* After the last row: links what refers to each other, checks sums and counts. RC_CORRUPT with a
 * reason for people in `why` (printf'ed, bounded). */
enum rc tree_load_done(struct tree *t, char *why, size_t why_size);

#endif
