/* The virtual directory /.cell. Only reads of `changes`, `locks` and `check`, and commits of `txn`,
 * wait for the cell, and reads of `changes` and `events` for what happens next. */
#include <fcntl.h>
#include <string.h>
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
    {"changes", MOUNT_INO_CHANGES, S_IFREG | 0444}, {"check", MOUNT_INO_CHECK, S_IFREG | 0666},
    {"events", MOUNT_INO_EVENTS, S_IFREG | 0444},   {"locks", MOUNT_INO_LOCKS, S_IFREG | 0444},
    {"metrics", MOUNT_INO_METRICS, S_IFREG | 0444}, {"status", MOUNT_INO_STATUS, S_IFREG | 0444},
    {"txn", MOUNT_INO_TXN, S_IFREG | 0666},
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

uint64_t
virtual_beside(struct bytes name)
{
	static const char beside[] = ".cell:";
	const size_t n = strlen(beside);

	if (name.len <= n || memcmp(name.data, beside, n) != 0)
		return 0;
	return virtual_named((struct bytes){name.data + n, name.len - n});
}

static mode_t
mode_of(uint64_t ino)
{
	for (size_t i = 0; i < FILES; i++)
		if (files[i].ino == ino)
			return files[i].mode;
	return S_IFDIR | 0555;
}

static bool
is_writable(uint64_t ino)
{
	return (mode_of(ino) & S_IWUSR) != 0;
}

/* ---- status ---- */

static void
put_seconds(struct buffer *to, const char *key, mono_t now, mono_t end)
{
	int64_t ms = mono_before(now, end) ? span_to_ms(mono_since(end, now)) : 0;

	buffer_printf(to, "%s: %lld.%03lld\n", key, (long long)(ms / 1000), (long long)(ms % 1000));
}

void
virtual_status_text(const struct mount *m, struct buffer *to)
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
		virtual_status_text(m, to);
}

/* The sizes of the other files are not known before they are read. */
struct mount_stat
virtual_stat(struct mount *m, uint64_t ino)
{
	struct mount_stat s = {.ino = ino, .nlink = 1};
	struct buffer text = BUFFER(LIMIT_FRAME);

	s.mode = mode_of(ino) & ~m->config.umask;
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

/* ---- directory and handles ---- */

static void
virtual_opendir(struct mount *m, struct call *c)
{
	struct handle *h = handle_new(m, NULL, c, (struct client_rights){0});

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
virtual_open(struct mount *m, struct call *c)
{
	const int flags = c->event.flags;
	struct handle *h;

	if (c->event.ino == MOUNT_INO_CELL) {
		call_status(m, c, EISDIR);
		return;
	}
	if (((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC)) && !is_writable(c->event.ino)) {
		call_status(m, c, EACCES);
		return;
	}
	h = handle_new(m, NULL, c, (struct client_rights){0});
	if (c->event.ino == MOUNT_INO_EVENTS)
		event_stream_open(m, h);
	call_opened(m, c, h->fh);
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

/* The text is made by a read at offset 0, and by the first one: further reads continue it. */
static bool
reads_on(const struct call *c)
{
	return c->event.offset != 0 && c->handle->edited.len > 0;
}

/* Answers a read with its part of the handle's text, which begins at the offset `from`. */
static void
virtual_text(struct mount *m, struct call *c, int64_t from)
{
	struct bytes text = buffer_view(&c->handle->edited);

	call_data(m, c, bytes_slice(text, c->event.offset - from, c->event.size));
}

/* ---- the file check ---- */

/* .cell/check: a process writes a sequencer into a descriptor, and reads through the same one
 * whether it is valid. The answer begins where the read begins, because the offset of a descriptor
 * that was written to is after what it has written. A read at offset 0 asks again. */

static void
check_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	const struct bytes why = a->result.checked.why;
	struct handle *h = c->handle;
	int error = call_errno(m, c, a);

	if (error) {
		call_status(m, c, error);
		return;
	}
	buffer_reset(&h->edited);
	if (why.len == 0)
		buffer_printf(&h->edited, "valid\n");
	else
		buffer_printf(&h->edited, "stale: %.*s\n", (int)why.len, (const char *)why.data);
	h->answer_at = c->event.offset;
	virtual_text(m, c, h->answer_at);
}

static void
check_entered(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;
	struct bytes text = buffer_view(&h->sequencer);
	struct op op = {.code = OP_check_sequencer};

	if (reads_on(c)) {
		virtual_text(m, c, h->answer_at);
		return;
	}
	while (text.len > 0 && text.data[text.len - 1] == '\n')
		text.len--;
	op.check_sequencer.sequencer = text;
	if (text.len > 0)
		call_ask(m, c, &op, check_heard);
	else
		call_status(m, c, EINVAL);
}

/* The first write after an answer begins another sequencer. */
static void
sequencer_entered(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;

	if (h->edited.len > 0)
		buffer_reset(&h->sequencer);
	buffer_reset(&h->edited);
	if (h->sequencer.len + c->event.data.len > LIMIT_SEQUENCER + 1) {
		call_status(m, c, EFBIG);
		return;
	}
	buffer_put_bytes(&h->sequencer, c->event.data);
	call_count(m, c, c->event.data.len);
}

/* ---- the file locks ---- */

/* .cell/locks: every lock that is held, delayed or awaited, in the order of the nodes. The cell is
 * asked for one lock after the other, so each is shown as it was at one moment. */

static void
put_lock(struct buffer *to, const struct result_queue *q)
{
	struct cursor holders = cursor_of(q->holders.packed);
	struct cursor waiters = cursor_of(q->waiters.packed);
	struct lock_holder h;
	struct lock_waiter w;

	buffer_printf(to, "%spath: %.*s\nlock: ", to->len ? "\n" : "", (int)q->path.len,
	              (const char *)q->path.data);
	lock_text_state(to, q->state, q->holders.count, q->delay_left_s);
	buffer_printf(to, "\n");
	if (q->state == LOCK_STATE_SHARED && q->delay_left_s > 0)
		buffer_printf(to, "delay: %lld\n", (long long)q->delay_left_s);
	while (wire_next_lock_holder(&holders, &h)) {
		buffer_printf(to, "holder: ");
		lock_text_holder(to, &h, q->now_ns);
		buffer_printf(to, "\n");
	}
	while (wire_next_lock_waiter(&waiters, &w)) {
		buffer_printf(to, "waiter: ");
		lock_text_waiter(to, &w, q->now_ns);
		buffer_printf(to, "\n");
	}
}

static void
ask_next(struct mount *m, struct call *c, uint64_t after, call_then *then)
{
	struct op op = OPERATION(get_queue, .node = after, .next = 1);

	call_ask(m, c, &op, then);
}

static void
queue_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	const struct result_queue *q = &a->result.queue;
	struct handle *h = c->handle;
	int error = call_errno(m, c, a);

	if (error == 0 && q->node != 0 && q->path.len > 0)
		put_lock(&h->edited, q);
	if (h->edited.failed)
		error = EFBIG;
	if (error != 0 || c->answered)
		call_status(m, c, error);
	else if (q->node != 0)
		ask_next(m, c, q->node, queue_heard);
	else
		virtual_text(m, c, 0);
}

static void
locks_entered(struct mount *m, struct call *c)
{
	if (reads_on(c)) {
		virtual_text(m, c, 0);
		return;
	}
	buffer_reset(&c->handle->edited);
	c->handle->edited.limit = LIMIT_FRAME;
	ask_next(m, c, 0, queue_heard);
}

/* ---- locks for people ---- */

void
lock_text_state(struct buffer *to, enum lock_state state, uint32_t holders, int64_t delay_s)
{
	switch (state) {
	case LOCK_STATE_FREE:
		buffer_printf(to, "free");
		break;
	case LOCK_STATE_SHARED:
		buffer_printf(to, "shared %u", holders);
		break;
	case LOCK_STATE_EXCLUSIVE:
		buffer_printf(to, "exclusive");
		break;
	case LOCK_STATE_DELAYED:
		buffer_printf(to, "delayed %lld", (long long)delay_s);
		break;
	}
}

void
lock_text_waiter(struct buffer *to, const struct lock_waiter *w, int64_t now_ns)
{
	int64_t seconds = (now_ns - w->since_ns) / 1000000000;

	buffer_printf(to, "%llu %.*s %.*s ", (unsigned long long)w->session, (int)w->principal.len,
	              (const char *)w->principal.data, (int)w->host.len,
	              (const char *)w->host.data);
	if (w->pid)
		buffer_printf(to, "%u", w->pid);
	else
		buffer_printf(to, "-");
	buffer_printf(to, " %s %lld", w->mode == LOCK_SHARED ? "shared" : "exclusive",
	              seconds > 0 ? (long long)seconds : 0);
}

void
lock_text_holder(struct buffer *to, const struct lock_holder *h, int64_t now_ns)
{
	const struct lock_waiter same = {
	    .session = h->session,
	    .mode = h->mode,
	    .since_ns = h->since_ns,
	    .pid = h->pid,
	    .host = h->host,
	    .principal = h->principal,
	};

	lock_text_waiter(to, &same, now_ns);
	if (h->slot >= 0)
		buffer_printf(to, " slot %lld", (long long)h->slot);
}

/* ---- calls ---- */

static void
state_read(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;

	if (!reads_on(c)) {
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
		handle_enter(m, c, check_entered);
	else if (c->event.ino == MOUNT_INO_TXN)
		transaction_commit(m, c);
	else if (c->event.ino == MOUNT_INO_CHANGES)
		change_file_read(m, c);
	else if (c->event.ino == MOUNT_INO_LOCKS)
		handle_enter(m, c, locks_entered);
	else if (c->handle->stream)
		event_stream_read(m, c);
	else
		state_read(m, c);
}

/* The calls whose inode is virtual; handlers with VIRTUAL_TOO check for themselves. */
void
virtual_call(struct mount *m, struct call *c)
{
	struct mount_stat s;
	bool refused;

	switch (c->event.kind) {
	case MOUNT_GETATTR:
		s = virtual_stat(m, c->event.ino);
		call_attr(m, c, &s, (span_t){0});
		break;
	case MOUNT_ACCESS:
		refused = (c->event.flags & W_OK) && !is_writable(c->event.ino);
		refused |= (c->event.flags & X_OK) && c->event.ino != MOUNT_INO_CELL;
		call_status(m, c, refused ? EACCES : 0);
		break;
	case MOUNT_OPEN:
		virtual_open(m, c);
		break;
	case MOUNT_READ:
		virtual_read(m, c);
		break;
	case MOUNT_WRITE:
		if (!refer_handle(m, c))
			break;
		if (c->event.ino == MOUNT_INO_CHECK)
			handle_enter(m, c, sequencer_entered);
		else if (c->event.ino == MOUNT_INO_TXN)
			transaction_write(m, c);
		else
			call_status(m, c, EBADF);
		break;
	case MOUNT_OPENDIR:
		virtual_opendir(m, c);
		break;
	case MOUNT_READDIR:
		virtual_readdir(m, c);
		break;
	case MOUNT_FLUSH:
	case MOUNT_FSYNC:
		if (c->event.ino != MOUNT_INO_TXN)
			call_status(m, c, 0);
		else if (refer_handle(m, c))
			transaction_commit(m, c);
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
