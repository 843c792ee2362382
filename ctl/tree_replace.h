/* Gives an existing file of a mounted cell contents and ACL names at one index, by a transaction:
 * between two, contents could be read by those who may read only the others. */
#ifndef LSFS_CTL_TREE_REPLACE_H
#define LSFS_CTL_TREE_REPLACE_H

#include <stdbool.h>
#include "cell/base/bytes.h"
#include "cell/base/limit.h"

enum { TREE_ACLS = 3 };

/* The names of the attributes. */
extern const char *const tree_acl_attributes[TREE_ACLS];

/* Names of ACL files; empty: the node keeps its own. */
struct tree_acls {
	char names[TREE_ACLS][LIMIT_NAME + 1];
	bool any; /* is not empty */
};

/* `root` is a directory of the mount, `path` the file's in its cell. A name that leads to no ACL
 * file there is left out of *acls. 0 or an error; EILSEQ: the names can stand in no transaction. */
int tree_replace(int root, const char *path, struct bytes contents, struct tree_acls *acls);

#endif
