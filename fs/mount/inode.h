/* The nodes that the kernel, a call, a handle or a lock refers to. */
#ifndef LSFS_FS_MOUNT_INODE_H
#define LSFS_FS_MOUNT_INODE_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include "fs/mount/call.h"

TAILQ_HEAD(handle_list, handle);
TAILQ_HEAD(lock_list, mount_lock);

/* What a node was when the cell last told. */
struct inode {
	RB_ENTRY(inode) by_number;
	uint64_t ino;
	uint64_t nlookup;    /* references of the kernel */
	unsigned refs;       /* of calls, handles, locks, and inodes that were renamed to it */
	struct attr attr;    /* its texts are empty */
	uint64_t index;      /* of the log, from which attr is */
	bool dead;           /* the node was deleted */
	bool gone_here;      /* by a call of this mount: no name leads here any more */
	uint64_t moved_to;   /* a renamed file's handles are this node's now; 0: not renamed */
	pid_t maker;         /* the local process that made the node; 0: somebody else */
	uint64_t opened;     /* the number by which the cell has this session as its opener; or 0 */
	struct version *newest; /* the last one that came into memory, while it is there */
	struct version *last;   /* of a file deleted here, which lives on in memory; counted */
	struct handle_list handles;
	struct lock_list locks;
};

RB_HEAD(inode_numbers, inode);
RB_PROTOTYPE(inode_numbers, inode, by_number, )

/* The last of all: what refers to them is gone. */
void inodes_free(struct mount *m);
struct inode *inode_find(struct mount *m, uint64_t ino);
struct inode *inode_get(struct mount *m, uint64_t ino); /* made if need be, without a reference */
void inode_put(struct mount *m, struct inode *i);       /* gives one of `refs` back */
void inode_prune(struct mount *m, struct inode *i);     /* frees it if nobody refers to it */
void inode_forget(struct mount *m, uint64_t ino, uint64_t count);
/* Takes the attributes over, if they are newer; NULL if they make no sense. */
struct inode *inode_learn(struct mount *m, const struct attr *attr, uint64_t index);
void inode_die(struct mount *m, struct inode *i, bool here);
/* Does the deleted file live on in memory, for the handles that are open here? */
bool inode_lives_on(const struct inode *i);
/* Where calls on `ino` go: the target, for a file that was renamed while it was open here. */
uint64_t inode_where(struct mount *m, uint64_t ino);
struct mount_stat inode_stat(struct mount *m, const struct inode *i);
bool attr_sound(const struct attr *attr);
void inode_getattr(struct mount *m, struct call *c);
void inode_access(struct mount *m, struct call *c);

#endif
