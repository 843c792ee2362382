/* The table of nodes, their openers, and the names that were removed lately. */
#ifndef LSFS_TREE_NODE_H
#define LSFS_TREE_NODE_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>

#include "cell/base/keyed.h"
#include "cell/tree/lock_table.h"
#include "cell/tree/tree.h"

struct acl_lines;
struct lock;
struct node;
struct removed_from;
struct session;

/* ---- ephemeral.c ----
 *
 * Ephemeral nodes (Chubby, section 2.3): a file is deleted when no session has it open any more, a
 * directory when its last child is or, if it never had one, when its creator's session ends. */

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
KEYED_PROTOTYPE(session_openers, opener, in_session)

/* The session's opener by this number; NULL when there is none. */
struct opener *opener_find(const struct session *s, uint64_t opened);
/* Records that the session has opened the ephemeral file by this number, which is new to it. */
void opener_new(struct tree *t, struct node *n, struct session *s, uint64_t opened);
/* True if the session has the file open, or may open it. NULL: a new file. */
bool opener_allowed(const struct node *n, const struct session *s);
/* Records that the session has opened the ephemeral file by its own number, unless it has. */
void opener_add(struct tree *t, struct node *n, struct session *s);
/* The session no longer has the file open. */
void opener_remove(struct tree *t, struct opener *o);
/* The openers of `from` become openers of the ephemeral file `to`. */
void opener_move_all(struct tree *t, struct node *from, struct node *to);
/* The empty ephemeral directory is deleted when the session `creator` ends. */
void creator_set(struct tree *t, struct node *directory, struct session *creator);
/* The ephemeral directory has a child, or is about to be deleted. */
void creator_clear(struct tree *t, struct node *directory);
/* The session has ended: removes its opens and its empty directories, at most as many pieces in all
 * as this command may remove. */
void ephemeral_end_session(struct execution *x, struct session *s, size_t most);

/* ---- node.c ----
 *
 * Nodes: the table of all by number, and the children of each directory by name. */

struct node {
	RB_ENTRY(node) in_tree;    /* by number */
	RB_ENTRY(node) in_parent;  /* by name */
	RB_ENTRY(node) in_creator; /* by number */
	RB_ENTRY(node) in_mortal;  /* by number, while it has a time to live */
	uint64_t number, parent_number;
	struct node *parent; /* NULL: it is the root */
	struct bytes name;
	enum node_kind kind;
	bool ephemeral;
	struct session *creator; /* of an ephemeral directory that never had a child; else NULL */
	int64_t mtime_ns, ctime_ns;
	/* Content generation: of a directory the next number that a name in it gets. */
	uint64_t content_generation, lock_generation, acl_generation, checksum;
	struct bytes acl[ACL_NAMES];
	int64_t lock_delay_s;         /* -1: not set */
	uint32_t lock_slots;          /* how many holders share its lock at most; 0: any number */
	uint32_t ttl_s;               /* time to live; 0: none */
	uint64_t ttl_began;           /* log index of the command that renewed it last */
	uint64_t budget[QUOTA_KINDS]; /* of a directory, for all below; 0: none */
	uint64_t below[QUOTA_KINDS];  /* the usage below the directory; not stored */
	uint64_t changed; /* log index of the last change of it or below it, or later; not stored */
	struct bytes contents;
	RB_HEAD(children, node) children;
	uint64_t children_n;
	struct node_openers openers;
	size_t openers_n;
	struct lock *lock;    /* NULL: free, and no delay stands */
	uint64_t freed_epoch; /* in which the lock became free last; 0: it was never held */
	uint64_t kept_epoch;  /* in which a lock of an earlier epoch became free; not stored */
	struct removed_from *removed; /* NULL: no removed name is known */
	struct acl_lines *acl_lines;  /* of a file in /acl; NULL: not parsed yet */
};

RB_HEAD(nodes, node);
RB_HEAD(session_directories, node);
RB_HEAD(mortal_nodes, node);
KEYED_PROTOTYPE(nodes, node, in_tree)
BYTES_PROTOTYPE(children, node, in_parent)
KEYED_PROTOTYPE(session_directories, node, in_creator)
KEYED_PROTOTYPE(mortal_nodes, node, in_mortal)

struct tree_nodes {
	struct nodes by_number;
	uint64_t next_number; /* the next instance number or session id */
};

/* The node of this number; NULL when there is none (any more). */
struct node *node_find(const struct tree *t, uint64_t number);
/* The child of this name; NULL when there is none. */
struct node *node_child(const struct node *directory, struct bytes name);
/* Takes a number that was never used before, for a node or a session. */
uint64_t node_take_number(struct tree *t);
/* Skips that many numbers. */
void node_skip_numbers(struct tree *t, uint64_t numbers);
/* A new node in `parent` (NULL: the root), counted against the quota but not refused by it;
 * `stamp_ns` is both of its times. Copies the name; ACL names and content generation are the
 * caller's to set. */
struct node *node_add(struct tree *t, struct node *parent, struct bytes name, enum node_kind kind,
                      int64_t stamp_ns);
/* Puts a node whose number, name and parent are set into the tree; false if the number is taken. */
bool node_link(struct tree *t, struct node *n);
/* Removes a childless node from the table and its directory; it keeps its lock and openers. */
void node_detach(struct tree *t, struct node *n);
/* Puts a detached node back into both. */
void node_attach(struct tree *t, struct node *n);
/* Frees a detached node, and remembers its name; its lock and openers are gone already. */
void node_free_deleted(struct tree *t, struct node *n);
/* Frees the node and its texts. */
void node_free(struct node *n);
/* Frees all nodes and openers: the tree ends. */
void nodes_free(struct tree *t);
/* Sets an ACL name; `name` is copied. */
void node_set_acl(struct node *n, enum acl_name which, struct bytes name);
/* The time of a change by the master's clock, `stamp_ns`, but later than that of the change
 * `before` it, so that each has its own. One that is more than a day ahead of the clock is not
 * counted. */
int64_t node_later(int64_t before_ns, int64_t stamp_ns);
/* The attributes of the node have changed: it has another change time, and its row is stored. */
void node_changed(struct tree *t, struct node *n, int64_t stamp_ns);
/* Takes `contents` (a heap block) over as the next content generation. */
void node_set_contents(struct tree *t, struct node *n, struct bytes contents, int64_t stamp_ns);
/* Restores the node from its copy `former`, whose texts it takes over, in all fields that concern
 * it alone: other nodes, openers and the lock stay as they are. */
void node_put_back(struct tree *t, struct node *n, struct node *former);
/* The attributes of the node, with the subject's rights, as far as these allow; their texts are
 * views. */
void node_attr(const struct tree *t, const struct node *n, const struct subject *who,
               struct attr *attr);

/* ---- ttl.c ----
 *
 * Files with a time to live: a file that is not written or touched for that long is deleted. */

struct mortal_files {
	struct mortal_nodes by_number;
};

/* Adds the node to these files, if it has a time to live. */
void ttl_link(struct tree *t, struct node *n);
/* Removes the node from these files, if it is one. */
void ttl_unlink(struct tree *t, struct node *n);
/* Gives the file a time to live, which begins now; 0: none. */
void ttl_set(struct execution *x, struct node *n, uint32_t seconds);
/* The file's time to live, if it has one, begins again. */
void ttl_renew(struct execution *x, struct node *n);
/* True if the command names the last renewal of the file. */
bool ttl_is_over(const struct tree *t, const struct op_expire *o);

/* ---- children.c: removed names ----
 *
 * The names that were removed last, of all directories. A long listing is read in pages, and shows
 * the names of the time of its first page: a name that was created since has a node of a greater
 * number than any had then, and a name that was removed since is kept here. The names are in memory
 * only; it is known how far back they reach. */

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

/* The removed names of one directory. When that is deleted they stay until it is their turn to be
 * forgotten: they may be many. */
struct removed_from {
	RB_HEAD(removed_by_name, removed) names;
	bool gone; /* the directory is deleted */
};

RB_PROTOTYPE(removed_by_name, removed, in_directory, )

struct removed_names {
	TAILQ_HEAD(removed_list, removed) in_order;
	size_t n;
	uint64_t forgotten; /* names that entries up to here removed may be missing */
};

/* The tree was loaded: the names that were removed before are not known. */
void removed_begin(struct tree *t);
/* Remembers the name of a node that is about to be deleted. */
void removed_add(struct tree *t, const struct node *n);
/* The directory is about to be deleted. */
void removed_forget_directory(struct node *directory);
/* Forgets all names. */
void removed_forget_all(struct tree *t);

#endif
