/* The entry of one command, as the target tree applies it and a seed of the corpus contains it. */
#ifndef LSFS_TESTS_FUZZ_ENTRY_H
#define LSFS_TESTS_FUZZ_ENTRY_H

#include "cell/base/must.h"
#include "cell/wire/codec.h"

/* Appends the payload of the entry. */
static inline void
fuzz_put_entry(struct buffer *payload, uint64_t session, const struct op *op)
{
	struct buffer encoded = BUFFER(LIMIT_ENTRY), commands = encoded;
	struct command command = {.stamp_ns = 1, .session = session};

	wire_put_op(&encoded, op);
	command.op = buffer_view(&encoded);
	wire_put_command(&commands, &command);
	wire_put_entry(payload, &(struct entry){.commands = {buffer_view(&commands), 1}});
	must(!encoded.failed && !commands.failed && !payload->failed);
	buffer_free(&encoded);
	buffer_free(&commands);
}

#endif
