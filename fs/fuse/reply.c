#include "fs/fuse/reply.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "cell/base/keyed.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/sys/lsfs_ioctl.h"

KEYED_TREE(parked_tree, parked, by_call, call)

/* ---- parking ---- */

static void
enqueue(struct parked *p, struct parked_queue *queue)
{
	if (p->interrupts)
		TAILQ_REMOVE(p->interrupts, p, by_interrupt);
	p->interrupts = queue;
	if (queue)
		TAILQ_INSERT_TAIL(queue, p, by_interrupt);
}

/* Called by libfuse while it processes another request, or from within reply_park itself, with the
 * request locked: an answer here would free the request while libfuse uses it. So the interrupt is
 * only recorded. */
static void
on_interrupt(fuse_req_t req, void *user)
{
	struct parked *p = user;

	(void)req;
	if (p->interrupts == NULL)
		enqueue(p, &p->replies->interrupted);
}

/* Such a call may wait for as long as it likes. */
static bool
may_wait(const struct mount_event *e)
{
	return ((e->kind == MOUNT_FLOCK || e->kind == MOUNT_SETLK) && e->wait) ||
	       (e->kind == MOUNT_READ &&
	        (e->ino == MOUNT_INO_EVENTS || e->ino == MOUNT_INO_CHANGES));
}

void
reply_park(struct replies *r, fuse_req_t req, struct mount_event *event)
{
	struct parked *p = memory_zero(1, sizeof *p);

	p->replies = r;
	p->req = req;
	p->call = event->call = ++r->last_call;
	p->kind = event->kind;
	p->by_ioctl = event->by_ioctl;
	p->ino = event->ino;
	p->size = event->size;
	p->offset = event->offset;
	if (may_wait(event))
		p->request = bytes_copy(r->request);
	RB_INSERT(parked_tree, &r->parked, p);
	fuse_req_interrupt_func(req, on_interrupt, p);
}

static void
unpark(struct replies *r, struct parked *p)
{
	RB_REMOVE(parked_tree, &r->parked, p);
	enqueue(p, NULL);
	free((void *)p->request.data);
	free(p);
}

/* ---- interrupted calls ---- */

bool
reply_interrupted(struct replies *r, struct mount_event *event)
{
	struct parked *p = TAILQ_FIRST(&r->interrupted);

	if (p == NULL)
		return false;
	event->call = p->call;
	event->thread = fuse_req_ctx(p->req)->pid;
	return true;
}

void
reply_seen(struct replies *r)
{
	enqueue(TAILQ_FIRST(&r->interrupted), &r->seen);
}

void
reply_look_again(struct replies *r)
{
	while (!TAILQ_EMPTY(&r->seen))
		enqueue(TAILQ_FIRST(&r->seen), &r->interrupted);
}

bool
reply_has_interrupted(const struct replies *r)
{
	return !TAILQ_EMPTY(&r->interrupted);
}

bool
reply_has_seen(const struct replies *r)
{
	return !TAILQ_EMPTY(&r->seen);
}

/* ---- for another process ---- */

bool
reply_is_still(const struct replies *r)
{
	struct parked *p;

	RB_FOREACH(p, parked_tree, (struct parked_tree *)&r->parked)
		if (p->request.len == 0)
			return false;
	return true;
}

const struct parked *
reply_after(struct replies *r, const struct parked *p)
{
	return parked_tree_after(&r->parked, p != NULL ? p->call : 0);
}

/* ---- writing ---- */

/* tv_nsec is never negative: times before 1970 are rounded down to a second. */
static struct timespec
timespec_of(int64_t ns)
{
	struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

	if (t.tv_nsec < 0) {
		t.tv_sec--;
		t.tv_nsec += 1000000000;
	}
	return t;
}

static struct stat
stat_of(const struct replies *r, const struct mount_stat *from)
{
	struct timespec mtime = timespec_of(from->mtime_ns);

	return (struct stat){
	    .st_ino = from->ino,
	    .st_mode = from->mode,
	    .st_nlink = from->nlink,
	    .st_uid = r->uid,
	    .st_gid = r->gid,
	    .st_size = (off_t)from->size,
	    .st_blksize = 4096,
	    .st_blocks = (blkcnt_t)((from->size + 511) / 512),
	    .st_atim = mtime,
	    .st_mtim = mtime,
	    .st_ctim = timespec_of(from->ctime_ns),
	};
}

static double
seconds(span_t d)
{
	return (double)d.ns / 1e9;
}

static struct fuse_entry_param
entry_of(const struct replies *r, const struct mount_reply *m)
{
	return (struct fuse_entry_param){
	    .ino = m->stat.ino,
	    .attr = stat_of(r, &m->stat),
	    .attr_timeout = seconds(m->attr_timeout),
	    .entry_timeout = seconds(m->entry_timeout),
	};
}

/* Nothing can be read twice in the stream of events. Direct I/O: contents are served from the
 * handle's snapshot, and the kernel caches no pages. */
static struct fuse_file_info
file_of(const struct parked *p, const struct mount_reply *m)
{
	return (struct fuse_file_info){.fh = m->fh,
	                               .direct_io = p->kind != MOUNT_OPENDIR,
	                               .nonseekable = p->ino == MOUNT_INO_EVENTS};
}

/* A request with size 0 asks for the length; a buffer that is too small is answered ERANGE. */
static int
send_attribute(fuse_req_t req, size_t size, struct bytes value)
{
	if (size == 0)
		return fuse_reply_xattr(req, value.len);
	if (size < value.len)
		return fuse_reply_err(req, ERANGE);
	return fuse_reply_buf(req, (const char *)value.data, value.len);
}

static int
send_data(const struct parked *p, const struct mount_reply *m)
{
	struct lsfs_number number = {0};

	if (p->kind == MOUNT_NUMBER) {
		must(m->data.len < sizeof number.name);
		memcpy(number.name, m->data.data, m->data.len);
		return fuse_reply_ioctl(p->req, 0, &number, sizeof number);
	}
	if (p->kind == MOUNT_GETXATTR || p->kind == MOUNT_LISTXATTR)
		return send_attribute(p->req, p->size, m->data);
	return fuse_reply_buf(p->req, (const char *)m->data.data, m->data.len);
}

static int
send_listing(const struct parked *p, const struct mount_reply *m)
{
	char *buf = memory_zero(p->size, 1), name[LIMIT_NAME + 1];
	size_t used = 0, n;
	int rc;

	for (size_t i = 0; i < m->children_n; i++) {
		const struct mount_child *child = &m->children[i];
		struct stat st = {.st_ino = child->ino, .st_mode = child->mode};

		must(child->name.len < sizeof name);
		memcpy(name, child->name.data, child->name.len);
		name[child->name.len] = '\0';
		n = fuse_add_direntry(p->req, buf + used, p->size - used, name, &st,
		                      p->offset + (off_t)i + 1);
		if (n > p->size - used)
			break;
		used += n;
	}
	rc = fuse_reply_buf(p->req, buf, used);
	free(buf);
	return rc;
}

enum { STATFS_BLOCK = 4096 };

static int
send_statfs(const struct parked *p, const struct mount_reply *m)
{
	uint64_t bytes = m->bytes < m->bytes_quota ? m->bytes_quota - m->bytes : 0;
	uint64_t nodes = m->nodes < m->nodes_quota ? m->nodes_quota - m->nodes : 0;
	struct statvfs v = {
	    .f_bsize = STATFS_BLOCK,
	    .f_frsize = STATFS_BLOCK,
	    .f_blocks = m->bytes_quota / STATFS_BLOCK,
	    .f_bfree = bytes / STATFS_BLOCK,
	    .f_bavail = bytes / STATFS_BLOCK,
	    .f_files = m->nodes_quota,
	    .f_ffree = nodes,
	    .f_favail = nodes,
	    .f_namemax = LIMIT_NAME,
	};

	return fuse_reply_statfs(p->req, &v);
}

static int
send_lock(const struct parked *p, const struct mount_reply *m)
{
	struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_pid = m->lock_pid};

	if (m->lock_mode != LOCK_NONE)
		lock.l_type = m->lock_mode == LOCK_SHARED ? F_RDLCK : F_WRLCK;
	return fuse_reply_lock(p->req, &lock);
}

/* libfuse has no name for a stream, of which several readers of one open file can wait at once.
 * Without that, the kernel keeps the position for the first of them, and a second one waits so that
 * no signal ends it. */
static void
send_opened(const struct parked *p, const struct fuse_file_info *file)
{
	const struct fuse_open_out stream = {
	    .fh = file->fh,
	    .open_flags = FOPEN_DIRECT_IO | FOPEN_NONSEEKABLE | FOPEN_STREAM,
	};

	if (file->nonseekable)
		fuse_reply_buf(p->req, (const char *)&stream, sizeof stream);
	else
		fuse_reply_open(p->req, file);
}

/* Errors of libfuse's reply functions are ignored: they mean that the kernel has ended the
 * connection, and then no caller waits for the reply any more. */
static void
send_good(const struct replies *r, const struct parked *p, const struct mount_reply *m)
{
	struct fuse_entry_param entry;
	struct fuse_file_info file = file_of(p, m);
	struct stat st;

	switch (m->kind) {
	case MOUNT_STATUS:
		if (p->by_ioctl)
			fuse_reply_ioctl(p->req, 0, NULL, 0);
		else
			fuse_reply_err(p->req, 0);
		break;
	case MOUNT_ENTRY:
		entry = entry_of(r, m);
		fuse_reply_entry(p->req, &entry);
		break;
	case MOUNT_ATTR:
		st = stat_of(r, &m->stat);
		fuse_reply_attr(p->req, &st, seconds(m->attr_timeout));
		break;
	case MOUNT_OPENED:
		send_opened(p, &file);
		break;
	case MOUNT_CREATED:
		entry = entry_of(r, m);
		fuse_reply_create(p->req, &entry, &file);
		break;
	case MOUNT_DATA:
		send_data(p, m);
		break;
	case MOUNT_COUNT:
		fuse_reply_write(p->req, m->count);
		break;
	case MOUNT_LISTING:
		send_listing(p, m);
		break;
	case MOUNT_STATS:
		send_statfs(p, m);
		break;
	case MOUNT_LOCK:
		send_lock(p, m);
		break;
	case MOUNT_POLLED:
		fuse_reply_poll(p->req, m->revents);
		break;
	}
}

/* setxattr(2) fails with EOPNOTSUPP when FUSE answers EAGAIN, so a busy lock that was to be
 * acquired by attribute is reported as EBUSY. */
static int
error_of(const struct parked *p, const struct mount_reply *m)
{
	return p->kind == MOUNT_SETXATTR && m->error == EAGAIN ? EBUSY : m->error;
}

void
reply_send(struct replies *r, const struct mount_reply *m)
{
	struct parked *p = parked_tree_find(&r->parked, m->call);
	int error;

	must(p);
	must(m->error >= 0);
	error = error_of(p, m);
	if (error)
		fuse_reply_err(p->req, error);
	else
		send_good(r, p, m);
	unpark(r, p);
}

/* ---- creation and the end ---- */

void
replies_init(struct replies *r, uid_t uid, gid_t gid)
{
	RB_INIT(&r->parked);
	TAILQ_INIT(&r->interrupted);
	TAILQ_INIT(&r->seen);
	r->last_call = 0;
	r->request = (struct bytes){0};
	r->uid = uid;
	r->gid = gid;
}

void
replies_fini(struct replies *r)
{
	struct parked *p;

	while ((p = RB_MIN(parked_tree, &r->parked))) {
		fuse_reply_err(p->req, ENOTCONN);
		unpark(r, p);
	}
}
