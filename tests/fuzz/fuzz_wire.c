/* Any bytes give a value or an error. A value can be printed, and encodes to the very bytes that it
 * came from: so two replicas that read the same message hold the same message. */
#include "tests/fuzz/fuzz.h"

#include "cell/base/must.h"
#include "cell/wire/codec.h"
#include "cell/wire/shape.h"
#include "tests/unit/wire_print.h"

static void
try_frame(struct bytes input, struct buffer *again, struct buffer *line)
{
	struct message m;

	must(wire_frame_length(input) <= (long)input.len);
	if (wire_get_frame(input, &m) != RC_OK)
		return;
	wire_put_frame(again, &m);
	wire_print_message(line, &m);
	must(bytes_equal(buffer_view(again), input));
}

static void
try_op(struct bytes input, struct buffer *again, struct buffer *line)
{
	struct op op;

	if (wire_get_op(input, &op) != RC_OK)
		return;
	wire_put_op(again, &op);
	wire_print_op(line, &op);
	(void)wire_op_node(&op);
	must(bytes_equal(buffer_view(again), input));
}

static void
try_entry(struct bytes input, struct buffer *again)
{
	struct entry entry;
	struct command command;
	struct cursor c;
	uint32_t n = 0;

	if (wire_get_entry(input, &entry) != RC_OK)
		return;
	wire_put_entry(again, &entry);
	must(bytes_equal(buffer_view(again), input));
	for (c = cursor_of(entry.commands.packed); wire_next_command(&c, &command); n++)
		must(command.op.len <= LIMIT_ENTRY);
	must(n == entry.commands.count);
}

static void
try_result(unsigned kind, struct bytes input, struct buffer *again)
{
	struct result r;

	if (variant_of_result(kind) == NULL || wire_get_result(kind, input, &r) != RC_OK)
		return;
	wire_put_result(again, &r);
	must(bytes_equal(buffer_view(again), input));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct buffer again = BUFFER(LIMIT_FRAME), line = BUFFER(LIMIT_FRAME);
	struct bytes input;

	if (len == 0)
		return 0;
	input = (struct bytes){data + 1, len - 1};
	switch (data[0]) {
	case FUZZ_FRAME:
		try_frame(input, &again, &line);
		break;
	case FUZZ_OP:
		try_op(input, &again, &line);
		break;
	case FUZZ_ENTRY:
		try_entry(input, &again);
		break;
	default:
		try_result(data[0] - FUZZ_RESULT, input, &again);
	}
	buffer_free(&again);
	buffer_free(&line);
	return 0;
}
