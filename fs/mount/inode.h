/* The nodes that the kernel, a call, a handle or a lock refers to. */
#ifndef LSFS_FS_MOUNT_INODE_H
#define LSFS_FS_MOUNT_INODE_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include "cell/base/keyed.h"
#include "fs/mount/call.h"

TAILQ_HEAD(handle_list, handle);
TAILQ_HEAD(lock_list, mount_lock);

/* A node, as the cell last described it. */
struct inode {
	RB_ENTRY(inode) by_number;
	uint64_t ino;
	uint64_t nlookup;       /* references of the kernel */
	uint64_t parent;        /* the directory of its name; 0: not known */
	struct bytes name;      /* in it; owned */
	unsigned refs;          /* of calls, handles, locks, and inodes that were renamed to it */
	struct attr attr;       /* its texts are empty */
	uint64_t index;         /* the index in the cell's log at which attr was true */
	bool dead;              /* the node was deleted */
	bool gone_here;         /* deleted by a call of this mount: its handles go on with it */
	bool kept;              /* the kernel may have its attributes */
	mono_t named_until;     /* the kernel may have its name */
	uint64_t found;         /* the number of the lookup that has led to it last */
	uint64_t moved_to;      /* the node that has the handles of a renamed file; 0: none */
	pid_t maker;            /* the local process that made the node; 0: made elsewhere */
	uint64_t opened;        /* the number by which this session is an opener; 0: it is none */
	uint32_t watched;       /* the mask by which the client was asked to watch it; 0: was not */
	struct bytes watcher;   /* the user for whom it was; owned */
	bool watch_refused;     /* to all users, and is not asked again for a while */
	bool told_gone;         /* an event has told that the node is deleted */
	bool opening;           /* by a request after a rename, not confirmed yet */
	unsigned keepers;       /* open directories through which it was numbered last */
	struct version *newest; /* the latest version in memory; NULL: none */
	struct version *last;   /* contents of a file that was deleted here while open; counted */
	struct handle_list handles;
	struct lock_list locks;
};

RB_HEAD(inode_numbers, inode);
KEYED_PROTOTYPE(inode_numbers, inode, by_number)

/* Frees all inodes, when calls, handles and locks are freed already. */
void inodes_free(struct mount *m);
/* True for the number of a directory or file of .cell, which is no node. */
bool inode_is_virtual(uint64_t ino);
/* The inode of this number; NULL: it is not in memory. */
struct inode *inode_find(struct mount *m, uint64_t ino);
/* The inode is made if it does not exist; adds no reference. */
struct inode *inode_get(struct mount *m, uint64_t ino);
/* Drops one of `refs`. */
void inode_put(struct mount *m, struct inode *i);
/* Frees the inode if it has no references. */
void inode_prune(struct mount *m, struct inode *i);
/* FORGET: the kernel drops this many of its references. */
void inode_forget(struct mount *m, uint64_t ino, uint64_t count);
/* Takes over the attributes, if they are newer than those known; NULL if they are invalid. */
struct inode *inode_learn(struct mount *m, const struct attr *attr, uint64_t index);
/* The node is gone, by a call of this mount (here) or of another; its locks are lost. */
void inode_die(struct mount *m, struct inode *i, bool here);
/* A name was found to lead to the inode. It keeps its name, and may be found again by the number of
 * a directory that is dead. */
void inode_named(struct inode *i, uint64_t parent, struct bytes name);
/* Appends the inode's path, which is the last one of a dead node; false: it is not known. */
bool inode_path(struct mount *m, uint64_t ino, struct buffer *path);
/* True if the deleted file lives on in memory, for the handles that are open here. */
bool inode_lives_on(const struct inode *i);
/* The node that calls on `ino` refer to: for a file that was renamed while it was open here, the
 * node that it replaced; else `ino`. */
uint64_t inode_where(struct mount *m, uint64_t ino);
/* The attributes for stat, as the user of the call sees them. */
struct mount_stat inode_stat(const struct mount *m, const struct call *c, const struct inode *i);
/* GETATTR. */
void inode_getattr(struct mount *m, struct call *c);
/* ACCESS, by the rights of the calling user. */
void inode_access(struct mount *m, struct call *c);

#endif
