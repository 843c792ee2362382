/* The mount as another process goes on with it. docs/operations.md tells what for.
 *
 * Nothing is written of calls: while one is under way that the cell is to answer, no image is made.
 * The calls that wait longer, for a lock or for an event, have done nothing but to queue; the next
 * mount is called again, and each acquire is kept for that, like one whose caller was interrupted
 * (mount_lock.c). */
#include "fs/mount/internal.h"
#include "fs/mount/transaction_text.h"

enum {
	CALLED_AGAIN_S = 10, /* until the driver has made a call again that waits, */
	REPEATED_S = 1,      /* and the kernel one that was interrupted */
};

/* The versions of contents, in the order in which something refers to them first. */
struct versions_imaged {
	struct version **list;
	size_t n, room;
};

/* ---- whether it can be made ---- */

/* For a change or an event; or its acquire is in the queue at the cell; or it waits behind another
 * call, which is looked at itself. */
static bool
waits(const struct mount *m, const struct call *c)
{
	const struct handle *h = c->handle;

	if (c->queue == &m->changes.readers)
		return true;
	if (h != NULL && h->active != NULL && c->queue == &h->queue)
		return true;
	if (h != NULL && h->stream != NULL && c->queue == &h->stream->readers)
		return true;
	return c->lock != NULL && c->lock->ask == ASK_QUEUED && c->event.wait &&
	       (c->lock->caller == c || (c->queue == &c->lock->queue && c->mode != LOCK_NONE));
}

bool
mount_is_still(const struct mount *m)
{
	const struct call *c;

	TAILQ_FOREACH(c, &m->calls.all, of_mount)
		if (c->answered || c->token != 0 || !waits(m, c))
			return false;
	return true;
}

/* ---- versions ---- */

/* One that several refer to is written once; those that are read have a reference in the list. */
static void
image_version(struct mount *m, struct image *i, struct versions_imaged *all, struct version **v)
{
	size_t place;

	if (!image_reads(i)) {
		const bool known =
		    *v != NULL && (*v)->imaged < all->n && all->list[(*v)->imaged] == *v;
		const struct inode *at = *v != NULL ? inode_find(m, (*v)->node) : NULL;

		if (*v != NULL && !known)
			(*v)->imaged = all->n;
		image_number(i, *v != NULL ? (*v)->imaged + 1 : 0);
		if (*v == NULL || known)
			return;
		image_number(i, (*v)->node);
		image_number(i, (*v)->generation);
		image_number(i, at != NULL && at->newest == *v);
		image_bytes(i, &(*v)->data);
		ARRAY_ROOM(all->list, all->n, all->room);
		all->list[all->n++] = *v;
		return;
	}
	place = (size_t)image_number(i, 0);
	if (place == all->n + 1) {
		const uint64_t node = image_number(i, 0), generation = image_number(i, 0);
		const bool newest = image_number(i, 0) != 0;
		struct bytes data;

		image_bytes(i, &data);
		ARRAY_ROOM(all->list, all->n, all->room);
		all->list[all->n++] =
		    version_new(m, newest ? inode_find(m, node) : NULL, node, generation, data);
	}
	if (place > all->n)
		image_refuse(i);
	else if (place > 0)
		*v = version_ref(all->list[place - 1]);
}

/* ---- inodes ---- */

static void
image_attr(struct image *i, struct attr *a)
{
	IMAGE(i, a->node);
	IMAGE(i, a->parent);
	IMAGE(i, a->kind);
	IMAGE(i, a->ephemeral);
	IMAGE(i, a->rights);
	IMAGE(i, a->size);
	IMAGE(i, a->children);
	IMAGE(i, a->content_generation);
	IMAGE(i, a->acl_generation);
	IMAGE(i, a->checksum);
	IMAGE(i, a->mtime_ns);
	IMAGE(i, a->ctime_ns);
	IMAGE(i, a->lock_delay_s);
	IMAGE(i, a->lock_slots);
	IMAGE(i, a->ttl_s);
}

static void
image_inode(struct image *i, struct inode *n)
{
	IMAGE(i, n->nlookup);
	IMAGE(i, n->parent);
	image_bytes(i, &n->name);
	image_attr(i, &n->attr);
	IMAGE(i, n->index);
	IMAGE(i, n->dead);
	IMAGE(i, n->gone_here);
	IMAGE(i, n->kept);
	IMAGE_TIME(i, n->named_until);
	IMAGE(i, n->found);
	IMAGE(i, n->moved_to);
	IMAGE(i, n->maker);
	IMAGE(i, n->opened);
	IMAGE(i, n->watched);
	image_bytes(i, &n->watcher);
	IMAGE(i, n->told_gone);
}

/* All inodes come first: the others name them by their numbers. */
static void
image_inodes(struct mount *m, struct image *i)
{
	struct inode *n = RB_MIN(inode_numbers, &m->inodes);
	uint64_t ino, last = 0;

	for (; !image_reads(i) && image_number(i, n != NULL ? n->ino : 0) != 0;
	     n = RB_NEXT(inode_numbers, &m->inodes, n))
		image_inode(i, n);
	while (image_reads(i) && (ino = image_number(i, 0)) != 0) {
		if (ino <= last || inode_is_virtual(ino)) {
			image_refuse(i);
			return;
		}
		image_inode(i, inode_get(m, last = ino));
	}
	RB_FOREACH(n, inode_numbers, &m->inodes) {
		struct inode *to = n->moved_to != 0 ? inode_find(m, n->moved_to) : NULL;

		if (image_reads(i) && n->moved_to != 0 && (to == NULL || to == n))
			image_refuse(i);
		else if (image_reads(i) && to != NULL)
			to->refs++;
	}
}

/* ---- handles ---- */

static void
image_writers(struct image *i, struct writer **writers, size_t *writers_n, size_t *room)
{
	size_t n = (size_t)image_number(i, *writers_n);

	for (size_t at = 0; at < n && !i->from.failed; at++) {
		if (image_reads(i)) {
			ARRAY_ROOM(*writers, *writers_n, *room);
			(*writers)[(*writers_n)++] = (struct writer){0};
		}
		IMAGE(i, (*writers)[at].lock_owner);
		IMAGE(i, (*writers)[at].pid);
		IMAGE(i, (*writers)[at].thread);
	}
}

/* The names are views into one block, which may move until all are read. */
static void
read_listing(struct image *i, struct handle *h)
{
	struct buffer names = BUFFER(h->pages.limit);
	struct mount_child *list = NULL;
	size_t n = 0, room = 0, from = 0;
	uint64_t ino;

	while ((ino = image_number(i, 0)) != 0) {
		struct bytes name = {0};

		ARRAY_ROOM(list, n, room);
		list[n] = (struct mount_child){.ino = ino, .mode = (mode_t)image_number(i, 0)};
		image_bytes(i, &name);
		if (name.len > LIMIT_NAME)
			image_refuse(i);
		list[n++].name.len = name.len;
		buffer_put_bytes(&names, name);
		free((void *)name.data);
	}
	if (names.failed)
		image_refuse(i);
	h->listing = buffer_take(&names);
	for (size_t at = 0; at < n && !i->bad; at++) {
		list[at].name.data = h->listing.data + from;
		from += list[at].name.len;
	}
	h->children = list;
	h->children_n = n;
}

static void
image_listing(struct image *i, struct handle *h)
{
	if (image_number(i, h->children != NULL) == 0)
		return;
	if (image_reads(i)) {
		read_listing(i, h);
		return;
	}
	must(h->children != NULL);
	for (size_t at = 0; at < h->children_n; at++) {
		image_number(i, h->children[at].ino);
		image_number(i, h->children[at].mode);
		image_bytes(i, &h->children[at].name);
	}
	image_number(i, 0);
}

static void
image_handle(struct mount *m, struct image *i, struct versions_imaged *versions, struct handle *h)
{
	uint64_t made;

	if (h->kind == HANDLE_VIRTUAL) {
		h->edited.limit = LIMIT_FRAME;
		h->sequencer.limit = TRANSACTION_TEXT;
	}
	IMAGE(i, h->dead);
	IMAGE(i, h->poisoned);
	IMAGE(i, h->outlived);
	IMAGE(i, h->flags);
	image_bytes(i, &h->user);
	IMAGE(i, h->opener);
	IMAGE(i, h->opener_thread);
	IMAGE(i, h->opener_gone);
	image_version(m, i, versions, &h->base);
	IMAGE(i, h->generation);
	IMAGE(i, h->seen);
	IMAGE(i, h->renew);
	IMAGE(i, h->at_end);
	image_version(m, i, versions, &h->mapped);
	IMAGE(i, h->mapped_ino);
	IMAGE(i, h->mapped_before);
	IMAGE(i, h->pages_in);
	IMAGE(i, h->edit);
	image_buffer(i, &h->edited);
	image_buffer(i, &h->sequencer);
	IMAGE(i, h->answer_at);
	IMAGE(i, h->since);
	IMAGE(i, h->refused);
	IMAGE(i, h->lost);
	IMAGE(i, h->truncation);
	IMAGE(i, h->unconditional);
	IMAGE(i, h->tainted);
	IMAGE(i, h->dated);
	IMAGE(i, h->mtime_ns);
	image_writers(i, &h->writers, &h->writers_n, &h->writers_room);
	IMAGE(i, h->owed);
	IMAGE(i, h->heard);
	IMAGE(i, h->others_told);
	image_writers(i, &h->creditors, &h->creditors_n, &h->creditors_room);
	IMAGE(i, h->guard.node);
	IMAGE(i, h->guard.lock_generation);
	IMAGE(i, h->guard.mode);
	IMAGE(i, h->guard.fence);
	IMAGE(i, h->opened.node);
	IMAGE(i, h->opened.rights);
	image_array(i, h->opened.check, sizeof h->opened.check);
	IMAGE(i, h->polled);
	IMAGE(i, h->tree);
	IMAGE(i, h->pending);
	IMAGE(i, h->wakes);
	if (image_number(i, h->stream != NULL) != 0) {
		if (image_reads(i))
			event_stream_make(m, h);
		must(h->stream != NULL);
		image_buffer(i, &h->stream->lines);
		IMAGE(i, h->stream->lost);
		IMAGE(i, h->stream->lost_ns);
	}
	image_listing(i, h);
	made = image_number(i, h->made != NULL ? h->made->ino : 0);
	if (image_reads(i) && made != 0 && inode_find(m, made) != NULL)
		handle_keep(m, h, inode_find(m, made));
	if (h->edit > EDIT_WHOLE)
		image_refuse(i);
}

static void
image_handles(struct mount *m, struct image *i, struct versions_imaged *versions)
{
	struct handle *h = TAILQ_FIRST(&m->handles.all);
	uint64_t fh, ino;
	struct inode *n;

	IMAGE(i, m->handles.next_fh);
	for (; !image_reads(i) && image_number(i, h != NULL ? h->fh : 0) != 0;
	     h = TAILQ_NEXT(h, of_mount)) {
		image_number(i, h->inode != NULL ? h->inode->ino : 0);
		image_handle(m, i, versions, h);
	}
	while (image_reads(i) && (fh = image_number(i, 0)) != 0) {
		ino = image_number(i, 0);
		n = ino != 0 ? inode_find(m, ino) : NULL;
		if (fh > m->handles.next_fh || handle_find(m, fh) != NULL ||
		    (n == NULL && ino != 0)) {
			image_refuse(i);
			return;
		}
		image_handle(m, i, versions, handle_make(m, n, fh));
	}
}

/* ---- locks ---- */

static void
image_lock(struct mount *m, struct image *i, struct mount_lock *l)
{
	const mono_t called = mono_add(m->now, span_s(CALLED_AGAIN_S));
	const mono_t repeated = mono_add(m->now, span_s(REPEATED_S));
	bool kept = l->is_kept || l->caller != NULL;
	mono_t until = l->is_kept ? mono_max(l->kept_until, repeated) : called;
	size_t n;

	IMAGE(i, l->owner);
	IMAGE(i, l->mode);
	IMAGE(i, l->acquisition);
	IMAGE(i, l->ask);
	IMAGE(i, l->asked);
	IMAGE(i, l->asked_acquisition);
	IMAGE(i, l->asked_fh);
	IMAGE(i, l->wait);
	IMAGE(i, l->granted);
	IMAGE(i, kept);
	IMAGE_TIME(i, until);
	n = (size_t)image_number(i, l->handles_n);
	for (size_t at = 0; at < n && !i->from.failed; at++) {
		if (image_reads(i)) {
			ARRAY_ROOM(l->handles, l->handles_n, l->handles_room);
			l->handles[l->handles_n++] = 0;
		}
		IMAGE(i, l->handles[at]);
	}
	if (!image_reads(i))
		return;
	if ((l->ask != ASK_NONE && l->ask != ASK_QUEUED) || kept != (l->ask == ASK_QUEUED) ||
	    l->mode > LOCK_EXCLUSIVE || (l->mode == LOCK_NONE && !kept))
		image_refuse(i);
	else if (kept)
		lock_keep_until(m, l, until);
}

static void
read_locks(struct mount *m, struct image *i)
{
	uint64_t ino, kind, key;
	struct inode *n;

	while ((ino = image_number(i, 0)) != 0) {
		kind = image_number(i, 0);
		key = image_number(i, 0);
		n = inode_find(m, ino);
		if (n == NULL || kind > LOCK_ATTRIBUTE ||
		    lock_find(n, (enum lock_kind)kind, key) != NULL) {
			image_refuse(i);
			return;
		}
		image_lock(m, i, lock_get(m, n, (enum lock_kind)kind, key));
	}
}

static void
image_locks(struct mount *m, struct image *i)
{
	struct mount_lock *l;
	struct inode *n;

	if (image_reads(i)) {
		read_locks(m, i);
	} else {
		RB_FOREACH(n, inode_numbers, &m->inodes)
			TAILQ_FOREACH(l, &n->locks, of_inode) {
				image_number(i, n->ino);
				image_number(i, l->kind);
				image_number(i, l->key);
				image_lock(m, i, l);
			}
		image_number(i, 0);
	}
	IMAGE(i, m->locks.next_owner);
	IMAGE(i, m->locks.next_acquisition);
}

/* ---- the whole ---- */

static void
image_walks(struct image *i, struct stale_walks *all)
{
	const size_t walks = (size_t)image_number(i, all->n);

	for (size_t n = 0; n < walks && !i->from.failed; n++) {
		struct stale_walk *w;

		if (image_reads(i)) {
			ARRAY_ROOM(all->walks, all->n, all->room);
			all->walks[all->n++] = (struct stale_walk){0};
		}
		w = &all->walks[n];
		IMAGE(i, w->thread);
		IMAGE(i, w->call);
		IMAGE(i, w->dead);
		IMAGE(i, w->began);
		IMAGE(i, w->absent_in);
		IMAGE(i, w->absent);
		IMAGE(i, w->twice);
		IMAGE(i, w->lacks);
		IMAGE_TIME(i, w->until);
	}
	IMAGE(i, all->found);
	IMAGE_TIME(i, all->until);
}

static void
image_mount(struct mount *m, struct image *i)
{
	struct versions_imaged versions = {0};
	struct inode *n;

	IMAGE_TIME(i, m->now);
	if (image_reads(i))
		m->changes.ask_at = m->now; /* for those who poll .cell/changes */
	IMAGE(i, m->session.id);
	IMAGE(i, m->session.over);
	IMAGE(i, m->stand_ins);
	IMAGE(i, m->summary.usage.nodes);
	IMAGE(i, m->summary.usage.quota_nodes);
	IMAGE(i, m->summary.usage.bytes);
	IMAGE(i, m->summary.usage.quota_bytes);
	image_walks(i, &m->stale);
	image_inodes(m, i);
	RB_FOREACH(n, inode_numbers, &m->inodes)
		image_version(m, i, &versions, &n->last);
	image_handles(m, i, &versions);
	image_locks(m, i);
	while (image_reads(i) && versions.n > 0)
		version_put(m, versions.list[--versions.n]);
	free(versions.list);
}

void
mount_save(struct mount *m, mono_t now, struct image *to)
{
	must(mount_is_still(m));
	m->now = now;
	image_mount(m, to);
}

struct mount *
mount_load(const struct mount_config *config, const struct client *client, struct image *from)
{
	struct mount *m = mount_new(config, client);
	struct inode *i;

	image_mount(m, from);
	RB_FOREACH(i, inode_numbers, &m->inodes)
		if (i->refs == 0 && i->nlookup == 0)
			image_refuse(from);
	if (!from->from.failed)
		return m;
	mount_free(m);
	return NULL;
}
