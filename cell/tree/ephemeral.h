/* Ephemeral nodes (Chubby, section 2.3): a file is deleted when no session has it open any more, a
 * directory when its last child is or, if it never had one, when its creator's session ends. */
#ifndef LSFS_TREE_EPHEMERAL_H
#define LSFS_TREE_EPHEMERAL_H

#include <bsd/sys/tree.h>
#include "cell/tree/apply.h"

struct node;
struct session;

/* A session that has an ephemeral file open. Its close names the number by which the session has
 * opened the file: the session does not know of renames by others. */
struct opener {
	RB_ENTRY(opener) in_node;    /* by session, opened */
	RB_ENTRY(opener) in_session; /* by opened */
	uint64_t opened; /* the node's number, or that of a deleted one that was renamed to it */
	struct node *node;
	struct session *session;
};

RB_HEAD(node_openers, opener);
RB_HEAD(session_openers, opener);
RB_PROTOTYPE(node_openers, opener, in_node, )
RB_PROTOTYPE(session_openers, opener, in_session, )

/* The session's opener by this number; NULL when there is none. */
struct opener *opener_find(const struct session *s, uint64_t opened);
/* Records that the session has opened the ephemeral file by this number, which is new to it. */
void opener_new(struct tree *t, struct node *n, struct session *s, uint64_t opened);
/* True if the session has the file open, or may open it. */
bool opener_allowed(const struct node *n, const struct session *s);
/* Records that the session has opened the ephemeral file by its own number, unless it has. */
void opener_add(struct tree *t, struct node *n, struct session *s);
/* The session has the file open no more. */
void opener_remove(struct tree *t, struct opener *o);
/* The openers of `from` become openers of the ephemeral file `to`. */
void opener_move_all(struct tree *t, struct node *from, struct node *to);
/* The empty ephemeral directory is deleted when the session `creator` ends. */
void creator_set(struct tree *t, struct node *directory, struct session *creator);
/* The ephemeral directory has a child, or is about to be deleted. */
void creator_clear(struct tree *t, struct node *directory);
/* The session has ended: its opens and its empty directories go, up to as many pieces in all as
 * this command may take away. */
void ephemeral_end_session(struct execution *x, struct session *s, size_t most);

#endif
