/* Quota: how many nodes and bytes a cell may hold. Giving back is never refused, so a full cell can
 * always be emptied. */
#include "cell/tree/internal.h"

bool
quota_allows_node(const struct tree *t)
{
	return t->nodes_n < t->quota_nodes && t->bytes + QUOTA_NODE_BYTES <= t->quota_bytes;
}

bool
quota_allows_bytes(const struct tree *t, size_t old, size_t len)
{
	return len <= old || t->bytes + (len - old) <= t->quota_bytes;
}
