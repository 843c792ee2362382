/* Damage in memory, or a mistake of ours, changes a state behind the log's back. */
#include "tests/transcripts/cell_damage.h"
#include "cell/tree/internal.h"

bool
damage_history(const struct tree *t)
{
	((struct tree *)t)->position.digest ^= 1;
	return true;
}

bool
damage_contents(const struct tree *t, uint64_t node)
{
	const struct node *n = node_find((struct tree *)t, node);

	if (n == NULL || n->contents.len == 0)
		return false;
	*(uint8_t *)n->contents.data ^= 4;
	return true;
}
