/* The virtual directory /.cell: the state of this mount and its session. Its calls never wait for
 * the cell, and it can't be changed. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "config.h"
#include "fs/mount/internal.h"

bool
is_virtual(uint64_t ino)
{
	return (ino & MOUNT_INO_VIRTUAL) != 0;
}

/* ---- status ---- */

static const char *
state_name(enum client_state state)
{
	switch (state) {
	case CLIENT_NEW:
		return "connecting";
	case CLIENT_SAFE:
		return "safe";
	case CLIENT_JEOPARDY:
		return "jeopardy";
	case CLIENT_EXPIRED:
		return "expired";
	case CLIENT_CLOSED:
		return "closed";
	}
	return "unknown";
}

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
	              state_name(s.state));
	put_seconds(to, "lease_left", m->now, leased ? s.lease_end : m->now);
	if (s.state == CLIENT_JEOPARDY)
		put_seconds(to, "grace_left", m->now, s.grace_end);
	buffer_printf(to, "master: %u\nepoch: %llu\n", s.master, (unsigned long long)s.epoch);
	buffer_printf(to, "cell: %s\nversion: %s\nprincipal: %s\n", m->config.cell, PACKAGE_VERSION,
	              s.principal);
}

struct mount_stat
virtual_stat(struct mount *m, uint64_t ino)
{
	struct mount_stat s = {.ino = ino, .mode = S_IFREG | 0444, .nlink = 1};
	struct buffer text = BUFFER(4096);

	if (ino == MOUNT_INO_CELL) {
		s.mode = S_IFDIR | 0555;
		s.nlink = 2;
		s.size = 1;
		return s;
	}
	status_text(m, &text);
	s.size = text.len;
	buffer_free(&text);
	return s;
}

/* ---- calls ---- */

static void
virtual_opendir(struct mount *m, struct call *c)
{
	struct handle *h = handle_new(m, NULL, c);

	h->children = memory_zero(3, sizeof *h->children);
	h->children[h->children_n++] = (struct mount_child){MOUNT_INO_CELL, S_IFDIR, bytes_of(".")};
	h->children[h->children_n++] = (struct mount_child){NODE_ROOT, S_IFDIR, bytes_of("..")};
	h->children[h->children_n++] =
	    (struct mount_child){MOUNT_INO_STATUS, S_IFREG, bytes_of("status")};
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
virtual_open(struct mount *m, struct call *c)
{
	if (c->event.ino == MOUNT_INO_CELL)
		call_status(m, c, EISDIR);
	else if ((c->event.flags & O_ACCMODE) != O_RDONLY || (c->event.flags & O_TRUNC))
		call_status(m, c, EACCES);
	else
		call_opened(m, c, handle_new(m, NULL, c)->fh);
}

/* The text is made by a read at offset 0; further reads continue the same text. */
static void
virtual_read(struct mount *m, struct call *c)
{
	struct handle *h = handle_find(m, c->event.fh);

	if (h == NULL || h->kind != HANDLE_VIRTUAL || c->event.offset < 0) {
		call_status(m, c, EBADF);
		return;
	}
	if (c->event.offset == 0) {
		buffer_reset(&h->edited);
		status_text(m, &h->edited);
	}
	call_data(m, c, bytes_slice(buffer_view(&h->edited), c->event.offset, c->event.size));
}

static int
virtual_access(const struct mount_event *e)
{
	if (e->flags & W_OK)
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
		call_attr(m, c, &s);
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
