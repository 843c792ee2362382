/* The tree: the replicated state of a cell, and the deterministic function that changes it.
 *
 * tree_apply(index, entry) decides each command of a chosen log entry and answers with results and
 * with what the master has to know. It reads no clock and draws no random number: two trees that
 * applied the same entries are equal, their digests too. Reads come from memory.
 *
 * Everything that apply reads or writes is in the rows that tree_dirty_rows hands out, so a tree
 * that is loaded from its rows goes on exactly where it was. */
#ifndef LSFS_TREE_TREE_H
#define LSFS_TREE_TREE_H

#include "cell/base/setting.h"
#include "cell/tree/rows.h"
#include "cell/wire/types.h"

struct tree;

/* An empty tree: no node, index 0. A new cell's nodes (the root, /acl, /acl/admin, /acl/everyone)
 * are made by the first begin_epoch that is applied to an empty tree.
 * `cell` is the cell's name (copied), for paths in sequencers and messages. */
struct tree *tree_new(const char *cell);
void tree_free(struct tree *t);
/* Tests have sessions end in smaller parts than LIMIT_ENDING. All replicas have the same. */
void tree_set_ending(struct tree *t, size_t pieces);

/* ---- apply ---- */

/* What became of one command of the entry. Views belong to the outcome. */
struct tree_answer {
	uint64_t session, number;  /* whose request; 0, 0 for the master's own */
	enum op_code op;
	enum rc rc;
	bool replayed;             /* an answer kept from the first time: nothing changed */
	bool kept;                 /* the result is kept in case that the request comes again */
	struct bytes result;       /* encoded result of kind wire_op_result(op) */
};

/* What the master has to look at after an apply. */
enum tree_note_kind {
	TREE_LOCK_CHANGED,    /* node: its lock was freed, shared, or its delay ended */
	TREE_DELAY_BEGAN,     /* node, lock_generation, index (= began), seconds */
	TREE_LOCK_GONE,       /* node: deleted; whoever waits for its lock is answered RC_STALE */
	TREE_GRANTED,         /* node, session, owner, acquisition, lock_generation, fence */
	TREE_SESSION_CREATED, /* session */
	TREE_SESSION_ENDED,   /* session, cause: nothing of it takes effect any more */
	TREE_EPOCH_BEGAN,     /* epoch, ballot: of the begin_epoch, so that its master knows it */
	TREE_NODE_CHANGED,    /* node: contents or attributes */
	TREE_NODE_CREATED,    /* node, parent; session: that made it, of a permanent file */
	TREE_NODE_DELETED,    /* node, parent */
	TREE_MEMBERS_CHANGED, /* index: the new list's version */
	TREE_DIGEST_TOLD,     /* index, digest: what a quorum computed there */
	TREE_SETTING_CHANGED, /* setting; index: of its lowering, 0: it is not lowered */
};

struct tree_note {
	enum tree_note_kind kind;
	uint64_t node, parent, session, owner, acquisition, lock_generation, fence, index, epoch;
	uint64_t digest;
	int64_t seconds;
	uint8_t setting;
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

/* Applies the entry of slot `index`, which must be tree_applied() + 1, and which was first proposed
 * in ballot `origin` (the same at every replica; kept as part of the position). An empty payload is
 * a no-op. A payload that does not decode changes nothing but the position (every replica sees the
 * same bytes, so all agree); its outcome is empty and the return value RC_BAD_MESSAGE.
 *
 * Commands are decided one after the other; one that is refused changes nothing but what is kept of
 * its answer. The rules:
 *
 * - A session's command: the session is not live -> RC_NO_SESSION. With a number (exactly once):
 *   results below `below` are forgotten; number < the highest `below` seen -> RC_OLD_REQUEST; a
 *   kept result -> that answer again, or RC_INVAL if it was of another operation; LIMIT_NUMBERS or
 *   more beyond that `below` -> RC_INVAL. Every answer is kept but these, and RC_BUSY_LOCK of an
 *   acquire that waits.
 * - What only a master decides, asked by a session: RC_PERM. What only a session can ask (locks,
 *   ephemeral nodes), without one: RC_NO_SESSION. A read: RC_INVAL.
 * - A node named by a number that does not exist (any more): RC_STALE. A name that does not exist:
 *   RC_NOENT. A parent that is a file: RC_NOTDIR.
 * - Names of new nodes: 1..255 bytes, path <= 1,024 (RC_NAMETOOLONG), no control characters, no
 *   '/', not "." or ".." (RC_INVAL); ".cell" in the root: RC_PERM. Names that are looked up or
 *   deleted are checked for their lengths only.
 * - Quota: creating and growing beyond it is RC_NOSPC; deleting, releasing, shrinking and renaming
 *   never is. Children beyond LIMIT_LISTING: RC_FULL.
 * - create: an existing node is RC_EXIST if `exclusive` or of the other kind (RC_ISDIR / RC_NOTDIR
 *   when not exclusive), else the answer with fresh = 0; if it is an ephemeral file the session
 *   becomes an opener. ACL names come from the parent.
 * - rename: a source that is a directory: RC_XDEV; a target that is one: RC_ISDIR; target exists
 *   and `no_replace`: RC_EXIST; source and target the same node: nothing happens. The target keeps
 *   instance, ACLs, locks and openers. If it did not exist it is created, ephemeral if the source
 *   was, with the source's ACL names, lock-delay and mtime. If the target is ephemeral the
 *   source's openers are the target's too, each by the number that it opened. Locks of the source
 *   end as at a deletion.
 * - delete: RC_NOTEMPTY, RC_ISDIR / RC_NOTDIR for the wrong kind, "/acl": RC_BUSY. Deleting an
 *   ephemeral directory's last child (by whatever command) deletes it as well.
 * - An ephemeral file has LIMIT_OPENERS at most; beyond, to open it, or to rename another one with
 *   openers to it: RC_FULL.
 * - Ephemeral: a file goes with its last opener; a directory with its last child or, if it never
 *   had one, with the session that created it. make_ephemeral (RC_ISDIR for a directory) makes the
 *   session an opener. Of a permanent file another session may have open, for all that commands
 *   tell, it is RC_BUSY: unless the session has made the file in this epoch, and no other has
 *   found it by a create or renamed onto it since; or is the only one. open_ephemeral of a
 *   permanent node only tells its attributes; close_ephemeral ends what the session has opened by
 *   that number, wherever renames have brought it since, and is always RC_OK.
 * - The content generation of a file starts at 1 and grows by one with each set_contents, append,
 *   rename onto it; a directory's is 0. mtime = max(stamp, mtime + 1 ns), or the stamp
 *   if mtime is more than a day ahead of it; for a rename onto an existing file the source's, or 1
 *   ns more if that is what the target had. set_mtime changes no generation, and on a
 *   directory nothing. An append whose result is over the limit: RC_FBIG. A guarded set_contents
 *   of another generation: RC_CANCELED.
 * - set_acl: the name must be that of a file in /acl (RC_NOENT; RC_INVAL if it cannot be a name):
 *   a wrong one would lock everybody out. The ACL generation starts at 1 and grows with each.
 * - set_lock_delay, and the delays of an acquire: 0..60 s or -1 (not set), else RC_RANGE.
 * - acquire: the holder (session, owner) again with the same acquisition: the same answer. With a
 *   new one: a conversion; granted if no other holder and no delay is in the way. Else granted if
 *   the lock is free, or shared and `shared` is asked, and no delay stands against it (a delay
 *   left by an exclusive holder stands against both modes, by a shared one against exclusive). Not
 *   granted, or LIMIT_HOLDERS reached -> RC_BUSY_LOCK (the master queues it if `wait`). The lock
 *   generation grows by one from free to held and from shared to exclusive. Each new holder, and
 *   each conversion to exclusive, gets a fence of its own: `index`, or one more than the last fence
 *   given if that is not less (several commands may share an index). A conversion to shared keeps
 *   generation and fence. The delay of the holder is fixed here: delay_s, else the node's, else
 *   default_delay_s; a conversion does not shorten it.
 * - grant: as acquire for its session, and told by a note; RC_NO_SESSION if that has ended; if it
 *   holds the lock by that acquisition already, only the answer that the grant had.
 * - release: frees if the holder (session, owner) has that acquisition; else nothing. Always
 *   RC_OK.
 * - cancel: holder by that acquisition: back to what its conversion found (mode, acquisition,
 *   generation and fence) or freed; else nothing. Always RC_OK. What was found exclusive, and is
 *   shared with others by now, stays shared; if others have come and gone the generation and the
 *   fence are new.
 * - end_session: who shows the session's nonce may end it (a wrong one: RC_PERM), a session may
 *   end itself, the master any; an expiry that the master decides (session 0 in the command, no
 *   nonce) names its epoch, which must be the current one, else RC_OLD_EPOCH. From there on it is
 *   no live session. Its locks are freed, after a delay if `expired`; its opens end; what is
 *   ephemeral goes with them; its kept results go: LIMIT_ENDING of these in that order, and about
 *   as many more with each finish_session, which is RC_NO_SESSION when nothing is left.
 * - A shared lock's delay is the largest of all its holders'. If several expire one after the
 *   other the delay begins anew each time, never shorter than the one that stands: a node has one
 *   standing delay, the last that was told.
 * - delay_over: only if node, lock generation and `began` are those of the standing delay; RC_OK.
 * - begin_epoch: the epoch grows by one. (Not the ballot's round: two masters may share that.)
 *   Before the first one every other command is RC_OLD_EPOCH. If there is no list of members yet,
 *   that of the command is the first one, of version 0; one that cannot be: RC_INVAL. Likewise
 *   the settings, by the first epoch of all.
 * - set_setting: what is outside its limits, or cannot be beside the others: RC_RANGE. A promise
 *   that is lowered keeps its `longest`, since `index`; settle_setting, which names that, ends it.
 * - set_members: `version` must be that of the list it replaces (RC_CANCELED; also when there is
 *   none). RC_INVAL, unless: it is alone in its entry; ids, keys, and addresses of those not
 *   removed are unique; a new id is greater than all before, so that none is used again; an id
 *   keeps its key, and once removed stays so; at most one voter comes or goes; somebody votes;
 *   LIMIT_REPLICAS members at most. Members that the list leaves out are removed. The removed
 *   stay in the list; beyond LIMIT_MEMBERS those that were removed first are forgotten, but never
 *   the greatest id. The new list's version is `index`.
 * - check_digest: a note tells it, and the next slice (tree_slice_digest) is compared next.
 * - restore: for a copy that becomes a new cell. The epoch, the next node's number, the last fence
 *   and every generation that there is (a lock's, too, that was never held) grow by `jump`;
 *   RC_RANGE when it is 0 or one of them would overflow. Every session ends as expired; lock-delays
 *   that stand go on. There is no list of members any more.
 * - settle_epoch: nobody who was queued under an earlier master has a claim any more, if the epoch
 *   is the one that it names; else RC_OLD_EPOCH.
 * - await_session: the session's bit `awaited` is what the command says; RC_NO_SESSION.
 * - create_session: a live session with that nonce is the answer; an empty nonce: RC_INVAL;
 *   LIMIT_SESSIONS: RC_FULL. The session's number comes from the same counter as instance numbers.
 *
 * `out` is cleared first; free it with tree_outcome_free. */
enum rc tree_apply(struct tree *t, uint64_t index, struct ballot origin, struct bytes payload,
                   struct tree_outcome *out);
void tree_outcome_free(struct tree_outcome *out);
/* Makes of the copy of a cell a cell of its own, by one more entry with the operation restore:
 * whatever it counts begins far beyond what the old one can have given out. `wall_ns`: the time of
 * day. RC_RANGE when a counter is at its end. */
enum rc tree_restore(struct tree *t, int64_t wall_ns);

/* ---- reads ---- */

/* Answers one READ operation from the applied tree on behalf of `session` (RC_NO_SESSION if it is
 * not live). The encoded result is appended to `result` when RC_OK. get_sequencer is answered with
 * the unsigned text and its fence: who has the key adds ":SIGNATURE" (master/sequencer.h). A page
 * of a listing that names a first page shows the names that there were then; RC_CANCELED when that
 * was too long ago: LIMIT_REMOVED names have been removed since, or the tree was loaded. */
enum rc tree_read(const struct tree *t, uint64_t session, int64_t now_ns, const struct op *op,
                  struct buffer *result);

/* Keys are node numbers: N stands for N's attributes, contents and rights and, of a directory, for
 * its names, absences and listing. */
struct footprint {
	uint64_t *keys; /* each once, in no order */
	size_t n, room;
	bool everything; /* and all others: what it touches is not known before it is decided */
};

/* Adds what the command would touch if it were decided now as one of the session's, or what the
 * answer to the read depends on. `node` is the operation's (wire_op_node). Free it with
 * footprint_free. */
void tree_footprint(const struct tree *t, uint64_t session, const struct op *op, uint64_t node,
                    struct footprint *f);
void footprint_add(struct footprint *f, uint64_t key);
void footprint_free(struct footprint *f);

/* Does make_ephemeral by the session depend on whom the master has told of the node? Not if it is
 * no permanent file, nor if there is no other session. */
bool tree_sharing_matters(const struct tree *t, uint64_t session, uint64_t node);

/* How much there is, and of what there may be how much. */
struct result_usage tree_usage(const struct tree *t);

uint64_t tree_applied(const struct tree *t);
uint64_t tree_epoch(const struct tree *t);
uint64_t tree_digest(const struct tree *t); /* of all (index, payload, results) so far */
struct ballot tree_origin(const struct tree *t); /* of the entry applied last */
/* A digest of all that is stored of the next TREE_SLICE nodes and their locks, and of the counters:
 * it finds what changed in memory or in a file without an entry of the log. Each check_digest that
 * is applied moves the slice on, round and round through all nodes. */
uint64_t tree_slice_digest(const struct tree *t);
enum { TREE_SLICE = 64 };

/* The members of the cell, those removed too, packed: a list for a message; empty before there is
 * one. */
struct wire_list tree_members(const struct tree *t, struct buffer *packed);
/* The first one with an id above `id`; false when there is none. The views last until the next
 * apply. */
bool tree_member_after(const struct tree *t, uint8_t id, struct member *member);
/* Index of the entry that made the list; 0: the first list. */
uint64_t tree_members_version(const struct tree *t);
/* What tree_apply would answer to it now, alone in its entry. */
enum rc tree_check_members(const struct tree *t, const struct op_set_members *o);
/* Can it have come of the tree's list by changes? An id keeps its key, and who was removed stays
 * so; of a full list some of those may be forgotten. */
bool tree_members_go_on(const struct tree *t, struct wire_list list);
/* Is the principal in /acl/admin, by its name or by `*`? The empty one is nobody. */
bool tree_is_admin(const struct tree *t, struct bytes principal);

/* A setting of the cell: the value in force, and of a promise the longest one that somebody may
 * still count on. */
uint64_t tree_setting(const struct tree *t, enum setting which);
span_t tree_setting_span(const struct tree *t, enum setting which);
uint64_t tree_setting_longest(const struct tree *t, enum setting which);
/* Why it can't be set to this, into `why`; false when it can. */
bool tree_setting_refused(const struct tree *t, uint8_t code, uint64_t value, char *why,
                          size_t why_size);
/* The first promise with a code above `after` that was lowered, as the note of its change; false
 * when there is none. */
bool tree_setting_lowered_after(const struct tree *t, uint8_t after, struct tree_note *lowered);

struct tree_session {
	uint64_t id;
	bool awaited;
	enum session_end ending; /* of those that are told here: 0 */
	struct bytes nonce, principal, host; /* views into the tree */
};

/* The live session `id`, or the first one with an id greater than it; false when there is none. */
bool tree_session(const struct tree *t, uint64_t id, struct tree_session *s);
bool tree_session_after(const struct tree *t, uint64_t id, struct tree_session *s);
/* The first one of this principal with an id greater than `id`; the others cost nothing. */
bool tree_session_of_after(const struct tree *t, struct bytes principal, uint64_t id,
                           struct tree_session *s);
/* A session that ends and still has something, and why it ends; false when there is none. */
bool tree_ending(const struct tree *t, uint64_t *session, enum session_end *cause);
/* The greatest number of a session that there is, live or not; 0: there is none. */
uint64_t tree_session_last(const struct tree *t);
/* How many locks it holds. */
size_t tree_session_locks(const struct tree *t, uint64_t id);
/* Was the session's request of this number decided before? */
bool tree_request_known(const struct tree *t, uint64_t session, uint64_t number);
/* The live session that was created with this nonce, 0 if none. */
uint64_t tree_session_by_nonce(const struct tree *t, struct bytes nonce);

/* Could this acquire be granted to (session) now? RC_OK, RC_BUSY_LOCK or RC_STALE (no such node).
 * `held` tells the mode that (session, owner) holds already. */
enum rc tree_lock_probe(const struct tree *t, uint64_t session, const struct acquire *a,
                        enum lock_mode *held);
/* Does (session, owner) hold it by this acquisition? Then *g is the answer that its grant had. */
bool tree_lock_held_by(const struct tree *t, uint64_t session, uint64_t owner,
                       uint64_t acquisition, uint64_t node, struct result_acquired *g);

/* How many hold the lock. `acquisition` becomes that of (session, owner); 0: it is none of them. */
size_t tree_lock_holders(const struct tree *t, uint64_t session, uint64_t owner, uint64_t node,
                         uint64_t *acquisition);

/* May somebody who was queued under an earlier master still have a claim to the lock, though it was
 * free when this epoch began? It was freed since a master had waited for all who were queued. */
bool tree_lock_claimed(const struct tree *t, uint64_t node);
/* Was the lock held or delayed when this epoch began? By who applied the epoch's beginning. */
bool tree_lock_kept(const struct tree *t, uint64_t node);
/* How many will hold the lock, none of them exclusively, when a command has been applied; SIZE_MAX:
 * it frees nothing. A release, or cancel, by the session; */
size_t tree_lock_left(const struct tree *t, uint64_t session, const struct op_cancel *o,
                      bool cancel);
/* the end of the session, which holds it (`seen` grows by the number of owners that do); */
size_t tree_lock_left_by(const struct tree *t, uint64_t session, uint64_t node,
                         enum session_end cause, size_t *seen);
/* the end of a delay. */
size_t tree_lock_left_by_delay(const struct tree *t, uint64_t node);
/* The first node greater than `after` whose lock the session holds; false when there is none. */
bool tree_session_lock_after(const struct tree *t, uint64_t session, uint64_t after,
                             uint64_t *node);

/* The first node greater than `after` whose lock is held or delayed; false when there is none. */
bool tree_lock_after(const struct tree *t, uint64_t after, uint64_t *node);
/* A standing lock-delay, for a master that begins: the first one on a node greater than
 * `after`; false when there is none. */
bool tree_delay_after(const struct tree *t, uint64_t after, struct tree_note *delay);

/* "/a/b" of a node into `path`; false if it does not exist. */
bool tree_path(const struct tree *t, uint64_t node, struct buffer *path);

/* The first thing that should be true of every tree and is not, as a static text; NULL when all is
 * well. It walks the whole tree: for tests, the simulator, and after loading. */
const char *tree_check(const struct tree *t);

/* ---- persistence ---- */

/* How many rows have changed since the last call of tree_dirty_rows. */
size_t tree_dirty_n(const struct tree *t);
/* Appends the rows changed since the last call to `changes`, the `meta` row with the applied index
 * among them: each row once, however often it changed. Nothing when nothing was applied since. */
void tree_dirty_rows(struct tree *t, struct row_list *changes);

/* Gives a row read back from the store to a new tree. RC_CORRUPT when it makes no sense. */
enum rc tree_load_row(struct tree *t, const struct row *row);
/* After the last row: links what refers to each other, checks sums and counts. RC_CORRUPT with a
 * reason for people in `why` (printf'ed, bounded). */
enum rc tree_load_done(struct tree *t, char *why, size_t why_size);

#endif
