/* The lines of a transaction, as a process writes them into .cell/txn. Any text is read, or refused
 * with the number of a line and what is wrong with it; what is read can be sent and decoded. */
#include "tests/fuzz/fuzz.h"

#include "cell/base/must.h"
#include "cell/wire/codec.h"
#include "fs/mount/transaction_text.h"

static void
check_steps(struct transaction_text *t)
{
	struct buffer encoded = BUFFER(LIMIT_ENTRY);
	const struct wire_list steps = transaction_text_steps(t, &encoded);
	struct cursor from;
	struct step step;
	struct op op;

	must(!encoded.failed && steps.count == t->n);
	from = cursor_of(steps.packed);
	for (uint32_t i = 0; i < t->n; i++) {
		must(wire_next_step(&from, &step) && step.kind == t->lines[i].step.kind);
		must(step.kind != STEP_DO || wire_get_op(step.op, &op) == RC_OK);
		must(step.path.len > 0 && step.path.data[0] == '/');
	}
	must(!wire_next_step(&from, &step));
	buffer_free(&encoded);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct transaction_text t;

	if (transaction_text_read(&t, (struct bytes){data, len}))
		check_steps(&t);
	else
		must(t.wrong > 0 && t.why != NULL);
	transaction_text_free(&t);
	return 0;
}
