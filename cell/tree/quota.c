/* The quota bounds the nodes and bytes of a cell. A command that gives some back is never refused,
 * so a full cell can always be emptied. */
#include "cell/tree/internal.h"

bool
quota_allows_node(const struct tree *t)
{
	return t->nodes.n < tree_setting(t, SETTING_quota_nodes) &&
	       t->nodes.bytes + QUOTA_NODE_BYTES <= tree_setting(t, SETTING_quota_bytes);
}

bool
quota_allows_bytes(const struct tree *t, size_t more)
{
	return more == 0 || t->nodes.bytes + more <= tree_setting(t, SETTING_quota_bytes);
}
