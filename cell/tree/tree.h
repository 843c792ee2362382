/* The tree: the replicated state of a cell, and the deterministic function that changes it.
 *
 * tree_apply(index, entry) executes each command of a chosen log entry, and returns answers for the
 * sessions and notes for the master. It reads no clock and draws no random number: two trees that
 * applied the same entries are equal, and so are their digests. Reads are answered from memory.
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
/* Frees the tree; NULL is allowed. */
void tree_free(struct tree *t);
/* For tests: a command takes at most this number of pieces away from an ended session, in place of
 * LIMIT_ENDING. All replicas need the same. */
void tree_set_ending(struct tree *t, size_t pieces);

/* The session that requests an operation, and the user of its principal for whom it acts. */
struct requester {
	uint64_t session;
	struct bytes user;     /* empty: the principal itself */
	uint8_t handle_rights; /* rights on the node of the operation, when it was opened */
};

/* The subject of a right in an ACL file: a principal or, with a user, one of its users. */
struct subject {
	struct bytes principal, user;
};

/* ---- apply ---- */

/* The answer to one command of the entry. Views belong to the outcome. */
struct tree_answer {
	uint64_t session, number; /* of the request; 0, 0: the master's own command */
	enum op_code op;
	enum rc rc;
	bool replayed;  /* an answer kept from the first time: nothing changed */
	bool kept;      /* for the case that the request is received again */
	uint64_t index; /* of the entry to which it was given first */
	enum result_kind kind;
	struct bytes result; /* encoded, of this kind; of no length unless `rc` is RC_OK */
	/* The node whose attributes it has, 0: none, and the rights with which a handle may be
	 * opened by them. */
	uint64_t shows;
	uint8_t rights;
};

/* The changes that the master has to look at after an apply. */
enum tree_note_kind {
	TREE_LOCK_CHANGED,      /* node: its lock was freed, shared, or its delay ended */
	TREE_DELAY_BEGAN,       /* node, lock_generation, index (= began), seconds */
	TREE_TTL_BEGAN,         /* node, generation, index, seconds; 0 if it has none any more */
	TREE_LOCK_GONE,         /* node: deleted; waiters for its lock are answered RC_STALE */
	TREE_GRANTED,           /* node, session, owner, acquisition, lock_generation, fence */
	TREE_SESSION_CREATED,   /* session */
	TREE_SESSION_ENDED,     /* session, cause: nothing of it takes effect any more */
	TREE_EPOCH_BEGAN,       /* epoch; ballot, former, name (why): of the begin_epoch */
	TREE_LOCK_LOST,         /* node, session, owner, acquisition: to an operator */
	TREE_LOCK_TAKEN,        /* node, session, lock_generation: by a new acquisition */
	TREE_NODE_CHANGED,      /* node, parent, name; generation: of new contents, else 0 */
	TREE_NODE_CREATED,      /* node, parent, name */
	TREE_NODE_DELETED,      /* node, parent, name; path, acl_read: what it had */
	TREE_MEMBERS_CHANGED,   /* index: the new list's version */
	TREE_DIGEST_CHECKED,    /* index, digest: as a quorum has computed it there */
	TREE_SETTING_CHANGED,   /* setting; index: of its lowering, 0: it is not lowered */
	TREE_PRINCIPAL_REMOVED, /* name, principal: its generation; its sessions are to end */
};

struct tree_note {
	enum tree_note_kind kind;
	uint64_t node, parent, session, owner, acquisition, lock_generation, fence, index, epoch;
	uint64_t digest, generation, principal;
	struct bytes name, path, acl_read; /* owned by the outcome */
	int64_t seconds;
	uint8_t setting;
	enum end_cause cause;
	struct ballot ballot;
	uint8_t former;
};

struct tree_outcome {
	struct tree_answer *answers;
	size_t answers_n, answers_room;
	struct tree_note *notes;
	size_t notes_n, notes_room;
	size_t rows;           /* that tree_dirty_rows will list because of this entry */
	struct buffer results; /* to which the answers' views refer */
};

/* Applies the entry of slot `index`, which must be tree_applied() + 1, and which was first proposed
 * in ballot `origin` (the same at every replica; kept as part of the position). An empty payload is
 * a no-op. A payload that does not decode changes nothing but the position (every replica sees the
 * same bytes, so all agree); its outcome is empty and the return value RC_BAD_MESSAGE.
 *
 * Commands are executed one after the other; one that is refused changes nothing but the kept
 * answers. The rules:
 *
 * - A session's command: the session is not live -> RC_NO_SESSION. With a number (exactly once):
 *   results below `below` are forgotten; number < the highest `below` seen -> RC_OLD_REQUEST; a
 *   kept result -> that answer again, or RC_INVAL if it was of another operation; LIMIT_NUMBERS or
 *   more beyond that `below` -> RC_INVAL. Every answer is kept but these, and RC_BUSY_LOCK of an
 *   acquire that waits.
 * - An operation of the master's own, asked by a session: RC_PERM. One that needs a session (locks,
 *   ephemeral nodes), without one: RC_NO_SESSION. A read: RC_INVAL.
 * - A command that needs a right which its subject (the session's principal, or the user of it that
 *   the command names) has not: RC_ACCES (tree_missing), before all that follows but what does not
 *   exist.
 * - A node named by a number that does not exist (any more): RC_STALE. A name that does not exist:
 *   RC_NOENT. A parent that is a file: RC_NOTDIR.
 * - Names of new nodes: 1..255 bytes, path <= 1,024 (RC_NAMETOOLONG), no control characters, no
 *   '/', not "." or ".." (RC_INVAL); ".cell" in the root: RC_PERM. Names that are looked up or
 *   deleted are checked for their lengths only.
 * - A bounded command names all nodes that it may change (tree_changes): if others would change,
 *   RC_AGAIN, which is not kept, and nothing has happened. But end_session and finish_session
 *   delete those ephemeral nodes whose deletion changes only nodes that they name, and leave the
 *   rest to the next finish_session.
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
 * - delete: RC_NOTEMPTY, RC_ISDIR / RC_NOTDIR for the wrong kind, "/acl" and "/acl/admin": RC_BUSY,
 *   as to rename the latter. Contents of /acl/admin that name no principal which exists, nor `*`:
 *   RC_INVAL. RC_BUSY, too, as to rename it to another name, while another session holds the node's
 *   lock or its lock-delay runs, unless /acl/admin names the subject; a close or the end of a
 *   session deletes its ephemeral nodes all the same. Deleting an ephemeral directory's last child
 *   (by whatever command) deletes it as well.
 * - An ephemeral file has LIMIT_OPENERS at most; beyond, to open it, or to rename another one with
 *   openers to it: RC_FULL. A session opens LIMIT_SESSION_OPENS at most; beyond, to open another
 *   one or to make it: RC_FULL.
 * - Ephemeral: a file is deleted with its last opener; a directory with its last child or, if it
 *   never had one, with the session that created it. make_ephemeral (RC_ISDIR for a directory)
 *   makes the session an opener, and no other one: the tree does not know who has a permanent file
 *   open. It is RC_BUSY for a permanent ACL file: all that it grants would go with its last close.
 *   open_ephemeral of a permanent node only answers with its attributes; close_ephemeral ends the
 *   open of that number, wherever renames have brought the file since, and is always RC_OK.
 * - The content generation of a file starts at 1 and grows by one with each set_contents, append,
 *   rename onto it; a directory's is 0. mtime = max(stamp, mtime + 1 ns), or the stamp if mtime is
 *   more than a day ahead of it; for a rename onto an existing file the source's, or 1 ns more if
 *   the target had the same. set_mtime changes no generation, and on a directory nothing. An append
 *   whose result is over the limit: RC_FBIG. A guarded set_contents of another generation:
 *   RC_CANCELED.
 * - ctime = max(stamp, ctime + 1 ns), with the same exception, at each change of contents, mtime,
 *   ACL names, lock-delay or ephemeral. A new target of a rename has a later one than the source
 *   had. Locks, and names in a directory, leave it as it is.
 * - set_acl: the name must be that of a file in /acl (RC_NOENT; RC_INVAL if it cannot be a name): a
 *   wrong one would take the right from every session. The ACL generation starts at 1 and grows
 *   with each.
 * - set_lock_delay, and the delays of an acquire: 0..60 s or -1 (not set), else RC_RANGE.
 * - set_lock_slots: 0 (any number of holders shares the lock) to LIMIT_SLOTS, else RC_RANGE. The
 *   holders that there are keep the lock.
 * - set_ttl: of a file (RC_ISDIR) that is none of /acl (RC_BUSY), 0 (none) to LIMIT_TTL_S, else
 *   RC_RANGE. The time to live begins with it, and again with each set_contents, append, set_mtime
 *   and rename onto the file. A rename that creates the target gives it the source's, from then on.
 * - expire: only if it names the last renewal, and the content generation that the file had then;
 *   the file is deleted like an ephemeral one, whoever holds its lock; RC_OK.
 * - acquire: the holder (session, owner) again with the same acquisition: the same answer. With a
 *   new one: a conversion; granted if no other holder and no delay is in the way. Else granted if
 *   the lock is free, or shared and `shared` is asked, and no delay stands against it (a delay left
 *   by an exclusive holder stands against both modes, by a shared one against exclusive). Not
 *   granted, no slot or LIMIT_HOLDERS reached -> RC_BUSY_LOCK (the master queues it if `wait`),
 *   LIMIT_SESSION_LOCKS reached -> RC_FULL. The lock generation grows by one from free to held and
 *   from shared to exclusive. Each new holder, and each conversion to exclusive, gets a fence of
 *   its own: `index`, or one more than the last fence given if that is not less (several commands
 *   may share an index). A conversion to shared keeps generation and fence. The delay of the
 *   holder is fixed here: delay_s, else the node's, else default_delay_s; a conversion does not
 *   shorten it.
 * - grant: as acquire for its session and user, and a note is made of it; RC_NO_SESSION if that
 *   session has ended; if it holds the lock by that acquisition already, only the answer that the
 *   grant had.
 * - release: frees if the holder (session, owner) has that acquisition; else nothing. RC_OK, or
 *   RC_STALE when the node is gone and the lock with it.
 * - cancel: a holder by that acquisition is again as its conversion found it (mode, acquisition,
 *   generation and fence), or its lock is freed; else nothing. Always RC_OK. A holder that was
 *   exclusive, and shares the lock with others by now, stays shared; if others have come and gone
 *   the generation and the fence are new.
 * - transaction: conditions, then operations, then perhaps `else` and others; another form, a
 *   path that is none, an operation that is not allowed: RC_INVAL. More than LIMIT_TRANSACTION
 *   operations or conditions, or LIMIT_TOUCHED nodes: RC_FULL; contents of more than LIMIT_CONTENTS
 *   in all: RC_FBIG. The conditions are looked at in order, then the operations of one part are
 *   executed in order, each by its own rules and rights, and sees what those before it have done.
 *   When one is refused nothing has happened, and the answer (RC_OK) names it. A create is
 *   exclusive and permanent; a rename of or onto an ephemeral file is RC_BUSY; an acquire takes a
 *   free lock exclusively, for which no grant stands before it in the entry, or is RC_BUSY_LOCK.
 *   Rights of a handle do not count.
 * - end_session: a command that names the session's nonce may end it (a wrong one: RC_PERM), a
 *   session may end itself, the master any; an expiry that the master decides (session 0 in the
 *   command, no nonce) names its epoch, which must be the current one, else RC_OLD_EPOCH. From
 *   there on the session is not live. Its locks are freed, after a delay if `expired`; its opens
 *   end; ephemeral nodes are deleted with them; its kept results go: LIMIT_ENDING of these in that
 *   order, and about as many more with each finish_session, which is RC_NO_SESSION when nothing is
 *   left.
 * - The delay of a shared lock is the largest of all its holders'. If several expire one after the
 *   other the delay begins again each time, never shorter than the one that stands: a node has one
 *   standing delay, the last that was noted.
 * - delay_over: only if node, lock generation and `began` are those of the standing delay; RC_OK.
 * - begin_epoch: the epoch grows by one. (Not the ballot's round: two masters may share that.)
 *   Before the first one every other command is RC_OLD_EPOCH. If there is no list of members yet,
 *   that of the command is the first one, of version 0; an impossible one: RC_INVAL. The first
 *   epoch of all brings the settings likewise. Whenever there was no list of members (a cell that
 *   is new or restored), the key becomes that of the principal `admin`; one that another principal
 *   has: RC_INVAL.
 * - add_principal: there with that key: RC_OK; the name or the key is in use: RC_EXIST;
 *   LIMIT_PRINCIPALS: RC_FULL. Its generation is `index`.
 * - remove_principal: RC_NOENT; RC_PERM when no administrator would be left that /acl/admin
 *   names. Its sessions stay until the master ends them, but with no right.
 * - purge_name: takes the name, and its users, out of the first ACL files that have it: repeated
 *   until tree_acl_naming finds none. RC_INVAL: no principal's name; RC_EXIST: that of one that
 *   there is.
 * - rekey_principal: of an administrator (RC_NOENT, RC_PERM), whose key is replaced, and whose
 *   generation is then `index`: its sessions are as those of a removed one. The key of another
 *   principal: RC_EXIST.
 * - set_setting: a value outside its limits, or one that contradicts the others: RC_RANGE. A
 *   promise that is lowered keeps its `longest`, since `index`; settle_setting, which names that
 *   index, ends it.
 * - lengthen_promise: the `longest` of a promise grows beyond its value, since `index`, likewise.
 *   RC_RANGE when it is no promise, or the length not between its value and its limit.
 * - set_members: `version` must be that of the list it replaces (RC_CANCELED; also when there is
 *   none). RC_INVAL, unless: it is alone in its entry; ids, keys, and addresses of those not
 *   removed are unique; a new id is greater than all before, so that none is used again; an id
 *   keeps its key, and once removed stays so; at most one member gets or loses its vote; there is a
 *   voter; LIMIT_REPLICAS members at most. Members that the list leaves out are removed. The
 *   removed stay in the list; beyond LIMIT_MEMBERS those that were removed first are forgotten, but
 *   never the greatest id. The new list's version is `index`.
 * - rotate_key: the newest signing key already: RC_OK; `former` is not the newest one: RC_CANCELED;
 *   not two different keys: RC_INVAL. With `lost`, RC_CANCELED unless that is the newest one and
 *   `former` the one before it, which stays in force while the lost one goes.
 * - check_digest: a note is made of it, and the next slice (tree_slice_digest) is compared next.
 * - restore: for a copy that becomes a new cell. The epoch, the next node's number, the last fence
 *   and every generation that there is (a lock's, too, that was never held) grow by `jump`;
 *   RC_RANGE when it is 0 or one of them would overflow. Every session ends as expired; lock-delays
 *   that stand go on. There is no list of members any more, and no signing key was rotated.
 * - settle_epoch: no waiter of an earlier master has a claim any more, if the current epoch is the
 *   one that it names; else RC_OLD_EPOCH.
 * - await_session: sets the session's bit `awaited`; RC_NO_SESSION.
 * - create_session: a live session with that nonce is the answer; an empty nonce: RC_INVAL; the
 *   principal is not (any more) the one of that generation: RC_PERM; LIMIT_SESSIONS: RC_FULL. The
 *   session's number comes from the same counter as instance numbers.
 *
 * `out` is cleared first; free it with tree_outcome_free. */
enum rc tree_apply(struct tree *t, uint64_t index, struct ballot origin, struct bytes payload,
                   struct tree_outcome *out);
/* Frees what the outcome owns, and clears it. */
void tree_outcome_free(struct tree_outcome *out);
/* Makes of the copy of a cell a cell of its own, by one more entry with the operation restore:
 * every counter begins far beyond all numbers that the old cell can have given out. `wall_ns`: the
 * time of day. RC_RANGE when a counter is at its end. */
enum rc tree_restore(struct tree *t, int64_t wall_ns);

/* ---- reads ---- */

/* Answers one READ operation from the applied tree for the requester (RC_NO_SESSION if its session
 * is not live). *r is the result if RC_OK, and what is missing if RC_ACCES; its views lead into the
 * tree and into `scratch`, to which they are appended. get_sequencer is answered with the unsigned
 * text and its fence; the master adds ":SIGNATURE" (master/sequencer.h). A page of a listing that
 * names a first page shows the names that there were then; RC_CANCELED when that was too long ago:
 * LIMIT_REMOVED names have been removed since, or the tree was loaded. */
enum rc tree_read(const struct tree *t, const struct requester *who, int64_t now_ns,
                  const struct op *op, struct result *r, struct buffer *scratch);

/* Keys are node numbers: N stands for N's attributes, contents and rights and, of a directory, for
 * its names, absences and listing. KEY_RIGHTS stands for /acl and all ACL files: every answer that
 * shows rights depends on it, and commands that change these change it. */
#define KEY_RIGHTS (UINT64_MAX - 1)
struct footprint {
	uint64_t *keys; /* each once, in no order */
	size_t n, room;
	bool everything; /* and all other nodes: which ones is not known before apply */
};

/* Adds the nodes that the command would touch if it were executed now as one of the session's.
 * `node` is the operation's (wire_op_node). Free it with footprint_free. */
void tree_footprint(const struct tree *t, uint64_t session, const struct op *op, uint64_t node,
                    struct footprint *f);
/* Adds the nodes on which the answer to the read depends. */
void tree_read_footprint(const struct tree *t, const struct op *op, uint64_t node,
                         struct footprint *f);
/* Adds the nodes that the command would change if it were executed now as one of the requester's
 * (session 0: the master's own), in ascending order: those of which cached answers would be wrong
 * then. A command that would be refused changes none, nor do locks and opens. An end_session or
 * finish_session changes the nodes of its part, and perhaps not all of these. `f` is empty. */
void tree_changes(const struct tree *t, const struct requester *who, const struct op *op,
                  uint64_t node, struct footprint *f);
/* Adds the nodes whose locks the operations of a transaction would take, as their paths lead now.
 */
void tree_transaction_locks(const struct tree *t, const struct op_transaction *o,
                            struct footprint *f);
/* Adds a key, unless it is there. */
void footprint_add(struct footprint *f, uint64_t key);
/* Frees the keys, and clears the footprint. */
void footprint_free(struct footprint *f);

/* True if so little of the quota of bytes is left that several clients may use it up together
 * within a moment. */
bool tree_is_scarce(const struct tree *t);
/* The usage of the cell, and its quota. */
struct result_usage tree_usage(const struct tree *t);

/* Index of the entry applied last; 0: none. */
uint64_t tree_applied(const struct tree *t);
/* The current epoch; 0 if none has begun. */
uint64_t tree_epoch(const struct tree *t);
/* A digest of all (index, payload, results) so far. */
uint64_t tree_digest(const struct tree *t);
/* The ballot in which the entry applied last was first proposed. */
struct ballot tree_origin(const struct tree *t);
/* A digest of all that is stored of the next TREE_SLICE nodes and their locks, and of the counters:
 * it shows a change in memory or in a file that no entry of the log made. Each check_digest that is
 * applied moves the slice on, round and round through all nodes. */
uint64_t tree_slice_digest(const struct tree *t);
enum { TREE_SLICE = 64 };

/* The members of the cell, those removed too, packed: a list for a message; empty before there is
 * one. */
struct wire_list tree_members(const struct tree *t, struct buffer *packed);
/* The first member with an id above `id`; false when there is none. The views are valid until the
 * next apply. */
bool tree_member_after(const struct tree *t, uint8_t id, struct member *member);
/* True if a member, not a removed one, has this key. */
bool tree_has_member_key(const struct tree *t, struct bytes key);
/* Index of the entry that made the list; 0: the first list. */
uint64_t tree_members_version(const struct tree *t);
/* The answer of tree_apply to this operation now, alone in its entry. */
enum rc tree_check_members(const struct tree *t, const struct op_set_members *o);
/* True if changes can have made this list of the tree's: an id keeps its key, and a removed member
 * stays removed; from a full list some of these may be missing. */
bool tree_members_go_on(const struct tree *t, struct wire_list list);
/* The first right that the operation needs and the requester has not (tree/permission.c), for which
 * it is refused with RC_ACCES; node 0 if none is missing. Nodes that do not exist, and the master's
 * own commands, need none. */
struct result_refused tree_missing(const struct tree *t, const struct requester *who,
                                   const struct op *op);
/* True if no right is missing. */
bool tree_permits(const struct tree *t, const struct requester *who, const struct op *op);

struct tree_principal {
	uint64_t generation;    /* greater than that of any earlier one of its name */
	struct bytes name, key; /* views into the tree */
};

/* The principal of this name; false when there is none. */
bool tree_principal(const struct tree *t, struct bytes name, struct tree_principal *p);
/* The principal that has this key; false when there is none. */
bool tree_principal_of_key(const struct tree *t, struct bytes key, struct tree_principal *p);
/* The first principal with a name greater than `name`; false when there is none. */
bool tree_principal_after(const struct tree *t, struct bytes name, struct tree_principal *p);
/* The answer of tree_apply to this add_principal, remove_principal or rekey_principal now. */
enum rc tree_check_principal(const struct tree *t, const struct op *op);
/* The first ACL file by name, after that of the name `after` if there is one, that names the
 * principal, a user of it or all of them; empty if none does. A view until the next apply. */
struct bytes tree_acl_naming(const struct tree *t, struct bytes principal, struct bytes after);
/* True if there is such a principal, and /acl/admin names it or `*`. */
bool tree_is_admin(const struct tree *t, struct bytes principal);
/* True if the principal may have lasting sessions, whose locks are granted to other sessions only
 * after an operator's command: it is an administrator, or /acl/lasting names it or `*`. */
bool tree_may_last(const struct tree *t, struct bytes principal);

/* The public signing keys in force, the newest and the one before it, one after the other; empty
 * until the cell's key is rotated for the first time. A view, valid until the next apply. */
struct bytes tree_signing_keys(const struct tree *t);
/* Index of the entry that rotated the key last; 0 if none has. */
uint64_t tree_signing_since(const struct tree *t);

/* The value in force of a setting of the cell, in the setting's unit. */
uint64_t tree_setting(const struct tree *t, enum setting which);
/* The same as a span, of a setting that is a time. */
span_t tree_setting_span(const struct tree *t, enum setting which);
/* The longest value of a promise on which a client may still count. */
uint64_t tree_setting_longest(const struct tree *t, enum setting which);
/* True if the setting cannot have this value; `why` says so to people. */
bool tree_setting_refused(const struct tree *t, uint8_t code, uint64_t value, char *why,
                          size_t why_size);
/* The first promise with a code above `after` that was lowered, as the note of its change; false
 * when there is none. */
bool tree_setting_lowered_after(const struct tree *t, uint8_t after, struct tree_note *lowered);

struct tree_session {
	uint64_t id;
	bool awaited;
	bool lasting;          /* it never expires: its client or an operator ends it */
	enum end_cause ending; /* of a live one: 0 */
	struct bytes nonce, principal, host; /* views into the tree */
	uint64_t principal_generation;
};

/* The live session `id`; false when there is none. */
bool tree_session(const struct tree *t, uint64_t id, struct tree_session *s);
/* The first live session with an id greater than `id`; false when there is none. */
bool tree_session_after(const struct tree *t, uint64_t id, struct tree_session *s);
/* The same among the sessions of this principal; those of others cost nothing. */
bool tree_session_of_after(const struct tree *t, struct bytes principal, uint64_t id,
                           struct tree_session *s);
/* A session that has ended and still has something, and why it ended; false when there is none. */
bool tree_ending(const struct tree *t, uint64_t *session, enum end_cause *cause);
/* The greatest id of a session, live or ended; 0 if there is none. */
uint64_t tree_session_last(const struct tree *t);
/* How many sessions there are, live or ended. */
size_t tree_sessions(const struct tree *t);
/* How many locks the session holds. */
size_t tree_session_locks(const struct tree *t, uint64_t id);
/* True if the session's request of this number was executed before. */
bool tree_request_known(const struct tree *t, uint64_t session, uint64_t number);
/* The live session that was created with this nonce, 0 if none. */
uint64_t tree_session_by_nonce(const struct tree *t, struct bytes nonce);

/* RC_OK if this acquire of the session could be granted now, RC_BUSY_LOCK, or RC_STALE (no such
 * node). *held becomes the mode in which (session, owner) holds the lock already. */
enum rc tree_lock_probe(const struct tree *t, uint64_t session, const struct acquire *a,
                        enum lock_mode *held);
/* True if a holder of the session (0: any) has the node's lock by this fence or an earlier one. */
bool tree_lock_holder(const struct tree *t, uint64_t node, uint64_t session, uint64_t fence);
/* True if (session, owner) holds the lock by this acquisition: *g is the answer that its grant
 * had. */
bool tree_lock_held_by(const struct tree *t, uint64_t session, uint64_t owner, uint64_t acquisition,
                       uint64_t node, struct result_acquired *g);

/* The number of holders of the lock. *acquisition becomes that of (session, owner); 0: it is not
 * among them. */
size_t tree_lock_holders(const struct tree *t, uint64_t session, uint64_t owner, uint64_t node,
                         uint64_t *acquisition);

/* True if the number of holders that share the node's lock is limited by its slots. */
bool tree_lock_counts(const struct tree *t, uint64_t node);
/* How many more may share the lock if it has `holders`, SIZE_MAX: as many as it has now. A delay
 * that stands keeps the slots of those that left it. */
size_t tree_lock_room(const struct tree *t, uint64_t node, size_t holders);

/* True if a waiter of an earlier master may still have a claim to the lock, though it was free when
 * this epoch began: it was freed since the last barrier at which a master knew all waiters. */
bool tree_lock_claimed(const struct tree *t, uint64_t node);
/* True if the lock was held or delayed when this epoch began, and this tree applied that. */
bool tree_lock_kept(const struct tree *t, uint64_t node);
/* The number of holders, none of them exclusive, when a command has been applied; SIZE_MAX: it
 * frees nothing. The command is a release, or cancel, by the session. */
size_t tree_lock_left(const struct tree *t, uint64_t session, const struct op_cancel *o,
                      bool cancel);
/* The same of the end of the session, which holds the lock; *seen grows by its holders. */
size_t tree_lock_left_by(const struct tree *t, uint64_t session, uint64_t node,
                         enum end_cause cause, size_t *seen);
/* The same of the end of a lock-delay. */
size_t tree_lock_left_by_delay(const struct tree *t, uint64_t node);
/* The lock of a node, with its holders, as `get_queue` is answered to the subject; its views are as
 * those of tree_read. RC_STALE: there is no such node. */
enum rc tree_read_queue(const struct tree *t, const struct subject *who, uint64_t node,
                        int64_t now_ns, struct result *r, struct buffer *scratch);

/* The first node greater than `after` whose lock the session holds; false when there is none. */
bool tree_session_lock_after(const struct tree *t, uint64_t session, uint64_t after,
                             uint64_t *node);

/* NULL while the acquisition that the guard names is held; else why it is not. */
const char *tree_guard_stale(const struct tree *t, const struct guard *g);

/* The first node greater than `after` whose lock is held or delayed; false when there is none. */
bool tree_lock_after(const struct tree *t, uint64_t after, uint64_t *node);
/* The first lock-delay that stands on a node greater than `after`, as the note of its beginning,
 * for a new master; false when there is none. */
bool tree_delay_after(const struct tree *t, uint64_t after, struct tree_note *delay);

/* The same of the files with a time to live, as the note of the last renewal. */
bool tree_ttl_after(const struct tree *t, uint64_t after, struct tree_note *ttl);

/* The directory of the node, and its name there, a view, as it is, or was when the entry `index`
 * had been applied; false for the root, and when there was no such node. */
bool tree_name_at(const struct tree *t, uint64_t node, uint64_t index, uint64_t *parent,
                  struct bytes *name);
/* The name of the ACL file that says who may read the node or, when it is gone, could; a view, and
 * empty when it is not in the history any more. */
struct bytes tree_acl_read(const struct tree *t, uint64_t node);
/* True if the subject may read the node or, when it is gone, could; false when it is not in the
 * history any more. */
bool tree_may_read(const struct tree *t, const struct requester *who, uint64_t node);
/* True if the node exists. */
bool tree_has_node(const struct tree *t, uint64_t node);
/* The generation of the node's contents; 0: it is a directory, or does not exist. */
uint64_t tree_content_generation(const struct tree *t, uint64_t node);
/* Appends the path of a node ("/a/b") to `path`; false if the node does not exist. */
bool tree_path(const struct tree *t, uint64_t node, struct buffer *path);

/* Changes of entries up to this index may be missing in the history. */
uint64_t tree_compacted(const struct tree *t);
/* The number of the last change of the history that an entry up to this index made. */
uint64_t tree_change_number(const struct tree *t, uint64_t index);
/* The first change of the history with a greater number than *number, which becomes its number;
 * without the path. False: none. For the master: others read what a subject may see. */
bool tree_change_after(const struct tree *t, uint64_t *number, struct past_change *c);

/* The first invariant that the tree violates, as a static text; NULL: none. It walks the whole
 * tree: for tests, the simulator, and after loading. */
const char *tree_check(const struct tree *t);

/* ---- persistence ---- */

/* Appends the rows changed since the last call to `changes`, the `meta` row with the applied index
 * among them: each row once, however often it changed. Appends none when no entry was applied
 * since. */
void tree_dirty_rows(struct tree *t, struct row_list *changes);

/* Loads a row, as read from the store, into a new tree. RC_CORRUPT when it makes no sense. */
enum rc tree_load_row(struct tree *t, const struct row *row);
/* After the last row: links the objects with each other, checks sums and counts. RC_CORRUPT with a
 * reason for people in `why`. */
enum rc tree_load_done(struct tree *t, char *why, size_t why_size);

#endif
