/* Names of principals and of their users, as ACL files list them. */
#ifndef LSFS_BASE_PRINCIPAL_H
#define LSFS_BASE_PRINCIPAL_H

#include "cell/base/bytes.h"

/* True if a principal or a user may have this name: 1 to LIMIT_PRINCIPAL bytes, no blanks or
 * control characters, and none of the characters that have a meaning in an ACL file. */
bool principal_name_valid(struct bytes name);
/* True if a host of theirs may have this name: it is printed in lines and tables, so it has no
 * blanks or control characters. */
bool principal_host_valid(struct bytes host);

#endif
