/* .cell/txn: a process writes a transaction as lines into a descriptor, and has it committed by
 * fsync, by its close, or by a read; a read of the same descriptor then shows what came of it. That
 * text begins where the read begins, like that of .cell/check. */
#include <string.h>

#include "fs/mount/internal.h"
#include "fs/mount/transaction_text.h"

/* True if a transaction was written, also one that is too long, and is not answered yet. */
static bool
is_pending(const struct handle *h)
{
	return (h->sequencer.len > 0 || h->refused != 0) && h->edited.len == 0;
}

unsigned
transaction_wants(const struct handle *h)
{
	return is_pending(h) ? WANTS_FATE : 0;
}

/* ---- the answer ---- */

static void
put_line(struct buffer *to, const struct transaction_line *l)
{
	buffer_printf(to, "%u %.*s %.*s", l->number, (int)l->word.len, (const char *)l->word.data,
	              (int)l->path.len, (const char *)l->path.data);
}

static void
put_done(struct buffer *to, const struct transaction_text *t, const struct result_transaction *r)
{
	struct cursor from = cursor_of(r->done.packed);
	struct step_done d;

	while (wire_next_step_done(&from, &d)) {
		if (d.step == 0 || d.step > t->n)
			continue;
		put_line(to, &t->lines[d.step - 1]);
		if (d.generation != 0)
			buffer_printf(to, " generation %llu", (unsigned long long)d.generation);
		if (d.fence != 0)
			buffer_printf(to, " fence %llu", (unsigned long long)d.fence);
		buffer_printf(to, "\n");
	}
}

static void
put_answer(struct buffer *to, const struct transaction_text *t, const struct client_answer *a)
{
	const struct result_transaction *r = &a->result.transaction;
	static const char *const parts[] =
	    {[PART_NONE] = "nothing", [PART_FIRST] = "done", [PART_ELSE] = "else"};

	buffer_printf(to, "%s %llu\n", r->part <= PART_ELSE ? parts[r->part] : "nothing",
	              (unsigned long long)a->index);
	if (r->condition != 0 && r->condition <= t->n) {
		put_line(to, &t->lines[r->condition - 1]);
		buffer_printf(to, ": does not hold\n");
	}
	if (r->failed != 0 && r->failed <= t->n) {
		put_line(to, &t->lines[r->failed - 1]);
		buffer_printf(to, ": %s\n", rc_text(r->rc));
	}
	put_done(to, t, r);
}

/* ---- locks and deleted nodes ---- */

/* The acquisitions of a transaction have owners and numbers that follow each other. A lock that it
 * has taken is that of `user.ls.lock`: it belongs to the user, not to the descriptor. The kernel is
 * not told that the name of a deleted node is gone, as it is by the answer of an unlink(2). */
static void
take_done(struct mount *m, struct call *c, const struct transaction_text *t,
          const struct result_transaction *r)
{
	struct cursor from = cursor_of(r->done.packed);
	struct mount_lock *l;
	struct step_done d;
	struct inode *i;

	while (wire_next_step_done(&from, &d)) {
		uint64_t nth = 0;

		if (d.step == 0 || d.step > t->n)
			continue;
		if (t->lines[d.step - 1].op.code == OP_delete &&
		    (i = inode_find(m, d.node)) != NULL)
			name_deleted(m, i);
		if (d.fence == 0 || mount_session_lost(m, c->session))
			continue;
		for (uint32_t n = 0; n + 1 < d.step; n++)
			nth += t->lines[n].op.code == OP_acquire;
		l = attribute_lock_took(m, d.node, c->event.uid, c->target + nth,
		                        c->acquisition + nth);
		if (call_was_repeated(m, c))
			lock_look(m, l);
	}
}

/* ---- commit ---- */

static void
end(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;
	const struct bytes answer = buffer_view(&h->edited);

	if (c->event.kind != MOUNT_READ || answer.len == 0) {
		call_status(m, c, c->error);
		return;
	}
	if (h->answer_at < 0 || c->event.offset < h->answer_at)
		h->answer_at = c->event.offset;
	call_data(m, c, bytes_slice(answer, c->event.offset - h->answer_at, c->event.size));
}

static void
heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	struct transaction_text *t = memory_zero(1, sizeof *t);
	struct handle *h = c->handle;

	must(transaction_text_read(t, buffer_view(&h->sequencer)));
	c->error = call_errno(m, c, a);
	h->edited.limit = LIMIT_FRAME;
	if (c->error == 0) {
		put_answer(&h->edited, t, a);
		take_done(m, c, t, &a->result.transaction);
	} else if (a->rc == RC_NOSPC) { /* a quota is an operation's own, which has an answer */
		buffer_printf(&h->edited, "nothing: the disks of most replicas are full\n");
	} else if (a->rc == RC_INVAL || a->rc == RC_FULL || a->rc == RC_FBIG) {
		buffer_printf(&h->edited, "refused: %s\n", rc_text(a->rc));
	} else {
		buffer_printf(&h->edited, "unknown: %s\n", rc_text(a->rc));
	}
	transaction_text_free(t);
	free(t);
	end(m, c);
}

static void
send(struct mount *m, struct call *c, struct transaction_text *t)
{
	struct buffer steps = BUFFER(LIMIT_ENTRY);
	struct op op = {.code = OP_transaction};
	const struct guard *guards = (const struct guard *)(const void *)c->text.data;

	c->target = m->locks.next_owner + 1;
	c->acquisition = m->locks.next_acquisition + 1;
	for (uint32_t i = 0; i < t->n; i++) {
		struct transaction_line *l = &t->lines[i];

		if (l->step.kind == STEP_HELD)
			l->step.guard = *guards++;
		if (l->op.code != OP_acquire)
			continue;
		lock_number(m, &l->op.acquire.acquire);
		l->op.acquire.acquire.delay_s = -1;
		l->op.acquire.acquire.default_delay_s = m->config.lock_delay_s;
		l->op.acquire.acquire.pid = (uint32_t)c->event.pid;
	}
	op.transaction.steps = transaction_text_steps(t, &steps);
	must(!steps.failed);
	call_ask(m, c, &op, heard);
	buffer_free(&steps);
}

static void next_sequencer(struct mount *m, struct call *c);

/* The cell says which acquisition the sequencer is for. A stale or forged one stands for a lock
 * that nobody holds: there is no node of that number. */
static void
checked(struct mount *m, struct call *c, const struct client_answer *a)
{
	struct guard guard = a->result.checked.guard;
	struct buffer guards = BUFFER(LIMIT_ENTRY);

	c->error = call_errno(m, c, a);
	if (c->error != 0 || c->answered) {
		call_status(m, c, c->error);
		return;
	}
	if (a->result.checked.why.len > 0)
		guard = (struct guard){.node = UINT64_MAX};
	buffer_put_bytes(&guards, c->text);
	buffer_put(&guards, &guard, sizeof guard);
	free((void *)c->text.data);
	c->text = buffer_take(&guards);
	next_sequencer(m, c);
}

/* Asks about the next sequencer that a condition names; when all are known, commits. */
static void
next_sequencer(struct mount *m, struct call *c)
{
	struct transaction_text *t = memory_zero(1, sizeof *t);
	struct op op = {.code = OP_check_sequencer};
	size_t known = c->text.len / sizeof(struct guard);
	uint32_t i = 0;

	must(transaction_text_read(t, buffer_view(&c->handle->sequencer)));
	while (i < t->n && (t->lines[i].step.kind != STEP_HELD || known-- > 0))
		i++;
	if (i == t->n) {
		send(m, c, t);
	} else if (t->lines[i].sequencer.len > LIMIT_SEQUENCER) {
		call_status(m, c, EINVAL);
	} else {
		op.check_sequencer.sequencer = t->lines[i].sequencer;
		call_ask(m, c, &op, checked);
	}
	transaction_text_free(t);
	free(t);
}

/* Forgets the lines of the last transaction. */
static void
begin(struct handle *h)
{
	buffer_reset(&h->sequencer);
	h->refused = 0;
}

static bool
is_reserved(struct bytes path)
{
	const uint8_t *name = memrchr(path.data, '/', path.len);

	if (name == NULL)
		return false;
	name++;
	return virtual_beside((struct bytes){name, path.len - (size_t)(name - path.data)}) != 0;
}

/* A node of a reserved name would be hidden behind the file of .cell. */
static bool
names_allowed(struct transaction_text *t)
{
	for (uint32_t i = 0; i < t->n && t->why == NULL; i++) {
		const struct transaction_line *l = &t->lines[i];

		if ((l->op.code == OP_create && is_reserved(l->path)) ||
		    (l->op.code == OP_rename && is_reserved(l->step.new_path))) {
			t->wrong = l->number;
			t->why = "makes a reserved name";
		}
	}
	return t->why == NULL;
}

static void
commit_entered(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;
	struct transaction_text *t;
	bool right;

	if (!is_pending(h)) {
		end(m, c);
		return;
	}
	if (c->event.kind == MOUNT_FLUSH && c->event.fate == FATE_KILLED) {
		begin(h); /* it may not be whole */
		h->writers_n = 0;
		call_status(m, c, 0);
		return;
	}
	h->writers_n = 0;
	h->edited.limit = LIMIT_FRAME;
	if (h->refused != 0) {
		buffer_printf(&h->edited, "refused: more than %d bytes\n", TRANSACTION_TEXT);
		c->error = h->refused;
		end(m, c);
		return;
	}
	t = memory_zero(1, sizeof *t);
	right = transaction_text_read(t, buffer_view(&h->sequencer)) && names_allowed(t);
	if (!right)
		buffer_printf(&h->edited, "refused: line %u %s\n", t->wrong, t->why);
	transaction_text_free(t);
	free(t);
	if (right) {
		next_sequencer(m, c);
	} else {
		c->error = EINVAL;
		end(m, c);
	}
}

void
transaction_commit(struct mount *m, struct call *c)
{
	const struct handle *h = c->handle;

	/* A child that closes what it has inherited has not written it. */
	if (c->event.kind == MOUNT_FLUSH &&
	    (!is_pending(h) || !buffer_written_by(h, c->event.lock_owner, c->event.pid))) {
		call_status(m, c, 0);
		return;
	}
	handle_enter(m, c, commit_entered);
}

/* ---- writing ---- */

/* The first write after an answer begins another transaction. */
static void
write_entered(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;

	if (h->edited.len > 0)
		begin(h);
	buffer_reset(&h->edited);
	h->answer_at = -1;
	buffer_note_writer(h, &c->event);
	h->sequencer.limit = TRANSACTION_TEXT;
	buffer_put_bytes(&h->sequencer, c->event.data);
	if (h->sequencer.failed)
		h->refused = EFBIG; /* the lines that it has are not all */
	if (h->refused != 0)
		call_status(m, c, h->refused);
	else
		call_count(m, c, c->event.data.len);
}

void
transaction_write(struct mount *m, struct call *c)
{
	handle_enter(m, c, write_entered);
}
