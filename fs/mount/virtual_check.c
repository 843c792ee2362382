/* .cell/check: a process writes a sequencer into a descriptor, and reads through the same one
 * whether it is valid. The answer begins where the read begins, because a descriptor that was
 * written to stands behind what it has written. A read at offset 0 asks again. */
#include "fs/mount/internal.h"

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

static struct bytes
without_newline(struct bytes text)
{
	while (text.len > 0 && text.data[text.len - 1] == '\n')
		text.len--;
	return text;
}

static void
read_entered(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;
	struct op op = {.code = OP_check_sequencer};

	if (h->edited.len > 0 && c->event.offset > 0) {
		virtual_text(m, c, h->answer_at);
		return;
	}
	op.check_sequencer.sequencer = without_newline(buffer_view(&h->sequencer));
	if (op.check_sequencer.sequencer.len > 0)
		call_ask(m, c, &op, check_heard);
	else
		call_status(m, c, EINVAL);
}

void
virtual_check_read(struct mount *m, struct call *c)
{
	handle_enter(m, c, read_entered);
}

/* The first write behind an answer begins another sequencer. */
static void
write_entered(struct mount *m, struct call *c)
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

void
virtual_check_write(struct mount *m, struct call *c)
{
	handle_enter(m, c, write_entered);
}
