/* The target of libFuzzer, and of the replays: arbitrary bytes, of which no use may end the
 * process. Each fuzz_*.c is one. */
#ifndef LSFS_TESTS_FUZZ_H
#define LSFS_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Returns 0; a fault ends the process. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* fuzz_wire: the first byte chooses among these, the rest is the input of the decoder. */
enum fuzz_wire_decoder { FUZZ_FRAME, FUZZ_OP, FUZZ_ENTRY, FUZZ_RESULT };

#endif
