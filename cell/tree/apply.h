/* Apply: an entry is decoded whole, then its commands are executed one after the other. */
#ifndef LSFS_TREE_APPLY_H
#define LSFS_TREE_APPLY_H

#include "cell/tree/tree.h"

struct journal;
struct node;
struct session;

/* Where in the log the tree stands. */
struct tree_position {
	uint64_t applied;     /* index of the entry applied last, */
	struct ballot origin; /* the ballot in which that was first proposed, */
	uint64_t digest;      /* and the chain over all entries and answers up to it */
};

/* A command of an entry, decoded, with its operation's columns of the schema. */
struct tree_command {
	struct command command;
	struct op op;
	uint64_t node; /* of the operation */
	enum op_class class;
	enum result_kind result;
};

struct tree_commands {
	struct tree_command *list;
	size_t n, room;
};

/* One command while it is executed. */
struct execution {
	struct tree *tree;
	struct tree_outcome *out;
	const struct tree_command *command;
	uint64_t index;             /* of the entry */
	int64_t stamp_ns;           /* the master's time of day */
	struct session *session;    /* that sent the command; NULL: it is the master's own */
	struct requester requester; /* for which it acts */
	struct subject who;         /* the same, as ACL files name it */
	bool alone;                 /* it is the only command of the entry */
	struct journal *journal;    /* of the transaction; NULL if there is none */
	size_t ended;               /* pieces that the command has removed from an ended session */
};

/* Empties the outcome, for the next entry. */
void outcome_clear(struct tree_outcome *out);
/* Removes the notes from the n-th on. */
void outcome_cut_notes(struct tree_outcome *out, size_t n);
/* A new note in the outcome; valid until the next one. */
struct tree_note *apply_note(struct execution *x, enum tree_note_kind kind, uint64_t node);
/* The same about a node that is in the tree, with its parent and name. */
struct tree_note *apply_note_node(struct execution *x, enum tree_note_kind kind,
                                  const struct node *n);
/* Notes that an attribute of the node has changed; RC_OK. */
enum rc apply_attr_changed(struct execution *x, struct node *n);
/* RC_OK if a node of this kind can have the command. */
enum rc apply_kind_check(enum op_code code, enum node_kind kind);

/* ---- the commands, each in the file of its idea; the rules are in tree.h ----
 *
 * Each checks, and refuses by its return value, before it changes anything. *r is zeroed before,
 * and counts when RC_OK. A command on the node `n` is answered with its attributes. */

/* Creates a file or a directory, or opens the one that exists. */
enum rc apply_create(struct execution *x, const struct op_create *o, struct result_created *r);
/* Creates a file with the next number of its directory in its name. */
enum rc apply_number(struct execution *x, const struct op_number *o, struct result_numbered *r);
/* Replaces the contents of a file, if guarded only those of one generation. */
enum rc apply_set_contents(struct execution *x, struct node *n, const struct op_set_contents *o);
/* Appends to the contents of a file. */
enum rc apply_append(struct execution *x, struct node *n, const struct op_append *o);
/* Sets the time of a file. */
enum rc apply_set_mtime(struct execution *x, struct node *n, const struct op_set_mtime *o);
/* Gives a file another name; the node of that name gets its contents. */
enum rc apply_rename(struct execution *x, const struct op_rename *o, struct result_renamed *r);
/* Deletes a file or an empty directory. */
enum rc apply_delete(struct execution *x, const struct op_delete *o, struct result_deleted *r);
/* Sets one of the three ACL names of a node. */
enum rc apply_set_acl(struct execution *x, struct node *n, const struct op_set_acl *o);
/* Makes a permanent file ephemeral. */
enum rc apply_make_ephemeral(struct execution *x, struct node *n);
/* Makes the session an opener of an ephemeral file. */
enum rc apply_open_ephemeral(struct execution *x, struct node *n);
/* Ends the session's open; the file is deleted with its last one. */
enum rc apply_close_ephemeral(struct execution *x, const struct op_close_ephemeral *o);
/* Takes or converts a lock for the session. */
enum rc apply_acquire(struct execution *x, const struct acquire *a, struct result_acquired *r);
/* Takes or converts a lock for a waiter. */
enum rc apply_grant(struct execution *x, const struct op_grant *o, struct result_acquired *r);
/* Frees a lock of the session. */
enum rc apply_release(struct execution *x, const struct op_release *o);
/* Frees a lock of the session, or undoes a conversion. */
enum rc apply_cancel(struct execution *x, const struct op_cancel *o);
/* Sets how many may share the lock of a node. */
enum rc apply_set_lock_slots(struct execution *x, struct node *n,
                             const struct op_set_lock_slots *o);
/* Sets the lock-delay of a node. */
enum rc apply_set_lock_delay(struct execution *x, struct node *n,
                             const struct op_set_lock_delay *o);
/* Gives a file a time to live. */
enum rc apply_set_ttl(struct execution *x, struct node *n, const struct op_set_ttl *o);
/* Sets the budget of a directory. */
enum rc apply_set_quota(struct execution *x, struct node *n, const struct op_set_quota *o);
/* Deletes a file whose time to live is over. */
enum rc apply_expire(struct execution *x, const struct op_expire *o);
/* Takes the lock of a node from those of its holders whom an operator has seen. */
enum rc apply_unlock(struct execution *x, const struct op_unlock *o);
/* Ends a lock-delay that stands. */
enum rc apply_delay_over(struct execution *x, const struct op_delay_over *o);
/* Executes all operations of a transaction, or none of them. */
enum rc apply_transaction(struct execution *x, const struct op_transaction *o,
                          struct result_transaction *r);
/* Executes an operation of a session, which is permitted, as a command of its own. */
enum rc apply_operation(struct execution *x, const struct op *op, struct result *r);
/* Sets the await bit of a session. */
enum rc apply_await_session(struct execution *x, const struct op_await_session *o);
/* Creates a session, or finds the one of this nonce. */
enum rc apply_create_session(struct execution *x, const struct op_create_session *o,
                             struct result_session *r);
/* Ends a session, and removes the first part of its locks and files. */
enum rc apply_end_session(struct execution *x, const struct op_end_session *o);
/* Removes the next part from a session that has ended. */
enum rc apply_finish_session(struct execution *x, const struct op_finish_session *o);
/* Records that the barrier of the epoch has fallen. */
enum rc apply_settle_epoch(struct execution *x, const struct op_settle_epoch *o);
/* Begins an epoch; the first one makes a cell. */
enum rc apply_begin_epoch(struct execution *x, const struct op_begin_epoch *o);
/* Replaces the list of members. */
enum rc apply_set_members(struct execution *x, const struct op_set_members *o);
/* Adds a principal. */
enum rc apply_add_principal(struct execution *x, const struct op_add_principal *o);
/* Removes a principal. */
enum rc apply_remove_principal(struct execution *x, const struct op_remove_principal *o);
/* Removes the name, with its users, from the next ACL files that contain it. */
enum rc apply_purge_name(struct execution *x, const struct op_purge_name *o);
/* Gives an administrator another key. */
enum rc apply_rekey_principal(struct execution *x, const struct op_rekey_principal *o);
/* Begins the use of another signing key. */
enum rc apply_rotate_key(struct execution *x, const struct op_rotate_key *o);
/* Notes the digest of a majority for comparison, and moves on to the next slice. */
enum rc apply_check_digest(struct execution *x, const struct op_check_digest *o);
/* Sets a setting of the cell. */
enum rc apply_set_setting(struct execution *x, const struct op_set_setting *o);
/* Records that a promise may be longer than it is set. */
enum rc apply_lengthen_promise(struct execution *x, const struct op_lengthen_promise *o);
/* Records that all promises of a setting's earlier length have ended. */
enum rc apply_settle_setting(struct execution *x, const struct op_settle_setting *o);
/* Makes a new cell from a copy. */
enum rc apply_restore(struct execution *x, const struct op_restore *o);

#endif
