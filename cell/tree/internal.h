/* Inside the tree: its objects, how they refer to each other, and what the files of this folder
 * call in each other.
 *
 *   tree --> nodes (by number) --> children (by name)      sessions (by number, by nonce)
 *              |                                              |
 *              +--> openers (by session, opened) <-- same --->+ openers (by opened)
 *              `--> lock --> holders (by session, owner) <--->+ holders (by node, owner)
 *                                                             `--> kept results (by number)
 *
 * Every object owns its texts and contents. All orders are orders of values, never of addresses, so
 * that replicas walk in step. Whoever changes what a row shows calls the changed_* for it. */
#ifndef LSFS_TREE_INTERNAL_H
#define LSFS_TREE_INTERNAL_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/tree/tree.h"
#include "cell/wire/codec.h"

/* Bytes that a node costs beyond its contents: without them, empty files would be free of
 * charge. */
enum { QUOTA_NODE_BYTES = 256 };

struct session;
struct lock;

struct node {
	RB_ENTRY(node) in_tree;    /* by number */
	RB_ENTRY(node) in_parent;  /* by name */
	RB_ENTRY(node) in_creator; /* by number */
	uint64_t number, parent_number;
	struct node *parent; /* NULL: the root */
	struct bytes name;
	enum node_kind kind;
	bool ephemeral;
	struct session *creator; /* of an ephemeral directory that never had a child; else NULL */
	uint64_t maker; /* session that made the file, while no other can have opened it by a
	                 * command; else 0 */
	int64_t mtime_ns;
	uint64_t content_generation, lock_generation, acl_generation, checksum;
	struct bytes acl[ACL_NAMES];
	int64_t lock_delay_s; /* -1: not set */
	struct bytes contents;
	RB_HEAD(children, node) children;
	uint64_t children_n;
	RB_HEAD(node_openers, opener) openers;
	size_t openers_n;
	struct lock *lock; /* NULL: free, and no delay stands */
	uint64_t freed_epoch; /* when it became so for the last time; 0: it never was otherwise */
	uint64_t kept_epoch;  /* in which it was freed that an earlier one had left; not stored */
	struct removed_from *removed; /* NULL: nothing that is known */
};

/* A name that a directory does not have any more. */
struct removed {
	RB_ENTRY(removed) in_directory; /* by name, number */
	TAILQ_ENTRY(removed) in_order;  /* by index */
	struct removed_from *from;
	struct bytes name;
	uint64_t number;
	enum node_kind kind;
	uint64_t index; /* of the entry that removed it */
};

/* Those of one directory. When that goes they stay until their turn comes: they may be many. */
struct removed_from {
	RB_HEAD(removed_names, removed) names;
	bool gone; /* the directory is */
};

/* A session that has an ephemeral file open. Its close names the number by which it has opened the
 * file: of renames by others it does not know. */
struct opener {
	RB_ENTRY(opener) in_node;    /* by session, opened */
	RB_ENTRY(opener) in_session; /* by opened */
	uint64_t opened; /* the node's number, or that of one which was renamed to it and is gone */
	struct node *node;
	struct session *session;
};

struct lock_delay {
	enum lock_mode mode;  /* of the holder that left it; LOCK_NONE: no delay stands */
	uint64_t began;       /* log index of the command that began it */
	uint64_t generation;  /* lock generation at that time */
	int64_t seconds;
};

struct lock {
	RB_ENTRY(lock) in_tree;    /* by node */
	RB_ENTRY(lock) in_delayed; /* by node, while a delay stands */
	struct node *node;
	uint64_t epoch; /* in which it was no longer free, or an earlier one; not stored */
	uint64_t fence; /* the last one given on it */
	struct lock_delay delay;
	RB_HEAD(lock_holders, holder) holders;
	TAILQ_HEAD(holders_in_order, holder) in_order; /* by place */
	size_t holders_n;
	uint16_t delays[LIMIT_LOCK_DELAY_S + 1]; /* how many holders have this lock-delay */
};

struct holder {
	RB_ENTRY(holder) in_lock;    /* by session, owner */
	RB_ENTRY(holder) in_session; /* by node, owner */
	TAILQ_ENTRY(holder) in_order;
	struct lock *lock;
	struct session *session;
	uint64_t owner, acquisition, place;
	uint64_t generation, fence; /* as this acquisition got them */
	enum lock_mode mode;
	int64_t delay_s;
	/* What the last conversion found; mode LOCK_NONE: there was none. */
	uint64_t earlier_acquisition, earlier_generation, earlier_fence;
	enum lock_mode earlier_mode;
	int64_t since_ns;
	uint32_t pid;
};

/* The answer to a numbered request, kept in case that the request comes again. */
struct cached_reply {
	RB_ENTRY(cached_reply) in_session; /* by number */
	uint64_t number;
	enum op_code op;
	enum rc rc;
	struct bytes result;
};

/* One that ends is found by its id alone; what it still has goes part by part. */
struct session {
	RB_ENTRY(session) in_tree;  /* by id */
	RB_ENTRY(session) by_nonce;
	RB_ENTRY(session) by_principal; /* and by id */
	RB_ENTRY(session) in_endings;   /* by id */
	uint64_t id;
	enum session_end ending; /* 0: it is live */
	struct bytes nonce, principal, host;
	bool awaited;   /* a new master waits for it: it may cache, or waits for a lock */
	uint64_t below; /* replies to all numbers below this have arrived */
	RB_HEAD(session_openers, opener) openers;
	RB_HEAD(session_holders, holder) holders;
	size_t holders_n;
	RB_HEAD(session_directories, node) directories; /* whose creator it is */
	RB_HEAD(session_replies, cached_reply) replies;
	size_t replies_n;
};

/* A member's place in the list; who was removed keeps it for a while. */
struct member_row {
	struct member member; /* owns its texts */
	uint64_t since;       /* log index of the list that gave it its role */
};

/* What may still be promised of a setting. */
struct lowered {
	uint64_t longest;
	uint64_t since; /* log index of the lowering; 0: it is the value in force */
};

/* A row to be written: which one. What it holds is looked up when rows are asked for. */
struct dirty_row {
	RB_ENTRY(dirty_row) in_tree; /* by table and key */
	enum row_table table;
	uint64_t key[3];
};

RB_HEAD(nodes, node);
RB_HEAD(locks, lock);
RB_HEAD(delayed_locks, lock);
RB_HEAD(sessions, session);
RB_HEAD(nonces, session);
RB_HEAD(principals, session);
RB_HEAD(endings, session);
RB_HEAD(dirty_rows, dirty_row);

RB_PROTOTYPE(nodes, node, in_tree, )
RB_PROTOTYPE(children, node, in_parent, )
RB_PROTOTYPE(removed_names, removed, in_directory, )
RB_PROTOTYPE(session_directories, node, in_creator, )
RB_PROTOTYPE(node_openers, opener, in_node, )
RB_PROTOTYPE(session_openers, opener, in_session, )
RB_PROTOTYPE(locks, lock, in_tree, )
RB_PROTOTYPE(delayed_locks, lock, in_delayed, )
RB_PROTOTYPE(lock_holders, holder, in_lock, )
RB_PROTOTYPE(session_holders, holder, in_session, )
RB_PROTOTYPE(sessions, session, in_tree, )
RB_PROTOTYPE(nonces, session, by_nonce, )
RB_PROTOTYPE(principals, session, by_principal, )
RB_PROTOTYPE(session_replies, cached_reply, in_session, )
RB_PROTOTYPE(dirty_rows, dirty_row, in_tree, )

/* A command of an entry, decoded, with its operation's columns of the schema. */
struct tree_command {
	struct command command;
	struct op op;
	enum op_class class;
	enum result_kind result;
};

struct tree_commands {
	struct tree_command *list;
	size_t n, room;
};

struct tree {
	char *cell;
	uint64_t applied, epoch, digest;
	uint64_t settled_epoch; /* the last one whose barrier has fallen */
	struct ballot origin; /* of the entry applied last */
	uint64_t next_node;  /* the next instance number or session id */
	uint64_t epoch_node; /* it, when the epoch began */
	uint64_t last_fence;
	uint64_t nodes_n, bytes;
	struct settings settings; /* all given */
	struct lowered lowered[SETTING_CODES];
	size_t sessions_n, locks_held;
	struct member_row *member_rows; /* by id */
	size_t member_rows_n, member_rows_room;
	uint64_t members_version;
	uint64_t slice; /* the node behind which the next slice begins */
	struct nodes nodes;
	struct locks locks;
	struct delayed_locks delayed;
	struct sessions sessions;
	struct nonces nonces;
	struct principals principals; /* the sessions again, by principal */
	struct endings endings;       /* those that end */
	size_t ending_most;           /* see tree_set_ending */
	struct dirty_rows dirty_rows;
	size_t dirty_n;
	uint64_t saved; /* applied index in the last rows handed out */
	TAILQ_HEAD(removed_list, removed) removed;
	size_t removed_n;
	uint64_t removed_upto; /* what entries up to here removed may be missing there */
	struct tree_commands commands; /* of the entry that is applied */
	struct row_list loading; /* rows that refer to others, until tree_load_done */
	bool meta_loaded;
	uint64_t bytes_saved; /* what the loaded row of meta says, to be compared */
};

/* One command while it is decided. A handler refuses before it changes anything. */
struct turn {
	struct tree *tree;
	struct tree_outcome *out;
	uint64_t index;
	int64_t stamp_ns;
	struct session *session; /* who asks; NULL: the master itself */
	bool alone;              /* the command in its entry */
	size_t ended;            /* pieces of what a session had that the command took away */
};

/* ---- node.c ---- */

/* NULL when there is none (any more). */
struct node *node_find(const struct tree *t, uint64_t number);
struct node *node_child(const struct node *directory, struct bytes name);
/* A node under `parent` (NULL: the root), counted against the quota but not refused by it. Copies
 * the name; ACL names and content generation are the caller's to set. */
struct node *node_add(struct tree *t, struct node *parent, struct bytes name, enum node_kind kind,
                      int64_t mtime_ns);
/* Puts a node with number, name and parent set into the tree's indexes; false if one is taken. */
bool node_link(struct tree *t, struct node *n);
/* Takes a childless node out and frees it; its lock and openers are gone already. */
void node_remove(struct tree *t, struct node *n);
void node_free(struct node *n);
void node_set_acl(struct node *n, enum acl_name which, struct bytes name);
/* Takes `contents` (a heap block) over as the next content generation. */
void node_set_contents(struct tree *t, struct node *n, struct bytes contents);
void node_attr(const struct node *n, struct attr *attr);
void bytes_set(struct bytes *to, struct bytes from); /* frees the old, copies the new */

/* ---- name.c ---- */

/* May a node of this name be made in `directory`? RC_OK, or what the name violates. */
enum rc name_check(const struct node *directory, struct bytes name);
bool name_valid(struct bytes name);
/* The child of this name: RC_STALE or RC_NOTDIR if there is no such directory, RC_NAMETOOLONG, or
 * RC_NOENT, also for a name that no node may have. */
enum rc name_look_up(const struct tree *t, uint64_t directory, struct bytes name, struct node **n);
/* Of the node's path with its first slash; more than LIMIT_PATH for an endless chain of parents. */
size_t name_path_length(const struct node *n);

/* ---- removed.c ---- */

/* Remembers the name of a node that is about to go. */
void removed_add(struct tree *t, const struct node *n);
/* The directory goes. */
void removed_forget_directory(struct node *directory);
void removed_forget_all(struct tree *t);
/* The first one behind all of this name; NULL when there is none. */
struct removed *removed_after(const struct node *directory, struct bytes name);

/* ---- children.c ---- */

/* Packs a page into `packed`, which the result then refers to. */
enum rc children_list(const struct tree *t, const struct node *n, const struct op_get_listing *o,
                      struct result_listing *r, struct buffer *packed);

/* ---- quota.c ---- */

bool quota_allows_node(const struct tree *t);
/* May contents of `old` bytes become `len`? Shrinking always may. */
bool quota_allows_bytes(const struct tree *t, size_t old, size_t len);

/* ---- apply.c ---- */

/* A new note in the outcome; valid until the next one. */
struct tree_note *apply_note(struct turn *w, enum tree_note_kind kind, uint64_t node);

/* ---- delete.c ---- */

/* Deletes a childless node with its lock and openers, and the ephemeral directories above it whose
 * last child goes with it. */
void delete_node(struct turn *w, struct node *n);

/* ---- ephemeral.c ---- */

/* The node is new: tells of it, and of the session that has made it. */
void node_made(struct turn *w, struct node *n);
/* The session has the file open by this command, for all that is known. */
void node_found(struct turn *w, struct node *n);
/* What the session has opened by this number; NULL when there is nothing. */
struct opener *opener_find(const struct session *s, uint64_t opened);
/* Records that the session has opened the ephemeral file by this number, which is new to it. */
void opener_new(struct tree *t, struct node *n, struct session *s, uint64_t opened);
/* Has it the file open, or may it? */
bool opener_allowed(const struct node *n, const struct session *s);
/* Records that the session has the ephemeral file open by its own number, unless it has. */
void opener_add(struct tree *t, struct node *n, struct session *s);
void opener_remove(struct tree *t, struct opener *o);
/* Those who have `from` open have the ephemeral file `to` open instead. */
void opener_move_all(struct tree *t, struct node *from, struct node *to);
/* Ephemeral directories of `creator` go when it ends, unless they had a child before. */
void creator_set(struct tree *t, struct node *directory, struct session *creator);
void creator_clear(struct tree *t, struct node *directory);
/* Likewise its opens and its empty directories. */
void ephemeral_end_session(struct turn *w, struct session *s, size_t most);

/* ---- lock_table.c ---- */

struct holder *holder_find(const struct lock *l, uint64_t session, uint64_t owner);
struct holder *holder_add(struct lock *l, struct session *s, uint64_t owner, uint64_t place);
/* Takes the holder out; a lock that then is free, without a delay, goes too. */
void holder_remove(struct tree *t, struct holder *h);
/* The node's lock record, made if there is none. */
struct lock *lock_of(struct tree *t, struct node *n);
/* Frees the record if nobody holds the lock and no delay stands. */
void lock_settle(struct tree *t, struct lock *l);
/* How it is held: LOCK_NONE when free or only delayed. */
enum lock_mode lock_mode_of(const struct lock *l);
/* The node goes: no holders, no delay. */
void lock_end_node(struct turn *w, struct node *n);
/* The session ends: its locks are freed, after their delay if it expired; up to as many pieces of
 * what it has as may go in this command. */
void lock_end_session(struct turn *w, struct session *s, size_t most);
/* Sets the holder's lock-delay. */
void holder_set_delay(struct holder *h, int64_t seconds);

/* ---- lock_delay.c ---- */

/* Does a delay stand against taking the lock in this mode? */
bool lock_delay_blocks(const struct lock *l, enum lock_mode mode);
/* The delay that stands; of mode LOCK_NONE: none. */
void lock_delay_set(struct tree *t, struct lock *l, struct lock_delay delay);
/* `h`, about to go, leaves a delay behind. */
void lock_delay_begin(struct turn *w, const struct holder *h);

/* ---- session_table.c ---- */

/* Also one that ends. */
struct session *session_find(const struct tree *t, uint64_t id);
struct session *session_live(const struct tree *t, uint64_t id);
struct session *session_by_nonce(const struct tree *t, struct bytes nonce);
/* Makes a session; its texts are copied. */
struct session *session_add(struct tree *t, const struct tree_session *from);
void session_free(struct session *s);
/* It is no session any more, and the first part of what it has goes. */
void session_end(struct turn *w, struct session *s, enum session_end cause);
/* The next part; the last one removes it, and returns true. */
bool session_finish(struct turn *w, struct session *s);

/* ---- member_table.c ---- */

struct member_row *member_row_find(const struct tree *t, uint8_t id);
/* Copies the member; its id must be free. */
void member_row_add(struct tree *t, const struct member *m, uint64_t since);
/* Does it make sense by itself? */
bool member_table_sound(const struct member *m);
/* Takes a new cell's first list; RC_INVAL when it cannot be one. */
enum rc member_table_begin(struct turn *w, struct wire_list list);
/* No list, until an epoch brings a new first one. */
void member_table_clear(struct tree *t);

/* ---- settings.c ---- */

/* The values of a cell that begins; 0: the default. */
void settings_begin(struct tree *t, const struct settings *first);
/* Reads a new cell's first settings; RC_INVAL when they cannot be. */
enum rc settings_read(struct wire_list list, struct settings *first);

/* ---- reply_cache.c: exactly once ---- */

/* What the session's earlier requests mean for this one: RC_OK (decide it now; *kept NULL, or the
 * answer that it had), RC_OLD_REQUEST, RC_INVAL. Forgets results below `below`. */
enum rc reply_cache_look(struct tree *t, struct session *s, const struct command *c,
                         enum op_code op, const struct cached_reply **cached);
void reply_cache_keep(struct tree *t, struct session *s, uint64_t number, enum op_code op,
                      enum rc rc, struct bytes result);
struct cached_reply *reply_cache_find(const struct session *s, uint64_t number);
void reply_cache_drop(struct tree *t, struct session *s, struct cached_reply *k);

/* ---- the commands, each in the file of its idea; the rules are in tree.h ---- */

/* Decides, and changes the tree unless it refuses; *r is zeroed before and counts when RC_OK. */
enum rc apply_create(struct turn *w, const struct op_create *o, struct result_created *r);
enum rc apply_set_contents(struct turn *w, const struct op_set_contents *o, struct result_attr *r);
enum rc apply_append(struct turn *w, const struct op_append *o, struct result_attr *r);
enum rc apply_set_mtime(struct turn *w, const struct op_set_mtime *o, struct result_attr *r);
enum rc apply_rename(struct turn *w, const struct op_rename *o, struct result_renamed *r);
enum rc apply_delete(struct turn *w, const struct op_delete *o, struct result_deleted *r);
enum rc apply_set_acl(struct turn *w, const struct op_set_acl *o, struct result_attr *r);
enum rc apply_make_ephemeral(struct turn *w, const struct op_make_ephemeral *o,
                             struct result_attr *r);
enum rc apply_open_ephemeral(struct turn *w, const struct op_open_ephemeral *o,
                             struct result_attr *r);
enum rc apply_close_ephemeral(struct turn *w, const struct op_close_ephemeral *o);
enum rc apply_acquire(struct turn *w, const struct acquire *a, struct result_acquired *r);
enum rc apply_grant(struct turn *w, const struct op_grant *o, struct result_acquired *r);
enum rc apply_release(struct turn *w, const struct op_release *o);
enum rc apply_cancel(struct turn *w, const struct op_cancel *o);
enum rc apply_set_lock_delay(struct turn *w, const struct op_set_lock_delay *o,
                             struct result_attr *r);
enum rc apply_delay_over(struct turn *w, const struct op_delay_over *o);
enum rc apply_await_session(struct turn *w, const struct op_await_session *o);
enum rc apply_create_session(struct turn *w, const struct op_create_session *o,
                             struct result_session *r);
enum rc apply_end_session(struct turn *w, const struct op_end_session *o);
enum rc apply_finish_session(struct turn *w, const struct op_finish_session *o);
enum rc apply_settle_epoch(struct turn *w, const struct op_settle_epoch *o);
enum rc apply_begin_epoch(struct turn *w, const struct op_begin_epoch *o);
enum rc apply_set_members(struct turn *w, const struct op_set_members *o);
enum rc apply_check_digest(struct turn *w, const struct op_check_digest *o);
enum rc apply_set_setting(struct turn *w, const struct op_set_setting *o);
enum rc apply_settle_setting(struct turn *w, const struct op_settle_setting *o);
enum rc apply_restore(struct turn *w, const struct op_restore *o);

/* ---- dirty_rows.c ---- */

/* The row of this key has changed, or is gone. */
void dirty_node(struct tree *t, uint64_t node);
void dirty_opener(struct tree *t, uint64_t session, uint64_t opened);
void dirty_lock(struct tree *t, uint64_t node);
void dirty_holder(struct tree *t, uint64_t node, uint64_t session, uint64_t owner);
void dirty_session(struct tree *t, uint64_t session);
void dirty_result(struct tree *t, uint64_t session, uint64_t number);
void dirty_member(struct tree *t, uint8_t id);
void changed_setting(struct tree *t, uint8_t code);
void dirty_rows_forget(struct tree *t);
/* The row as it is now; false when there is none of this key. Views into the tree. */
bool dirty_rows_show(const struct tree *t, enum row_table table, const uint64_t *key,
                     struct row *row);

#endif
