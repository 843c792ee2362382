/* Makes a directory of a mounted cell equal to one of another cell: files, directories, and the
 * names of ACL files where the other cell has such a file. Ephemeral nodes are left alone on both
 * sides, and so are names in the roots that begin with `.mirror`.
 *
 * An existing file gets its new contents in one commit, in a transaction with its ACLs if these
 * differ, too; a new one is made beside the tree, with its ACLs before the contents, and moved to
 * its place: so nobody ever sees a part of it, or contents under ACLs that are not theirs. Where an
 * ACL is refused or cannot be learned the contents stay as they are, and a new node is not made.
 * Paths are relative to the roots; "." is the root. */
#ifndef LSFS_CTL_TREE_COPY_H
#define LSFS_CTL_TREE_COPY_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>

struct tree_copy {
	int from, to;                    /* the roots, open directories */
	const char *from_name, *to_name; /* in messages */
	const char *to_inside;           /* the path of `to` in its cell; empty: the cell's root */
	char acl[PATH_MAX]; /* of the target cell's ACL files; empty: its mount is a part without */
	bool roots[2];      /* `from`, `to` is the root of its cell: its acl/ is left alone */
	bool quiet;         /* says nothing of what is refused */
	/* Called with each source directory before it is listed, by one thread at a time; its
	 * descriptor is handed over. */
	void (*entered)(void *user, const char *path, int fd);
	void *user;

	atomic_uint copied, deleted; /* nodes */
	atomic_uint refused;         /* nodes that could not be made equal, said in a line each */
	atomic_int broken;           /* the error for which all ended; 0: none */
};

/* Makes the directory equal, with all below it. False: it is broken. */
bool tree_copy_directory(struct tree_copy *t, const char *path);
/* Makes the node equal, with all below it; one that the source does not have is deleted. False: it
 * is broken. */
bool tree_copy_node(struct tree_copy *t, const char *path);
/* Deletes what an earlier process has left beside the tree. */
void tree_copy_clean(struct tree_copy *t);

#endif
