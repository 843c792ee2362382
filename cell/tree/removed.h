/* The names that were removed last, of all directories. A long listing is read in pages, and shows
 * the names that there were at its first page: a name that was created since has a node of a
 * greater number than any had then, and a name that was removed since is kept here. The names are
 * in memory only; how far they reach back is known. */
#ifndef LSFS_TREE_REMOVED_H
#define LSFS_TREE_REMOVED_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include "cell/tree/tree.h"

struct node;

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

/* The removed names of one directory. When that is deleted they stay until their turn comes: they
 * may be many. */
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

/* Initializes the removed names of a new tree: none. */
void removed_init(struct tree *t);
/* The tree was loaded: the names that were removed before are not known. */
void removed_begin(struct tree *t);
/* Remembers the name of a node that is about to be deleted. */
void removed_add(struct tree *t, const struct node *n);
/* The directory is about to be deleted. */
void removed_forget_directory(struct node *directory);
/* Forgets all names. */
void removed_forget_all(struct tree *t);
/* The first removed name of the directory behind all of this name; NULL when there is none. */
struct removed *removed_after(const struct node *directory, struct bytes name);

#endif
