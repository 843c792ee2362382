/* The virtual directory /.cell. Only reads of `locks` and `check` wait for the cell, and reads of
 * `events` for events. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "config.h"
#include "fs/mount/internal.h"

/* Sorted by name. */
static const struct {
	const char *name;
	uint64_t ino;
	mode_t mode;
} files[] = {
    {"check", MOUNT_INO_CHECK, S_IFREG | 0666},   {"events", MOUNT_INO_EVENTS, S_IFREG | 0444},
    {"locks", MOUNT_INO_LOCKS, S_IFREG | 0444},   {"metrics", MOUNT_INO_METRICS, S_IFREG | 0444},
    {"status", MOUNT_INO_STATUS, S_IFREG | 0444},
};

enum { FILES = sizeof files / sizeof files[0] };

uint64_t
virtual_named(struct bytes name)
{
	for (size_t i = 0; i < FILES; i++)
		if (bytes_equal(name, bytes_of(files[i].name)))
			return files[i].ino;
	return 0;
}

static mode_t
mode_of(uint64_t ino)
{
	for (size_t i = 0; i < FILES; i++)
		if (files[i].ino == ino)
			return files[i].mode;
	return S_IFDIR | 0555;
}

/* ---- status ---- */

static void
put_seconds(struct buffer *to, const char *key, mono_t now, mono_t end)
{
	int64_t ms = mono_before(now, end) ? span_to_ms(mono_since(end, now)) : 0;

	buffer_printf(to, "%s: %lld.%03lld\n", key, (long long)(ms / 1000), (long long)(ms % 1000));
}

static void
status_text(const struct mount *m, struct buffer *to)
{
	struct client_status s = client_status(m->client);
	bool leased = s.state == CLIENT_SAFE || s.state == CLIENT_JEOPARDY;

	buffer_printf(to, "session: %llu\nstate: %s\n", (unsigned long long)s.session,
	              mount_session_state(s.state));
	if (s.lasting)
		buffer_printf(to, "lasting: yes\n");
	put_seconds(to, "lease_left", m->now, leased ? s.lease_end : m->now);
	if (!mono_is_never(s.leave_end) && mono_before(m->now, s.leave_end))
		put_seconds(to, "cache_left", m->now, s.leave_end);
	if (s.state == CLIENT_JEOPARDY && !mono_is_never(s.grace_end))
		put_seconds(to, "grace_left", m->now, s.grace_end);
	buffer_printf(to, "master: %u\nepoch: %llu\nrequests: %llu\n", s.master,
	              (unsigned long long)s.epoch, (unsigned long long)s.requests);
	buffer_printf(to, "cell: %s\nversion: %s\nprincipal: %s\n", m->config.cell, PACKAGE_VERSION,
	              s.principal);
}

/* The text of a file that does not need the cell. */
static void
state_text(const struct mount *m, uint64_t ino, struct buffer *to)
{
	if (ino == MOUNT_INO_METRICS)
		metrics_text(m, to);
	else
		status_text(m, to);
}

/* The sizes of the other files are not known before they are read. */
struct mount_stat
virtual_stat(struct mount *m, uint64_t ino)
{
	struct mount_stat s = {.ino = ino, .mode = mode_of(ino), .nlink = 1};
	struct buffer text = BUFFER(LIMIT_FRAME);

	if (ino == MOUNT_INO_CELL) {
		s.nlink = 2;
		s.size = FILES;
	} else if (ino == MOUNT_INO_STATUS || ino == MOUNT_INO_METRICS) {
		state_text(m, ino, &text);
		s.size = text.len;
	}
	buffer_free(&text);
	return s;
}

/* ---- calls ---- */

static void
virtual_opendir(struct mount *m, struct call *c)
{
	struct handle *h = handle_new(m, NULL, c);

	h->children = memory_zero(2 + FILES, sizeof *h->children);
	h->children[h->children_n++] = (struct mount_child){MOUNT_INO_CELL, S_IFDIR, bytes_of(".")};
	h->children[h->children_n++] = (struct mount_child){NODE_ROOT, S_IFDIR, bytes_of("..")};
	for (size_t i = 0; i < FILES; i++)
		h->children[h->children_n++] =
		    (struct mount_child){files[i].ino, S_IFREG, bytes_of(files[i].name)};
	call_opened(m, c, h->fh);
}

static void
virtual_readdir(struct mount *m, struct call *c)
{
	struct handle *h = handle_find(m, c->event.fh);
	struct mount_reply *r;

	if (h == NULL || h->kind != HANDLE_VIRTUAL || h->children == NULL) {
		call_status(m, c, EBADF);
		return;
	}
	r = call_reply(m, c, MOUNT_LISTING);
	if (c->event.offset >= 0 && (size_t)c->event.offset < h->children_n) {
		r->children = h->children + c->event.offset;
		r->children_n = h->children_n - (size_t)c->event.offset;
	}
	call_end(m, c);
}

static void
open_file(struct mount *m, struct call *c)
{
	struct handle *h = handle_new(m, NULL, c);

	if (c->event.ino == MOUNT_INO_EVENTS)
		event_stream_open(m, h);
	call_opened(m, c, h->fh);
}

static void
virtual_open(struct mount *m, struct call *c)
{
	const int flags = c->event.flags;

	if (c->event.ino == MOUNT_INO_CELL)
		call_status(m, c, EISDIR);
	else if (((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC)) &&
	         c->event.ino != MOUNT_INO_CHECK)
		call_status(m, c, EACCES);
	else
		open_file(m, c);
}

/* The call refers to its handle; false: it was answered EBADF. */
static bool
refer_handle(struct mount *m, struct call *c)
{
	struct handle *h = handle_find(m, c->event.fh);

	if (h == NULL || h->kind != HANDLE_VIRTUAL || c->event.offset < 0) {
		call_status(m, c, EBADF);
		return false;
	}
	handle_refer(c, h);
	return true;
}

void
virtual_text(struct mount *m, struct call *c, int64_t from)
{
	struct bytes text = buffer_view(&c->handle->edited);

	call_data(m, c, bytes_slice(text, c->event.offset - from, c->event.size));
}

/* The text is made by a read at offset 0; further reads continue the same text. */
static void
state_read(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;

	if (c->event.offset == 0) {
		buffer_reset(&h->edited);
		h->edited.limit = LIMIT_FRAME;
		state_text(m, c->event.ino, &h->edited);
	}
	virtual_text(m, c, 0);
}

static void
virtual_read(struct mount *m, struct call *c)
{
	if (!refer_handle(m, c))
		return;
	if (c->event.ino == MOUNT_INO_CHECK)
		virtual_check_read(m, c);
	else if (c->event.ino == MOUNT_INO_LOCKS)
		virtual_locks_read(m, c);
	else if (c->handle->stream)
		event_stream_read(m, c);
	else
		state_read(m, c);
}

static void
virtual_write(struct mount *m, struct call *c)
{
	if (!refer_handle(m, c))
		return;
	if (c->event.ino == MOUNT_INO_CHECK)
		virtual_check_write(m, c);
	else
		call_status(m, c, EBADF);
}

static int
virtual_access(const struct mount_event *e)
{
	if ((e->flags & W_OK) && e->ino != MOUNT_INO_CHECK)
		return EACCES;
	return (e->flags & X_OK) && e->ino != MOUNT_INO_CELL ? EACCES : 0;
}

/* The calls whose inode is virtual; handlers with VIRTUAL_TOO check for themselves. */
void
virtual_call(struct mount *m, struct call *c)
{
	struct mount_stat s;

	switch (c->event.kind) {
	case MOUNT_GETATTR:
		s = virtual_stat(m, c->event.ino);
		call_attr(m, c, &s, (span_t){0});
		break;
	case MOUNT_ACCESS:
		call_status(m, c, virtual_access(&c->event));
		break;
	case MOUNT_OPEN:
		virtual_open(m, c);
		break;
	case MOUNT_READ:
		virtual_read(m, c);
		break;
	case MOUNT_WRITE:
		virtual_write(m, c);
		break;
	case MOUNT_OPENDIR:
		virtual_opendir(m, c);
		break;
	case MOUNT_READDIR:
		virtual_readdir(m, c);
		break;
	case MOUNT_FLUSH:
	case MOUNT_FSYNC:
		call_status(m, c, 0);
		break;
	case MOUNT_FLOCK:
	case MOUNT_SETLK:
	case MOUNT_GETLK:
		call_status(m, c, ENOLCK);
		break;
	default:
		call_status(m, c, EPERM);
		break;
	}
}
