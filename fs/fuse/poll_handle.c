#include "fs/fuse/poll_handle.h"
#include <stdlib.h>
#include "cell/base/keyed.h"
#include "cell/base/memory.h"

KEYED_TREE(poll_handle_tree, poll_handle, link, fh)

static struct poll_handle *
find(struct poll_handles *p, uint64_t fh)
{
	return poll_handle_tree_find(&p->by_fh, fh);
}

static void
drop(struct poll_handles *p, struct poll_handle *h)
{
	RB_REMOVE(poll_handle_tree, &p->by_fh, h);
	fuse_pollhandle_destroy(h->fuse);
	free((void *)h->request.data);
	free(h);
}

void
poll_handles_fini(struct poll_handles *p)
{
	struct poll_handle *h;

	while ((h = RB_ROOT(&p->by_fh)) != NULL)
		drop(p, h);
}

void
poll_handle_begin(struct poll_handles *p, uint64_t fh, struct fuse_pollhandle *fuse,
                  struct bytes request)
{
	struct poll_handle *h;

	poll_handle_end(p, fh);
	h = memory_zero(1, sizeof *h);
	h->fh = fh;
	h->fuse = fuse;
	h->request = bytes_copy(request);
	RB_INSERT(poll_handle_tree, &p->by_fh, h);
}

void
poll_handle_wake(struct poll_handles *p, uint64_t fh)
{
	struct poll_handle *h = find(p, fh);

	if (h == NULL)
		return;
	fuse_lowlevel_notify_poll(h->fuse);
	drop(p, h);
}

void
poll_handle_end(struct poll_handles *p, uint64_t fh)
{
	struct poll_handle *h = find(p, fh);

	if (h != NULL)
		drop(p, h);
}

const struct poll_handle *
poll_handle_after(struct poll_handles *p, const struct poll_handle *h)
{
	return poll_handle_tree_after(&p->by_fh, h != NULL ? h->fh : 0);
}
