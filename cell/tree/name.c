/* The rules for names, and the look-up of a name. */
#include <string.h>
#include "cell/tree/internal.h"

size_t
name_path_length(const struct node *n)
{
	size_t len = 0;

	for (; n->parent != NULL && len <= LIMIT_PATH; n = n->parent)
		len += 1 + n->name.len;
	return len;
}

static enum rc
check_length(const struct node *directory, struct bytes name)
{
	if (name.len > LIMIT_NAME || name_path_length(directory) + 1 + name.len > LIMIT_PATH)
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
	enum rc rc = check_length(directory, name);

	if (rc != RC_OK)
		return rc;
	if (!name_valid(name))
		return RC_INVAL;
	/* The mount shows its own virtual directory there. */
	if (directory->number == NODE_ROOT && bytes_equal(name, bytes_of(".cell")))
		return RC_PERM;
	return RC_OK;
}

enum rc
name_look_up(const struct tree *t, uint64_t directory, struct bytes name, struct node **n)
{
	const struct node *parent = node_find(t, directory);
	enum rc rc;

	*n = NULL;
	if (parent == NULL)
		return RC_STALE;
	if (parent->kind != NODE_DIRECTORY)
		return RC_NOTDIR;
	if ((rc = check_length(parent, name)) != RC_OK)
		return rc;
	*n = node_child(parent, name);
	return *n == NULL ? RC_NOENT : RC_OK;
}
