/* Names: which ones a node may have. */
#include <string.h>
#include "cell/tree/internal.h"

size_t
path_length(const struct node *n)
{
	size_t len = 0;

	for (; n->parent != NULL && len <= LIMIT_PATH; n = n->parent)
		len += 1 + n->name.len;
	return len;
}

enum rc
name_check_length(const struct node *directory, struct bytes name)
{
	if (name.len > LIMIT_NAME || path_length(directory) + 1 + name.len > LIMIT_PATH)
		return RC_NAMETOOLONG;
	return RC_OK;
}

bool
name_valid(struct bytes name)
{
	if (name.len == 0 || name.len > LIMIT_NAME)
		return false;
	if (bytes_equal(name, bytes_of(".")) || bytes_equal(name, bytes_of("..")))
		return false;
	for (size_t i = 0; i < name.len; i++) {
		if (name.data[i] < 0x20 || name.data[i] == 0x7f || name.data[i] == '/')
			return false;
	}
	return true;
}

enum rc
name_check(const struct node *directory, struct bytes name)
{
	enum rc rc = name_check_length(directory, name);

	if (rc != RC_OK)
		return rc;
	if (!name_valid(name))
		return RC_INVAL;
	/* The mount shows its own virtual directory there. */
	if (directory->number == NODE_ROOT && bytes_equal(name, bytes_of(".cell")))
		return RC_PERM;
	return RC_OK;
}
