/* One version of a node's contents, whole. It never changes, so all its readers share it: handles,
 * mappings, and replies to the kernel. It is freed with the last of them. */
#include <string.h>
#include "fs/mount/internal.h"

/* `i` is the node's inode; NULL: it has none here. */
static struct version *
version_new(struct mount *m, struct inode *i, uint64_t node, uint64_t generation, struct bytes own)
{
	struct version *v = memory_zero(1, sizeof *v);

	v->refs = 1;
	v->node = node;
	v->generation = generation;
	v->data = own;
	if (i)
		i->newest = v;
	m->versions.n++;
	return v;
}

/* The latest version in memory if it has this generation, with one more reference; else NULL. */
static struct version *
version_known(struct inode *i, uint64_t generation)
{
	if (i == NULL || i->newest == NULL || i->newest->generation != generation)
		return NULL;
	i->newest->refs++;
	return i->newest;
}

struct version *
version_get(struct mount *m, uint64_t node, uint64_t generation, struct bytes data)
{
	struct inode *i = inode_find(m, node);
	struct version *v = version_known(i, generation);

	return v ? v : version_new(m, i, node, generation, bytes_copy(data));
}

struct version *
version_take(struct mount *m, struct inode *i, uint64_t generation, struct buffer *data)
{
	struct version *v = version_known(i, generation);

	if (v)
		buffer_free(data);
	return v ? v : version_new(m, i, i->ino, generation, buffer_take(data));
}

struct version *
version_ref(struct version *v)
{
	if (v)
		v->refs++;
	return v;
}

void
version_put(struct mount *m, struct version *v)
{
	struct inode *i;

	if (v == NULL || --v->refs)
		return;
	i = inode_find(m, v->node);
	if (i && i->newest == v)
		i->newest = NULL;
	free((void *)v->data.data);
	free(v);
	m->versions.n--;
}

void
version_set(struct mount *m, struct version **at, struct version *v)
{
	struct version *old = *at;

	*at = v;
	version_put(m, old);
}

/* ---- views ---- */

/* `size` bytes at `offset`, or as many as there are. */
struct bytes
bytes_slice(struct bytes b, int64_t offset, size_t size)
{
	if (offset < 0 || (uint64_t)offset >= b.len)
		return (struct bytes){0};
	b.data += offset;
	b.len -= (size_t)offset;
	if (b.len > size)
		b.len = size;
	return b;
}

void
version_answer(struct mount *m, struct call *c, struct version *v)
{
	struct mount_reply *r = call_reply(m, c, MOUNT_DATA);

	if (r) {
		r->data = bytes_slice(v->data, c->event.offset, c->event.size);
		ARRAY_ROOM(m->versions.viewed, m->versions.viewed_n, m->versions.viewed_room);
		m->versions.viewed[m->versions.viewed_n++] = version_ref(v);
	}
	call_end(m, c);
}

void
versions_free(struct mount *m)
{
	free(m->versions.viewed);
}

void
version_views_end(struct mount *m)
{
	while (m->versions.viewed_n)
		version_put(m, m->versions.viewed[--m->versions.viewed_n]);
}

size_t
mount_versions(const struct mount *m)
{
	return m->versions.n;
}
