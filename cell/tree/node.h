/* Nodes: the table of all by number, and the children of each directory by name. */
#ifndef LSFS_TREE_NODE_H
#define LSFS_TREE_NODE_H

#include <bsd/sys/tree.h>
#include "cell/tree/ephemeral.h"
#include "cell/tree/tree.h"

struct acl_lines;
struct lock;
struct removed_from;
struct session;

/* Bytes that a node costs beyond its contents: without them, empty files would be free of
 * charge. */
enum { QUOTA_NODE_BYTES = 256 };

struct node {
	RB_ENTRY(node) in_tree;    /* by number */
	RB_ENTRY(node) in_parent;  /* by name */
	RB_ENTRY(node) in_creator; /* by number */
	uint64_t number, parent_number;
	struct node *parent; /* NULL: it is the root */
	struct bytes name;
	enum node_kind kind;
	bool ephemeral;
	struct session *creator; /* of an ephemeral directory that never had a child; else NULL */
	int64_t mtime_ns;
	uint64_t content_generation, lock_generation, acl_generation, checksum;
	struct bytes acl[ACL_NAMES];
	int64_t lock_delay_s; /* -1: not set */
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
RB_PROTOTYPE(nodes, node, in_tree, )
RB_PROTOTYPE(children, node, in_parent, )
RB_PROTOTYPE(session_directories, node, in_creator, )

struct tree_nodes {
	struct nodes by_number;
	uint64_t n, bytes;    /* as they count against the quota */
	uint64_t next_number; /* the next instance number or session id */
};

/* The node of this number; NULL when there is none (any more). */
struct node *node_find(const struct tree *t, uint64_t number);
/* The child of this name; NULL when there is none. */
struct node *node_child(const struct node *directory, struct bytes name);
/* Takes a number that was never used before, for a node or a session. */
uint64_t node_take_number(struct tree *t);
/* Leaves out as many numbers. */
void node_skip_numbers(struct tree *t, uint64_t numbers);
/* A new node in `parent` (NULL: the root), counted against the quota but not refused by it. Copies
 * the name; ACL names and content generation are the caller's to set. */
struct node *node_add(struct tree *t, struct node *parent, struct bytes name, enum node_kind kind,
                      int64_t mtime_ns);
/* Puts a node whose number, name and parent are set into the tree; false if the number is taken. */
bool node_link(struct tree *t, struct node *n);
/* Takes a childless node out and frees it; its lock and openers are gone already. */
void node_remove(struct tree *t, struct node *n);
/* Frees the node and its texts. */
void node_free(struct node *n);
/* Frees all nodes and openers: the tree ends. */
void nodes_free(struct tree *t);
/* Sets an ACL name; `name` is copied. */
void node_set_acl(struct node *n, enum acl_name which, struct bytes name);
/* Takes `contents` (a heap block) over as the next content generation. */
void node_set_contents(struct tree *t, struct node *n, struct bytes contents);
/* The attributes of the node, with the subject's rights; their texts are views. */
void node_attr(const struct tree *t, const struct node *n, const struct subject *who,
               struct attr *attr);

#endif
